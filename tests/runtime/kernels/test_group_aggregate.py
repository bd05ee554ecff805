"""GroupAggregate kernel against Flink's functions row by row."""

from __future__ import annotations

import pickle
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import RunError
from stateplan.common.types import BIGINT, DOUBLE, FLOAT, INT, STRING, LogicalType, row_type
from stateplan.execnodes.specs import AggCall
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from tests.runtime.kernels.reference import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Call,
    GroupAggregate,
    Row,
    fold,
    upsert_fold,
)
from tests.runtime.kernels.support import (
    CLOCK,
    CUTS,
    anything,
    call,
    changes_of,
    frame,
    inserting,
    legal,
    retracting,
    row_of,
    split,
)
from tests.runtime.memory_state import MemoryState

ROW = row_of("lsibb")
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, 1, 2**40]),
    st.sampled_from([None, "a", "é"]),
    st.sampled_from([None, 0, 1, 2, 3, 5, 2**31 - 1, -(2**31)]),
    st.sampled_from([None, True, False]),
    st.booleans(),
)

CALLS: list[tuple[Call, AggCall]] = [
    (Call("COUNT", None), call("COUNT", None, BIGINT)),
    (Call("COUNT", 2), call("COUNT", 2, BIGINT)),
    (Call("SUM", 2), call("SUM", 2, INT)),
    (Call("$SUM0", 2, passes=3), call("$SUM0", 2, INT, passes=3)),
    (Call("AVG", 2), call("AVG", 2, INT)),
    (Call("MIN", 2), call("MIN", 2, INT)),
    (Call("MAX", 2), call("MAX", 2, INT)),
    (Call("MAX", 1, passes=4), call("MAX", 1, STRING, passes=4)),
    (Call("COUNT", 2, True), call("COUNT", 2, BIGINT, True)),
    (Call("SUM", 2, True, 3), call("SUM", 2, INT, True, 3)),
    (Call("COUNT", 2, True, 4), call("COUNT", 2, BIGINT, True, 4)),
    (Call("COUNT", 1, True, 4), call("COUNT", 1, BIGINT, True, 4)),
    (Call("MIN", 2, True), call("MIN", 2, INT, True)),
    (Call("AVG", 0, True, bits=64), call("AVG", 0, BIGINT, True)),
]
CHOSEN = st.lists(st.sampled_from(range(len(CALLS))), max_size=5, unique=True)
GROUPING = st.sampled_from([(0,), (0, 1), (1,), ()])


def pair(chosen, grouping, retract, update_before, ttl) -> tuple[MemoryState, GroupAggregate]:
    chosen = chosen or [0]
    kernel = GroupAggregateKernel(
        ROW, grouping, tuple(CALLS[i][1] for i in chosen), (retract,) * len(chosen), update_before, retract
    )
    return MemoryState(kernel), GroupAggregate(grouping, [CALLS[i][0] for i in chosen], update_before, retract, ttl)


def test_counts_and_sums_of_two_groups() -> None:
    """``SELECT k, COUNT(*), SUM(v) GROUP BY k``: a group without rows is deleted, from the state too."""
    calls = (call("COUNT", None, BIGINT), call("SUM", 2, INT))
    state = MemoryState(GroupAggregateKernel(ROW, (0,), calls, (True, True), True, True))
    arriving = [
        (INSERT, (1, "", 10, None, True)),
        (INSERT, (1, "", 5, None, True)),
        (INSERT, (2, "", 7, None, True)),
    ]
    assert changes_of(state.step([frame(ROW, arriving)], now=1000, ttl=[0])) == [
        (INSERT, (1, 2, 15)),
        (INSERT, (2, 1, 7)),
    ]
    arriving = [(INSERT, (1, "", 1, None, True)), (DELETE, (2, "", 7, None, True))]
    assert changes_of(state.step([frame(ROW, arriving)], now=1001, ttl=[0])) == [
        (UPDATE_BEFORE, (1, 2, 15)),
        (UPDATE_AFTER, (1, 3, 16)),
        (DELETE, (2, 1, 7)),
    ]
    (group,) = state.tables[0].values()
    assert (group["c0"], group["count0"], group["sum1"], group["rows"], group["@t"]) == (1, 3, 16, 3, 1001)


