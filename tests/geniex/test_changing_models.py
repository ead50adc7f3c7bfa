"""Models whose files another process takes away or changes while they are loaded."""

from collections.abc import Callable
from pathlib import Path

import pytest

from geniex.config import Settings
from geniex.session import open_model
from geniex_catalogue.errors import GenieXError, LoadError, ModelNotFoundError
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.fake import FakeModel, FakeRuntime

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
