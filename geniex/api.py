"""The Python API: load a model by name, chat with it.

>>> import geniex
>>> with geniex.load("geniex/tiny-chat") as model:
...     for piece in model.chat("What is the capital of France?", temperature=0):
...         print(piece, end="", flush=True)
The capital of France is Paris.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeAlias, TypedDict, Unpack

from geniex.answering import AnswerEvents, AnswerOptions
from geniex.chat.messages import Message
from geniex.chat.response_format import ResponseFormat
from geniex.chat.tools import Tool, ToolChoice
from geniex.chat_answer import ChatAnswer
from geniex.config import read_settings
from geniex.keywords import log_notes, told_in, warnings_of
from geniex.session import OpenModel, open_model
from geniex.speculation_wish import read_wish
from geniex_catalogue.entries import catalogue
from geniex_catalogue.errors import UsageError
from geniex_catalogue.names import parse
from geniex_catalogue.store import Store
from geniex_catalogue.stored import StoredModel
from geniex_runtimes.options import SamplingOptions

_KEYWORDS = {
    word.replace("_", "-"): word
    for word in (
        *("runtime", "compute", "nctx", "ngl", "threads", "require", "qairt_engine", "data_dir"),
        *("isolate", "trust", "kv_type", "flash_attn", "mlock"),
        *("spec_type", "draft_model", "draft_tokens", "draft_min", "draft_p_min", "require_spec"),
    )
} | {"no-draft-adapt": "draft_adapt=False", "no-mmap": "mmap=False"}

Messages: TypeAlias = str | Sequence[Mapping[str, object]]


class Sampling(TypedDict, total=False):
    """How tokens are drawn; what is left out is the model's own choice. 0 degrees is greedy."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    seed: int
    grammar: str


class Asking(Sampling, total=False):
    """How to answer, the sampling among it.

    `max_tokens` None is until the context is full. `stop` is a text that ends the answer, or
    several. `think` None is as the model does. `tools`, `tool_choice` and `response_format` are in
    the OpenAI form; a required tool and a format are enforced by grammar.
    """

    max_tokens: int | None
    stop: str | Sequence[str] | None
    think: bool | None
    tools: Sequence[Mapping[str, object]]
    tool_choice: str | Mapping[str, object]
    parallel_tool_calls: bool
    response_format: Mapping[str, object]


class Speculating(TypedDict, total=False):
    """How to speculate, as the flags of `geniex infer` of the same names say."""

    spec_type: str
    draft_model: str | Path
    draft_tokens: int
    draft_min: int
    draft_p_min: float
    draft_adapt: bool
    require_spec: bool


