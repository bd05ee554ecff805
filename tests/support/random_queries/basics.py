"""What every maker of random queries uses: names, conditions, views, options, tables."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.support.random_queries.tables import COLUMNS, Column, Query


def both(left: Sequence[Column], left_name: str, right: Sequence[Column], right_name: str) -> list[tuple[str, Column]]:
    """The columns of two sides of a join, with the names of their sides."""
    return [(f"{left_name}.{c.name}", c) for c in left] + [(f"{right_name}.{c.name}", c) for c in right]


@dataclass
class Basics(ABC):
    """The state of a script that is being made.

    Attributes:
        rng: of its seed.
        rows: whether only queries are made that have one result, in whatever order the tables are read.
        late: whether rows come late. There is one table then, so that its watermark alone decides what is late.
        used: the tables that it reads, in the order of their first use.
        views: the statements that create its views.
        count: of the names that were made.
    """

    rng: random.Random
    rows: bool
    late: bool = False
    used: dict[str, None] = field(default_factory=dict)
    views: list[str] = field(default_factory=list)
    count: int = 0

    @abstractmethod
    def query(self, depth: int) -> Query:
        """A random query; ``depth`` is how many operators stand on one another at most."""

    def options(self) -> list[str]:
        """SET statements."""
        out = {}
        if self.chance(0.2):
            out["table.exec.state.ttl"] = "1 d"
        if self.chance(0.2):
            out["table.exec.mini-batch.enabled"] = "true"
            out["table.exec.mini-batch.allow-latency"] = "1 s"
            out["table.exec.mini-batch.size"] = "100"
            if self.chance(0.3):
                out["table.optimizer.distinct-agg.split.enabled"] = "true"
        if self.chance(0.1):
            out["table.optimizer.multi-join.enabled"] = "true"
        if self.chance(0.1):
            out["table.optimizer.agg-phase-strategy"] = self.rng.choice(("ONE_PHASE", "TWO_PHASE"))
        if self.chance(0.05):
            out["table.exec.source.cdc-events-duplicate"] = "true"
        if self.chance(0.05):
            out["table.optimizer.reuse-sub-plan-enabled"] = "false"
        return [f"SET '{k}' = '{v}';" for k, v in out.items()]

    def chance(self, p: float) -> bool:
        """True with the probability ``p``."""
        return self.rng.random() < p

    def name(self, prefix: str) -> str:
        """A name that the script does not have yet."""
        self.count += 1
        return f"{prefix}{self.count}"

    def table(self, *names: str) -> Query:
        """A table: one of ``names``, or any."""
        known = names or (("a", "a", "b", "n", "pr", "c", "d", "e") if not self.late else ("a",))
        name = self.rng.choice(known) if not self.late else "a"
        self.used[name] = None
        columns = tuple(Column(*text.split(":")) for text in COLUMNS[name].split())
        if self.rows and name == "pr":
            # The time of the clock would be another one for each run.
            return Query("SELECT k, q, z FROM pr", columns[:-1], True)
        key = ("id",) if name in ("d", "e") else ()
        unique = frozenset(c.name for c in columns if c.kind == "r" and name in ("a", "b"))
        return Query(f"SELECT * FROM {name}", columns, name in ("a", "b", "n", "pr"), key, unique)

    def arrivals(self) -> Query:
        """The table whose rows have the time of the clock."""
        self.used["pr"] = None
        return Query("SELECT * FROM pr", tuple(Column(*text.split(":")) for text in COLUMNS["pr"].split()), True)

    def timed(self, depth: int) -> Query:
        """A query with a time attribute, most often one that only inserts."""
        for _ in range(6):
            found = self.query(depth) if self.chance(0.7) else self.table("a", "b")
            if found.of("r") and (found.appends or self.chance(0.2)):
                return found
        return self.table("a", "b")

    def derived(self, query: Query, by_name: bool = False) -> str:
        """What stands for a query in FROM: in parentheses, a view, or a common table expression."""
        simple = query.sql.removeprefix("SELECT * FROM ")
        if simple.isidentifier():
            return simple
        way = self.rng.random()
        if by_name or way < 0.2:
            view = self.name("v")
            self.views.append(f"CREATE TEMPORARY VIEW {view} AS {query.sql};")
            return view
        if way < 0.3:
            table = self.name("w")
            return f"(WITH {table} AS ({query.sql}) SELECT * FROM {table})"
        return f"({query.sql})"

    def source(self, query: Query, by_name: bool = False) -> tuple[str, str]:
        """FROM item with its alias, and the alias."""
        alias = self.name("q")
        return f"{self.derived(query, by_name)} AS {alias}", alias

    def plain(self, query: Query) -> Query:
        """``query`` for the sink: one time attribute of event time, and none of the clock where rows count."""
        times = query.of("r")
        kept = [c for c in query.columns if not (self.rows and c.kind == "p")]
        if len(times) < 2 and len(kept) == len(query.columns):
            return query
        item, _ = self.source(query)
        parts = [f"CAST({c.name} AS TIMESTAMP(3)) AS {c.name}" if c in times[1:] else c.name for c in kept]
        return replace(query, sql=f"SELECT {', '.join(parts)} FROM {item}", columns=tuple(kept))

    def projected(self, columns: Sequence[tuple[str, Column]]) -> tuple[str, tuple[Column, ...]]:
        """Select items, and the columns they make: of equal names, later ones get a new one."""
        items, out, taken = [], [], set[str]()
        for text, column in columns:
            name = column.name
            if name in taken:
                name = self.name("x")
            taken.add(name)
            items.append(text if text.split(".")[-1] == name else f"{text} AS {name}")
            out.append(Column(name, column.kind))
        return ", ".join(items), tuple(out)

    def condition(self, query: Query, alias: str = "") -> str:
        """A condition on rows of a query."""
        dot = f"{alias}." if alias else ""
        column = self.rng.choice(query.columns)
        ref = dot + column.name
        if column.kind in "il":
            return f"{ref} {self.rng.choice(('>', '<', '<>', '>=', '='))} {self.rng.randint(0, 6)}"
        if column.kind == "s":
            return self.rng.choice((f"{ref} <> 'x'", f"{ref} IS NOT NULL", f"{ref} IN ('x', 'y')", f"{ref} LIKE '%y%'"))
        if column.kind in "rt":
            return f"{ref} > TIMESTAMP '2026-01-01 00:00:04'"
        return f"{ref} IS NOT NULL"

    def key(self, query: Query) -> Column | None:
        """A column to join a query by."""
        found = query.of("i")
        return self.rng.choice(found) if found else None

    def ordering(self, below: Query) -> list[Column]:
        """Columns that order rows: all of them, where a tie would leave the result open."""
        known = [c for c in below.columns if c.kind != "p"]
        first = self.rng.choice(known)
        rest = [c for c in known if c is not first]
        return [first, *rest] if self.rows else [first, *(c for c in rest if self.chance(0.2))]

    def order(self, below: Query) -> str:
        """What stands behind ORDER BY, to number all rows."""
        return ", ".join(f"{c.name} {self.rng.choice(('ASC', 'DESC'))}" for c in self.ordering(below))

    def calls(self, below: Query) -> list[tuple[str, Column]]:
        """Some aggregates over a query."""
        out = [("COUNT(*)", Column(self.name("x"), "l"))] if self.chance(0.7) else []
        for _ in range(self.rng.randint(0 if out else 1, 2)):
            c = self.rng.choice(below.columns)
            if c.kind in "il":
                text = f"{self.rng.choice(('SUM', 'MAX', 'MIN', 'COUNT', 'AVG', 'SUM(DISTINCT'))}"
                text += f"{' ' if 'DISTINCT' in text else '('}{c.name})"
                kind = "l" if text.startswith("COUNT") else c.kind
            elif c.kind in "st":
                text, kind = f"{self.rng.choice(('MAX', 'MIN'))}({c.name})", c.kind
            elif c.kind == "r":
                text, kind = f"{self.rng.choice(('MAX', 'MIN'))}({c.name})", "t"
            else:
                text, kind = f"COUNT({c.name})", "l"
            if self.chance(0.2):
                text, kind = f"COUNT(DISTINCT {c.name})", "l"
            if c.kind == "p":
                text, kind = "COUNT(*)", "l"
            if self.chance(0.15):
                text += f" FILTER (WHERE {self.condition(below)})"
            out.append((text, Column(self.name("x"), kind)))
        return out

    def case(self, below: Query, alias: str) -> tuple[str, Column]:
        """A key of groups that is a CASE."""
        first, second = self.condition(below, alias), self.condition(below, alias)
        rest = self.rng.choice(("", "ELSE NULL ", "ELSE 'other' "))
        text = f"CASE WHEN {first} THEN 'one' WHEN {second} THEN 'two' {rest}END"
        return text, Column(self.name("x"), "s")

    def grouping(self, keys: Sequence[Column], first: Sequence[str] = ()) -> str:
        """GROUP BY some columns, at times by several sets of them."""
        names = [c.name for c in keys]
        if len(names) > 1 and self.chance(0.25):
            apart = f"GROUPING SETS (({names[0]}), ({', '.join(names[1:])}))"
            sets = self.rng.choice((f"ROLLUP ({', '.join(names)})", f"CUBE ({', '.join(names)})", apart))
            names = [sets]
        every = [*names, *first]
        return f" GROUP BY {', '.join(every)}" if every else ""

    def time_of(self, query: Query) -> Column | None:
        """A time attribute to order by: where only one result is allowed, one that orders all rows."""
        times = [c for c in query.of("r") if c.name in query.unique or not self.rows]
        return self.rng.choice(times) if times else None

    @staticmethod
    def distinct_times(query: Query, columns: Sequence[Column]) -> frozenset[str]:
        """The time attributes of a query that differ in each row, and that are among the columns."""
        return query.unique & {c.name for c in columns}
