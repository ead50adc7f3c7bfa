"""All toys in one folder: `python -m tests.toys.maker FOLDER`; about a second."""

import sys
from dataclasses import replace
from pathlib import Path

from tests.toys import bert, gemma4, heads
from tests.toys.vocabulary import vocabulary

MARKOV = gemma4.Pair(noise=0.55, sharpness=0.35)
RANDOM = gemma4.Pair(noise=0.6, known=None, sharpness=0.3, seed=10)
ALWAYS = gemma4.Pair(seed=30)
# always right in the first half of `FLIP.table().cycle`, always wrong in the second
FLIP = gemma4.Pair(gemma4.Shape(words=vocabulary(1536)), known=0.5, seed=20)
PAIRS = {"markov": MARKOV, "random": RANDOM, "always": ALWAYS, "flip": FLIP}
QWEN35 = heads.Toy(noise=0.8, sharpness=0.07)
MIMO2 = heads.Toy(heads_inside=3, sharpness=0.06, seed=3)


def make(folder: Path) -> None:
    """Write every toy, the good and the bad ones."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, pair in PAIRS.items():
        gemma4.write_target(folder / f"g4-{name}-target.gguf", pair)
        gemma4.write_draft(folder / f"g4-{name}-draft.gguf", pair)
    heads.write_qwen35(folder / "q35-mix.gguf", QWEN35)
    heads.write_mimo2(folder / "mimo-mix.gguf", MIMO2)
    bert.write_bert(folder / "bert-mean.gguf", bert.Bert())
    bert.write_bert(folder / "bert-cls.gguf", bert.Bert(pooling=2))
    bert.write_bert(folder / "bert-silent.gguf", bert.Bert(pooling=None))
    bert.write_bert(folder / "bert-rank.gguf", bert.Bert(pooling=4))
    make_bad(folder)


def make_bad(folder: Path) -> None:
    """Drafts that fit no target, and files that declare heads which are not to be used."""
    gemma4.write_draft(folder / "g4-bad-out-draft.gguf", MARKOV, hidden_out=160)
    words = MARKOV.shape.words
    variants = {
        "vocab": {"words": words.changed(300, "other")},
        "size": {"words": vocabulary(544)},
        "head": {"head": 32},
        "window": {"window": 32},
        "kv-heads": {"kv_heads": 2},
    }
    for name, changes in variants.items():
        shape = replace(MARKOV.shape, **changes)  # type: ignore[arg-type]
        pair = replace(MARKOV, shape=shape)
        gemma4.write_draft(folder / f"g4-bad-{name}-draft.gguf", pair)
    heads.write_qwen35(folder / "q35-hollow.gguf", replace(QWEN35, hollow=True))
    heads.write_mimo2(folder / "mimo-hollow.gguf", replace(MIMO2, hollow=True))
    heads.write_exaone4(folder / "exaone4-heads.gguf", heads.Toy(sharpness=0.1, seed=5))


if __name__ == "__main__":
    make(Path(sys.argv[1]))
