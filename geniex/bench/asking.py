"""One measured request, or several at once, on a loaded model."""

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from geniex.bench.plan import Shape
from geniex.bench.prose import tokens_of
from geniex_runtimes.contract import (
    Done,
    Generation,
    GenerationRequest,
    LoadedModel,
    Profile,
    PromptPiece,
)
from geniex_runtimes.options import SamplingOptions

T = TypeVar("T")
_NEVER = -1000.0  # added to a logit: the token is not drawn


class Runner(Protocol):
    """Runs a call that may stay long in native code; `on_interrupt` asks the call to give up."""

    def __call__(self, call: Callable[[], T], on_interrupt: Callable[[], None] | None = None) -> T:
        """What the call gives, or raises."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """What a shape took once: speeds in tokens per second, `ttft` in seconds, `answered` tokens.

    Of several answers at once the speeds and ttft are medians, `total_speed` is of all together.
    `accepted` is a share of draft tokens, None where there were none.
    """

    prefill_speed: float
    decode_speed: float
    total_speed: float
    ttft: float
    answered: int
    cached: int
    accepted: float | None = None


class Asker:
    """Asks one model. `hold_back` keeps it from ending before all tokens are there."""

    def __init__(self, loaded: LoadedModel, run: Runner) -> None:
        self._loaded = loaded
        self._run = run
        self._held: tuple[tuple[int, float], ...] = ()

    def hold_back(self) -> None:
        """Have later answers go on where the model would end them."""
        bias = {}
        bos = len(self._loaded.tokenize([]))
        for text in self._loaded.info.end_tokens or {self._loaded.info.eos_token}:
            ids = self._loaded.tokenize([PromptPiece(text)])[bos:] if text else []
            if len(ids) == 1:
                bias[ids[0]] = _NEVER
        self._held = tuple(sorted(bias.items()))

    def sample(self, shape: Shape, tokens: int, seed: int) -> Sample:
        """Measure a shape once, on texts of this seed. Raises GenerationError and its like."""
        prompts = [
            tokens_of(seed * 1000 + stream, shape.length, self._tokenize)
            for stream in range(shape.parallel)
        ]
        if shape.depth:
            self._together([self._request(p[: shape.depth], 1, reuse=False) for p in prompts])
        begun = time.monotonic()
        profiles = self._together(
            [self._request(prompt, tokens, reuse=bool(shape.depth)) for prompt in prompts]
        )
        took = time.monotonic() - begun
        return _sample(profiles, took)

    def _tokenize(self, text: str) -> Sequence[int]:
        return self._loaded.tokenize([PromptPiece(text, literal=True)])

    def _request(self, prompt: Sequence[int], tokens: int, *, reuse: bool) -> GenerationRequest:
        return GenerationRequest(
            prompt=prompt,
            sampling=SamplingOptions(temperature=0, logit_bias=self._held),
            max_tokens=tokens,
            reuse_prefix=reuse,
        )

    def _together(self, requests: Sequence[GenerationRequest]) -> list[Profile]:
        """Start all, and read each to its end on a thread of its own."""
        running: list[Generation] = []

        def work() -> list[Profile]:
            running.extend(map(self._loaded.generate, requests))
            if len(running) == 1:
                return [_read(running[0])]
            return _read_all(running)

        def give_up() -> None:
            for generation in list(running):
                generation.close()

        return self._run(work, give_up)


def _read(generation: Generation) -> Profile:
    profile = Profile()
    for event in generation:
        if isinstance(event, Done):
            profile = event.profile
    return profile


def _read_all(generations: Sequence[Generation]) -> list[Profile]:
    found: dict[int, Profile] = {}
    errors: list[BaseException] = []

    def read(index: int) -> None:
        try:
            found[index] = _read(generations[index])
        except BaseException as exc:  # carried over to the thread that waits
            errors.append(exc)

    threads = [
        threading.Thread(target=read, args=(i,), daemon=True) for i in range(len(generations))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [found[index] for index in sorted(found)]


def _sample(profiles: Sequence[Profile], took: float) -> Sample:
    proposed = sum(profile.draft_proposed for profile in profiles)
    accepted = sum(profile.draft_accepted for profile in profiles)
    return Sample(
        prefill_speed=statistics.median(profile.prefill_speed for profile in profiles),
        decode_speed=statistics.median(profile.decode_speed for profile in profiles),
        total_speed=sum(profile.generated_tokens for profile in profiles) / max(took, 1e-9),
        ttft=statistics.median(profile.ttft for profile in profiles),
        answered=sum(profile.generated_tokens for profile in profiles),
        cached=min(profile.cached_tokens for profile in profiles),
        accepted=accepted / proposed if proposed else None,
    )
