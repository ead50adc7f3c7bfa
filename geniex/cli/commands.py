"""The `/` commands of the chat at the terminal."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from geniex import limits
from geniex.cli.conversation import Conversation
from geniex.cli.saved_chat import SavedChat, read_chat
from geniex.speculation import RUNTIME
from geniex_catalogue.errors import UsageError
from geniex_runtimes.options import SamplingOptions

_SAMPLING = tuple(name for name in limits.LIMITS if name != "max_tokens")
# a key of speculation -> the option it sets
_SPECULATION = {
    "speculation": "types",
    "draft_tokens": "n_max",
    "draft_min": "n_min",
    "draft_p_min": "p_min",
    "draft_adapt": "adapt",
}
_TRUTH = {"on": True, "true": True, "off": False, "false": False}
_KEYS = (*_SAMPLING, "max_tokens", "think", "stop", "system", *_SPECULATION)
_ROWS = (
    ("/set KEY VALUE", "Change how answers are made; `default` takes it back"),
    ("/show", "Show the model and how answers are made"),
    ("/save FILE", "Write the chat to a file"),
    ("/load FILE", "Go on with a chat from a file"),
    ("/clear", "Forget the chat, keep the system prompt"),
    ("/exit", "Leave (or Ctrl-D)"),
    ("/help, /?", "Show this"),
    ("Alt-Enter, Ctrl-J", 'Start a new line (or put """ around several)'),
    ("Ctrl-C", "Stop the answer, keep the chat"),
)