@given(st.data(), CHOSEN, GROUPING, st.booleans(), st.booleans(), st.sampled_from([0, 10]), CLOCK)
def test_row_by_row_with_a_clock(data, chosen, grouping, retract, update_before, ttl, clock) -> None:
    changes = data.draw(st.one_of(retracting(ROWS, 25), anything(ROWS, 40)) if retract else inserting(ROWS, 40))
    state, flink = pair(chosen, grouping, retract, update_before, ttl)
    now = 1000
    for n, change in enumerate(changes):
        now += clock[n % len(clock)]
        assert changes_of(state.step([frame(ROW, [change])], now, [ttl])) == flink.add(change, now)
    assert state.missed == flink.missed


@given(st.data(), CHOSEN, GROUPING, st.sampled_from([0, 10_000]), CUTS)
def test_batches_of_insertions(data, chosen, grouping, ttl, cuts) -> None:
    check_batches(data.draw(inserting(ROWS, 60)), chosen, grouping, False, ttl, cuts)


@given(st.data(), CHOSEN, GROUPING, st.sampled_from([0, 10_000]), CUTS)
def test_batches_with_retractions(data, chosen, grouping, ttl, cuts) -> None:
    check_batches(data.draw(retracting(ROWS, 40)), chosen, grouping, True, ttl, cuts)


@given(st.data(), st.lists(st.sampled_from([0, 1, 2, 3, 4, 8, 9, 10, 11]), max_size=4, unique=True), GROUPING, CUTS)
def test_batches_that_retract_what_is_not_there(data, chosen, grouping, cuts) -> None:
    check_batches(data.draw(anything(ROWS, 50)), chosen, grouping, True, 0, cuts)


def check_batches(changes, chosen, grouping, retract, ttl, cuts) -> None:
    state, flink = pair(chosen, grouping, retract, True, ttl)
    upserting, _ = pair(chosen, grouping, retract, False, ttl)
    out, expected, upserts = [], [], []
    for now, batch in enumerate(split(changes, cuts)):
        mine = changes_of(state.step([frame(ROW, batch)], now, [ttl]))
        upserts += changes_of(upserting.step([frame(ROW, batch)], now, [ttl]))
        out += mine
        expected += [c for change in batch for c in flink.add(change, now)]
        assert fold(out) == fold(expected)
        seen = [row[: len(grouping)] for kind, row in mine if kind != UPDATE_BEFORE]
        assert len(seen) == len(set(seen)), "a group changes once"
    assert legal(out)
    assert state.missed == flink.missed
    key = range(len(grouping))
    assert upsert_fold(upserts, key) == upsert_fold(expected, key)
    if retract and not fold(expected) and legal(changes):
        assert not any(state.tables), "nothing is left behind"


@given(st.data(), st.sampled_from([5, 6]), st.sampled_from([0, 1000]), CUTS)
def test_extremes_of_many_values(data, which, ttl, cuts) -> None:
    """MIN and MAX when the extreme is taken away again and again."""
    rows = st.tuples(st.just(1), st.just("a"), st.integers(0, 30), st.just(True), st.just(True))
    check_batches(data.draw(retracting(rows, 80)), [which, 8], (0,), True, ttl, cuts)


