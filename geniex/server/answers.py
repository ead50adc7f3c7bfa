"""The answers of one request on a model of the pool: what comes, in order, from the thread.

A request may ask several prompts, and for several choices of each. They run one after another on
one lease: the first choice evaluates the prompt, the others find it in the slot, and no request
takes more than its share of the slots.
"""

import hashlib
import json
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from geniex import __version__
from geniex.answering import Answer, AnswerPart
from geniex.server.blame import blaming
from geniex.server.fields import RequestFields
from geniex.server.observed import observed
from geniex.server.pump import Closes, Job, Work, leased
from geniex.server.state import ServerState
from geniex.server.usage import Usage, geniex_of, usage_of
from geniex.session import OpenModel
from geniex_runtimes.errors import GenerationError


class Events(Closes, Protocol):
    """A running answer, such as `AnswerEvents`."""

    def __iter__(self) -> Iterator[AnswerPart | Answer]:
        """Its parts, then the whole."""
        ...


# starts to answer one prompt, for the choice of this number
Ask: TypeAlias = Callable[[OpenModel, int], Events]


@dataclass(frozen=True, slots=True)
class Opened:
    """The model is there: its canonical name, what runs it, and the time in seconds."""

    model: str
    fingerprint: str
    created: int


@dataclass(frozen=True, slots=True)
class Ended:
    """Everything has been said; `geniex` is the object of that name."""

    usage: Usage
    geniex: dict[str, Any]


Chosen: TypeAlias = tuple[int, AnswerPart | Answer]
Item: TypeAlias = Opened | Chosen | Ended


def answers(
    state: ServerState,
    fields: RequestFields,
    prepare: Callable[[], Sequence[Ask]],
    choices: int = 1,
) -> Work[Item]:
    """The work of a request: `Opened`, the parts and answers by their choice, `Ended`.

    `prepare` reads the request on the thread, before a model is asked for; choice `c` of prompt
    `p` has the number `p * choices + c`. Raises what preparing, loading and generating raise.
    """

    def work(job: Job) -> Generator[Item, None, None]:
        asks = prepare()
        wish = fields.wish(state)
        observed().asked = wish.name

        def use(job: Job, model: OpenModel) -> Iterator[Item]:
            fields.check_model(model.loaded.info)
            return _run(state, model, job, asks, choices)

        yield from leased(state.pool, wish, fields.stays(), use)(job)

    return blaming(fields, work)


def _run(
    state: ServerState,
    model: OpenModel,
    job: Job,
    asks: Sequence[Ask],
    choices: int,
) -> Iterator[Item]:
    name = model.resolved.name
    yield Opened(name, fingerprint(model), int(time.time()))
    usage = Usage()
    all_answers: list[Answer] = []
    for prompt, ask in enumerate(asks):
        group: list[Answer] = []
        for choice in range(choices):
            events = ask(model, choice)
            job.closes(events)
            with closing(events):
                for event in events:
                    if isinstance(event, Answer):
                        state.metrics.answered(name, event.profile)
                        observed().answered(event.profile, event.finish_reason)
                        _check_whole(event)
                        group.append(event)
                    yield prompt * choices + choice, event
            if job.gone.is_set():
                return  # what is cancelled ends without an answer
        usage += usage_of(group)
        all_answers += group
    yield Ended(usage, geniex_of(model, all_answers))


def _check_whole(answer: Answer) -> None:
    """Raise GenerationError for an answer that ended because its model was unloaded."""
    if answer.finish_reason == "cancelled":
        raise GenerationError("the model was unloaded while it answered", hint="ask again")


def whole(work: Work[Item]) -> Work[Item]:
    """The same work without the parts: for an answer that is sent as one."""

    def run(job: Job) -> Generator[Item, None, None]:
        with closing(work(job)) as items:
            for item in items:
                if not isinstance(item, tuple) or isinstance(item[1], Answer):
                    yield item

    return run


def fingerprint(model: OpenModel) -> str:
    """A short text that changes when the same seed may give another answer."""
    info = model.loaded.info
    facts = [
        __version__,
        model.resolved.name,
        info.runtime,
        info.compute,
        *info.devices,
        info.context_length,
        *info.speculation,
    ]
    digest = hashlib.blake2b(json.dumps(facts).encode(), digest_size=5).hexdigest()
    return f"fp_{digest}"
