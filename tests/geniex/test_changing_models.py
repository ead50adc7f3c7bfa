"""Models whose files another process takes away or changes while they are loaded."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from geniex.config import Settings
from geniex.session import find_local_model, open_model, plan_model
from geniex_catalogue.errors import GenieXError, LoadError, ModelNotFoundError
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.fake import FakeModel, FakeRuntime
from tests.geniex.scripted_bundle import install_qairt, write_bundle

Install = Callable[[FakeRuntime], FakeRuntime]


@pytest.mark.parametrize(
    ("harm", "error", "text"),
    [
        (Path.unlink, ModelNotFoundError, "removed while it was being loaded"),
        (lambda path: path.write_bytes(b"GGUF"), LoadError, "changed while it was being loaded"),
        (lambda path: None, LoadError, "no such thing"),
    ],
    ids=["removed", "changed", "neither"],
)
def test_what_was_done_meanwhile_is_said(
    tiny_chat: Path,
    scripted: Install,
    tmp_path: Path,
    harm: Callable[[Path], object],
    error: type[GenieXError],
    text: str,
) -> None:
    class Meanwhile(FakeRuntime):
        """One that finds the file otherwise than it was."""

        def load(self, model: ResolvedModel, *args: object, **more: object) -> FakeModel:
            harm(model.path)
            raise LoadError("no such thing", hint="get the file again")

    path = tmp_path / "mine.gguf"
    path.write_bytes(tiny_chat.read_bytes())
    scripted(Meanwhile(name="llama_cpp"))
    with pytest.raises(error) as caught:
        open_model(str(path), Settings(data_dir=tmp_path))
    assert text in f"{caught.value.message} {caught.value.hint}"


def test_a_bundle_that_is_gone_before_it_is_planned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install_qairt(monkeypatch)
    settings = Settings(data_dir=tmp_path / "data")
    resolved = find_local_model(str(write_bundle(tmp_path / "bundle")), settings)
    shutil.rmtree(resolved.path)
    with pytest.raises(ModelNotFoundError) as caught:
        plan_model(resolved, settings)
    assert "removed while it was being loaded" in (caught.value.hint or "")
