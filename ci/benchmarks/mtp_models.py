"""What the speculation benchmark runs: the built-in pair, toys, and a large synthetic pair."""

import random
from dataclasses import dataclass, replace
from pathlib import Path

import geniex_catalogue
from ci.llama_wheel import cache_root
from tests.toys import gemma4, maker

BUILTIN = Path(geniex_catalogue.__file__).parent / "builtin"
TRAINED = "tiny-chat"
# in the trained model's chat format; questions whose answers are long enough to measure
_TURN = "<|turn>user\n{}<turn|>\n<|turn>model\n<|channel>thought\n<channel|>"
_QUESTIONS = (
    *(f"Tell me about the {animal}." for animal in ("owl", "whale", "ant", "goose")),
    *(f"Tell me a short story about a {hero}." for hero in ("fox", "cat", "bear", "farmer")),
    "How do I make a sandwich?",
    "Count from 1 to 9.",
)
# 117 million parameters in the target; the draft is as small as the toys'
BIG_SHAPE = gemma4.Shape(hidden=1024, layers=9, feed_forward=4096)
# what four rows cost against one depends on the kind of the weights: see docs/speculation.md
BIG = replace(maker.ALWAYS, shape=BIG_SHAPE, weights="Q5_0")


@dataclass(frozen=True)
class Subject:
    """A target with what it drafts with (None: its own heads), and the prompts of one round.

    A prompt is text, or token ids where the model knows no words.
    """

    name: str
    target: Path
    draft: Path | None
    prompts: tuple[str | tuple[int, ...], ...]
    n_max: int = 3
    large: bool = False


def trained() -> Subject:
    """The built-in pair."""
    return Subject(
        TRAINED,
        BUILTIN / "tiny-chat-Q8_0.gguf",
        BUILTIN / "tiny-chat-draft-Q8_0.gguf",
        tuple(_TURN.format(question) for question in _QUESTIONS),
    )


def toys(folder: Path) -> list[Subject]:
    """Every toy that can draft, written into a folder."""
    maker.make(folder)
    found = [
        Subject(
            f"g4-{name}",
            folder / f"g4-{name}-target.gguf",
            folder / f"g4-{name}-draft.gguf",
            _starts(pair.shape.words.size),
        )
        for name, pair in maker.PAIRS.items()
    ]
    headed = {"q35-mix": maker.QWEN35, "mimo-mix": maker.MIMO2}
    for name, toy in headed.items():
        found.append(Subject(name, folder / f"{name}.gguf", None, _starts(toy.words.size)))
    return found


def big() -> Subject:
    """The large pair, written once per machine into the cache folder (80 MB)."""
    folder = cache_root() / "models"
    folder.mkdir(parents=True, exist_ok=True)
    sizes = f"{BIG_SHAPE.hidden}x{BIG_SHAPE.layers}x{BIG_SHAPE.feed_forward}"
    stem = f"always-{sizes}-{BIG.weights}"
    target, draft = folder / f"{stem}-target.gguf", folder / f"{stem}-draft.gguf"
    for path, write in ((target, gemma4.write_target), (draft, gemma4.write_draft)):
        if not path.is_file():
            print(f"writing {path.name}, once per machine", flush=True)
            part = path.with_suffix(".part")
            write(part, BIG)
            part.replace(path)
    return Subject("g4-big", target, draft, _starts(BIG_SHAPE.words.size, 1), large=True)


def _starts(words: int, count: int = 4) -> tuple[tuple[int, ...], ...]:
    """Prompts of a BOS and seven text tokens, the same at every run."""
    dice = random.Random(7)
    first_text = gemma4.Shape().words.first_text
    return tuple((2, *(dice.randrange(first_text, words) for _ in range(7))) for _ in range(count))
