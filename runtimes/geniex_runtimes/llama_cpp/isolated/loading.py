"""A load in a worker: its progress, giving it up, and what is told of one that kills the worker."""

import logging
import queue
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from geniex_catalogue.errors import LoadError
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.contract import SPEC_FALLBACK, ModelInfo
from geniex_runtimes.errors import WorkerCrashedError
from geniex_runtimes.llama_cpp.isolated import messages
from geniex_runtimes.llama_cpp.isolated.remote import Remote
from geniex_runtimes.llama_cpp.isolated.roster import ROSTER, files_of
from geniex_runtimes.options import LoadOptions, SpeculativeOptions

log = logging.getLogger("geniex.llama_cpp")

Wanted: TypeAlias = Callable[[float], bool]

_LOOK = 0.1  # seconds between looks whether it is still wanted
_DAMAGED = "the file is damaged, or made for another llama.cpp: get it again"


def load(
    model: ResolvedModel, options: LoadOptions, wanted: Wanted | None
) -> tuple[Remote, int, ModelInfo]:
    """A worker that has the model, the number it has there, and its facts.

    `wanted` is told what share is loaded, and gives the load up by False. Raises LoadError and what
    a load in this process raises.
    """
    files = files_of(model.files)
    said: tuple[str, ...] = ()
    retried = False
    while True:
        remote, shared = ROSTER.borrow(files, model.name)
        try:
            number, info = _asked(remote, model, options, wanted)
        except WorkerCrashedError as crash:
            ROSTER.give_back(remote)
            if shared and not retried:
                retried = True  # others may have killed it
                continue
            plainer = _plainer(options)
            if plainer is None:
                raise _refused(model, crash) from crash
            if options.speculative.types:
                said = (f"{SPEC_FALLBACK}: {crash.message} while it was tried",)
                log.warning("%s: %s", model.name, said[0])
            options = plainer
        except BaseException:
            ROSTER.give_back(remote, kill=True)
            raise
        else:
            return remote, number, replace(info, warnings=(*said, *info.warnings))


def _asked(
    remote: Remote, model: ResolvedModel, options: LoadOptions, wanted: Wanted | None
) -> tuple[int, ModelInfo]:
    number, inbox = remote.open(lambda number: messages.Load(number, model, options))
    share = 0.0
    try:
        while True:
            if wanted is not None and not wanted(share):
                remote.tell(messages.GiveUp(number))
                raise LoadError(f"loading `{model.name}` was given up")
            try:
                news = inbox.get(_LOOK)
            except queue.Empty:
                continue
            if isinstance(news, Exception):
                raise news
            if isinstance(news, messages.Progress):
                share = news.share
            elif isinstance(news, messages.Loaded):
                return number, news.info
    except KeyboardInterrupt:
        remote.tell(messages.GiveUp(number))
        raise
    finally:
        remote.forget(number)


def _plainer(options: LoadOptions) -> LoadOptions | None:
    """The same without what a model can do without; None where nothing is left to leave out."""
    speculative = options.speculative
    if speculative.types and speculative.require:
        return None
    if not speculative.types and not options.keep_heads:
        return None
    return replace(options, speculative=SpeculativeOptions(), draft=None, keep_heads=False)


def _refused(model: ResolvedModel, crash: WorkerCrashedError) -> LoadError:
    words = f" ({crash.words})" if crash.words else ""
    return LoadError(
        f"`{model.name}` does not load: the worker {crash.how} while it loaded{words}",
        hint=_DAMAGED,
    )
