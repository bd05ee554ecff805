"""Aggregates of windows go on from the slices that they keep, with other windows, keys and calls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import CheckpointError
from tests.support.evolving import Play, Tables, goes_on, is_refused, replayed, sink
from tests.support.long_runs import LONG

DDL = (
    replayed(
        "orders",
        "product STRING, shop STRING, amount INT, price DOUBLE, cost DECIMAL(8, 2), ts TIMESTAMP(3), "
        "arrived AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND",
    )
    + sink()
)
ONE_PHASE = "SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE';\n"


def second(number: int) -> str:
    return f"2026-01-01 00:{number // 60:02}:{number % 60:02}"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    tables = Tables(tmp_path_factory.mktemp("slices"), DDL)
    seconds = [(1, 1, 4, 3), (7, 9, 12, 2), (14, 13, 10), (21, 8, 19, 17, 24), (31, 25, 29, 27), (47, 40, 44)]
    rows = [
        (at, "abc"[number % 3], "xy"[number % 2], None if number % 5 == 4 else 10 * at + number, 0.5, 1.25, second(s))
        for at, some in enumerate(seconds, 1)
        for number, s in enumerate(some)
    ]
    tables.arrive_in("orders", "@at, product, shop, amount, price, cost, ts", rows)
    return tables


def windows(kind: str, *lengths: int, keys: str = "", calls: str = "COUNT(*), SUM(amount), 0") -> str:
    """An aggregate of windows; lengths in seconds."""
    text = ", ".join(f"INTERVAL '{n}' SECOND" for n in lengths)
    table = f"TABLE({kind}(TABLE orders, DESCRIPTOR(ts), {text}))"
    start = f"CONCAT_WS('|', {keys + ', ' if keys else ''}CAST(window_start AS STRING), CAST(window_end AS STRING))"
    group = f"GROUP BY window_start, window_end{', ' + keys if keys else ''}"
    return f"INSERT INTO out1 SELECT {start}, {calls} FROM {table} {group}"


STOPS = (1, 2, 3, 4, 5) if LONG else (2, 4)
"""The first window has closed, or others have, too."""


def grouped(kind: str, *lengths: int, calls: str = "COUNT(*), SUM(amount), 0") -> str:
    """An aggregate of windows as GROUP BY has them; lengths in seconds."""
    intervals = ", ".join(f"INTERVAL '{n}' SECOND" for n in lengths)
    text = f"(ts, {intervals})"
    start = f"CAST({kind}_START{text} AS STRING)"
    return f"INSERT INTO out1 SELECT {start}, {calls} FROM orders GROUP BY {kind}{text}, product"


@pytest.mark.halved
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (grouped("TUMBLE", 10), grouped("TUMBLE", 10, calls="AVG(amount), COUNT(amount), 0")),
        (grouped("HOP", 5, 10), grouped("TUMBLE", 10)),
        (grouped("TUMBLE", 10), windows("TUMBLE", 10, keys="product")),
        (windows("HOP", 5, 10, keys="product, shop"), grouped("HOP", 5, 10)),
    ],
)
@pytest.mark.parametrize("phase", ["", ONE_PHASE])
def test_windows_of_group_by_are_those_of_a_function(before: str, after: str, phase: str, tables: Tables) -> None:
    if "AVG" in after:
        before = before.replace("SUM(amount), 0", "SUM(amount), COUNT(amount)").replace("SUM(", "AVG(")
    assert goes_on(tables, phase + before, phase + after, stops=STOPS) == "derive"


SESSION = "TABLE(SESSION(TABLE orders PARTITION BY product, DESCRIPTOR({}), INTERVAL '{}' SECOND))"
CLOCK = "TABLE(TUMBLE(TABLE orders, DESCRIPTOR(arrived), INTERVAL '0.003' SECOND))"
BY_WINDOW = "GROUP BY product, window_start, window_end"


@pytest.mark.halved
@pytest.mark.parametrize(
    ("rows", "keys"),
    [
        (SESSION.format("ts", 4), BY_WINDOW),
        (SESSION.format("arrived", "0.002"), BY_WINDOW),
        (CLOCK, BY_WINDOW),
        ("orders", "GROUP BY product, SESSION(ts, INTERVAL '4' SECOND)"),
        ("orders", "GROUP BY product, TUMBLE(arrived, INTERVAL '0.003' SECOND)"),
    ],
)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("COUNT(*), SUM(amount), MAX(amount)", "MAX(amount), 0, COUNT(*)"),
        ("SUM(amount), 0, COUNT(*)", "COUNT(amount), COUNT(*), 0"),
        ("0, CAST(SUM(cost) AS BIGINT), MIN(amount)", "CAST(AVG(cost) AS BIGINT), CAST(SUM(cost) AS BIGINT), 0"),
    ],
)
def test_calls_of_other_windows_follow_from_what_is_kept(
    before: str, after: str, rows: str, keys: str, tables: Tables
) -> None:
    statements = [f"INSERT INTO out1 SELECT product, {calls} FROM {rows} {keys}" for calls in (before, after)]
    assert goes_on(tables, statements[0], statements[1], stops=STOPS) == "rewrite"
    added = statements[1].replace("product,", "CAST(MIN(price) AS STRING),", 1)
    is_refused(tables, statements[0], added, "would not have seen")


@pytest.mark.parametrize("phases", [("", ONE_PHASE), (ONE_PHASE, "")])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (windows("TUMBLE", 10), windows("TUMBLE", 10)),
        (windows("HOP", 5, 10, keys="product"), windows("HOP", 5, 10, keys="product")),
        (windows("CUMULATE", 5, 20, keys="product, shop"), windows("TUMBLE", 20, keys="shop")),
    ],
)
def test_slices_get_other_phases(before: str, after: str, phases: tuple[str, str], tables: Tables) -> None:
    assert goes_on(tables, phases[0] + before, phases[1] + after, stops=STOPS) == "derive"


def test_an_aggregate_behind_windows_is_the_same_in_other_phases(tables: Tables) -> None:
    (start, _, rest) = windows("TUMBLE", 10).partition("INSERT INTO out1 SELECT ")
    inner = f"SELECT window_end, COUNT(*) AS n{rest[rest.index(' FROM') :]}"
    query = f"INSERT INTO out1 SELECT 'all', n, COUNT(*), MAX(n) FROM ({inner}) GROUP BY n"
    assert start == ""
    assert goes_on(tables, query, ONE_PHASE + query) == "derive"


@pytest.mark.parametrize("phases", [("", ONE_PHASE), (ONE_PHASE, "")])
def test_single_values_of_windows_keep_their_phases(phases: tuple[str, str], tables: Tables) -> None:
    query = windows("TUMBLE", 10, calls="COUNT(DISTINCT amount), 0, 0")
    is_refused(tables, phases[0] + query, phases[1] + query, "keep their phases")


def test_windows_of_ten_seconds_follow_from_hopping_ones(tables: Tables) -> None:
    old = Play(tables.plan(windows("HOP", 5, 10)))
    old.run(0, 1)
    new, notes = old.evolve(tables.plan(windows("TUMBLE", 10)))
    assert notes[-1].endswith("is derived: its windows consist of slices that are kept")
    assert new.run(1, 2)[0] == ["0 +I ('2026-01-01 00:00:00.000|2026-01-01 00:00:10.000', 7, 110, 0)"]


@pytest.mark.halved
@pytest.mark.parametrize("phase", ["", ONE_PHASE])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (windows("HOP", 5, 10), windows("TUMBLE", 10)),
        (windows("HOP", 5, 10), windows("TUMBLE", 5)),
        (windows("HOP", 5, 20), windows("HOP", 5, 10)),
        (windows("HOP", 5, 20), windows("HOP", 10, 20)),
        (windows("HOP", 5, 20), windows("CUMULATE", 5, 20)),
        (windows("HOP", 5, 10), windows("CUMULATE", 5, 10)),
        (windows("CUMULATE", 5, 20), windows("TUMBLE", 20)),
        (windows("CUMULATE", 5, 20), windows("TUMBLE", 10)),
        (windows("CUMULATE", 5, 20), windows("CUMULATE", 10, 20)),
        (windows("TUMBLE", 10), windows("TUMBLE", 10, calls="SUM(amount), COUNT(amount), COUNT(*)")),
        (windows("TUMBLE", 10, calls="AVG(amount), 0, 0"), windows("TUMBLE", 10, calls="SUM(amount * 2), 0, 0")),
        (windows("HOP", 5, 10, keys="product, shop"), windows("HOP", 5, 10, keys="shop, product")),
        (windows("HOP", 5, 10, keys="product, shop"), windows("TUMBLE", 10, keys="shop")),
        (windows("TUMBLE", 10, keys="product"), windows("TUMBLE", 10)),
    ],
)
def test_slices_are_kept(before: str, after: str, phase: str, tables: Tables) -> None:
    assert goes_on(tables, phase + before, phase + after, stops=STOPS) == "derive"


@pytest.mark.parametrize(
    ("before", "after", "stops"),
    [
        (windows("TUMBLE", 10), windows("TUMBLE", 20), [1, 4, 5, 6]),
        (windows("TUMBLE", 10), windows("CUMULATE", 10, 20), [1, 4, 5, 6]),
        (windows("TUMBLE", 10, keys="product"), windows("TUMBLE", 30), [1]),
        (windows("CUMULATE", 5, 10), windows("HOP", 5, 10), [5, 6]),
    ],
)
def test_larger_windows_follow_while_none_of_their_slices_is_dropped(
    before: str, after: str, stops: list[int], tables: Tables
) -> None:
    old_plan, new_plan = tables.plan(before), tables.plan(after)
    verdicts = {}
    for stop in range(1, 7):
        old = Play(old_plan)
        old.run(0, stop)
        try:
            old.evolve(new_plan, "derive")
        except CheckpointError as error:
            assert "open when slices that they contain have been dropped, as at the watermark" in error.message
            continue
        verdicts[stop] = goes_on(tables, before, after, "derive", [stop])
    assert verdicts == dict.fromkeys(stops, "derive")


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (windows("HOP", 5, 10), windows("HOP", 5, 20), "open when slices that they contain have been dropped"),
        (windows("TUMBLE", 10), windows("HOP", 10, 20), "open when slices that they contain have been dropped"),
        (windows("TUMBLE", 10), windows("TUMBLE", 5), "do not consist of the slices"),
        (windows("HOP", 5, 10), windows("HOP", 4, 8), "do not consist of the slices"),
        (windows("TUMBLE", 10), windows("TUMBLE", 10, calls="MAX(amount), 0, 0"), "would not have seen"),
        (
            windows("HOP", 5, 10, calls="0, 0, CAST(SUM(price) AS BIGINT)"),
            windows("TUMBLE", 10, calls="0, 0, CAST(SUM(price) AS BIGINT)"),
            "cannot be merged exactly",
        ),
    ],
)
def test_slices_are_missing(before: str, after: str, reason: str, tables: Tables) -> None:
    is_refused(tables, before, after, reason)


SPANS = ((5, 10), (5, 20), (10, 20), (4, 8), (5, 15), (2, 4), (10, 30))


@given(
    st.tuples(st.sampled_from(["TUMBLE", "HOP", "CUMULATE"]), st.sampled_from(SPANS), st.sampled_from(["", "product"])),
    st.tuples(st.sampled_from(["TUMBLE", "HOP", "CUMULATE"]), st.sampled_from(SPANS), st.sampled_from(["", "product"])),
)
def test_what_is_derived_is_exact(
    tables: Tables, before: tuple[str, tuple[int, int], str], after: tuple[str, tuple[int, int], str]
) -> None:
    old, new = (windows(k, *(s[1:] if k == "TUMBLE" else s), keys=keys) for k, s, keys in (before, after))
    try:
        goes_on(tables, old, new, accept="derive", stops=STOPS)
    except CheckpointError as error:
        assert error.code == "CKPT003"
