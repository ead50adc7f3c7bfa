"""Which graphs of a bundle run after each other, and what each of their tensors is for.

Graphs are told by their tensors, as AI Hub names them; one that wants something else is refused.
`input_ids`, `attention_mask` [.., tokens, context], `position_ids_cos` and `_sin`, and for every
layer `past_key_N_in` [.., room] with `_out`, and `past_value_N_in` [.., room, ..]. What one shard's
graph gives and the next one's takes has the same name in both.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from geniex_runtimes.qairt.encoding import Encoding, encoding_of
from geniex_runtimes.qairt.inspection import GraphFacts, TensorFacts

IDS, MASK, LOGITS = "input_ids", "attention_mask", "logits"
COS, SIN = "position_ids_cos", "position_ids_sin"
STEP_INPUTS = (IDS, MASK, COS, SIN)
_PAST, _IN, _OUT = "past_", "_in", "_out"
_VALUE = "past_value"
_EMBEDDINGS = ("inputs_embeds", "input_embeds", "input_embeddings")


class LayoutError(ValueError):
    """Raised for graphs that cannot be run; the text says which, and why."""


@dataclass(frozen=True, slots=True)
class CacheFacts:
    """A layer's keys or values: `axis` is where the tokens are, its size in `shape` is 0."""

    name: str
    shape: tuple[int, ...]
    axis: int
    encoding: Encoding

    @property
    def taken(self) -> str:
        """The input that has what was kept."""
        return self.name + _IN

    @property
    def given(self) -> str:
        """The output that has what is new."""
        return self.name + _OUT


@dataclass(frozen=True, slots=True)
class Variant:
    """One graph of each shard: up to `width` tokens a step, `context` with those kept before.

    `rows` of logits come out: one for each token, or one for the last place alone.
    """

    width: int
    context: int
    rows: int
    graphs: tuple[GraphFacts, ...]

    @property
    def room(self) -> int:
        """How many tokens may have been kept before."""
        return self.context - self.width


@dataclass(frozen=True, slots=True)
class Layout:
    """All variants, what they keep, and the size of a row of logits."""

    variants: tuple[Variant, ...]
    caches: tuple[CacheFacts, ...]
    vocab_size: int
    logits: Encoding

    @property
    def context_length(self) -> int:
        """The most tokens that any variant sees."""
        return max(variant.context for variant in self.variants)

    @property
    def most_room(self) -> int:
        """How many tokens can be kept."""
        return max(variant.room for variant in self.variants)

    def best(self, past: int, waiting: int) -> Variant | None:
        """The variant for the next step: fewest steps, then least work; None where none has room.

        `past` tokens are kept, `waiting` are to be evaluated.
        """
        fitting = [
            variant
            for variant in self.variants
            if past <= variant.room and (variant.rows == variant.width or waiting >= variant.width)
        ]
        if not fitting:
            return None
        enough = [variant.width for variant in fitting if variant.width >= waiting]
        width = min(enough) if enough else max(variant.width for variant in fitting)
        return min((v for v in fitting if v.width == width), key=lambda v: v.context)


def layout_of(shards: Sequence[Sequence[GraphFacts]]) -> Layout:
    """How the graphs of shards go together, the shards in their order. Raises LayoutError."""
    sizes = sorted({size for graphs in shards for g in graphs if (size := _size(g)) is not None})
    variants = []
    for width, context in sizes:
        chosen = [_graph_for(graphs, width, context) for graphs in shards]
        if None not in chosen:
            graphs = tuple(filter(None, chosen))
            variants.append(Variant(width, context, _rows(graphs[-1], width), graphs))
    if not variants:
        raise LayoutError("no graphs of the bundle's parts fit together")
    if all(variant.rows != variant.width for variant in variants):
        raise LayoutError("no graphs of the bundle give logits for each token")
    for variant in variants:
        _check_inputs(variant)
    last = _tensor(variants[0].graphs[-1].outputs, LOGITS)
    caches = _caches(variants)
    try:
        return Layout(tuple(variants), caches, last.shape[-1], encoding_of(last))
    except ValueError as exc:
        raise LayoutError(str(exc)) from exc


