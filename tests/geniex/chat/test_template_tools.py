"""Tools through a model's own template: definitions, calls, results and their ids."""

import re

import pytest

from geniex.chat import tool_prompt
from geniex.chat.messages import Message
from geniex.chat.template import ChatTemplate
from tests.geniex.chat.conftest import Named
from tests.geniex.chat.test_template import ANSWER, CALL, RESULT, SYSTEM, TOOL, USER


def test_tools_calls_and_results(named: Named) -> None:
    rendered = named("thinking-switch").render([USER, CALL, RESULT], tools=[TOOL])
    assert rendered.text == (
        "<|im_start|>system\n# Tools\n"
        '{"type": "function", "function": {"name": "add", "description": "a <b> & é"}}\n'
        "<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
        '<tool_call>\n{"name": "add", "arguments": {"a": "<b> é"}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\n3\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert rendered.notes == ()


@pytest.mark.parametrize("name", ["chatml", None], ids=["template", "plain"])
def test_tools_are_told_where_the_template_knows_none(named: Named, name: str | None) -> None:
    template = named(name) if name else ChatTemplate(None)
    rendered = template.render([SYSTEM, USER, CALL, RESULT], tools=[TOOL])
    assert rendered.text.index("be brief") < rendered.text.index('{"name": "add", "description"')
    assert '{"name": "add", "arguments": {"a": "<b> é"}}' in rendered.text
    assert "Result of add:\n3" in rendered.text
    assert tool_prompt.NOTE in rendered.notes


def test_results_are_joined_to_their_calls(named: Named) -> None:
    other = Message("tool", '{"b": 2}', tool_call_id="c1")
    rendered = named("joined-results").render([USER, CALL, RESULT, other], tools=[TOOL])
    told = (
        "<|turn>system\n<|tool>add<tool|><turn|>\n<|turn>user\nhi<turn|>\n"
        '<|turn>model\n<|tool_call>call:add{"a": "<b> é"}<tool_call|>'
        '<|tool_response>add"3"<tool_response|><|tool_response>add{"b": 2}<tool_response|>'
    )
    assert (rendered.text, rendered.notes) == (told, ())
    rendered = named("joined-results").render([USER, CALL, RESULT, other, ANSWER], tools=[TOOL])
    assert rendered.text == f"{told}yo<turn|>\n"


def test_ids_are_shortened_where_the_template_insists(named: Named) -> None:
    rendered = named("short-ids").render([USER, CALL, RESULT])
    found = re.search(r"\[TOOL_CALLS\](\w{9}) .*\[TOOL_RESULTS\](\w{9}) 3$", rendered.text)
    assert found and found[1] == found[2]
    assert rendered.notes == ("the ids of tool calls were shortened for this template",)


def test_tools_without_a_system_prompt_make_one(named: Named) -> None:
    text = named("chatml").render([USER], tools=[TOOL]).text
    assert text.startswith("<|im_start|>system\nYou can call these functions.")
