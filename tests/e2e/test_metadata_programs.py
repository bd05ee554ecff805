"""Programs whose scans read metadata, in the four ways of :mod:`tests.e2e.programs`.

``metadata_plans`` has the plans that Flink 2.3 compiled for them, with ``table.plan.compile.catalog-objects`` =
``SCHEMA``, from tables of ``filesystem``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.programs import WAYS, Program

PLANS = Path(__file__).parent / "metadata_plans"
COLUMNS = ["a INT", "b BIGINT", "c VARCHAR", "`file.name` STRING NOT NULL METADATA"]
BEFORE = [[1, 1, "hi", "f"], [2, 2, "hello", "f"], [3, 2, None, "x"], [0, 2, "bye", "g"]]
AFTER = [[4, 4, "foo", "g"], [5, 2, "bar", "g"], [None, 2, "baz", "g"]]


def table(name: str, schema: list[str], **more: Any) -> dict[str, Any]:
    unset = dict.fromkeys(("primary_key", "distribution", "changelog_mode", "mode", "expected_materialized"))
    return {"name": name, "schema": schema, "partition": [], "options": {}, **unset, **more}


def program(plan: str, source: dict[str, Any], sink: dict[str, Any], sql: str) -> Program:
    rows = {
        "before_restore": [["+I", values] for values in BEFORE],
        "after_restore": [["+I", values] for values in AFTER],
    }
    spec = {
        "config": {},
        "functions": [],
        "sources": [source | rows],
        "sinks": [sink],
        "sql": [sql],
        "restore_tests": [{"after_restore_source": "FINITE"}],
    }
    return Program(plan, "TableSourceScan", spec, PLANS / f"{plan}.json")


READING = program(
    "reading",
    table("source_t", COLUMNS),
    table(
        "sink_t",
        ["a INT", "b BIGINT", "c VARCHAR", "m STRING"],
        expected_before=["+I[1, 1, hi, f]", "+I[2, 2, hello, f]", "+I[3, 2, null, x]", "+I[0, 2, bye, g]"],
        expected_after=["+I[4, 4, foo, g]", "+I[5, 2, bar, g]", "+I[null, 2, baz, g]"],
    ),
    "INSERT INTO sink_t SELECT a, b, c, `file.name` FROM source_t",
)
PUSHDOWNS = program(
    "pushdowns",
    table("source_p", COLUMNS, partition=["b"]),
    table("sink_u", ["a INT", "m STRING"], expected_before=["+I[2, f]"], expected_after=["+I[5, g]"]),
    "INSERT INTO sink_u SELECT a, `file.name` FROM source_p WHERE b = 2 AND a > 1 AND `file.name` <> 'x'",
)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tried", [READING, PUSHDOWNS], ids=lambda p: p.name)
def test_metadata_of_scans(tried: Program, way: str, tmp_path: Path) -> None:
    (sink,) = tried.spec["sinks"]
    assert WAYS[way](tried, tmp_path) == {sink["name"]: tried.expected(sink)}
