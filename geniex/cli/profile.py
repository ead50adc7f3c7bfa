"""What an answer took, as a block of lines and as JSON."""

from collections.abc import Sequence
from typing import Any

from geniex.cli.output import one_line
from geniex.client.model import ServedAnswer, ServedModel
from geniex.session import Answer, OpenModel
from geniex.speculation import REFUSED
from geniex.timings import drafting, timings
from geniex_runtimes.contract import Profile
from geniex_runtimes.options import SIMULATOR


def block(profile: Profile, devices: Sequence[str] = ()) -> str:
    """The profile as lines, in seconds, tokens and tokens per second.

    Of the devices a simulator is named: its speed is not the NPU's.
    """
    lines = [f"device:         {SIMULATOR}"] if SIMULATOR in devices else []
    lines += [
        f"total time:     {profile.total_time:f}s",
        f"ttft:           {profile.ttft:f}s",
        f"prompt time:    {profile.prompt_time:f}s",
        f"prompt tokens:  {profile.prompt_tokens} token(s)",
        *([f"from disk:      {profile.restored_tokens} token(s)"] * bool(profile.restored_tokens)),
        f"prompt speed:   {profile.prefill_speed:f} tok/s",
        f"decode time:    {profile.decode_time:f}s",
        f"decode tokens:  {profile.generated_tokens} token(s)",
        f"decode speed:   {profile.decode_speed:f} tok/s",
        f"stop reason:    {profile.stop_reason}",
    ]
    was_told = profile.spec_reason.startswith(REFUSED)  # when the model was loaded
    if not was_told and (profile.spec_state in ("reduced", "off") or profile.spec_reason):
        why = f", {one_line(profile.spec_reason)}" if profile.spec_reason else ""
        lines.append(f"speculation:    {profile.spec_state}{why}")
    if profile.draft_proposed > 0:
        share = 100 * profile.draft_accepted / profile.draft_proposed
        counts = f"{profile.draft_accepted}/{profile.draft_proposed}"
        lines.append(f"draft accept:   {counts} ({share:.1f}%)")
    return "\n".join(lines)


def as_json(answer: Answer, model: OpenModel | ServedModel) -> dict[str, Any]:
    """An answer with its usage in tokens and its timings in seconds and tokens per second."""
    profile = answer.profile
    if isinstance(model, ServedModel):
        speculation = answer.geniex.get("speculation") if isinstance(answer, ServedAnswer) else None
    else:
        speculation = drafting(profile, model)
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
        "timings": timings(profile),
        "speculation": speculation,
    }
