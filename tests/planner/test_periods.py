"""OVERLAPS: two periods have an instant in common, whichever end stands first."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs

TIMES = (None, 0, 1, 2, 3)
"""Ends of periods: hours of a day."""


def overlap(a: int | None, b: int | None, c: int | None, d: int | None) -> bool | None:
    if a is None or b is None or c is None or d is None:
        return None
    return max(a, b) >= min(c, d) and max(c, d) >= min(a, b)


def instant(hour: int | None) -> str | None:
    return None if hour is None else f"2024-01-02 0{hour}:00:00"


def test_periods_overlap_where_they_meet(tmp_path: Path) -> None:
    env = TableEnvironment.create({"table.local-time-zone": "UTC"}, jobs=Jobs())
    cases = list(product(TIMES, repeat=4))
    rows = [{"i": i, **dict(zip("abcd", map(instant, case), strict=True))} for i, case in enumerate(cases)]
    (tmp_path / "t.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    env.execute_sql(
        "CREATE TABLE t (i INT, a TIMESTAMP(3), b TIMESTAMP(3), c TIMESTAMP(3), d TIMESTAMP(3)) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t.json', 'format' = 'json')"
    )
    query = "SELECT i, (a, b) OVERLAPS (c, d), (a, INTERVAL '1' HOUR) OVERLAPS (c, INTERVAL '-2' HOUR)"
    found = {row[0]: (row[1], row[2]) for row in env.execute_sql(f"{query} FROM t").collect()}
    for i, (a, b, c, d) in enumerate(cases):
        lasting = overlap(a, None if a is None else a + 1, c, None if c is None else c - 2)
        expected = overlap(a, b, c, d), lasting
        # A period with an unknown end may still be known to overlap, or not, by its other end.
        if None not in (a, b, c, d):
            assert found[i] == expected, (a, b, c, d)
        elif None in (a, c):
            assert found[i][1] is None
