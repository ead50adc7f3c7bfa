"""What a grammar's rules are to each other: reachable, empty, recursive; and loops made of some.

A rule that comes back to itself only at its end is a loop, and loops are written as repetitions:
a parser that reads from left to right keeps a finished rule open for every turn of the first, and
nothing for a turn of the second.
"""

from collections.abc import Iterator

from geniex_runtimes.qairt.gbnf import Alternative, Grammar, Item, Rule, fault

# the work grows with the cube of a group's size; our own have one rule per letter of a mark
_MAX_UNROLLED = 150
_REPEATS_NOTHING = "no rule may begin with itself, nor repeat what may be empty"


def check(grammar: Grammar) -> None:
    """Raise UsageError for what llama.cpp refuses too: left recursion, and endless emptiness."""
    empty = may_be_empty(grammar)
    before: list[list[int]] = []
    for rule in grammar.rules:
        reached: list[int] = []
        for alternative in rule:
            at_start = True
            for item in alternative:
                if isinstance(item.symbol, int):
                    if item.most is None and empty[item.symbol]:
                        raise fault(
                            "left recursion: it repeats what may be empty", _REPEATS_NOTHING
                        )
                    if at_start:
                        reached.append(item.symbol)
                at_start = at_start and _is_empty(item, empty)
        before.append(reached)
    for group in circles(before, range(len(before))):
        if len(group) > 1 or group[0] in before[group[0]]:
            raise fault("left recursion: a rule begins with itself", _REPEATS_NOTHING)


def may_be_empty(grammar: Grammar) -> list[bool]:
    """Which of the rules match the empty text."""
    empty = [False] * len(grammar.rules)
    changed = True
    while changed:
        changed = False
        # what a rule consists of most often comes after it
        for number in range(len(empty) - 1, -1, -1):
            if not empty[number] and any(
                all(_is_empty(item, empty) for item in alternative)
                for alternative in grammar.rules[number]
            ):
                empty[number] = changed = True
    return empty


