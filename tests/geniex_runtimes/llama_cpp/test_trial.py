"""The trial: a pair is tried once, in a child that may die of it."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from geniex_catalogue.errors import LoadError
from geniex_runtimes.errors import SpeculativeError
from geniex_runtimes.llama_cpp import survival, trial
from geniex_runtimes.llama_cpp.speculative.pair import Mode
from geniex_runtimes.llama_cpp.trial import Trial, check


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands in for the package."""
    folder = tmp_path / "llama_cpp"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "libllama.so").write_bytes(b"build one")
    monkeypatch.setattr(survival, "package_folder", lambda: folder)
    return folder


@pytest.fixture
def pair(tmp_path: Path) -> Trial:
    """Two files that nobody loads."""
    target, draft = tmp_path / "target.gguf", tmp_path / "draft.gguf"
    target.write_bytes(b"a target")
    draft.write_bytes(b"a draft")
    return Trial((target,), (draft,), "shared")


class Child:
    """A command that counts how often it runs, then does something."""

    def __init__(self, folder: Path, then: str = "pass") -> None:
        self._marks = folder / "marks"
        code = f"open({str(self._marks)!r}, 'a').write('x')\nimport os, sys, time\n{then}"
        self.command = [sys.executable, "-c", code]

    @property
    def runs(self) -> int:
        return len(self._marks.read_text()) if self._marks.exists() else 0


def refusal(pair: Trial, data_dir: Path | None, child: Child, timeout: float = 30) -> str:
    with pytest.raises(SpeculativeError) as caught:
        check(pair, data_dir, command=child.command, timeout=timeout)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_what_survives_is_tried_once(tmp_path: Path, data_dir: Path, pair: Trial) -> None:
    child = Child(tmp_path)
    for _ in range(3):
        check(pair, data_dir, command=child.command)
    assert child.runs == 1
    assert len(json.loads((data_dir / trial.FILE).read_text())["trials"]) == 1


@pytest.mark.parametrize(
    ("then", "says", "runs"),
    [
        pytest.param(
            "os.abort()",
            "it was killed by SIGABRT",
            1,
            id="abort",
            marks=pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX"),
        ),
        pytest.param("os._exit(3)", "it ended with code 3", 1, id="code"),
        # what the machine may be at fault for is tried again as well
        pytest.param("time.sleep(60)", "no answer within 0.5 s", 2, id="hangs"),
        pytest.param(
            "os.kill(os.getpid(), 9)",
            "it was killed by SIGKILL",
            2,
            id="killed from outside",
            marks=pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX"),
        ),
        # Ctrl-C, and the end of a service, reach the whole group: no fault of the file's
        *(
            pytest.param(
                f"import signal; signal.signal({number}, 0); os.kill(os.getpid(), {number})",
                f"it was killed by {name}",
                2,
                id=name,
                marks=pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX"),
            )
            for name, number in (("SIGHUP", 1), ("SIGINT", 2), ("SIGQUIT", 3), ("SIGTERM", 15))
        ),
        # what Python reports may be another's fault, and is tried again
        pytest.param("sys.exit('no memory')", "failed: no memory", 2, id="python"),
    ],
)
def test_what_fails(
    tmp_path: Path, data_dir: Path, pair: Trial, then: str, says: str, runs: int
) -> None:
    child = Child(tmp_path, then)
    for _ in range(2):
        message = refusal(pair, data_dir, child, 0.5 if "sleep" in then else 30)
        assert message.startswith("a trial of this pair in another process failed: ")
        assert message.endswith(says)
    assert child.runs == runs


def test_a_child_that_does_not_start(data_dir: Path, pair: Trial) -> None:
    with pytest.raises(SpeculativeError, match="it did not start"):
        check(pair, data_dir, command=["/nowhere/python"])


@pytest.mark.parametrize(
    "change",
    ["target", "draft", "time", "mode", "buffers", "compute", "device", "layers", "library"],
)
def test_another_pair_is_tried(
    tmp_path: Path, data_dir: Path, package: Path, pair: Trial, change: str
) -> None:
    child = Child(tmp_path)
    check(pair, data_dir, command=child.command)
    target, draft = pair.target[0], pair.draft[0]
    facts = target.stat()
    if change == "target":
        # as long and as old, and still another file
        target.write_bytes(b"b target")
        os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    elif change == "draft":
        draft.write_bytes(b"another draft")
    elif change == "time":
        os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1_000_000_000))
    elif change == "mode":
        pair = Trial(pair.target, (), "own")
    elif change == "buffers":
        pair = Trial(pair.target, pair.draft, "shared", extra_buffers=False)
    elif change == "compute":
        pair = Trial(pair.target, pair.draft, "shared", compute="npu")
    elif change == "device":
        pair = Trial(pair.target, pair.draft, "shared", devices=("Vulkan0",))
    elif change == "layers":
        pair = Trial(pair.target, pair.draft, "shared", gpu_layers=3)
    else:
        (package / "lib" / "libllama.so").write_bytes(b"build two, longer")
    check(pair, data_dir, command=child.command)
    assert child.runs == 2


