"""Random queries without time: joins, aggregates, rankings, set operations, subqueries."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.random_queries.basics import Basics, both
from tests.support.random_queries.tables import Column, Query

_JOINS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")


class Relational(Basics):
    """Makers whose operators know no time."""

    def calc(self, depth: int) -> Query:
        """A projection and a filter."""
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
        if below.of("l", "i") and self.chance(0.1):
            c = self.rng.choice(below.of("l", "i"))
            columns.append((f"COALESCE({alias}.{c.name}, 7)", Column(self.name("x"), c.kind)))
        where = f" WHERE {self.condition(below, alias)}" if self.chance(0.6) else ""
        if self.late and below.sql == "SELECT * FROM a" and self.chance(0.5):
            watermark = f"CURRENT_WATERMARK({alias}.et)"
            columns.append((f"CAST({watermark} AS TIMESTAMP(3))", Column(self.name("x"), "t")))
            if self.chance(0.4):
                in_time = f"({watermark} IS NULL OR {alias}.et > {watermark})"
                where = f"{where} AND {in_time}" if where else f" WHERE {in_time}"
        items, out = self.projected(columns)
        times = self.distinct_times(below, out)
        return Query(f"SELECT {items} FROM {item}{where}", out, below.appends, self.kept(below.key, out), times)

    @staticmethod
    def kept(key: tuple[str, ...], columns: Sequence[Column]) -> tuple[str, ...]:
        """A key, where all of its columns are still there."""
        return key if set(key) <= {c.name for c in columns} else ()

    def unnested(self, depth: int) -> Query | None:
        """Each row once for each element of an array."""
        below = self.query(depth)
        numbers = below.of("i", "l")
        if not numbers:
            return None
        item, alias = self.source(below)
        c, made = self.rng.choice(numbers), Column(self.name("x"), "l")
        array = f"ARRAY[CAST({alias}.{c.name} AS BIGINT), {self.rng.randint(0, 9)}]"
        columns = [*((f"{alias}.{k.name}", k) for k in below.columns), (made.name, made)]
        items, out = self.projected(columns)
        text = f"SELECT {items} FROM {item} CROSS JOIN UNNEST({array}) AS {self.name('t')} ({made.name})"
        return Query(text, out, below.appends)

    def aggregate(self, depth: int) -> Query:
        """GROUP BY, with sets at times, HAVING and a TTL."""
        below = self.query(depth)
        item, alias = self.source(below)
        keys = [c for c in below.columns if c.kind != "p" and self.chance(0.35)]
        if not keys and self.chance(0.8):
            keys = [c for c in below.columns if c.kind != "p"][:1]
        cases = [self.case(below, alias)] if self.chance(0.2) else []
        items, out = self.projected([*((c.name, c) for c in keys), *cases, *self.calls(below)])
        group = self.grouping(keys, [text for text, _ in cases])
        having = " HAVING COUNT(*) > 1" if keys and self.chance(0.15) else ""
        hint = f"/*+ STATE_TTL('{alias}' = '2 h') */ " if keys and self.chance(0.15) else ""
        alone = not any(word in group for word in ("ROLLUP", "CUBE", "SETS"))
        unique = tuple(c.name for c in out[: len(keys) + len(cases)]) if alone else ()
        return Query(f"SELECT {hint}{items} FROM {item}{group}{having}", out, False, unique)

    def distinct(self, depth: int) -> Query:
        """SELECT DISTINCT."""
        below = self.query(depth)
        item, _ = self.source(below)
        kept = [c for c in below.columns if c.kind != "p" and self.chance(0.7)] or list(below.columns)
        return Query(f"SELECT DISTINCT {', '.join(c.name for c in kept)} FROM {item}", tuple(kept), False)

    def join(self, depth: int) -> Query | None:
        """A join of any kind, by a key most often, with further conditions at times."""
        left, right = self.query(depth), self.query(depth - 1 if self.chance(0.6) else 0)
        one, other = self.key(left), self.key(right)
        if one is None or other is None:
            return None
        (first, lhs), (second, rhs) = self.source(left), self.source(right)
        how = self.rng.choice(_JOINS)
        equal = self.rng.choice(("=", "=", "=", "=", "=", "IS NOT DISTINCT FROM"))
        on = f"{lhs}.{one.name} {equal} {rhs}.{other.name}"
        if self.chance(0.2):
            query, alias = self.rng.choice(((left, lhs), (right, rhs)))
            on += f" AND {self.condition(query, alias)}"
        if self.chance(0.2):
            here, there = self.rng.choice(left.of("i", "l")), self.rng.choice(right.of("i", "l"))
            unequal = f"{lhs}.{here.name} {self.rng.choice(('<', '>=', '<>'))} {rhs}.{there.name}"
            on = unequal if self.chance(0.2) else f"{on} AND {unequal}"
        columns = both(left.columns, lhs, right.columns, rhs)
        chosen = [c for c in columns if self.chance(0.8)] or columns
        items, out = self.projected(chosen)
        where = f" WHERE {self.condition(left, lhs)}" if self.chance(0.2) else ""
        sides = self.rng.choice(((lhs,), (rhs,), (lhs, rhs)))
        times = ", ".join(f"'{side}' = '{self.rng.choice(('0', '3 h', '1 d'))}'" for side in sides)
        hint = f"/*+ STATE_TTL({times}) */ " if self.chance(0.15) else ""
        appends = how == "JOIN" and left.appends and right.appends
        single = right.key == (other.name,) and how in ("JOIN", "LEFT JOIN") and on.startswith(f"{lhs}.{one.name} ")
        single = single and on.partition(" ")[2].startswith("= ")
        key = self.kept(left.key, out) if single else ()
        times = left.unique & {c.name for text, c in chosen if text.startswith(f"{lhs}.")} if single else frozenset()
        return Query(f"SELECT {hint}{items} FROM {first} {how} {second} ON {on}{where}", out, appends, key, times)

    def semi(self, depth: int) -> Query | None:
        """IN and EXISTS, and their negations."""
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
            if negated and self.chance(0.5):
                test = f"{alias}.{one.name} NOT IN (SELECT {inner}.{other.name} FROM {below}{more})"
                return Query(f"SELECT * FROM {item} WHERE {test}", left.columns, False, unique=left.unique)
        else:
            more = ""
            if self.chance(0.3):
                here, there = self.rng.choice(left.of("i", "l")), self.rng.choice(right.of("i", "l"))
                more = f" AND {inner}.{there.name} > {alias}.{here.name}"
            test = f"EXISTS (SELECT 1 FROM {below} WHERE {inner}.{other.name} = {alias}.{one.name}{more})"
        text = f"SELECT * FROM {item} WHERE {'NOT ' if negated else ''}{test}"
        appends = left.appends and right.appends and not negated
        return Query(text, left.columns, appends, left.key, left.unique)

    def union(self, depth: int) -> Query | None:
        """UNION and UNION ALL."""
        left = self.query(depth)
        right = self.alike(left, depth)
        word = self.rng.choice(("UNION ALL", "UNION ALL", "UNION"))
        return Query(f"{self.branch(left)} {word} {right}", left.columns, left.appends and word == "UNION ALL")

    def alike(self, left: Query, depth: int) -> str:
        """Another SELECT with columns of the same kinds."""
        kinds = [c.kind for c in left.columns]
        for _ in range(8):
            other = self.query(self.rng.randint(0, max(depth, 0)))
            if not other.appends and self.chance(0.7):
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
        """A query as a side of a set operation."""
        apart = (" UNION ", " ORDER BY ")
        return f"SELECT * FROM ({query.sql})" if any(word in query.sql for word in apart) else query.sql

    def set_operation(self, depth: int) -> Query | None:
        """INTERSECT and EXCEPT, with ALL and without."""
        left = self.query(depth)
        word = self.rng.choice(("INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"))
        kept = [c for c in left.columns if c.kind != "p"][:3]
        if not kept:
            return None
        left = Query(f"SELECT {', '.join(c.name for c in kept)} FROM {self.source(left)[0]}", tuple(kept), left.appends)
        return Query(f"SELECT * FROM ({self.branch(left)} {word} {self.alike(left, depth)})", left.columns, False)

    def set_operations(self, depth: int) -> Query | None:
        """Set operations in one another: by precedence, by parentheses, with ALL and without."""
        left = self.query(depth)
        kept = [c for c in left.columns if c.kind != "p"][:2]
        if not kept:
            return None
        left = Query(f"SELECT {', '.join(c.name for c in kept)} FROM {self.source(left)[0]}", tuple(kept), left.appends)
        words = [
            self.rng.choice(("UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"))
            for _ in range(2)
        ]
        sides = [self.branch(left), self.alike(left, depth), self.alike(left, depth)]
        text = self.rng.choice(("({}) {} ({}) {} ({})", "(({}) {} ({})) {} ({})", "({}) {} (({}) {} ({}))"))
        text = text.format(sides[0], words[0], sides[1], words[1], sides[2])
        return Query(f"SELECT * FROM ({text})", left.columns, words == ["UNION ALL"] * 2 and left.appends)

    def top(self, depth: int) -> Query:
        """The first rows of each key, in some order."""
        below = self.query(depth)
        item, _ = self.source(below)
        known = [c for c in below.columns if c.kind != "p"]
        keys = [c.name for c in known if c.kind in "is" and self.chance(0.4)]
        partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
        rank = self.name("rn")
        number = f"ROW_NUMBER() OVER ({partition}ORDER BY {self.order(below)}) AS {rank}"
        limit = f"{rank} <= {self.rng.randint(1, 3)}" if self.chance(0.85) else f"{rank} BETWEEN 2 AND 3"
        columns = [(c.name, c) for c in known]
        if self.chance(0.3):
            columns.append((rank, Column(rank, "l")))
        items, out = self.projected(columns)
        text = f"SELECT {items} FROM (SELECT *, {number} FROM {item}) WHERE {limit}"
        return Query(text, out, False, unique=self.distinct_times(below, out))

    def limit(self, depth: int) -> Query | None:
        """ORDER BY with LIMIT."""
        below = self.query(depth)
        known = [c for c in below.columns if c.kind != "p"]
        if len(known) < len(below.columns):
            return None
        item, _ = self.source(below)
        offset = f" OFFSET {self.rng.randint(1, 2)}" if self.chance(0.3) else ""
        text = f"SELECT * FROM {item} ORDER BY {self.order(below)} LIMIT {self.rng.randint(1, 6)}{offset}"
        return Query(f"SELECT * FROM ({text})", below.columns, False)

    def scalar(self, depth: int) -> Query | None:
        """A subquery among the columns, about the row around."""
        below = self.query(depth)
        key = self.key(below)
        other = self.table()
        number = other.of("l", "i")
        if key is None or not number:
            return None
        item, alias = self.source(below)
        inner = self.name("q")
        c = self.rng.choice(number)
        call = self.rng.choice(("MAX", "MAX", "MIN", "SUM", "COUNT"))
        where = f"{inner}.k = {alias}.{key.name}"
        subquery = f"(SELECT {call}({inner}.{c.name}) FROM {self.derived(other)} AS {inner} WHERE {where})"
        made = Column(self.name("x"), "l" if call == "COUNT" else c.kind)
        columns = [*((f"{alias}.{k.name}", k) for k in below.columns), (subquery, made)]
        items, out = self.projected(columns)
        return Query(f"SELECT {items} FROM {item}", out, False)

    def lateral(self, depth: int) -> Query | None:
        """LATERAL: the first rows of another table for each key, or an aggregate of them."""
        left, right = self.query(depth), self.table()
        key, other = self.key(left), self.key(right)
        if key is None or other is None:
            return None
        item, _ = self.source(left)
        inner, alias, group = self.derived(right), self.name("q"), self.name("q")
        where = f"{alias}.{other.name} = {group}.{key.name}"
        keys = f"(SELECT DISTINCT {key.name} FROM {item} WHERE {key.name} IS NOT NULL) AS {group}"
        if self.chance(0.5):
            columns = [c for c in right.columns if c.kind != "p"]
            order = ", ".join(f"{alias}.{part}" for part in self.order(right).split(", "))
            body = f"SELECT {', '.join(f'{alias}.{c.name}' for c in columns)} FROM {inner} AS {alias} WHERE {where}"
            body += f" ORDER BY {order} LIMIT {self.rng.randint(1, 2)}"
            joined, on = f"{keys}, LATERAL ({body})", ""
        else:
            number = self.rng.choice(right.of("i", "l"))
            columns = [Column(self.name("x"), number.kind)]
            call = self.rng.choice(("MAX", "SUM"))
            body = f"SELECT {call}({alias}.{number.name}) AS {columns[0].name} FROM {inner} AS {alias} WHERE {where}"
            joined, on = f"{keys} LEFT JOIN LATERAL ({body})", " ON TRUE"
        side = self.name("t")
        items, out = self.projected(both([key], group, columns, side))
        return Query(f"SELECT {items} FROM {joined} AS {side}{on}", out, False)
