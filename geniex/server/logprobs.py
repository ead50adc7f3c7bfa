"""Log probabilities of tokens, as each endpoint shows them."""

from collections.abc import Iterable
from typing import Any, Final

from geniex_runtimes.contract import TokenLogprob

# what the API shows for a token that cannot come; JSON has no infinity
_NEVER: Final = -9999.0


def for_chat(entries: Iterable[TokenLogprob]) -> dict[str, Any]:
    """The form of chat completions: a list of tokens with their bytes and alternatives."""
    return {"content": [token_entry(entry) for entry in entries], "refusal": None}


def token_entry(entry: TokenLogprob) -> dict[str, Any]:
    """One token with its alternatives."""
    return {**_plain(entry), "top_logprobs": [_plain(other) for other in entry.top]}


def _plain(entry: TokenLogprob) -> dict[str, Any]:
    return {
        "token": _text(entry),
        "bytes": list(entry.data),
        "logprob": number(entry.logprob),
    }


def for_completion(
    entries: Iterable[TokenLogprob], start: int, *, alternatives: bool
) -> dict[str, Any]:
    """The form of completions: columns; `start` is where the first token stands in the text."""
    columns: dict[str, Any] = {
        "tokens": [],
        "token_logprobs": [],
        "top_logprobs": [] if alternatives else None,
        "text_offset": [],
    }
    for entry in entries:
        text = _text(entry)
        columns["tokens"].append(text)
        columns["token_logprobs"].append(number(entry.logprob))
        columns["text_offset"].append(start)
        if alternatives:
            columns["top_logprobs"].append(
                {_text(other): number(other.logprob) for other in reversed(entry.top)}
            )
        start += len(text)
    return columns


def number(logprob: float) -> float:
    """A log probability as JSON can say it."""
    return max(logprob, _NEVER)


def _text(entry: TokenLogprob) -> str:
    return entry.data.decode("utf-8", "replace")