def test_a_moved_pair_is_known(tmp_path: Path, data_dir: Path, pair: Trial) -> None:
    child = Child(tmp_path)
    check(pair, data_dir, command=child.command)
    moved = pair.target[0].rename(tmp_path / "moved.gguf")
    check(Trial((moved,), pair.draft, "shared"), data_dir, command=child.command)
    assert child.runs == 1


def test_of_a_large_pair_the_shapes_are_tried(
    tmp_path: Path, data_dir: Path, pair: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Child(tmp_path)
    check(pair, data_dir, command=child.command)
    monkeypatch.setattr(trial, "TRIAL_BYTES", pair.size - 1)
    assert pair.large
    for _ in range(2):
        check(pair, data_dir, command=child.command)
    assert child.runs == 2


def test_without_a_folder_nothing_is_remembered(tmp_path: Path, pair: Trial) -> None:
    child = Child(tmp_path)
    for _ in range(2):
        check(pair, None, command=child.command)
    assert child.runs == 2


def test_a_folder_that_cannot_be_written(
    tmp_path: Path, pair: Trial, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    check(pair, tmp_path / "file" / "data", command=Child(tmp_path).command)
    assert "not remembered" in caplog.text


def test_a_file_that_is_gone(tmp_path: Path, data_dir: Path, pair: Trial) -> None:
    pair.draft[0].unlink()
    assert "cannot be read" in refusal(pair, data_dir, Child(tmp_path))


def test_without_the_package(
    tmp_path: Path, data_dir: Path, pair: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survival, "package_folder", lambda: None)
    assert "not installed" in refusal(pair, data_dir, Child(tmp_path))


def real(folder: Path, target: str, draft: str | None, mode: Mode) -> Trial:
    files = [folder / f"{name}.gguf" for name in (target, draft) if name]
    return Trial((files[0],), tuple(files[1:]), mode)


@pytest.mark.parametrize(
    ("target", "draft", "mode"),
    [
        ("g4-markov-target", "g4-markov-draft", "shared"),
        ("q35-mix", None, "own"),
        ("mimo-mix", None, "chained"),
    ],
)
def test_pairs_that_work(
    toys: Path, data_dir: Path, target: str, draft: str | None, mode: Mode
) -> None:
    check(real(toys, target, draft, mode), data_dir)


@pytest.mark.parametrize("shapes", [False, True], ids=["weights", "shapes"])
@pytest.mark.parametrize(
    ("target", "draft", "mode", "says"),
    [
        pytest.param("g4-markov-target", "g4-bad-out-draft", "shared", "it ", id="hidden-size"),
        pytest.param("g4-markov-target", "g4-bad-kv-heads-draft", "shared", "it ", id="kv-heads"),
        pytest.param("q35-mix", "g4-markov-draft", "shared", "it ", id="architectures"),
        pytest.param("mimo-hollow", None, "chained", "it ", id="hollow-heads"),
        pytest.param("exaone4-heads", None, "own", "llama.cpp could not make", id="no-graph"),
        pytest.param("q35-hollow", None, "own", "llama.cpp could not load", id="does-not-load"),
    ],
)
def test_pairs_that_llama_cpp_dies_of(
    toys: Path,
    data_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    draft: str | None,
    mode: Mode,
    says: str,
    shapes: bool,
) -> None:
    if shapes:
        monkeypatch.setattr(trial, "TRIAL_BYTES", 1)
    with pytest.raises(SpeculativeError, match=f"process failed: {says}"):
        check(real(toys, target, draft, mode), data_dir)


def test_names_that_look_like_options(
    toys: Path, tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("target", "draft"):
        data = (toys / f"g4-markov-{kind}.gguf").read_bytes()
        (tmp_path / f"--{kind} x.gguf").write_bytes(data)
    monkeypatch.chdir(tmp_path)
    check(real(Path(), "--target x", "--draft x", "shared"), data_dir)


@pytest.mark.parametrize(
    ("then", "says", "hint"),
    [
        ("sys.exit('it has an unknown model architecture')", "unknown model", "newer geniex"),
        ("sys.exit('a tensor is missing')", "a tensor is missing", "get the file again"),
        ("os._exit(3)", "`target.gguf` is damaged", "delete `"),
        ("time.sleep(60)", "could not be tried out", "--trust"),
    ],
)
def test_a_model_alone(
    tmp_path: Path, data_dir: Path, pair: Trial, then: str, says: str, hint: str
) -> None:
    alone = Trial(pair.target, (), trial.PLAIN)
    timeout = 0.5 if "sleep" in then else 30
    with pytest.raises(LoadError) as caught:
        check(alone, data_dir, command=Child(tmp_path, then).command, timeout=timeout)
    assert says in caught.value.message and hint in str(caught.value.hint)


def test_a_slow_disk_gets_more_time(pair: Trial) -> None:
    assert pair.patience >= trial.TIMEOUT
    assert replace(pair, shapes=True).patience == trial.TIMEOUT
