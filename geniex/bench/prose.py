"""Text to measure with: plain sentences without end, the same for the same seed.

Speculation lives on what a text is like. Random tokens would have every draft refused, and a
paragraph repeated would have every n-gram found; these sentences are neither.
"""

import random
from collections.abc import Callable, Sequence

_PEOPLE = (
    "the miller", "a young doctor", "my neighbour", "the ferryman", "her teacher", "an old sailor",
    "the clerk", "our guide", "the baker", "a tired driver", "the gardener", "his sister",
)  # fmt: skip
_DEEDS = (
    "carried", "found", "painted", "forgot", "repaired", "described", "borrowed", "sold", "counted",
    "hid", "measured", "remembered", "cleaned", "opened",
)  # fmt: skip
_THINGS = (
    "a wooden box", "the green door", "three letters", "a map of the coast", "the broken clock",
    "some bread and cheese", "an umbrella", "the list of names", "a bag of apples", "two lamps",
    "the story of the flood", "a small boat", "the key to the cellar",
)  # fmt: skip
_PLACES = (
    "near the harbour", "behind the school", "on the last train", "in the market", "by the river",
    "at the edge of the forest", "in a quiet street", "under the bridge", "on the hill",
    "in the library", "at the station",
)  # fmt: skip
_TIMES = (
    "In the morning", "Two days later", "Before the rain came", "That winter", "At noon",
    "When the bells rang", "After a long silence", "Every spring", "Once, in {year},",
    "Late at night", "While the others slept",
)  # fmt: skip
_FORMS = (
    "{time} {who} {did} {what} {where}.",
    "{Who} {did} {what}, and {other} {did2} {what2}.",
    "It was {who} who {did} {what} {where}.",
    "{time} nobody {did} {what} any more.",
    "{Who} said that {other} {did} {what} {where}, {count} in all.",
)


def prose(seed: int, characters: int) -> str:
    """Sentences of at least so many characters."""
    draw = random.Random(seed)
    sentences: list[str] = []
    length = 0
    while length < characters:
        who, other = draw.sample(_PEOPLE, 2)
        did, did2 = draw.sample(_DEEDS, 2)
        what, what2 = draw.sample(_THINGS, 2)
        words = {
            "time": draw.choice(_TIMES).format(year=draw.randrange(1700, 2000)),
            **{"who": who, "Who": who[0].upper() + who[1:], "other": other},
            **{"did": did, "did2": did2, "what": what, "what2": what2},
            **{"where": draw.choice(_PLACES), "count": str(draw.randrange(2, 400))},
        }
        sentences.append(draw.choice(_FORMS).format(**words))
        length += len(sentences[-1]) + 1
    return " ".join(sentences)


def tokens_of(seed: int, count: int, tokenize: Callable[[str], Sequence[int]]) -> list[int]:
    """The first `count` tokens of such a text."""
    characters = 6 * count + 64
    while len(found := tokenize(prose(seed, characters))) < count:
        characters *= 2
    return list(found[:count])