def test_order_tables_are_read_for_lost_extremes_only() -> None:
    state, _ = pair([5, 6], (0,), True, True, 0)
    kernel = state.kernel
    assert isinstance(kernel, GroupAggregateKernel)
    rows = [(INSERT, (1, "a", v, True, True)) for v in (1, 2, 3)] + [(INSERT, (2**40, "a", 7, True, True))]
    state.step([frame(ROW, rows)], 1, [0])

    def asked(changes: list[tuple[int, Row]]) -> pl.DataFrame | None:
        batch = frame(ROW, changes)
        found = [state.lookup(t, k, 2, 0) for t, k in zip(kernel.tables, kernel.first_keys([batch]), strict=True)]
        return kernel.more_keys([batch], found)[-1]

    assert asked([(DELETE, (1, "a", 2, True, True))]) is None, "in the middle"
    lost = asked([(DELETE, (1, "a", 3, True, True)), (DELETE, (2**40, "a", 9, True, True))])
    assert lost is not None and lost.rows() == [(1,)]
    better = [(UPDATE_BEFORE, (1, "a", 3, True, True)), (UPDATE_AFTER, (1, "a", 4, True, True))]
    assert asked(better) is None, "replaced by a better one"
    assert asked([(INSERT, (1, "a", 5, True, True))]) is None
    everything = kernel.keys([frame(ROW, better)])[-1]
    assert everything is not None and everything.rows() == [(1,)]


def drive(
    row: LogicalType,
    grouping: tuple[int, ...],
    calls: list[AggCall],
    retract: bool,
    ttl: int,
    timed: list[tuple[int, list[tuple[int, Row]]]],
) -> list[tuple[int, Row]]:
    kernel = GroupAggregateKernel(row, grouping, tuple(calls), (retract,) * len(calls), True, retract)
    state = MemoryState(kernel)
    return [c for now, batch in timed for c in changes_of(state.step([frame(row, batch)], now, [ttl]))]


def test_a_clock_that_goes_back_loses_no_value() -> None:
    row = row_type([("g", INT), ("v", INT)])
    calls = [call("COUNT", 1, BIGINT, True), call("MAX", 1, INT)]
    rows = [(1000, INSERT, 5), (990, INSERT, 7), (980, INSERT, 6), (970, DELETE, 7), (960, INSERT, 6)]
    out = drive(row, (0,), calls, True, 0, [(t, [(k, (1, v))]) for t, k, v in rows])
    assert [r[1:] for k, r in out if k != UPDATE_BEFORE] == [(1, 5), (2, 7), (3, 7), (2, 6)]


@pytest.mark.parametrize("ttl", [0, 10])
def test_a_ttl_set_later_finds_all_live_values(ttl: int) -> None:
    """With TTL 0 too, a row refreshes its value for the search of the next extreme."""
    row = row_type([("g", INT), ("v", INT)])
    kernel = GroupAggregateKernel(row, (0,), (call("MAX", 1, INT),), (True,), True, True)
    state = MemoryState(kernel)
    for now, kind, v in ((0, INSERT, 5), (0, INSERT, 7), (8, INSERT, 5), (8, INSERT, 7)):
        state.step([frame(row, [(kind, (1, v))])], now, [ttl])
    gone = frame(row, [(DELETE, (1, 7)), (DELETE, (1, 7))])
    assert changes_of(state.step([gone], 15, [10]))[-1] == (UPDATE_AFTER, (1, 5))


def test_group_without_key_vanishes_with_its_last_row() -> None:
    """As measured on Flink 2.3: no row before the first one, -D when the count falls to zero."""
    row = row_type([("v", INT)])
    calls = [call("COUNT", None, BIGINT), call("COUNT", 0, BIGINT), call("SUM", 0, INT), call("MAX", 0, INT)]
    single = [(INSERT, (5,)), (DELETE, (5,)), (DELETE, (5,)), (INSERT, (7,)), (INSERT, (None,)), (DELETE, (7,))]
    out = drive(row, (), calls, True, 0, [(n, [c]) for n, c in enumerate(single)])
    assert out == [
        (INSERT, (1, 1, 5, 5)),
        (DELETE, (1, 1, 5, 5)),
        (INSERT, (1, 1, 7, 7)),
        (UPDATE_BEFORE, (1, 1, 7, 7)),
        (UPDATE_AFTER, (2, 1, 7, 7)),
        (UPDATE_BEFORE, (2, 1, 7, 7)),
        (UPDATE_AFTER, (1, 0, None, None)),
    ]
    assert drive(row, (), calls, True, 0, [(1, [])]) == []


