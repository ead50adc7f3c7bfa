"""Models on a hub, made of random values."""

import random

from tests.ggufwriter import build, entry, tensor


def gguf(values: int = 2000, **metadata: object) -> bytes:
    """A GGUF with one tensor of random values."""
    given = {key.replace("__", "."): value for key, value in metadata.items()}
    facts = {"general.architecture": "llama", **given}
    listed = [entry(key, value) for key, value in facts.items()]
    name = f"blk.{no}.x" if (no := metadata.get("split__no")) else "token_embd.weight"
    head = build(listed, [tensor(name, [values])])
    return head + random.Random(values).randbytes(4 * values)


def shards(count: int) -> dict[str, bytes]:
    """A split model of Q4_0."""
    names = [f"big-Q4_0-{n:05d}-of-{count:05d}.gguf" for n in range(1, count + 1)]
    return {name: gguf(100 + at, split__count=count, split__no=at) for at, name in enumerate(names)}
