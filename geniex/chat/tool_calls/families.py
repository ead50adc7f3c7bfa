"""Which family a model belongs to: its chat template tells."""

from collections.abc import Sequence

from geniex.chat.tool_calls.bare import Bare
from geniex.chat.tool_calls.gemma import Gemma
from geniex.chat.tool_calls.gpt_oss import GptOss
from geniex.chat.tool_calls.mistral import Mistral
from geniex.chat.tool_calls.reader import Family
from geniex.chat.tool_calls.tagged import Tagged

# calls are read in whichever way they are written: many a model speaks the format of another
FAMILIES: Sequence[Family] = (Tagged(), Mistral(), Gemma(), GptOss(), Bare())


def family_of(source: str | None) -> Family:
    """The way in which a model with this chat template is to write calls."""
    text = source or ""
    if "<|tool_call>" in text:
        return Gemma()
    if "[TOOL_CALLS]" in text:
        return Mistral(one_by_one="[ARGS]" in text)
    if "<|channel|>" in text and "commentary" in text:
        return GptOss()
    if "<tool_call>" in text:
        return Tagged(functions="<function=" in text)
    if "<|tool_call|>" in text:
        return Bare(mark="<|tool_call|>")
    if "<|python_tag|>" in text or "ipython" in text:
        return Bare(arguments="parameters")
    return Bare()
