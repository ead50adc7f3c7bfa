"""The model's own template: roles, thinking, tools, notes, refusals."""

import datetime
import os
import subprocess
import sys

import pytest

from geniex.chat.messages import Message, ToolCall
from geniex.chat.template import ChatTemplate
from geniex_catalogue.errors import TemplateError, UsageError
from geniex_runtimes.contract import ModelInfo
from tests.geniex.chat.conftest import Named

SYSTEM, USER, ANSWER = (
    Message("system", "be brief"),
    Message("user", "hi"),
    Message("assistant", "yo"),
)
AGAIN = Message("user", "bye")
CALL = Message("assistant", None, tool_calls=(ToolCall("add", '{"a": "<b> é"}', "c1"),))
RESULT = Message("tool", "3", name="add", tool_call_id="c1")
TOOL = {"type": "function", "function": {"name": "add", "description": "a <b> & é"}}
NO_SYSTEM = "no system role"
JOINED = "were joined"
MOVED = "moved to the front"
USER_FIRST = "empty user message"

RENDERINGS = [
    pytest.param(
        "chatml",
        [USER],
        "<|im_start|>system\nYou are a small assistant.<|im_end|>\n"
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
        [],
        id="chatml default system",
    ),
    pytest.param(
        "chatml",
        [SYSTEM, USER, ANSWER, AGAIN],
        "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
        "<|im_start|>assistant\nyo<|im_end|>\n<|im_start|>user\nbye<|im_end|>\n"
        "<|im_start|>assistant\n",
        [],
        id="chatml two turns",
    ),
    pytest.param(
        "chatml",
        [Message("developer", "be brief"), USER, Message("user", ""), Message("assistant", None)],
        "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
        "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n<|im_start|>assistant\n",
        [],
        id="developer is system, neighbours untouched, empty and null",
    ),
    pytest.param(
        "tiny-chat",
        [Message("developer", "be brief"), USER],
        "<bos><|turn>system\nbe brief<turn|>\n<|turn>user\nhi<turn|>\n<|turn>model\n"
        "<|channel>thought\n<channel|>",
        [],
        id="tiny-chat knows developer",
    ),
    pytest.param(
        "alternating-without-system",
        [USER, ANSWER, AGAIN],
        "<bos><start_of_turn>user\nhi<end_of_turn>\n<start_of_turn>model\nyo<end_of_turn>\n"
        "<start_of_turn>user\nbye<end_of_turn>\n<start_of_turn>model\n",
        [],
        id="gemma",
    ),
    pytest.param(
        "alternating-without-system",
        [SYSTEM, USER],
        "<bos><start_of_turn>user\nbe brief\n\nhi<end_of_turn>\n<start_of_turn>model\n",
        [NO_SYSTEM],
        id="system into user",
    ),
    pytest.param(
        "alternating-without-system",
        [SYSTEM],
        "<bos><start_of_turn>user\nbe brief<end_of_turn>\n<start_of_turn>model\n",
        [NO_SYSTEM],
        id="system alone",
    ),
    pytest.param(
        "alternating-without-system",
        [ANSWER, USER, SYSTEM, AGAIN],
        "<bos><start_of_turn>user\n<end_of_turn>\n<start_of_turn>model\nyo<end_of_turn>\n"
        "<start_of_turn>user\nbe brief\n\nhi\n\nbye<end_of_turn>\n<start_of_turn>model\n",
        [NO_SYSTEM, JOINED, USER_FIRST],
        id="everything at once",
    ),
    pytest.param(
        "alternating-with-system",
        [SYSTEM, SYSTEM, USER, AGAIN],
        "<bos>[INST]be brief\n\nbe brief\n\nhi\n\nbye[/INST]",
        [JOINED],
        id="neighbours joined",
    ),
    pytest.param(
        "alternating-with-system",
        [USER, ANSWER, SYSTEM, AGAIN],
        "<bos>[INST]hi[/INST]yo</s>[INST]be brief\n\nbye[/INST]",
        [MOVED],
        id="system in the middle",
    ),
    pytest.param(
        "alternating-with-system",
        [SYSTEM, ANSWER, USER],
        "<bos>[INST][/INST]yo</s>[INST]be brief\n\nhi[/INST]",
        [USER_FIRST],
        id="assistant first",
    ),
    pytest.param(
        "channels",
        [USER, ANSWER, SYSTEM, AGAIN],
        "<|start|>system<|message|>Reasoning: medium<|end|>"
        "<|start|>developer<|message|># Instructions\nbe brief<|end|>"
        "<|start|>user<|message|>hi<|end|>"
        "<|start|>assistant<|channel|>final<|message|>yo<|end|>"
        "<|start|>user<|message|>bye<|end|><|start|>assistant",
        [MOVED],
        id="a system message that would get lost",
    ),
    pytest.param(
        "content-parts",
        [Message("user", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])],
        "<|im_start|>user\na\nb<|im_end|>\n",
        [],
        id="content as parts",
    ),
    pytest.param(
        "chatml",
        [SYSTEM, Message("user", [{"type": "image_url"}, {"type": "text", "text": "what?"}] * 2)],
        "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nwhat?\nwhat?<|im_end|>\n"
        "<|im_start|>assistant\n",
        ["does not support images; ignoring image input"],
        id="image left out, said once",
    ),
    pytest.param(
        "arguments-text",
        [USER, CALL, RESULT],
        '[user]hi[assistant](add {"a": "<b> é"})[tool]3',
        [],
        id="arguments as text",
    ),
]


