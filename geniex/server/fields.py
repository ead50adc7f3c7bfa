"""The fields that every request may carry beside those of its endpoint.

Explicit `null` is the same as an absent field, and unknown fields are ignored. What cannot be
honoured is refused by name.

Seeds may be of any size and sign: 0 to 4294967295 are taken as they are, others are mapped into
that range by a hash, always the same way. Further choices (`n`) draw from seeds made of the
request's one.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from geniex.keys import parse_compute
from geniex.server.pool import UNSET, ModelWish, Purpose, Unset
from geniex.server.refusals import about, invalid, named, unsupported
from geniex.server.state import ServerState
from geniex.speculation_wish import NO_WISH, SpeculationWish, read_wish
from geniex_catalogue import names
from geniex_catalogue.entries import catalogue
from geniex_catalogue.errors import (
    DraftNotFoundError,
    GenieXError,
    ModelNotFoundError,
    ModelPathError,
    ModelRefError,
    UsageError,
)
from geniex_catalogue.regular import read_regular
from geniex_runtimes.contract import ModelInfo
from geniex_runtimes.errors import ContextLengthError, NoRuntimeError, SpeculativeError
from geniex_runtimes.llama_cpp.speculative.types import parse_types
from geniex_runtimes.options import KvType, SamplingOptions

_MAX_GRAMMAR: Final = 1 << 20
_SEEDS: Final = 1 << 32

# efforts at which a model is asked not to think
NO_EFFORT: Final = ("none", "minimal")

# how the layers below begin, or what they say, where a field of ours is to blame
_NO_UNIT: Final = ("unknown compute", "the devices ")
_OF_NCTX: Final = "a context of "
_OF_KV: Final = "a KV cache of "
_NEEDS_DRAFT: Final = "needs a draft model"
_OF_THE_DRAFT: Final = "draft model "
_NO_VARIABLE: Final = "as an extra variable"

Bias = Annotated[float, Field(ge=-100, le=100)]
TokenId = Annotated[str, Field(pattern=r"^\d{1,9}$")]


class RequestFields(BaseModel):
    """Which model, and how it is loaded: fields of every request that needs one."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    # the field that holds what the model reads
    said: ClassVar[str] = "messages"

    model: str | None = Field(
        None, description="A name from `GET /v1/models`; without one, the server's default model."
    )
    nctx: int | None = Field(
        None, ge=0, le=1 << 30, description="Context length in tokens; 0 is the server's own."
    )
    ngl: int | None = Field(
        None, ge=-1, le=1 << 30, description="Layers on the device: -1 all, 0 none."
    )
    compute: str | None = Field(
        None, description="cpu, gpu, npu, hybrid, or device names with commas."
    )
    require: Literal["npu", "gpu", "cpu"] | None = Field(
        None, description="Fail where the model would run elsewhere."
    )
    keep_alive: float | None = Field(
        None, le=1e9, description="Seconds that the model stays once idle; negative: for ever."
    )

    def wish(self, state: ServerState, purpose: Purpose = "text") -> ModelWish:
        """What this asks of the pool. Raises RequestError for a name or unit that is none."""
        return ModelWish(
            name=None if self.model is None else _name(self.model, "model", state),
            nctx=self.nctx or None,
            kv_type=self.cache_type(),
            ngl=self.ngl,
            compute=_compute(self.compute),
            require=self.require,
            speculation=self.speculation(state),
            purpose=purpose,
        )

    def speculation(self, state: ServerState) -> SpeculationWish:
        """How this request speculates: not at all, where it has no fields for it."""
        return NO_WISH

    def cache_type(self) -> KvType | None:
        """What the KV cache is to be kept in: what the server says, where there is no field."""
        return None

    def check_model(self, info: ModelInfo) -> None:
        """Raise RequestError for what this model cannot do, now that it is known."""

    def blamed(self, error: GenieXError) -> GenieXError:
        """An error of planning or of the model, with its field where that is known."""
        if isinstance(error, ContextLengthError):
            return about(error, self.said)
        if self.compute and isinstance(error, UsageError) and error.message.startswith(_NO_UNIT):
            return about(error, "compute")
        if self.require and isinstance(error, NoRuntimeError) and "--require" in str(error.hint):
            return about(error, "require")
        if self.nctx and isinstance(error, NoRuntimeError) and _OF_NCTX in error.message:
            return about(error, "nctx")
        # with a hint, it would have run without this wish
        if self.compute and isinstance(error, NoRuntimeError) and error.hint is not None:
            return about(error, "compute")
        return error

    def stays(self) -> float | Unset:
        """`keep_alive` as `Lease.close` takes it."""
        return UNSET if self.keep_alive is None else self.keep_alive


