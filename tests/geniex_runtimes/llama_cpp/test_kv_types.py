"""KV caches of every kind: what llama.cpp takes for them, and that speculation stays exact."""

import logging
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from geniex_runtimes import memory
from geniex_runtimes.llama_cpp import trial
from geniex_runtimes.llama_cpp.context import ContextOptions
from geniex_runtimes.options import KvType, LoadOptions, SpeculativeOptions
from tests.geniex_runtimes.llama_cpp.answers import answer, load, resolved, turn

ASKED = turn("Tell me about the owl.")
DRAFTING = SpeculativeOptions(("draft-mtp",), 3, adapt=False, require=True)
PLAIN = SpeculativeOptions()


@pytest.mark.parametrize("kind", get_args(KvType))
def test_it_takes_what_was_estimated(
    tiny_chat: Path, kind: KvType, caplog: pytest.LogCaptureFixture
) -> None:
    logged = caplog.at_level(logging.INFO, "geniex.llama_cpp.native")
    with logged, load(tiny_chat, context_length=4096, kv_type=kind) as model:
        assert answer(model, turn("What is the capital of France?")).text.endswith("Paris.")
    taken = re.findall(rf"size = +([\d.]+) MiB .*K \({kind}\)", caplog.text)
    estimated = memory.need(resolved(tiny_chat), 4096, kind).kv / (1 << 20)
    assert len(taken) == 2 and sum(map(float, taken)) == pytest.approx(estimated, abs=0.011)


@pytest.mark.parametrize("kind", ["q8_0", "q4_0"])
@pytest.mark.parametrize(
    ("target", "draft"),
    [
        pytest.param("g4-markov-target.gguf", "g4-markov-draft.gguf", id="shared"),
        pytest.param("q35-mix.gguf", None, id="own"),
        pytest.param("mimo-mix.gguf", None, id="chained"),
    ],
)
def test_drafts_change_no_token(toys: Path, target: str, draft: str | None, kind: KvType) -> None:
    beside = None if draft is None else resolved(toys / draft)
    options: dict[str, Any] = {"speculative": DRAFTING, "draft": beside, "kv_type": kind}
    with load(toys / target, **options) as model:
        accepted = 0
        for start in (20, 90, 300):
            prompt = [2, *range(start, start + 25)]
            fields: dict[str, Any] = {"max_tokens": 100, "reuse_prefix": False, "logprobs": 0}
            plain = answer(model, prompt, speculative=PLAIN, **fields)
            drafted = answer(model, prompt, **fields)
            assert [e.token for e in drafted.logprobs] == [e.token for e in plain.logprobs]
            accepted += drafted.done.profile.draft_accepted
        assert accepted > 20, "the draft reads what the target wrote"


@pytest.mark.parametrize("kind", ["q8_0", "q4_0"])
def test_the_trained_pair(tiny_chat: Path, tiny_chat_draft: Path, kind: KvType) -> None:
    draft = resolved(tiny_chat_draft)
    with load(tiny_chat, speculative=DRAFTING, draft=draft, kv_type=kind) as model:
        plain = answer(model, ASKED, speculative=PLAIN, max_tokens=60)
        drafted = answer(model, ASKED, max_tokens=60, reuse_prefix=False)
        assert drafted.text == plain.text
        assert drafted.done.profile.draft_accepted > drafted.done.profile.draft_proposed / 2


@pytest.mark.parametrize("kind", ["f16", "q8_0"])
def test_a_draft_that_is_never_right_is_told(
    toys: Path, kind: KvType, caplog: pytest.LogCaptureFixture
) -> None:
    draft = resolved(toys / "g4-random-draft.gguf")
    target = toys / "g4-random-target.gguf"
    with load(target, speculative=DRAFTING, draft=draft, kv_type=kind) as model:
        reasons = [
            answer(model, [2, *range(start, start + 9)], max_tokens=120).done.profile.spec_reason
            for start in (20, 60, 90)
        ]
    assert reasons[0] == "", "119 drafts say nothing yet"
    assert f"KV cache in {kind}" in reasons[1] and f"KV cache in {kind}" in reasons[2]
    assert ("f16" in reasons[1]) and re.search(r"of \d+ drafts \d\.\d% of the tokens", reasons[1])
    told = [r for r in caplog.records if "of the tokens were accepted" in r.getMessage()]
    assert len(told) == 1, "once for a model"


@pytest.mark.parametrize(
    ("kind", "asked", "compute", "has"),
    [
        ("f16", "auto", "cpu", True),
        ("f16", "auto", "npu", True),
        ("f16", "auto", "gpu", None),
        ("q8_0", "auto", "gpu", True),
        ("f16", "off", "cpu", False),
        ("f16", "on", "gpu", True),
    ],
)
def test_who_has_flash_attention(kind: Any, asked: Any, compute: Any, has: bool | None) -> None:
    options = ContextOptions(512, 1, 1, compute, kv_type=kind, flash_attention=asked)
    assert options.has_flash_attention is has


def test_without_flash_attention(tiny_chat: Path, caplog: pytest.LogCaptureFixture) -> None:
    logged = caplog.at_level(logging.INFO, "geniex.llama_cpp.native")
    with logged, load(tiny_chat, flash_attention="off") as model:
        assert answer(model, ASKED, max_tokens=8).text
    assert re.search(r"flash_attn += disabled", caplog.text)


def test_a_trial_is_of_the_cache_too(tiny_chat: Path, tmp_path: Path) -> None:
    def tried(**options: Any) -> trial.Trial:
        return trial.of(resolved(tiny_chat), LoadOptions(**options), trial.PLAIN)

    usual, small = tried(), tried(kv_type="q8_0", flash_attention="on")
    assert usual.key(tmp_path) != small.key(tmp_path)
    assert {"--kv-type=q8_0", "--flash-attn=on"} <= set(small.command())
    assert "--kv-type" not in " ".join(usual.command())
    trial.check(small, None)
