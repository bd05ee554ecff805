"""Operators of OVER go on from their rows and their calls when columns, calls or the frame change."""

from __future__ import annotations

import pytest

from tests.support.evolving import Tables, goes_on, is_refused, replayed, sink

COLUMNS = (
    "k INT, g STRING, v BIGINT, m BIGINT, d DOUBLE, et TIMESTAMP(3), pt AS PROCTIME(), "
    "WATERMARK FOR et AS et - INTERVAL '1' SECOND"
)
DDL = replayed("orders", COLUMNS) + sink("a INT, b BIGINT, c BIGINT, d DOUBLE")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    tables = Tables(tmp_path_factory.mktemp("frames_of_over"), DDL)
    rows = [
        (1, 1, "x", 5, 1, 0.5, 1),
        (1, 2, "x", 3, 2, 1.5, 2),
        (1, 3, "y", 9, None, 2.5, 2),
        (1, 4, "x", None, 4, 0.1, 3),
        (2, 5, "x", 7, 5, 0.2, 4),
        (2, 6, "y", 2, 6, None, 5),
        (3, 7, "x", 1, 7, 0.3, 7),
        (3, 8, None, 4, 8, 0.7, 6),
        (3, 9, "x", 8, 9, 0.9, 3),
        (4, 10, "x", 6, 1, 1.1, 9),
        (4, 11, "y", 2**62, 1, 1.1, 9),
    ]
    at = [(at, k, g, v, m, d, f"2026-01-01 00:00:{second:02}") for at, k, g, v, m, d, second in rows]
    tables.arrive_in("orders", "@at, k, g, v, m, d, et", at)
    return tables


def over(calls: str, frame: str, time: str, rows: str = "orders") -> str:
    return f"INSERT INTO out1 SELECT k, {calls} FROM {rows} WINDOW w AS (PARTITION BY g ORDER BY {time} {frame})"


def rows_of(number: int) -> str:
    return f"ROWS BETWEEN {number} PRECEDING AND CURRENT ROW"


def seconds_of(number: int) -> str:
    return f"RANGE BETWEEN INTERVAL '{number}' SECOND PRECEDING AND CURRENT ROW"


BOUNDED = (rows_of(2), seconds_of(3))
SUM, MAX, COUNT = "SUM(v) OVER w", "MAX(v) OVER w", "COUNT(m) OVER w"


@pytest.mark.halved
@pytest.mark.parametrize("time", ["et", "pt"])
@pytest.mark.parametrize("frame", ["", *BOUNDED])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{SUM}, {MAX}, d", f"{SUM}, v, d"),
        (f"{SUM}, {MAX}, SUM(d) OVER w", f"{MAX}, {SUM}, SUM(d) OVER w"),
        (f"{COUNT}, {SUM}, SUM(d) OVER w", f"{SUM}, v, d"),
        (f"{SUM}, m, d", f"{SUM}, v, d"),
        (f"COUNT(DISTINCT v) OVER w, {SUM}, d", f"{SUM}, COUNT(DISTINCT v) OVER w, d"),
    ],
)
def test_calls_and_columns_are_removed_and_reordered(
    before: str, after: str, frame: str, time: str, tables: Tables
) -> None:
    verdict = goes_on(tables, over(before, frame, time), over(after, frame, time))
    assert verdict in ("stateless", "rewrite")


@pytest.mark.halved
@pytest.mark.parametrize("time", ["et", "pt"])
@pytest.mark.parametrize("frame", BOUNDED)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{SUM}, m, d", f"{SUM}, {MAX}, d"),
        (f"{SUM}, m, d", f"{COUNT}, MIN(v) OVER w, MAX(d) OVER w"),
        (f"{MAX}, m, 0", "SUM(m) OVER w, AVG(v) OVER w, COUNT(*) OVER w"),
        (f"{SUM}, m, 0", "SUM(v + m) OVER w, COUNT(DISTINCT v) OVER w, 1"),
        ("v, m, SUM(d) OVER w", f"{SUM}, m, SUM(d) OVER w"),
    ],
)
def test_calls_follow_from_the_rows_of_frames(before: str, after: str, frame: str, time: str, tables: Tables) -> None:
    before, after = (over(calls, frame, time) for calls in (before, after))
    assert goes_on(tables, before, after) == "derive"


@pytest.mark.halved
@pytest.mark.parametrize("time", ["et", "pt"])
@pytest.mark.parametrize("to", [0, 1, 2])
@pytest.mark.parametrize("after", [f"{SUM}, v, d", f"{COUNT}, {MAX}, v"])
def test_a_frame_of_fewer_rows_has_the_last_ones(after: str, to: int, time: str, tables: Tables) -> None:
    before = over(f"{SUM}, m, d", rows_of(3), time)
    assert goes_on(tables, before, over(after, rows_of(to), time)) == "derive"


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (over(f"{SUM}, 0, 0", rows_of(2), "et"), over(f"{SUM}, 0, 0", rows_of(3), "et"), "in front of the old frames"),
        (over(f"{SUM}, 0, 0", "", "et"), over(f"{SUM}, {MAX}, 0", "", "et"), "would not have seen"),
        (
            over(f"{MAX}, v, d", rows_of(2), "et"),
            over(f"{MAX}, v, SUM(d) OVER w", rows_of(2), "et"),
            "would not have seen",
        ),
        (over(f"{SUM}, 0, 0", rows_of(2), "et"), over("SUM(m) OVER w, 0, 0", rows_of(2), "et"), "lack m"),
        (over(f"{SUM}, 0, 0", seconds_of(3), "et"), over(f"{SUM}, 0, 0", seconds_of(2), "et"), "constants"),
        (
            over(f"COUNT(DISTINCT v) OVER w, {SUM}, d", "", "et"),
            over(f"{SUM}, v, d", "", "et"),
            "single values",
        ),
    ],
)
def test_what_frames_have_not_kept_is_refused(before: str, after: str, reason: str, tables: Tables) -> None:
    is_refused(tables, before, after, reason)
