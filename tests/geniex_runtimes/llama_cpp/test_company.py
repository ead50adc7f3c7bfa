"""Answers that are evaluated together are what they are alone."""

import platform
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex_catalogue.gguf import read_header
from geniex_runtimes.llama_cpp import company
from geniex_runtimes.llama_cpp.context import CPU_ROWS
from geniex_runtimes.llama_cpp.runtime import LlamaCppModel
from geniex_runtimes.llama_cpp.sampling import row_of_logits
from geniex_runtimes.llama_cpp.speculative.exactness import exact_rows
from geniex_runtimes.options import LoadOptions
from tests.geniex_runtimes.llama_cpp.answers import answer, load, turn

F16, Q8_0, Q4_K, Q6_K, MXFP4 = 1, 8, 12, 14, 39
SEVERAL = LoadOptions(slots=4)


@pytest.mark.parametrize(
    ("kinds", "options", "machine", "expected"),
    [
        pytest.param({Q8_0, Q4_K}, SEVERAL, "x86_64", False, id="several answers"),
        pytest.param({Q8_0, Q4_K}, SEVERAL, "AMD64", False, id="on Windows"),
        pytest.param({Q8_0, Q6_K}, SEVERAL, "x86_64", True, id="nothing that is repacked apart"),
        pytest.param({Q4_K}, SEVERAL, "aarch64", True, id="another machine"),
        pytest.param({Q4_K}, replace(SEVERAL, slots=1), "x86_64", True, id="one answer"),
        pytest.param({Q4_K}, replace(SEVERAL, compute="gpu"), "x86_64", True, id="on a GPU"),
        pytest.param(
            {Q8_0}, replace(SEVERAL, extra_buffers=False), "x86_64", False, id="not allowed"
        ),
    ],
)
def test_what_is_repacked(
    tiny_chat: Path,
    monkeypatch: pytest.MonkeyPatch,
    kinds: set[int],
    options: LoadOptions,
    machine: str,
    expected: bool,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    header = read_header(tiny_chat)
    tensors = [
        tensor._replace(type=kind) for tensor, kind in zip(header.tensors, kinds, strict=False)
    ]
    assert company.repacking(replace(header, tensors=tuple(tensors)), options) is expected


@pytest.mark.parametrize(
    ("broken_from", "expected"), [(2, 1), (3, 2), (6, 5), (8, 7), (9, 8)], ids=str
)
def test_the_first_number_of_rows_that_differ_is_found(
    tiny_chat: Path, monkeypatch: pytest.MonkeyPatch, broken_from: int, expected: int
) -> None:
    right = row_of_logits

    with load(tiny_chat, slots=8) as model:

        def rounded(library: object, context: int, row: int, size: int) -> np.ndarray:
            logits = right(model._native, context, row, size).copy()
            return logits + (batch_rows[0] >= broken_from)

        batch_rows = [0]
        decode = type(model._context).decode

        def noted(self: object, batch: object) -> None:
            batch_rows[0] = batch.rows  # type: ignore[attr-defined]
            decode(self, batch)  # type: ignore[arg-type]

        monkeypatch.setattr(f"{exact_rows.__module__}.row_of_logits", rounded)
        monkeypatch.setattr(type(model._context), "decode", noted)
        assert exact_rows(model._native, model._context, model.info.vocab_size, 8) == expected


def texts_together_and_alone(model: LlamaCppModel, prompts: list[str], count: int) -> None:
    def text(prompt: str) -> str:
        return answer(model, prompt, max_tokens=count, reuse_prefix=False).text

    alone = [text(prompt) for prompt in prompts]
    with ThreadPoolExecutor(len(prompts)) as pool:
        assert list(pool.map(text, prompts)) == alone
    assert len(set(alone)) > len(alone) / 2


def test_eight_answers_at_once(tiny_chat: Path) -> None:
    animals = ("owl", "whale", "ant", "goose", "fox", "cat", "bear", "dog")
    with load(tiny_chat, slots=8) as model:
        texts_together_and_alone(model, [turn(f"Tell me about the {a}.") for a in animals], 60)


@pytest.mark.parametrize(
    ("left", "most", "rest", "expected"),
    [
        (5, 480, 8, [5]),
        (60, 480, 8, [60]),
        (65, 480, 8, [57, 8]),
        (67, 480, 8, [59, 8]),
        (68, 480, 8, [68]),
        (485, 480, 8, [472, 13]),
        (126, 120, 8, [112, 14]),
        (128, 120, 8, [120, 8]),
        (65, 480, 1, [65]),
        (485, 480, 1, [480, 5]),
    ],
)
def test_no_part_of_a_prompt_is_too_short_for_its_kernel(
    left: int, most: int, rest: int, expected: list[int]
) -> None:
    limits, chunks = company.Limits(rest=rest), []
    while left:
        chunks.append(limits.chunk(left, most))
        left -= chunks[-1]
    assert chunks == expected


@pytest.mark.parametrize(
    ("rows", "most", "expected"),
    [(0, 7, 0), (1, 7, 1), (7, 7, 7), (8, 7, 4), (15, 7, 5), (16, 7, 6), (32, 512, 32)],
)
def test_groups_are_of_one_size(rows: int, most: int, expected: int) -> None:
    assert company.Limits(most).share(rows) == expected


@given(st.integers(8, 3000), st.sampled_from([20, 60, 120, 480]))
def test_a_prompt_of_any_length_is_cut_well(left: int, most: int) -> None:
    limits = company.Limits(rest=8)
    while left:
        count = limits.chunk(left, most)
        assert 0 < count <= most
        # llama.cpp evaluates a chunk 60 rows at a time
        assert count % 60 == 0 or count % 60 >= 8
        left -= count


@pytest.mark.parametrize(
    ("kinds", "cut"),
    [
        pytest.param({Q8_0, Q6_K}, company.FINE_ROWS, id="tried out"),
        pytest.param({Q8_0, F16}, CPU_ROWS, id="float weights"),
        pytest.param({Q8_0, MXFP4}, CPU_ROWS, id="not tried out"),
    ],
)
def test_where_a_prompt_may_be_cut(tiny_chat: Path, kinds: set[int], cut: int) -> None:
    header = read_header(tiny_chat)
    tensors = [
        tensor._replace(type=kind)
        for tensor, kind in zip(
            [one for one in header.tensors if len(one.shape) > 1], kinds, strict=False
        )
    ]
    with load(tiny_chat, slots=2) as model:
        given = replace(header, tensors=tuple(tensors))
        found = company.limits(model._native, model._context, model.info.vocab_size, given)
        assert found.cut == cut
        without = company.limits(model._native, model._context, model.info.vocab_size, None)
        assert without.cut == CPU_ROWS


@pytest.mark.slow
def test_the_same_request_again_has_the_same_answer(gemma3: Path) -> None:
    form = "<start_of_turn>user\n{}<end_of_turn>\n<start_of_turn>model\n"
    with load(gemma3, slots=4) as model:
        for question in ("Explain gravity simply.", "Name a colour. " * 9, "Hi"):
            first, *others = [answer(model, form.format(question), max_tokens=24) for _ in range(3)]
            assert first.done.profile.cached_tokens == 0 or question == "Hi"
            assert others[0].done.profile.cached_tokens > 0 or question == "Hi"
            assert {other.text for other in others} == {first.text}