def _size(graph: GraphFacts) -> tuple[int, int] | None:
    """Width and context by the attention mask; None for a graph that has none."""
    mask = next((one for one in graph.inputs if one.name == MASK), None)
    if mask is None or len(mask.shape) < 2:
        return None
    return mask.shape[-2], mask.shape[-1]


def _graph_for(graphs: Iterable[GraphFacts], width: int, context: int) -> GraphFacts | None:
    others = []
    for graph in graphs:
        size = _size(graph)
        if size == (width, context):
            return graph
        if size is None and _width(graph) == width:
            others.append(graph)
    # a part without attention, such as one that only looks up embeddings, serves every context
    named = [graph for graph in others if f"_cl{context}_" in graph.name]
    return next(iter(named or others), None)


def _width(graph: GraphFacts) -> int | None:
    for one in (*graph.inputs, *graph.outputs):
        if one.name == IDS:
            return math.prod(one.shape)
        if one.name == LOGITS and len(one.shape) >= 2:
            return one.shape[-2]
    return None


def _rows(graph: GraphFacts, width: int) -> int:
    shape = _tensor(graph.outputs, LOGITS).shape
    rows = math.prod(shape[:-1])
    if rows not in (1, width):
        raise LayoutError(
            f"the graph `{graph.name}` gives {rows} rows of logits for {width} tokens"
        )
    return rows


def _check_inputs(variant: Variant) -> None:
    """Raise LayoutError where an input is not known, or is not what the part before it gives."""
    given: dict[str, TensorFacts] = {}
    for graph in variant.graphs:
        outputs = {one.name for one in graph.outputs}
        for tensor in graph.inputs:
            name = tensor.name
            if name in _EMBEDDINGS:
                raise LayoutError(f"the graph `{graph.name}` takes embeddings, not tokens")
            if name in given:
                if _differ(tensor, given[name]):
                    raise LayoutError(f"two parts of the bundle do not agree on `{name}`")
            elif name not in STEP_INPUTS and not _is_cache(name, outputs):
                raise LayoutError(f"the graph `{graph.name}` takes `{name}`, which is not known")
        given |= {one.name: one for one in graph.outputs}


def _is_cache(name: str, outputs: set[str]) -> bool:
    return (
        name.startswith(_PAST) and name.endswith(_IN) and name.removesuffix(_IN) + _OUT in outputs
    )


def _caches(variants: Sequence[Variant]) -> tuple[CacheFacts, ...]:
    found: dict[str, CacheFacts] = {}
    for variant in variants:
        for graph in variant.graphs:
            inputs = {one.name: one for one in graph.inputs}
            for new in graph.outputs:
                if new.name.startswith(_PAST) and new.name.endswith(_OUT):
                    name = new.name.removesuffix(_OUT)
                    facts = _cache(name, _tensor(inputs.values(), name + _IN), new, variant)
                    if found.setdefault(name, facts) != facts:
                        raise LayoutError(f"the graphs do not agree on `{name}`")
    return tuple(found.values())


def _cache(name: str, kept: TensorFacts, new: TensorFacts, variant: Variant) -> CacheFacts:
    axis = len(kept.shape) - (2 if name.startswith(_VALUE) else 1)
    sizes = (kept.shape[axis], new.shape[axis])
    if sizes != (variant.room, variant.width):
        raise LayoutError(f"`{name}` has room for {sizes[0]} tokens and {sizes[1]} new ones")
    rest = [tuple(shape[:axis] + shape[axis + 1 :]) for shape in (kept.shape, new.shape)]
    try:
        encodings = {encoding_of(kept), encoding_of(new)}
    except ValueError as exc:
        raise LayoutError(str(exc)) from exc
    if rest[0] != rest[1] or len(encodings) > 1:
        raise LayoutError(f"what a graph takes and gives as `{name}` is not encoded alike")
    shape = (*kept.shape[:axis], 0, *kept.shape[axis + 1 :])
    return CacheFacts(name, shape, axis, encodings.pop())


def _tensor(tensors: Iterable[TensorFacts], name: str) -> TensorFacts:
    for one in tensors:
        if one.name == name:
            return one
    raise LayoutError(f"there is no `{name}`")


def _differ(one: TensorFacts, other: TensorFacts) -> bool:
    return (one.shape, one.dtype, one.scale, one.offset) != (
        other.shape,
        other.dtype,
        other.scale,
        other.offset,
    )
