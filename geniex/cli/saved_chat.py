"""A chat in a file: what `/save` and `--save-session` write, and `/load` reads."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geniex.chat.messages import Message
from geniex_catalogue import durable
from geniex_catalogue.errors import UsageError
from geniex_catalogue.regular import read_regular

_MAX_CHAT = 64 << 20  # bytes; what is longer was not saved here
_PRIVATE = 0o600


@dataclass(frozen=True, slots=True)
class SavedChat:
    """What was said, to which model, under which system prompt."""

    model: str
    system: str | None
    messages: Sequence[Message]

    def write(self, path: Path) -> None:
        """Write it as a whole, for its owner alone. Raises UsageError where that cannot be."""
        chat = {
            "model": self.model,
            "system": self.system,
            "messages": [message.as_dict() for message in self.messages],
        }
        text = json.dumps(chat, ensure_ascii=False, indent=2)
        try:
            durable.write(path, f"{text}\n".encode(), mode=_PRIVATE)
        except OSError as exc:
            raise UsageError(f"cannot write `{path}`: {exc.strerror}") from exc


def read_chat(path: Path) -> SavedChat | None:
    """A saved chat, or None for a file that is none. Raises UsageError where it does not read."""
    try:
        data = read_regular(path, _MAX_CHAT + 1)
        chat: Any = json.loads(data) if len(data) <= _MAX_CHAT else None
    except OSError as exc:
        raise UsageError(f"cannot read `{path}`: {exc.strerror}") from exc
    except (ValueError, RecursionError):
        return None
    messages = chat.get("messages") if isinstance(chat, dict) else None
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        return None
    system, model = chat.get("system"), chat.get("model")
    return SavedChat(
        model if isinstance(model, str) else "",
        system if isinstance(system, str) else None,
        [Message.from_dict(message) for message in messages],
    )
