"""A folder of kept prefixes: what goes there, what comes back, and who else may be there."""

import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from geniex_runtimes.llama_cpp import keeping
from geniex_runtimes.llama_cpp.kept_prefixes import KeptPrefixes
from geniex_runtimes.llama_cpp.prefix_file import Head, Snapshot, tokens_of
from geniex_runtimes.llama_cpp.runtime import LlamaCppModel
from geniex_runtimes.options import PrefixCache
from tests.geniex_runtimes.llama_cpp.answers import Result, answer, load

HYBRID = Path(__file__).parents[2] / "data" / "models" / "q35-mix-q8.gguf"
COMMON = [5 + index * 7 % 200 for index in range(280)]
ONE = [*COMMON, *range(300, 330)]
OTHER = [*COMMON, *range(400, 430)]
FACTS = {"build": "a build", "model": "a model", "context": "options"}


@contextmanager
def keeping_in(folder: Path | None, model: Path, **options: object) -> Iterator[LlamaCppModel]:
    cache = PrefixCache(folder=folder) if folder is not None else None
    with load(model, prefix_cache=cache, **options) as loaded:
        yield loaded


def ask(model: LlamaCppModel, prompt: list[int], **fields: object) -> Result:
    return answer(model, prompt, max_tokens=8, logprobs=0, **fields)


def going_on(first: Result) -> list[int]:
    """The next prompt of the chat that ONE began."""
    return [*ONE, *(one.token for one in first.logprobs), *range(100, 112)]


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.prefix"))


def snapshot(first: int, count: int = 300, size: int = 1000) -> Snapshot:
    """Made up, with a state that tells which tokens it belongs to."""
    tokens = tokens_of(range(first, first + count))
    return Snapshot(tokens, np.full(size, first % 251, np.uint8))


def everything(head: Head, shared: int) -> float:
    return shared


@pytest.mark.parametrize("which", ["sliding-window", "hybrid"])
def test_an_unloaded_chat_goes_on_after_a_restart(
    which: str, tiny_chat: Path, tmp_path: Path
) -> None:
    model = tiny_chat if which == "sliding-window" else HYBRID
    with keeping_in(tmp_path / "kept", model, slots=2) as loaded:
        first = ask(loaded, ONE)
    longer = going_on(first)
    with keeping_in(tmp_path / "kept", model, slots=2) as loaded:
        warm = ask(loaded, longer)
        profile = warm.done.profile
        # the second answer goes on from the slot
        later = [*longer, *(one.token for one in warm.logprobs), 3]
        assert ask(loaded, later).done.profile.restored_tokens == 0
    assert profile.restored_tokens == profile.cached_tokens > len(ONE)
    with keeping_in(None, model, slots=2) as loaded:
        assert ask(loaded, longer).text == warm.text


def test_it_goes_on_after_any_number_of_restarts(tiny_chat: Path, tmp_path: Path) -> None:
    prompt = ONE
    for restart in range(4):
        with keeping_in(tmp_path / "kept", tiny_chat) as loaded:
            result = ask(loaded, prompt)
        assert bool(result.done.profile.restored_tokens) is bool(restart)
        prompt = [*prompt, *(one.token for one in result.logprobs), *range(100, 112)]