def test_distinct_values_expire_on_their_own() -> None:
    """As measured on Flink 2.3 with a TTL of 2 s: a value seen again is not refreshed in an append-only input."""
    row = row_type([("g", INT), ("v", INT), ("w", LogicalType("BOOLEAN"))])
    calls = [
        call("COUNT", None, BIGINT),
        call("COUNT", 1, BIGINT, True),
        call("SUM", 1, INT, True),
        call("COUNT", 1, BIGINT, True, 2),
    ]
    arrivals = [
        (0, 5, False),
        (20, 5, False),
        (1340, 6, False),
        (1860, 5, True),
        (3180, 5, False),
        (4500, 5, False),
        (4520, 5, True),
        (4540, 6, True),
    ]
    out = drive(row, (0,), calls, False, 2000, [(t, [(INSERT, (1, v, w))]) for t, v, w in arrivals])
    assert [r[1:] for k, r in out if k != UPDATE_BEFORE] == [
        (1, 1, 5, 0),
        (2, 1, 5, 0),
        (3, 2, 11, 0),
        (4, 2, 11, 1),
        (5, 2, 11, 1),
        (6, 3, 16, 1),
        (7, 3, 16, 2),
        (8, 4, 22, 3),
    ]


def test_with_retractions_every_row_refreshes_its_value() -> None:
    """As measured on Flink 2.3 with a TTL of 2 s."""
    row = row_type([("g", INT), ("v", INT), ("w", LogicalType("BOOLEAN"))])
    calls = [
        call("COUNT", None, BIGINT),
        call("COUNT", 1, BIGINT, True),
        call("SUM", 1, INT, True),
        call("COUNT", 1, BIGINT, True, 2),
    ]
    arrivals = [
        (0, INSERT, 5, False),
        (20, INSERT, 6, False),
        (1340, INSERT, 7, True),
        (2660, INSERT, 5, True),
        (2680, DELETE, 6, False),
        (4000, INSERT, 6, False),
        (4020, DELETE, 5, False),
        (4040, DELETE, 5, True),
        (4060, INSERT, 9, True),
    ]
    out = drive(row, (0,), calls, True, 2000, [(t, [(k, (1, v, w))]) for t, k, v, w in arrivals])
    assert [r[1:] for k, r in out if k != UPDATE_BEFORE] == [
        (1, 1, 5, 0),
        (2, 2, 11, 0),
        (3, 3, 18, 1),
        (4, 4, 23, 2),
        (3, 4, 23, 2),
        (4, 4, 23, 2),
        (3, 3, 18, 2),
        (2, 3, 18, 1),
        (3, 4, 27, 2),
    ]


def test_extremes_whose_values_expired() -> None:
    """As measured on Flink 2.3 with a TTL of 2 s: the extreme outlives its value; and a value retracted after it
    expired is looked at when the next extreme is searched."""
    row = row_type([("g", INT), ("v", INT)])
    calls = [call("COUNT", None, BIGINT), call("MIN", 1, INT), call("MAX", 1, INT), call("SUM", 1, INT)]
    arrivals = [
        (0, INSERT, 5),
        (20, INSERT, 9),
        (1340, INSERT, 7),
        (2660, INSERT, 6),
        (2680, DELETE, 9),
        (2700, DELETE, 5),
        (2720, INSERT, 9),
        (2740, DELETE, 6),
        (2760, DELETE, 7),
        (4080, INSERT, 1),
        (4100, DELETE, 1),
        (4120, INSERT, 8),
    ]
    out = drive(row, (0,), calls, True, 2000, [(t, [(k, (1, v))]) for t, k, v in arrivals])
    assert [r[1:] for k, r in out if k != UPDATE_BEFORE] == [
        (1, 5, 5, 5),
        (2, 5, 9, 14),
        (3, 5, 9, 21),
        (4, 5, 9, 27),
        (3, 5, 9, 18),
        (2, 5, 9, 13),
        (3, 5, 9, 22),
        (2, 5, 9, 16),
        (1, 5, 9, 9),
        (2, 1, 9, 10),
        (1, 5, 9, 9),
        (2, 5, 9, 17),
    ]


