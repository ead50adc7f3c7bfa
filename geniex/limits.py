"""What the numbers of an answer may be, wherever they come from: a flag, `/set`, the Python API."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from geniex_catalogue.errors import UsageError

_LARGEST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Limit:
    """What one number may be: `low` and `high` are allowed themselves, None is no bound."""

    low: float | None = None
    high: float | None = None
    whole: bool = False

    @property
    def text(self) -> str:
        """The limit in words, such as `a number from 0 to 1`."""
        kind = "a whole number" if self.whole else "a number"
        if self.low is not None and self.high is not None:
            return f"{kind} from {self.low} to {self.high}"
        return f"{kind} from {self.low} up" if self.low is not None else kind


LIMITS: Mapping[str, Limit] = {
    "temperature": Limit(0),
    "top_p": Limit(0, 1),
    "top_k": Limit(0, 2**31 - 1, whole=True),
    "min_p": Limit(0, 1),
    "repetition_penalty": Limit(0),
    "presence_penalty": Limit(),
    "frequency_penalty": Limit(),
    "seed": Limit(0, 2**32 - 1, whole=True),
    "max_tokens": Limit(0, whole=True),
}


def check(name: str, value: object, told: str | None = None) -> None:
    """Raise UsageError unless `value` is None or a number that `name` may be.

    `told` is what the user calls it, where that is another name.
    """
    if value is not None and not _is_within(LIMITS[name], value):
        raise _refusal(name, value, told)


def read(name: str, text: str) -> int | float:
    """The number in a text. Raises UsageError for what `name` may not be."""
    limit = LIMITS[name]
    try:
        value = int(text) if limit.whole else float(text)
    except ValueError:
        raise _refusal(name, text) from None
    if not _is_within(limit, value):
        raise _refusal(name, text)
    return value


def _is_within(limit: Limit, value: object) -> bool:
    kinds = int if limit.whole else int | float
    if isinstance(value, bool) or not isinstance(value, kinds):
        return False
    # a whole number has no end; as a float it may be none
    if not limit.whole and not -_LARGEST <= value <= _LARGEST:
        return False
    return (limit.low is None or value >= limit.low) and (limit.high is None or value <= limit.high)


def _refusal(name: str, value: object, told: str | None = None) -> UsageError:
    return UsageError(
        f"`{value}` is no value for `{told or name}`", hint=f"it takes {LIMITS[name].text}"
    )
