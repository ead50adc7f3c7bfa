"""Training samples: chats with markup, as token ids and the weight of each."""

from collections.abc import Iterator
from random import Random

from ci.tiny_pair.conversations import Chat, draw_chat, draw_document
from ci.tiny_pair.markup import NO_THOUGHT
from ci.tiny_pair.tokenizer import Tokenizer

Part = tuple[str, float]
Sample = tuple[list[int], list[float]]

POOL = 4096  # samples that are sorted by length at a time


def weight_of(text: str) -> float:
    """Short answers carry facts in few tokens (sums, capitals); long templates must not win."""
    return 3.0 if len(text) < 60 else 1.0


def render(chat: Chat, *, last_only: bool = False) -> list[Part]:
    """Texts with weights: high for what the model says, low for questions, none for markup.

    It must agree with the chat template. With `last_only` only the last answer counts.
    """
    parts: list[Part] = [("<bos>", 0.0)]
    if chat.thinking or chat.system:
        think = "<|think|>\n" if chat.thinking else ""
        parts.append((f"<|turn>system\n{think}{chat.system or ''}<turn|>\n", 0.0))
    last = len(chat.turns) - 1
    for number, (question, answer) in enumerate(chat.turns):
        parts.append(("<|turn>user\n", 0.0))
        parts.append((question, 0.1))
        parts.append(("<turn|>\n<|turn>model\n", 0.0))
        if number == last and chat.thinking:
            thought = chat.thoughts[number]
            parts.append((f"<|channel>thought\n{thought}<channel|>", weight_of(thought)))
        elif number == last:
            parts.append((NO_THOUGHT, 0.0))
        counts = number == last or not last_only
        parts.append((answer + "<turn|>", weight_of(answer) if counts else 0.0))
        if number < last:
            parts.append(("\n", 0.0))
    return parts


def encode_parts(tokenizer: Tokenizer, parts: list[Part]) -> Sample:
    """Token ids, and the weight of each."""
    ids: list[int] = []
    weights: list[float] = []
    for text, weight in parts:
        encoded = tokenizer.encode(text)
        ids += encoded
        weights += [weight] * len(encoded)
    return ids, weights


def draw_pool(tokenizer: Tokenizer, r: Random, longest: int, *, last_only: bool) -> list[Sample]:
    """Samples of at most `longest` tokens, sorted by length; a few are plain documents."""
    pool: list[Sample] = []
    while len(pool) < POOL:
        if r.random() < 0.06:
            parts = [("<bos>", 0.0), (draw_document(r), 1.0), ("<eos>", 1.0)]
        else:
            parts = render(draw_chat(r), last_only=last_only)
        sample = encode_parts(tokenizer, parts)
        if len(sample[0]) <= longest:
            pool.append(sample)
    return sorted(pool, key=lambda sample: len(sample[0]))


def draw_groups(
    tokenizer: Tokenizer, seed: int, tokens: int, longest: int, *, last_only: bool = False
) -> Iterator[list[Sample]]:
    """Endless groups of samples of like length, each of at most `tokens` tokens with padding."""
    r = Random(seed)
    while True:
        groups: list[list[Sample]] = []
        group: list[Sample] = []
        for sample in draw_pool(tokenizer, r, longest, last_only=last_only):
            if group and len(sample[0]) * (len(group) + 1) > tokens:
                groups.append(group)
                group = []
            group.append(sample)
        # the last group of a pool is not full and is left out
        r.shuffle(groups)
        yield from groups


def tokenizer_texts(seed: int) -> list[str]:
    """The texts that the tokenizer is trained on."""
    r = Random(seed)
    chats = ["".join(text for text, _ in render(draw_chat(r))) for _ in range(20000)]
    return chats + [draw_document(r) for _ in range(2000)]
