"""Random queries, of one operator on another."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.support.evolutions.queries import (
    Aggregate,
    Calc,
    Call,
    Condition,
    Distinct,
    Interval,
    Join,
    Node,
    Over,
    Program,
    Rank,
    Semi,
    Table,
    UnfitError,
    Union,
    Window,
)
from tests.support.evolutions.tables import APPENDS, COLUMNS, Columns

JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
TTLS = ("1500 ms", "3 s", "1 d", "0 s")
LINEAR = ("{} * 2", "-{}", "{} + 3", "5 - {} * 3", "CAST({} AS BIGINT)", "CAST({} AS BIGINT) * 2 + 1")
"""Expressions whose sum follows from that of their argument, if no narrower numbers are added up."""
BOUNDS = ((-2, 2), (-1, 2), (-2, 0), (0, 2), (-1, 1), (-3, 1), (0, 0))
"""Bounds of interval joins, in seconds."""
WINDOWS = ("TUMBLE", "HOP", "CUMULATE", "TUMBLE", "HOP", "CUMULATE", "SESSION")
SPANS = ((2, 2), (4, 2), (4, 1), (6, 2), (8, 4), (3, 3))
"""Sizes and steps of windows, in seconds."""


class Maker:
    """Makes queries and their parts.

    Args:
        rng: random numbers.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def name(self) -> str:
        """A new name."""
        self.count += 1
        return f"x{self.count}"

    def some(self, names: list[str], p: float, least: int = 0) -> list[str]:
        """A part of a list, in its order."""
        chosen = [name for name in names if self.chance(p)]
        return chosen if len(chosen) >= least else self.rng.sample(names, min(least, len(names)))

    @staticmethod
    def of(columns: Columns, kinds: str) -> list[str]:
        """The columns of some kinds."""
        return [name for name, kind in columns.items() if kind in kinds]

    def one(self, columns: Columns, kinds: str) -> str:
        """A column of some kinds. Raises UnfitError without any."""
        if not (names := self.of(columns, kinds)):
            raise UnfitError
        return self.rng.choice(names)

    # -- parts -------------------------------------------------------------------------------------------------------

    def condition(self, columns: Columns) -> Condition:
        column = self.one(columns, "ils")
        if columns[column] == "s":
            return Condition(column, self.rng.choice(("<> 'x'", "IS NOT NULL", "= 'y'", "LIKE '%y%'", "IS NULL")))
        sign = self.rng.choice((">", "<", "<>", ">=", "IS NOT NULL"))
        return Condition(column, sign if sign == "IS NOT NULL" else f"{sign} {self.rng.randint(0, 4)}")

    def call(self, columns: Columns) -> Call:
        """An aggregate call."""
        made = self._call(columns)
        if self.chance(0.12):
            made.filter = self.condition(columns)
        return made

    def _call(self, columns: Columns) -> Call:
        if self.chance(0.25) or not self.of(columns, "ilfds"):
            return Call("COUNT(*)", "", self.name(), "l")
        column = self.one(columns, "ilfds")
        kind = columns[column]
        if self.chance(0.15):
            return Call("COUNT(DISTINCT {})", column, self.name(), "l")
        if self.chance(0.2):
            return Call("COUNT({})", column, self.name(), "l")
        if kind == "s":
            call = self.rng.choice(("MIN", "MAX", "MIN", "MAX", "LISTAGG"))
            return Call(f"{call}({{}})", column, self.name(), "s")
        if self.chance(0.06):
            call = self.rng.choice(("FIRST_VALUE", "LAST_VALUE", "STDDEV_POP", "VAR_SAMP"))
            return Call(f"{call}({{}})", column, self.name(), kind if "VALUE" in call else "x")
        if self.chance(0.1):
            return Call("SUM(DISTINCT {})", column, self.name(), kind)
        call = self.rng.choice(("SUM", "SUM", "AVG", "MIN", "MAX"))
        argument = self.rng.choice(LINEAR) if kind in "il" and self.chance(0.12) else "{}"
        return Call(f"{call}({argument})", column, self.name(), kind if kind != "d" else "x")

    def calls(self, columns: Columns) -> list[Call]:
        return [self.call(columns) for _ in range(self.rng.choice((1, 1, 2, 3)))]

    def pair(self, left: Columns, right: Columns) -> tuple[str, str]:
        """A column of each side, of the same kind."""
        kind = self.rng.choice("iiisl")
        return self.one(left, kind), self.one(right, kind)

    def unequal(self, left: Columns, right: Columns) -> tuple[str, str, str]:
        return self.one(left, "il"), self.rng.choice(("<", ">=", "<>")), self.one(right, "il")

    def output(self, left: Columns, right: Columns) -> list[tuple[str, str, str]]:
        """Columns of a join, by new names."""
        both = [("l", c) for c in left if left[c] not in "rp"] + [("r", c) for c in right if right[c] not in "rp"]
        chosen = [x for x in both if self.chance(0.6)] or both[:1]
        return [(side, column, f"{side}_{column}") for side, column in chosen]

    # -- operators ---------------------------------------------------------------------------------------------------

    def table(self, names: str = "aaabccuuq") -> Table:
        return Table(self.rng.choice(names))

    def query(self, depth: int) -> Node:
        """A query of operators on one another."""
        if depth <= 0:
            return self.table()
        makers: list[tuple[float, Callable[[int], Node]]] = [
            (1.0, self.calc),
            (2.5, self.aggregate),
            (0.4, self.distinct),
            (2.5, self.join),
            (1.0, self.interval),
            (0.6, self.chain),
            (1.0, self.semi),
            (1.2, self.top),
            (1.2, self.deduplicate),
            (1.3, self.window),
            (0.6, self.over),
            (0.7, self.union),
        ]
        return self.rng.choices([m for _, m in makers], [w for w, _ in makers])[0](depth - 1)

    def calc(self, depth: int) -> Calc:
        below = self.query(depth)
        columns = below.columns()
        items = [(c, "{}", c, columns[c]) for c in self.some(list(columns), 0.85, 1)]
        if self.chance(0.4):
            items.append(self.expression(columns))
        return Calc(below, items, [self.condition(columns)] if self.chance(0.7) else [])

    def expression(self, columns: Columns) -> tuple[str, str, str, str]:
        column = self.one(columns, "ils")
        text = (
            self.rng.choice(("UPPER({})", "COALESCE({}, 'z')"))
            if columns[column] == "s"
            else self.rng.choice(("{} + 1", "COALESCE({}, 7)"))
        )
        return column, text, self.name(), columns[column]

    def aggregate(self, depth: int) -> Aggregate:
        below = self.query(depth)
        columns = below.columns()
        keys = self.some(self.of(columns, "ist"), 0.45, int(self.chance(0.9)))
        having = self.rng.choice((0, 1, 2)) if self.chance(0.15) else None
        return Aggregate(below, keys, self.calls(columns), having, self.rng.choice(TTLS) if self.chance(0.1) else None)

    def distinct(self, depth: int) -> Distinct:
        below = self.query(depth)
        return Distinct(below, self.some(self.of(below.columns(), "islt"), 0.5, 1))

    def join(self, depth: int) -> Join:
        left, right = self.query(depth), self.query(depth if self.chance(0.3) else 0)
        one, other = left.columns(), right.columns()
        keys = [self.pair(one, other) for _ in range(self.rng.choice((1, 1, 1, 2)))]
        made = Join(left, right, self.rng.choice(JOINS), keys, self.output(one, other))
        if self.chance(0.2):
            side = self.rng.choice("lr")
            made.further.append((side, self.condition(made.sides()[side])))
        if self.chance(0.2):
            made.unequal.append(self.unequal(one, other))
        if self.chance(0.1):
            made.ttl = {self.rng.choice("lr"): self.rng.choice(TTLS)}
        return made

    def chain(self, depth: int) -> Join:
        """Joins of three tables on one key."""
        key = self.rng.choice(("k", "k", "v", "g"))
        made: Node = self.table()
        names = [key]
        for number in range(2):
            other = self.table()
            output = self.output(made.columns(), other.columns())
            output = [(side, column, f"{side}{number}_{column}") for side, column, _ in output]
            output += (
                [("l", names[0], f"l{number}_{names[0]}")] if ("l", names[0]) not in {o[:2] for o in output} else []
            )
            kind = self.rng.choice(("JOIN", "JOIN", "LEFT JOIN"))
            made = Join(made, other, kind, [(names[0], key)], output)
            names = [f"l{number}_{names[0]}"]
        assert isinstance(made, Join)
        return made

    def interval(self, depth: int) -> Interval:
        left, right = self.table("ab"), self.table("ab")
        if self.chance(0.3):
            left = self.calc(0) if self.chance(0.5) else left
        one, other = left.columns(), right.columns()
        times = self.one(one, "r"), self.one(other, "r")
        made = Interval(left, right, self.rng.choice(JOINS), [self.pair(one, other)], self.output(one, other))
        made.times, made.bounds = times, self.rng.choice(BOUNDS)
        if self.chance(0.2):
            made.unequal.append(self.unequal(one, other))
        return made

    def semi(self, depth: int) -> Semi:
        left, right = self.query(depth), self.query(0)
        one, other = left.columns(), right.columns()
        unequal = [self.unequal(one, other)] if self.chance(0.2) else []
        output = [c for c in one if one[c] not in "rp"]
        left = Calc(left, [(c, "{}", c, one[c]) for c in output])
        return Semi(left, right, [self.pair(left.columns(), other)], self.chance(0.4), unequal)

    def top(self, depth: int) -> Rank:
        """A top-N that orders all rows, so that it does not depend on the order of sources."""
        below = self.query(depth)
        columns = below.columns()
        ordered = self.of(columns, "ilst")
        self.rng.shuffle(ordered)
        order = [(c, self.rng.choice(("ASC", "DESC"))) for c in ordered]
        output = self.some(ordered, 0.8, 1)
        keys, limit = self.some(self.of(columns, "is"), 0.4), self.rng.choice((1, 2, 3))
        return Rank(below, keys, order, output, limit, self.chance(0.2), int(self.chance(0.15)))

    def deduplicate(self, depth: int) -> Rank:
        below = self.query(depth) if self.chance(0.3) else self.table("aab")
        columns = below.columns()
        time = self.one(columns, "rp")
        keys = self.some(self.of(columns, "is"), 0.4, 1)
        output = self.some(self.of(columns, "ilsr"), 0.7, 1)
        return Rank(below, keys, [(time, self.rng.choice(("ASC", "DESC")))], output, 1)

    def window(self, depth: int) -> Window:
        below = self.query(depth) if self.chance(0.2) else self.table("aab")
        columns = below.columns()
        size, step = self.rng.choice(SPANS)
        kind = self.rng.choice(WINDOWS)
        return Window(
            below, kind, self.one(columns, "r"), size, step, self.some(self.of(columns, "is"), 0.4), self.calls(columns)
        )

    def over(self, depth: int) -> Over:
        below = self.query(depth) if self.chance(0.2) else self.table("aab")
        columns = below.columns()
        time = self.one(columns, "rp")
        calls = [Call(self.rng.choice(("SUM({})", "MAX({})", "COUNT({})")), self.one(columns, "il"), self.name(), "l")]
        return Over(below, self.some(self.of(columns, "is"), 0.4), time, self.frame(), calls)

    def frame(self) -> str:
        return self.rng.choice(
            (
                "",
                "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
                "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
                "ROWS BETWEEN 4 PRECEDING AND CURRENT ROW",
                "RANGE BETWEEN INTERVAL '2' SECOND PRECEDING AND CURRENT ROW",
                "RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND CURRENT ROW",
            )
        )

    def union(self, depth: int) -> Union:
        branches = [self.query(depth) if self.chance(0.3) else self.branch() for _ in range(self.rng.choice((2, 2, 3)))]
        columns = [b.columns() for b in branches]
        common = [c for c, kind in columns[0].items() if kind in "ils" and all(o.get(c) == kind for o in columns)]
        if not common:
            raise UnfitError
        return Union(branches, self.some(common, 0.8, 1))

    def branch(self) -> Node:
        """A table, or some of its rows."""
        table = self.table()
        columns = table.columns()
        return Calc(
            table, [(c, "{}", c, columns[c]) for c in columns], [self.condition(columns)] if self.chance(0.5) else []
        )

    def program(self) -> Program:
        queries = [self.query(self.rng.choice((1, 2, 2, 3))) for _ in range(self.rng.choice((1, 1, 1, 1, 2)))]
        options = {}
        if self.chance(0.3):
            options["table.exec.state.ttl"] = self.rng.choice(TTLS)
        if self.chance(0.12):
            options |= MINI_BATCH
        if self.chance(0.1):
            options[MULTI_JOIN] = "true"
        return Program(queries, options)

    def other_table(self, name: str) -> str:
        """A table to put in place of another."""
        return self.rng.choice([n for n in COLUMNS if n != name and (n in APPENDS or name not in APPENDS)])


MULTI_JOIN = "table.optimizer.multi-join.enabled"
MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "100",
}
