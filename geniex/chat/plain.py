"""The format for a model without a chat template, such as a base model.

    <system prompt>

    User: <text>

    Assistant: <text>

    User: <text>

    Assistant:

Paragraphs are parted by one blank line; other roles appear by their capitalised name. The face
ends the answer at the stop strings, since such a model would go on writing the user's part.
"""

from collections.abc import Sequence

from geniex.chat.messages import Message

STOP = ("\nUser:",)
NOTE = "this model has no chat template: a plain `User:` / `Assistant:` format is used"


def render(messages: Sequence[Message], *, add_generation_prompt: bool) -> str:
    """The messages in the plain format."""
    paragraphs = [
        message.text
        if message.role in ("system", "developer")
        else f"{message.role.capitalize()}: {message.text}"
        for message in messages
    ]
    if add_generation_prompt:
        paragraphs.append("Assistant:")
    return "\n\n".join(paragraphs)
