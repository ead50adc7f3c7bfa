"""What a runtime can be told: how to load a model, how to speculate, how to draw tokens."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    # for a type alone: every command imports this file, and the resolver brings half the catalogue
    from geniex_catalogue.resolver import ResolvedModel

# the devices of qairt: the Hexagon NPU of a Snapdragon, and on x86 Qualcomm's simulator of one
NPU = "NPU"
SIMULATOR = "HTP simulator"

ComputeUnit: TypeAlias = Literal["cpu", "gpu", "npu", "hybrid"]
QairtEngine: TypeAlias = Literal["genie", "ort"]
KvType: TypeAlias = Literal["f16", "bf16", "f32", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]
FlashAttention: TypeAlias = Literal["auto", "on", "off"]


@dataclass(frozen=True, slots=True)
class SpeculativeOptions:
    """How to speculate; no `types` is plain decoding.

    `types` are tried in this order at every step, the first that proposes anything counts:
    `ngram-simple ngram-map-k ngram-mod draft-simple draft-mtp`. `n_max` is the most draft tokens a
    step, `n_min` the fewest (a shorter draft is dropped), `p_min` the confidence below which the
    draft stops (0: never). `adapt` lets the measured gain choose each step's length from 0 to
    `n_max`. `require` makes a failed set-up an error; otherwise it is plain decoding, said so.
    """

    types: tuple[str, ...] = ()
    n_max: int = 3
    n_min: int = 0
    p_min: float = 0.0
    adapt: bool = True
    require: bool = False


@dataclass(frozen=True, slots=True)
class PrefixCache:
    """Where to keep evaluated prompts on disk: private text, readable for their owner alone.

    In a `folder`, whose files have at most `size` bytes in all, whoever writes them; or in one
    `file`, for one chat, which is brought back at once.
    """

    folder: Path | None = None
    size: int = 4 << 30
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load a model; what is None is chosen by the runtime from model and hardware.

    `context_length` is tokens per slot; `gpu_layers` is -1 for all; `devices` are the runtime's
    device names (empty: the CPU alone); `slots` is how many requests run side by side.
    `speculative` is what to set up and what requests do unless they say otherwise; `draft` is its
    draft model, where it needs one. `data_dir` is where a runtime remembers what it has tried out
    on this machine (None: it tries nothing out). `isolate` has the model in a worker process, which
    native faults may end; a worker tries nothing out in another child, nor does `trust`.
    `embedding` loads a model for `embed` alone. `keep_heads` loads next-token heads even where
    nothing speculates yet, so that a later load of the same files that does can share the weights.
    `qairt_engine` is what runs a bundle (None: genie, else ort where libGenie is missing); with
    `sliding_window` its answers go on past the context, without the oldest tokens. `kv_type` is
    what the KV cache is kept in. `flash_attention` "auto" is on where it is exact (CPU, NPU), else
    llama.cpp's choice. `mlock` keeps the weights from being swapped out; without `mmap` they are
    read into memory of the process, in huge pages where there are some; None: where that is so.
    `prefix_cache` None keeps nothing on disk.
    """

    compute: ComputeUnit = "cpu"
    devices: tuple[str, ...] = ()
    context_length: int | None = None
    gpu_layers: int = -1
    threads: int | None = None
    slots: int = 1
    extra_buffers: bool = True
    speculative: SpeculativeOptions = field(default_factory=SpeculativeOptions)
    draft: "ResolvedModel | None" = None
    data_dir: Path | None = None
    embedding: bool = False
    keep_heads: bool = False
    qairt_engine: QairtEngine | None = None
    sliding_window: bool = False
    isolate: bool = False
    kv_type: KvType = "f16"
    flash_attention: FlashAttention = "auto"
    mlock: bool = False
    mmap: bool | None = True
    prefix_cache: PrefixCache | None = None
    trust: bool = False

    @property
    def tries_out(self) -> bool:
        """Whether files that are not known yet are loaded in a child first."""
        return self.data_dir is not None and not (self.isolate or self.trust)


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How tokens are drawn; what is None comes from the model's metadata, else the defaults.

    `temperature` 0 is greedy. `seed` None is random. `grammar` is GBNF. `logit_bias` maps a token
    id to what is added to its logit.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    grammar: str | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()
