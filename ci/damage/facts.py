"""Kinds of damage to what a file says of its model: hyperparameters, tokenizer, template."""

import random
import struct

from ci.damage.kinds import Kind, of_parts
from ci.damage.parts import (
    ARRAY,
    BOOL,
    F32,
    I32,
    STRING,
    U32,
    Entry,
    Parts,
    items_of,
    numbers,
    string,
    strings,
)

_ODD = (0, 1, 2, 3, 7, 65, 127, 129, 1 << 14, 1 << 20, 2**31 - 1, 2**31, 2**32 - 1)
_ODD_FLOATS = (0.0, -1.0, 1e-30, 1e30, float("nan"), float("inf"), float("-inf"))
_ARCHITECTURES = (
    *("llama", "qwen2", "qwen3", "gemma3", "gemma4-assistant", "phi3", "mamba", "bert", "clip"),
    *("t5", "rwkv7", "qwen35", "deepseek2", "gpt-oss", "lfm2", "eagle3", "wavtokenizer-dec"),
    *("nothing", "", "llama\x1b[31m", "x" * 3000),
)
_TOKENIZERS = ("llama", "gpt2", "bert", "t5", "rwkv", "plamo2", "gemma4", "none", "no_vocab", "odd")
_PRE = ("default", "llama-bpe", "qwen2", "gpt-2", "deepseek-llm", "odd", "", "gemma4")
_TEXTS = (b"", b"\xff", b"\xc3", b"a\0b", b"<0x", b"<0xZZ>", b"<0x41>", b" ", b"x" * 70_000)
_TEMPLATES = (
    b"",
    b"{% for %}",
    b"{{ messages }}" * 3,
    b"\xff\xfe\x00",
    b"{{ 'a' * 10**10 }}",
    b"{% for a in range(99999999) %}{% for b in range(99999999) %}{% endfor %}{% endfor %}",
    b"{{ raise_exception('no') }}",
    b"{{ ''.__class__.__mro__[1].__subclasses__() }}",
    b"{{ messages[99].content }}",
    b"x" * (2 << 20),
    b"(" * 100_000,
)


def _own(parts: Parts) -> list[Entry]:
    """The architecture's own entries."""
    return [e for e in parts.entries if not e.key.startswith(("general.", "tokenizer."))]


def _number(rng: random.Random, parts: Parts) -> None:
    """A hyperparameter that is zero, one, odd or huge."""
    entry = rng.choice([e for e in _own(parts) if e.kind == U32])
    entry.value = struct.pack("<I", rng.choice(_ODD))


def _float(rng: random.Random, parts: Parts) -> None:
    entry = rng.choice([e for e in _own(parts) if e.kind == F32])
    entry.value = struct.pack("<f", rng.choice(_ODD_FLOATS))


def _other_type(rng: random.Random, parts: Parts) -> None:
    entry = rng.choice(_own(parts))
    entry.kind, entry.value = rng.choice(
        (
            (STRING, string("12")),
            (BOOL, b"\1"),
            (F32, struct.pack("<f", 4.0)),
            (I32, struct.pack("<i", -1)),
            (10, struct.pack("<Q", 2**63)),
            (ARRAY, numbers(I32, [])),
            (ARRAY, numbers(I32, [-1, 2, 3])),
            (ARRAY, numbers(U32, [2**32 - 1] * 700)),
            (ARRAY, strings([b"4"] * 4)),
        )
    )


def _lost(rng: random.Random, parts: Parts) -> None:
    parts.entries.remove(rng.choice(parts.entries))


def _architecture(rng: random.Random, parts: Parts) -> None:
    """Another architecture, at times with the old one's keys under its name."""
    entry = parts.entry("general.architecture")
    assert entry is not None
    old, new = entry.value[8:].decode(), rng.choice(_ARCHITECTURES)
    entry.value = string(new)
    if rng.random() < 0.7:
        for own in _own(parts):
            own.key = own.key.replace(f"{old}.", f"{new}.", 1)


def _arrays(parts: Parts, *names: str) -> list[Entry]:
    found = [parts.entry(f"tokenizer.ggml.{name}") for name in names]
    return [entry for entry in found if entry is not None]


def _tokens(rng: random.Random, parts: Parts) -> None:
    """Tokens that are there twice, empty, no text, or of another form."""
    (entry,) = _arrays(parts, "tokens")
    items = items_of(entry)
    how = rng.randrange(3)
    for _ in range(rng.choice((1, 10, 300))):
        at = rng.randrange(len(items))
        items[at] = rng.choice(_TEXTS) if how else rng.choice(items)
    entry.value = strings([b"same"] * len(items) if how == 2 and rng.random() < 0.2 else items)


def _bytes_lost(rng: random.Random, parts: Parts) -> None:
    """Tokens for single bytes that are gone, which a tokenizer falls back on."""
    (entry,) = _arrays(parts, "tokens")
    items = items_of(entry)
    for at, item in enumerate(items):
        if len(item) == 1 or item.startswith((b"<0x", b"\xc4", b"\xc3")):
            items[at] = b"lost %d" % at
    entry.value = strings(items)


