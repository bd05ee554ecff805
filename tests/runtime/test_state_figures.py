"""Counting state against a count row by row: whatever is written, merged, deleted and expired."""

from __future__ import annotations

import pickle
from statistics import median_low

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.ttl import TtlConfig, TtlTimeCharacteristic
from stateplan.runtime.inspect.state_figures import TableFigures, count_table, cut_of
from stateplan.runtime.inspect.state_rows import (
    RowFilter,
    RowRequest,
    arrow_batches,
    arrow_schema,
    table_rows,
)
from stateplan.runtime.kernel import NO_WATERMARK, StateTable, own_columns
from stateplan.runtime.state.keyed_state import KeyedState, MemoryRunStore
from stateplan.runtime.state.run_cache import RunCache

TABLE = StateTable("many", 0, ("k",), ("k", "e"), own_columns({"k": pl.Int64(), "e": pl.String(), "v": pl.Int64()}))
KEYS = st.one_of(st.none(), st.integers(0, 12))
STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(KEYS, st.sampled_from("abc"), st.integers(0, 99)), max_size=8),
        st.lists(st.tuples(KEYS, st.sampled_from("abc")), max_size=4),
        st.integers(1, 400),
    ),
    max_size=25,
)

Row = tuple[object, int]


def written(
    steps: list[tuple[list[tuple[object, str, int]], list[tuple[object, str]], int]],
) -> tuple[KeyedState, dict[tuple[object, str], Row], int]:
    """The state after some micro-batches, the same as a dict of (value, last access), and the time."""
    store, cache, now = MemoryRunStore(), RunCache(None), 0
    reference: dict[tuple[object, str], Row] = {}
    for upserts, deletes, wait in steps:
        now += wait
        state = KeyedState(store, cache, [TABLE], "test")
        new = {(k, e): v for k, e, v in upserts}
        gone = {d for d in deletes if d not in new}
        fresh = pl.DataFrame(
            [(k, e, v, now) for (k, e), v in new.items()], schema={**TABLE.schema, "@t": pl.Int64()}, orient="row"
        )
        dead = pl.DataFrame(list(gone), schema={"k": pl.Int64, "e": pl.String}, orient="row")
        state.write(TABLE, fresh, dead, now, 0)
        state.flush()
        reference.update({i: (v, now) for i, v in new.items()})
        for identity in gone:
            reference.pop(identity, None)
    return KeyedState(store, cache, [TABLE], "test"), reference, now


def counted(state: KeyedState, *cuts: int | None) -> TableFigures:
    figures = count_table(TABLE, state.runs(TABLE), cuts)
    assert pickle.loads(pickle.dumps(figures)) == figures
    return figures


@given(STEPS, st.sampled_from([0, 100, 1000]), st.sampled_from([0, 300, 2000]))
def test_like_counting_rows(
    steps: list[tuple[list[tuple[object, str, int]], list[tuple[object, str]], int]], ttl: int, other: int
) -> None:
    state, reference, now = written(steps)
    now += 150
    cuts = [cut_of(TtlConfig(ttl), now), cut_of(TtlConfig(other), now)]
    figures = counted(state, *cuts)

    def expired(limit: int) -> list[int]:
        return [t for _, t in reference.values() if limit and t + limit <= now]

    live = {i: t for i, (_, t) in reference.items() if not (ttl and t + ttl <= now)}
    assert figures.rows == len(reference)
    assert figures.aged[0].rows == len(expired(ttl))
    assert figures.aged[1].rows == len(expired(other))
    assert figures.keys == len({k for k, _ in live})
    assert (figures.oldest, figures.newest) == (min(live.values(), default=None), max(live.values(), default=None))
    assert figures.median == (median_low(live.values()) if live else None)
    assert figures.bytes == sum(info.size for info, _ in state.runs(TABLE))
    assert figures.versions == sum(info.rows for info, _ in state.runs(TABLE))
    assert 0 <= figures.aged[0].bytes <= figures.rows_bytes + 1e-6
    assert figures.rows_bytes <= figures.bytes + 1e-6


@given(STEPS, STEPS)
def test_key_groups_add_up(
    first: list[tuple[list[tuple[object, str, int]], list[tuple[object, str]], int]],
    second: list[tuple[list[tuple[object, str, int]], list[tuple[object, str]], int]],
) -> None:
    parts = [written(first), written(second)]
    total = sum((counted(state, 500) for state, _, _ in parts), TableFigures()) + TableFigures()
    rows = [t for _, reference, _ in parts for _, t in reference.values()]
    assert total.rows == len(rows)
    assert total.median == (median_low([t for t in rows if t > 500]) if any(t > 500 for t in rows) else None)
    assert total.aged[0].rows == sum(t <= 500 for t in rows)


