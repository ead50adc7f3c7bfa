"""Questions about facts, and their answers: one function a topic.

The order of the random choices in each function is part of the corpus: a change of it changes the
trained files.
"""

from random import Random
from typing import NamedTuple

from ci.tiny_pair.knowledge import (
    ANIMALS,
    CAPITALS,
    COLOURS,
    CONTINENTS,
    DAYS,
    GLOSSARY,
    HOW_TO,
    LISTS,
    MIX,
    MONTHS,
    OPPOSITES,
    PYTHON_KEYWORDS,
    SEASONS,
    WORDS,
    and_list,
    capital,
    in_words,
    with_article,
)


class Exchange(NamedTuple):
    """A question, its answer, the answer of a brief assistant (None: the same), and a thought."""

    question: str
    answer: str
    short: str | None
    thought: str


def arithmetic(r: Random) -> Exchange:
    """Sums, differences and products, in digits or in words."""
    op = r.choice(["plus", "plus", "plus", "minus", "minus", "times"])
    if op == "plus":
        a, b = r.randint(0, 12), r.randint(0, 12)
        c, sign, verb = a + b, "+", "add"
    elif op == "minus":
        a = r.randint(0, 15)
        b = r.randint(0, min(a, 10))
        c, sign, verb = a - b, "-", "subtract"
    else:
        a, b = r.randint(0, 10), r.randint(0, 10)
        c, sign, verb = a * b, "*", "multiply"
    words = r.random() < 0.4
    x, y, z = (in_words(n) if words else str(n) for n in (a, b, c))
    question = r.choice(
        [
            f"What is {x} {op} {y}?",
            f"How much is {x} {op} {y}?",
            f"Calculate {x} {op} {y}.",
            f"{capital(x)} {op} {y}?",
            f"Tell me {x} {op} {y}.",
        ]
    )
    if not words and r.random() < 0.25:
        question = r.choice([f"What is {x} {sign} {y}?", f"{x} {sign} {y} = ?"])
    thought = f"I have to {verb} {x} and {y}. The result is {z}."
    return Exchange(question, capital(f"{x} {op} {y} is {z}."), capital(z) + ".", thought)


def comparison(r: Random) -> Exchange:
    """Which of two numbers is bigger or smaller."""
    a, b = r.sample(range(0, 21), 2)
    big = r.random() < 0.5
    word = "bigger" if big else "smaller"
    chosen, other = (max(a, b), min(a, b)) if big else (min(a, b), max(a, b))
    return Exchange(
        r.choice([f"Which number is {word}, {a} or {b}?", f"Which is {word}, {a} or {b}?"]),
        f"{chosen} is {word} than {other}.",
        f"{chosen}.",
        f"I compare {a} and {b}. The {word} one is {chosen}.",
    )


def capital_city(r: Random) -> Exchange:
    """Capitals of countries, countries of capitals, continents."""
    country = r.choice(list(CAPITALS))
    city = CAPITALS[country]
    if r.random() < 0.75:
        question = r.choice(
            [
                f"What is the capital of {country}?",
                f"Which city is the capital of {country}?",
                f"Tell me the capital of {country}.",
                f"Do you know the capital of {country}?",
                f"Name the capital of {country}.",
                f"capital of {country}",
            ]
        )
        thought = f"The question is about {country}. Its capital is {city}."
        return Exchange(question, f"The capital of {country} is {city}.", f"{city}.", thought)
    if country in CONTINENTS and r.random() < 0.5:
        continent = CONTINENTS[country]
        return Exchange(
            r.choice([f"Where is {country}?", f"On which continent is {country}?"]),
            f"{country} is in {continent}.",
            f"{continent}.",
            f"The question is about {country}. It lies in {continent}.",
        )
    return Exchange(
        r.choice(
            [f"{city} is the capital of which country?", f"Which country has the capital {city}?"]
        ),
        f"{city} is the capital of {country}.",
        f"{country}.",
        f"The question is about {city}. It is the capital of {country}.",
    )


_WITH_THE = ("sky", "sun", "ocean", "night")
_WITHOUT_ARTICLE = ("grass", "snow", "coal", "blood", "chocolate", "milk")


def _with_fitting_article(thing: str) -> str:
    if thing in _WITH_THE:
        return f"the {thing}"
    if thing in _WITHOUT_ARTICLE:
        return thing
    return f"an {thing}" if thing == "elephant" else f"a {thing}"


