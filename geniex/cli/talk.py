"""What is done with a conversation: turns one after another, one JSON report, or a chat."""

from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from geniex.cli.conversation import Conversation
from geniex.cli.prompts import Turns
from geniex.session import Answer
from geniex_catalogue.errors import GenieXError


def hold(
    conversation: Conversation,
    turns: Turns | None,
    data_dir: Path,
    report: Mapping[str, Any] | None,
) -> None:
    """Ask the turns, or chat at the terminal where there are none.

    With a `report` the answers go into one JSON object on stdout, beside what is in it.
    """
    if turns is None:
        from geniex.cli.repl import Repl

        Repl(conversation, data_dir).run()
    elif report is not None:
        _report(conversation, turns, report)
    else:
        deque(_answers(conversation, turns), maxlen=0)


def _answers(conversation: Conversation, turns: Turns) -> Iterator[Answer]:
    if turns.tokens is not None:
        yield conversation.go_on(turns.tokens)
    for text in turns.texts:
        yield conversation.ask(text)


def _unfinished(conversation: Conversation, how: str) -> dict[str, Any]:
    """The answer that was under way, as far as it was heard, and how it ended."""
    return {
        "answer": conversation.heard("content"),
        "reasoning": conversation.heard("reasoning") or None,
        "finish_reason": how,
        "stop_reason": how,
        "usage": None,
        "timings": None,
        "speculation": None,
    }


def _report(conversation: Conversation, turns: Turns, facts: Mapping[str, Any]) -> None:
    """Write the one object of `--json`: the last turn's answer, all turns, the facts.

    Where a turn fails or is interrupted, those before it are written and what has been heard of
    it, and the error is raised on. Nothing is written where nothing was heard at all.
    """
    from geniex.cli.profile import as_json

    answers: list[dict[str, Any]] = []
    failure: BaseException | None = None
    try:
        for one in _answers(conversation, turns):
            answers.append(as_json(one, conversation.model))
    except GenieXError as exc:
        if conversation.heard("content") or conversation.heard("reasoning"):
            answers.append(_unfinished(conversation, "error"))
        if not answers:
            raise
        failure = exc
    except KeyboardInterrupt as exc:
        answers.append(_unfinished(conversation, "cancelled"))
        failure = exc
    prompts = turns.texts or (None,)
    report = {
        "model": conversation.facts.name,
        **answers[-1],
        "turns": [
            {"prompt": text, **answer} for text, answer in zip(prompts, answers, strict=False)
        ],
        **facts,
        "error": (str(failure) or "interrupted") if failure is not None else None,
    }
    conversation.output.json(report)
    if failure is not None:
        raise failure
