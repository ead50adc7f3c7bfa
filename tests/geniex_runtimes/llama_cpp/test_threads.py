"""The number of threads follows the machine, at most every half second."""

import pytest

from geniex_runtimes.hardware.cpu import SAMPLE
from geniex_runtimes.llama_cpp.threads import INTERVAL, Glance, Governor


class FakeWatch:
    def __init__(self) -> None:
        self.free = 2
        self.asked = 0

    def free_cores(self) -> int:
        self.asked += 1
        return self.free


@pytest.fixture
def parts() -> tuple[Governor, FakeWatch, list[float]]:
    now = [0.0]
    watch = FakeWatch()
    governor = Governor(start=lambda: 2, watch=watch, clock=lambda: now[0])  # type: ignore[arg-type]
    return governor, watch, now


def test_a_core_that_gets_busy_is_given_up_and_taken_back(
    parts: tuple[Governor, FakeWatch, list[float]],
) -> None:
    governor, watch, now = parts
    watch.free = 1
    now[0] += INTERVAL
    assert governor.look() and governor.threads == 1
    now[0] += INTERVAL
    assert not governor.look()
    watch.free = 2
    now[0] += INTERVAL
    assert governor.look() and governor.threads == 2


def test_it_does_not_look_every_turn(parts: tuple[Governor, FakeWatch, list[float]]) -> None:
    governor, watch, now = parts
    for _ in range(100):
        now[0] += INTERVAL / 200
        governor.look()
    assert watch.asked == 0


def test_what_went_on_during_a_long_pause_does_not_count(
    parts: tuple[Governor, FakeWatch, list[float]],
) -> None:
    governor, watch, now = parts
    watch.free = 1
    now[0] += 60
    assert not governor.look() and governor.threads == 2
    now[0] += INTERVAL
    assert governor.look() and governor.threads == 1


@pytest.mark.parametrize(
    ("took", "waits"), [(0.0, [SAMPLE]), (SAMPLE / 5, [SAMPLE * 4 / 5]), (3.0, [])], ids=str
)
def test_a_glance_waits_for_what_a_load_did_not_take(
    took: float, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, slept = [100.0], list[float]()
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    glance = Glance(FakeWatch(), slept.append)  # type: ignore[arg-type]
    now[0] += took
    assert glance.free_cores() == 2 and slept == pytest.approx(waits)
