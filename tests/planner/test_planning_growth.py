"""Long conditions, deep expressions and wide groups take calls in proportion to their length."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from stateplan import TableEnvironment
from stateplan.planner.formatting import format_sql

QUERIES: dict[str, Callable[[int], str]] = {
    "conditions": lambda n: "SELECT c0 FROM t WHERE " + " AND ".join(f"c0 <> {i}" for i in range(n)),
    "concatenations": lambda n: "SELECT " + " || ".join(f"CAST(c0 + {i} AS STRING)" for i in range(n)) + " FROM t",
    "aggregates": lambda n: "SELECT id, " + ", ".join(f"SUM(c{i})" for i in range(n)) + " FROM t GROUP BY id",
    "list": lambda n: f"SELECT c0 FROM t WHERE c0 IN ({', '.join(map(str, range(n)))})",
}


def calls_of(work: Callable[[], object]) -> int:
    """How many Python functions are called."""
    count = 0

    def tally(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(tally)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def planning(sql: str) -> Callable[[], object]:
    env = TableEnvironment.create()
    columns = ", ".join(f"c{i} INT" for i in range(80))
    env.execute_sql(f"CREATE TABLE t (id BIGINT, {columns}) WITH ('connector' = 'datagen')")
    return lambda: env.explain_sql(sql)


def formatting(sql: str) -> Callable[[], object]:
    return lambda: format_sql(f"{sql};")


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("work", [planning, formatting])
def test_twice_the_length_takes_about_twice_the_calls(query: str, work: Callable[[str], Callable[[], object]]) -> None:
    work(QUERIES[query](5))()  # what is imported and cached first does not count
    one, two = (calls_of(work(QUERIES[query](n))) for n in (40, 80))
    assert two < 2.7 * one, (one, two)
