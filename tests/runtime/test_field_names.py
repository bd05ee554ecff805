"""Flink takes the fields of rows by their position; Polars takes them by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs

PAIR = "CAST(ROW(a, s) AS ROW<{}>)"
INPUT = "(VALUES (1, 'x'), (2, 'y'), (CAST(NULL AS INT), 'z')) AS t(a, s)"
PAIRS = [(1, "x"), (2, "y"), (None, "z")]
QUERIES = {
    f"SELECT ROW(a, s) FROM {INPUT}": PAIRS,
    f"SELECT {PAIR.format('b STRING, a STRING')} FROM {INPUT}": [("1", "x"), ("2", "y"), (None, "z")],
    f"SELECT CASE WHEN a = 1 THEN ROW(a, s) END FROM {INPUT}": [(1, "x"), None, None],
    f"SELECT CASE a WHEN 1 THEN {PAIR.format('p INT, q STRING')} WHEN 2 THEN {PAIR.format('q INT, p STRING')}"
    f" ELSE ROW(a, s) END FROM {INPUT}": PAIRS,
    f"SELECT COALESCE(CASE WHEN a = 1 THEN {PAIR.format('p INT, q STRING')} END, ROW(a, s)) FROM {INPUT}": PAIRS,
    f"SELECT {PAIR.format('p INT, q STRING')} FROM {INPUT} UNION ALL SELECT {PAIR.format('q INT, p STRING')}"
    f" FROM {INPUT}": PAIRS * 2,
    "SELECT ROW(g, f) FROM (SELECT CASE a WHEN 1 THEN ARRAY[ROW(s, a)]"
    f" ELSE ARRAY[CAST(ROW(s, a) AS ROW<p STRING, q INT>)] END AS rs FROM {INPUT})"
    " CROSS JOIN UNNEST(rs) AS r(f, g)": PAIRS,
}


def session() -> TableEnvironment:
    return TableEnvironment.create({"table.local-time-zone": "UTC"}, jobs=Jobs())


def written(folder: Path) -> list[object]:
    files = [f for f in folder.rglob("*") if f.is_file() and not any(p.startswith((".", "_")) for p in f.parts)]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.mark.parametrize("query", QUERIES)
def test_a_sink_names_the_fields_that_it_writes(query: str, tmp_path: Path) -> None:
    env, out = session(), tmp_path / "out"
    first = "STRING" if "b STRING" in query else "INT"
    env.execute_sql(
        f"CREATE TABLE sink (r ROW<x {first}, y STRING>) "
        f"WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'json')"
    )
    env.execute_sql(f"INSERT INTO sink {query}").wait()
    found = [None if row is None else tuple(row.values()) for row in (line.get("r") for line in written(out))]
    assert sorted(found, key=repr) == sorted(QUERIES[query], key=repr)
    assert {tuple(line["r"]) for line in written(out) if line.get("r")} == {("x", "y")}


def test_fields_of_other_names_at_any_depth(capfd: pytest.CaptureFixture[str]) -> None:
    env = session()
    env.execute_sql(
        "CREATE TABLE sink (xs ARRAY<ROW<b INT, a ROW<c STRING>>>, m MAP<STRING, ROW<v INT>>) "
        "WITH ('connector' = 'print')"
    )
    env.execute_sql(f"INSERT INTO sink SELECT ARRAY[ROW(a, ROW(s))], MAP[s, ROW(a)] FROM {INPUT}").wait()
    assert sorted(capfd.readouterr().out.split("\n")[:-1]) == [
        "+I[[+I[1, +I[x]]], {x=+I[1]}]",
        "+I[[+I[2, +I[y]]], {y=+I[2]}]",
        "+I[[+I[null, +I[z]]], {z=+I[null]}]",
    ]
