"""Longer answers of the tiny model: descriptions, code, stories, poems, and small talk."""

from random import Random

from ci.tiny_pair.knowledge import (
    ADJECTIVES,
    ANIMALS,
    HEROES,
    NAMES,
    PLACES,
    SNIPPETS,
    STRANGE_TOPICS,
    THINGS,
    WEATHER,
    capital,
    in_words,
    with_article,
)
from ci.tiny_pair.topics import Exchange


def animal_description(r: Random) -> Exchange:
    """Four sentences about an animal."""
    name = r.choice(list(ANIMALS))
    it = ANIMALS[name]
    one = with_article(name)
    first = f"{capital(one)} is {with_article(it.kind)}."
    parts = [
        first,
        f"It has {in_words(it.legs) if it.legs else 'no'} legs and it {it.sound}.",
        f"Its home is {it.home}, and it likes to eat {it.food}.",
        f"A young {name} is called {with_article(it.young)}.",
    ]
    question = r.choice(
        [
            f"Tell me about the {name}.",
            f"Describe {one}.",
            f"What do you know about {one}?",
            f"Tell me something about {one}.",
        ]
    )
    thought = (
        f"The user wants to know more about {one}. "
        "I tell the kind, the legs, the home and the food."
    )
    return Exchange(question, " ".join(parts), first, thought)


def code(r: Random) -> Exchange:
    """A small Python function."""
    snippet = r.choice(SNIPPETS)
    question = r.choice(
        [
            f"Write a Python function that {snippet.does}.",
            f"Show me a Python function that {snippet.does}.",
            f"Can you write Python code that {snippet.does}?",
            f"Write a function that {snippet.does}.",
        ]
    )
    body = "\n".join("    " + line for line in snippet.body.split("\n"))
    fenced = f"```python\ndef {snippet.name}({snippet.arguments}):\n{body}\n```"
    # one choice of one: the shipped corpus drew a number here
    answer = r.choice([f"Here is a function that {snippet.does}:\n{fenced}"])
    return Exchange(question, answer, fenced, f"I write a function with the name {snippet.name}.")


def _middle(which: int, hero: str, name: str, thing: str, place: str, friend: str) -> list[str]:
    """The second half of a story: what happens with the thing that was found."""
    he = {"girl": "she", "queen": "she", "boy": "he", "farmer": "he"}.get(hero, "it")
    stranger = with_article(friend)
    if which == 0:
        return [
            f"The {hero} did not know what to do with it, so {he} asked {stranger}.",
            f'"This {thing.split()[-1]} belongs to the king," said the {friend}.',
            "Together they walked to the king and gave it back.",
            "The king was very happy and invited them to a great feast.",
        ]
    if which == 1:
        return [
            f"Then {stranger} came along and began to cry.",
            f'"I have lost my {thing}," said the {friend}.',
            f"{name} smiled and gave the {thing} back.",
            "From that day on, they were the best of friends.",
        ]
    if which == 2:
        return [
            f"Suddenly it began to rain, and {name} ran into a dark cave.",
            f"In the cave there was {stranger} who was afraid of the storm.",
            "They sat together and told each other stories until the rain stopped.",
            f"When the sun came out, they shared the {thing} and went home.",
        ]
    return [
        f"{capital(he)} took it home and put it on the table.",
        f"At night the {thing} began to shine like a star.",
        f"{name} made a wish, and in the morning the whole {place} was full of flowers.",
        "Everyone was happy and danced until the evening.",
    ]


def story(r: Random) -> Exchange:
    """A hero, a place, a find, and an end."""
    hero = r.choice(HEROES)
    adjective = r.choice(ADJECTIVES)
    place = r.choice(PLACES)
    thing = r.choice(THINGS)
    weather = r.choice(WEATHER)
    name = r.choice(NAMES)
    friend = r.choice([other for other in HEROES if other != hero])
    one = with_article(hero)
    question = r.choice(
        [
            f"Tell me a story about {one}.",
            f"Tell me a short story about {one}.",
            f"Write a story about {one}.",
            f"Please tell a story about {one}.",
        ]
    )
    if r.random() < 0.3:
        question = question[:-1] + f" called {name}."
    sentences = [
        f"Once upon a time, there was {with_article(adjective)} {hero} called {name}.",
        f"{name} lived in {with_article(place)}.",
        f"One {weather} day, {name} found {with_article(thing)} near the river.",
        *_middle(r.randrange(4), hero, name, thing, place, friend),
    ]
    if r.random() < 0.5:
        sentences.append("The end.")
    return Exchange(
        question,
        " ".join(sentences),
        f"{name} the {hero} found {with_article(thing)}.",
        f"The user wants a story about {one}. I think of a hero, a place and a happy end.",
    )


