"""`geniex infer --save-session FILE`: a chat that goes on where it was left.

FILE has what was said, as `/save` writes it, after each turn. `FILE.kv` has what the model made of
it, written at the end: with it nothing of the chat is evaluated again.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from geniex.cli.conversation import Conversation
from geniex.cli.output import Output
from geniex.cli.saved_chat import SavedChat, read_chat
from geniex_catalogue.errors import UsageError
from geniex_runtimes.contract import ModelInfo
from geniex_runtimes.options import PrefixCache

ENDING = ".kv"
_LOGGER = "geniex.llama_cpp.kept"


class ChatSession:
    """A session's files, and what is told of them."""

    def __init__(self, file: Path, output: Output) -> None:
        """Read what is there. Raises UsageError for a file that is no saved chat."""
        self._file = file.expanduser().absolute()
        self._output = output
        self._chat: SavedChat | None = None
        self._seen = self._stamp()
        if self._file.exists():
            self._chat = read_chat(self._file)
            if self._chat is None:
                raise UsageError(f"`{file}` is there and is no saved chat, choose another name")
        elif not self._file.parent.is_dir():
            raise UsageError(f"`{self._file.parent}` is no folder, so no session can be kept there")
        if not os.access(self._file.parent, os.W_OK):
            raise UsageError(
                f"`{self._file.parent}` cannot be written, so no session can be kept there",
                hint="give `--save-session` a file in a folder of yours",
            )
        self._facts: dict[str, Any] = {}
        self.state = self._file.with_name(self._file.name + ENDING)

    @property
    def cache(self) -> PrefixCache:
        """Where the runtime keeps its state."""
        return PrefixCache(file=self.state)

    def begin(self, conversation: Conversation, info: ModelInfo) -> dict[str, Any]:
        """Go on with the chat, say what was brought back, and keep each turn.

        The facts for JSON say in `not_kept` why the last turn is not in the file.
        """
        chat = self._chat
        if chat is None:
            self._output.note(f"a new session, kept in `{self._file}`")
        else:
            conversation.messages[:] = chat.messages
            conversation.system = conversation.system or chat.system
            self._output.note(f"{len(chat.messages)} messages from `{self._file}`")
        why = self._why_anew(info, conversation)
        if info.restored_tokens and not why:
            self._output.note(f"the state of {info.restored_tokens} tokens was brought back")
        elif why:
            self._output.warn(f"the chat is evaluated anew: {why}")
        conversation.on_turn = lambda: self._keep(conversation)
        conversation.on_save = self._saved
        self._facts = {
            "file": str(self._file),
            "messages": len(chat.messages) if chat is not None else 0,
            "restored_tokens": info.restored_tokens,
            "evaluated_anew": why or None,
            "not_kept": None,
        }
        return self._facts

    def _why_anew(self, info: ModelInfo, conversation: Conversation) -> str:
        """Why there is nothing to go on from; empty where there is, or where nothing was said."""
        if info.runtime == "qairt":
            return "the state of a bundle cannot be saved"
        if info.restore_failure:
            return f"`{self.state.name}` cannot be used: {info.restore_failure}"
        if self._chat is None or not self._chat.messages:
            return ""
        if not info.restored_tokens:
            return f"there is no `{self.state.name}`"
        if conversation.system != self._chat.system:
            return "the system prompt is another one"
        return ""

    def _saved(self, path: Path) -> None:
        """Take notice of a `/save` of this chat: the file is still ours."""
        if path.absolute() == self._file:
            self._seen = self._stamp()

    def _stamp(self) -> tuple[int, int, int] | None:
        """What tells the file from what another program made of it; None where there is none."""
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _keep(self, conversation: Conversation) -> None:
        chat = SavedChat(conversation.facts.name, conversation.system, conversation.messages)
        try:
            if (found := self._stamp()) is not None and found != self._seen:
                raise UsageError(f"`{self._file}` was changed meanwhile, and stays as it is")
            chat.write(self._file)
            self._seen = self._stamp()
        except UsageError as exc:
            # the same is told once, not after each turn
            if self._facts.get("not_kept") != exc.message:
                self._output.warn(f"the session is not kept: {exc.message}")
            self._facts["not_kept"] = exc.message
        else:
            self._facts["not_kept"] = None

    @contextmanager
    def ending(self, conversation: Conversation | None) -> Iterator[None]:
        """Around the end of the model: keep the chat, and say what of its state is not kept."""
        if conversation is not None:
            self._keep(conversation)
        teller = _Teller(self._output)
        logger = logging.getLogger(_LOGGER)
        level = logger.level
        logger.addHandler(teller)
        logger.setLevel(logging.WARNING)  # whatever the log is to show
        try:
            with self._output.status("keeping the session..."):
                yield
        finally:
            logger.removeHandler(teller)
            logger.setLevel(level)


class _Teller(logging.Handler):
    """Tells the runtime's warnings, which else are in the log alone."""

    def __init__(self, output: Output) -> None:
        super().__init__(logging.WARNING)
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        """Tell one."""
        self._output.warn(record.getMessage())