def test_very_many_times_of_access_are_told_as_quantiles() -> None:
    rows = pl.DataFrame({"k": range(50_000), "e": "a", "v": 0, "@t": range(50_000)}).select(
        pl.col("k", "v", "@t").cast(pl.Int64), "e"
    )
    state = KeyedState(MemoryRunStore(), RunCache(None), [TABLE], "test")
    state.write(TABLE, rows, None, 0, 0)
    figures = counted(state, 9_999)
    assert len(figures.times) < 3000
    assert sum(n for _, n in figures.times) == 40_000
    assert figures.median == pytest.approx(30_000, rel=0.01)
    assert figures.aged[0].rows == 10_000, "what a TTL frees is exact, however many times there are"


def test_by_event_time_state_ages_by_the_watermark() -> None:
    config = TtlConfig(1000, time_characteristic=TtlTimeCharacteristic.EVENT_TIME)
    assert cut_of(config, 9_000_000, NO_WATERMARK) is None, "nothing has expired before the first watermark"
    assert cut_of(config, 9_000_000, 5000) == 4000
    assert cut_of(TtlConfig(1000), 5000, 7_000_000) == 4000
    assert cut_of(TtlConfig(0), 5000) is None


def test_rows_that_never_expire_have_no_age() -> None:
    rows = pl.DataFrame({"k": [1, 2], "e": ["a", "b"], "v": [0, 0], "@t": [50, 2**62]})
    state = KeyedState(MemoryRunStore(), RunCache(None), [TABLE], "test")
    state.write(TABLE, rows, None, 0, 0)
    figures = counted(state, 100)
    assert (figures.rows, figures.aged[0].rows, figures.keys) == (2, 1, 1)
    assert (figures.oldest, figures.median, figures.newest) == (None, None, None)
    labels = {name: name for name in TABLE.schema}
    frames = [frame for _, frame in state.runs(TABLE)]
    shown = table_rows(RowRequest(TABLE, labels, 1000, expired=True), frames, 100).sort("k")
    assert shown["access_time"].dt.epoch("ms").to_list() == [50, None]
    assert shown["expired"].to_list() == [True, False]


def test_runs_that_note_another_time_of_writing_are_counted_with_those_that_do_not() -> None:
    state = KeyedState(MemoryRunStore(), RunCache(None), [TABLE], "test")
    plain = pl.DataFrame({"k": [1, 2], "e": ["a", "a"], "v": [0, 0], "@t": [5, 5]})
    state.write(TABLE, plain, None, 5, 0)
    touched = plain[1:].with_columns(pl.lit(50, pl.Int64).alias("@t"), pl.lit(5, pl.Int64).alias("@w"))
    state.write(TABLE, touched, None, 50, 0)
    figures = counted(state, 10)
    assert (figures.rows, figures.aged[0].rows, figures.oldest) == (2, 1, 50)


@given(STEPS, st.sampled_from([0, 100, 1000]), st.booleans(), st.sampled_from([None, ("k", 3), ("k", None), ("v", 7)]))
def test_rows_like_a_dict(
    steps: list[tuple[list[tuple[object, str, int]], list[tuple[object, str]], int]],
    ttl: int,
    expired: bool,
    wanted: tuple[str, object] | None,
) -> None:
    state, reference, now = written(steps)
    filters = (RowFilter(*wanted),) if wanted else ()
    labels = {"k": "order", "e": "access_time", "v": "n"}
    request = RowRequest(TABLE, labels, ttl, expired, filters)
    found = table_rows(request, [frame for _, frame in state.runs(TABLE)], cut_of(TtlConfig(ttl), now))
    assert found.columns[:4] == ["order", "access_time", "n", "access_time_"], "the field keeps its name"
    place = {"k": 0, "v": 2}
    want = [
        (k, e, v, t, t + ttl if ttl else None, *([bool(ttl and t + ttl <= now)] if expired else []))
        for (k, e), (v, t) in reference.items()
        if (expired or not ttl or t + ttl > now) and (not wanted or (k, e, v)[place[wanted[0]]] == wanted[1])
    ]
    times = found.with_columns(pl.col("access_time_", "expires_at").dt.epoch("ms")).rows()
    assert sorted(times, key=repr) == sorted(want, key=repr)
    schema = arrow_schema(request)
    assert sum(b.num_rows for b in arrow_batches(found, schema)) == len(want)


def test_types_that_spark_has_not_become_the_nearest() -> None:
    schema = {
        "k": pl.Datetime("ns"),
        "d": pl.Duration("ms"),
        "t": pl.Time(),
        "l": pl.List(pl.Struct({"key": pl.String(), "value": pl.Datetime("ms", "UTC")})),
        "x": pl.Null(),
        "m": pl.Decimal(10, 2),
        "h": pl.Int64(),
    }
    table = StateTable("t", 0, ("k",), ("k",), own_columns(schema))
    labels = {name: name for name in schema if name != "h"}
    types = {f.name: str(f.type) for f in arrow_schema(RowRequest(table, labels, 0))}
    assert types == {
        "k": "timestamp[us]",
        "d": "duration[us]",
        "t": "string",
        "l": "list<item: struct<key: string, value: timestamp[us, tz=UTC]>>",
        "x": "string",
        "m": "decimal128(10, 2)",
        "access_time": "timestamp[us, tz=UTC]",
        "expires_at": "timestamp[us, tz=UTC]",
    }