def test_rows_retracted_before_they_come() -> None:
    """As measured on Flink 2.3, in one batch and row by row: a group that was empty in between starts over."""
    row = row_type([("g", INT), ("v", INT), ("x", DOUBLE)])
    calls = [call("COUNT", None, BIGINT), call("SUM", 1, INT), call("COUNT", 1, BIGINT, True), call("SUM", 2, DOUBLE)]
    single = [
        (INSERT, (1, 5, 0.1)),
        (INSERT, (1, 6, 0.2)),
        (DELETE, (1, 7, 0.3)),
        (DELETE, (1, 5, 0.1)),
        (INSERT, (1, 8, 0.3)),
        (INSERT, (1, 7, 0.7)),
        (DELETE, (1, 8, 0.3)),
        (DELETE, (1, 7, 0.7)),
        (DELETE, (1, 7, 0.7)),
        (INSERT, (1, 7, 0.7)),
    ]
    out = drive(row, (0,), calls, True, 1000, [(n, [c]) for n, c in enumerate(single)])
    assert [(k, r[1:]) for k, r in out if k != UPDATE_BEFORE] == [
        (INSERT, (1, 5, 1, 0.1)),
        (UPDATE_AFTER, (2, 11, 2, 0.30000000000000004)),
        (UPDATE_AFTER, (1, 4, 2, 5.551115123125783e-17)),
        (DELETE, (1, 4, 2, 5.551115123125783e-17)),
        (INSERT, (1, 8, 1, 0.3)),
        (UPDATE_AFTER, (2, 15, 2, 1.0)),
        (UPDATE_AFTER, (1, 7, 1, 0.7)),
        (DELETE, (1, 7, 1, 0.7)),
        (INSERT, (1, 7, 1, 0.7)),
    ]
    assert drive(row, (0,), calls, True, 1000, [(1, single)]) == [(INSERT, (1, 1, 7, 1, 0.7))]
    assert drive(row, (0,), calls, True, 1000, [(1, single[:4])]) == []


def types_row() -> tuple[LogicalType, list[AggCall]]:
    decimal = LogicalType("DECIMAL", precision=10, scale=2)
    wide = LogicalType("DECIMAL", precision=38, scale=2)
    average = LogicalType("DECIMAL", precision=38, scale=6)
    tiny = LogicalType("TINYINT")
    stamp = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=3)
    row = row_type(
        [
            ("g", INT),
            ("d", decimal),
            ("e", wide),
            ("b", BIGINT),
            ("i", INT),
            ("f", FLOAT),
            ("x", DOUBLE),
            ("s", STRING),
            ("ts", stamp),
            ("o", LogicalType("BOOLEAN")),
            ("ti", tiny),
        ]
    )
    calls = [
        call("SUM", 1, wide),
        call("AVG", 1, average),
        call("SUM", 2, wide),
        call("AVG", 2, average),
        call("SUM", 3, BIGINT),
        call("AVG", 3, BIGINT),
        call("SUM", 4, INT),
        call("AVG", 4, INT),
        call("SUM", 5, FLOAT),
        call("AVG", 5, FLOAT),
        call("SUM", 6, DOUBLE),
        call("AVG", 6, DOUBLE),
        call("MIN", 7, STRING),
        call("MAX", 7, STRING),
        call("MIN", 8, stamp),
        call("MAX", 9, LogicalType("BOOLEAN")),
        call("SUM", 10, tiny),
        call("AVG", 10, tiny),
        call("MAX", 1, decimal),
        call("MIN", 5, FLOAT),
    ]
    return row, calls


def typed(*values: object) -> Row:
    decimals = [None if v is None else Decimal(str(v)) for v in values[1:3]]
    return (values[0], *decimals, *values[3:])


