"""Runtimes are found by name; a missing package and a broken one are told apart."""

import subprocess
import sys
from pathlib import Path

import pytest

from geniex_catalogue.errors import UsageError
from geniex_catalogue.extras import install
from geniex_runtimes import registry
from geniex_runtimes.errors import RuntimeNotInstalledError
from geniex_runtimes.fake import FakeRuntime
from geniex_runtimes.qairt import device


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file `their_runtime.py` on the path; tests write into it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "their_runtime", raising=False)
    return tmp_path / "their_runtime.py"


def _known(monkeypatch: pytest.MonkeyPatch, **entries: str) -> None:
    monkeypatch.setattr(registry, "_entry_points", lambda: entries)


def test_names_are_the_built_in_ones_first(monkeypatch: pytest.MonkeyPatch) -> None:
    _known(monkeypatch, theirs="their_runtime:Theirs", llama_cpp="their_runtime:Impostor")
    assert registry.names() == ("llama_cpp", "qairt", "theirs")
    assert registry.BUILT_IN["llama_cpp"].startswith("geniex_runtimes.")


def test_our_own_entry_points_are_in_the_metadata_or_built_in() -> None:
    assert set(registry.names()) >= {"llama_cpp", "qairt"}


def test_an_entry_point_becomes_a_runtime(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module.write_text("from geniex_runtimes.fake import FakeRuntime as Theirs\n")
    _known(monkeypatch, theirs="their_runtime:Theirs")
    assert isinstance(registry.get("theirs"), FakeRuntime)
    found = registry.availability()["theirs"]
    assert found.available
    assert found.formats == {"gguf"}


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        pytest.param(None, "is not installed: no module `their_runtime`", "install", id="missing"),
        pytest.param(
            "import not_there_at_all\n",
            "is installed but broken: its module `not_there_at_all` is missing",
            "reinstall",
            id="its-own-import-is-missing",
        ),
        pytest.param(
            "raise OSError('libfoo.so: cannot open')\n",
            "is installed but broken: OSError: libfoo.so",
            "reinstall",
            id="its-library-does-not-load",
        ),
        pytest.param("x = 1\n", "broken: AttributeError", "reinstall", id="no-such-class"),
        pytest.param(
            "def Theirs():\n    raise ValueError('no')\n",
            "broken: ValueError",
            "",
            id="no-instance",
        ),
    ],
)
def test_what_is_wrong_with_a_package(
    module: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, says: str, hint: str
) -> None:
    if text is not None:
        module.write_text(text)
    _known(monkeypatch, theirs="their_runtime:Theirs")
    with pytest.raises(RuntimeNotInstalledError) as caught:
        registry.get("theirs")
    assert says in caught.value.message
    assert hint in (caught.value.hint or "")
    found = registry.availability_of("theirs")
    assert not found.available
    assert found.reason == caught.value.message


def test_a_missing_llama_cpp_names_the_pip_command(
    module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module.write_text("raise ModuleNotFoundError('no llama_cpp', name='llama_cpp')\n")
    monkeypatch.setattr(registry, "BUILT_IN", {"llama_cpp": "their_runtime:Theirs"})
    with pytest.raises(RuntimeNotInstalledError, match="is not installed") as caught:
        registry.get("llama_cpp")
    assert "pip install llama-cpp-python" in (caught.value.hint or "")


def test_a_runtime_that_fails_when_asked_does_not_stop_the_others(
    module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module.write_text(
        "class Theirs:\n    formats = frozenset()\n    def availability(self): return 1 / 0\n"
    )
    _known(monkeypatch, theirs="their_runtime:Theirs")
    found = registry.availability()
    assert "division by zero" in (found["theirs"].reason or "")
    assert "llama_cpp" in found


def test_qairt_without_its_package_names_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "PACKAGE", "not_there_at_all")
    found = registry.availability_of("qairt")
    assert not found.available
    assert found.reason == "the package `onnxruntime-qnn` is not installed"
    assert found.hint == install("qairt")
    assert found.formats == frozenset({"qairt"})


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="unknown runtime `vllm`; known: llama_cpp, qairt"):
        registry.get("vllm")


def test_importing_the_registry_is_cheap() -> None:
    heavy = "llama_cpp", "numpy", "psutil", "importlib.metadata"
    code = (
        "import sys; before = set(sys.modules); import geniex_runtimes.registry; "
        f"print([m for m in {heavy} if m in set(sys.modules) - before])"
    )
    roots = [path for path in sys.path if path]
    found = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {roots}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "[]"
