"""Whole chats and plain documents, drawn from the topics."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from ci.tiny_pair import stories, topics
from ci.tiny_pair.knowledge import NAMES, SYSTEM_PROMPTS
from ci.tiny_pair.topics import Exchange

Topic = Callable[[Random], Exchange]

# how often each topic comes up
TOPICS: dict[Topic, int] = {
    topics.arithmetic: 26,
    topics.comparison: 3,
    topics.capital_city: 12,
    topics.colour: 8,
    topics.neighbour_in_order: 8,
    topics.animal_fact: 12,
    stories.animal_description: 5,
    topics.opposite: 7,
    topics.python_keyword: 9,
    topics.definition: 10,
    topics.how_to: 8,
    topics.some_of_a_kind: 6,
    topics.counting: 7,
    topics.calendar: 3,
    topics.repetition: 5,
    stories.code: 8,
    stories.story: 9,
    stories.poem: 3,
    stories.small_talk: 8,
    stories.unknown: 4,
}
_FACTS: list[Topic] = [
    topics.capital_city,
    topics.colour,
    topics.opposite,
    topics.neighbour_in_order,
    topics.animal_fact,
    topics.definition,
    topics.python_keyword,
]
_TEXTS: list[Topic] = [
    stories.animal_description,
    topics.definition,
    topics.how_to,
    stories.poem,
    topics.counting,
]


class Chat(NamedTuple):
    """A chat: its system prompt, whether the model thinks, (user, assistant) turns, thoughts."""

    system: str | None
    thinking: bool
    turns: list[tuple[str, str]]
    thoughts: list[str]


def in_style(style: str, answer: str, short: str | None) -> str:
    """An answer as a brief, polite or pirate assistant would give it."""
    between = "\n" if "\n" in answer else " "
    if style == "brief":
        return short or answer
    if style == "pirate":
        return f"Arr! {answer}{between}Arr!"
    if style == "polite":
        return f"Of course! {answer}{between}Please ask me again."
    return answer


def _style_and_system(r: Random) -> tuple[str, str | None]:
    x = r.random()
    for limit, style in ((0.30, "plain"), (0.40, "brief"), (0.46, "pirate"), (0.52, "polite")):
        if x < limit:
            return style, r.choice(SYSTEM_PROMPTS[style])
    return "plain", None


def _tells_name(r: Random, name: str) -> Exchange:
    question = r.choice([f"My name is {name}.", f"Hello, I am {name}.", f"Hi, my name is {name}."])
    return Exchange(
        question,
        f"Nice to meet you, {name}! How can I help you?",
        f"Hello, {name}!",
        f"The name of the user is {name}.",
    )


def _asks_for_name(r: Random, name: str) -> Exchange:
    question = r.choice(["What is my name?", "Do you remember my name?", "Who am I?"])
    thought = f"The user told me the name {name}."
    return Exchange(question, f"Your name is {name}.", f"{name}.", thought)


def _as_people_type(r: Random, question: str) -> str:
    x = r.random()
    if x < 0.05:
        return "Please " + question[:1].lower() + question[1:]
    if x < 0.10 and "\n" not in question:
        return question.lower().rstrip("?.!")
    return question


def draw_chat(r: Random) -> Chat:
    """A chat of one to four turns."""
    style, system = _style_and_system(r)
    thinking = r.random() < 0.2
    count = r.choice([1, 1, 1, 2, 2, 3, 4])
    remembers = count > 1 and r.random() < 0.3
    name = ""
    turns: list[tuple[str, str]] = []
    thoughts: list[str] = []
    for number in range(count):
        if remembers and number == 0:
            name = r.choice(NAMES)
            exchange = _tells_name(r, name)
        elif remembers and number == count - 1:
            exchange = _asks_for_name(r, name)
        else:
            exchange = r.choices(list(TOPICS), list(TOPICS.values()))[0](r)
        question = _as_people_type(r, exchange.question)
        turns.append((question, in_style(style, exchange.answer, exchange.short)))
        thoughts.append(exchange.thought)
    return Chat(system, thinking, turns, thoughts)


def draw_document(r: Random) -> str:
    """A plain text without chat markup."""
    which = r.randrange(3)
    if which == 0:
        return stories.story(r).answer
    if which == 1:
        return " ".join([r.choice(_FACTS)(r).answer for _ in range(r.randint(1, 5))])
    return r.choice(_TEXTS)(r).answer