class SpeculatingFields(RequestFields):
    """How the request speculates, and what its KV cache is kept in."""

    kv_type: KvType | None = Field(
        None, description="What the KV cache is kept in; none: as the server was started."
    )
    spec_type: str | None = Field(
        None,
        description="How to speculate: `draft-mtp`, `draft-simple`, `ngram-simple` and others with "
        "commas, `auto`, or `none`.",
    )
    spec_draft_model: str | None = Field(
        None, description="The draft's name; it must be here, nothing is pulled for it."
    )
    spec_n_max: int | None = Field(
        None,
        ge=0,
        le=64,
        description="Most draft tokens a step; 0 is the default, 3 (15 of n-grams alone).",
    )
    spec_n_min: int | None = Field(None, ge=0, le=64, description="Fewest draft tokens a step.")
    spec_p_min: float | None = Field(
        None, ge=0, le=1, description="A draft ends below this confidence; 0: never."
    )
    require_spec: bool | None = Field(
        None, description="Fail where speculation cannot be set up, and do not decode plainly."
    )

    def cache_type(self) -> KvType | None:
        """What the request says."""
        return self.kv_type

    def speculation(self, state: ServerState) -> SpeculationWish:
        """How to speculate. Raises RequestError, naming the field."""
        rest = ("spec_draft_model", "spec_n_max", "spec_n_min", "spec_p_min", "require_spec")
        if not self.spec_type:
            if idle := next((name for name in rest if getattr(self, name)), None):
                raise invalid(
                    f"`{idle}` does nothing without `spec_type`: add `spec_type`, such as "
                    "`draft-mtp` or `auto`",
                    idle,
                )
            return NO_WISH
        try:
            parse_types(self.spec_type)
        except UsageError as exc:
            raise named(exc, "spec_type") from exc
        most, least = self.spec_n_max or None, self.spec_n_min or None
        draft = self.spec_draft_model or None
        if draft is not None:
            draft = _name(draft, "spec_draft_model", state)
        try:
            return read_wish(
                self.spec_type,
                draft,
                draft_tokens=most,
                draft_min=least,
                draft_p_min=self.spec_p_min,
                require_spec=self.require_spec or False,
                paths=draft in state.options.paths,
            )
        except UsageError as exc:
            said = f"{exc.message} {exc.hint}"
            for flag, field in _BLAMED:
                if f"`{flag}`" in said:
                    raise named(exc, field) from exc
            raise named(exc, "spec_draft_model" if draft else "spec_type") from exc
        except ModelNotFoundError as exc:
            # a bare name that is none: it is the draft that it was to be
            raise DraftNotFoundError(draft or "", exc.suggestions, hint=exc.hint) from exc

    def blamed(self, error: GenieXError) -> GenieXError:
        """A draft that is needed is missing in its field; else `require_spec` is to blame."""
        if self.kv_type and isinstance(error, UsageError) and error.message.startswith(_OF_KV):
            return about(error, "kv_type")
        if self.spec_type and _NEEDS_DRAFT in error.message:
            return about(error, "spec_draft_model")
        if self.require_spec and isinstance(error, SpeculativeError):
            error.hint = error.hint or "without `require_spec` the answer comes all the same"
            if not error.message.startswith(_OF_THE_DRAFT):
                return unsupported(about(error, "require_spec").message, "require_spec")
        return super().blamed(error)


class Extras(SpeculatingFields):
    """How tokens are drawn, and how the request speculates."""

    temperature: float | None = Field(None, ge=0, le=100, description="0 is greedy.")
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=0, le=(1 << 31) - 1, description="0: all tokens.")
    min_p: float | None = Field(None, ge=0, le=1)
    repetition_penalty: float | None = Field(None, gt=0, le=100)
    presence_penalty: float | None = Field(None, ge=-100, le=100)
    frequency_penalty: float | None = Field(None, ge=-100, le=100)
    seed: int | None = Field(None, description="Any whole number; none: drawn at random.")
    logit_bias: dict[TokenId, Bias] | None = Field(
        None, description="What is added to the logits of token ids."
    )
    grammar_string: str | None = Field(None, description="A GBNF grammar that the answer obeys.")
    grammar_path: str | None = Field(
        None, description="A GBNF file below the folder that the operator has set for them."
    )

    def check_model(self, info: ModelInfo) -> None:
        """Raise RequestError for a bias of tokens that the model does not have."""
        for token, _ in _bias(self.logit_bias or {}):
            if 0 < info.vocab_size <= token:
                raise invalid(
                    f"token {token} is not in the vocabulary of {info.vocab_size} tokens",
                    "logit_bias",
                )

    def sampling(self, state: ServerState) -> SamplingOptions:
        """How to draw; reads the grammar's file, so it may block.

        Raises RequestError for a grammar that is given twice or cannot be read.
        """
        return SamplingOptions(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty or 0.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            seed=None if self.seed is None else _seed(str(self.seed), self.seed),
            grammar=self._grammar(state.options.grammar_dir),
            logit_bias=_bias(self.logit_bias or {}),
        )

    def blamed(self, error: GenieXError) -> GenieXError:
        """A grammar that the model does not accept is named."""
        grammar = self.grammar_string or self.grammar_path
        if isinstance(error, UsageError) and "grammar" in error.message and grammar:
            return named(error, "grammar_string" if self.grammar_string else "grammar_path")
        return super().blamed(error)

    def _grammar(self, folder: Path | None) -> str | None:
        if self.grammar_string and self.grammar_path:
            raise invalid(
                "`grammar_string` and `grammar_path` are both given: send one of them",
                "grammar_path",
            )
        if self.grammar_path:
            return _read_grammar(self.grammar_path, folder)
        return self.grammar_string or None


