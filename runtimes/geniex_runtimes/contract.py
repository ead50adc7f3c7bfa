"""What a runtime is: the requests it takes, the events it gives, the facts it reports."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from geniex_runtimes.options import ComputeUnit, LoadOptions, SamplingOptions, SpeculativeOptions

if TYPE_CHECKING:
    # for a type alone: every command imports this file, and the resolver brings half the catalogue
    from geniex_catalogue.resolver import ResolvedModel

# what a runtime says first where speculation was asked for and cannot be set up
SPEC_FALLBACK = "speculative decoding setup failed; falling back to plain decoding"

SpecState: TypeAlias = Literal["on", "reduced", "off"]
FinishReason: TypeAlias = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class PromptPiece:
    """A run of prompt text; in `literal` text special tokens are not recognised."""

    text: str
    literal: bool = False


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One completion.

    `prompt` is pieces of text, or token ids as they are. `max_tokens` None means until the context
    is full. `stop` strings end the answer and are not part of it. `logprobs` is how many
    alternatives per token to report (None: no logprobs). `reuse_prefix` False evaluates the whole
    prompt even where a slot already holds its beginning. `speculative` None is as the model was
    loaded; otherwise its numbers count, and whether it has types: which ones was settled then.
    `counted`: each token's text leaves by itself, and tells how many tokens there were.
    """

    prompt: Sequence[PromptPiece] | Sequence[int]
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    reuse_prefix: bool = True
    speculative: SpeculativeOptions | None = None
    counted: bool = False


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One emitted token: its id, bytes, natural-log probability, and the likeliest others."""

    token: int
    data: bytes
    logprob: float
    top: tuple["TokenLogprob", ...] = ()


@dataclass(frozen=True, slots=True)
class TextEvent:
    """A piece of the answer: whole characters only, never part of a stop string.

    `tokens` is how many the answer had with it, where that was asked for, else 0.
    """

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()
    tokens: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Profile:
    """What a generation took: times in seconds, counts in tokens, speeds in tokens per second.

    `prompt_tokens` = `cached_tokens` (reused from the slot) + `prefilled_tokens`; `restored_tokens`
    are those of the cached that were read from disk. `draft_steps` are
    the verifications that had a draft; `accepted_at[i]` counts those whose i-th draft token was
    accepted. `spec_state` is None without speculation, `off` where it was asked for and is not;
    `spec_reason` says why it is not on.
    """

    ttft: float = 0.0
    prompt_time: float = 0.0
    decode_time: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    restored_tokens: int = 0
    generated_tokens: int = 0
    draft_steps: int = 0
    draft_proposed: int = 0
    draft_accepted: int = 0
    accepted_at: tuple[int, ...] = ()
    draft_time: float = 0.0
    verify_time: float = 0.0
    spec_state: SpecState | None = None
    spec_reason: str = ""
    stop_reason: str = ""

    @property
    def prefilled_tokens(self) -> int:
        """Prompt tokens that were evaluated for this request."""
        return self.prompt_tokens - self.cached_tokens

    @property
    def queue_time(self) -> float:
        """Seconds that it waited for a slot: the part of `ttft` before its prompt was begun."""
        return max(0.0, self.ttft - self.prompt_time)

    @property
    def total_time(self) -> float:
        """Seconds of prefill and decode."""
        return self.prompt_time + self.decode_time

    @property
    def prefill_speed(self) -> float:
        """Prompt tokens evaluated per second; 0 when nothing was evaluated."""
        return self.prefilled_tokens / self.prompt_time if self.prompt_time > 0 else 0.0

    @property
    def decode_speed(self) -> float:
        """Tokens per second after the first one; 0 when there was no second one."""
        if self.decode_time <= 0 or self.generated_tokens < 2:
            return 0.0
        return (self.generated_tokens - 1) / self.decode_time


@dataclass(frozen=True, slots=True)
class Done:
    """The last event of a generation.

    `stop_reason` of the profile is finer than `finish_reason`: eos, stop, length, context, user.
    """

    finish_reason: FinishReason
    profile: Profile


Event: TypeAlias = TextEvent | Done


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a loaded model is, and the special texts that its chat template needs.

    `speculation` are the types that were set up. `vocab_size` is 0 where it is unknown,
    `training_context` (tokens) None. `embedding`: it gives vectors, and no text. `end_tokens` are
    the control tokens that end an answer. `restored_tokens` were brought back from the file of a
    session; `restore_failure` is why those of one that is there were not.
    """

    name: str
    runtime: str
    compute: ComputeUnit
    devices: tuple[str, ...]
    context_length: int
    slots: int
    chat_template: str | None
    bos_token: str = ""
    eos_token: str = ""
    control_tokens: frozenset[str] = frozenset()
    end_tokens: frozenset[str] = frozenset()
    sampling_defaults: SamplingOptions = field(default_factory=SamplingOptions)
    speculation: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    vocab_size: int = 0
    training_context: int | None = None
    embedding: bool = False
    restored_tokens: int = 0
    restore_failure: str = ""


