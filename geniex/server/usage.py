"""What answers took: the `usage` object of each endpoint, and the `geniex` object of ours."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from geniex.server.warnings import told
from geniex.session import Answer, OpenModel
from geniex.timings import drafting, timings
from geniex_runtimes.contract import Profile


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts in tokens; the drafts' tokens are counted as a prediction's are."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    reasoning: int = 0
    accepted: int = 0
    rejected: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        """Both together."""
        return Usage(
            self.prompt + other.prompt,
            self.cached + other.cached,
            self.completion + other.completion,
            self.reasoning + other.reasoning,
            self.accepted + other.accepted,
            self.rejected + other.rejected,
        )

    def for_chat(self) -> dict[str, Any]:
        """The form of chat completions and completions."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {
                "reasoning_tokens": self.reasoning,
                "accepted_prediction_tokens": self.accepted,
                "rejected_prediction_tokens": self.rejected,
            },
        }

    def for_responses(self) -> dict[str, Any]:
        """The form of responses."""
        return {
            "input_tokens": self.prompt,
            "input_tokens_details": {"cached_tokens": self.cached, "cache_write_tokens": 0},
            "output_tokens": self.completion,
            "output_tokens_details": {"reasoning_tokens": self.reasoning},
            "total_tokens": self.prompt + self.completion,
        }


def usage_of(answers: Sequence[Answer]) -> Usage:
    """The usage of answers to one prompt: it counts once, as it was for the first of them."""
    total = Usage()
    for index, answer in enumerate(answers):
        profile = answer.profile
        total += Usage(
            prompt=0 if index else profile.prompt_tokens,
            cached=0 if index else profile.cached_tokens,
            completion=profile.generated_tokens,
            reasoning=answer.reasoning_tokens,
            accepted=profile.draft_accepted,
            rejected=profile.draft_proposed - profile.draft_accepted,
        )
    return total


def geniex_of(model: OpenModel, answers: Sequence[Answer]) -> dict[str, Any]:
    """The `geniex` object: what ran, how fast, how it speculated, and what is to be said."""
    info = model.loaded.info
    profile = _merged([answer.profile for answer in answers])
    return {
        "runtime": info.runtime,
        "compute": info.compute,
        "devices": list(info.devices),
        "context_length": info.context_length,
        "kv_type": model.plan.kv_type,
        "stop_reason": profile.stop_reason,
        "timings": timings(profile),
        "speculation": drafting(profile, model),
        "warnings": told(model, answers),
    }


def _merged(profiles: Sequence[Profile]) -> Profile:
    """One profile of generations that ran one after another: sums, and the first one's ttft."""
    first, *rest = profiles
    for profile in rest:
        places = zip_longest(first.accepted_at, profile.accepted_at, fillvalue=0)
        first = replace(
            first,
            prompt_time=first.prompt_time + profile.prompt_time,
            decode_time=first.decode_time + profile.decode_time,
            prompt_tokens=first.prompt_tokens + profile.prompt_tokens,
            cached_tokens=first.cached_tokens + profile.cached_tokens,
            generated_tokens=first.generated_tokens + profile.generated_tokens,
            draft_steps=first.draft_steps + profile.draft_steps,
            draft_proposed=first.draft_proposed + profile.draft_proposed,
            draft_accepted=first.draft_accepted + profile.draft_accepted,
            accepted_at=tuple(map(sum, places)),
            draft_time=first.draft_time + profile.draft_time,
            verify_time=first.verify_time + profile.verify_time,
            spec_state=profile.spec_state,
            spec_reason=profile.spec_reason,
            stop_reason=profile.stop_reason,
        )
    return first