@pytest.mark.parametrize(("name", "messages", "text", "notes"), RENDERINGS)
def test_messages_become_a_prompt(
    named: Named, name: str, messages: list[Message], text: str, notes: list[str]
) -> None:
    rendered = named(name).render(messages)
    assert rendered.text == text
    assert len(rendered.notes) == len(notes)
    assert all(part in note for part, note in zip(notes, rendered.notes, strict=True))


def test_reasoning_goes_back_where_the_template_wants_it(named: Named) -> None:
    message = Message("assistant", "yo", reasoning="hm")
    text = named("thinking-switch").render([USER, message], add_generation_prompt=False).text
    assert text.endswith("<|im_start|>assistant\n<think>\nhm\n</think>\n\nyo<|im_end|>\n")
    text = named("channels").render([USER, message], add_generation_prompt=False).text
    assert "<|channel|>analysis<|message|>hm<|end|>" in text
    both = Message("assistant", "yo", reasoning="hm", tool_calls=CALL.tool_calls)
    (note,) = named("channels").render([USER, both, RESULT]).notes
    assert "reasoning beside content" in note


@pytest.mark.parametrize(
    ("name", "think", "end", "open", "note"),
    [
        pytest.param("thinking-switch", None, "assistant\n", False, None, id="own default"),
        pytest.param("thinking-switch", True, "assistant\n", False, None, id="switch on"),
        pytest.param("thinking-switch", False, "</think>\n\n", False, None, id="switch off"),
        pytest.param("tiny-chat", None, "<channel|>", False, None, id="tiny default"),
        pytest.param("tiny-chat", True, "<|turn>model\n", False, None, id="tiny on"),
        pytest.param("tiny-chat", False, "<channel|>", False, None, id="tiny off"),
        pytest.param("flags", None, "<think>\n", True, None, id="flag default"),
        pytest.param("flags", True, "<think>\n", True, None, id="flag on"),
        pytest.param("flags", False, "<think></think>", False, None, id="flag off"),
        pytest.param("opens-thinking", None, "<think>\n", True, None, id="opens"),
        pytest.param("opens-thinking", False, "<think>\n", True, "no switch", id="no switch"),
        pytest.param("channels", False, "assistant", False, "set to low", id="effort only"),
        pytest.param("chatml", True, "assistant\n", False, "no switch", id="cannot think"),
    ],
)
def test_thinking(
    named: Named, name: str, think: bool | None, end: str, open: bool, note: str | None
) -> None:
    rendered = named(name).render([SYSTEM, USER], think=think)
    assert rendered.text.endswith(end)
    assert rendered.reasoning_open is open
    assert [note in said for said in rendered.notes] == ([True] if note else [])  # type: ignore[operator]


@pytest.mark.parametrize(
    ("source", "on", "off"),
    [
        pytest.param("{{ thinking }}", "True", "False", id="thinking"),
        pytest.param(
            "{% if not thinking is defined %}{% set thinking = false %}{% endif %}{{ thinking }}",
            "True",
            "False",
            id="thinking with default",
        ),
        pytest.param("{{ enable_think }}{{ think }}", "TrueTrue", "FalseFalse", id="two names"),
        pytest.param("{{ reasoning }}", "True", "False", id="reasoning"),
        pytest.param("{{ thinking_mode }}", "enabled", "disabled", id="mode"),
        pytest.param("{{ thinking_budget }}", "", "0", id="budget"),
        pytest.param("{{ reasoning_effort }}", "", "low", id="effort"),
        pytest.param("{{ reasoning_effort }}{{ 'none' }}", "none", "nonenone", id="effort none"),
        pytest.param("{% set t = enable_thinking %}{{ t }}", "True", "False", id="copied"),
    ],
)
def test_every_name_of_the_switch(source: str, on: str, off: str) -> None:
    template = ChatTemplate(source)
    assert template.render([USER], think=True).text == on
    assert template.render([USER], think=False).text == off
    template.close()


def test_extra_variables_reach_the_template(named: Named) -> None:
    extra = {"reasoning_effort": "high <|end|>"}
    rendered = named("channels").render([USER], think=False, extra=extra)
    assert "Reasoning: high <|end|>" in rendered.text
    assert any(piece.literal and "high" in piece.text for piece in rendered.pieces)
    with pytest.raises(UsageError, match="`messages`"):
        named("channels").render([USER], extra={"messages": []})