TYPED = [
    typed(1, "1.10", "9" * 36 + ".99", 2**63 - 1, 2**31 - 1, 0.1, 0.1, "é", "2024-01-01 00:00:00.123", False, 127),
    typed(1, "2.25", "0.02", 1, 1, 0.2, 0.2, "z", "2023-01-01 00:00:00.000", True, 1),
    typed(1, "-3.40", "-5.55", -5, -7, 0.3, 0.3, "日本", "2025-01-01 00:00:00.000", None, -7),
    typed(1, *[None] * 10),
    typed(1, "0.01", "7.77", 3, 3, 0.7, 0.7, "", "2025-01-01 00:00:00.000", True, 5),
]
"""The rows of an experiment on Flink 2.3, and below what it printed."""

PRINTED = [
    "1.10, 1.100000, 999999999999999999999999999999999999.99, None, 9223372036854775807, 9223372036854775807, "
    "2147483647, 2147483647, 0.1, 0.1, 0.1, 0.1, é, é, 2024-01-01 00:00:00.123, False, 127, 127, 1.10, 0.1",
    "3.35, 1.675000, None, None, -9223372036854775808, -4611686018427387904, -2147483648, 1073741824, 0.3, 0.15, "
    "0.30000000000000004, 0.15000000000000002, z, é, 2023-01-01 00:00:00, True, -128, 64, 2.25, 0.1",
    "-0.05, -0.016667, -5.55, None, 9223372036854775803, 3074457345618258601, 2147483641, 715827880, 0.6, 0.2, "
    "0.6000000000000001, 0.20000000000000004, z, 日本, 2023-01-01 00:00:00, True, 121, 40, 2.25, 0.1",
    None,
    "-0.04, -0.010000, 2.22, None, 9223372036854775806, 2305843009213693951, 2147483644, 536870911, 1.3, 0.325, 1.3, "
    "0.325, , 日本, 2023-01-01 00:00:00, True, 126, 31, 2.25, 0.1",
]
RETRACTED = [
    (
        1,
        "-2.29, -0.763333, 2.20, None, 9223372036854775805, 3074457345618258601, 2147483643, 715827881, 1.0999999, "
        "0.36666667, 1.1, 0.3666666666666667, , 日本, 2024-01-01 00:00:00.123, True, 125, 41, 1.10, 0.1",
    ),
    (
        0,
        "-3.39, -1.695000, -999999999999999999999999999999999997.79, None, -2, -1, -4, -2, 0.9999999, 0.5, 1.0, 0.5, , "
        "日本, 2025-01-01 00:00:00, True, -2, -1, 0.01, 0.3",
    ),
    (
        2,
        "0.01, 0.010000, -999999999999999999999999999999999992.24, None, 3, 3, 3, 3, 0.69999987, 0.7, 0.7, 0.7, , , "
        "2025-01-01 00:00:00, True, 5, 5, 0.01, 0.7",
    ),
    (4, ", ".join(["None"] * 20)),
]


def shown(out: pl.DataFrame) -> str:
    """The last row as Flink prints it, FLOAT with the digits that tell it apart."""
    row = out[-1]
    names = [n for n in row.columns if n not in ("c0", "kind")]
    floats = {n for n in names if row.schema[n] == pl.Float32}

    def text(n: str) -> str:
        value = row[n][0]
        if n in floats and value is not None:
            texts = [f"{value:.{digits}g}" for digits in range(1, 10)]
            return next(t for t in texts if pl.Series([float(t)], dtype=pl.Float32)[0] == value)
        rendered = str(value)
        return rendered[:-3] if rendered.endswith("000") and ":" in rendered else rendered

    return ", ".join(text(n) for n in names)


def typed_frame(row: LogicalType, rows: list[Row], kind: int) -> pl.DataFrame:
    columns = []
    for i, field in enumerate(row.fields):
        values = pl.Series(f"c{i}", [r[i] for r in rows], dtype=pl.String if field.name == "ts" else None)
        parsed = values.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="ms") if field.name == "ts" else values
        columns.append(parsed.cast(field.type.polars()))
    return pl.DataFrame([*columns, pl.Series("kind", [kind] * len(rows), dtype=pl.Int8)])