class Commands:
    """Runs commands on a conversation; what they say goes to stderr."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._output = conversation.output
        self._defaults = conversation.options
        self._system = conversation.system

    def takes(self, text: str) -> bool:
        """Whether the text is a command: it begins with `/`, and its first word is no path."""
        words = text.split(maxsplit=1)
        word = words[0] if words else ""
        return word.startswith("/") and "/" not in word[1:] and "." not in word

    def run(self, text: str) -> bool:
        """Run a command; False means: leave. Raises UsageError for a wrong one."""
        word, _, rest = text.strip().partition(" ")
        rest = rest.strip()
        match word.lower():
            case "/exit" | "/quit" | "/bye":
                return False
            case "/?" | "/h" | "/help":
                self._say("Commands:", *(f"  {name:<25} {what}" for name, what in _ROWS))
            case "/clear":
                self._conversation.messages.clear()
                self._output.clear_screen()
            case "/set":
                self._set(rest)
            case "/show":
                self._show()
            case "/save":
                self._save(rest)
            case "/load":
                self._load(rest)
            case _:
                raise UsageError(f"Unknown command: {word}", hint="`/?` shows what there is")
        return True

    def _say(self, *lines: str) -> None:
        for line in lines:
            self._output.tell(line)

    def _set(self, text: str) -> None:
        key, _, value = text.partition(" ")
        key, value = key.replace("-", "_"), value.strip()
        keys = f"keys: {', '.join(_KEYS)}"
        if key and key not in _KEYS:
            raise UsageError(f"`{key}` is no key of `/set`", hint=keys)
        if not value:
            raise UsageError("give `/set KEY VALUE`", hint=keys)
        conversation = self._conversation
        default = value == "default"
        options = conversation.options
        if key == "system":
            conversation.system = self._system if default else value
        elif key in _SAMPLING:
            chosen = getattr(self._defaults.sampling, key) if default else limits.read(key, value)
            changed: dict[str, Any] = {key: chosen}
            sampling: SamplingOptions = replace(options.sampling, **changed)
            conversation.options = replace(options, sampling=sampling)
        elif key in _SPECULATION:
            self._set_speculation(key, value)
        else:
            chosen = getattr(self._defaults, key) if default else _option(key, value)
            conversation.options = replace(options, **{key: chosen})

    def _set_speculation(self, key: str, text: str) -> None:
        """Change how later answers speculate, within what the model was loaded for."""
        conversation = self._conversation
        facts = conversation.facts
        loaded = facts.speculative
        if facts.runtime == "qairt":
            raise UsageError(f"speculative decoding is only supported by {RUNTIME}")
        if not facts.types:
            raise UsageError(
                "this model was loaded without speculation",
                hint="leave, and start with `--spec-type auto`",
            )
        name = _SPECULATION[key]
        if text == "default":
            chosen = getattr(loaded, name)
        elif key == "speculation":
            chosen = loaded.types if _truth(key, text) else ()
        elif key == "draft_adapt":
            if not facts.adapts:
                raise UsageError("a request to a server cannot say `draft_adapt`")
            chosen = _truth(key, text)
        else:
            chosen = _within(key, text, facts.longest_draft)
        changed: dict[str, Any] = {name: chosen}
        speculative = replace(conversation.options.speculative or loaded, **changed)
        conversation.options = replace(conversation.options, speculative=speculative)

    def _show(self) -> None:
        conversation = self._conversation
        facts = conversation.facts
        options = conversation.options
        chosen = {key: getattr(options.sampling, key) for key in _SAMPLING}
        chosen |= {key: getattr(options, key) for key in ("max_tokens", "think", "stop")}
        if facts.types:
            speculative = options.speculative or facts.speculative
            chosen |= {key: getattr(speculative, name) for key, name in _SPECULATION.items()}
            chosen["speculation"] = ",".join(speculative.types) or "off"
            chosen["draft_model"] = facts.draft or "-"
        devices = ",".join(facts.devices)
        self._say(
            f"model               {facts.name}",
            f"runtime             {facts.runtime}, {facts.compute} {devices}".rstrip(),
            f"context             {facts.context_length} tokens",
            f"messages            {len(conversation.messages)}",
            f"system              {conversation.system or '-'}",
            *(f"{key:<19} {_shown(value)}" for key, value in chosen.items()),
        )

    def _save(self, name: str) -> None:
        path = _path(name, "/save")
        if path.exists() and read_chat(path) is None:
            raise UsageError(f"`{path}` is there and is no saved chat, choose another name")
        conversation = self._conversation
        SavedChat(conversation.facts.name, conversation.system, conversation.messages).write(path)
        conversation.on_save(path)
        self._say(f"saved to {path}")

    def _load(self, name: str) -> None:
        path = _path(name, "/load")
        chat = read_chat(path)
        if chat is None:
            raise UsageError(f"`{path}` is no saved chat")
        self._conversation.messages[:] = chat.messages
        self._conversation.system = chat.system
        self._say(f"{len(chat.messages)} messages from {path}")


def _path(name: str, command: str) -> Path:
    if not name:
        raise UsageError(f"give `{command} FILE`")
    try:
        return Path(name).expanduser()
    except RuntimeError as exc:
        raise UsageError(f"`{name}`: the home folder is not known") from exc


def _option(key: str, text: str) -> Any:
    if key == "stop":
        return (text,)
    if key == "think":
        return _truth(key, text)
    if text == "-1":
        return None
    if text == "0":
        raise UsageError("`max_tokens` is 1 or more in a chat", hint="-1 is until it is full")
    return limits.read(key, text)


def _truth(key: str, text: str) -> bool:
    if text.lower() not in _TRUTH:
        raise UsageError(f"give `/set {key} on`, `off` or `default`")
    return _TRUTH[text.lower()]


def _within(key: str, text: str, n_max: int) -> float | int:
    """A value of a draft's length or confidence that the loaded model can keep to."""
    low, high = {"draft_tokens": (1, n_max), "draft_min": (0, n_max), "draft_p_min": (0, 1)}[key]
    try:
        value = float(text) if key == "draft_p_min" else int(text)
    except ValueError:
        raise UsageError(f"`{text}` is no value for `{key}`") from None
    if not low <= value <= high:
        raise UsageError(f"`{key}` goes from {low} to {high} in this chat")
    return value


def _shown(value: Any) -> str:
    if value is None or value == ():
        return "default"
    return ", ".join(map(repr, value)) if isinstance(value, tuple) else str(value)
