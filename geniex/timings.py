"""What an answer took, as JSON: timings and drafting, in the words that every face uses."""

from typing import Any

from geniex.session import OpenModel
from geniex_runtimes.contract import Profile


def timings(profile: Profile) -> dict[str, float]:
    """Times in seconds, speeds in tokens per second."""
    return {
        "total_time": profile.total_time,
        "ttft": profile.ttft,
        "prompt_time": profile.prompt_time,
        "decode_time": profile.decode_time,
        "prompt_speed": profile.prefill_speed,
        "decode_speed": profile.decode_speed,
    }


def drafting(profile: Profile, model: OpenModel) -> dict[str, Any] | None:
    """What drafting did, in tokens and seconds; None where nobody asked for it.

    `accepted_at` counts for each place in a draft how often the token there was accepted;
    `tokens_per_step` are those a step with a draft gave, the target's own among them.
    """
    asked = model.speculation
    if not asked.options.types and not asked.warnings:
        return None
    steps = profile.draft_steps
    return {
        "types": list(model.loaded.info.speculation),
        "draft_model": asked.draft.name if asked.draft is not None else None,
        "choice": asked.choice or None,
        "state": profile.spec_state or "off",
        "reason": profile.spec_reason or None,
        "steps": steps,
        "proposed": profile.draft_proposed,
        "accepted": profile.draft_accepted,
        "rejected": profile.draft_proposed - profile.draft_accepted,
        "accepted_at": list(profile.accepted_at),
        "tokens_per_step": (profile.draft_accepted + steps) / steps if steps else 0.0,
        "draft_time": profile.draft_time,
        "verify_time": profile.verify_time,
    }