def _vocabulary_size(rng: random.Random, parts: Parts) -> None:
    """An array of the tokenizer that is shorter or longer than the others."""
    entry = rng.choice(_arrays(parts, "tokens", "token_type", "scores", "merges"))
    items = items_of(entry)
    wanted = rng.choice((0, 1, len(items) // 2, len(items) - 1, len(items) + 1, len(items) * 2))
    items = (items * 3)[:wanted]
    (kind,) = struct.unpack_from("<I", entry.value)
    if kind == STRING:
        entry.value = strings(items)
    else:
        entry.value = struct.pack("<IQ", kind, len(items)) + b"".join(items)


def _scores(rng: random.Random, parts: Parts) -> None:
    found = _arrays(parts, "scores")
    if not found:
        return _types(rng, parts)
    count = len(items_of(found[0]))
    odd = [rng.choice(_ODD_FLOATS) if rng.random() < 0.5 else rng.random() for _ in range(count)]
    found[0].value = numbers(F32, odd)


def _types(rng: random.Random, parts: Parts) -> None:
    (entry,) = _arrays(parts, "token_type")
    count = len(items_of(entry))
    pool = rng.choice(((6,), (0,), (1, 2, 3, 4, 5, 6), (3,), (-1, 7, 2**31 - 1), (4,)))
    entry.value = numbers(I32, [rng.choice(pool) for _ in range(count)])


def _merges(rng: random.Random, parts: Parts) -> None:
    found = _arrays(parts, "merges")
    if not found:
        return _tokens(rng, parts)
    items = items_of(found[0])
    for _ in range(rng.choice((1, 50, 1000))):
        items[rng.randrange(len(items))] = rng.choice((b"", b" ", b"ab", b"a b c", b"\xff \xff"))
    found[0].value = strings(items)


def _array_type(rng: random.Random, parts: Parts) -> None:
    entry = rng.choice(_arrays(parts, "tokens", "token_type", "scores", "merges"))
    entry.value = rng.choice(
        (numbers(I32, [1] * 2048), numbers(F32, [1.0] * 2048), strings([b"1"] * 2048))
    )


def _special(rng: random.Random, parts: Parts) -> None:
    """Special tokens that do not exist, or are all the same."""
    ids = [e for e in parts.entries if e.key.endswith("_token_id")]
    for entry in rng.sample(ids, rng.randint(1, len(ids))):
        value = rng.choice((0, 2047, 2048, 99_999, 2**31 - 1, 2**31, 2**32 - 1))
        entry.kind, entry.value = U32, struct.pack("<I", value)


def _tokenizer(rng: random.Random, parts: Parts) -> None:
    """Another kind of tokenizer, with the tokens of this one."""
    (entry,) = _arrays(parts, "model")
    entry.value = string(rng.choice(_TOKENIZERS))
    if rng.random() < 0.5:
        for pre in _arrays(parts, "pre"):
            parts.entries.remove(pre)
        parts.entries.append(Entry("tokenizer.ggml.pre", STRING, string(rng.choice(_PRE))))


def _flags(rng: random.Random, parts: Parts) -> None:
    for name in ("add_bos_token", "add_eos_token", "add_sep_token", "add_space_prefix"):
        for old in _arrays(parts, name):
            parts.entries.remove(old)
        if rng.random() < 0.7:
            value = bytes([rng.choice((0, 1, 2, 255))])
            parts.entries.append(Entry(f"tokenizer.ggml.{name}", BOOL, value))


def _charsmap(rng: random.Random, parts: Parts) -> None:
    """A table of characters for the tokenizers of T5, which llama.cpp reads as it is."""
    entry = parts.entry("tokenizer.ggml.model")
    assert entry is not None
    entry.value = string("t5")
    raw = rng.choice((b"", b"\1", struct.pack("<I", 2**31), rng.randbytes(64)))
    table = struct.pack("<IQ", 0, len(raw)) + raw
    parts.entries.append(Entry("tokenizer.ggml.precompiled_charsmap", ARRAY, table))


def _template(rng: random.Random, parts: Parts) -> None:
    old = parts.entry("tokenizer.chat_template")
    if old is not None:
        parts.entries.remove(old)
    parts.entries.append(Entry("tokenizer.chat_template", STRING, string(rng.choice(_TEMPLATES))))


def _added(rng: random.Random, parts: Parts) -> None:
    """A hyperparameter that the model does not have."""
    entry = parts.entry("general.architecture")
    assert entry is not None
    architecture = entry.value[8:].decode()
    key = rng.choice(
        (
            *("expert_count", "expert_used_count", "nextn_predict_layers", "pooling_type"),
            *("rope.scaling.factor", "rope.scaling.original_context_length", "ssm.state_size"),
            *("attention.clamp_kqv", "attention.causal", "vocab_size", "leading_dense_block_count"),
            *("attention.key_length_mla", "full_attention_interval", "embedding_length_out"),
        )
    )
    for old in [e for e in parts.entries if e.key == f"{architecture}.{key}"]:
        parts.entries.remove(old)
    value = struct.pack("<I", rng.choice(_ODD))
    parts.entries.append(Entry(f"{architecture}.{key}", U32, value))


FACTS: dict[str, Kind] = {
    "hyperparameter": of_parts(_number),
    "another hyperparameter": of_parts(_number),
    "a third hyperparameter": of_parts(_number),
    "float hyperparameter": of_parts(_float),
    "hyperparameter of another type": of_parts(_other_type),
    "key lost": of_parts(_lost),
    "key added": of_parts(_added),
    "architecture": of_parts(_architecture),
    "tokens": of_parts(_tokens),
    "byte tokens lost": of_parts(_bytes_lost),
    "vocabulary's size": of_parts(_vocabulary_size),
    "scores": of_parts(_scores),
    "token types": of_parts(_types),
    "merges": of_parts(_merges),
    "arrays of another type": of_parts(_array_type),
    "special tokens": of_parts(_special),
    "tokenizer": of_parts(_tokenizer),
    "tokenizer's flags": of_parts(_flags),
    "table of characters": of_parts(_charsmap),
    "template": of_parts(_template),
}
