"""What an answer took, as a block of lines and as JSON."""

from typing import Any

from geniex.cli.output import one_line
from geniex.session import Answer, OpenModel
from geniex_runtimes.contract import Profile


def block(profile: Profile) -> str:
    """The profile as lines, in seconds, tokens and tokens per second."""
    lines = [
        f"total time:     {profile.total_time:f}s",
        f"ttft:           {profile.ttft:f}s",
        f"prompt time:    {profile.prompt_time:f}s",
        f"prompt tokens:  {profile.prompt_tokens} token(s)",
        f"prompt speed:   {profile.prefill_speed:f} tok/s",
        f"decode time:    {profile.decode_time:f}s",
        f"decode tokens:  {profile.generated_tokens} token(s)",
        f"decode speed:   {profile.decode_speed:f} tok/s",
        f"stop reason:    {profile.stop_reason}",
    ]
    if profile.spec_state in ("reduced", "off") or profile.spec_reason:
        why = f", {one_line(profile.spec_reason)}" if profile.spec_reason else ""
        lines.append(f"speculation:    {profile.spec_state}{why}")
    if profile.draft_proposed > 0:
        share = 100 * profile.draft_accepted / profile.draft_proposed
        counts = f"{profile.draft_accepted}/{profile.draft_proposed}"
        lines.append(f"draft accept:   {counts} ({share:.1f}%)")
    return "\n".join(lines)


def as_json(answer: Answer, model: OpenModel) -> dict[str, Any]:
    """An answer with its usage in tokens and its timings in seconds and tokens per second."""
    profile = answer.profile
    return {
        "answer": answer.content,
        "reasoning": answer.reasoning or None,
        "finish_reason": answer.finish_reason,
        "stop_reason": profile.stop_reason,
        "usage": {
            "prompt_tokens": profile.prompt_tokens,
            "cached_tokens": profile.cached_tokens,
            "prefilled_tokens": profile.prefilled_tokens,
            "completion_tokens": profile.generated_tokens,
        },
        "timings": {
            "total_time": profile.total_time,
            "ttft": profile.ttft,
            "prompt_time": profile.prompt_time,
            "decode_time": profile.decode_time,
            "prompt_speed": profile.prefill_speed,
            "decode_speed": profile.decode_speed,
        },
        "speculation": _speculation(profile, model),
    }


def _speculation(profile: Profile, model: OpenModel) -> dict[str, Any] | None:
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
        "reason": profile.spec_reason or _why_not(model),
        "steps": steps,
        "proposed": profile.draft_proposed,
        "accepted": profile.draft_accepted,
        "rejected": profile.draft_proposed - profile.draft_accepted,
        "accepted_at": list(profile.accepted_at),
        "tokens_per_step": (profile.draft_accepted + steps) / steps if steps else 0.0,
        "draft_time": profile.draft_time,
        "verify_time": profile.verify_time,
    }


def _why_not(model: OpenModel) -> str | None:
    return next((text for text in model.warnings if text.startswith("speculative decoding")), None)
