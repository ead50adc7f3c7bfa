"""What was asked and answered is kept where that was asked for, and never at a request's cost."""

import json
import logging
import os
import shutil
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from geniex.server import prompt_log
from geniex.server.prompt_log import PromptLog, open_prompt_log
from geniex_catalogue.errors import UsageError
from tests.geniex.server.conftest import MODEL, Serve
from tests.geniex.server.door import wait_for

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Who is the owl? é"}]}
posix = pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")


def kept(folder: Path) -> list[dict[str, Any]]:
    """Every record, the oldest first."""
    files = sorted(folder.glob("prompts-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., PromptLog]]:
    made: list[PromptLog] = []

    def make(**options: Any) -> PromptLog:
        folder = tmp_path / "prompts"
        folder.mkdir(mode=0o700, exist_ok=True)
        made.append(PromptLog(folder, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


class TestWhatIsKept:
    def test_a_chat_and_its_answer(self, serve: Serve, opened: Any) -> None:
        log = opened()
        client = serve(prompts=log).client
        headers = {"x-request-id": "mine-1", "authorization": "Bearer hidden", "cookie": "hidden"}
        answer = client.post("/v1/chat/completions?key=hidden", json=CHAT, headers=headers).json()
        log.close()
        (record,) = kept(log.folder)
        assert record["request"] == CHAT and record["answer"] == answer
        assert (record["request_id"], record["status"]) == ("mine-1", 200)
        assert record["route"] == "/v1/chat/completions" and record["model"] == MODEL
        assert "hidden" not in json.dumps(record)

    def test_a_stream_is_its_events(self, serve: Serve, opened: Any) -> None:
        log = opened()
        serve(prompts=log).client.post("/v1/chat/completions", json={**CHAT, "stream": True})
        log.close()
        (record,) = kept(log.folder)
        *chunks, done = record["events"]
        assert done == "[DONE]" and "answer" not in record
        text = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks)
        assert text == "Hello, world!"

    @pytest.mark.parametrize(
        ("body", "status"),
        [(b"{not json", 400), (b"[" * 5000, 400), (b"\xff\xfe", 400), (b"", 400)],
        ids=["broken", "deep", "no-utf8", "empty"],
    )
    def test_what_cannot_be_read_is_kept_as_text(
        self, serve: Serve, opened: Any, body: bytes, status: int
    ) -> None:
        log = opened()
        headers = {"content-type": "application/json"}
        serve(prompts=log).client.post("/v1/completions", content=body, headers=headers)
        log.close()
        (record,) = kept(log.folder)
        assert record["status"] == status
        assert record["request"] == (body.decode("utf-8", "replace") or None)
        assert record["answer"]["error"]["message"]

    def test_who_only_looks_is_not_kept(self, serve: Serve, opened: Any) -> None:
        log = opened()
        client = serve(prompts=log).client
        for path in ("/v1/models", "/metrics", "/health"):
            client.get(path)
        log.close()
        assert kept(log.folder) == []

    def test_nothing_by_default(self, serve: Serve, tmp_path: Path) -> None:
        serve().client.post("/v1/chat/completions", json=CHAT)
        assert not [*tmp_path.rglob("prompts*")]

    def test_sides_are_bounded(
        self, serve: Serve, opened: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("geniex.server.recording.MOST_SIDE", 10)
        log = opened()
        serve(prompts=log).client.post("/v1/chat/completions", json=CHAT)
        log.close()
        (record,) = kept(log.folder)
        assert len(record["request"]) == 10 and record["request_cut"] and record["answer_cut"]


class TestFiles:
    @posix
    def test_they_are_for_their_owner_alone(self, tmp_path: Path) -> None:
        before = os.umask(0)
        try:
            log = open_prompt_log(tmp_path / "deep" / "prompts")
        finally:
            os.umask(before)
        log.put({}, b"{}", b"{}")
        log.close()
        (file,) = log.folder.iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(log.folder.stat().st_mode) == 0o700

    @posix
    def test_a_link_in_their_place_is_not_followed(self, opened: Any, tmp_path: Path) -> None:
        log = opened()
        elsewhere = tmp_path / "elsewhere"
        (log.folder / log._name()).symlink_to(elsewhere)
        log.put({}, b"{}", b"{}")
        log.close()
        assert not elsewhere.exists()

    @posix
    def test_a_folder_that_others_may_enter_is_told_of(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        tmp_path.chmod(0o755)
        open_prompt_log(tmp_path).close()
        assert "others may look into" in caplog.text

    def test_a_folder_that_cannot_be_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(UsageError, match="--log-prompts"):
            open_prompt_log(tmp_path / "file" / "prompts")

    def test_they_are_bounded_one_by_one_and_together(self, opened: Any) -> None:
        log = opened(most_file=100, most_all=350)
        for index in range(12):
            log.put({"n": index}, b"x" * 60, b"")
        log.close()
        files = [*log.folder.iterdir()]
        assert sum(file.stat().st_size for file in files) <= 350 + 100
        found = [record["n"] for record in kept(log.folder)]
        assert found and sorted(found)[-1] == 11 and 0 not in found

    def test_other_files_are_left_alone(self, opened: Any) -> None:
        log = opened(most_file=10, most_all=10)
        (log.folder / "prompts-mine.jsonl").write_text("x" * 1000)
        for _ in range(3):
            log.put({}, b"x" * 60, b"")
        log.close()
        assert (log.folder / "prompts-mine.jsonl").exists()


class TestFailures:
    def test_a_folder_that_has_gone_and_come_back(
        self, serve: Serve, opened: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.WARNING, "geniex.server.prompts")
        log = opened()
        client = serve(prompts=log).client
        shutil.rmtree(log.folder)
        for _ in range(3):
            assert client.post("/v1/chat/completions", json=CHAT).status_code == 200
        wait_for(lambda: log._lost == 3)
        assert caplog.text.count("prompts are not kept") == 1
        log.folder.mkdir()
        assert client.post("/v1/chat/completions", json=CHAT).status_code == 200
        log.close()
        assert len(kept(log.folder)) == 1
        assert "of 3 requests they were not" in caplog.text

    def test_a_full_disk_leaves_no_half_line(
        self, opened: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        log = opened()
        log.put({"n": 0}, b"{}", b"{}")
        wait_for(lambda: len(kept(log.folder)) == 1)

        def full(descriptor: int, data: bytes) -> None:
            os.write(descriptor, data[:5])
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(prompt_log, "_write_all", full)
            log.put({"n": 1}, b"{}", b"{}")
            wait_for(lambda: log._lost == 1)
        log.put({"n": 2}, b"{}", b"{}")
        log.close()
        assert [record["n"] for record in kept(log.folder)] == [0, 2]
        assert "No space left" in caplog.text

    @pytest.mark.parametrize(
        ("size", "most"),
        [(0, 10), (prompt_log.RECORD, 5), (10 * prompt_log.RECORD, 0)],
        ids=["empty ones", "as large as a record", "too large ones"],
    )
    def test_what_waits_is_bounded(
        self, opened: Any, monkeypatch: pytest.MonkeyPatch, size: int, most: int
    ) -> None:
        hangs, goes_on = threading.Event(), threading.Event()

        def hang(descriptor: int, data: bytes) -> None:
            hangs.set()
            goes_on.wait(30)

        monkeypatch.setattr(prompt_log, "_write_all", hang)
        log = opened(most_waiting=10 * prompt_log.RECORD)
        log.put({}, b"", b"")
        assert hangs.wait(30)
        for _ in range(50):
            log.put({}, b"x" * size, b"")
        waiting, lost = len(log._waiting), log._lost
        goes_on.set()
        assert (waiting, lost) == (most, 50 - most)
