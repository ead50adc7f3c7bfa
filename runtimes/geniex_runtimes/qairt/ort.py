"""The engine `ort`: graphs run by onnxruntime's QNN provider, all that is around them by NumPy."""

import hashlib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from geniex_runtimes.qairt.bundle import Bundle, read_bundle
from geniex_runtimes.qairt.encoding import Floats, encoding_of
from geniex_runtimes.qairt.engine import Choose, EngineError, EngineOptions
from geniex_runtimes.qairt.graph_facts import shards_of
from geniex_runtimes.qairt.inspection import TensorFacts
from geniex_runtimes.qairt.kv import KvCache
from geniex_runtimes.qairt.layout import (
    COS,
    IDS,
    LOGITS,
    MASK,
    SIN,
    STEP_INPUTS,
    LayoutError,
    Variant,
    layout_of,
)
from geniex_runtimes.qairt.ort_sessions import QnnSessions
from geniex_runtimes.qairt.rope import RopeError, rope_of

_SAVED = "sequence.npz"
_KEPT = 4  # tokens at the beginning that a sliding window holds on to: attention leans on them
Array = npt.NDArray[Any]


class OrtEngine:
    """A bundle's graphs, and the KV cache of one sequence, which is ours: rewinding is free."""

    def __init__(self, folder: Path, options: EngineOptions) -> None:
        """Load it. Raises EngineMissingError, EngineError, BundleError, LoadError."""
        bundle = read_bundle(folder)
        shards = shards_of(bundle, options.libraries)
        try:
            self._layout = layout_of([graphs for _, graphs in shards])
        except LayoutError as exc:
            raise EngineError(str(exc)) from exc
        self._pad = bundle.pad_id or 0
        self._sliding = options.sliding_window
        self._mark = hashlib.sha256(repr((self._layout, bundle.size)).encode()).hexdigest()
        self._make_rope(bundle)
        self._sessions = QnnSessions(shards)
        self._cache = KvCache(self._layout.caches)
        self._tokens: list[int] = []
        # leading tokens that are where they were first, and the position of the next one
        self._intact = self._position = 0
        # whether the last token was evaluated and has no room in the cache
        self._overfull = False
        self._running = self._aborted = False

    @property
    def context_length(self) -> int:
        """Tokens of prompt and answer together."""
        return self._layout.context_length

    @property
    def vocab_size(self) -> int:
        """Logits of a row."""
        return self._layout.vocab_size

    def evaluate(self, prompt: Sequence[int], choose: Choose, *, reuse: bool = True) -> int:
        """See `Engine`."""
        if not prompt:
            raise EngineError("the prompt is empty")
        self._aborted, self._running = False, True
        try:
            kept = self._shared(prompt) if reuse else 0
            self._rewind(kept)
            logits = self._read(prompt[kept:])
            while logits is not None and (token := choose(logits)) is not None:
                logits = self._read([token])
            return kept
        finally:
            self._running = False

    def abort(self) -> None:
        """See `Engine`."""
        self._aborted = self._running

    def reset(self) -> None:
        """See `Engine`."""
        self._cache.clear()
        self._rewind(0)

    def save(self, folder: Path) -> None:
        """See `Engine`."""
        facts = np.array([self._intact, self._position], np.int64)
        tokens = np.array(self._tokens, np.int32)
        try:
            np.savez(
                folder / _SAVED,
                mark=np.array(self._mark),
                facts=facts,
                tokens=tokens,
                **self._cache.arrays(),  # type: ignore[arg-type]
            )
        except OSError as exc:
            raise EngineError(f"the sequence cannot be saved: {exc}") from exc

    def restore(self, folder: Path) -> None:
        """See `Engine`."""
        try:
            with (folder / _SAVED).open("rb") as file, np.load(file, allow_pickle=False) as saved:
                arrays = dict(saved)
            mark, tokens, facts = (arrays.pop(key) for key in ("mark", "tokens", "facts"))
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as exc:
            raise EngineError(f"the sequence cannot be read: {exc}") from exc
        if str(mark) != self._mark:
            raise EngineError("the sequence was saved for another bundle")
        try:
            self._cache.load(arrays, len(tokens))
        except ValueError as exc:
            raise EngineError(f"the sequence does not fit: {exc}") from exc
        self._tokens = tokens.tolist()
        self._intact, self._position = facts.tolist()
        self._overfull = False

    def close(self) -> None:
        """See `Engine`."""
        self._sessions.close()
        self._cache.clear()

    def _make_rope(self, bundle: Bundle) -> None:
        tensors = [one for graph in self._layout.variants[0].graphs for one in graph.inputs]
        width = next((one.shape[-1] for one in tensors if one.name == COS), 0)
        try:
            self._rope = rope_of(bundle.config, width, bundle.context_length)
        except RopeError as exc:
            raise EngineError(f"genie_config.json: {exc}") from exc

    def _shared(self, prompt: Sequence[int]) -> int:
        """How many tokens of the prompt are in the cache; its last one is evaluated anyway."""
        most = min(self._intact, len(prompt) - 1)
        pairs = zip(self._tokens[:most], prompt[:most], strict=True)
        return next((at for at, (one, other) in enumerate(pairs) if one != other), most)

    def _rewind(self, count: int) -> None:
        self._cache.cut(count)
        del self._tokens[count:]
        self._intact = self._position = count
        self._overfull = False

    def _read(self, tokens: Sequence[int]) -> Floats | None:
        """Take tokens, a step at a time; the logits behind the last, None where it was aborted."""
        logits = None
        start = 0
        while start < len(tokens):
            if self._aborted:
                return None
            variant = self._variant(len(tokens) - start)
            taken = tokens[start : start + variant.width]
            logits = self._step(variant, taken)
            start += len(taken)
        return None if self._aborted else logits

    def _variant(self, waiting: int) -> Variant:
        if self._sliding and len(self._tokens) >= self._layout.most_room:
            self._slide()
        variant = self._layout.best(len(self._tokens), waiting)
        if variant is None or self._overfull:
            raise EngineError(f"the context of {self.context_length} tokens is full")
        return variant

    def _slide(self) -> None:
        """Give up the oldest quarter of the context behind its first tokens."""
        count = max(1, (len(self._tokens) - _KEPT) // 4)
        self._cache.drop(_KEPT, count)
        del self._tokens[_KEPT : _KEPT + count]
        self._intact = min(self._intact, _KEPT)

    def _step(self, variant: Variant, tokens: Sequence[int]) -> Floats:
        """Evaluate tokens with the graphs of a variant; the logits behind the last of them."""
        count, past = len(tokens), self._cache.filled
        self._cache.fit(variant.room)
        values: dict[str, Array] = self._cache.taken()
        made: dict[TensorFacts, Array] = {}
        for graph in variant.graphs:
            for tensor in graph.inputs:
                # parts may want the same input in encodings of their own
                if tensor.name in STEP_INPUTS:
                    if tensor not in made:
                        made[tensor] = self._input(tensor, tokens, variant)
                    values[tensor.name] = made[tensor]
            values |= self._sessions.run(graph, values)
        if past + count > variant.room:
            # the next step is another variant's; what has no room anywhere ends the context
            self._cache.fit(self._layout.most_room)
            count = min(count, self._layout.most_room - past)
            self._overfull = count < len(tokens)
        self._cache.add(values, count)
        self._tokens += tokens[:count]
        if self._intact == past:
            self._intact += count
        self._position += len(tokens)
        row = values[LOGITS].reshape(variant.rows, -1)[min(len(tokens), variant.rows) - 1]
        return self._layout.logits.decode(row)

    def _input(self, tensor: TensorFacts, tokens: Sequence[int], variant: Variant) -> Array:
        """What a step gives a graph besides the cache and other graphs' outputs."""
        if tensor.name == IDS:
            ids = [*tokens, *[self._pad] * (variant.width - len(tokens))]
            return np.array(ids, tensor.dtype).reshape(tensor.shape)
        encoding = encoding_of(tensor)
        if tensor.name == MASK:
            mask = np.full((variant.width, variant.context), encoding.masked, encoding.dtype)
            mask[: len(tokens), : self._cache.filled] = encoding.zero
            for row in range(len(tokens)):
                mask[row, variant.room : variant.room + row + 1] = encoding.zero
            return mask.reshape(tensor.shape)
        assert tensor.name in (COS, SIN)
        turns = self._rope.turns(self._position, variant.width)
        return encoding.cut(turns[tensor.name == SIN]).reshape(tensor.shape)
