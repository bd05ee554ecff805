"""The automaton behind MATCH_RECOGNIZE: which rows of a sequence are a match of a pattern.

Rows of a match follow each other without a gap, so a match is the number of its first row and how many rows each
variable has. Which of several possible matches comes first follows from the order in which Flink looks at them: that of
Java's ``PriorityQueue``.

Source of the semantics: Flink CEP's ``NFACompiler``, ``NFA``, ``NFAState`` and ``AfterMatchSkipStrategy``, with the
patterns that ``CommonExecMatch`` makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from stateplan.common.errors import RunError
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass

START = 2**63 - 1
"""The first row of a match that has not begun: later than all."""
_FINAL = 0
MOST_ROWS = 100_000
"""The largest bound of a quantifier: each row up to it is a state of the automaton."""

Skip = Literal["NEXT", "PAST", "FIRST", "LAST"]
Counts = tuple[int, ...]
Holds = Callable[[int, int, Counts], bool]
"""Whether the condition of a variable (by position) holds for the current row, for a match with this first row and
these numbers of rows."""


@dataclass(frozen=True)
class Variable:
    """A variable of a pattern with its quantifier: at least ``low`` rows, at most ``high``, None for any number.

    ``greedy`` prefers more rows.
    """

    name: str
    low: int = 1
    high: int | None = 1
    greedy: bool = True

    @property
    def is_greedy(self) -> bool:
        """Whether Flink's pattern is greedy: not one that is optional or of a fixed number."""
        return self.greedy and (self.low, self.high) != (0, 1) and self.low != self.high


def malformed(variables: Sequence[Variable]) -> str | None:
    """What part of a pattern cannot run, in words; None if all of it can."""
    names = [v.name for v in variables]
    if len(set(names)) < len(names):
        return "a pattern with a variable twice"
    for before, variable in zip((None, *variables), variables, strict=False):
        if variable.low < 0 or variable.low > MOST_ROWS or (variable.high or 0) > MOST_ROWS:
            return f"a quantifier of {variable.name} with these bounds"
        if variable.high is not None and (variable.high < 1 or variable.high < variable.low):
            return f"a quantifier of {variable.name} with these bounds"
        if (variable.low, variable.high) == (0, 1) and not variable.greedy:
            return "a reluctant optional variable"
        if variable.low == 0 and variable.high in (None, 1) and before is not None and before.is_greedy:
            return "an optional variable behind a greedy one"
    if variables[-1].is_greedy:
        return "a pattern that ends with a greedy variable"
    return "a pattern that matches no rows" if all(v.low == 0 for v in variables) else None


class Partial(NamedTuple):
    """A match that has begun: the number of its first row, its state, and how many rows each variable has."""

    first: int
    state: int
    counts: Counts


@dataclass
class _State:
    """A state: the variable that a row may be taken for and the state behind it; the state that it may continue to
    without a row. ``unless`` are the variables for which the row must not be taken."""

    take: tuple[int, int] | None = None
    proceed: int | None = None
    unless: tuple[int, ...] = ()


class _Queue:
    """Matches by their first row, in the order in which Java's ``PriorityQueue`` keeps them."""

    def __init__(self, items: Iterable[Partial] = ()) -> None:
        self.items: list[Partial] = []
        for item in items:
            self.add(item)

    def add(self, item: Partial) -> None:
        items = self.items
        items.append(item)
        at = len(items) - 1
        while at and item.first < items[(at - 1) >> 1].first:
            items[at] = items[(at - 1) >> 1]
            at = (at - 1) >> 1
        items[at] = item

    def poll(self) -> Partial:
        items = self.items
        first, last = items[0], items.pop()
        if items:
            self._sink(0, last)
        return first

    def _sink(self, at: int, item: Partial) -> None:
        items, half = self.items, len(self.items) >> 1
        while at < half:
            child = 2 * at + 1
            if child + 1 < len(items) and items[child].first > items[child + 1].first:
                child += 1
            if item.first <= items[child].first:
                break
            items[at] = items[child]
            at = child
        items[at] = item

    def keep(self, stays: Callable[[Partial], bool]) -> None:
        """Drops all but the items that stay."""
        left = [item for item in self.items if stays(item)]
        if len(left) == len(self.items):
            return
        self.items = left
        for at in range((len(left) >> 1) - 1, -1, -1):
            self._sink(at, left[at])


