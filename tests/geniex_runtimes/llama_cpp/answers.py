"""Loading a real model and collecting an answer, for the tests of this folder."""

from dataclasses import dataclass
from pathlib import Path

from geniex_catalogue.gguf import read_header
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.contract import (
    Done,
    GenerationRequest,
    LoadedModel,
    PromptPiece,
    TokenLogprob,
)
from geniex_runtimes.llama_cpp.runtime import LlamaCppModel, LlamaCppRuntime
from geniex_runtimes.options import LoadOptions, SamplingOptions

GREEDY = SamplingOptions(temperature=0)


@dataclass(frozen=True)
class Result:
    text: str
    done: Done
    logprobs: tuple[TokenLogprob, ...]
    pieces: tuple[str, ...]


def resolved(path: Path) -> ResolvedModel:
    header = read_header(path)
    return ResolvedModel(
        name=path.name,
        ref=None,
        format="gguf",
        path=path,
        files=(path,),
        precision=None,
        size=path.stat().st_size,
        header=header,
    )


def load(path: Path, **options: object) -> LlamaCppModel:
    settings = {"threads": 1, "context_length": 1024} | options
    model = LlamaCppRuntime().load(resolved(path), LoadOptions(**settings))  # type: ignore[arg-type]
    assert isinstance(model, LlamaCppModel)
    return model


def answer(model: LoadedModel, prompt: str | list[int], **fields: object) -> Result:
    pieces = prompt if isinstance(prompt, list) else [PromptPiece(prompt)]
    request = GenerationRequest(pieces, **({"sampling": GREEDY} | fields))  # type: ignore[arg-type]
    texts: list[str] = []
    logprobs: list[TokenLogprob] = []
    for event in model.generate(request):
        if isinstance(event, Done):
            return Result("".join(texts), event, tuple(logprobs), tuple(texts))
        texts.append(event.text)
        logprobs += event.logprobs
    raise AssertionError("the generation ended without Done")


def turn(question: str) -> str:
    """A question in the tiny model's chat format, thinking off."""
    return f"<|turn>user\n{question}<turn|>\n<|turn>model\n<|channel>thought\n<channel|>"
