"""A scripted runtime that remembers what it was told."""

from collections.abc import Callable
from typing import Any

from geniex_runtimes.contract import GenerationRequest, PromptPiece
from geniex_runtimes.fake import FakeModel, FakeRuntime, Script
from geniex_runtimes.options import LoadOptions

HELLO = Script(("Hello", ", ", "wörld", "!"))


class Recorder(FakeRuntime):
    """Keeps the models it loads, to be asked what they were told."""

    def __init__(self, *scripts: Script, **how: Any) -> None:
        super().__init__(*(scripts or (HELLO,)), name="llama_cpp", **how)
        self.models: list[FakeModel] = []

    def load(self, *args: Any, **kwargs: Any) -> FakeModel:
        self.models.append(super().load(*args, **kwargs))
        return self.models[-1]

    @property
    def request(self) -> GenerationRequest:
        return self.models[-1].requests[-1]

    @property
    def prompt(self) -> str:
        return "".join(p.text for p in self.request.prompt if isinstance(p, PromptPiece))

    @property
    def options(self) -> LoadOptions:
        return self.loads[-1]


Install = Callable[[FakeRuntime], FakeRuntime]