@dataclass(frozen=True)
class Automaton(FrozenDataclass):
    """A pattern, where the next match begins, and how long a match lasts at most.

    Attributes:
        variables: the variables of the pattern, in order.
        skip: where the next match begins: at the NEXT row, PAST the last one, at the FIRST or the LAST row of a
            variable.
        target: the position of that variable.
        within: ms; 0 for any time.
    """

    variables: tuple[Variable, ...]
    skip: Skip
    target: int = -1
    within: int = 0

    @cached_property
    def _state_table(self) -> tuple[list[_State], int]:
        """The states, the final one first, and the number of the one that matches begin with."""
        states = [_State()]
        sink = _FINAL
        for position in range(len(self.variables) - 1, -1, -1):
            sink = self._first_state(states, position, sink)
        return states, sink

    def _first_state(self, states: list[_State], position: int, sink: int) -> int:
        """The first state of a variable; ``sink`` is the first one of the next."""
        variable = self.variables[position]
        optional, low, target = variable.low == 0, max(variable.low, 1), sink
        if variable.is_greedy:
            states[sink].unless = (*states[sink].unless, position)

        def single(after: int, proceed: int | None) -> int:
            states.append(_State((position, after), proceed))
            return len(states) - 1

        if variable.high is None:
            target = len(states)
            states.append(_State((position, target), sink))
        else:
            for _ in range(low, variable.high):
                target = single(target, sink)
        for _ in range(low - 1):
            target = single(target, None)
        return single(target, sink if optional else None)

    @cached_property
    def start(self) -> Partial:
        """A match that has not begun."""
        return Partial(START, self._state_table[1], (0,) * len(self.variables))

    @cached_property
    def openers(self) -> tuple[int, ...]:
        """The variables that the first row of a match may be of, and those that it must not be of."""
        states, at = self._state_table
        variables: list[int] = []
        while True:
            variables += states[at].unless
            edge, following = states[at].take, states[at].proceed
            if edge is not None:
                variables.append(edge[0])
            if following is None:
                return tuple(dict.fromkeys(variables))
            at = following

    def step(self, partial: Partial, number: int, holds: Holds) -> Iterator[Partial]:
        """What becomes of a match with the row ``number``; a final state is a match that is complete."""
        states, _ = self._state_table
        first, at, counts = partial
        outcomes: dict[int, bool] = {}

        def meets(variable: int) -> bool:
            if variable not in outcomes:
                outcomes[variable] = holds(variable, first, counts)
            return outcomes[variable]

        first_row = number if first == START else first
        while True:
            state = states[at]
            if state.unless and any(meets(v) for v in state.unless):
                break
            if state.take is not None and meets(state.take[0]):
                variable, target = state.take
                after = (*counts[:variable], counts[variable] + 1, *counts[variable + 1 :])
                yield Partial(first_row, target, after)
                if target != _FINAL and self._ends(target, meets):
                    yield Partial(first_row, _FINAL, after)
            if state.proceed is None:
                break
            at = state.proceed
        if first == START:
            yield partial

    def _ends(self, at: int, meets: Callable[[int], bool]) -> bool:
        """Whether a match in this state is complete as it is."""
        states, _ = self._state_table
        while True:
            state = states[at]
            if state.proceed is None or any(meets(v) for v in state.unless):
                return False
            if state.proceed == _FINAL:
                return True
            at = state.proceed


class Matcher:
    """Runs an automaton over the rows of one key.

    Attributes:
        partials: the matches that have begun, and the one that has not.
        complete: the matches that wait for those that began before them.
    """

    def __init__(self, automaton: Automaton, partials: Iterable[Partial], complete: Iterable[Partial]) -> None:
        self._automaton = automaton
        self.partials = list(partials)
        self.complete = _Queue(complete)

    @property
    def idle(self) -> bool:
        """Whether no match has begun."""
        return len(self.partials) == 1 and not self.complete.items

    def process(self, number: int, holds: Holds) -> list[Partial]:
        """The matches that the row ``number`` completes, in order.

        Raises RunError RUN066, as :meth:`_matches_in_order`.
        """
        left, complete = _Queue(), _Queue()
        for partial in self.partials:
            for after in self._automaton.step(partial, number, holds):
                (left if after.state != _FINAL else complete).add(after)
        for match in complete.items:
            self.complete.add(match)
        return self._matches_in_order(left)

    def expire(self, is_expired: Callable[[int], bool]) -> list[Partial]:
        """Drops the matches whose first row is too old; the matches that waited for them, in order. Raises as
        :meth:`process`."""
        left = [p for p in self.partials if p.first == START or not is_expired(p.first)]
        if len(left) == len(self.partials):
            return []
        return self._matches_in_order(_Queue(left))

    def _matches_in_order(self, left: _Queue) -> list[Partial]:
        """The complete matches that no match began before, each without those that it skips.

        Raises:
            RunError: RUN066, for a match that the next one would begin with again, or without the variable that the
                next one begins at.
        """
        out = []
        while self.complete.items and self.complete.items[0].first <= left.items[0].first:
            match = self.complete.poll()
            begin = self._following(match)

            def stays(partial: Partial, begin: int = begin) -> bool:
                return partial.first >= begin

            left.keep(stays)
            self.complete.keep(stays)
            out.append(match)
        self.partials = left.items
        return out

    def _following(self, match: Partial) -> int:
        """The number of the row that the next match may begin with."""
        automaton, counts = self._automaton, match.counts
        if automaton.skip == "NEXT":
            return match.first + 1
        if automaton.skip == "PAST":
            return match.first + sum(counts)
        name, rows = automaton.variables[automaton.target].name, counts[automaton.target]
        if not rows:
            raise RunError("RUN066", name=name, why="the match has no row of it")
        begin = match.first + sum(counts[: automaton.target])
        begin += rows - 1 if automaton.skip == "LAST" else 0
        if begin == match.first:
            raise RunError("RUN066", name=name, why="it is the first row of the match, which would be found forever")
        return begin
