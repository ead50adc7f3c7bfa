"""A model of a server, to be talked to as one in this process is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from geniex.answering import Answer, AnswerOptions, AnswerPart
from geniex.chat.messages import Message
from geniex.chat.reasoning import Part
from geniex.client.server import Server, Stream
from geniex.facts import ModelFacts
from geniex.speculation_wish import SpeculationWish
from geniex_catalogue.errors import ServerError
from geniex_runtimes.contract import FinishReason, Profile
from geniex_runtimes.options import SamplingOptions, SpeculativeOptions

# the most draft tokens that a request may ask for
LONGEST_DRAFT = 64
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed")
_PENALTIES = ("presence_penalty", "frequency_penalty")


@dataclass(frozen=True, slots=True)
class ServedAnswer(Answer):
    """An answer of a server; `geniex` is its object of that name: timings, speculation, ..."""

    geniex: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestWish:
    """How the model is to be loaded: fields that each request carries, in the server's words."""

    nctx: int | None = None
    kv_type: str | None = None
    ngl: int | None = None
    compute: str | None = None
    require: str | None = None
    spec_type: str | None = None
    spec_draft_model: str | None = None
    spec_n_max: int | None = None
    spec_n_min: int | None = None
    spec_p_min: float | None = None
    require_spec: bool | None = None

    def fields(self) -> dict[str, object]:
        """Those that are set."""
        return {
            name: value for name in self.__slots__ if (value := getattr(self, name)) is not None
        }


class ServedModel:
    """A model of a server, loaded there as `wish` says."""

    def __init__(
        self, server: Server, name: str, wish: RequestWish, parsed: SpeculationWish
    ) -> None:
        """Have it loaded; `parsed` is the wish's speculation. Raises what `Server.load` raises."""
        self._server = server
        self._wish = wish
        loaded = server.load(name, wish.fields())
        self.name = _text(loaded, "id") or name
        self.warnings = tuple(map(str, loaded.get("warnings") or ()))
        self.facts = _facts(self.name, loaded, parsed)

    def answer(self, messages: Sequence[Message], options: AnswerOptions) -> "ServedEvents":
        """Start to answer. Closing the events stops the server's work on them.

        Raises ServerBusyError, UsageError, ServerError.
        """
        body: dict[str, object] = {
            "messages": [message.as_dict() for message in messages],
            **self._fields(options),
        }
        if options.max_tokens is not None:
            body["max_completion_tokens"] = options.max_tokens
        if options.think is not None:
            body["enable_think"] = options.think
        if options.response_format is not None:
            body["response_format"] = {"type": options.response_format.kind}
        return ServedEvents(self._server.stream("/v1/chat/completions", body), self.warnings)

    def answer_tokens(self, tokens: Sequence[int], options: AnswerOptions) -> "ServedEvents":
        """Go on from token ids as they are: no template."""
        body = {"prompt": list(tokens), **self._fields(options)}
        # without a number this route means 16
        body["max_tokens"] = -1 if options.max_tokens is None else options.max_tokens
        return ServedEvents(self._server.stream("/v1/completions", body), self.warnings)

    def _fields(self, options: AnswerOptions) -> dict[str, object]:
        """The fields that all routes share."""
        return {
            "model": self.name,
            "stream": True,
            "stream_options": {"include_usage": True},
            **({"stop": list(options.stop)} if options.stop else {}),
            **_sampling(options.sampling),
            **self._wish.fields(),
            **self._speculation(options.speculative),
        }

    def _speculation(self, chosen: SpeculativeOptions | None) -> dict[str, object]:
        """What a choice in the chat changes of the wish."""
        if chosen is None:
            return {}
        if not chosen.types:
            return {"spec_type": "none"}
        return {
            "spec_n_max": chosen.n_max,
            "spec_n_min": chosen.n_min,
            "spec_p_min": chosen.p_min,
        }


