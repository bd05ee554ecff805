"""A difference to Flink takes the name of a fault only where all of it is that fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.flink_faults import Answer, fault_of
from scripts.random_queries import BOTH_REFUSE, SPLITS, difference, our_rows
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


def test_a_time_that_a_join_makes_plain_is_refused_by_both(tmp_path: Path) -> None:
    """Flink names the window over it, and this project the OVER above."""
    table = (
        "(a INT, t TIMESTAMP(3), WATERMARK FOR t AS t) WITH ('connector'='filesystem', 'path'='/t', 'format'='json')"
    )
    (tmp_path / "script.sql").write_text(
        f"CREATE TABLE l {table};\nCREATE TABLE r {table};\n"
        "CREATE TABLE o (n BIGINT) WITH ('connector'='print');\n"
        "CREATE TEMPORARY VIEW j AS SELECT l.a, l.t FROM l JOIN r ON l.a = r.a;\n"
        "INSERT INTO o SELECT SUM(n) OVER (ORDER BY window_time RANGE BETWEEN INTERVAL '2' SECOND PRECEDING "
        "AND CURRENT ROW) FROM (SELECT window_time, COUNT(*) AS n FROM "
        "TABLE(TUMBLE(TABLE j, DESCRIPTOR(t), INTERVAL '1' SECOND)) GROUP BY window_start, window_end, window_time);"
    )
    message = "The window function requires the timecol is a time attribute type, but is TIMESTAMP(3)."
    (tmp_path / "refused.txt").write_text(message)
    assert difference(Case(tmp_path), rows=False, late=False).said == BOTH_REFUSE


MARKERS = "vcol_left_marker, vcol_right_marker"


@pytest.mark.parametrize(
    ("calc", "named"),
    [
        (f"Calc(select=[CAST(t AS TIMESTAMP(3)) AS t, c, {MARKERS}])", True),
        (f"LocalWindowAggregate(groupBy=[c], select=[COUNT(vcol_left_marker), t, {MARKERS}])", False),
    ],
)
def test_markers_of_intersect_all(calc: str, named: bool, tmp_path: Path) -> None:
    nodes = [{"id": 1, "description": f"Union(all=[true], union=[t, c, {MARKERS}])"}, {"id": 2, "description": calc}]
    (tmp_path / "plan.json").write_text(json.dumps({"nodes": nodes, "edges": [{"source": 1, "target": 2}]}))
    assert bool(fault_of(Answer(tmp_path))) is named


def test_intersect_all_of_times_has_the_rows_of_both(tmp_path: Path) -> None:
    """In Flink, also those that only ``b`` has."""
    windows = (
        "SELECT window_time, COUNT({0}) FROM TABLE(TUMBLE(TABLE {1}, DESCRIPTOR(t), INTERVAL '2' SECOND)) "
        "GROUP BY k, window_start, window_end, window_time"
    )
    tables = "".join(
        f"CREATE TABLE {name} (k INT, v INT, t TIMESTAMP(3), WATERMARK FOR t AS t) WITH "
        f"('connector'='filesystem', 'path'='${{DIR}}/{name}.json', 'format'='json');\n"
        for name in "ab"
    )
    (tmp_path / "script.sql").write_text(
        f"{tables}CREATE TABLE o (t TIMESTAMP(3), n BIGINT) WITH ('connector'='print');\n"
        f"INSERT INTO o {windows.format('v', 'a')} INTERSECT ALL {windows.format('v', 'b')};"
    )
    for name, rows in (
        ("a", [(1, 1, 0), (2, 1, 1), (1, 1, 4)]),
        ("b", [(1, 7, 0), (1, None, 2), (3, 1, 4), (4, 1, 5)]),
    ):
        lines = [json.dumps({"k": k, "v": v, "t": f"2026-01-01 00:00:0{t}"}) for k, v, t in rows]
        (tmp_path / f"{name}.json").write_text("".join(f"{line}\n" for line in lines))
    for step, key_groups in SPLITS:
        rows_here = our_rows(Case(tmp_path), tmp_path / f"run{step}", step, key_groups)
        assert rows_here == ["[2026-01-01T00:00:01.999, 1]", "[2026-01-01T00:00:05.999, 1]"]


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
