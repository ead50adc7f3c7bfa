"""`--mlock`: weights are locked, whoever has to do it, or that is an error."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from geniex_catalogue.errors import LoadError
from geniex_runtimes.llama_cpp import library, locked_memory
from tests.geniex_runtimes.llama_cpp.answers import answer, load, turn

ASKED = turn("Tell me about the owl.")
# loads a model whose weights llama.cpp does not lock; prints how many bytes are, or the hint
_LOCKING = """
import sys
from pathlib import Path
from geniex_catalogue.errors import LoadError
from geniex_runtimes.llama_cpp import locked_memory, weights
from tests.geniex_runtimes.llama_cpp.answers import load

weights._load_mode = lambda api, **_: api.LLAMA_LOAD_MODE_NONE
try:
    with load(Path(sys.argv[1]), mlock=True, mmap=False):
        print(locked_memory.locked())
except LoadError as exc:
    print(exc.hint)
"""


class TestMlock:
    def test_weights_are_locked(self, tiny_chat: Path) -> None:
        before = _locked()
        if before is None:
            pytest.skip("only Linux tells what is locked")
        try:
            with load(tiny_chat, mlock=True) as model:
                locked = _locked() or 0
                assert answer(model, ASKED, max_tokens=2).text
        except LoadError as exc:
            # what the limit of this machine forbids is the error that it is meant to be
            assert "ulimit -l" in str(exc.hint)
            return
        assert locked - before >= tiny_chat.stat().st_size * 0.9

    @pytest.mark.parametrize(
        "line",
        [
            "warning: failed to mlock 33669120-byte buffer (after previously locking 0 bytes): "
            "Cannot allocate memory\nTry increasing RLIMIT_MEMLOCK ('ulimit -l' as root).\n",
            "warning: failed to VirtualLock 123456789-byte buffer (after locking 0 bytes): no\n",
            "warning: mlock not supported on this system\n",
        ],
        ids=["linux", "windows", "elsewhere"],
    )
    def test_a_limit_is_an_error(
        self, tiny_chat: Path, monkeypatch: pytest.MonkeyPatch, line: str
    ) -> None:
        native = library.load()
        really = native.api.llama_model_load_from_file

        def loading(path: bytes, params: Any) -> Any:
            native._on_log(3, line.encode(), None)
            return really(path, params)

        monkeypatch.setattr(native.api, "llama_model_load_from_file", loading)
        with load(tiny_chat) as model:
            assert model.info.name, "without the flag it is nobody's business"
        with pytest.raises(LoadError, match="`--mlock`: the system does not keep") as caught:
            load(tiny_chat, mlock=True)
        assert "ulimit -l" in str(caught.value.hint)
        assert "\n" not in caught.value.message and "Try increasing" not in caught.value.message

    def test_a_page_too_many_is_no_failure(
        self, tiny_chat: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if _locked() is None:
            pytest.skip("only Linux tells what is locked")
        native = library.load()
        really = native.api.llama_model_load_from_file
        line = (
            b"warning: failed to mlock 3000000-byte buffer (after previously locking 0 bytes): "
            b"Cannot allocate memory\n"
        )

        def loading(path: bytes, params: Any) -> Any:
            native._on_log(3, line, None)
            return really(path, params)

        monkeypatch.setattr(native.api, "llama_model_load_from_file", loading)
        try:
            with load(tiny_chat, mlock=True) as model:
                assert model.info.name
        except LoadError:
            # only a limit that forbids all of it may
            assert _limit() < tiny_chat.stat().st_size

    def test_memory_that_only_we_can_lock(self, tiny_chat: Path) -> None:
        """What is repacked is not locked by llama.cpp: here it stands for that, all of it."""
        if _locked() is None:
            pytest.skip("only Linux tells what is locked")
        # in a process of its own: where much was freed before, small weights go to no new memory
        child = [sys.executable, "-c", _LOCKING, str(tiny_chat)]
        done = subprocess.run(child, capture_output=True, text=True, timeout=60, check=True)
        size = tiny_chat.stat().st_size
        if "ulimit -l" in done.stdout:
            assert _limit() < 8 * size
        else:
            assert int(done.stdout) >= size * 0.9

    def test_memory_that_we_cannot_lock(
        self, tiny_chat: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(locked_memory, "lock", lambda areas: "no way")
        with pytest.raises(LoadError, match="in memory: no way"):
            load(tiny_chat, mlock=True, mmap=False)


def _locked() -> int | None:
    """Bytes that this process has locked; None where the system does not tell."""
    status = Path("/proc/self/status")
    lines: Sequence[str] = status.read_text().splitlines() if status.exists() else ()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmLck:")), None)


def _limit() -> int:
    import resource

    return resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
