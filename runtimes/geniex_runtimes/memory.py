"""How much memory a model needs, and the longest context that fits."""

from dataclasses import dataclass

from geniex_catalogue.resolver import ResolvedModel
from geniex_catalogue.sizes import size_text
from geniex_runtimes.kv_cache import bytes_per_value
from geniex_runtimes.options import KvType

# tokens: enough for a chat with reasoning; longer costs memory that nobody asked for
DEFAULT_CONTEXT = 8192
# tokens: a context chosen here is not made shorter than this, however little memory is free
LEAST_CONTEXT = 2048

# states of fixed size that a slot keeps of its prompt, to go back to
KEPT_STATES = 3

# tokens evaluated at once: work buffers grow with it
_BATCH = 512
# bytes
_FLOAT, _HALF = 4, 2


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes: the weights, the KV cache of one context, and buffers for intermediate results.

    `states` are those of fixed size of one context: the one in use, and those that are kept.
    """

    weights: int
    kv: int
    work: int
    states: int = 0

    @property
    def slot(self) -> int:
        """Bytes that each further context takes."""
        return self.kv + self.states

    @property
    def total(self) -> int:
        """Bytes altogether."""
        return self.weights + self.slot + self.work


def need(model: ResolvedModel, context_length: int, kv_type: KvType | None = None) -> MemoryNeed:
    """An estimate for one context of `context_length` tokens.

    Without a header (a bundle) the size of the files is all that is known.
    """
    header = model.header
    if header is None:
        return MemoryNeed(model.size, 0, 0)
    hidden = header.number(header.own("embedding_length")) or 0
    inner = header.number(header.own("feed_forward_length")) or 4 * hidden
    masks = 2 if header.number(header.own("attention.sliding_window")) else 1
    return MemoryNeed(
        weights=header.weights_bytes or model.size,
        # a sliding window is kept in full as well, or a prefix could not be reused
        kv=header.kv_bytes_per_token(value_bytes=bytes_per_value(kv_type)) * context_length,
        # alive at once: two inner rows, about eight rows as wide as the model, attention masks
        work=_BATCH * ((2 * inner + 8 * hidden) * _FLOAT + masks * context_length * _HALF),
        states=header.state_bytes * (1 + KEPT_STATES),
    )


def longest(model: ResolvedModel) -> int | None:
    """The context that the model was trained for, in tokens; None where it does not say."""
    return model.header.context_length if model.header is not None else None


def default_context(
    model: ResolvedModel,
    free: int,
    *,
    draft: ResolvedModel | None = None,
    most: int = DEFAULT_CONTEXT,
    kv_type: KvType | None = None,
) -> int:
    """The context to use when none was asked for, in tokens.

    The shortest of: what the model was trained for, `most`, what fits into `free` bytes, with a
    draft beside it; but not below LEAST_CONTEXT (or the trained length) for want of memory.
    """

    def total(length: int) -> int:
        beside = need(draft, length).total if draft is not None else 0
        return need(model, length, kv_type).total + beside

    context = min(longest(model) or most, most)
    while context // 2 >= LEAST_CONTEXT and total(context) > free:
        context //= 2
    return context


def largest_context(model: ResolvedModel, memory: int, kv_type: KvType | None = None) -> int:
    """The longest context, in steps of 256 tokens, that fits into so many bytes; 0 if none."""
    low, high = 0, (longest(model) or DEFAULT_CONTEXT) // 256
    while low < high:
        middle = (low + high + 1) // 2
        if need(model, middle * 256, kv_type).total <= memory:
            low = middle
        else:
            high = middle - 1
    return low * 256


def tight(needed: int, free: int, what: str = "") -> str:
    """The note about a model that needs more bytes than are free."""
    return (
        f"about {size_text(needed)} are needed{what} and {size_text(free)} are free: "
        "this may be very slow"
    )
