"""Two results against each other."""

import pytest

from geniex.bench.comparison import compare
from geniex.bench.plan import Shape
from geniex_catalogue.errors import UsageError
from tests.geniex.bench.results import FIRST, case, result, row

BASE = [10.0, 10.1, 10.2, 10.3, 10.4]
SAME = [10.05, 10.15, 10.2, 10.25, 10.3]
UP = [x * 2 for x in BASE]
DOWN = [x / 2 for x in BASE]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param({"decode": UP}, "faster", id="faster"),
        pytest.param({"decode": DOWN}, "slower", id="slower"),
        pytest.param({"decode": SAME}, "same within noise", id="same"),
        pytest.param({"ttft": DOWN}, "faster", id="less time"),
        pytest.param({"decode": UP, "ttft": SAME}, "faster", id="one of two"),
        pytest.param({"decode": UP, "prefill": DOWN}, "faster in 1 and slower in 1 of 2", id="two"),
        pytest.param({"decode": [99.0, 99, 99]}, "too few repetitions", id="few"),
    ],
)
def test_verdict(after: dict[str, list[float]], expected: str) -> None:
    before = row(FIRST, **dict.fromkeys(after, BASE))
    found = compare(result(case("plain", before)), result(case("plain", row(FIRST, **after))))
    assert found.verdict == expected


def test_numbers() -> None:
    found = compare(result(case("plain", row(decode=BASE))), result(case("plain", row(decode=UP))))
    [change] = found.changes
    assert (change.first, change.second, change.ratio.median) == (10.2, 20.4, 2)
    assert found.medians() == {"decode tok/s": 2}
    assert found.rows()[1][2:] == (
        *("128 tokens", "decode tok/s", "10.2", "20.4", "2.00x (1.92-2.08)", "faster"),
    )
    [told] = found.as_dict()["changes"]
    assert (told["ratio"], told["verdict"]) == (2, "faster")


def test_only_the_same_requests_are_compared() -> None:
    first = result(case("plain", row(decode=BASE), row(Shape(512), decode=BASE)))
    second = result(case("plain", row(decode=BASE)), case("ngram-simple 2", row(decode=BASE)))
    found = compare(first, second)
    assert len(found.changes) == 1
    assert found.notes == (
        "only in the first: org/m:Q4_0 plain, 512 tokens",
        "only in the second: org/m:Q4_0 ngram-simple 2, 128 tokens",
    )


def test_what_makes_a_comparison_doubtful_is_told() -> None:
    first = result(case("plain", row(decode=BASE)))
    second = result(case("plain", row(decode=BASE)), complete=False)
    second.machine["cpu"] = "Another"
    second.tokens = 8
    assert compare(first, second).notes == (
        "the second result is incomplete",
        "the two were measured on different machines",
        "the two asked for answers of different lengths",
    )


def test_what_no_label_names_is_told() -> None:
    first, second = (case("plain", row(), row(Shape(9), decode=BASE)) for _ in range(2))
    first.threads, second.settings = 2, {"kv_type": "q8_0", "mmap": True, "flash_attn": "auto"}
    first.settings = {"kv_type": None, "mmap": False, "flash_attn": "auto", "older": 1}
    assert compare(result(first), result(second)).notes == (
        "org/m:Q4_0 plain: `threads` is 2 in the first and left open in the second",
        "org/m:Q4_0 plain: `kv_type` is left open in the first and q8_0 in the second",
        "org/m:Q4_0 plain: `mmap` is off in the first and on in the second",
    )


def test_nothing_in_common() -> None:
    mine = result(case("plain", row(decode=BASE)))
    with pytest.raises(UsageError, match="nothing in common"):
        compare(mine, result(case("plain", row(decode=BASE), model="org/other:Q4_0")))