@pytest.mark.parametrize("retract", [False, True])
def test_types_overflow_and_rounding_as_flink(retract: bool) -> None:
    row, calls = types_row()
    state = MemoryState(GroupAggregateKernel(row, (0,), tuple(calls), (retract,) * len(calls), True, retract))
    for values, printed in zip(TYPED, PRINTED, strict=True):
        out = state.step([typed_frame(row, [values], INSERT)], 1, [0])
        assert out.height == 0 if printed is None else shown(out) == printed
    if retract:
        for index, printed in RETRACTED:
            assert shown(state.step([typed_frame(row, [TYPED[index]], DELETE)], 1, [0])) == printed
        again = shown(state.step([typed_frame(row, [TYPED[4]], INSERT)], 1, [0]))
        assert again.startswith("0.01, 0.010000, 7.77, None, 3, 3, 3, 3, 0.69999987, 0.7, 0.7")


@pytest.mark.parametrize("retract", [False, True])
def test_a_batch_of_all_types_is_the_same_as_its_rows(retract: bool) -> None:
    row, calls = types_row()
    state = MemoryState(GroupAggregateKernel(row, (0,), tuple(calls), (retract,) * len(calls), True, retract))
    assert shown(state.step([typed_frame(row, TYPED, INSERT)], 1, [0])) == PRINTED[-1]


@pytest.mark.parametrize("batch", [1, 4])
def test_nan_in_extremes(batch: int) -> None:
    """As measured on Flink 2.3: a later NaN is ignored, a first one stays."""
    row = row_type([("g", INT), ("x", DOUBLE)])
    nan = float("nan")
    calls = [call("SUM", 1, DOUBLE), call("MIN", 1, DOUBLE), call("MAX", 1, DOUBLE), call("COUNT", 1, BIGINT, True)]
    rows = [
        (INSERT, (1, 1.0)),
        (INSERT, (1, nan)),
        (INSERT, (1, 2.0)),
        (INSERT, (1, nan)),
        (INSERT, (2, nan)),
        (INSERT, (2, 1.0)),
        (INSERT, (2, -float("inf"))),
        (INSERT, (2, float("inf"))),
    ]
    out = drive(row, (0,), calls, False, 0, [(n, rows[n : n + batch]) for n in range(0, len(rows), batch)])
    last = {r[0]: r[1:] for _, r in out}
    assert str(last[1]) == "(nan, 1.0, 2.0, 3)"
    assert str(last[2]) == "(nan, nan, nan, 4)"


def test_retraction_in_an_append_only_plan_is_refused() -> None:
    kernel = GroupAggregateKernel(ROW, (0,), (call("COUNT", None, BIGINT),), (False,), True, False)
    with pytest.raises(RunError, match="RUN064"):
        MemoryState(kernel).step([frame(ROW, [(DELETE, (1, "a", 1, True, True))])], 1, [0])


def test_unknown_function_is_named() -> None:
    with pytest.raises(RunError, match="RUN063") as caught:
        GroupAggregateKernel(ROW, (0,), (call("COUNTS", None, BIGINT),), (False,), True, False)
    assert "COUNT" in str(caught.value.hint)


def test_tables_and_pickle() -> None:
    state, _ = pair([0, 8, 9, 10, 5, 6, 7], (0,), True, True, 0)
    kernel = pickle.loads(pickle.dumps(state.kernel))
    names = [t.name for t in kernel.tables]
    assert len(set(names)) == len(names) and all(n.startswith("groupAggregateState") for n in names)
    assert kernel == state.kernel and kernel.tables == state.kernel.tables
    shared = pair([8, 5, 6], (0,), True, True, 0)[0].kernel.tables
    assert len(shared) == 3, "DISTINCT, MIN and MAX of one argument share their values"
