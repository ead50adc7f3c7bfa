"""How a bundle's graphs go together, and what of them is refused."""

import pytest

from geniex_runtimes.qairt.inspection import GraphFacts
from geniex_runtimes.qairt.layout import Layout, LayoutError, layout_of
from tests.geniex_runtimes.qairt.graphs import VOCABULARY, changed, graph, tensor, without

PROMPT, TOKEN = graph(16, 64), graph(1, 64)
OTHERWISE = changed(changed(TOKEN, "past_key_0_in", offset=0), "past_key_0_out", offset=0)


def test_variants_and_caches_of_one_part() -> None:
    layout = layout_of([[TOKEN, PROMPT]])
    assert [(one.width, one.context, one.room) for one in layout.variants] == [
        (1, 64, 63),
        (16, 64, 48),
    ]
    assert (layout.vocab_size, layout.context_length, layout.most_room) == (VOCABULARY, 64, 63)
    key, value = layout.caches
    assert (key.name, key.shape, key.axis) == ("past_key_0", (2, 1, 4, 0), 3)
    assert (value.taken, value.given) == ("past_value_0_in", "past_value_0_out")
    assert (value.shape, value.axis, value.encoding.zero) == ((2, 1, 0, 4), 2, 3)


def test_parts_are_chained_and_what_lacks_a_part_is_left_out() -> None:
    first = [graph(w, c, range(1), last=False) for w, c in ((16, 64), (1, 64), (1, 128))]
    second = [graph(w, c, range(1, 3), first=False) for w, c in ((1, 64), (16, 64))]
    layout = layout_of([first, second])
    assert [(one.width, one.context) for one in layout.variants] == [(1, 64), (16, 64)]
    assert [len(one.graphs) for one in layout.variants] == [2, 2]
    assert len(layout.caches) == 6


def test_a_part_that_only_looks_up_embeddings_serves_every_context() -> None:
    hidden = [tensor("hidden_0", 1, width, 8) for width in (16, 1)]
    lookups = [
        GraphFacts(f"lookup_{at}", (tensor("input_ids", 1, w, dtype="int32"),), (hidden[at],))
        for at, w in enumerate((16, 1))
    ]
    rest = [graph(w, c, first=False) for w in (16, 1) for c in (64, 128)]
    layout = layout_of([lookups, rest])
    assert len(layout.variants) == 4
    assert {one.graphs[0].name for one in layout.variants} == {"lookup_0", "lookup_1"}


def chosen(layout: Layout, past: int, waiting: int) -> tuple[int, int] | None:
    best = layout.best(past, waiting)
    return (best.width, best.context) if best else None


@pytest.mark.parametrize(
    ("past", "waiting", "expected"),
    [
        pytest.param(0, 1, (1, 64), id="a-token"),
        pytest.param(0, 2, (16, 64), id="few"),
        pytest.param(0, 16, (16, 64), id="as-many-as-fit"),
        pytest.param(0, 17, (32, 128), id="more"),
        pytest.param(0, 900, (32, 128), id="many"),
        pytest.param(48, 16, (16, 64), id="the-last-that-fit"),
        pytest.param(49, 2, (16, 128), id="a-longer-context"),
        pytest.param(63, 1, (1, 64), id="the-last-token"),
        pytest.param(64, 1, (1, 128), id="one-more"),
        pytest.param(97, 20, (16, 128), id="only-narrow-ones"),
        pytest.param(120, 9, (1, 128), id="token-by-token"),
        pytest.param(128, 1, None, id="full"),
    ],
)
def test_the_best_variant_for_a_step(
    past: int, waiting: int, expected: tuple[int, int] | None
) -> None:
    sizes = ((1, 64), (16, 64), (1, 128), (16, 128), (32, 128))
    assert chosen(layout_of([[graph(*size) for size in sizes]]), past, waiting) == expected


def test_graphs_with_logits_of_the_last_place_alone_take_full_steps() -> None:
    layout = layout_of([[changed(PROMPT, "logits", shape=(1, 1, VOCABULARY)), TOKEN]])
    assert chosen(layout, 0, 20) == chosen(layout, 0, 16) == (16, 64)
    assert chosen(layout, 0, 15) == (1, 64)


@pytest.mark.parametrize(
    ("shards", "reason"),
    [
        pytest.param([[]], "no graphs", id="none"),
        pytest.param([[PROMPT], [TOKEN]], "no graphs", id="parts-of-other-sizes"),
        pytest.param(
            [[changed(TOKEN, "input_ids", name="inputs_embeds")]],
            "takes embeddings, not tokens",
            id="embeddings",
        ),
        pytest.param(
            [[changed(TOKEN, "position_ids_cos", name="position_ids_cos_local")]],
            "takes `position_ids_cos_local`, which is not known",
            id="unknown-input",
        ),
        pytest.param([[without(TOKEN, "past_key_0_out")]], "`past_key_0_in`", id="no-new-keys"),
        pytest.param([[without(TOKEN, "past_key_0_in")]], "no `past_key_0_in`", id="no-old-keys"),
        pytest.param([[without(TOKEN, "logits")]], "no `logits`", id="no-logits"),
        pytest.param(
            [[changed(PROMPT, "logits", shape=(1, 2, VOCABULARY))]],
            "2 rows of logits for 16 tokens",
            id="logits-of-some",
        ),
        pytest.param(
            [[changed(PROMPT, "logits", shape=(1, VOCABULARY))]],
            "logits for each token",
            id="logits-of-the-last-alone",
        ),
        pytest.param(
            [[changed(TOKEN, "past_value_0_out", scale=0.25)]], "encoded alike", id="encoding"
        ),
        pytest.param(
            [[changed(TOKEN, "past_value_0_in", scale=None)]], "no scale", id="no-encoding"
        ),
        pytest.param(
            [[changed(TOKEN, "past_key_0_in", shape=(2, 1, 4, 60))]], "room for 60", id="room"
        ),
        pytest.param(
            [
                [
                    PROMPT,
                    changed(changed(TOKEN, "past_key_0_in", offset=0), "past_key_0_out", offset=0),
                ]
            ],
            "do not agree on `past_key_0`",
            id="graphs-of-other-encodings",
        ),
        pytest.param(
            [
                [graph(1, 64, last=False)],
                [changed(graph(1, 64, range(1, 2), first=False), "hidden_1", scale=9.0)],
            ],
            "do not agree on `hidden_1`",
            id="parts-of-other-encodings",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(shards: list[list[GraphFacts]], reason: str) -> None:
    with pytest.raises(LayoutError) as caught:
        layout_of(shards)
    assert reason in str(caught.value)
