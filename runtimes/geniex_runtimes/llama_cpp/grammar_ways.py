"""In how many ways a grammar may go on at one place, counted before llama.cpp keeps all of them.

llama.cpp follows every way at once, and calls itself for each rule on it. A few lines can double
the ways with each rule: thirty of those are more than a machine holds. Counted is by rules, groups
and what may be left out, as far as that takes; what is wrong with a grammar llama.cpp says itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from geniex_runtimes.llama_cpp.grammar_rules import Bodies, Item, read

MOST_WAYS = 20_000  # llama.cpp takes a second for as many, as it compares each with each
MOST_NESTED = 1000  # rules that begin with each other


@dataclass(slots=True)
class Ways:
    """What was counted: the most ways at one place, and the longest row of beginning rules."""

    most: int = 0
    nested: int = 0


@dataclass(slots=True)
class _Rules:
    bodies: dict[str, Bodies]
    empty: set[str] = field(default_factory=set)

    def may_be_left_out(self, item: Item) -> bool:
        return item.optional or item.rule in self.empty

    def beginnings(self, name: str) -> Iterator[str]:
        """The rules that a rule may begin with."""
        for items in self.bodies.get(name, ()):
            for item in items:
                if item.rule is not None:
                    yield item.rule
                if not self.may_be_left_out(item):
                    break


def count(grammar: str) -> Ways:
    """Count, up to a little more than `MOST_WAYS`."""
    rules = _Rules(read(grammar))
    _find_empty(rules)
    ways: dict[str, int] = {}
    nested: dict[str, int] = {}
    found = Ways()
    for name in _innermost_first(rules):
        total, most = 0, 0
        for items in rules.bodies[name]:
            here = 0
            for item in reversed(items):
                own = 1 if item.rule is None else ways.get(item.rule, 0)
                here = min(MOST_WAYS + 1, own + (here if rules.may_be_left_out(item) else 0))
                most = max(most, here)
            total += here
        ways[name] = min(MOST_WAYS + 1, total)
        nested[name] = 1 + max((nested.get(one, 0) for one in rules.beginnings(name)), default=0)
        found.most = max(found.most, most, ways[name])
        found.nested = max(found.nested, nested[name])
    return found


def _find_empty(rules: _Rules) -> None:
    """Note which rules may be empty; each time one is found, who uses it is looked at again."""
    users: dict[str, list[str]] = {}
    for name, body in rules.bodies.items():
        for item in (item for items in body for item in items if item.rule is not None):
            users.setdefault(item.rule or "", []).append(name)
    waiting = list(rules.bodies)
    while waiting:
        name = waiting.pop()
        if name not in rules.empty and any(
            all(map(rules.may_be_left_out, items)) for items in rules.bodies[name]
        ):
            rules.empty.add(name)
            waiting += users.get(name, ())


def _innermost_first(rules: _Rules) -> Iterator[str]:
    """All rules, those that a rule begins with before it; of a circle in any order."""
    seen: set[str] = set()
    for root in rules.bodies:
        path = [] if root in seen else [(root, rules.beginnings(root))]
        seen.add(root)
        while path:
            name, rest = path[-1]
            inner = next((one for one in rest if one in rules.bodies and one not in seen), None)
            if inner is None:
                path.pop()
                yield name
            else:
                seen.add(inner)
                path.append((inner, rules.beginnings(inner)))