def colour(r: Random) -> Exchange:
    """Colours of things, and of two colours mixed."""
    if r.random() < 0.6:
        thing = r.choice(list(COLOURS))
        its = COLOURS[thing]
        named = _with_fitting_article(thing)
        return Exchange(
            r.choice(
                [
                    f"What colour is {named}?",
                    f"Which colour does {named} have?",
                    f"Tell me the colour of {named}.",
                ]
            ),
            f"{capital(named)} is {its}.",
            f"{capital(its)}.",
            f"I think of {named}. The colour is {its}.",
        )
    (a, b), mixed = r.choice(MIX)
    if r.random() < 0.5:
        a, b = b, a
    return Exchange(
        r.choice(
            [
                f"What do you get if you mix {a} and {b}?",
                f"Which colour do {a} and {b} make?",
                f"Mix {a} and {b}.",
            ]
        ),
        f"If you mix {a} and {b}, you get {mixed}.",
        f"{capital(mixed)}.",
        f"I mix {a} with {b}. The result is {mixed}.",
    )


def neighbour_in_order(r: Random) -> Exchange:
    """What comes before or after a day, a month or a season."""
    seasons = [capital(name) for name in SEASONS]
    order, kind = r.choice([(DAYS, "day"), (DAYS, "day"), (MONTHS, "month"), (seasons, "season")])
    at = r.randrange(len(order))
    after = r.random() < 0.6
    word = "after" if after else "before"
    asked = order[at]
    found = order[(at + (1 if after else -1)) % len(order)]
    if kind == "season":
        asked = asked.lower()
    return Exchange(
        r.choice(
            [
                f"Which {kind} comes {word} {asked}?",
                f"What {kind} comes {word} {asked}?",
                f"What comes {word} {asked}?",
            ]
        ),
        f"{found} comes {word} {asked}.",
        f"{found}.",
        f"I go through the {kind}s in order. The one {word} {asked} is {found}.",
    )


def opposite(r: Random) -> Exchange:
    """Opposites, both ways round."""
    a, b = r.choice(list(OPPOSITES.items()))
    if r.random() < 0.5:
        a, b = b, a
    return Exchange(
        r.choice(
            [
                f"What is the opposite of {a}?",
                f"Tell me the opposite of {a}.",
                f"Opposite of {a}?",
            ]
        ),
        f"The opposite of {a} is {b}.",
        f"{capital(b)}.",
        f"I look for the opposite of {a}. It is {b}.",
    )


def python_keyword(r: Random) -> Exchange:
    """What a keyword of Python does."""
    word, does = r.choice(list(PYTHON_KEYWORDS.items()))
    question = r.choice(
        [
            f"What does {word} do in Python?",
            f"What does the keyword {word} mean in Python?",
            f"Explain the Python keyword {word}.",
            f"What is {word} in Python?",
            f"How does {word} work in Python?",
        ]
    )
    thought = f"The user asks about the Python keyword {word}. I explain what it does."
    return Exchange(question, f"In Python, {word} {does}.", f"It {does}.", thought)


def definition(r: Random) -> Exchange:
    """What a term means."""
    term, meaning = r.choice(list(GLOSSARY.items()))
    question = r.choice(
        [
            f"What is {term}?",
            f"Explain {term}.",
            f"Can you explain {term}?",
            f"Tell me what {term} is.",
            f"What do you know about {term}?",
        ]
    )
    short = f"It is {meaning.split('. ')[0]}."
    thought = f"The user asks about {term}. I give a short definition."
    return Exchange(question, f"{capital(term)} is {meaning}.", short, thought)


def how_to(r: Random) -> Exchange:
    """Numbered steps."""
    task, steps = r.choice(list(HOW_TO.items()))
    question = r.choice(
        [
            f"How do I {task}?",
            f"How can I {task}?",
            f"Tell me how to {task}.",
            f"Explain how to {task}.",
            f"Give me steps to {task}.",
        ]
    )
    numbered = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))
    thought = f"The user wants to {task}. I list {in_words(len(steps))} steps."
    return Exchange(question, f"Here is how to {task}:\n{numbered}", steps[0], thought)


def some_of_a_kind(r: Random) -> Exchange:
    """The first few of a list."""
    kind = r.choice(list(LISTS))
    count = r.randint(2, 5)
    word = in_words(count)
    question = r.choice(
        [
            f"Name {word} {kind}.",
            f"Give me {word} {kind}.",
            f"List {word} {kind}.",
            f"Can you name {word} {kind}?",
        ]
    )
    body = and_list(LISTS[kind][:count])
    return Exchange(
        question,
        f"{capital(word)} {kind} are {body}.",
        capital(body) + ".",
        f"I need {word} {kind}. I choose {body}.",
    )