class ServedEvents:
    """A running answer of a server: iterate for its parts, then one answer."""

    def __init__(self, stream: Stream, known: Sequence[str] = ()) -> None:
        """`known` are the warnings that the load has given, which each answer repeats."""
        self._stream = stream
        self._known = frozenset(known)
        self._closed = False
        self._events = self._run()

    def __iter__(self) -> Iterator[AnswerPart | Answer]:
        return self._events

    def close(self) -> None:
        """Stop the server's work on it; nothing happens after the end."""
        self._closed = True
        self._stream.close()

    def _run(self) -> Iterator[AnswerPart | Answer]:
        said: dict[str, list[str]] = {"content": [], "reasoning": []}
        reason = ""
        usage: dict[str, Any] = {}
        ours: dict[str, Any] = {}
        for chunk in self._stream:
            usage = chunk.get("usage") or usage
            ours = chunk.get("geniex") or ours
            for choice in chunk.get("choices") or ():
                reason = choice.get("finish_reason") or reason
                for part in _parts(choice):
                    said[part.kind].append(part.text)
                    yield part
        if not reason:
            if self._closed:
                return
            raise ServerError("the server ended its answer without a reason")
        yield ServedAnswer(
            content="".join(said["content"]),
            reasoning="".join(said["reasoning"]),
            finish_reason=cast(FinishReason, reason),
            profile=_profile(usage, ours),
            notes=tuple(w for w in map(str, ours.get("warnings") or ()) if w not in self._known),
            geniex=ours,
        )


def _parts(choice: Mapping[str, Any]) -> list[Part]:
    """The texts in a choice of a chunk, of a chat or of a completion."""
    delta = choice.get("delta") or {}
    texts = (
        ("reasoning", delta.get("reasoning_content")),
        ("content", delta.get("content") or choice.get("text")),
    )
    return [Part("reasoning" if kind == "reasoning" else "content", t) for kind, t in texts if t]


def _sampling(options: SamplingOptions) -> dict[str, object]:
    fields = {name: getattr(options, name) for name in _SAMPLING}
    fields |= {name: getattr(options, name) or None for name in _PENALTIES}
    fields["grammar_string"] = options.grammar
    return {name: value for name, value in fields.items() if value is not None}


def _facts(name: str, loaded: Mapping[str, Any], parsed: SpeculationWish) -> ModelFacts:
    types = tuple(map(str, loaded.get("speculation") or ()))
    options = parsed.options
    return ModelFacts(
        name=name,
        runtime=_text(loaded, "runtime") or "-",
        compute=_text(loaded, "compute") or "-",
        devices=tuple(map(str, loaded.get("devices") or ())),
        context_length=int(loaded.get("context_length") or 0),
        types=types,
        speculative=SpeculativeOptions(
            types=types, n_max=options.n_max, n_min=options.n_min, p_min=options.p_min
        ),
        longest_draft=LONGEST_DRAFT,
        adapts=False,
        draft=parsed.draft,
    )


def _profile(usage: Mapping[str, Any], ours: Mapping[str, Any]) -> Profile:
    """What it took there, from the usage and the timings of the last chunks."""
    timings = ours.get("timings") or {}
    drafting = ours.get("speculation") or {}
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    return Profile(
        ttft=timings.get("ttft", 0.0),
        prompt_time=timings.get("prompt_time", 0.0),
        decode_time=timings.get("decode_time", 0.0),
        prompt_tokens=usage.get("prompt_tokens", 0),
        cached_tokens=cached,
        generated_tokens=usage.get("completion_tokens", 0),
        draft_steps=drafting.get("steps", 0),
        draft_proposed=drafting.get("proposed", 0),
        draft_accepted=drafting.get("accepted", 0),
        accepted_at=tuple(drafting.get("accepted_at") or ()),
        draft_time=drafting.get("draft_time", 0.0),
        verify_time=drafting.get("verify_time", 0.0),
        spec_state=drafting.get("state"),
        spec_reason=drafting.get("reason") or "",
        stop_reason=ours.get("stop_reason", ""),
    )


def _text(data: Mapping[str, Any], name: str) -> str | None:
    value = data.get(name)
    return value if isinstance(value, str) and value else None