@dataclass(frozen=True, slots=True)
class Embedding:
    """A vector of length 1 for each text, in order; `tokens` is how many were evaluated in all."""

    vectors: tuple[tuple[float, ...], ...]
    tokens: int


class Generation(Protocol):
    """A running generation: text, then exactly one `Done`."""

    def __iter__(self) -> Iterator[Event]:
        """Itself."""
        ...

    def __next__(self) -> Event:
        """The next event. Raises GenerationError when decoding fails."""
        ...

    def stop(self) -> None:
        """End it early: what is there already still comes, then `Done` with `cancelled`."""
        ...

    def close(self) -> None:
        """Cancel what is still running, which ends within one turn; no more events come."""
        ...


class LoadedModel(Protocol):
    """A model in memory. All methods may be called from any thread."""

    @property
    def info(self) -> ModelInfo:
        """The facts about this model."""
        ...

    def generate(self, request: GenerationRequest) -> Generation:
        """Start a generation.

        Raises ContextLengthError or UsageError at once, before anything is evaluated.
        """
        ...

    def tokenize(self, prompt: Sequence[PromptPiece]) -> list[int]:
        """Token ids of a prompt, as `generate` would evaluate them."""
        ...

    def detokenize(self, tokens: Sequence[int]) -> str:
        """The text of token ids, special tokens included."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token, often part of a character. Raises UsageError for a bad id."""
        ...

    def embed(self, texts: Sequence[str] | Sequence[Sequence[int]]) -> Embedding:
        """The vectors of texts, or of token ids as they are.

        Raises UsageError for an empty one and for a model that was loaded to answer in text,
        ContextLengthError for one that is too long, GenerationError.
        """
        ...

    def free_contexts(self) -> None:
        """Free all but the weights, which a load of the same files may share until `close`."""
        ...

    def close(self) -> None:
        """Free everything; running generations end with `cancelled`. May be called twice."""
        ...


@runtime_checkable
class HasWorker(LoadedModel, Protocol):
    """A model that is in a worker process."""

    @property
    def worker_pid(self) -> int | None:
        """The process id; None where it has died, until the next request starts another one."""
        ...


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a runtime can be used here: its version, or why not; `formats` is what it runs.

    A runtime may leave `formats` empty: the registry fills it in. `hint` is what to do about it,
    `detail` what else `geniex doctor` tells, such as where its libraries are.
    """

    available: bool
    version: str | None = None
    reason: str | None = None
    formats: frozenset[str] = frozenset()
    hint: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """Something llama.cpp or qairt can compute on: memory in bytes, 0 where unknown.

    The one named SIMULATOR has the unit `npu`, so that bundles run on it, and is no NPU.
    """

    name: str
    description: str
    unit: ComputeUnit
    runtime: str
    memory_total: int = 0
    memory_free: int = 0


class Runtime(Protocol):
    """What executes a format."""

    name: str
    formats: frozenset[str]

    def availability(self) -> Availability:
        """Whether the runtime's package is here and works; loads no model."""
        ...

    def devices(self) -> tuple[Device, ...]:
        """What it can compute on, the CPU included where it can; empty when unavailable.

        Never raises. Within a unit the better device comes first.
        """
        ...

    def load(
        self,
        model: "ResolvedModel",
        options: LoadOptions,
        *,
        progress: Callable[[float], bool] | None = None,
    ) -> LoadedModel:
        """Load a model.

        `progress` is called with 0.0 to 1.0, from any thread; returning False gives the load up
        with a LoadError. Raises LoadError, GGUFError or RuntimeNotInstalledError.
        """
        ...


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One probe's answer: what it found, or why it found nothing."""

    probe: str
    found: str | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class HardwareProfile:
    """The machine: what the probes found. Memory is bytes, cores are physical.

    `performance_cores` leaves out the slow cores of a hybrid CPU; 0 where it is unknown.
    `extra_buffers` is False where llama.cpp's repacked weights (AMX and its like) failed their
    self-test.
    """

    system: str
    machine: str
    cpu: str
    cpu_features: frozenset[str]
    cores: int
    logical_cores: int
    memory_total: int
    memory_free: int
    chipset: str | None = None
    htp_arch: int | None = None
    performance_cores: int = 0
    devices: tuple[Device, ...] = ()
    extra_buffers: bool = True
    probes: tuple[ProbeResult, ...] = ()
