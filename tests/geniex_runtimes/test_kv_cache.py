"""What a KV cache is kept in: its size, and combinations that are refused before a load."""

from dataclasses import replace

import pytest

from geniex_catalogue.errors import UsageError
from geniex_catalogue.gguf import GGUFHeader
from geniex_runtimes import dispatcher, kv_cache, memory
from geniex_runtimes.options import FlashAttention, KvType
from geniex_runtimes.planning import Compiled, Wish
from tests.geniex_runtimes.models import GB, HERE, header, machine, model


@pytest.mark.parametrize(
    ("kind", "bits"),
    [
        *(("f32", 32), ("f16", 16), ("bf16", 16), ("q8_0", 8.5), ("q5_1", 6)),
        *(("q5_0", 5.5), ("q4_1", 5), ("q4_0", 4.5), ("iq4_nl", 4.5)),
    ],
)
def test_bits_of_a_value(kind: KvType, bits: float) -> None:
    assert kv_cache.bytes_per_value(kind) * 8 == bits
    half = memory.need(model(), 4096)
    assert memory.need(model(), 4096, kind) == replace(half, kv=round(half.kv * bits / 16))


def of_heads(length: int, architecture: str = "llama") -> GGUFHeader:
    made = header(architecture=architecture)
    own = f"{architecture}.attention"
    more = {f"{own}.key_length": length, f"{own}.value_length": length}
    return replace(made, metadata={**made.metadata, **more})


@pytest.mark.parametrize(
    ("kind", "flash", "of", "told"),
    [
        pytest.param("q8_0", "auto", of_heads(128), None, id="quantised"),
        pytest.param("q4_0", "on", of_heads(96), None, id="three-blocks"),
        pytest.param("f16", "off", of_heads(80), None, id="plain-without-flash-attention"),
        pytest.param("bf16", "auto", of_heads(80), None, id="plain-with-odd-heads"),
        pytest.param("q8_0", "auto", None, None, id="nothing-is-known"),
        pytest.param("q8_0", "off", of_heads(128), "`--flash-attn off` forbids", id="no-flash"),
        pytest.param("q8_0", "off", None, "`--flash-attn off` forbids", id="no-flash-no-header"),
        pytest.param("q4_0", "auto", of_heads(80), "heads have 80", id="odd-heads"),
        pytest.param("iq4_nl", "auto", of_heads(128, "grok"), "grok", id="never-flash"),
    ],
)
def test_what_cannot_be(
    kind: KvType, flash: FlashAttention, of: GGUFHeader | None, told: str | None
) -> None:
    wish = Wish(kv_type=kind, flash_attention=flash)
    resolved = replace(model(), header=of)
    if told is None:
        assert dispatcher.plan(resolved, machine(), HERE, wish).kv_type == kind
        return
    with pytest.raises(UsageError, match="a KV cache of") as caught:
        dispatcher.plan(resolved, machine(), HERE, wish)
    assert told in caught.value.message and "--kv-type f16" in str(caught.value.hint)


def test_a_smaller_cache_has_room_for_a_longer_context() -> None:
    long = model(2 * GB, context=131072)
    here = machine(total=4 * GB, free=round(2.6 * GB))
    half = dispatcher.plan(long, here, HERE, Wish())
    small = dispatcher.plan(long, here, HERE, Wish(kv_type="q4_0"))
    assert (half.kv_type, half.context_length) == ("f16", 4096)
    assert (small.kv_type, small.context_length) == ("q4_0", 8192)
    asked = Wish(kv_type="q4_0", context_length=8192)
    assert dispatcher.plan(long, here, HERE, asked).needed_memory == small.needed_memory


def test_a_draft_has_a_cache_of_its_own_kind() -> None:
    target, draft = model(2 * GB), model(GB)
    wish = Wish(kv_type="q8_0", context_length=4096)
    plan = dispatcher.plan(target, machine(), HERE, wish)
    both = dispatcher.with_draft(plan, target, draft, wish)
    assert both.needed_memory == plan.needed_memory + memory.need(draft, 4096).total


def test_a_bundle_ignores_it() -> None:
    bundle = model(format="qairt", bare=True)
    here = {**HERE, "qairt": replace(HERE["llama_cpp"], formats=frozenset({"qairt"}))}
    from geniex_runtimes.contract import Device

    htp = machine(Device("HTP0", "Hexagon", "npu", "qairt"))
    wish = Wish(kv_type="q8_0", flash_attention="off")
    plan = dispatcher.plan(bundle, htp, here, wish, Compiled(4096, GB))
    assert plan.kv_type is None
    assert [note.split("`")[1] for note in plan.notes] == ["--kv-type q8_0", "--flash-attn off"]
