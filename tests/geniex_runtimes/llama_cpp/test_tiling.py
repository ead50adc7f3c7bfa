"""Whether a process evaluates K-quants in tiles, and what that means for answers together."""

import json
import logging
import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from geniex_catalogue.gguf import GGUFHeader, read_header
from geniex_runtimes.llama_cpp import tiling
from geniex_runtimes.options import LoadOptions

Q8_0, Q4_K, Q6_K, IQ4_XS = 8, 12, 14, 23
EIGHT = LoadOptions(slots=8)


@pytest.fixture(autouse=True)
def unsettled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiling, "_settled", [])
    # what a test sets is taken back, too
    monkeypatch.setenv(tiling.SWITCH, "1")
    monkeypatch.delenv(tiling.SWITCH)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")


def weights(tiny_chat: Path, kind: int, part: float) -> GGUFHeader:
    """The header of a model of which so much is of a kind, of layers of one size each."""
    header = read_header(tiny_chat)
    one = next(tensor for tensor in header.tensors if tensor.name.startswith("blk."))
    count = round(part * 10)
    kinds = [kind] * count + [Q8_0] * (10 - count)
    layers = [one._replace(name=f"blk.{i}.ffn_up.weight", type=k) for i, k in enumerate(kinds)]
    return replace(header, tensors=(one._replace(name="token_embd.weight", type=Q6_K), *layers))


@pytest.mark.parametrize(
    ("kind", "part", "options", "machine", "on"),
    [
        pytest.param(Q4_K, 0.3, EIGHT, "x86_64", False, id="some K-quants, eight answers"),
        pytest.param(IQ4_XS, 0.3, EIGHT, "AMD64", False, id="some i-quants, on Windows"),
        pytest.param(Q4_K, 1.0, EIGHT, "x86_64", True, id="all K-quants"),
        pytest.param(Q4_K, 0.5, EIGHT, "x86_64", True, id="half of it"),
        pytest.param(Q4_K, 0.0, EIGHT, "x86_64", True, id="none in the layers"),
        pytest.param(Q4_K, 0.3, replace(EIGHT, slots=7), "x86_64", True, id="seven answers"),
        pytest.param(Q4_K, 0.3, replace(EIGHT, compute="gpu"), "x86_64", True, id="on a GPU"),
        pytest.param(Q4_K, 0.3, EIGHT, "aarch64", True, id="another machine"),
    ],
)
def test_the_first_model_decides(
    tiny_chat: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: int,
    part: float,
    options: LoadOptions,
    machine: str,
    on: bool,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    header = weights(tiny_chat, kind, part)
    tiling.settle("first", header, options)
    assert tiling.is_on() is on
    assert tiling.has_kernel(header) is (on and part > 0 and machine != "aarch64")
    # and nobody after it
    tiling.settle("second", weights(tiny_chat, Q4_K, 0.3), EIGHT)
    assert tiling.is_on() is on


@pytest.mark.parametrize(("text", "on"), [("1", True), ("0", False), ("", True), ("no", False)])
def test_a_variable_of_the_user_stays(
    tiny_chat: Path, monkeypatch: pytest.MonkeyPatch, text: str, on: bool
) -> None:
    monkeypatch.setenv(tiling.SWITCH, text)
    tiling.settle("first", weights(tiny_chat, Q4_K, 0.3), EIGHT)
    assert os.environ[tiling.SWITCH] == text
    assert tiling.is_on() is on


def test_a_model_that_suffers_is_told(tiny_chat: Path, caplog: pytest.LogCaptureFixture) -> None:
    tiling.settle("mixed", weights(tiny_chat, Q4_K, 0.3), EIGHT)
    with caplog.at_level(logging.WARNING, "geniex.llama_cpp"):
        tiling.settle("other", weights(tiny_chat, Q8_0, 1.0), EIGHT)
        assert not caplog.records
        tiling.settle("all of it", weights(tiny_chat, Q4_K, 1.0), EIGHT)
    assert "`all of it`" in caplog.text and "`mixed`" in caplog.text


EIGHT_AT_ONCE = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tests.geniex_runtimes.llama_cpp.answers import answer, load

form = "<start_of_turn>user\\n{}<end_of_turn>\\n<start_of_turn>model\\n"
asked = ("What is the capital of France?", "Tell me a story about a fox.", "How do I bake bread?",
    "Explain gravity to a child.", "List five animals.", "Why is the sky blue?",
    "Write a poem about rain.", "What is 12 times 9?")
with load(Path(sys.argv[1]), slots=8) as model:
    def text(question):
        return answer(model, form.format(question), max_tokens=32, reuse_prefix=False).text
    alone = [text(question) for question in asked]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(text, asked))
    limits = model._engine._limits
    print(json.dumps({"alone": alone, "together": together, "rows": limits.rows}))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "together"),
    [pytest.param({}, True, id="not in tiles"), pytest.param({tiling.SWITCH: "1"}, False, id="on")],
)
def test_eight_answers_of_some_k_quants_are_what_they_are_alone(
    gemma3: Path, variables: dict[str, str], together: bool
) -> None:
    """In a process of its own: ggml reads the switch once."""
    done = subprocess.run(
        [sys.executable, "-c", EIGHT_AT_ONCE, str(gemma3)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["together"] == found["alone"]
    assert len(set(found["alone"])) > 4
    assert (found["rows"] >= 8) is together
