"""How the built-in pair was made: its corpus, its tokenizer, and the files that ship."""

import hashlib
import re
from itertools import islice
from pathlib import Path
from random import Random

import gguf
import pytest

from ci.tiny_pair.conversations import Chat, draw_chat
from ci.tiny_pair.knowledge import in_words
from ci.tiny_pair.markup import CHAT_TEMPLATE
from ci.tiny_pair.samples import draw_groups, render, tokenizer_texts
from ci.tiny_pair.tokenizer import Tokenizer, train

SEED = 20261130


def shipped(path: Path, key: str) -> object:
    """One value of a file's metadata."""
    field = gguf.GGUFReader(path).get_field(key)
    assert field is not None
    return field.contents()


def test_the_shipped_files_are_those_of_their_readme(
    tiny_chat: Path, tiny_chat_draft: Path
) -> None:
    text = (tiny_chat.parent / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"`([\w.-]+\.gguf)`.*`([0-9a-f]{64})`", text))
    for path in (tiny_chat, tiny_chat_draft):
        assert rows.pop(path.name) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert rows == {}


@pytest.mark.slow
def test_the_corpus_still_gives_the_shipped_tokenizer(tiny_chat: Path) -> None:
    tokenizer = train(tokenizer_texts(SEED), 2048)
    assert tokenizer.tokens == shipped(tiny_chat, "tokenizer.ggml.tokens")
    assert tokenizer.types == shipped(tiny_chat, "tokenizer.ggml.token_type")
    merges = [f"{first} {second}" for first, second in tokenizer.merges]
    assert merges == shipped(tiny_chat, "tokenizer.ggml.merges")


def test_the_template_is_the_shipped_one(tiny_chat: Path, tiny_chat_draft: Path) -> None:
    for path in (tiny_chat, tiny_chat_draft):
        assert shipped(path, "tokenizer.chat_template") == CHAT_TEMPLATE


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    r = Random(1)
    return train(["".join(text for text, _ in render(draw_chat(r))) for _ in range(300)], 600)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("What is 7 plus 5?", id="plain"),
        pytest.param("<bos><|turn>user\nHi<turn|>\n", id="special"),
        pytest.param("a  b\n\n\n\tc 東京 🙂", id="bytes-and-blanks"),
        pytest.param("", id="empty"),
    ],
)
def test_text_survives_the_tokenizer(text: str, tokenizer: Tokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_only_the_model_is_taught_to_speak() -> None:
    turns = [("Hi", "Hello!"), ("Sum?", "12.")]
    chat = Chat("Be brief.", True, turns, ["first", "second"])
    spoken = [text for text, weight in render(chat) if weight >= 1]
    assert spoken == ["Hello!<turn|>", "<|channel>thought\nsecond<channel|>", "12.<turn|>"]
    last = [text for text, weight in render(chat, last_only=True) if weight >= 1]
    assert last == spoken[1:]


def test_groups_stay_within_their_budget(tokenizer: Tokenizer) -> None:
    for group in islice(draw_groups(tokenizer, 1, tokens=2000, longest=200), 20):
        longest = max(len(ids) for ids, _ in group)
        assert longest <= 200
        assert longest * len(group) <= 2000
        assert all(len(ids) == len(weights) for ids, weights in group)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (19, "nineteen"),
        (20, "twenty"),
        (42, "forty-two"),
        (100, "one hundred"),
        (121, "one hundred and twenty-one"),
    ],
)
def test_numbers_in_words(number: int, words: str) -> None:
    assert in_words(number) == words