def circles(arrows: list[list[int]], starts: range | list[int]) -> list[list[int]]:
    """Nodes that reach each other, in groups; a group comes after all that it points at.

    Tarjan's algorithm (1972) with a stack of its own: grammars are deep.
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    groups: list[list[int]] = []
    for start in starts:
        work: list[tuple[int, Iterator[int]]] = []
        if start not in index:
            work = [_enter(start, arrows, index, low, path, on_path)]
        while work:
            node, rest = work[-1]
            target = next(rest, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    groups.append(_leave(node, path, on_path))
            elif target not in index:
                work.append(_enter(target, arrows, index, low, path, on_path))
            elif target in on_path:
                low[node] = min(low[node], index[target])
    return groups


def _enter(
    node: int,
    arrows: list[list[int]],
    index: dict[int, int],
    low: dict[int, int],
    path: list[int],
    on_path: set[int],
) -> tuple[int, Iterator[int]]:
    index[node] = low[node] = len(index)
    path.append(node)
    on_path.add(node)
    return node, iter(arrows[node])


def _leave(node: int, path: list[int], on_path: set[int]) -> list[int]:
    at = len(path) - 1
    while path[at] != node:
        at -= 1
    group = path[at:]
    del path[at:]
    on_path.difference_update(group)
    return group


def references(grammar: Grammar) -> list[list[int]]:
    """Which rules each rule names."""
    return [
        [
            item.symbol
            for alternative in rule
            for item in alternative
            if isinstance(item.symbol, int)
        ]
        for rule in grammar.rules
    ]


def unrolled(grammar: Grammar) -> tuple[list[int], set[int]]:
    """Make loops of the rules that come back to themselves only at their end.

    Returns the rules that the root needs, the root last, and which of them are still recursive:
    they, or one that they name.
    """
    arrows = references(grammar)
    groups = circles(arrows, [grammar.root])
    entries = _entries(arrows, groups) | {grammar.root}
    recursive: set[int] = set()
    for group in groups:
        if len(group) > 1 or group[0] in arrows[group[0]]:
            loop = len(group) <= _MAX_UNROLLED and _at_ends_only(grammar, set(group))
            if not (loop and _unroll(grammar, group, entries.intersection(group))):
                recursive.update(group)
    arrows = references(grammar)
    order: list[int] = []
    for group in circles(arrows, [grammar.root]):
        order += group
        if any(target in recursive for node in group for target in arrows[node]):
            recursive.update(group)
    return order, recursive


def _entries(arrows: list[list[int]], groups: list[list[int]]) -> set[int]:
    """The rules that are named from outside of their group."""
    place = {node: at for at, group in enumerate(groups) for node in group}
    return {target for node in place for target in arrows[node] if place[target] != place[node]}


def _at_ends_only(grammar: Grammar, members: set[int]) -> bool:
    for number in members:
        for alternative in grammar.rules[number]:
            for at, item in enumerate(alternative):
                if item.symbol not in members:
                    continue
                if at < len(alternative) - 1 or item.most != 1:
                    return False
    return True


class _Loop:
    """Rules of one group as equations: each is a text and then another of them, or the end."""

    def __init__(self, grammar: Grammar, group: list[int]) -> None:
        self._grammar = grammar
        self.after: dict[int, dict[int, Rule]] = {number: {} for number in group}
        self.ends: dict[int, Rule] = {number: [] for number in group}
        for number in group:
            for alternative in grammar.rules[number]:
                self._sort(number, alternative)

    def _sort(self, number: int, alternative: Alternative) -> None:
        last = alternative[-1] if alternative else None
        if last is None or not isinstance(last.symbol, int) or last.symbol not in self.after:
            self.ends[number].append(alternative)
            return
        self.after[number].setdefault(last.symbol, []).append(alternative[:-1])
        if last.least == 0:
            self.ends[number].append(alternative[:-1])

    def one(self, rule: Rule) -> Alternative:
        """A rule as the items of one alternative."""
        if len(rule) == 1:
            return rule[0]
        return (Item(self._grammar.add(rule)),)

    def turns(self, number: int) -> Alternative:
        """What a rule may repeat before it goes on; it comes back to itself no more."""
        own = self.after[number].pop(number, None)
        if own is None:
            return ()
        symbol = own[0][0].symbol if len(own) == 1 and len(own[0]) == 1 else None
        plain = symbol is not None and (own[0][0].least, own[0][0].most) == (1, 1)
        return (Item(symbol if plain and symbol is not None else self._grammar.add(own), 0, None),)

    def put(self, number: int) -> None:
        """Put a rule's equation in the place of its name (Arden's lemma)."""
        turns = self.turns(number)
        onwards = {target: self.one(rule) for target, rule in self.after.pop(number).items()}
        ends = self.ends.pop(number)
        ending = self.one(ends) if ends else None
        for other, after in self.after.items():
            found = after.pop(number, None)
            if found is None:
                continue
            begin = (*self.one(found), *turns)
            for target, rest in onwards.items():
                after.setdefault(target, []).append((*begin, *rest))
            if ending is not None:
                self.ends[other].append((*begin, *ending))


def _unroll(grammar: Grammar, group: list[int], entries: set[int]) -> bool:
    """Give each of the group's entries a body without recursion.

    False where the loop never ends: no repetition says that, and nothing of it is ever finished.
    """
    bodies: dict[int, Rule] = {}
    for entry in sorted(entries):
        loop = _Loop(grammar, sorted(group))
        # from the last on: what comes late most often leads back to what came early
        for number in sorted(set(group) - {entry}, reverse=True):
            loop.put(number)
        turns = loop.turns(entry)
        bodies[entry] = [(*turns, *end) for end in loop.ends[entry]]
    if not all(bodies.values()):
        return False
    for entry, body in bodies.items():
        grammar.rules[entry] = body
    return True


def _is_empty(item: Item, empty: list[bool]) -> bool:
    return item.least == 0 or (isinstance(item.symbol, int) and empty[item.symbol])
