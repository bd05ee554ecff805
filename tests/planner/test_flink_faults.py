"""A difference to Flink takes the name of a fault only where all of it is that fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.flink_faults import Answer, fault_of
from scripts.random_queries import BOTH_REFUSE, difference
from tests.support.cases import Case

SETS = "INSERT INTO o SELECT a FROM (SELECT a FROM t GROUP BY ROLLUP (a, b)) GROUP BY CUBE (a, b);"
SESSIONS = "CREATE TEMPORARY VIEW v AS SELECT * FROM TABLE(SESSION(TABLE t PARTITION BY (a, b), DESCRIPTOR(c)));"
WINDOW = {"nodes": [{"id": 1, "description": "GroupWindowAggregate(groupBy=[a])"}], "edges": []}


@pytest.mark.parametrize(
    ("message", "script", "name"),
    [
        ("java.lang.IndexOutOfBoundsException: 4", SETS, "sets of groups over sets of groups cannot be planned"),
        ("java.lang.IndexOutOfBoundsException: 4", SETS.replace("CUBE (a, b)", "a"), ""),
        (
            "Column 'b' not found in any table",
            SESSIONS,
            "the keys of sessions lose their parentheses in the text of a view",
        ),
        ("Column 'b' not found in any table", SESSIONS.replace("(a, b)", "a"), ""),
        ("Column 'b' not found in any table", SETS, ""),
        ("Field names must be unique. Found duplicates: [a]", "SELECT window_start AS x1", ""),
    ],
)
def test_messages(message: str, script: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "refused.txt").write_text(message)
    (tmp_path / "script.sql").write_text(script)
    assert fault_of(Answer(tmp_path)) == name


@pytest.mark.parametrize(
    ("more", "fewer", "named"),
    [
        ([], ["[1, 1970-01-01T00:00, 2]"], True),
        ([], ["[1, 1970-01-01T00:00, 2]", "[1, 2026-01-01T00:00, 2]"], False),
        (["[1, 2026-01-01T00:00, 2]"], ["[1, 1970-01-01T00:00, 2]"], False),
        (["[1, 1970-01-01T00:00, 2]"], [], False),
    ],
)
def test_rows_of_1970(more: list[str], fewer: list[str], named: bool, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(WINDOW))
    assert bool(fault_of(Answer(tmp_path, more, fewer))) is named


@pytest.mark.parametrize(("message", "same"), [("has an upsert key that differs", True), ("unexpected $cor0", False)])
def test_both_refuse_for_one_reason(message: str, same: bool, tmp_path: Path) -> None:
    (tmp_path / "script.sql").write_text(
        "CREATE TABLE t (a INT, b BIGINT) WITH ('connector'='filesystem', 'path'='/data/t', 'format'='json');\n"
        "CREATE TABLE o (a INT, n BIGINT, PRIMARY KEY (n) NOT ENFORCED) WITH ('connector'='print');\n"
        "INSERT INTO o SELECT a, COUNT(*) FROM t GROUP BY a;"
    )
    (tmp_path / "refused.txt").write_text(message)
    differs = difference(Case(tmp_path), rows=False, late=False)
    assert (differs.said == BOTH_REFUSE) is same
    assert bool(differs) is not same