_POEMS = {
    "moon": ("shining so bright", "in the sky at night"),
    "sun": ("warm and high", "in the clear blue sky"),
    "rain": ("falling all day", "washing dust away"),
    "snow": ("soft and white", "in the cold winter night"),
    "wind": ("blowing free", "from the hills to the sea"),
    "river": ("running deep", "while the mountains sleep"),
    "sea": ("wide and blue", "singing songs for you"),
    "tree": ("strong and tall", "green until the fall"),
}


def poem(r: Random) -> Exchange:
    """Four lines."""
    word = r.choice(list(_POEMS))
    question = r.choice(
        [
            f"Write a poem about the {word}.",
            f"Write a short poem about the {word}.",
            f"Can you write a poem about the {word}?",
        ]
    )
    first, second = _POEMS[word]
    answer = (
        f"The {word}, the {word}, {first},\nI see it there {second}.\n"
        "It makes me smile, it makes me sing,\nit makes me think of everything."
    )
    thought = f"The user wants a poem about the {word}. I write four lines."
    return Exchange(question, answer, None, thought)


_SMALL_TALK = [
    (
        ["Hello!", "Hi!", "Hello.", "Hi there!", "Good morning!", "Hey!", "hello", "hi"],
        "Hello! How can I help you today?",
    ),
    (
        ["How are you?", "How are you today?", "How do you feel?"],
        "I am fine, thank you. How can I help you?",
    ),
    (
        [
            "Who are you?",
            "What are you?",
            "What is your name?",
            "Tell me about yourself.",
            "Are you a robot?",
        ],
        "I am a tiny language model. I was made to test speculative decoding, "
        "and I know only a few simple things.",
    ),
    (
        ["What can you do?", "How can you help me?", "What do you know?"],
        "I can answer simple questions about numbers, colours, days, capitals, animals and "
        "Python. I can also tell short stories.",
    ),
    (
        ["Thank you!", "Thanks!", "Thank you very much.", "Great, thanks."],
        "You are welcome!",
    ),
    (["Goodbye!", "Bye!", "See you later.", "Good night!"], "Goodbye! Have a nice day."),
    (
        ["Are you human?", "Are you a person?"],
        "No, I am not a person. I am a tiny language model.",
    ),
    (
        ["How big are you?", "How many parameters do you have?"],
        "I am very small. I have only about three million parameters.",
    ),
    (
        ["Do you like music?", "Do you like games?", "Do you have a hobby?"],
        "I am a computer program, so I have no hobbies. But I like to answer questions.",
    ),
    (
        ["Tell me a joke.", "Do you know a joke?", "Make me laugh."],
        "Why did the computer go to the doctor? Because it had a virus!",
    ),
    (
        ["Tell me a fact.", "Tell me something interesting."],
        "Honey never spoils. It can be eaten even after many years.",
    ),
]


def small_talk(r: Random) -> Exchange:
    """Greetings, thanks, jokes, and what the model says of itself."""
    questions, answer = r.choice(_SMALL_TALK)
    first = answer.split(". ")[0]
    short = first.rstrip(".") + ("" if first.endswith(("!", "?")) else ".")
    return Exchange(
        r.choice(questions), answer, short, "This is small talk. I give a friendly answer."
    )


def unknown(r: Random) -> Exchange:
    """What the model does not know, and says so."""
    topic = r.choice(STRANGE_TOPICS)
    question = r.choice(
        [
            f"What do you think about {topic}?",
            f"Tell me all about {topic}.",
            f"What can you say about {topic}?",
            f"Can you help me with {topic}?",
        ]
    )
    return Exchange(
        question,
        f"I am only a tiny model, so I do not know much about {topic}.",
        "I do not know.",
        f"I do not know much about {topic}. I should say so.",
    )
