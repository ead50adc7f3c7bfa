"""The switch that turns a model's thinking on and off, under the names that templates use."""

from dataclasses import dataclass, field

_SWITCHES = (
    "enable_thinking",  # Qwen 3, Gemma 4, GLM, SmolLM3, EXAONE, ERNIE and most others
    "thinking",  # DeepSeek V3.1, Granite
    "enable_think",
    "think",
    "enable_reasoning",
    "reasoning",  # Command A
)


@dataclass(frozen=True, slots=True)
class ThinkingWish:
    """How to ask a template for thinking or for none: variables to set, a system flag, a note."""

    variables: dict[str, object] = field(default_factory=dict)
    system_flag: str | None = None
    note: str | None = None


def ask(think: bool, names: frozenset[str], source: str) -> ThinkingWish:
    """The wish in the words of a template that reads the variables `names`."""
    if switches := {name: think for name in _SWITCHES if name in names}:
        return ThinkingWish(dict(switches))
    if "thinking_mode" in names:  # MiniMax M3
        return ThinkingWish({"thinking_mode": "enabled" if think else "disabled"})
    if "thinking_budget" in names:  # Seed-OSS: tokens, and 0 is off
        return ThinkingWish({} if think else {"thinking_budget": 0})
    if "reasoning_effort" in names:
        return _effort(think, source)
    if "/no_think" in source:  # Nemotron reads the flag from the messages
        return ThinkingWish(system_flag="/think" if think else "/no_think")
    return ThinkingWish(
        note="this model's template has no switch for thinking: the model decides by itself"
    )


def _effort(think: bool, source: str) -> ThinkingWish:
    if think:
        return ThinkingWish()
    for off in ("none", "no_think"):
        if f"'{off}'" in source or f'"{off}"' in source:
            return ThinkingWish({"reasoning_effort": off})
    return ThinkingWish(
        {"reasoning_effort": "low"},
        note="this model cannot stop thinking: its reasoning effort was set to low",
    )
