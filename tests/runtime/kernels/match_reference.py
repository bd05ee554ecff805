"""MATCH_RECOGNIZE by looking at everything: for a first row, all ways in which the rows behind it fit the pattern.

A way gives each variable, in order, some rows one after another. Of the matches of a first row the one that is complete
first counts; where several are complete with the same row, any of them may be emitted, and what follows is judged by
the one that was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Row = Mapping[str, Any]
Taken = tuple[tuple[int, ...], ...]
"""Per variable the positions of its rows."""


class Context(NamedTuple):
    """What a condition sees: all rows, the rows taken so far, the position of the row that is asked for, and the number
    of its variable."""

    rows: Sequence[Row]
    taken: Taken
    at: int
    variable: int

    def of(self, variable: int, name: str) -> list[Any]:
        """The values of a variable's rows; of its own with this row."""
        places = [*self.taken[variable], *([self.at] if variable == self.variable else [])]
        return [self.rows[p][name] for p in places]

    def of_all(self, name: str) -> list[Any]:
        """The values of all rows so far, and this one."""
        return [self.rows[p][name] for p in (*(p for t in self.taken for p in t), self.at)]


@dataclass(frozen=True)
class Part:
    """A variable of a pattern: its bounds (None for any number), whether more rows are preferred, its condition."""

    low: int
    high: int | None
    greedy: bool
    meets: Callable[[Context], bool]

    @property
    def blocks(self) -> bool:
        """Whether the next variable may not take, or leave out, a row that this one could take."""
        return self.greedy and (self.low, self.high) != (0, 1) and self.low != self.high


Outcome = tuple[Literal["match", "none", "open"], frozenset[Taken]]


def first_matches(rows: Sequence[Row], begin: int, parts: Sequence[Part], within: int = 0) -> Outcome:
    """The matches that begin with the row ``begin`` and are complete first; none, or none yet."""
    going: set[tuple[int, Taken]] = {(0, ((),) * len(parts))}
    for at in range(begin, len(rows)):
        if within and rows[at]["t"] - rows[begin]["t"] >= within:
            return "none", frozenset()
        following: set[tuple[int, Taken]] = set()
        complete: set[Taken] = set()
        for variable, taken in going:
            for target, after in _ways(rows, at, variable, taken, parts):
                following.add((target, after))
                if _may_end(rows, at, target, taken, after, parts):
                    complete.add(after)
        if complete:
            return "match", frozenset(complete)
        if not following:
            return "none", frozenset()
        going = following
    return "open", frozenset()


def _meets(rows: Sequence[Row], at: int, variable: int, taken: Taken, parts: Sequence[Part]) -> bool:
    return parts[variable].meets(Context(rows, taken, at, variable))


def _blocked(rows: Sequence[Row], at: int, variable: int, taken: Taken, parts: Sequence[Part]) -> bool:
    """Whether the variable in front keeps its row from one that has not begun."""
    return variable > 0 and parts[variable - 1].blocks and _meets(rows, at, variable - 1, taken, parts)


def _ways(rows: Sequence[Row], at: int, variable: int, taken: Taken, parts: Sequence[Part]) -> list[tuple[int, Taken]]:
    """The variables that may take the row, from ``variable`` on, and what is taken then."""
    out = []
    for target in range(variable, len(parts)):
        part, count = parts[target], len(taken[target])
        if count == 0 and _blocked(rows, at, target, taken, parts):
            break
        if (part.high is None or count < part.high) and _meets(rows, at, target, taken, parts):
            out.append((target, (*taken[:target], (*taken[target], at), *taken[target + 1 :])))
        if count < part.low:
            break
    return out


def _may_end(rows: Sequence[Row], at: int, target: int, before: Taken, after: Taken, parts: Sequence[Part]) -> bool:
    """Whether a match may end with the row that ``target`` has taken."""
    if len(after[target]) < parts[target].low:
        return False
    rest = range(target + 1, len(parts))
    return all(parts[v].low == 0 and not _blocked(rows, at, v, before, parts) for v in rest)


def check(
    rows: Sequence[Row],
    parts: Sequence[Part],
    found: Sequence[Taken],
    following: Callable[[Taken], int],
    within: int = 0,
    old: Sequence[bool] = (),
) -> None:
    """Fails unless ``found`` are the matches of ``rows`` in order.

    Args:
        following: where the next match may begin, behind a match.
        within: how long a match lasts at most; 0 for any time.
        old: per row whether a match that begins with it is over by now, complete or not.
    """
    begin, left = 0, list(found)
    while begin < len(rows):
        outcome, ways = first_matches(rows, begin, parts, within)
        if outcome == "open" and not (old and old[begin]):
            break
        if outcome != "match":
            begin += 1
            continue
        assert left, f"the match of row {begin} is missing"
        match = left.pop(0)
        assert match in ways, f"row {begin}: {match} is none of {sorted(ways)}"
        begin = following(match)
    assert not left, f"{left} must not be there"


# ---- aggregates of the rows of a variable, by plain Python ---------------------------------------------------------


def quotient(a: int, b: int) -> int:
    """Without its fraction, as SQL divides whole numbers."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def there(values: Sequence[Any]) -> list[Any]:
    """The values that are not NULL."""
    return [v for v in values if v is not None]


def variance(values: Sequence[int | None], of_sample: bool) -> int | None:
    """Of whole numbers: each step is a whole number."""
    found = there(values)
    if not found or (of_sample and len(found) == 1):
        return None
    differences = sum(v * v for v in found) - quotient(sum(found) ** 2, len(found))
    return quotient(differences, len(found) - of_sample)


def deviation(values: Sequence[int | None], of_sample: bool) -> int | None:
    """The root of the variance, without its fraction."""
    found = variance(values, of_sample)
    return None if found is None else int(found**0.5)


def median(values: Sequence[int | None]) -> float | None:
    """PERCENTILE 0.5: between the two values in the middle."""
    found = sorted(there(values))
    if not found:
        return None
    at = (len(found) - 1) / 2
    low, high = found[int(at)], found[-(-(len(found) - 1) // 2)]
    return low + (high - low) * (at - int(at))


AGGREGATES: dict[str, Callable[[Sequence[Any]], Any]] = {
    "FIRST_VALUE({x})": lambda v: next(iter(there(v)), None),
    "LAST_VALUE({x})": lambda v: (there(v) or [None])[-1],
    "ARRAY_AGG({x})": lambda v: list(v) or None,
    "LISTAGG(CAST({x} AS STRING), '-')": lambda v: "-".join(map(str, there(v))) or None,
    "COUNT({x})": lambda v: len(there(v)),
    "SUM({x})": lambda v: sum(there(v)) if there(v) else None,
    "`$SUM0`({x})": lambda v: sum(there(v)),
    "AVG({x})": lambda v: quotient(sum(there(v)), len(there(v))) if there(v) else None,
    "MAX({x})": lambda v: max(there(v), default=None),
    "VAR_POP({x})": lambda v: variance(v, False),
    "VAR_SAMP({x})": lambda v: variance(v, True),
    "STDDEV_POP({x})": lambda v: deviation(v, False),
    "STDDEV_SAMP({x})": lambda v: deviation(v, True),
    "PERCENTILE({x}, 0.5)": median,
    "SUM(LAST({x}, 1))": lambda v: sum(there(v)) if there(v) else None,
    "COUNT(FIRST({x}))": lambda v: len(there(v)),
}
"""Aggregate calls of a column: what they are of its values, in order. LAST and FIRST inside have no effect."""
