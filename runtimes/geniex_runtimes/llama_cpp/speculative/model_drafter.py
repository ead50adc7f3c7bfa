"""Drafting with a model: heads trained with the target for this, or an ordinary small model.

The three modes of llama.cpp's `draft-mtp`, whose heads are fed with the target's hidden states:

* shared: the draft is a file of its own and attends to the target's KV cells;
* own: one head in the target's file, with KV cells of its own;
* chained: several such heads, head i proposing the token i places ahead;

and `draft-simple`:

* simple: a model of its own with the target's vocabulary, fed with tokens alone.
"""

import logging
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from geniex_runtimes.errors import GenerationError
from geniex_runtimes.llama_cpp.batch import Batch
from geniex_runtimes.llama_cpp.context import BATCH_ROWS, Context
from geniex_runtimes.llama_cpp.library import Library
from geniex_runtimes.llama_cpp.speculative.drafter import Ask, Rows
from geniex_runtimes.llama_cpp.weights import Weights

log = logging.getLogger("geniex.llama_cpp.draft")

Mode: TypeAlias = Literal["shared", "own", "chained", "simple"]
Floats: TypeAlias = npt.NDArray[np.float32]

_MERGED = 16  # rows per slot that are caught up in the first decode of a draft, not before it
_CONFIDENCE_OVER = 10  # llama.cpp compares p_min with the share among so many likeliest tokens


class _Track:
    """What the draft knows of a slot.

    Positions below `held` have draft cells. `tokens` are those behind, and row i of `hidden` is the
    target's state before `tokens[i]`; they are caught up with the next draft. `pending` is the
    target's state at its last token; it is all that a draft without cells of its own needs.
    """

    def __init__(self, width: int, library: Library) -> None:
        self._move = library.move
        self._bytes = 4 * width
        self.pending: Floats = np.zeros(width, np.float32)
        self.pending_address = self.pending.ctypes.data
        self._grow(np.zeros((64, width), np.float32))
        self.held = 0
        self.tokens: list[int] = []
        self.rows = 0  # address of the states of the rows just verified
        self.missed = False  # the target went on without being followed

    def _grow(self, buffer: Floats) -> None:
        self._buffer = buffer
        self.address = buffer.ctypes.data

    @property
    def hidden(self) -> Floats:
        """The states before `tokens`, a row each."""
        return self._buffer[: len(self.tokens)]

    def add(self, start: int, tokens: Sequence[int]) -> None:
        """Append tokens at positions from `start` on, whose states lie at `rows`."""
        known = max(0, self.held - start)
        new = tokens[known:] if known else tokens
        first = len(self.tokens)
        self.tokens += new
        if len(self.tokens) > len(self._buffer):
            larger: Floats = np.zeros((2 * len(self.tokens), self._buffer.shape[1]), np.float32)
            larger[:first] = self._buffer[:first]
            self._grow(larger)
        if not self._bytes:
            return
        # the state before a token is that of the token before it
        place, count = self.address + first * self._bytes, len(new)
        if new and not known:
            self._move(place, self.pending_address, self._bytes)
            place, count = place + self._bytes, count - 1
        if count > 0:
            source = self.rows + max(0, known - 1) * self._bytes
            self._move(place, source, count * self._bytes)
        self.remember(len(tokens) - 1)

    def remember(self, row: int) -> None:
        """Take the state of a verified row for the one at the target's last token."""
        if self._bytes:
            self._move(self.pending_address, self.rows + row * self._bytes, self._bytes)

    def restart(self, start: int) -> None:
        """Know nothing of what lies before position `start`."""
        self.held = start
        self.tokens.clear()
        self.missed = False

    def cut(self, length: int) -> None:
        """Forget all but the first `length` of the tokens that are behind."""
        del self.tokens[length:]

    def advance(self, count: int) -> None:
        """The first `count` of the tokens behind have draft cells now."""
        if rest := len(self.tokens) - count:
            self._buffer[:rest] = self._buffer[count : len(self.tokens)].copy()
        del self.tokens[:count]
        self.held += count


