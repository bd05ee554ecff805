"""Random queries: scripts that compose windows, joins, aggregates, rankings, set operations and the like.

A script has tables with a few rows, options, views, and one INSERT. :func:`random_query` makes it from a seed, and
:meth:`RandomQuery.write` puts it and its input into a folder, in the form of the golden cases
(``tests/support/cases.py``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.support.random_tables import COLUMNS, FORMATS, JSON, TABLES, TYPES, Column, Query, table_input

_SPANS = ("2", "5", "10")


@dataclass(frozen=True)
class RandomQuery:
    """A script and its input: table -> lines of its file."""

    script: str
    rows: dict[str, list[str]]

    def write(self, folder: Path) -> None:
        """As ``script.sql`` and ``<table>.json`` in ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "script.sql").write_text(self.script)
        for table, lines in self.rows.items():
            (folder / f"{table}.json").write_text("".join(f"{line}\n" for line in lines))


def random_query(seed: int, *, rows: bool = False) -> RandomQuery:
    """The query of a seed.

    Args:
        rows: only what has one result in whatever order the tables are read.
    """
    return _Maker(random.Random(f"{seed}{rows}"), rows).script()


def both(left: Sequence[Column], left_name: str, right: Sequence[Column], right_name: str) -> list[tuple[str, Column]]:
    """The columns of two sides of a join, with the names of their sides."""
    return [(f"{left_name}.{c.name}", c) for c in left] + [(f"{right_name}.{c.name}", c) for c in right]


