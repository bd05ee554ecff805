"""Random queries by time: windows, interval joins, OVER, deduplication, MATCH_RECOGNIZE, joins with versions."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.random_queries.basics import Basics, both
from tests.support.random_queries.tables import Column, Query

_SPANS = ("2", "5", "10")


def below_times(query: Query) -> tuple[Column, ...]:
    """The columns of a query that are not times of the clock."""
    return tuple(c for c in query.columns if c.kind != "p")


class Timed(Basics):
    """Makers whose operators know time."""

    def windowed(self, below: Query, time: Column, sessions_of: Sequence[Column] | None = None) -> tuple[str, str]:
        """FROM item of a window table function, and its alias.

        Args:
            sessions_of: the keys, where sessions are possible.
        """
        span = self.rng.choice(_SPANS)
        step = f"INTERVAL '{self.rng.choice(('1', '2', span))}' SECOND, INTERVAL '{int(span) * 2}' SECOND"
        kind = self.rng.choice(
            ("TUMBLE", "TUMBLE", "HOP", "CUMULATE", *(["SESSION"] if sessions_of is not None else []))
        )
        lengths = f"INTERVAL '{span}' SECOND" if kind in ("TUMBLE", "SESSION") else step
        alias = self.name("q")
        named = self.derived(below, by_name=True)
        keys = ", ".join(c.name for c in sessions_of or ()) if kind == "SESSION" else ""
        by = f" PARTITION BY {f'({keys})' if ',' in keys else keys}" if keys else ""
        return f"TABLE({kind}(TABLE {named}{by}, DESCRIPTOR({time.name}), {lengths})) AS {alias}", alias

    def unwindowed(self, query: Query) -> Query:
        """A query whose columns do not have the names that a window gives."""
        if not any(c.name.startswith("window_") for c in query.columns):
            return query
        columns = [Column(self.name("x"), c.kind) if c.name.startswith("window_") else c for c in query.columns]
        items = ", ".join(
            c.name if c is k else f"{k.name} AS {c.name}" for c, k in zip(columns, query.columns, strict=True)
        )
        text = f"SELECT {items} FROM {self.source(query)[0]}"
        return Query(text, tuple(columns), query.appends, unique=self.distinct_times(query, columns))

    def window(self, depth: int) -> Query | None:
        """An aggregate of a window table function."""
        below = self.unwindowed(self.timed(depth))
        keys = [c for c in below.of("i", "s") if self.chance(0.5)]
        item, alias = self.windowed(below, self.rng.choice(below.of("r")), sessions_of=keys)
        told = [("window_start", Column("window_start", "t")), ("window_end", Column("window_end", "t"))]
        group = ["window_start", "window_end"]
        if self.chance(0.4):
            told.append(("window_time", Column("window_time", "r")))
            group.append("window_time")
        cases = [self.case(below, alias)] if self.chance(0.1) else []
        items, out = self.projected([*((c.name, c) for c in keys), *cases, *told, *self.calls(below)])
        group += [text for text, _ in cases]
        alone = not keys and not cases and item.startswith(("TABLE(TUMBLE", "TABLE(HOP"))
        times = frozenset(c.name for c in out if c.kind == "r" and alone)
        return Query(f"SELECT {items} FROM {item}{self.grouping(keys, group)}", out, True, unique=times)

    def group_window(self, depth: int) -> Query | None:
        """GROUP BY TUMBLE, HOP or SESSION."""
        below = self.timed(depth)
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
        times = frozenset(c.name for c in out if c.kind == "r" and not keys)
        return Query(f"SELECT {items} FROM {item} GROUP BY {group}", out, True, unique=times)

    def window_rank(self, depth: int) -> Query | None:
        """The first rows of each window."""
        below = self.unwindowed(self.timed(depth))
        found = [c for c in below.of("i", "s") if self.chance(0.4)]
        keys = [c.name for c in found]
        item, _ = self.windowed(below, self.rng.choice(below.of("r")), found if self.chance(0.2) else None)
        order = self.order(below)
        if (time := self.time_of(below)) and self.rows and self.chance(0.3):
            order = f"{time.name} {self.rng.choice(('ASC', 'DESC'))}"
        partition = ", ".join(["window_start", "window_end", *keys])
        rn = self.name("rn")
        rank = f"ROW_NUMBER() OVER (PARTITION BY {partition} ORDER BY {order}) AS {rn}"
        whole = (*below.columns, Column("window_start", "t"), Column("window_end", "t"))
        whole = tuple(c for c in whole if c.kind != "p")
        names = ", ".join(c.name for c in whole)
        text = f"SELECT {names} FROM (SELECT *, {rank} FROM {item}) WHERE {rn} <= {self.rng.randint(1, 2)}"
        once = "TABLE(TUMBLE" in item or "TABLE(SESSION" in item
        return Query(text, whole, True, unique=self.distinct_times(below, whole) if once else frozenset())

    def window_join(self, depth: int) -> Query | None:
        """A join of two windows."""
        left, right = self.unwindowed(self.timed(depth)), self.timed(0)
        one, other = self.key(left), self.key(right)
        if one is None or other is None:
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
        how = self.rng.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        if self.chance(0.2):
            word = self.rng.choice(("IN", "NOT IN"))
            test = f"{lhs}.{one.name} {word} (SELECT {rhs}.{other.name} FROM {second} WHERE {same})"
            kept = (*below_times(left), *(Column(w, "t") for w in ("window_start", "window_end")))
            return Query(f"SELECT {', '.join(c.name for c in kept)} FROM {first} WHERE {test}", kept, True)
        told = [
            (f"{lhs}.window_start", Column("window_start", "t")),
            (f"{lhs}.window_end", Column("window_end", "t")),
        ]
        columns = both(left.columns, lhs, right.columns, rhs)
        chosen, out = self.projected([*[c for c in columns if self.chance(0.7)], *told])
        text = f"SELECT {chosen} FROM {first} {how} {second} ON {same} AND {lhs}.{one.name} = {rhs}.{other.name}"
        if self.chance(0.2):
            text += f" AND {lhs}.{one.name} < {rhs}.{self.rng.choice(right.of('i', 'l')).name} + 1"
        return Query(text, out, True)

    def interval_join(self, depth: int) -> Query | None:
        """A join of rows that are near in time."""
        left, right = self.timed(depth), self.timed(min(depth, 1) if self.chance(0.3) else 0)
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
        if self.chance(0.2):
            text += f" AND {lhs}.{self.rng.choice(left.of('i', 'l')).name} <> {rhs}.{other.name}"
        return Query(text, out, left.appends and right.appends)

    def over(self, depth: int) -> Query | None:
        """OVER: by time, by the order of arrival, and by other columns."""
        below = (
            self.arrivals()
            if self.chance(0.1) and not self.late
            else self.timed(depth)
            if self.chance(0.8)
            else self.query(depth)
        )
        item, alias = self.source(below)
        times = below.of("r", "p") or below.of("i", "l")
        numbers = below.of("i", "l")
        if not times or not numbers:
            return None
        time = self.rng.choice(times)
        keys = [c.name for c in below.of("i", "s") if self.chance(0.4)]
        partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
        frames = [""]
        if time.kind == "r":
            frames.append(f"RANGE BETWEEN INTERVAL '{self.rng.choice(_SPANS)}' SECOND PRECEDING AND CURRENT ROW")
        one_by_one = time.name in below.unique or time.kind == "p" or not self.rows
        if one_by_one and time.kind in "rp":
            rows_before = self.rng.choice(("1", "2", "5"))
            frames.append(f"ROWS BETWEEN {rows_before} PRECEDING AND CURRENT ROW")
            frames.append("ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW")
            frames = frames[1:] if self.rows and time.kind == "p" else frames
        frame = self.rng.choice(frames)
        c = self.rng.choice(numbers)
        calls = [(f"{call}({c.name})", c.kind) for call in ("SUM", "MAX", "MIN", "AVG")] + [("COUNT(*)", "l")]
        if one_by_one and time.kind == "r":
            calls += [(f"FIRST_VALUE({c.name})", c.kind), (f"LAST_VALUE({c.name})", c.kind)]
            if not frame:
                calls += [("ROW_NUMBER()", "l"), (f"LAG({c.name}, 1)", c.kind)]
        window = f"OVER ({partition}ORDER BY {time.name} {frame}".rstrip() + ")"
        columns = [(f"{alias}.{k.name}", k) for k in below.columns]
        for call, kind in self.rng.sample(calls, self.rng.choice((1, 1, 2))):
            columns.append((f"{call} {window}", Column(self.name("x"), kind)))
        items, out = self.projected(columns)
        return Query(f"SELECT {items} FROM {item}", out, below.appends, unique=self.distinct_times(below, out))

    def deduplicate(self, depth: int) -> Query | None:
        """The first or the last row of each key."""
        below = self.arrivals() if self.chance(0.15) and not self.late else self.query(depth)
        arrival = below.sql == "SELECT * FROM pr"
        times = below.of("r", "p") if arrival or not self.rows else [c for c in below.of("r") if c.name in below.unique]
        if not times or not below.of("i", "s"):
            return None
        item, alias = self.source(below)
        keys = [c.name for c in below.of("i", "s") if self.chance(0.5)] or [below.of("i", "s")[0].name]
        time, rank = self.rng.choice(times).name, self.name("rn")
        down = self.rng.choice(("ASC", "DESC"))
        more = "".join(f", {c.name}" for c in below.columns if c.name != time) if self.rows and len(times) else ""
        more = more if self.chance(0.5) and not arrival else ""
        number = f"ROW_NUMBER() OVER (PARTITION BY {', '.join(keys)} ORDER BY {time} {down}{more}) AS {rank}"
        names = ", ".join(c.name for c in below.columns)
        hint = f"/*+ STATE_TTL('{alias}' = '2 h') */ " if self.chance(0.1) else ""
        text = f"SELECT {hint}{names} FROM (SELECT *, {number} FROM {item}) WHERE {rank} = 1"
        return Query(text, below.columns, False, tuple(keys), below.unique)

    def match(self, depth: int) -> Query | None:
        """MATCH_RECOGNIZE."""
        below = self.timed(depth)
        if not below.of("l", "i") or not below.of("i", "s"):
            return None
        if (time := self.time_of(below)) is None:
            return None
        named, alias = self.derived(below, by_name=True), self.name("q")
        key = self.rng.choice(below.of("i", "s"))
        value = self.rng.choice(below.of("l", "i"))
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
        if self.chance(0.3):
            call = self.rng.choice(("SUM", "MAX", "COUNT", "FIRST"))
            measures.append((f"{call}(B.{value.name})", Column(self.name("x"), "l" if call == "COUNT" else value.kind)))
        given = ", ".join(f"{text} AS {c.name}" for text, c in measures)
        skip = self.rng.choice(("PAST LAST ROW", "PAST LAST ROW", "TO NEXT ROW", "TO NEXT ROW", "TO LAST C"))
        second = f"B.{value.name} {self.rng.choice(('> 1', '> 1', f'<> LAST(A.{value.name})'))}"
        within = f" WITHIN INTERVAL '{self.rng.choice(('3', '10'))}' SECOND" if self.chance(0.25) else ""
        pattern = self.rng.choice(("A B+ C", "A B+ C", "A B* C", "A B{1,2}? C"))
        text = (
            f"SELECT {alias}.* FROM {named} MATCH_RECOGNIZE (PARTITION BY {key.name} ORDER BY {time.name} "
            f"MEASURES {given} ONE ROW PER MATCH AFTER MATCH SKIP {skip} PATTERN ({pattern}){within} "
            f"DEFINE A AS A.{value.name} > 2, B AS {second}, C AS C.{value.name} <= 5) AS {alias}"
        )
        return Query(text, (key, *(c for _, c in measures)), True)

    def temporal(self, depth: int) -> Query | None:
        """A join with the versions of a table."""
        left = self.timed(depth)
        if (key := self.key(left)) is None:
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
        chosen = [c for c in given if self.chance(0.8)] or given
        items, out = self.projected(chosen)
        unique = left.unique & {c.name for text, c in chosen if text.startswith(f"{lhs}.")}
        joined = f"{item} {how} {versions} FOR SYSTEM_TIME AS OF {lhs}.{time} AS {rhs}"
        text = f"SELECT {items} FROM {joined} ON {lhs}.{key.name} = {rhs}.{on}"
        return Query(text, out, left.appends, unique=unique)

    def late_rows(self, depth: int) -> Query | None:
        """The rows that come late, beside an aggregate of all."""
        below = self.table("a")
        item, alias = self.source(below)
        moment, value = Column(self.name("x"), "t"), Column(self.name("x"), "l")
        columns = f"{alias}.k, CAST({alias}.et AS TIMESTAMP(3)) AS {moment.name}, {alias}.v AS {value.name}"
        is_late = f"{alias}.et {self.rng.choice(('<', '<='))} CURRENT_WATERMARK({alias}.et)"
        late = f"SELECT {columns} FROM {item} WHERE {is_late}"
        window, _ = self.windowed(below, below.of("r")[0])
        timely = f"SELECT k, window_end AS {moment.name}, SUM(v) AS {value.name} FROM {window} "
        timely += "GROUP BY k, window_start, window_end"
        return Query(f"SELECT * FROM ({late} UNION ALL {timely})", (Column("k", "i"), moment, value), True)