class ModelDrafter:
    """Drafts with a model. See drafter.Drafter for the contract."""

    def __init__(
        self,
        library: Library,
        weights: Weights,
        target: Context,
        draft: Context,
        mode: Mode,
    ) -> None:
        """`weights` are the draft's (those of the target where the heads are in its file)."""
        self.name = "draft-simple" if mode == "simple" else "draft-mtp"
        self._library = library
        self._target = target
        self._context = draft
        self._mode = mode
        self._heads = weights.heads if mode == "chained" else 1
        self._vocab = weights.vocab.size
        self._width = weights.hidden_size if mode != "simple" else 0
        self._batch = Batch(library, BATCH_ROWS, self._width)
        self._tracks = [_Track(self._width, library) for _ in range(target.options.slots)]
        self._paused = False
        if self._width:
            library.set_nextn(target.handle, True, False)
            # own heads also evaluate rows that give no token: the states of all rows are counted
            library.set_nextn(draft.handle, True, mode != "own")

    def begin(self, slot: int, kept: int) -> int:
        """Cut the draft's cells back to what stays."""
        track = self._tracks[slot]
        if track.missed:
            if not kept and not self._paused:
                self._context.keep(slot, 0)
                track.restart(0)
                track.pending[:] = 0
            return kept
        behind = kept - track.held
        if behind < 0:
            self._context.keep(slot, kept)
            track.held, behind = kept, 0
            track.pending[:] = 0
        elif behind < len(track.tokens):
            track.pending[:] = track.hidden[behind]
        elif not kept:
            track.pending[:] = 0
        track.cut(behind)
        if self._mode == "shared":
            track.held = kept
        return kept

    def adopt(self, slot: int, tokens: Sequence[int]) -> None:
        """Begin anew: heads with cells of their own see what follows, other drafts all of it."""
        track = self._tracks[slot]
        if self._mode != "shared":
            self._context.keep(slot, 0)
        track.restart(len(tokens) if self._mode == "shared" else 0)
        track.pending[:] = 0
        if self._mode == "simple":
            track.add(0, tokens)
        # the states of these tokens, which heads of their own are fed with, are in no file
        track.missed = self._mode in ("own", "chained")

    def process(self, rows: Sequence[Rows]) -> None:
        """Remember the target's states of the rows that it has just evaluated."""
        if self._paused:
            return
        base = self._target_states() if self._width else 0
        for one in rows:
            track = self._tracks[one.slot]
            if track.missed:
                # the state before the first of these rows is lost: what follows builds on them
                self._context.keep(one.slot, 0)
                track.restart(one.start + 1)
            track.rows = base + one.first * self._width * 4
            if self._mode == "shared":
                track.remember(len(one.tokens) - 1)
            else:
                track.add(one.start, one.tokens)

    def _target_states(self) -> int:
        """The address of the states of the target's last batch, a row each."""
        base = self._library.nextn_rows(self._target.handle)
        if not base:
            raise GenerationError("llama.cpp gave no hidden states for the draft")
        return int(base)

    def _own_state(self, row: int) -> int:
        """Where the draft's own state at a row of its batch lies, until its next decode."""
        return self._library.nextn_row(self._context.handle, row) if self._width else 0

    def accept(self, slot: int, verified: Rows, accepted: int) -> None:
        """Keep the states of what the target has accepted."""
        track = self._tracks[slot]
        track.remember(accepted)
        if self._mode == "shared":
            return
        end = verified.start + 1 + accepted
        if track.held > end:
            self._context.keep(slot, end)
            track.held = end
        track.cut(max(0, end - track.held))

    def draft(self, asks: Sequence[Ask]) -> list[list[int]]:
        """Propose tokens, one decode of the draft a step for all slots together."""
        drafts: list[list[int]] = [[] for _ in asks]
        try:
            if self._mode != "shared":
                self._catch_up(asks, leave=_MERGED)
            if self._mode == "chained":
                self._draft_chained(asks, drafts)
            else:
                self._steps(asks, drafts, self._first_rows(asks))
        except GenerationError as exc:
            log.warning("a draft was cut short: %s", exc.message)
            for ask in asks:
                self._tracks[ask.slot].missed = self._mode != "shared"
            return drafts
        if self._mode in ("own", "simple"):
            for ask in asks:
                track = self._tracks[ask.slot]
                self._context.keep(ask.slot, len(ask.tokens) + 1)
                track.held = len(ask.tokens) + 1  # the row of `last` was a true one and stays
        return drafts

    def _first_rows(self, asks: Sequence[Ask]) -> list[tuple[int, int]]:
        """Fill the first draft batch: what is left to catch up, then each slot's last token."""
        batch = self._batch
        batch.clear()
        live: list[tuple[int, int]] = []
        for index, ask in enumerate(asks):
            track = self._tracks[ask.slot]
            self._add_missed(track, ask.slot)
            track.advance(len(track.tokens))
            row = batch.add_draft(ask.slot, len(ask.tokens), ask.last, track.pending_address)
            live.append((index, row))
        return live

    def _steps(
        self, asks: Sequence[Ask], drafts: list[list[int]], live: list[tuple[int, int]]
    ) -> None:
        batch, context = self._batch, self._context
        while live:
            context.decode(batch)
            logits = context.logits()
            going_on: list[tuple[int, int, int]] = []
            for rank, (index, row) in enumerate(live):
                ask = asks[index]
                token = _best(logits[rank], ask.p_min)
                if token is None:
                    continue
                drafts[index].append(token)
                if len(drafts[index]) < ask.n_max:
                    going_on.append((index, token, self._own_state(row)))
            batch.clear()
            live = []
            for index, token, state in going_on:
                ask = asks[index]
                # the target's cells do not grow meanwhile, so a draft on them stays in its place
                ahead = 0 if self._mode == "shared" else len(drafts[index])
                position = len(ask.tokens) + ahead
                live.append((index, batch.add_draft(ask.slot, position, token, state)))

    def _draft_chained(self, asks: Sequence[Ask], drafts: list[list[int]]) -> None:
        """Head i reads the last token and the i tokens drafted so far, and gives the next.

        Every head first gets the rows that are left to catch up, in the same decode. A head's batch
        is that of the head before with the token that this one proposed.
        """
        batch, context, library = self._batch, self._context, self._library
        batch.clear()
        live: list[tuple[int, int]] = []
        for index, ask in enumerate(asks):
            track = self._tracks[ask.slot]
            self._add_missed(track, ask.slot)
            row = batch.add_draft(ask.slot, len(ask.tokens), ask.last, track.pending_address)
            live.append((index, row))
        for head in range(self._heads):
            if head:
                for ask in asks:
                    context.keep(ask.slot, self._tracks[ask.slot].held)
            if not live:
                batch.clear()
                for ask in asks:
                    self._add_missed(self._tracks[ask.slot], ask.slot)
                if not batch.rows:
                    break
            library.set_nextn_head(context.handle, head)
            context.decode(batch)
            if live:
                live = self._take_chained(asks, drafts, live, head + 1 < self._heads)
        for ask in asks:
            track = self._tracks[ask.slot]
            track.advance(len(track.tokens))
            context.keep(ask.slot, len(ask.tokens))

    def _take_chained(
        self,
        asks: Sequence[Ask],
        drafts: list[list[int]],
        live: Sequence[tuple[int, int]],
        more: bool,
    ) -> list[tuple[int, int]]:
        """Take a head's proposals, and add them to the batch for the next; return who goes on."""
        batch = self._batch
        going_on: list[tuple[int, int]] = []
        logits = self._context.logits()
        for rank, (index, row) in enumerate(live):
            ask, draft = asks[index], drafts[index]
            batch.want_logits(row, False)
            token = _best(logits[rank], ask.p_min)
            if token is None:
                continue
            draft.append(token)
            if more and len(draft) < ask.n_max:
                position = len(ask.tokens) + len(draft)
                new = batch.add_draft(ask.slot, position, token, self._own_state(row))
                going_on.append((index, new))
        return going_on

    def _add_missed(self, track: _Track, slot: int) -> None:
        """Put the rows that a slot's draft has to catch up into the batch."""
        batch = self._batch
        if count := len(track.tokens):
            row = batch.add(slot, track.held, track.tokens, all_logits=False)
            batch.set_states(row, track.address, count)

    def _catch_up(self, asks: Sequence[Ask], leave: int) -> None:
        """Give the draft cells for tokens it has not seen, but for a rest of up to `leave`."""
        batch, context = self._batch, self._context
        for ask in asks:
            track = self._tracks[ask.slot]
            while len(track.tokens) > leave:
                count = min(len(track.tokens), batch.capacity)
                batch.clear()
                batch.add(ask.slot, track.held, track.tokens[:count], all_logits=False)
                batch.hidden[:count] = track.hidden[:count]
                for head in range(self._heads):
                    if head:
                        context.keep(ask.slot, track.held)
                    if self._mode == "chained":
                        self._library.set_nextn_head(context.handle, head)
                    context.decode(batch)
                track.advance(count)

    def pause(self) -> None:
        """Let the target give no more states. Heads with cells of their own forget the context."""
        if not self._width or self._paused:
            return
        self._paused = True
        self._library.set_nextn(self._target.handle, False, False)
        for track in self._tracks:
            track.missed = self._mode != "shared"

    def resume(self) -> None:
        """Take states again, from the target's next decode on."""
        if self._paused:
            self._paused = False
            self._library.set_nextn(self._target.handle, True, False)

    def close(self) -> None:
        """Free the draft's context."""
        self._context.close()


def _best(logits: Floats, p_min: float) -> int | None:
    """The likeliest token; None where its confidence is below `p_min`."""
    token = int(logits.argmax())
    if p_min > 0:
        top = np.partition(logits, -_CONFIDENCE_OVER)[-_CONFIDENCE_OVER:]
        if 1.0 / float(np.exp(top - logits[token]).sum()) < p_min:
            return None
    return token