@dataclass
class _Maker:
    rng: random.Random
    rows: bool
    used: dict[str, None] = field(default_factory=dict)
    views: list[str] = field(default_factory=list)
    count: int = 0

    def script(self) -> RandomQuery:
        query = self.query(self.rng.choice((2, 3, 3, 4)))
        query = self.plain(query)
        sink = ", ".join(f"{c.name} {TYPES[c.kind]}" for c in query.columns)
        # With rows that may be late, the result would depend on the order of arrival.
        delay = 90 if self.rows else 1
        tables = [
            f"CREATE TABLE {t} ({TABLES[t].format(delay=delay)}) "
            f"WITH ('connector'='filesystem', 'path'='${{DIR}}/{t}.json', {FORMATS.get(t, JSON)});"
            for t in self.used
        ]
        insert = f"INSERT INTO out_t {query.sql};"
        lines = [
            *self.options(),
            *tables,
            *self.views,
            f"CREATE TABLE out_t ({sink}) WITH ('connector'='print');",
            insert,
        ]
        return RandomQuery("\n".join(lines) + "\n", {t: table_input(self.rng, t) for t in self.used})

    def options(self) -> list[str]:
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
        return [f"SET '{k}' = '{v}';" for k, v in out.items()]

    # small things

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

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
        """``query`` for the sink: one time attribute of event time at most."""
        times = query.of("r")
        if len(times) < 2:
            return query
        item, _ = self.source(query)
        parts = [f"CAST({c.name} AS TIMESTAMP(3)) AS {c.name}" if c in times[1:] else c.name for c in query.columns]
        return replace(query, sql=f"SELECT {', '.join(parts)} FROM {item}")

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
        found = query.of("i")
        return self.rng.choice(found) if found else None

    # queries

    def query(self, depth: int) -> Query:
        """A random query; ``depth`` is how many operators stand on one another at most."""
        if depth <= 0:
            return self.table()
        makers: list[tuple[float, Callable[[int], Query | None]]] = [
            (1.0, self.calc),
            (1.5, self.aggregate),
            (0.6, self.distinct),
            (1.5, self.join),
            (1.0, self.semi),
            (0.8, self.union),
            (0.4, self.set_operation),
            (1.2, self.window),
            (1.8, self.group_window),
            (0.7, self.window_rank),
            (0.7, self.window_join),
            (0.8, self.interval_join),
            (1.0, self.over),
            (1.0, self.deduplicate),
            (1.0, self.top),
            (0.6, self.match),
            (0.6, self.temporal),
            (0.5, self.scalar),
        ]
        while True:
            made = self.rng.choices([m for _, m in makers], [w for w, _ in makers])[0](depth - 1)
            if made is not None:
                return made

    def table(self, *names: str) -> Query:
        known = names or (
            ("a", "a", "b", "n", "c", "d", "e") if self.rows else ("a", "a", "b", "n", "pr", "c", "d", "e")
        )
        name = self.rng.choice(known)
        self.used[name] = None
        columns = tuple(Column(*text.split(":")) for text in COLUMNS[name].split())
        return Query(f"SELECT * FROM {name}", columns, name in ("a", "b", "n", "pr"))

    def timed(self, depth: int) -> Query | None:
        """A query with a time attribute, most often one that only inserts."""
        for _ in range(6):
            found = self.query(depth) if self.chance(0.7) else self.table("a", "b")
            if found.of("r") and (found.appends or self.chance(0.2)):
                return found
        return self.table("a", "b")

    def calc(self, depth: int) -> Query:
        below = self.query(depth)
        item, alias = self.source(below)
        kept = [c for c in below.columns if self.chance(0.85)] or list(below.columns)
        columns = [(f"{alias}.{c.name}", c) for c in kept]
        if below.of("i") and self.chance(0.4):
            c = self.rng.choice(below.of("i"))
            columns.append((f"{alias}.{c.name} + 1", Column(self.name("x"), "i")))
        if below.of("s") and self.chance(0.3):
            c = self.rng.choice(below.of("s"))
            columns.append((f"UPPER({alias}.{c.name})", Column(self.name("x"), "s")))
        items, out = self.projected(columns)
        where = f" WHERE {self.condition(below, alias)}" if self.chance(0.6) else ""
        return Query(f"SELECT {items} FROM {item}{where}", out, below.appends)

    def calls(self, below: Query) -> list[tuple[str, Column]]:
        """Some aggregates over a query."""
        out = [("COUNT(*)", Column(self.name("x"), "l"))] if self.chance(0.7) else []
        for _ in range(self.rng.randint(0 if out else 1, 2)):
            c = self.rng.choice(below.columns)
            if c.kind in "il":
                text = f"{self.rng.choice(('SUM', 'MAX', 'MIN', 'COUNT'))}({c.name})"
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

    def aggregate(self, depth: int) -> Query:
        below = self.query(depth)
        item, alias = self.source(below)
        keys = [c for c in below.columns if c.kind != "p" and self.chance(0.35)]
        if not keys and self.chance(0.8):
            keys = [c for c in below.columns if c.kind != "p"][:1]
        items, out = self.projected([*((c.name, c) for c in keys), *self.calls(below)])
        group = f" GROUP BY {', '.join(c.name for c in keys)}" if keys else ""
        having = " HAVING COUNT(*) > 1" if keys and self.chance(0.15) else ""
        hint = f"/*+ STATE_TTL('{alias}' = '2 h') */ " if keys and self.chance(0.1) else ""
        return Query(f"SELECT {hint}{items} FROM {item}{group}{having}", out, False)

    def distinct(self, depth: int) -> Query:
        below = self.query(depth)
        item, _ = self.source(below)
        kept = [c for c in below.columns if c.kind != "p" and self.chance(0.7)] or list(below.columns)
        return Query(f"SELECT DISTINCT {', '.join(c.name for c in kept)} FROM {item}", tuple(kept), False)

    def join(self, depth: int) -> Query | None:
        left, right = self.query(depth), self.query(depth - 1 if self.chance(0.6) else 0)
        one, other = self.key(left), self.key(right)
        if one is None or other is None:
            return None
        (first, lhs), (second, rhs) = self.source(left), self.source(right)
        how = self.rng.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        on = f"{lhs}.{one.name} = {rhs}.{other.name}"
        if self.chance(0.2):
            query, alias = self.rng.choice(((left, lhs), (right, rhs)))
            on += f" AND {self.condition(query, alias)}"
        columns = both(left.columns, lhs, right.columns, rhs)
        items, out = self.projected([c for c in columns if self.chance(0.8)] or columns)
        where = f" WHERE {self.condition(left, lhs)}" if self.chance(0.2) else ""
        hint = f"/*+ STATE_TTL('{lhs}' = '3 h') */ " if self.chance(0.1) else ""
        appends = how == "JOIN" and left.appends and right.appends
        return Query(f"SELECT {hint}{items} FROM {first} {how} {second} ON {on}{where}", out, appends)

    def semi(self, depth: int) -> Query | None:
        left, right = self.query(depth), self.query(min(depth, 1) if self.chance(0.4) else 0)
        one, other = self.key(left), self.key(right)
        if one is None or other is None:
            return None
        item, alias = self.source(left)
        below, inner = self.source(right)
        negated = self.chance(0.3)
        way = self.rng.random()
        if way < 0.6 or (negated and way < 0.3):
            more = f" WHERE {self.condition(right, inner)}" if self.chance(0.4) else ""
            test = f"{alias}.{one.name} IN (SELECT {inner}.{other.name} FROM {below}{more})"
        else:
            test = f"EXISTS (SELECT 1 FROM {below} WHERE {inner}.{other.name} = {alias}.{one.name})"
        text = f"SELECT * FROM {item} WHERE {'NOT ' if negated else ''}{test}"
        return Query(text, left.columns, left.appends and right.appends and not negated)

    def union(self, depth: int) -> Query | None:
        left = self.query(depth)
        right = self.alike(left, depth)
        word = self.rng.choice(("UNION ALL", "UNION ALL", "UNION"))
        return Query(f"{self.branch(left)} {word} {right}", left.columns, left.appends and word == "UNION ALL")

    def alike(self, left: Query, depth: int) -> str:
        """Another SELECT with columns of the same kinds."""
        kinds = [c.kind for c in left.columns]
        for _ in range(8):
            other = self.query(self.rng.randint(0, max(depth, 0)))
            if not other.appends:
                continue
            found: list[str] = []
            for kind in kinds:
                match = [c.name for c in other.of(kind) if c.name not in found]
                if not match:
                    break
                found.append(match[0])
            if len(found) == len(kinds):
                item, _ = self.source(other)
                return f"SELECT {', '.join(found)} FROM {item}"
        item, alias = self.source(left)
        return f"SELECT * FROM {item} WHERE {self.condition(left, alias)}"

    @staticmethod
    def branch(query: Query) -> str:
        return query.sql if " UNION " not in query.sql else f"SELECT * FROM ({query.sql})"

    def set_operation(self, depth: int) -> Query | None:
        left = self.query(depth)
        word = self.rng.choice(("INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"))
        kept = [c for c in left.columns if c.kind != "p"][:3]
        if not kept:
            return None
        left = Query(f"SELECT {', '.join(c.name for c in kept)} FROM {self.source(left)[0]}", tuple(kept), left.appends)
        return Query(f"SELECT * FROM ({self.branch(left)} {word} {self.alike(left, depth)})", left.columns, False)

    # windows

    def windowed(self, below: Query, time: Column) -> tuple[str, str]:
        """FROM item of a window table function, and its alias."""
        span = self.rng.choice(_SPANS)
        step = f"INTERVAL '{self.rng.choice(('1', '2', span))}' SECOND, INTERVAL '{int(span) * 2}' SECOND"
        kind = self.rng.choice(("TUMBLE", "TUMBLE", "HOP", "CUMULATE"))
        lengths = f"INTERVAL '{span}' SECOND" if kind == "TUMBLE" else step
        alias = self.name("q")
        named = self.derived(below, by_name=True)
        return f"TABLE({kind}(TABLE {named}, DESCRIPTOR({time.name}), {lengths})) AS {alias}", alias

    def window(self, depth: int) -> Query | None:
        below = self.timed(depth)
        if below is None:
            return None
        item, _ = self.windowed(below, self.rng.choice(below.of("r")))
        keys = [c for c in below.of("i", "s") if self.chance(0.5)]
        told = [("window_start", Column("window_start", "t")), ("window_end", Column("window_end", "t"))]
        group = [c.name for c in keys] + ["window_start", "window_end"]
        if self.chance(0.4):
            told.append(("window_time", Column("window_time", "r")))
            group.append("window_time")
        items, out = self.projected([*((c.name, c) for c in keys), *told, *self.calls(below)])
        return Query(f"SELECT {items} FROM {item} GROUP BY {', '.join(group)}", out, True)

    def group_window(self, depth: int) -> Query | None:
        below = self.timed(depth)
        if below is None:
            return None
        item, _ = self.source(below)
        time = self.rng.choice(below.of("r")).name
        kind = self.rng.choice(("TUMBLE", "HOP", "SESSION"))
        span = self.rng.choice(_SPANS)
        lengths = f"INTERVAL '{span}' SECOND"
        if kind == "HOP":
            lengths += f", INTERVAL '{int(span) * 2}' SECOND"
        call = f"({time}, {lengths})"
        keys = [c for c in below.of("i", "s") if self.chance(0.5)]
        told = [
            (f"{kind}_START{call}", Column(self.name("x"), "t")),
            (f"{kind}_END{call}", Column(self.name("x"), "t")),
        ]
        if self.chance(0.5):
            told.append((f"{kind}_ROWTIME{call}", Column(self.name("x"), "r")))
        told = [t for t in told if self.chance(0.8)]
        items, out = self.projected([*((c.name, c) for c in keys), *told, *self.calls(below)])
        group = ", ".join([*(c.name for c in keys), kind + call])
        return Query(f"SELECT {items} FROM {item} GROUP BY {group}", out, True)

    def window_rank(self, depth: int) -> Query | None:
        below = self.timed(depth)
        if below is None or any(c.name.startswith("window_") for c in below.columns):
            return None
        item, _ = self.windowed(below, self.rng.choice(below.of("r")))
        keys = [c.name for c in below.of("i", "s") if self.chance(0.4)]
        order = ", ".join(f"{c.name} {self.rng.choice(('ASC', 'DESC'))}" for c in self.ordering(below))
        partition = ", ".join(["window_start", "window_end", *keys])
        rank = f"ROW_NUMBER() OVER (PARTITION BY {partition} ORDER BY {order}) AS rn"
        whole = (*below.columns, Column("window_start", "t"), Column("window_end", "t"))
        whole = tuple(c for c in whole if c.kind != "p")
        names = ", ".join(c.name for c in whole)
        text = f"SELECT {names} FROM (SELECT *, {rank} FROM {item}) WHERE rn <= {self.rng.randint(1, 2)}"
        return Query(text, whole, True)

    def ordering(self, below: Query) -> list[Column]:
        """Columns that order rows: all of them, where a tie would leave the result open."""
        known = [c for c in below.columns if c.kind != "p"]
        first = self.rng.choice(known)
        rest = [c for c in known if c is not first]
        return [first, *rest] if self.rows else [first, *(c for c in rest if self.chance(0.2))]

    def window_join(self, depth: int) -> Query | None:
        left, right = self.timed(depth), self.timed(0)
        if left is None or right is None:
            return None
        one, other = self.key(left), self.key(right)
        if one is None or other is None or any(c.name.startswith("window_") for c in left.columns):
            return None
        span = self.rng.choice(_SPANS)
        items = []
        for query in (left, right):
            named, time = self.derived(query, by_name=True), self.rng.choice(query.of("r")).name
            alias = self.name("q")
            inner = f"TABLE(TUMBLE(TABLE {named}, DESCRIPTOR({time}), INTERVAL '{span}' SECOND))"
            items.append((f"(SELECT * FROM {inner}) AS {alias}", alias))
        (first, lhs), (second, rhs) = items
        same = " AND ".join(f"{lhs}.{w} = {rhs}.{w}" for w in ("window_start", "window_end"))
        how = self.rng.choice(("JOIN", "LEFT JOIN", "FULL JOIN"))
        told = [
            (f"{lhs}.window_start", Column("window_start", "t")),
            (f"{lhs}.window_end", Column("window_end", "t")),
        ]
        columns = both(left.columns, lhs, right.columns, rhs)
        chosen, out = self.projected([*[c for c in columns if self.chance(0.7)], *told])
        text = f"SELECT {chosen} FROM {first} {how} {second} ON {same} AND {lhs}.{one.name} = {rhs}.{other.name}"
        return Query(text, out, True)

    # other operators on time

    def interval_join(self, depth: int) -> Query | None:
        left, right = self.timed(depth), self.timed(min(depth, 1) if self.chance(0.3) else 0)
        if left is None or right is None:
            return None
        one, other = self.key(left), self.key(right)
        if one is None or other is None:
            return None
        (first, lhs), (second, rhs) = self.source(left), self.source(right)
        when, then = (
            f"{lhs}.{self.rng.choice(left.of('r')).name}",
            f"{rhs}.{self.rng.choice(right.of('r')).name}",
        )
        how = self.rng.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        span = self.rng.choice(_SPANS)
        bound = f"{when} BETWEEN {then} - INTERVAL '{span}' SECOND AND {then} + INTERVAL '1' SECOND"
        columns = both(left.columns, lhs, right.columns, rhs)
        items, out = self.projected([c for c in columns if self.chance(0.8)] or columns)
        text = f"SELECT {items} FROM {first} {how} {second} ON {lhs}.{one.name} = {rhs}.{other.name} AND {bound}"
        return Query(text, out, left.appends and right.appends)

    def over(self, depth: int) -> Query | None:
        below = self.timed(depth) if self.chance(0.8) else self.query(depth)
        if below is None:
            return None
        item, alias = self.source(below)
        times = below.of("r") or below.of("i", "l")
        numbers = below.of("i", "l")
        if not times or not numbers:
            return None
        keys = [c.name for c in below.of("i", "s") if self.chance(0.4)]
        partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
        frames = ["", f"RANGE BETWEEN INTERVAL '{self.rng.choice(_SPANS)}' SECOND PRECEDING AND CURRENT ROW"]
        if not self.rows:
            frames.append("ROWS BETWEEN 1 PRECEDING AND CURRENT ROW")
        frame = self.rng.choice(frames) if below.of("r") else ""
        call = f"{self.rng.choice(('SUM', 'MAX', 'MIN'))}({(c := self.rng.choice(numbers)).name})"
        window = f"{call} OVER ({partition}ORDER BY {self.rng.choice(times).name} {frame}".rstrip() + ")"
        columns = [*((f"{alias}.{k.name}", k) for k in below.columns), (window, Column(self.name("x"), c.kind))]
        items, out = self.projected(columns)
        return Query(f"SELECT {items} FROM {item}", out, below.appends)

    def deduplicate(self, depth: int) -> Query | None:
        below = self.query(depth)
        times = below.of("r", "p") if not self.rows else below.of("r")
        if not times or not below.of("i", "s"):
            return None
        item, _ = self.source(below)
        keys = [c.name for c in below.of("i", "s") if self.chance(0.5)] or [below.of("i", "s")[0].name]
        time = self.rng.choice(times).name
        down = self.rng.choice(("ASC", "DESC"))
        more = "".join(f", {c.name}" for c in below.columns if c.name != time) if self.rows and len(times) else ""
        more = more if self.chance(0.5) else ""
        if self.rows and not self.unique(below):
            return None
        number = f"ROW_NUMBER() OVER (PARTITION BY {', '.join(keys)} ORDER BY {time} {down}{more}) AS rn"
        names = ", ".join(c.name for c in below.columns)
        return Query(f"SELECT {names} FROM (SELECT *, {number} FROM {item}) WHERE rn = 1", below.columns, False)

    @staticmethod
    def unique(query: Query) -> bool:
        """Whether no two rows of a query have the same time."""
        return query.sql in ("SELECT * FROM a", "SELECT * FROM b")

    def top(self, depth: int) -> Query | None:
        below = self.query(depth)
        item, _ = self.source(below)
        known = [c for c in below.columns if c.kind != "p"]
        keys = [c.name for c in known if c.kind in "is" and self.chance(0.4)]
        partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
        order = ", ".join(f"{c.name} {self.rng.choice(('ASC', 'DESC'))}" for c in self.ordering(below))
        number = f"ROW_NUMBER() OVER ({partition}ORDER BY {order}) AS rn"
        limit = self.rng.randint(1, 3)
        columns = [(c.name, c) for c in below.columns if c.kind != "p"]
        if self.chance(0.3) and "rn" not in {c.name for c in below.columns}:
            columns.append(("rn", Column("rn", "l")))
        items, out = self.projected(columns)
        return Query(f"SELECT {items} FROM (SELECT *, {number} FROM {item}) WHERE rn <= {limit}", out, False)

    def match(self, depth: int) -> Query | None:
        below = self.timed(depth)
        if below is None or not below.of("l", "i") or not below.of("i", "s"):
            return None
        if self.rows and not self.unique(below):
            return None
        named, alias = self.derived(below, by_name=True), self.name("q")
        key = self.rng.choice(below.of("i", "s"))
        value, time = self.rng.choice(below.of("l", "i")), self.rng.choice(below.of("r"))
        measures = [
            (f"A.{value.name}", Column(self.name("x"), value.kind)),
            (f"LAST(B.{value.name})", Column(self.name("x"), value.kind)),
        ]
        if self.chance(0.5):
            measures.append(
                (f"MATCH_ROWTIME({time.name})" if self.chance(0.5) else "MATCH_ROWTIME()", Column(self.name("x"), "r"))
            )
        if self.chance(0.3):
            measures.append((f"LAST(B.{time.name})", Column(self.name("x"), "t")))
        given = ", ".join(f"{text} AS {c.name}" for text, c in measures)
        text = (
            f"SELECT {alias}.* FROM {named} MATCH_RECOGNIZE (PARTITION BY {key.name} ORDER BY {time.name} "
            f"MEASURES {given} ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C) "
            f"DEFINE A AS A.{value.name} > 2, B AS B.{value.name} > 1, C AS C.{value.name} <= 5) AS {alias}"
        )
        return Query(text, (key, *(c for _, c in measures)), True)

    def temporal(self, depth: int) -> Query | None:
        left = self.timed(depth)
        if left is None or (key := self.key(left)) is None:
            return None
        if self.chance(0.5):
            versions, columns, on = "e", self.table("e").columns, "id"
        else:
            self.used["b"] = None
            versions, on = self.name("v"), "k"
            columns = self.table("b").columns
            number = "ROW_NUMBER() OVER (PARTITION BY k ORDER BY bt DESC) AS rn"
            self.views.append(
                f"CREATE TEMPORARY VIEW {versions} AS SELECT k, w, u, bt FROM (SELECT *, {number} FROM b) WHERE rn = 1;"
            )
        item, lhs = self.source(left)
        rhs = self.name("q")
        time = self.rng.choice(left.of("r")).name
        how = self.rng.choice(("JOIN", "LEFT JOIN"))
        given = both(left.columns, lhs, columns, rhs)
        items, out = self.projected([c for c in given if self.chance(0.8)] or given)
        joined = f"{item} {how} {versions} FOR SYSTEM_TIME AS OF {lhs}.{time} AS {rhs}"
        text = f"SELECT {items} FROM {joined} ON {lhs}.{key.name} = {rhs}.{on}"
        return Query(text, out, left.appends)

    def scalar(self, depth: int) -> Query | None:
        below = self.query(depth)
        key = self.key(below)
        other = self.table()
        number = other.of("l", "i")
        if key is None or not number:
            return None
        item, alias = self.source(below)
        inner = self.name("q")
        c = self.rng.choice(number)
        subquery = (
            f"(SELECT MAX({inner}.{c.name}) FROM {self.derived(other)} AS {inner} WHERE {inner}.k = {alias}.{key.name})"
        )
        columns = [*((f"{alias}.{k.name}", k) for k in below.columns), (subquery, Column(self.name("x"), c.kind))]
        items, out = self.projected(columns)
        return Query(f"SELECT {items} FROM {item}", out, False)
