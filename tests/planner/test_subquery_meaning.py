"""Queries inside expressions and set operations leave the rows that SQLite finds over the same tables."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import Inserts, read_script
from tests.support.cases import Case, replay_script
from tests.support.local import fold, printed
from tests.support.long_runs import LONG, share

ROWS = Path(__file__).parent / "golden_rows"
COLUMNS = "a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN"

# A query that refers to the row around in an OR finds nothing for a row with NULL in what it refers to, as in Flink:
# the queries here leave such rows out.
QUERIES = [
    "SELECT a, b FROM t WHERE a IN (SELECT a FROM u WHERE b > 1)",
    "SELECT a, b FROM t WHERE b NOT IN (SELECT b FROM u WHERE a = 3)",
    "SELECT a, b FROM t WHERE (a, c) IN (SELECT a, c FROM r)",
    "SELECT a, b FROM t WHERE (a, c) NOT IN (SELECT a, c FROM u WHERE c <> 'zz')",
    "SELECT a, b FROM t WHERE b IN (SELECT b FROM u WHERE u.c = t.c) AND a IN (SELECT a FROM r)",
    "SELECT a, b FROM t WHERE b NOT IN (SELECT b FROM r WHERE r.a = t.a)",
    "SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM t WHERE t.a = r.a AND t.b < r.b)",
    "SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.a = r.a AND t.c = r.c)",
    "SELECT a, b FROM t WHERE b > 0 AND EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND (u.b > 3 OR t.b > 4))",
    "SELECT a, b FROM t WHERE b > 0 AND c > '' AND NOT EXISTS (SELECT 1 FROM u WHERE u.b > t.b OR u.c = t.c)",
    "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM r WHERE r.c IS NOT DISTINCT FROM t.c)",
    "SELECT a, b FROM t WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.c IS NOT DISTINCT FROM t.c AND r.b > 3)",
    "SELECT a, (SELECT COUNT(*) FROM r WHERE r.c IS NOT DISTINCT FROM t.c) FROM t",
    "SELECT a, b FROM t WHERE b IN (SELECT b FROM u WHERE u.c IS NOT DISTINCT FROM t.c)",
    "SELECT a, b FROM t WHERE b > 8 OR EXISTS (SELECT 1 FROM u WHERE u.c IS NOT DISTINCT FROM t.c)",
    "SELECT a, b FROM t WHERE b > (SELECT MAX(b) FROM u WHERE u.a = t.a)",
    "SELECT a, b FROM t WHERE b >= (SELECT MIN(b) FROM r WHERE r.b > t.a)",
    "SELECT a, b FROM t WHERE b IN (SELECT MAX(b) FROM u WHERE u.b > t.a)",
    "SELECT a, b FROM t WHERE b IN (SELECT MAX(b) FROM u WHERE u.a = t.a)",
    "SELECT a, (SELECT COUNT(*) FROM r WHERE r.a = t.a) FROM t",
    "SELECT a, (SELECT COUNT(b) + 10 FROM r WHERE r.c = t.c AND r.b > t.b) FROM t",
    "SELECT a, (SELECT MAX(b) - MIN(b) FROM u WHERE u.a = t.a) FROM t",
    "SELECT a, b FROM t WHERE (SELECT COUNT(*) FROM u WHERE u.a = t.a) = 0",
    "SELECT a, b FROM t WHERE (SELECT COUNT(*) FROM u WHERE u.a = t.a AND u.b > 2) > 1",
    "SELECT a, b FROM t WHERE a IN (SELECT a FROM u) OR b > 10",
    "SELECT a, b FROM t WHERE c NOT IN (SELECT c FROM u) OR c NOT IN (SELECT c FROM u WHERE c IS NOT NULL)",
    "SELECT a, CASE WHEN b IN (SELECT b FROM u) THEN 1 WHEN b NOT IN (SELECT b FROM u) THEN 2 ELSE 3 END FROM t",
    "SELECT a, b FROM t WHERE b > 8 OR a IN (SELECT a FROM u WHERE u.c = t.c)",
    "SELECT a, CASE WHEN b IN (SELECT b FROM u WHERE u.c = t.c) THEN 1 ELSE 0 END FROM t",
    "SELECT a, b FROM r WHERE b > 8 OR (a, b) IN (SELECT a, b FROM u WHERE u.c = r.c)",
    "SELECT a, b FROM t WHERE a > 0 AND (b > 8 OR a NOT IN (SELECT a FROM u WHERE u.c = t.c AND a > 0))",
    "SELECT a, CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.c = t.c) THEN b ELSE 0 END FROM t",
    "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a) OR EXISTS (SELECT 1 FROM r WHERE r.b = t.b)",
    "SELECT a, b FROM t WHERE NOT (EXISTS (SELECT 1 FROM u WHERE u.a = t.a) AND b > 3)",
    "SELECT a, b FROM t WHERE a IN (SELECT a FROM u WHERE b IN (SELECT b FROM r WHERE c = 'zz'))",
    "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND EXISTS (SELECT 1 FROM r WHERE r.b = u.b))",
    "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.c IN (SELECT c FROM r WHERE r.b = t.b))",
    "SELECT t.a, u.b FROM t JOIN u ON t.a = u.a WHERE t.b IN (SELECT b FROM r)",
    "SELECT t.a, u.b FROM t LEFT JOIN u ON t.a = u.a WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.b = u.b)",
    "SELECT t.a, u.b FROM t JOIN u ON t.a = u.a AND t.b > (SELECT MIN(b) FROM r)",
    "SELECT t.a, u.b FROM t FULL JOIN u ON t.a = u.a AND t.b = u.b WHERE t.a IS NULL OR u.b IS NULL",
    "SELECT a, COUNT(*) FROM t GROUP BY a HAVING COUNT(*) > (SELECT COUNT(*) FROM u WHERE c = 'zz')",
    "SELECT a, SUM(b) FROM t WHERE c IN (SELECT c FROM r) GROUP BY a",
    "SELECT a, SUM(b + (SELECT MIN(b) FROM u)) FROM t GROUP BY a",
    "SELECT a, n FROM (SELECT a, COUNT(*) AS n FROM r GROUP BY a) AS x WHERE n IN (SELECT b FROM t)",
    "SELECT DISTINCT a, b FROM t WHERE b < (SELECT MAX(b) FROM r WHERE r.a = t.a)",
    "SELECT t.a, r.b FROM t LEFT JOIN r ON t.b IS NOT DISTINCT FROM r.a",
    "SELECT t.a, u.b FROM t RIGHT JOIN u ON t.a IS NOT DISTINCT FROM u.b AND t.b > u.a",
    "SELECT a, b FROM (SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY k, b DESC) AS n "
    "FROM (SELECT a, b, 1 AS k FROM u) AS x) AS y WHERE n <= 2",
    "SELECT a, b FROM t INTERSECT SELECT a, b FROM r",
    "SELECT a, b FROM r EXCEPT SELECT a, b FROM t",
    "SELECT a, b FROM t UNION SELECT a, b FROM r EXCEPT SELECT a, b FROM u",
    "SELECT a, b FROM t WHERE c = 'zz' AND a IN (SELECT a FROM u) AND NOT EXISTS (SELECT 1 FROM r WHERE r.b = t.b)",
    "SELECT a, b FROM t WHERE COALESCE((SELECT MAX(b) FROM u WHERE u.c = t.c), 0) > 3",
    "SELECT a, b FROM t WHERE (SELECT MAX(b) FROM u WHERE u.c = t.c) IS NULL",
    "WITH q AS (SELECT a, MAX(b) m FROM r GROUP BY a) SELECT a, b FROM t WHERE b < (SELECT m FROM q WHERE q.a = t.a)",
    "SELECT a, (SELECT b FROM r WHERE r.a = t.a ORDER BY b DESC LIMIT 1) FROM t",
    "SELECT a, b FROM t WHERE b > (SELECT b FROM u WHERE u.c = t.c ORDER BY b, a LIMIT 1 OFFSET 1)",
]  # fmt: skip

_NUMBERED = (
    "SELECT x, y FROM (SELECT {x} AS x, {y} AS y, ROW_NUMBER() OVER (PARTITION BY {each} ORDER BY {order}) AS n "
)

LATERAL = {
    "SELECT g.a, x.b FROM (SELECT DISTINCT a FROM t) AS g, LATERAL (SELECT b FROM t WHERE t.a = g.a ORDER BY b DESC "
    "LIMIT 2) AS x":
        _NUMBERED.format(x="a", y="b", each="a", order="b DESC") + "FROM t WHERE a IS NOT NULL) WHERE n <= 2",
    "SELECT x.a, x.b FROM (SELECT DISTINCT c, a FROM r) AS g, LATERAL (SELECT a, b FROM r WHERE a = g.a AND c = g.c "
    "ORDER BY b LIMIT 1) AS x":
        _NUMBERED.format(x="a", y="b", each="a, c", order="b")
        + "FROM r WHERE a IS NOT NULL AND c IS NOT NULL) WHERE n = 1",
    "SELECT 0, x.b FROM (SELECT DISTINCT b FROM t) AS g, LATERAL (SELECT b FROM t WHERE a = g.b ORDER BY b LIMIT 1) x":
        _NUMBERED.format(x="0", y="t.b", each="g.b", order="t.b")
        + "FROM (SELECT DISTINCT b FROM t) AS g JOIN t ON t.a = g.b) WHERE n = 1",
    "SELECT t.a, x.b FROM t, LATERAL (SELECT b FROM r WHERE r.a = t.a AND b > 1 ORDER BY b DESC, c LIMIT 2 OFFSET 1) x":
        "SELECT t.a, y FROM t JOIN (" + _NUMBERED.format(x="a", y="b", each="a", order="b DESC, c")
        + "FROM r WHERE b > 1) WHERE n IN (2, 3)) ON t.a = x",
    "SELECT t.a, x.b FROM t LEFT JOIN LATERAL (SELECT b + 1 AS b FROM u WHERE u.a = t.a ORDER BY b LIMIT 1) x ON TRUE":
        "SELECT a, (SELECT b + 1 FROM u WHERE u.a = t.a ORDER BY b LIMIT 1) FROM t",
    "SELECT g.a, x.b FROM (SELECT DISTINCT a FROM t) AS g, "
    "LATERAL (SELECT b FROM u WHERE u.a > g.a ORDER BY b LIMIT 1) AS x":
        _NUMBERED.format(x="g.a", y="u.b", each="g.a", order="u.b")
        + "FROM (SELECT DISTINCT a FROM t) AS g JOIN u ON u.a > g.a) WHERE n = 1",
    "SELECT t.a, x.n FROM t, "
    "LATERAL (SELECT c, COUNT(*) AS n FROM r WHERE r.a = t.a GROUP BY c ORDER BY n DESC LIMIT 1) AS x":
        "SELECT a, n FROM (SELECT a, "
        "(SELECT COUNT(*) FROM r WHERE r.a = t.a GROUP BY c ORDER BY 1 DESC LIMIT 1) AS n FROM t) WHERE n IS NOT NULL",
    "SELECT t.a, x.b FROM t, LATERAL (SELECT b FROM u WHERE u.a = t.a ORDER BY b LIMIT 0) AS x":
        "SELECT a, b FROM t WHERE FALSE",
}  # fmt: skip
"""Queries with LATERAL, and what they are without it: SQLite has none."""


def rows_of(name: str) -> list[tuple[Any, ...]]:
    """The rows that the events of a file leave."""
    left: Counter[tuple[Any, ...]] = Counter()
    for line in (ROWS / f"{name}.json").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        before, after = (event.get("before"), event.get("after")) if "op" in event else (None, event)
        for row, change in ((before, -1), (after, 1)):
            if row is not None:
                left[tuple(row[k] for k in "abc")] += change
    return list(left.elements())


@pytest.fixture(scope="module")
def sqlite() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    for name in "tur":
        connection.execute(f"CREATE TABLE {name} (a INTEGER, b INTEGER, c TEXT)")
        connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows_of(name))
    return connection


class Script(Case):
    """A query over the tables of :data:`ROWS`."""

    def __init__(self, query: str) -> None:
        super().__init__(ROWS)
        object.__setattr__(self, "query", query)

    def text(self, name: str) -> str:
        if name != "script.sql":
            return super().text(name)
        query: str = self.__dict__["query"]
        tables = [
            f"CREATE TABLE {n} ({COLUMNS}) WITH ('connector'='filesystem', 'path'='${{DIR}}/{n}.json', "
            f"'format'='{'debezium-json' if n == 'r' else 'json'}');"
            for n in "tur"
            if re.search(rf"\b{n}\b", query)
        ]
        sink = "CREATE TABLE snk (x INT, y BIGINT) WITH ('connector'='print');"
        return "\n".join([*tables, sink, f"INSERT INTO snk {query};"])


def ways() -> Iterator[tuple[str, str, int]]:
    """The queries, each with what it means and rows per micro-batch: one, a few and many in turn; in a long run all of
    these."""
    for number, (query, same) in enumerate([*((q, q) for q in QUERIES), *LATERAL.items()]):
        for step in (1, 4, 9) if LONG else ((1, 9, 4)[number % 3],):
            yield query, same, step


@pytest.mark.parametrize(("query", "same", "step"), share(ways(), 2))
def test_rows_equal_sqlites(query: str, same: str, step: int, sqlite: sqlite3.Connection, tmp_path: Path) -> None:
    environment = TableEnvironment.create()
    *before, last = read_script(replay_script(Script(query), tmp_path, step))
    for statement in before:
        environment.execute_statement(statement)
    graph = environment.session.compiler.document(Inserts.of(last.node, last.source)).graph
    expected = sorted(
        "[" + ", ".join("null" if v is None else str(v) for v in row) + "]" for row in sqlite.execute(same)
    )
    assert sorted(fold(printed(translate(graph, {}, 2)))) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a, (SELECT MAX(b) FROM u WHERE u.e = t.d) FROM t", [(1, 5), (2, None)]),
        ("SELECT b, (SELECT MAX(a) FROM t WHERE t.d = u.e) FROM u", [(5, 1), (6, None)]),
        ("SELECT a, b FROM t FULL JOIN u ON d IS NOT DISTINCT FROM e", [(1, 5), (2, 6)]),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE t.d IS NOT DISTINCT FROM u.e)", [(1,), (2,)]),
        ("SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE t.d IS NOT DISTINCT FROM u.e)", []),
        ("SELECT a, (SELECT MAX(b) FROM u WHERE u.e IS NOT DISTINCT FROM t.d) FROM t", [(1, 5), (2, 6)]),
    ],
)
def test_decimals_of_other_scales_are_keys(query: str, expected: list[object], tmp_path: Path) -> None:
    environment = TableEnvironment.create()
    tables = {"t": ("a INT, d DECIMAL(10, 2)", "ad", [(1, 10.5), (2, None)])}
    tables["u"] = ("b INT, e DECIMAL(10, 1)", "be", [(5, 10.5), (6, None)])
    for name, (columns, names, rows) in tables.items():
        path = tmp_path / f"{name}.json"
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
        environment.execute_sql(
            f"CREATE TABLE {name} ({columns}) WITH ('connector'='filesystem', 'path'='{path}', 'format'='json')"
        )
    left: Counter[tuple[Any, ...]] = Counter()
    for row in environment.execute_sql(query).collect():
        left[tuple(row)] += 1 if row.get_row_kind().name in ("INSERT", "UPDATE_AFTER") else -1
    assert sorted((+left).elements()) == expected
