"""The speculation benchmark: what it runs, and when it is satisfied."""

from dataclasses import replace
from pathlib import Path

import pytest

from ci.benchmarks import mtp, mtp_models
from ci.benchmarks.mtp_players import ADAPTIVE, FIXED, PLAIN, Played, Side, Stopwatch
from tests.toys.gemma4 import Shape

ROUND = Played(100, 1.0, 2.0, ("a", "b"), steps=40, proposed=120, accepted=60, own=40 * 100e-6)


def rounds(*seconds: float) -> list[Played]:
    return [replace(ROUND, seconds=one, cpu=2 * one) for one in seconds]


@pytest.mark.parametrize(
    ("seconds", "passed"),
    [
        pytest.param((1.0, 1.02, 2.0), True, id="one-slow-round"),
        pytest.param((1.04, 1.04, 0.5), False, id="one-fast-round"),
    ],
)
def test_the_median_ratio_decides(seconds: tuple[float, ...], passed: bool) -> None:
    plain = rounds(*(1.0 for _ in seconds))
    assert mtp.report_ratio("", rounds(*seconds), plain, 0.97, "wall") is passed


def test_either_clock_can_judge(capsys: pytest.CaptureFixture[str]) -> None:
    ours, plain = [replace(ROUND, seconds=2.0)], [ROUND]
    assert not mtp.report_ratio("against plain", ours, plain, 0.97, "wall")
    assert mtp.report_ratio("against plain", ours, plain, 0.97, "cpu")
    assert "wall 0.500 (0.500 to 0.500), cpu 1.000" in capsys.readouterr().out


@pytest.mark.parametrize(("own", "passed"), [(149e-6, True), (151e-6, False)])
def test_cost_is_counted_per_verification(own: float, passed: bool) -> None:
    assert mtp.report_cost([replace(ROUND, own=40 * own)], 3) is passed


@pytest.mark.parametrize(("own", "passed"), [(0.039, True), (0.041, False)])
def test_our_share_of_a_step_of_a_large_pair_is_judged(own: float, passed: bool) -> None:
    assert mtp.report_share([replace(ROUND, own=own)]) is passed


@pytest.mark.parametrize(
    ("ours", "theirs", "agree"),
    [
        pytest.param((200, 140), (200, 140), True, id="equal"),
        pytest.param((200, 140), (205, 146), True, id="near"),
        pytest.param((200, 140), (220, 140), False, id="more-proposed"),
        pytest.param((200, 140), (200, 150), False, id="more-accepted"),
        pytest.param((200, 1), (200, 3), True, id="next-to-nothing"),
    ],
)
def test_counts_agree(ours: tuple[int, int], theirs: tuple[int, int], agree: bool) -> None:
    one, other = (replace(ROUND, proposed=p, accepted=a) for p, a in (ours, theirs))
    assert mtp.report_counts(one, other) is agree


def test_another_text_fails() -> None:
    assert mtp.report_texts(iter([[ROUND, ROUND], [ROUND]]))
    assert not mtp.report_texts(iter([[ROUND], [replace(ROUND, texts=("a", "c"))]]))


def test_the_stopwatch_counts_what_lies_between_decodes() -> None:
    def busy() -> int:
        return sum(range(20_000))

    watch = Stopwatch(lambda: busy() and 0)
    busy()
    watch()
    assert watch.own == 0.0  # nothing lies before the first
    busy()
    assert watch() == 0
    between = watch.own
    assert between > 0
    watch()
    assert watch.own - between < between / 2
    watch.start()
    assert watch.own == 0.0


def test_a_round_of_every_side(toys: Path) -> None:
    subject = mtp_models.Subject(
        "markov",
        toys / "g4-markov-target.gguf",
        toys / "g4-markov-draft.gguf",
        ((2, 300, 301), (2, 302, 303)),
    )
    played = mtp.play(subject, [PLAIN, FIXED, ADAPTIVE], threads=1, rounds=1, count=40)
    (plain,), (fixed,), (adaptive,) = played.values()
    assert plain.texts == fixed.texts == adaptive.texts
    assert plain.tokens == fixed.tokens == 2 * 39
    assert (plain.steps, plain.proposed) == (0, 0)
    assert 0 < fixed.accepted < fixed.proposed <= 3 * fixed.steps
    assert 0 < fixed.own < fixed.cpu
    assert adaptive.state in ("on", "reduced", "off")


def test_a_side_that_dies_says_why(tmp_path: Path) -> None:
    missing = mtp_models.Subject("missing", tmp_path / "missing.gguf", None, ((2,),))
    with Side(PLAIN, missing, threads=1) as side, pytest.raises(RuntimeError, match="missing"):
        side.play(missing.prompts[0], 1)


def test_every_good_toy_is_run(tmp_path: Path) -> None:
    found = mtp_models.toys(tmp_path)
    names = {it.name for it in found}
    assert names == {"g4-markov", "g4-random", "g4-always", "g4-flip", "q35-mix", "mimo-mix"}
    for it in found:
        assert it.target.is_file() and (it.draft is None or it.draft.is_file())


def test_the_large_pair_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mtp_models, "cache_root", lambda: tmp_path)
    monkeypatch.setattr(mtp_models, "BIG", replace(mtp_models.BIG, shape=Shape()))
    first = mtp_models.big()
    assert first.draft is not None
    stamps = [path.stat().st_mtime_ns for path in (first.target, first.draft)]
    again = mtp_models.big()
    assert [path.stat().st_mtime_ns for path in (again.target, again.draft or Path())] == stamps
    assert not list(first.target.parent.glob("*.part"))
