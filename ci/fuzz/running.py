"""Feeding a target for a while; the input that fails is made small and kept.

Most inputs come from a plain generator, which makes hundreds of times as many as Hypothesis does in
a time; rounds of Hypothesis between them look for failures in its own way.
"""

import faulthandler
import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ci.fuzz.mutation import Maker, maker
from ci.fuzz.target import Check, FindingError, Target

ROUND = 100  # inputs of Hypothesis
PLAIN = 10.0  # seconds of plain inputs between two rounds
SLOWEST = 10.0  # seconds of CPU for one input
STUCK = 120.0  # seconds after which a single input is given up, and with it the process
_SHRINKING = 30.0  # seconds


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that failed, and how."""

    data: bytes
    error: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a target: seconds, how many inputs, and the first finding with its file."""

    target: str
    seconds: float
    inputs: int
    finding: Finding | None
    kept: Path | None = None


class Feeder:
    """Feeds one check, and counts."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self.count = 0
        self.last = b""

    def __call__(self, data: bytes) -> None:
        """One input. Raises what the check raises, and FindingError for one that takes too long."""
        self.count += 1
        self.last = data
        faulthandler.dump_traceback_later(STUCK, exit=True)
        began = time.process_time()
        try:
            self._check(data)
        finally:
            faulthandler.cancel_dump_traceback_later()
        took = time.process_time() - began
        if took > SLOWEST:
            raise FindingError(f"it took {took:.1f} s")

    def fault_of(self, data: bytes) -> Exception | None:
        """What an input raises."""
        try:
            self(data)
        except Exception as exc:
            return exc
        return None


def feed(target: Target, seconds: float, seed: int, *, keep: bool = True) -> Outcome:
    """Feed a target for some seconds, or until it fails; `keep` what it failed at."""
    make = maker(target)
    rng = random.Random(f"{target.name} {seed}")
    with target.open() as check:
        begun = time.monotonic()
        end = begun + seconds
        feeder = Feeder(check)
        finding = None
        while finding is None and time.monotonic() < end:
            finding = _plain(feeder, make, rng, min(end, time.monotonic() + PLAIN))
            if finding is None and time.monotonic() < end:
                finding = _thorough(feeder, make, rng.getrandbits(64))
    took = time.monotonic() - begun
    kept = target.keep(finding.data) if finding is not None and keep else None
    return Outcome(target.name, took, feeder.count, finding, kept)


def _plain(feeder: Feeder, make: Maker, rng: random.Random, end: float) -> Finding | None:
    while time.monotonic() < end:
        data = make(rng)
        if (fault := feeder.fault_of(data)) is not None:
            small = shrunk(data, lambda piece: _alike(feeder.fault_of(piece), fault))
            return Finding(small, _told(feeder.fault_of(small) or fault))
    return None


def _thorough(feeder: Feeder, make: Maker, seed: int) -> Finding | None:
    test = given(st.randoms(use_true_random=False))(lambda rng: feeder(make(rng)))
    try:
        hypothesis.seed(seed)(_QUIET(test))()
    except Exception as exc:
        return Finding(feeder.last, _told(exc))
    return None


def _alike(fault: Exception | None, other: Exception) -> bool:
    return type(fault) is type(other) and str(fault)[:20] == str(other)[:20]


def _told(fault: Exception) -> str:
    return "".join(traceback.format_exception(fault)[-6:])


def shrunk(data: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """The input with all pieces left out that it fails without."""
    end = time.monotonic() + _SHRINKING
    size = len(data) // 2
    while size:
        at = 0
        while at < len(data) and time.monotonic() < end:
            less = data[:at] + data[at + size :]
            if fails(less):
                data = less
            else:
                at += size
        size //= 2
    return data


_QUIET = settings(
    max_examples=ROUND,
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
    print_blob=False,
    verbosity=hypothesis.Verbosity.quiet,
)