class ChatExtras(Extras):
    """How the model thinks, and what else its chat template is told."""

    enable_think: bool | None = Field(
        None, description="Whether the model thinks first; none: as its template does."
    )
    reasoning_format: str | None = Field(
        None,
        description="`auto` or `deepseek`: reasoning in `reasoning_content`; `none`: it stays in "
        "the content, as it was written.",
    )
    chat_template_kwargs: dict[str, Any] | None = Field(
        None, description="Further variables for the model's chat template."
    )

    def blamed(self, error: GenieXError) -> GenieXError:
        """A variable that a request cannot set is one of `chat_template_kwargs`."""
        if self.chat_template_kwargs and _NO_VARIABLE in error.message:
            return about(error, "chat_template_kwargs")
        return super().blamed(error)

    def separates_reasoning(self) -> bool:
        """Whether reasoning is kept apart. Raises RequestError for an unknown format."""
        word = (self.reasoning_format or "auto").strip().lower()
        if word not in ("auto", "deepseek", "none"):
            raise invalid(
                f"`{self.reasoning_format}` is no `reasoning_format`: use auto, deepseek or none",
                "reasoning_format",
            )
        return word != "none"

    def thinks(self, effort: str | None) -> bool | None:
        """Whether to think, by `enable_think`, else by the effort that was asked for."""
        if self.enable_think is not None or effort is None:
            return self.enable_think
        return effort not in NO_EFFORT

    def variables(self, effort: str | None) -> dict[str, Any]:
        """What the template is told; an effort that means thinking is among it."""
        told = {} if effort is None or effort in NO_EFFORT else {"reasoning_effort": effort}
        return {**told, **(self.chat_template_kwargs or {})}


# flags that are the point of an error where its text has them, and the fields that they are
_BLAMED: Final = (
    ("--draft-p-min", "spec_p_min"),
    ("--draft-min", "spec_n_min"),
    ("--require-spec", "require_spec"),
)


def nth_choice(sampling: SamplingOptions, index: int) -> SamplingOptions:
    """How the choice `index` of a request draws: from another seed than those before it."""
    if index == 0 or sampling.seed is None:
        return sampling
    return replace(sampling, seed=_seed(f"{sampling.seed} {index}"))


def _seed(text: str, number: int = -1) -> int:
    """A seed the runtime takes: `number` where it is one, else made of the text."""
    if 0 <= number < _SEEDS:
        return number
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest())


def _bias(given: Mapping[str, float]) -> tuple[tuple[int, float], ...]:
    return tuple((int(token), value) for token, value in given.items())


def _name(text: str, param: str, state: ServerState) -> str:
    """A model's name as it was given. Raises RequestError for a path: only the store is served.

    A path that the operator named is a model's name here.
    """
    if text in state.options.paths:
        return text
    try:
        names.parse(text, catalogue().aliases, paths=False)
    except (ModelPathError, ModelRefError) as exc:
        raise invalid(
            f"`{param}` takes the name of a model, `org/repo[:precision]`, as `GET /v1/models` "
            f"lists them; `{text[:200]}` is none",
            param,
        ) from exc
    except ModelNotFoundError:
        return text  # a bare name that is no alias: the pool tells what is like it
    return text


def _compute(text: str | None) -> str | None:
    if not text:
        return None
    try:
        return parse_compute(text)
    except UsageError as exc:
        raise named(exc, "compute") from exc


def _read_grammar(text: str, folder: Path | None) -> str:
    """The grammar in a file of the operator's folder; links are followed and must stay inside."""
    if folder is None:
        raise invalid(
            "`grammar_path` is not allowed on this server: send `grammar_string`",
            "grammar_path",
        )
    refusal = invalid(
        "`grammar_path` names no grammar in the folder that this server has for them",
        "grammar_path",
    )
    try:
        root = folder.resolve(strict=True)
        path = (root / text).resolve(strict=True)
        if not path.is_relative_to(root):
            raise refusal
        data = read_regular(path, _MAX_GRAMMAR + 1)
        if len(data) > _MAX_GRAMMAR:
            raise invalid("the grammar of `grammar_path` is larger than 1 MiB", "grammar_path")
        return data.decode()
    except (OSError, ValueError, RuntimeError) as exc:
        raise refusal from exc