class Model:
    """A model in memory; free it with `close`, or use it in a `with` statement."""

    def __init__(self, opened: OpenModel) -> None:
        self._opened = opened

    @property
    def name(self) -> str:
        """`org/repo:precision`, or the path it was loaded from."""
        return self._opened.resolved.name

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the load has to say: a choice that was not met, speculation that is not set up."""
        return warnings_of(self._opened, _KEYWORDS)

    def chat(self, messages: Messages, **options: Unpack[Asking]) -> ChatAnswer:
        """Answer a text, or messages in the OpenAI form.

        Iterate over the answer for its pieces as they come; `str()` of it is the whole content.
        Raises TemplateError, ContextLengthError, and UsageError for values that cannot be; a
        keyword that does not exist is a TypeError, as everywhere in Python. What fails later is a
        GenerationError of the answer.
        """
        return ChatAnswer(self._start(messages, options), self)

    def stream(self, messages: Messages, **options: Unpack[Asking]) -> Iterator[str]:
        """The content of `chat`, piece by piece, of an answer that nobody else holds.

        It starts with the first piece; closing the iterator, or leaving its loop, stops it.
        Raises GenerationError when the model is closed before the answer has ended.
        """
        with ChatAnswer(self._start(messages, options), self) as answer:
            yield from answer

    def _start(self, messages: Messages, options: Asking) -> AnswerEvents:
        turns: Messages = messages
        if isinstance(messages, str):
            turns = [{"role": "user", "content": messages}]
        listed = _listed(turns, "a chat is a text, or a list of messages")
        answering = _answering(dict(options))
        with told_in(_KEYWORDS):
            return self._opened.answer([Message.from_dict(turn) for turn in listed], answering)

    def close(self) -> None:
        """Free the model. May be called twice."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def load(
    name: str | Path | None = None,
    *,
    data_dir: str | Path | None = None,
    runtime: str | None = None,
    compute: str | None = None,
    nctx: int | None = None,
    ngl: int | None = None,
    threads: int | None = None,
    require: str | None = None,
    qairt_engine: str | None = None,
    isolate: bool | None = None,
    kv_type: str | None = None,
    flash_attn: str | None = None,
    mlock: bool = False,
    mmap: bool = True,
    trust: bool | None = None,
    **speculation: Unpack[Speculating],
) -> Model:
    """Load a model that is here, by name or path; without one, the configured default.

    With `isolate` a GGUF model is in a process of its own, whose crash is an error here. With
    `trust` a file that is new here is not tried out in another process first.
    What is None comes from the GENIEX_* variables and the settings file, or is chosen by the
    hardware. `kv_type`, `flash_attn`, `mlock` and `mmap` are as the flags of `geniex infer` say.
    `spec_type="auto"` speculates with what is here; `spec_type="draft-mtp"` and `draft_model` name
    a draft. The best settings that `geniex bench --save-best` has kept are used, as by
    `geniex infer`. Raises ModelNotFoundError for what would have to be pulled, and a
    GenieXError where it does not load.
    """
    if unknown := next(iter(speculation.keys() - Speculating.__annotations__), None):
        raise TypeError(f"load() got an unexpected keyword argument '{unknown}'")
    flags: dict[str, object] = {"isolate": isolate, "trust": trust}
    flags |= {"runtime": runtime, "compute": compute}
    flags |= {"nctx": nctx, "ngl": ngl, "threads": threads}
    flags |= {"require": require, "qairt_engine": qairt_engine, "mlock": mlock}
    flags["mmap"] = mmap
    flags |= {"kv_type": kv_type, "flash_attn": flash_attn}
    if name is not None and not isinstance(name, str | Path):
        raise UsageError(f"a model's name is a text, not {type(name).__name__}")
    with told_in(_KEYWORDS):
        settings = read_settings({**flags, "data_dir": _text(data_dir)}, os.environ)
        wanted = settings.model if name is None else str(name)
        opened = open_model(wanted, settings, wish=read_wish(**speculation))
    if qairt_engine is not None and (runs_on := opened.loaded.info.runtime) != "qairt":
        note = f"`--qairt-engine` does nothing: `{opened.resolved.name}` runs on {runs_on}"
        opened.plan = replace(opened.plan, notes=(*opened.plan.notes, note))
    log_notes(opened, _KEYWORDS)
    return Model(opened)


def pull(
    name: str, *, data_dir: str | Path | None = None, revision: str | None = None
) -> StoredModel:
    """Fetch a model into the store. Raises HubError, TransferError or DiskSpaceError."""
    from geniex.chipset import machine_of
    from geniex_catalogue import pull as puller

    settings = read_settings({"data_dir": _text(data_dir)}, os.environ)
    ref = parse(name, catalogue().aliases)
    wish = puller.PullWish(revision=revision, machine=machine_of(settings))
    return puller.pull(ref, Store(settings.data_dir), wish)


def _answering(given: dict[str, Any]) -> AnswerOptions:
    """The options of a chat. Raises UsageError for what is in no OpenAI form."""
    if unknown := given.keys() - Asking.__annotations__.keys():
        raise TypeError(f"a chat has no argument `{min(unknown)}`")
    stop = given.pop("stop", None)
    stop = () if stop is None else stop
    tools = _listed(given.pop("tools", None) or (), "`tools` takes a list of tools")
    parallel = given.pop("parallel_tool_calls", None)
    return AnswerOptions(
        max_tokens=given.pop("max_tokens", None),
        stop=(stop,) if isinstance(stop, str) else _listed(stop, "`stop` takes a text"),
        think=given.pop("think", None),
        tools=tuple(Tool.from_dict(tool) for tool in tools),
        tool_choice=ToolChoice.from_dict(given.pop("tool_choice", None)),
        parallel_tool_calls=parallel is not False,
        response_format=ResponseFormat.from_dict(given.pop("response_format", None)),
        sampling=SamplingOptions(**given),
    )


def _listed(value: object, expected: str) -> tuple[Any, ...]:
    """A list's items. Raises UsageError for what is no list."""
    if not isinstance(value, Iterable) or isinstance(value, Mapping | bytes):
        raise UsageError(f"{expected}, not {type(value).__name__}")
    return tuple(value)


def _text(path: str | Path | None) -> str | None:
    return None if path is None else str(path)