def test_what_prompts_have_in_common_serves_a_third_one(tiny_chat: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with keeping_in(folder, tiny_chat) as loaded:
        ask(loaded, ONE)
        ask(loaded, OTHER)
    third = [*COMMON, *range(500, 530)]
    with keeping_in(folder, tiny_chat) as loaded:
        warm = ask(loaded, third)
    assert warm.done.profile.restored_tokens == len(COMMON)
    with keeping_in(None, tiny_chat) as loaded:
        assert ask(loaded, third).text == warm.text


def test_a_chat_that_lost_its_slot_comes_back(tiny_chat: Path, tmp_path: Path) -> None:
    backwards = ONE[::-1]
    with keeping_in(tmp_path / "kept", tiny_chat) as loaded:
        first = ask(loaded, ONE)
        ask(loaded, backwards)
        assert wait_for_files(tmp_path / "kept", 1)
        longer = going_on(first)
        again = ask(loaded, longer)
        fresh = ask(loaded, longer, reuse_prefix=False)
    assert again.done.profile.restored_tokens > len(ONE)
    assert fresh.done.profile.cached_tokens == fresh.done.profile.restored_tokens == 0
    assert again.text == fresh.text


def wait_for_files(folder: Path, count: int) -> bool:
    import time

    end = time.monotonic() + 30
    while len(files(folder)) < count and time.monotonic() < end:
        time.sleep(0.005)
    return len(files(folder)) >= count


def test_short_prompts_are_not_kept(tiny_chat: Path, tmp_path: Path) -> None:
    with keeping_in(tmp_path / "kept", tiny_chat) as loaded:
        ask(loaded, COMMON[: keeping.LEAST - 20])
    assert not files(tmp_path / "kept")


def test_what_is_slower_to_read_is_evaluated(
    tiny_chat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with keeping_in(tmp_path / "kept", tiny_chat) as loaded:
        longer = going_on(ask(loaded, ONE))
    monkeypatch.setattr(keeping, "_READING", 1.0)  # a byte per second
    with keeping_in(tmp_path / "kept", tiny_chat) as loaded:
        assert ask(loaded, longer).done.profile.cached_tokens == 0


def test_a_damaged_file_is_removed_and_the_prompt_evaluated(
    tiny_chat: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with keeping_in(tmp_path / "kept", tiny_chat) as loaded:
        longer = going_on(ask(loaded, ONE))
    (file,) = files(tmp_path / "kept")
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    with keeping_in(tmp_path / "kept", tiny_chat) as loaded:
        profile = ask(loaded, longer).done.profile
        assert profile.cached_tokens == profile.restored_tokens == 0
        assert not file.exists()
    assert "checksum is wrong" in caplog.text


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_all_of_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    KeptPrefixes(tmp_path / "kept", 1 << 20, FACTS).write(snapshot(0))
    (file,) = files(tmp_path / "kept")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent, tmp_path / "kept")]
    assert modes == [0o600, 0o700, 0o700]


def test_the_least_recently_used_make_room(tmp_path: Path) -> None:
    one = KeptPrefixes(tmp_path, 12_000, FACTS)
    other = KeptPrefixes(tmp_path, 12_000, FACTS | {"model": "another"})
    for number in range(5):  # 5 of about 2.5 kB
        (one if number % 2 else other).write(snapshot(1000 * number))
        for age, file in enumerate(sorted(files(tmp_path), key=lambda path: path.stat().st_mtime)):
            os.utime(file, (age, age))
    assert sum(file.stat().st_size for file in files(tmp_path)) <= 12_000
    kept = [one.find(snapshot(1000 * number).tokens, everything) for number in (1, 3)]
    assert all(kept)
    assert other.find(snapshot(0).tokens, everything) is None
    # used: the other goes
    assert kept[0] is not None
    one.read(kept[0])
    one.write(snapshot(9000))
    assert one.find(snapshot(1000).tokens, everything) is not None


def test_a_smaller_limit_holds_from_the_start(tmp_path: Path) -> None:
    large = KeptPrefixes(tmp_path, 100_000, FACTS)
    for number in range(4):
        large.write(snapshot(1000 * number))
    (tmp_path / "mine.prefix").write_bytes(b"x" * 9000)
    KeptPrefixes(tmp_path, 6_000, FACTS)
    assert len(files(tmp_path)) == 2 and (tmp_path / "mine.prefix").exists()


def test_what_others_have_in_the_folder_stays(tmp_path: Path) -> None:
    mine = [tmp_path / "work" / "sea.prefix", tmp_path / ("0" * 32) / "sea.prefix"]
    for path in mine:
        path.parent.mkdir()
        path.write_bytes(b"x" * 5000)
        os.utime(path, (0, 0))
    kept = KeptPrefixes(tmp_path, 4_000, FACTS)
    for number in range(3):
        kept.write(snapshot(1000 * number))
    assert all(path.exists() for path in mine)


def test_what_is_larger_than_all_may_be_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    KeptPrefixes(tmp_path, 500, FACTS).write(snapshot(0))
    assert not files(tmp_path)
    assert "is not kept" in caplog.text


def test_a_full_disk_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("geniex_catalogue.durable.os.fsync", full)
    kept = KeptPrefixes(tmp_path, 1 << 20, FACTS)
    kept.write(snapshot(0))
    kept.write(snapshot(1000))
    assert caplog.text.count("No space left on device") == 1
    assert not [path for path in tmp_path.glob("*/*") if path.is_file()]


def test_a_folder_that_cannot_be_made_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    kept = KeptPrefixes(tmp_path / "file", 1 << 20, FACTS)
    kept.write(snapshot(0))
    assert kept.find(snapshot(0).tokens, everything) is None
    assert "is not kept" in caplog.text


def test_a_longer_prefix_takes_the_place_of_a_shorter_one(tmp_path: Path) -> None:
    kept = KeptPrefixes(tmp_path, 1 << 20, FACTS)
    kept.write(snapshot(0, 300))
    longer = snapshot(0, 400)
    assert not kept.has(longer.tokens, cuts=True)
    kept.write(longer, kept.within(longer.tokens))
    assert len(files(tmp_path)) == 1
    assert kept.has(snapshot(0, 300).tokens, cuts=True)
    assert not kept.has(snapshot(0, 300).tokens, cuts=False)


def test_half_written_files_of_others_go_in_time(tmp_path: Path) -> None:
    kept = KeptPrefixes(tmp_path, 1 << 20, FACTS)
    kept.write(snapshot(0))
    folder = files(tmp_path)[0].parent
    for name, age in (("old", 10_000), ("new", 0)):
        path = folder / f".{name}.tmp"
        path.write_bytes(b"half")
        at = path.stat().st_mtime - age
        os.utime(path, (at, at))
    kept.write(snapshot(1000))
    assert [path.name for path in folder.glob(".*.tmp")] == [".new.tmp"]


_OTHER = """
import sys
from pathlib import Path
from tests.geniex_runtimes.llama_cpp.test_kept_prefixes import hammer
print(hammer(Path(sys.argv[1]), int(sys.argv[2])))
"""


def hammer(folder: Path, seed: int) -> int:
    """Write, read and make room; how many states came back. Fails where one is not its own."""
    kept = KeptPrefixes(folder, 100_000, FACTS)
    read = 0
    for step in range(60):
        number = int(hashlib.sha256(f"{seed} {step}".encode()).hexdigest(), 16) % 30
        wanted = snapshot(1000 * number, size=8000)
        head = kept.find(wanted.tokens, everything)
        state = kept.read(head) if head is not None else None
        if state is None:
            kept.write(wanted)
        else:
            assert (state.state == 1000 * number % 251).all()
            read += 1
    return read


def test_processes_share_a_folder(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    others = [
        subprocess.Popen(
            [sys.executable, "-c", _OTHER, str(tmp_path), str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )
        for seed in (1, 2)
    ]
    counts = [hammer(tmp_path, 3)]
    for other in others:
        out, err = other.communicate(timeout=60)
        assert other.returncode == 0, err
        assert "Traceback" not in err and "damaged" not in err
        counts.append(int(out))
    assert all(count > 0 for count in counts)
    assert sum(file.stat().st_size for file in files(tmp_path)) <= 3 * 100_000