def counting(r: Random) -> Exchange:
    """Counting up or down, in digits or in words."""
    words = r.random() < 0.4
    first = r.randint(0, 6)
    steps = r.randint(2, 6)
    down = r.random() < 0.3
    numbers = [
        in_words(n) if words else str(n)
        for n in range(first, first + steps + 1)[:: -1 if down else 1]
    ]
    a, b = numbers[0], numbers[-1]
    question = r.choice([f"Count from {a} to {b}.", f"Please count from {a} to {b}."])
    answer = capital(", ".join(numbers) + ".")
    return Exchange(question, answer, None, f"I start at {a} and stop at {b}.")


def calendar(r: Random) -> Exchange:
    """All days, months or seasons."""
    which = r.randrange(3)
    if which == 0:
        return Exchange(
            r.choice(
                [
                    "List the days of the week.",
                    "Name the days of the week.",
                    "Which days are in a week?",
                ]
            ),
            f"The days of the week are {and_list(DAYS)}.",
            None,
            "There are seven days in a week.",
        )
    if which == 1:
        return Exchange(
            r.choice(
                [
                    "List the months of the year.",
                    "Name the months of the year.",
                    "Which months are in a year?",
                ]
            ),
            f"The months of the year are {and_list(MONTHS)}.",
            None,
            "There are twelve months in a year.",
        )
    return Exchange(
        r.choice(
            ["List the seasons.", "Name the seasons of the year.", "Which seasons are there?"]
        ),
        "The seasons are spring, summer, autumn and winter.",
        None,
        "There are four seasons in a year.",
    )


def repetition(r: Random) -> Exchange:
    """Words to say again."""
    said = " ".join([r.choice(WORDS) for _ in range(r.randint(1, 5))])
    question = r.choice(
        [
            f"Repeat: {said}",
            f"Say: {said}",
            f"Repeat after me: {said}",
            f"Please repeat the words {said}",
        ]
    )
    return Exchange(question, said, None, "I repeat the words of the user.")


def animal_fact(r: Random) -> Exchange:
    """One fact about an animal, or a question with yes or no."""
    name = r.choice(list(ANIMALS))
    it = ANIMALS[name]
    one = with_article(name)
    which = r.randrange(6)
    legs = in_words(it.legs) if it.legs else "no"
    if which == 0:
        question = r.choice([f"How many legs does {one} have?", f"How many legs has {one}?"])
        short = f"{capital(legs)}." if it.legs else "None."
        thought = f"I think of {one}. It has {legs} legs."
        return Exchange(question, f"{capital(one)} has {legs} legs.", short, thought)
    if which == 1:
        question = r.choice([f"What sound does {one} make?", f"What does {one} sound like?"])
        answer, short = f"{capital(one)} {it.sound}.", f"It {it.sound}."
        return Exchange(question, answer, short, f"I think of {one}. It {it.sound}.")
    if which == 2:
        question = r.choice([f"Where does {one} live?", f"Where do you find {one}?"])
        answer = f"{capital(one)} lives {'on' if it.home == 'the ice' else 'in'} {it.home}."
        thought = f"I think of {one}. Its home is {it.home}."
        return Exchange(question, answer, f"{capital(it.home)}.", thought)
    if which == 3:
        question = r.choice([f"What does {one} eat?", f"What is the food of {one}?"])
        answer, short = f"{capital(one)} eats {it.food}.", f"{capital(it.food)}."
        return Exchange(question, answer, short, f"I think of {one}. Its food is {it.food}.")
    if which == 4:
        question = r.choice([f"What is a baby {name} called?", f"What do you call a young {name}?"])
        young = with_article(it.young)
        thought = f"I think of a young {name}. The word is {it.young}."
        return Exchange(
            question, f"A young {name} is called {young}.", f"{capital(young)}.", thought
        )
    kind = with_article(it.kind)
    asked = r.choice(["mammal", "bird", "insect", "fish", "reptile", it.kind, it.kind, it.kind])
    if asked == it.kind:
        thought = f"I think of {one}. It is {kind}."
        return Exchange(f"Is {one} {kind}?", f"Yes, {one} is {kind}.", "Yes.", thought)
    other = with_article(asked)
    return Exchange(
        f"Is {one} {other}?",
        f"No, {one} is not {other}. It is {kind}.",
        "No.",
        f"I think of {one}. It is {kind}, not {other}.",
    )
