"""Filling in the middle: a prompt and what comes after the answer, in a model's own tokens."""

from typing import Final

from geniex.server.refusals import unsupported
from geniex.session import OpenModel
from geniex_runtimes.contract import PromptPiece

# what stands before the prompt, before the suffix, and before the answer
_MARKS: Final = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),  # Qwen Coder, CodeGemma
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),  # StarCoder, Granite
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),  # DeepSeek Coder # noqa: RUF001
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),  # Code Llama
)


def infill(model: OpenModel, prompt: str | list[int], suffix: str) -> list[int]:
    """The tokens that ask a model to fill in. Raises RequestError where it has none for it."""
    known = model.loaded.info.control_tokens
    marks = next((marks for marks in _MARKS if known.issuperset(marks)), None)
    if marks is None:
        raise unsupported(
            f"`suffix` is not supported by `{model.resolved.name}`: it has no fill-in-the-middle "
            "tokens",
            "suffix",
        )
    if not isinstance(prompt, str):
        raise unsupported(
            "`suffix` needs a `prompt` of text: token ids can hold the model's marks themselves",
            "suffix",
        )
    before, after, middle = marks
    return model.loaded.tokenize(
        [
            PromptPiece(before),
            PromptPiece(prompt, literal=True),
            PromptPiece(after),
            PromptPiece(suffix, literal=True),
            PromptPiece(middle),
        ]
    )
