"""Files that llama.cpp loads: the built-in pair and the toys."""

from pathlib import Path

import pytest

from geniex_catalogue.gguf import read_header
from geniex_runtimes.errors import SpeculativeError
from geniex_runtimes.llama_cpp.speculative import pair
from tests.geniex_runtimes.llama_cpp.speculative.pair.verdict import mode, refusal


def test_the_built_in_pair(tiny_chat: Path, tiny_chat_draft: Path, tmp_path: Path) -> None:
    assert mode(tiny_chat, tiny_chat_draft) == "shared"
    # two tokens of the target swap their texts: what is called a token is no longer the draft's
    data = tiny_chat.read_bytes()
    first, second = (len(text).to_bytes(8, "little") + text for text in (b"!", b'"'))
    changed = data.replace(first + second, second + first, 1)
    assert changed != data
    path = tmp_path / "permuted.gguf"
    path.write_bytes(changed)
    assert "`permuted.gguf` has '\"'" in refusal(path, tiny_chat_draft)


@pytest.mark.parametrize(
    ("target", "draft", "expected"),
    [
        ("g4-markov-target", "g4-markov-draft", "shared"),
        ("g4-random-target", "g4-random-draft", "shared"),
        ("g4-always-target", "g4-always-draft", "shared"),
        ("g4-flip-target", "g4-flip-draft", "shared"),
        ("q35-mix", None, "own"),
        ("mimo-mix", None, "chained"),
    ],
)
def test_toys_that_fit(toys: Path, target: str, draft: str | None, expected: str) -> None:
    assert mode(toys / f"{target}.gguf", toys / f"{draft}.gguf" if draft else None) == expected


@pytest.mark.parametrize(
    ("target", "draft", "says"),
    [
        ("g4-markov-target", "g4-bad-out-draft", "of 160 values, `g4-markov-target.gguf` has 128"),
        ("g4-markov-target", "g4-bad-head-draft", "has 32, `g4-markov-target.gguf` has 64"),
        ("g4-markov-target", "g4-bad-window-draft", "has 32, `g4-markov-target.gguf` has 64"),
        ("g4-markov-target", "g4-bad-kv-heads-draft", "has 2, `g4-markov-target.gguf` has 1"),
        ("g4-markov-target", "g4-bad-vocab-draft", "has 'other' as token 300"),
        ("g4-markov-target", "g4-bad-size-draft", "has 544 tokens"),
        ("g4-markov-target", "g4-flip-draft", "has 1536 tokens"),
        ("g4-markov-target", "g4-markov-target", "is the target itself"),
        ("g4-markov-target", "q35-mix", "`q35-mix.gguf` is qwen35"),
        ("q35-mix", "g4-markov-draft", "takes no draft for MTP"),
        ("q35-hollow", None, "`blk.4.nextn.eh_proj.weight` is missing"),
        ("mimo-hollow", None, "`blk.4.nextn.eh_proj.weight` is missing"),
        ("exaone4-heads", None, "cannot run those of architecture exaone4"),
        ("g4-markov-draft", None, "is itself a draft"),
    ],
)
def test_toys_that_do_not_fit(toys: Path, target: str, draft: str | None, says: str) -> None:
    assert says in refusal(toys / f"{target}.gguf", toys / f"{draft}.gguf" if draft else None)


@pytest.mark.parametrize(
    ("target", "draft", "kind", "hint"),
    [
        pytest.param("q35-mix", "q35-mix", "mtp", "its own heads", id="heads"),
        pytest.param("g4-markov-target", "g4-markov-target", "mtp", "made for", id="no-heads"),
        pytest.param("mimo-hollow", "mimo-hollow", "mtp", "made for", id="hollow-heads"),
        pytest.param("exaone4-heads", "g4-markov-draft", "mtp", "", id="heads-nobody-runs"),
        pytest.param("q35-mix", "q35-mix", "simple", "same vocabulary", id="simple"),
    ],
)
def test_the_next_step_can_be_taken(
    toys: Path, target: str, draft: str, kind: str, hint: str
) -> None:
    one, other = toys / f"{target}.gguf", toys / f"{draft}.gguf"
    check = pair.check if kind == "mtp" else pair.check_simple
    with pytest.raises(SpeculativeError) as caught:
        check(read_header(one), one, read_header(other), other)
    assert hint in (caught.value.hint or "") and bool(caught.value.hint) == bool(hint)