def test_dates(named: Named) -> None:
    text = (
        named("dated").render([USER, Message("assistant", "")], extra={"date_string": "now"}).text
    )
    assert text == (
        "<bos><|start_header_id|>system<|end_header_id|>\n\nToday Date: now<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )
    before = datetime.date.today()
    text = named("dated").render([USER]).text
    days = {day.strftime("%d %b %Y") for day in (before, datetime.date.today())}
    assert any(day in text for day in days)


@pytest.mark.parametrize(
    ("name", "messages", "message"),
    [
        pytest.param(
            "alternating-with-system",
            [USER, Message("oracle", "x")],
            "refused the messages: Only user and assistant are known, not oracle",
            id="own words",
        ),
        pytest.param("chatml", [], "no messages", id="no messages"),
    ],
)
def test_a_refusal_has_the_templates_words(
    named: Named, name: str, messages: list[Message], message: str
) -> None:
    with pytest.raises(TemplateError, match=message):
        named(name).render(messages)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param("{% for %}", r"faulty: TemplateSyntaxError: .*\(line 1\)", id="syntax"),
        pytest.param("a\n{{ 1 | nope }}", r"faulty: .*'nope'.*\(line 2\)", id="filter"),
        pytest.param("{{ messages[0].x.y }}", "failed: UndefinedError: .*'x'", id="undefined"),
        pytest.param("{{ 1 + messages }}", "failed: TypeError", id="type"),
        pytest.param("{{ 1 // 0 }}", "failed: ZeroDivisionError", id="division"),
    ],
)
def test_a_faulty_template_is_an_error_with_the_reason(source: str, message: str) -> None:
    template = ChatTemplate(source)
    with pytest.raises(TemplateError, match=message):
        template.render([USER])
    template.close()


def test_values_that_are_no_json_or_too_deep_are_refused(named: Named) -> None:
    with pytest.raises(TemplateError, match="cannot be given to a template"):
        named("chatml").render([USER], extra={"x": object()})
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TemplateError, match="nested too deeply"):
        named("chatml").render([USER], extra={"x": deep})


def test_a_template_for_tools_alone_works_without_them() -> None:
    template = ChatTemplate("{% for t in tools %}{{ t }}{% endfor %}{{ messages[0].content }}")
    assert template.render([USER]).text == "hi"
    template.close()


def test_what_transformers_templates_rely_on() -> None:
    template = ChatTemplate(
        "{% set ns = namespace(n=0) %}\n"
        "{% for m in messages %}\n"
        "    {% if m.role == 'skip' %}\n"
        "        {% continue %}\n"
        "    {% endif %}\n"
        "    {% set ns.n = ns.n + 1 %}\n"
        "    {% generation %}{{ m.content }}{% endgeneration %}\n"
        "{% endfor %}\n"
        "{{ ns.n }} {{ {'b': '<é>', 'a': [1]} | tojson }} {{ [1] | tojson(indent=2) }}\n"
        "{{ {'b': 1, 'a': 2} | tojson(separators=(',', ':'), sort_keys=true) }}\n"
        "{{ ['é'] | tojson(ensure_ascii=true) }}\n"
        "{{ documents is none }} {{ tools is none }} {{ unknown is defined }}"
    )
    assert template.render([USER, Message("skip", "no")]).text == (
        'hi1 {"b": "<é>", "a": [1]} [\n  1\n]\n{"a":2,"b":1}\n["\\u00e9"]\nTrue True False'
    )
    template.close()


@pytest.mark.parametrize("source", [None, "", "  \n"], ids=["none", "empty", "blank"])
def test_a_model_without_a_template_gets_the_plain_format(source: str | None) -> None:
    template = ChatTemplate(source, control_tokens=frozenset({"<s>"}))
    rendered = template.render([SYSTEM, USER, ANSWER, Message("user", "a <s> b")], think=True)
    assert rendered.text == ("be brief\n\nUser: hi\n\nAssistant: yo\n\nUser: a <s> b\n\nAssistant:")
    assert [piece.literal for piece in rendered.pieces] == [True]
    assert rendered.stop == ("\nUser:",)
    (note,) = rendered.notes
    assert "no chat template" in note
    template.close()


def test_the_template_of_a_loaded_model() -> None:
    info = ModelInfo(
        name="x",
        runtime="fake",
        compute="cpu",
        devices=(),
        context_length=1,
        slots=1,
        chat_template="{{ bos_token }}{{ messages[0].content }}{{ eos_token }}",
        bos_token="<s>",
        eos_token="</s>",
        control_tokens=frozenset({"<s>", "</s>"}),
    )
    template = ChatTemplate.of(info)
    pieces = template.render([Message("user", "<s></s>")]).pieces
    assert [(piece.text, piece.literal) for piece in pieces] == [
        ("<s>", False),
        ("<s></s>", True),
        ("</s>", False),
    ]
    template.close()


def test_an_answer_is_split_as_its_prompt_demands(named: Named) -> None:
    splitter = named("opens-thinking").render([USER]).splitter()
    parts = [*splitter.feed("hm</think>\n\nyo"), *splitter.finish()]
    assert [(part.kind, part.text) for part in parts] == [("reasoning", "hm"), ("content", "yo")]


def test_importing_the_package_is_light() -> None:
    code = (
        "import sys, geniex.chat.template\n"
        "print([m for m in ('jinja2', 'psutil', 'numpy', 'httpx') if m in sys.modules])"
    )
    path = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=path, check=True
    )
    assert done.stdout.strip() == "[]"
