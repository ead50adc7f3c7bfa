"""Where Qualcomm's libraries are looked for, and what is said where they are not."""

import os
from pathlib import Path

import pytest

from geniex_runtimes.contract import LoadedModel, Runtime
from geniex_runtimes.qairt import native, runtime
from geniex_runtimes.qairt.engine import EngineMissingError
from geniex_runtimes.qairt.loaded import QairtModel
from geniex_runtimes.qairt.runtime import QairtRuntime


def test_it_is_a_runtime() -> None:
    made: Runtime = QairtRuntime()
    kind: type[LoadedModel] = QairtModel
    assert (made.name, made.formats) == ("qairt", frozenset({"qairt"})) and kind is QairtModel


def test_the_dsp_finds_its_libraries_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADSP_LIBRARY_PATH", "/vendor/dsp;/dsp")
    for _ in range(2):
        native.prepare(tmp_path)
    assert os.environ["ADSP_LIBRARY_PATH"] == f"{tmp_path};/vendor/dsp;/dsp"


def test_a_library_that_is_not_there_or_is_none(tmp_path: Path) -> None:
    (tmp_path / native.library_name("Genie")).write_bytes(b"not a library")
    for base in ("Genie", "QnnHtp"):
        with pytest.raises(EngineMissingError, match=f"{base}.* cannot be loaded"):
            native.load(tmp_path, base)


def test_libraries_that_are_not_all_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / native.library_name("QnnHtp")).touch()
    monkeypatch.setattr(runtime, "installed_libraries", lambda: (tmp_path, "2.51.0"))
    found = QairtRuntime().availability()
    assert not found.available and found.reason is not None
    assert native.library_name("QnnSystem") in found.reason
    assert "QnnHtp" not in found.reason
    assert found.hint is not None and '--force-reinstall "onnxruntime-qnn==' in found.hint
    assert QairtRuntime().devices() == ()


@pytest.mark.parametrize(
    ("system", "there", "says"),
    [
        pytest.param("linux", False, "libatomic.so.1", id="no-libatomic"),
        pytest.param("linux", True, None, id="libatomic"),
        pytest.param("darwin", True, "macOS", id="macos"),
    ],
)
def test_what_else_has_to_be_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system: str, there: bool, says: str | None
) -> None:
    monkeypatch.setattr("sys.platform", system)
    for base in ("QnnHtp", "QnnSystem"):
        (tmp_path / native.library_name(base)).touch()
    folder = tmp_path / "lib" / "x86_64-linux-gnu"
    folder.mkdir(parents=True)
    if there:
        (folder / "libatomic.so.1").touch()
    monkeypatch.setattr(runtime, "_LIBRARY_FOLDERS", (str(tmp_path / "lib"),))
    monkeypatch.setattr(runtime, "installed_libraries", lambda: (tmp_path, "2.51.0"))
    found = QairtRuntime().availability()
    assert found.available == (says is None)
    assert says is None or says in (found.reason or "")
