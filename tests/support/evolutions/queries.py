"""Queries as trees that can be edited: each operator reads the columns of those below by their names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.support.evolutions.tables import APPENDS, COLUMNS, Columns


class UnfitError(Exception):
    """A query reads a column that is not there any more."""


def need(columns: Columns, *names: str) -> None:
    """Raises UnfitError where a column is missing."""
    if not set(names) <= set(columns):
        raise UnfitError


@dataclass
class Node(ABC):
    """An operator of a query."""

    @abstractmethod
    def columns(self) -> Columns:
        """Of its rows."""

    @abstractmethod
    def sql(self) -> str:
        """As a SELECT. Raises UnfitError."""

    @property
    def inputs(self) -> list[Node]:
        """The operators below, in the attributes that hold them."""
        return [value for value in vars(self).values() if isinstance(value, Node)]

    def item(self) -> str:
        """As an item of FROM."""
        return f"({self.sql()})"

    def walk(self) -> Iterator[Node]:
        """This and all operators below."""
        yield self
        for node in self.inputs:
            yield from node.walk()

    def appends(self) -> bool:
        """Whether it is certain that it only inserts rows."""
        return all(node.appends() for node in self.inputs)


@dataclass
class Table(Node):
    name: str

    def columns(self) -> Columns:
        return dict(COLUMNS[self.name])

    def sql(self) -> str:
        return f"SELECT * FROM {self.name}"

    def item(self) -> str:
        return self.name

    def appends(self) -> bool:
        return self.name in APPENDS


@dataclass
class Condition:
    """A comparison of a column with a constant, or of two columns."""

    column: str
    test: str

    def text(self, columns: Columns, side: str = "") -> str:
        need(columns, self.column)
        return f"{side}{self.column} {self.test}"


@dataclass
class Calc(Node):
    """A projection and a filter: ``items`` are ``(column, expression of {}, name, kind)``."""

    below: Node
    items: list[tuple[str, str, str, str]]
    where: list[Condition] = field(default_factory=list)

    def columns(self) -> Columns:
        return {name: kind for _, _, name, kind in self.items}

    def sql(self) -> str:
        below = self.below.columns()
        need(below, *(c for c, _, _, _ in self.items))
        names = [name for _, _, name, _ in self.items]
        if len(set(names)) < len(names) or not names:
            raise UnfitError
        items = ", ".join(
            f"{text.format(c)} AS {name}" if text.format(c) != name else name for c, text, name, _ in self.items
        )
        where = " AND ".join(c.text(below) for c in self.where)
        return f"SELECT {items} FROM {self.below.item()}{f' WHERE {where}' if where else ''}"


@dataclass
class Call:
    """An aggregate call: ``text`` has ``{}`` for the column."""

    text: str
    column: str
    name: str
    kind: str
    filter: Condition | None = None

    def sql(self, below: Columns) -> str:
        if self.column:
            need(below, self.column)
        text = self.text.format(self.column)
        return f"{text} FILTER (WHERE {self.filter.text(below)})" if self.filter else text


def call_items(calls: list[Call], below: Columns) -> list[str]:
    return [f"{call.sql(below)} AS {call.name}" for call in calls]


@dataclass
class Aggregate(Node):
    below: Node
    keys: list[str]
    calls: list[Call]
    having: int | None = None
    ttl: str | None = None

    def columns(self) -> Columns:
        below = self.below.columns()
        need(below, *self.keys)
        return {k: below[k] for k in self.keys} | {c.name: c.kind for c in self.calls}

    def appends(self) -> bool:
        return False

    def sql(self) -> str:
        below = self.below.columns()
        need(below, *self.keys)
        items = [*self.keys, *call_items(self.calls, below)]
        if not items:
            raise UnfitError
        hint = f"/*+ STATE_TTL('t' = '{self.ttl}') */ " if self.ttl and self.keys else ""
        group = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        having = f" HAVING COUNT(*) > {self.having}" if self.having is not None and self.keys else ""
        return f"SELECT {hint}{', '.join(items)} FROM {self.below.item()} AS t{group}{having}"


@dataclass
class Distinct(Node):
    below: Node
    output: list[str]

    def columns(self) -> Columns:
        below = self.below.columns()
        need(below, *self.output)
        return {k: below[k] for k in self.output}

    def appends(self) -> bool:
        return False

    def sql(self) -> str:
        if not self.columns():
            raise UnfitError
        return f"SELECT DISTINCT {', '.join(self.output)} FROM {self.below.item()}"


@dataclass
class Join(Node):
    """A join. ``output`` are ``(side, column, name)``, ``further`` conditions ``(side, condition)``, ``unequal``
    comparisons of a column of each side."""

    left: Node
    right: Node
    kind: str
    keys: list[tuple[str, str]]
    output: list[tuple[str, str, str]]
    further: list[tuple[str, Condition]] = field(default_factory=list)
    unequal: list[tuple[str, str, str]] = field(default_factory=list)
    ttl: dict[str, str] = field(default_factory=dict)

    def sides(self) -> dict[str, Columns]:
        return {"l": self.left.columns(), "r": self.right.columns()}

    def columns(self) -> Columns:
        sides = self.sides()
        for side, column, _ in self.output:
            need(sides[side], column)
        return {name: sides[side][column] for side, column, name in self.output}

    def appends(self) -> bool:
        return self.kind == "JOIN" and super().appends()

    def on(self) -> str:
        sides = self.sides()
        need(sides["l"], *(k for k, _ in self.keys), *(c for c, _, _ in self.unequal))
        need(sides["r"], *(k for _, k in self.keys), *(c for _, _, c in self.unequal))
        terms = [f"l.{one} = r.{other}" for one, other in self.keys]
        terms += [c.text(sides[side], f"{side}.") for side, c in self.further]
        terms += [f"l.{one} {sign} r.{other}" for one, sign, other in self.unequal]
        return " AND ".join(terms) or "TRUE"

    def sql(self) -> str:
        if len(self.columns()) < len(self.output) or not self.output:
            raise UnfitError
        items = ", ".join(f"{side}.{column} AS {name}" for side, column, name in self.output)
        times = ", ".join(f"'{side}' = '{ttl}'" for side, ttl in self.ttl.items())
        hint = f"/*+ STATE_TTL({times}) */ " if times else ""
        sides = f"{self.left.item()} AS l {self.kind} {self.right.item()} AS r"
        return f"SELECT {hint}{items} FROM {sides} ON {self.on()}"


@dataclass
class Interval(Join):
    """A join of rows whose event times are near each other: ``times`` are columns of both sides, ``bounds`` seconds."""

    times: tuple[str, str] = ("et", "bt")
    bounds: tuple[int, int] = (-2, 2)

    def appends(self) -> bool:
        return Node.appends(self)

    def on(self) -> str:
        sides, (one, other) = self.sides(), self.times
        if sides["l"].get(one) != "r" or sides["r"].get(other) != "r" or not self.appends():
            raise UnfitError
        low, high = (f"{'-' if s < 0 else '+'} INTERVAL '{abs(s)}' SECOND" for s in self.bounds)
        return f"{super().on()} AND l.{one} BETWEEN r.{other} {low} AND r.{other} {high}"


@dataclass
class Semi(Node):
    left: Node
    right: Node
    keys: list[tuple[str, str]]
    negated: bool = False
    unequal: list[tuple[str, str, str]] = field(default_factory=list)

    def columns(self) -> Columns:
        return self.left.columns()

    def appends(self) -> bool:
        return not self.negated and super().appends()

    def sql(self) -> str:
        need(self.left.columns(), *(k for k, _ in self.keys), *(c for c, _, _ in self.unequal))
        need(self.right.columns(), *(k for _, k in self.keys), *(c for _, _, c in self.unequal))
        terms = [f"l.{one} = r.{other}" for one, other in self.keys]
        terms += [f"l.{one} {sign} r.{other}" for one, sign, other in self.unequal]
        if not terms:
            raise UnfitError
        test = f"EXISTS (SELECT 1 FROM {self.right.item()} AS r WHERE {' AND '.join(terms)})"
        names = ", ".join(f"l.{name}" for name in self.columns())
        return f"SELECT {names} FROM {self.left.item()} AS l WHERE {'NOT ' if self.negated else ''}{test}"


@dataclass
class Rank(Node):
    """The first rows of each key in some order: ``order`` are ``(column, direction)``."""

    below: Node
    keys: list[str]
    order: list[tuple[str, str]]
    output: list[str]
    limit: int
    shown: bool = False
    offset: int = 0

    def columns(self) -> Columns:
        below = self.below.columns()
        need(below, *self.output)
        return {k: below[k] for k in self.output} | ({"rn": "l"} if self.shown else {})

    def appends(self) -> bool:
        return False

    def sql(self) -> str:
        names = list(self.columns())
        need(self.below.columns(), *self.keys, *(c for c, _ in self.order))
        if not names or "rn" in self.below.columns() or not self.order:
            raise UnfitError
        part = f"PARTITION BY {', '.join(self.keys)} " if self.keys else ""
        order = ", ".join(f"{c} {way}" for c, way in self.order)
        number = f"SELECT *, ROW_NUMBER() OVER ({part}ORDER BY {order}) AS rn FROM {self.below.item()}"
        after = f" AND rn > {self.offset}" if self.offset else ""
        return f"SELECT {', '.join(names)} FROM ({number}) WHERE rn <= {self.limit}{after}"


@dataclass
class Window(Node):
    """An aggregate of windows; lengths in seconds."""

    below: Node
    kind: str
    time: str
    size: int
    step: int
    keys: list[str]
    calls: list[Call]

    def columns(self) -> Columns:
        below = self.below.columns()
        need(below, *self.keys)
        return {k: below[k] for k in self.keys} | {"window_start": "t"} | {c.name: c.kind for c in self.calls}

    def sql(self) -> str:
        below = self.below.columns()
        need(below, self.time, *self.keys)
        if "window_start" in below or below[self.time] != "r":
            raise UnfitError
        if any("_VALUE(" in call.text for call in self.calls):  # windows cannot merge their partial results
            raise UnfitError
        lengths = f"INTERVAL '{self.size}' SECOND"
        if self.kind != "TUMBLE":
            lengths = f"INTERVAL '{self.step}' SECOND, {lengths}"
        source = f"TABLE {self.below.item()}" if isinstance(self.below, Table) else self.below.item()
        items = ", ".join([*self.keys, "window_start", *call_items(self.calls, below)])
        keys = "".join(f", {k}" for k in self.keys)
        if self.kind == "SESSION":
            source, lengths = f"{source} PARTITION BY {', '.join(self.keys)}", f"INTERVAL '{self.step}' SECOND"
            if not self.keys or any("DISTINCT" in call.text for call in self.calls):
                raise UnfitError
        window = f"TABLE({self.kind}({source}, DESCRIPTOR({self.time}), {lengths}))"
        return f"SELECT {items} FROM {window} GROUP BY window_start, window_end{keys}"


@dataclass
class Over(Node):
    below: Node
    keys: list[str]
    time: str
    frame: str
    calls: list[Call]

    def columns(self) -> Columns:
        return self.below.columns() | {c.name: c.kind for c in self.calls}

    def sql(self) -> str:
        below = self.below.columns()
        need(below, self.time, *self.keys)
        part = f"PARTITION BY {', '.join(self.keys)} " if self.keys else ""
        over = f"OVER ({part}ORDER BY {self.time} {self.frame})"
        calls = [f"{c.text.format(c.column)} {over} AS {c.name}" for c in self.calls]
        need(below, *(c.column for c in self.calls if c.column))
        if not calls or any(c.name in below for c in self.calls):
            raise UnfitError
        return f"SELECT {', '.join([*below, *calls])} FROM {self.below.item()}"


@dataclass
class Union(Node):
    """UNION ALL of the columns that are named."""

    branches: list[Node]
    output: list[str]

    @property
    def inputs(self) -> list[Node]:
        return self.branches

    def columns(self) -> Columns:
        first = self.branches[0].columns()
        need(first, *self.output)
        return {k: first[k] for k in self.output}

    def sql(self) -> str:
        names = list(self.columns())
        if not names:
            raise UnfitError
        for branch in self.branches:
            need(branch.columns(), *names)
        return " UNION ALL ".join(f"SELECT {', '.join(names)} FROM {b.item()}" for b in self.branches)


@dataclass
class Program:
    """One or more queries, each with a sink of its own, options, and whether the columns of tables have wider types."""

    queries: list[Node]
    options: dict[str, str] = field(default_factory=dict)
    is_wide: bool = False
    upserts: bool = False

    def walk(self) -> Iterator[Node]:
        """All operators."""
        for query in self.queries:
            yield from query.walk()
