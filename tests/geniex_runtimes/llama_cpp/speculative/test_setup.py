"""From options to a speculator: every type works, and what cannot work falls back and says why."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from geniex_runtimes.contract import SPEC_FALLBACK
from geniex_runtimes.errors import SpeculativeError
from geniex_runtimes.llama_cpp.context import Context
from geniex_runtimes.llama_cpp.runtime import LlamaCppModel, LlamaCppRuntime
from geniex_runtimes.llama_cpp.speculative import setup
from geniex_runtimes.llama_cpp.speculative.costs import Costs
from geniex_runtimes.llama_cpp.speculative.measure import measure
from geniex_runtimes.options import LoadOptions, SpeculativeOptions
from tests.geniex_runtimes.llama_cpp.answers import answer, resolved, turn

OWL = turn("Tell me about the owl.")
PLAIN = SpeculativeOptions()


def load_with(target: Path, draft: Path | None, *types: str, **fields: object) -> LlamaCppModel:
    options = SpeculativeOptions(types, **({"adapt": False} | fields))  # type: ignore[arg-type]
    model = LlamaCppRuntime().load(
        resolved(target),
        LoadOptions(
            threads=1,
            context_length=1024,
            speculative=options,
            draft=resolved(draft) if draft is not None else None,
        ),
    )
    assert isinstance(model, LlamaCppModel)
    return model


@pytest.mark.parametrize(
    "types",
    [
        pytest.param(("ngram-simple",), id="ngram-simple"),
        pytest.param(("ngram-map-k",), id="ngram-map-k"),
        pytest.param(("ngram-mod",), id="ngram-mod"),
        pytest.param(("draft-mtp",), id="draft-mtp"),
        pytest.param(("draft-simple",), id="draft-simple"),
        pytest.param(("ngram-simple", "draft-mtp"), id="two"),
    ],
)
def test_every_type_drafts_and_changes_nothing(
    tiny_chat: Path, tiny_chat_draft: Path, tmp_path: Path, types: tuple[str, ...]
) -> None:
    draft = tiny_chat_draft if "draft-mtp" in types else None
    if "draft-simple" in types:
        draft = tmp_path / "same-model.gguf"
        draft.write_bytes(tiny_chat.read_bytes())
    with load_with(tiny_chat, draft, *types) as model:
        assert model.info.speculation == types and not model.info.warnings
        said = answer(model, OWL, speculative=PLAIN).text
        twice = f"{OWL}{said}<turn|>\n{OWL}"
        plain = answer(model, twice, speculative=PLAIN, reuse_prefix=False)
        drafted = answer(model, twice, reuse_prefix=False)
    assert drafted.text == plain.text
    assert drafted.done.profile.draft_accepted > 5
    assert plain.done.profile.draft_proposed == 0


@pytest.mark.parametrize(
    ("types", "draft", "reason"),
    [
        pytest.param(("draft-mtp",), None, "gemma4-assistant", id="no-draft"),
        pytest.param(("draft-mtp",), "target", "gemma4-assistant", id="not-a-draft"),
        pytest.param(("draft-simple",), None, "needs a draft", id="simple-without"),
        pytest.param(("draft-simple",), "assistant", "does not run alone", id="simple-assistant"),
        pytest.param(("draft-simple", "draft-mtp"), "assistant", "together", id="both"),
    ],
)
def test_what_does_not_fit_falls_back_and_says_why(
    tiny_chat: Path,
    tiny_chat_draft: Path,
    tmp_path: Path,
    types: tuple[str, ...],
    draft: str | None,
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(tiny_chat.read_bytes())
    path = {"target": other, "assistant": tiny_chat_draft, None: None}[draft]
    with (
        caplog.at_level(logging.WARNING, "geniex.llama_cpp"),
        load_with(tiny_chat, path, *types) as model,
    ):
        assert model.info.speculation == ()
        (warning,) = model.info.warnings
        assert warning.startswith(SPEC_FALLBACK) and reason in warning
        assert any(line.message.startswith(SPEC_FALLBACK) for line in caplog.records)
        result = answer(model, OWL)
        assert result.text and result.done.profile.spec_state is None
    with pytest.raises(SpeculativeError, match=reason):
        load_with(tiny_chat, path, *types, require=True)


def test_more_draft_tokens_than_are_exact_on_a_cpu_are_cut(
    tiny_chat: Path, tiny_chat_draft: Path
) -> None:
    with load_with(tiny_chat, tiny_chat_draft, "draft-mtp", n_max=16) as model:
        assert "6 draft tokens" in model.info.warnings[0]
        profile = answer(model, OWL).done.profile
        assert len(profile.accepted_at) == 6


def test_models_with_drafts_load_and_free(tiny_chat: Path, tiny_chat_draft: Path) -> None:
    import psutil

    for _ in range(2):
        load_with(tiny_chat, tiny_chat_draft, "draft-mtp").close()
    before = psutil.Process().memory_info().rss
    for _ in range(8):
        with load_with(tiny_chat, tiny_chat_draft, "draft-mtp") as model:
            answer(model, OWL)
    assert psutil.Process().memory_info().rss - before < 30e6


def test_drafts_are_as_long_as_the_weights_are_exact(
    tiny_chat: Path, tiny_chat_draft: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with load_with(tiny_chat, tiny_chat_draft, "draft-mtp", n_max=6) as model:
        assert not model.info.warnings, "Q8_0 is exact"
    for rows, length, said in ((3, 2, "at most 2 tokens"), (1, 6, "nearly equal")):
        monkeypatch.setattr(setup, "exact_rows", lambda *_, rows=rows: rows)
        with load_with(tiny_chat, tiny_chat_draft, "draft-mtp", n_max=6) as model:
            assert said in model.info.warnings[0]
            assert len(answer(model, OWL).done.profile.accepted_at) == length


def test_an_answer_without_anything_to_draft_says_so(tiny_chat: Path) -> None:
    with load_with(tiny_chat, None, "ngram-simple", adapt=False) as model:
        profile = answer(model, OWL).done.profile
    assert (profile.draft_proposed, profile.spec_state) == (0, "on")
    assert profile.spec_reason == "no draft was proposed in this answer"


def test_a_small_model_that_ends_the_process_is_tried_in_a_child(
    tiny_chat: Path, tmp_path: Path
) -> None:
    key = b"gemma4.block_count"
    data = bytearray(tiny_chat.read_bytes())
    at = data.index(key) + len(key) + 4  # behind the type of the value
    data[at : at + 4] = bytes(4)
    draft = tmp_path / "no-blocks.gguf"
    draft.write_bytes(data)
    flags = ("--spec-type", "draft-simple", "--draft-model", str(draft), "--temperature", "0")
    done = subprocess.run(
        [sys.executable, "-m", "geniex", "infer", "-p", "Tell me about the owl.", *flags],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "GENIEX_DATADIR": str(tmp_path / "data")},
        check=False,
    )
    assert done.returncode == 0 and "owl" in done.stdout
    assert SPEC_FALLBACK in done.stderr and "the draft cannot be used" in done.stderr


@pytest.mark.parametrize("toy", ["q35-mix", "mimo-mix"])
def test_what_a_draft_costs_is_measured_with_drafts_that_work(
    toys: Path, toy: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Costs] = []

    def watched(*arguments: Any) -> Costs:
        seen.append(measure(*arguments))
        return seen[-1]

    monkeypatch.setattr(setup, "measure", watched)
    with load_with(toys / f"{toy}.gguf", None, "draft-mtp"):
        assert "cut short" not in caplog.text
    one, _, three = seen[0].drafts(3)[1:]
    assert three > 1.5 * one  # a decode for each token


@pytest.mark.parametrize(
    ("rows", "saves"),
    [
        pytest.param([1e-4, 1.9e-4, 2.8e-4, 3.7e-4], True, id="drafts-can-hardly-pay"),
        pytest.param([1e-4, 1.1e-4, 1.2e-4, 1.3e-4], False, id="they-can"),
        pytest.param([1e-2, 1.9e-2, 2.8e-2, 3.7e-2], False, id="slow-steps"),
    ],
)
def test_a_state_is_copied_at_each_step_only_where_that_may_pay(
    toys: Path, monkeypatch: pytest.MonkeyPatch, rows: list[float], saves: bool
) -> None:
    saved: list[int] = []
    save = Context.save

    def watched(self: Context, sequence: int) -> bytes:
        saved.append(sequence)
        return save(self, sequence)

    monkeypatch.setattr(Context, "save", watched)
    monkeypatch.setattr(setup, "measure", lambda *given: Costs(rows, [1e-5] * given[3]))
    with load_with(toys / "q35-mix.gguf", None, "draft-mtp", adapt=True) as model:
        told = SpeculativeOptions(("draft-mtp",), n_max=3, adapt=False)
        plain = answer(model, [5, 9, 11], speculative=PLAIN)
        drafted = answer(model, [5, 9, 11], speculative=told)
        adapted = answer(model, [5, 9, 11])
    assert drafted.text == adapted.text == plain.text
    assert drafted.done.profile.draft_accepted > 5 and adapted.done.profile.draft_proposed > 0
    assert bool(saved) == saves
