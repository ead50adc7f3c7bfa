"""Repairs of chats with very many messages: each text is copied a few times, not once a message."""

import pytest

from geniex.chat import repairs
from geniex.chat.messages import Message
from geniex.chat.repairs import merge_neighbours
from geniex.chat.template import ChatTemplate

COUNT = 2000


def test_joined_are_neighbours_of_one_role_with_what_they_thought() -> None:
    result = Message("tool", "3")
    chat = (
        Message("user", "a"),
        Message("user", ""),
        Message("user", "b"),
        Message("assistant", "c", reasoning="one"),
        Message("assistant", "d"),
        Message("assistant", "e", reasoning="two"),
        result,
        result,
        Message("user", "f"),
    )
    assert merge_neighbours(chat) == (
        Message("user", "a\n\nb"),
        Message("assistant", "c\n\nd\n\ne", reasoning="one\n\ntwo"),
        result,
        result,
        Message("user", "f"),
    )


def test_many_messages_are_joined_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written = 0
    paragraphs = repairs._paragraphs

    def counted(messages: repairs.Messages) -> str:
        nonlocal written
        text = paragraphs(messages)
        written += len(text)
        return text

    monkeypatch.setattr(repairs, "_paragraphs", counted)
    (joined,) = merge_neighbours((Message("user", "hi"),) * COUNT)
    assert joined.text == "\n\n".join(["hi"] * COUNT)
    assert written <= 2 * len(joined.text)


@pytest.mark.parametrize(
    ("source", "lost"),
    [
        pytest.param("{% for m in messages %}{{ m.content }}\n{% endfor %}", False, id="in order"),
        pytest.param(
            "{% for m in messages | reverse %}{{ m.content }}\n{% endfor %}", False, id="backwards"
        ),
        pytest.param(
            "{% for m in messages %}{% if m.role != 'system' or loop.first %}{{ m.content }}\n"
            "{% endif %}{% endfor %}",
            True,
            id="first alone",
        ),
    ],
)
def test_a_system_message_that_is_lost_is_found_out(source: str, lost: bool) -> None:
    template = ChatTemplate(source)
    try:
        chat = [Message(role, f"{role} {n}.") for n in range(5) for role in ("system", "user")]
        rendered = template.render(chat)
    finally:
        template.close()
    assert any("moved to the front" in note for note in rendered.notes) == lost
    assert all(f"system {n}." in rendered.text for n in range(5))
