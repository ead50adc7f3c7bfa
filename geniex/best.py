"""The best settings of a model, as `geniex bench --save-best` found and keeps them.

They stand in the file of settings under `best.` and the model's name, as words `key=value`, quoted
as a shell does: `"best.org/repo:Q4_0": "threads=4 spec_type=draft-mtp draft_tokens=2"`.
"""

import shlex
from dataclasses import dataclass, fields

from geniex_catalogue.errors import UsageError

PREFIX = "best."
_WORDS = {"on": True, "off": False}


@dataclass(frozen=True, slots=True)
class Best:
    """What was fastest for a model; None is what geniex chooses by itself.

    `model` is its canonical name, or the absolute path of its first file. The rest are the words of
    `geniex infer`: `spec_type` None says nothing about speculation, `none` says plain decoding.
    """

    model: str
    compute: str | None = None
    threads: int | None = None
    spec_type: str | None = None
    draft_model: str | None = None
    draft_tokens: int | None = None
    draft_adapt: bool = True

    @property
    def key(self) -> str:
        """Its key in the file of settings."""
        return PREFIX + self.model

    def text(self) -> str:
        """The words, as `parse_best` reads them."""
        words = {
            "compute": self.compute,
            "threads": self.threads,
            "spec_type": self.spec_type,
            "draft_model": self.draft_model,
            "draft_tokens": self.draft_tokens,
            "draft_adapt": None if self.draft_adapt else "off",
        }
        pairs = (f"{key}={value}" for key, value in words.items() if value is not None)
        return " ".join(map(shlex.quote, pairs))


_KEYS = tuple(field.name for field in fields(Best) if field.name != "model")


def parse_best(model: str, text: str) -> Best:
    """Read what `Best.text` wrote. Raises UsageError for anything else."""
    hint = f"`geniex config unset {shlex.quote(PREFIX + model)}` removes it"
    try:
        pairs = [word.partition("=") for word in shlex.split(text)]
        given = {key: value for key, _, value in pairs}
        if not given or not set(given) <= set(_KEYS) or not all(given.values()):
            raise ValueError
        return Best(
            model,
            compute=given.get("compute"),
            threads=_count(given.get("threads")),
            spec_type=given.get("spec_type"),
            draft_model=given.get("draft_model"),
            draft_tokens=_count(given.get("draft_tokens")),
            draft_adapt=_WORDS[given.get("draft_adapt", "on")],
        )
    except (ValueError, KeyError):
        raise UsageError(f"`{text}` are no best settings", hint=hint) from None


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    if (value := int(text)) < 1:
        raise ValueError(text)
    return value
