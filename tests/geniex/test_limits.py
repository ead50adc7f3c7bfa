"""The limits of sampling numbers: in words, and read from text."""

import pytest

from geniex.limits import LIMITS, check, read
from geniex_catalogue.errors import UsageError
from geniex_runtimes.options import SamplingOptions


def test_each_number_of_sampling_has_a_limit() -> None:
    numbers = set(SamplingOptions.__dataclass_fields__) - {"grammar", "logit_bias"}
    assert set(LIMITS) == numbers | {"max_tokens"}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("temperature", "0", 0.0),
        ("temperature", "1e-3", 0.001),
        ("top_p", "1", 1.0),
        ("top_k", "0", 0),
        ("presence_penalty", "-2", -2.0),
        ("seed", "4294967295", 2**32 - 1),
    ],
)
def test_numbers(name: str, text: str, value: float) -> None:
    assert read(name, text) == value
    check(name, value)
    check(name, None)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("temperature", "-3", "a number from 0 up"),
        ("top_p", "3", "a number from 0 to 1"),
        ("seed", "-1", "a whole number from 0 to 4294967295"),
        ("top_k", "1.5", "a whole number from 0"),
        ("min_p", "nan", "a number from 0 to 1"),
        ("frequency_penalty", "many", "a number"),
        ("frequency_penalty", "inf", "a number"),
    ],
)
def test_other_numbers_are_refused(name: str, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=f"`{text}` is no value for `{name}`") as caught:
        read(name, text)
    assert told in str(caught.value.hint)


def test_whole_numbers_that_are_no_floats() -> None:
    check("max_tokens", 10**4000)
    for name in ("temperature", "repetition_penalty", "seed"):
        with pytest.raises(UsageError, match=f"is no value for `{name}`"):
            check(name, 10**4000)
