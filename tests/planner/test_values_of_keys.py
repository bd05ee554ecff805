"""A scalar query that finds its row by a primary key is NULL where there is no such row, whatever it computes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.session.environment import TableEnvironment
from tests.planner.changelog_rows import rows_left


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ("d.v", 7),
        ("(d.v + 1) * 2 + t.a", 17),
        ("COALESCE(d.s, 'none')", "none"),
        ("'there'", "there"),
        ("d.s IS NULL", True),
        ("CASE WHEN d.v > 9 THEN 'high' ELSE 'low' END", "low"),
        ("CAST(d.id AS STRING)", "1"),
        ("d.v IN (5, 6, 7, 8)", True),
        ("d.v BETWEEN 2 AND 5 OR t.a = 3", False),
        ("d.f.b", "x"),
        ("d.f.a + 1", 5),
        ("UPPER(d.f.b || 'y')", "XY"),
    ],
)
def test_only_a_match_has_a_value(value: str, match: object, tmp_path: Path) -> None:
    tables = {
        "t": ("a INT", "json", [{"a": 1}, {"a": 2}]),
        "d": (
            "id INT, v INT, s STRING, f ROW<a INT, b STRING>, PRIMARY KEY (id) NOT ENFORCED",
            "op-json', 'op-json.mode' = 'upsert",
            [{"_op": "+U", "id": 1, "v": 7, "s": None, "f": {"a": 4, "b": "x"}}],
        ),
    }
    env = TableEnvironment.create()
    for name, (columns, form, rows) in tables.items():
        path = tmp_path / f"{name}.json"
        path.write_text("".join(json.dumps({**row, "@at": 1000 * n}) + "\n" for n, row in enumerate(rows, 1)))
        env.execute_sql(
            f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'replay', 'path' = '{path}', 'format' = '{form}')"
        )
    assert rows_left(env, f"SELECT a, (SELECT {value} FROM d WHERE d.id = t.a) FROM t") == [(1, match), (2, None)]
