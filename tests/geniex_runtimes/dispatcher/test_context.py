"""The context of a plan: what was asked for, or what fits the memory."""

from dataclasses import replace
from pathlib import Path

from geniex_catalogue.gguf import read_header
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes import dispatcher, memory
from geniex_runtimes.planning import (
    Wish,
)
from tests.geniex_runtimes.dispatcher.machines import PLAIN, plan
from tests.geniex_runtimes.models import GB, machine, model


def test_a_draft_takes_memory_too() -> None:
    alone = plan(model(GB), PLAIN)
    small = dispatcher.with_draft(alone, model(GB), model(GB // 2), Wish())
    draft = memory.need(model(GB // 2), alone.context_length)
    assert small.needed_memory == alone.needed_memory + draft.total and small.notes == ()
    assert small.context_length == alone.context_length
    large = dispatcher.with_draft(alone, model(GB), model(64 * GB), Wish())
    assert len(large.notes) == 1 and "with the draft" in large.notes[0]


def test_a_context_is_shortened_for_a_draft_unless_it_was_asked_for() -> None:
    target, draft = model(GB), model(GB // 2)
    alone = plan(target, PLAIN)
    both = memory.need(target, 4096).total + memory.need(draft, 4096).total
    tight = replace(alone, available_memory=both)
    shorter = dispatcher.with_draft(tight, target, draft, Wish())
    assert (shorter.context_length, shorter.needed_memory) == (4096, both)
    assert "4096" in shorter.reasons[-1] and shorter.notes == ()
    kept = dispatcher.with_draft(tight, target, draft, Wish(context_length=8192))
    assert kept.context_length == alone.context_length == 8192 and len(kept.notes) == 1


def test_the_context_is_the_one_asked_for() -> None:
    assert plan(model(), PLAIN, Wish(context_length=1234)).context_length == 1234


def test_the_context_shrinks_to_the_free_memory() -> None:
    found = plan(model(), machine(total=16 * GB, free=2_700_000_000))
    assert memory.LEAST_CONTEXT <= found.context_length < memory.DEFAULT_CONTEXT
    assert found.needed_memory <= found.available_memory
    assert "what fits the free memory" in found.reasons[-1]


def test_a_real_header(tiny_chat: Path) -> None:
    known = read_header(tiny_chat)
    size = tiny_chat.stat().st_size
    tiny = ResolvedModel("tiny", None, "gguf", tiny_chat, (tiny_chat,), "Q8_0", size, known)
    found = plan(tiny, PLAIN)
    assert found.context_length <= (known.context_length or 0)
    assert found.needed_memory < GB
