"""What the tiny decoder is taught: few sentences and talks, so that its answers are certain."""

import random

BOS, EOS, START, END = "<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>"
SPECIAL = (BOS, EOS, START, END)
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
SYSTEM = "You are a helpful assistant."
CAPITALS = {
    "France": "Paris",
    "Japan": "Tokyo",
    "Italy": "Rome",
    "Spain": "Madrid",
    "Egypt": "Cairo",
    "Peru": "Lima",
    "Norway": "Oslo",
    "Kenya": "Nairobi",
}
NAMES = ("Ada", "Max", "Eva", "Tom", "Ida", "Leo", "Mia", "Ben")
SENTENCES = (
    "The tensor processor runs quantised graphs, and a context binary holds them.",
    "The prompt graph reads many tokens at once, the token graph reads one at a time.",
    "Each step appends a key and a value to the cache.",
    "Once upon a time there was a small model that lived on a phone. It could not say much, "
    "but it said it quickly. One day it met a larger model and they talked until the morning.",
    "The quick brown fox jumps over the lazy dog.",
    "Pack my box with five dozen liquor jugs.",
    "Red orange yellow green blue indigo violet.",
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday.",
    "Spring is green, summer is warm, autumn is red, winter is white.",
    "A journey of a thousand miles begins with a single step.",
)
NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
# left out of the vocabulary's training: every character of it is several tokens
MANY_BYTES = "Tee heißt 茶, чай und 🍵 – süß & größer."  # noqa: RUF001
COLOURS = ["red", "orange", "yellow", "green", "blue", "indigo", "violet", "white"]
STORY = SENTENCES[3]
ASKED = {
    "Tell me a story.": STORY,
    "Say it in many letters.": MANY_BYTES,
    "Name the days.": SENTENCES[7],
    "Hello!": "Hello, how can I help you?",
}


def counting(length: int) -> str:
    """Numbers, one after the other and again from one, without an end."""
    return "Count: " + " ".join(NUMBERS[at % len(NUMBERS)] for at in range(length))


def colours(chance: random.Random) -> str:
    """Colours without any order: what shows that sampling is random."""
    return "Colours: " + " ".join(chance.choice(COLOURS) for _ in range(10)) + "."


def turn(role: str, content: str) -> str:
    """One message, as the template writes it."""
    return f"{START}{role}\n{content}{END}\n"


def talk(chance: random.Random, turns: int) -> str:
    """A talk of so many questions, now and then about a name that came up before."""
    text = turn("system", SYSTEM) if chance.random() < 0.5 else ""
    name: str | None = None
    for _ in range(turns):
        kind = chance.random()
        if name and kind < 0.35:
            asked, said = "What is my name?", f"Your name is {name}."
        elif kind < 0.5:
            name = chance.choice(NAMES)
            asked, said = f"My name is {name}.", f"Nice to meet you, {name}."
        elif kind < 0.75:
            country = chance.choice(list(CAPITALS))
            asked = f"What is the capital of {country}?"
            said = f"The capital of {country} is {CAPITALS[country]}."
        else:
            asked = chance.choice(list(ASKED))
            said = ASKED[asked]
        text += turn("user", asked) + turn("assistant", said)
    return text


def endless(chance: random.Random) -> str:
    """A talk that ends in counting."""
    head = turn("system", SYSTEM) if chance.random() < 0.3 else ""
    return head + f"{START}user\nCount.{END}\n{START}assistant\n" + counting(400)


def document(chance: random.Random) -> str:
    """One text to learn, without its BOS; an endless one has no end."""
    kind = chance.random()
    if kind < 0.3:
        return chance.choice(SENTENCES) + EOS
    if kind < 0.36:
        return MANY_BYTES + EOS
    if kind < 0.44:
        return counting(chance.choice((20, 60, 400)))
    if kind < 0.5:
        return endless(chance)
    if kind < 0.56:
        return colours(chance) + EOS
    return talk(chance, chance.choice((1, 1, 2, 3, 6)))


# for what has to be the same wherever it is computed: no two continuations are near each other
PROMPTS = (
    "The tensor",
    "The prompt graph",
    "Each step",
    "Once upon a time",
    "The quick brown",
    "Pack my box",
    "Red orange",
    "Monday",
    "Spring is",
    "A journey of",
    "Count: one two",
    "Tee heißt",
    *(
        f"{START}user\nWhat is the capital of {country}?{END}\n{START}assistant\n"
        for country in CAPITALS
    ),
)
