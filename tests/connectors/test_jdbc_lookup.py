"""Look-ups in tables of PostgreSQL: keys of all types, caches, retries, and the join around them."""

from __future__ import annotations

import datetime as dt
import pickle
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import StateplanError
from stateplan.connectors.jdbc import lookup as lookups
from stateplan.connectors.jdbc.caches import (
    FullCache,
    PartialCache,
    PartialLimits,
    Periodic,
    Timed,
    time_of_day,
)
from stateplan.connectors.jdbc.lookup import JdbcLookup
from stateplan.connectors.retries import interruptible
from stateplan.session.environment import TableEnvironment
from tests.connectors.jdbc_tables import lookup, options
from tests.support.postgres import Database, Postgres, fresh_lookups
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    with fresh_lookups():
        yield


@pytest.fixture(scope="module")
def shared(postgres: Postgres) -> Database:
    """A database for the tests that only read; ``people`` has two rows of the id 3."""
    made = postgres.database()
    made.execute(
        "CREATE TABLE people (id bigint, name text)",
        "INSERT INTO people SELECT i, 'p' || i FROM generate_series(1, 25000) AS i",
        "INSERT INTO people VALUES (3, 'three'), (NULL, 'nobody')",
        "CREATE INDEX ON people (id)",
    )
    return made


class Queries:
    """How many keys each query asks for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[int] = []
        whole, every = lookups._Query.rows_of, lookups._Query.rows

        def rows_of(asked: Any, keys: pl.DataFrame) -> pl.DataFrame:
            self.asked.append(keys.height)
            return whole(asked, keys)

        def rows(asked: Any, end: str, parameters: Any = None) -> pl.DataFrame:
            if not end:
                self.asked.append(-1)
            return every(asked, end, parameters)

        monkeypatch.setattr(lookups._Query, "rows_of", rows_of)
        monkeypatch.setattr(lookups._Query, "rows", rows)


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> Queries:
    return Queries(monkeypatch)


def asked(found: JdbcLookup, *ids: int | None) -> list[tuple[Any, ...]]:
    keys = pl.DataFrame({"c0": list(ids)}, schema={"c0": pl.Int64})
    return sorted(found.rows(0, keys).rows())


PEOPLE = "id BIGINT, name STRING"


def test_keys_find_their_rows(shared: Database, queries: Queries) -> None:
    found = pickle.loads(pickle.dumps(lookup(shared, "people", PEOPLE)))
    assert found.by_key and found.size() == 0
    assert asked(found, 1, 3, 99_999, None) == [(1, "p1"), (3, "p3"), (3, "three")]
    assert asked(found) == []
    many = pl.DataFrame({"c0": list(range(2, 25_002))})
    assert found.rows(0, many).height == 25_000
    assert sorted(queries.asked) == [0, 3, 5_000, 10_000, 10_000]
    assert found.rows(0, None).height == 25_002
    both = pl.DataFrame({"c0": [3, 3, 4], "c1": ["three", "p4", "p4"]})
    assert sorted(found.rows(0, both).rows()) == [(3, "three"), (4, "p4")]


NEW_YEAR = dt.datetime(2020, 1, 1)

KEYS: list[tuple[str, str, str, object, object]] = [
    ("boolean", "true", "BOOLEAN", True, False),
    ("smallint", "5", "INT", 5, 100_000),
    ("bigint", "5", "BIGINT", 5, 6),
    ("real", "0.1", "FLOAT", 0.1, 0.2),
    ("real", "0.5", "DOUBLE", 0.5, 1e300),
    ("double precision", "0.1", "DOUBLE", 0.1, float("nan")),
    ("numeric(10,2)", "1.50", "DECIMAL(10, 2)", Decimal("1.50"), Decimal("1.51")),
    ("numeric", "1.499", "DECIMAL(10, 2)", Decimal("1.50"), Decimal("1.49")),
    ("integer", "2", "DECIMAL(10, 2)", Decimal("2.00"), Decimal("2.50")),
    ("text", "'a''\\b'", "STRING", "a'\\b", "\0"),
    ("varchar(5)", "'a'", "STRING", "a", "a "),
    ("char(3)", "'a'", "CHAR(3)", "a  ", "a"),
    ("bytea", r"'\x00ff'", "BYTES", b"\x00\xff", b""),
    ("date", "'1969-01-01'", "DATE", dt.date(1969, 1, 1), dt.date(2020, 1, 1)),
    ("time", "'12:00:00.123456'", "TIME(3)", dt.time(12, 0, 0, 123000), dt.time(12)),
    ("timestamp", "'2020-01-01 00:00:00.123456'", "TIMESTAMP(6)", NEW_YEAR.replace(microsecond=123456), NEW_YEAR),
    ("timestamp", "'1969-01-01 00:00:00.123456'", "TIMESTAMP(3)", dt.datetime(1969, 1, 1, 0, 0, 0, 123000), NEW_YEAR),
    ("timestamptz", "'2020-01-01 01:00+01'", "TIMESTAMP_LTZ(3)", NEW_YEAR.replace(tzinfo=dt.UTC), None),
    ("timestamptz", "'2020-01-01 01:00+01'", "TIMESTAMP(6)", NEW_YEAR, NEW_YEAR.replace(hour=1)),
    ("uuid", "'5D2B9F6C-0000-4000-8000-000000000000'", "STRING", "5d2b9f6c-0000-4000-8000-000000000000", "no uuid"),
    ("jsonb", """'{"a":1}'""", "STRING", '{"a": 1}', "{"),
    ("inet", "'10.0.0.1'", "STRING", "10.0.0.1/32", "x"),
]  # fmt: skip


def test_keys_of_all_types_find_their_rows(shared: Database) -> None:
    shared.execute(
        f"CREATE TABLE kinds ({', '.join(f'k{i} {of}' for i, (of, *_) in enumerate(KEYS))})",
        f"INSERT INTO kinds VALUES ({', '.join(row[1] for row in KEYS)})",
    )
    columns = ", ".join(f"k{i} {row[2]}" for i, row in enumerate(KEYS))
    found = lookup(shared, "kinds", columns)
    for i, (of, _, declared, there, missing) in enumerate(KEYS):
        dtype = found.fields[i][1].polars()
        for value, count in ((there, 1), (missing, 0)):
            keys = pl.DataFrame({f"c{i}": pl.Series([value], dtype=dtype, strict=False)})
            rows = found.rows(0, keys).join(keys, on=f"c{i}")
            assert rows.height == count, (of, declared, value)


def test_arrays_are_compared_after_they_have_come(shared: Database) -> None:
    shared.execute("CREATE TABLE lists (a int[], i int)", "INSERT INTO lists VALUES ('{1,2}', 1), ('{3}', 2)")
    found = lookup(shared, "lists", "a ARRAY<INT>, i INT")
    keys = pl.DataFrame({"c0": [[3]]}, schema={"c0": pl.List(pl.Int32)})
    assert found.rows(0, keys).height == 2
    assert found.rows(0, keys.with_columns(c1=pl.lit(2, pl.Int32))).rows() == [([3], 2)]


# ---- caches ----------------------------------------------------------------------------------------------------


class Clock:
    now = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(lookups, "_clock", made)
    return made


PARTIAL = {"lookup.cache": "PARTIAL"}


def test_a_partial_cache_keeps_what_was_asked_for(shared: Database, queries: Queries, clock: Clock) -> None:
    more = {**PARTIAL, "lookup.partial-cache.max-rows": "3", "lookup.partial-cache.expire-after-write": "10 s"}
    found = lookup(shared, "people", PEOPLE, more)
    assert asked(found, 1, 2) == asked(found, 1, 2) == [(1, "p1"), (2, "p2")]
    assert queries.asked == [2]
    clock.now += 1
    assert len(asked(found, 2, 3, 99_999)) == 3
    assert queries.asked == [2, 2]  # 1 is the one that goes
    clock.now += 1
    assert len(asked(found, 2, 3, 99_999)) == 3
    assert queries.asked == [2, 2]
    assert asked(found, 1) == [(1, "p1")]
    assert queries.asked == [2, 2, 1]
    clock.now += 10_000
    assert asked(found, 2, 1) == [(1, "p1"), (2, "p2")]
    assert queries.asked == [2, 2, 1, 2]


def test_missing_keys_are_kept_unless_told_otherwise(shared: Database, queries: Queries, clock: Clock) -> None:
    found = lookup(shared, "people", PEOPLE, {**PARTIAL, "lookup.partial-cache.cache-missing-key": "false"})
    assert asked(found, 99_999) == asked(found, 99_999) == []
    assert queries.asked == [1, 1]
    older = {"lookup.cache.max-rows": "10", "lookup.cache.ttl": "1 min", "lookup.cache.caching-missing-key": "true"}
    found = lookup(shared, "people", PEOPLE, older)
    assert asked(found, 99_999, 5) == asked(found, 99_999, 5) == [(5, "p5")]
    assert queries.asked == [1, 1, 2]


def test_a_key_that_nobody_asks_for_is_dropped(shared: Database, queries: Queries, clock: Clock) -> None:
    found = lookup(shared, "people", PEOPLE, {**PARTIAL, "lookup.partial-cache.expire-after-access": "5 s"})
    for _ in range(3):
        clock.now += 4_000
        asked(found, 1)
    assert queries.asked == [1]
    clock.now += 5_000
    asked(found, 1)
    assert queries.asked == [1, 1]


def test_a_full_cache_is_read_again_when_it_is_time(database: Database, queries: Queries, clock: Clock) -> None:
    database.execute("CREATE TABLE t (id bigint)", "INSERT INTO t VALUES (1)")
    more = {"lookup.cache": "FULL", "lookup.full-cache.periodic-reload.interval": "1 min"}
    found = lookup(database, "t", "id BIGINT", more)
    assert not found.by_key
    assert asked(found, 1) == [(1,)]
    database.execute("INSERT INTO t VALUES (2)")
    clock.now += 59_000
    assert asked(found, 1) == [(1,)]
    clock.now += 1_000
    assert asked(found, 1) == [(1,), (2,)]
    assert queries.asked == [-1, -1]


def test_times_of_reloads() -> None:
    hour, day = 3_600_000, 86_400_000
    assert [time_of_day(text) for text in ("02:30Z", "02:30+01:00", "00:30+01:00", "12:00:01.5", "24:30", "x")] == [
        9_000_000, 5_400_000, 84_600_000, 43_201_500, None, None,
    ]  # fmt: skip
    assert Timed(2 * hour).next(5 * day + hour, 0) == 5 * day + 2 * hour
    assert Timed(2 * hour).next(5 * day + 2 * hour, 0) == 6 * day + 2 * hour
    assert Timed(2 * hour, 3).next(5 * day + 3 * hour, 0) == 8 * day + 2 * hour
    assert Periodic(10).next(100, 130) == 140
    assert Periodic(10, from_begin=True).next(100, 130) == 110
    cache, reads = FullCache(Periodic(10)), []
    for now in (0, 9, 10, 11, 30):
        cache.rows(lambda now=now: now, lambda now=now: reads.append(now) or pl.DataFrame())  # type: ignore[misc]
    assert reads == [0, 10, 30]


STEPS = st.lists(st.tuples(st.integers(0, 6), st.sets(st.integers(0, 5), max_size=4)), max_size=12)
MAYBE = st.none() | st.integers(1, 8)


@given(STEPS, st.none() | st.integers(1, 4), MAYBE, MAYBE, st.booleans())
def test_a_partial_cache_gives_what_is_there(
    steps: list[tuple[int, set[int]]], most: int | None, write: int | None, access: int | None, missing: bool
) -> None:
    """Random requests, next to a cache of a dictionary; key 0 has no rows, key 1 one, key 2 two and so on."""
    cache = PartialCache(PartialLimits(most, write, access, missing))
    kept: dict[int, tuple[int, int]] = {}
    now = 0
    for later, keys in steps:
        now += later
        for key, (written, used) in list(kept.items()):
            if (write is not None and written + write <= now) or (access is not None and used + access <= now):
                del kept[key]
        expected = sorted(keys - kept.keys())
        read: list[int] = []

        def find(some: pl.DataFrame, read: list[int] = read, now: int = now) -> pl.DataFrame:
            read.extend(some["c0"].to_list())
            rows = [(key, n) for key in some["c0"] for n in range(key)] + [(100, 0)]  # one that was not asked for
            return pl.DataFrame(rows, schema={"c0": pl.Int64, "c1": pl.Int64}, orient="row")

        found = cache.rows(pl.DataFrame({"c0": sorted(keys)}, schema={"c0": pl.Int64}), now, find)
        assert sorted(read) == expected
        assert sorted(r for r in found.rows() if r[0] != 100) == [(key, n) for key in sorted(keys) for n in range(key)]
        kept |= {key: (kept.get(key, (now, now))[0], now) for key in keys if missing or key > 0}
        if most is not None and len(kept) > most:
            times = sorted((used for _, used in kept.values()), reverse=True)
            assert cache._keys is not None and cache._keys.height == most
            survivors = set(cache._keys["c0"].to_list())
            assert all(kept[key][1] >= times[most - 1] for key in survivors)
            kept = {key: kept[key] for key in survivors}


# ---- broken connections ----------------------------------------------------------------------------------------


def test_a_connection_that_broke_is_made_again(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database.execute("CREATE TABLE t (id bigint)", "INSERT INTO t VALUES (1)")
    monkeypatch.setattr(lookups.time, "sleep", lambda seconds: None)
    found = lookup(database, "t", "id BIGINT")
    assert asked(found, 1) == [(1,)]
    assert database.terminate() == 1
    assert asked(found, 1) == [(1,)]
    once = lookup(database, "t", "id BIGINT", {"lookup.max-retries": "0"})
    assert asked(once, 1) == [(1,)]
    database.terminate()
    with pytest.raises(StateplanError, match="RUN146"):
        asked(once, 1)
    assert asked(once, 1) == [(1,)]


def test_a_job_that_is_stopped_waits_for_no_connection(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database.execute(
        "CREATE VIEW v AS SELECT i AS id, pg_terminate_backend(pg_backend_pid()) AS b FROM generate_series(1, 9) AS i"
    )
    monkeypatch.setattr(lookups, "_KEYS", 1)
    found = lookup(database, "v", "id BIGINT, b BOOLEAN", {"lookup.max-retries": "1000"})
    began = time.monotonic()

    def stop() -> None:
        if time.monotonic() > began + 0.3:
            raise RuntimeError("stopped")

    for keys in ((1,), (1, 2)):  # the second in threads of their own
        with interruptible(stop), pytest.raises(RuntimeError, match="stopped"):
            asked(found, *keys)
    assert time.monotonic() < began + 3


def test_a_table_that_changes_between_look_ups(database: Database) -> None:
    database.execute("CREATE TABLE people (id bigint, name text)", "INSERT INTO people VALUES (1, 'a')")
    found = lookup(database, "people", PEOPLE)
    assert asked(found, 1) == [(1, "a")]
    database.execute("ALTER TABLE people RENAME name TO called")
    for _ in range(2):  # on the connection that knows the old table, and on a new one
        with pytest.raises(StateplanError, match="RUN144"):
            asked(found, 1)
    database.execute("ALTER TABLE people RENAME called TO name")
    assert asked(found, 1) == [(1, "a")]
    database.execute("ALTER TABLE people ALTER id TYPE text")
    for said in (r"RUN144.*text = bigint", r"RUN145.*'id'.* is text"):
        with pytest.raises(StateplanError, match=said):
            asked(found, 1)


@pytest.mark.parametrize(
    ("was", "declared", "now", "value"),
    [
        ("bigint", "BIGINT", "double precision", "7.9"),
        ("bigint", "BIGINT", "numeric(10, 2)", "7.25"),
        ("bigint", "BIGINT", "timestamp", "timestamp '2020-01-02'"),
        ("bigint", "BIGINT", "boolean", "true"),
        ("bigint", "BIGINT", "uuid", "gen_random_uuid()"),
        ("bigint", "BIGINT", "bigint[]", "ARRAY[1, 2]"),
        ("real", "FLOAT", "double precision", "1e300"),
        ("date", "DATE", "timestamp", "timestamp '2020-01-02 10:30'"),
    ],
)
def test_a_column_that_gets_another_type_between_look_ups(
    database: Database, was: str, declared: str, now: str, value: str
) -> None:
    database.execute(f"CREATE TABLE t (id bigint, v {was})", "INSERT INTO t VALUES (1, NULL)")
    found = lookup(database, "t", f"id BIGINT, v {declared}")
    assert asked(found, 1) == [(1, None)]
    database.execute(f"ALTER TABLE t ALTER v TYPE {now} USING {value}")
    for _ in range(2):  # on the connection that knows the old table, and on a new one
        with pytest.raises(StateplanError, match=r"RUN145.*'v'"):
            asked(found, 1)


def test_a_column_that_gets_a_type_that_fits_between_look_ups(database: Database) -> None:
    database.execute("CREATE TABLE t (id bigint, v int)", "INSERT INTO t VALUES (1, 1)")
    found = lookup(database, "t", "id BIGINT, v BIGINT")
    assert asked(found, 1, 2) == [(1, 1)]
    database.execute("ALTER TABLE t ALTER v TYPE bigint USING 5000000000")
    assert asked(found, 1) == [(1, 5_000_000_000)]
    assert asked(found, 2) == []


def test_connections_that_nobody_uses_are_closed(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database.execute("CREATE TABLE t (id bigint)", "INSERT INTO t VALUES (1)")
    found = lookup(database, "t", "id BIGINT", PARTIAL)
    assert asked(found, 1) == [(1,)]
    mine = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database.name}' AND pid <> pg_backend_pid()"
    assert database.rows(mine) == [(1,)]
    monkeypatch.setattr(lookups, "_CLOSE_AFTER", 0.0)
    monkeypatch.setattr(lookups, "_watch", lambda: None)
    lookups._close_unused()
    until(lambda: database.rows(mine) == [(0,)], 10)
    assert asked(found, 1, 2) == [(1,)]
    monkeypatch.setattr(lookups, "_DROP_AFTER", 0.0)
    lookups._close_unused()
    assert not lookups._TABLES


def test_several_threads_ask_at_once(shared: Database) -> None:
    found = lookup(shared, "people", PEOPLE)
    wrong: list[object] = []

    def ask(start: int) -> None:
        for i in range(start, start + 20):
            if asked(found, i) != [(i, f"p{i}")]:
                wrong.append(i)

    threads = [threading.Thread(target=ask, args=[start]) for start in (100, 200, 300, 400)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_lookup_joins_ask_for_the_keys_of_their_rows(shared: Database, queries: Queries) -> None:
    session = TableEnvironment.create({})
    pairs = ", ".join(f"'{key}' = '{text}'" for key, text in options(shared, "people").items())
    session.execute_sql(f"CREATE TABLE people (id BIGINT, name STRING) WITH ({pairs})")
    session.execute_sql(
        "CREATE VIEW asks AS SELECT CAST(id AS BIGINT) AS id, PROCTIME() AS p FROM (VALUES 1, 3, 99999) AS v (id)"
    )
    join = "FROM asks LEFT JOIN people FOR SYSTEM_TIME AS OF asks.p ON"

    def rows(query: str) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in session.execute_sql(query).collect()), key=repr)

    assert rows(f"SELECT asks.id, name {join} asks.id = people.id") == [
        (1, "p1"), (3, "p3"), (3, "three"), (99999, None),
    ]  # fmt: skip
    assert rows(f"SELECT asks.id, name {join} asks.id = people.id AND name = 'three'") == [
        (1, None), (3, "three"), (99999, None),
    ]  # fmt: skip
    assert queries.asked == [3, 3]


@pytest.mark.spark
def test_workers_know_variables_that_are_younger_than_spark(
    spark: object, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = f"{database.name}_late"
    database.execute(
        "CREATE TABLE names (id bigint PRIMARY KEY, name text)",
        "INSERT INTO names VALUES (1, 'a'), (2, 'b')",
        f"CREATE ROLE {user} LOGIN PASSWORD 'first'",
        f"GRANT SELECT ON names TO {user}",
    )
    (tmp_path / "ids").mkdir()

    def names(line: str) -> list[str]:
        (tmp_path / "ids" / line).write_text(f'{{"id": {line}}}\n')
        env = TableEnvironment.create({"execution.checkpointing.dir": str(tmp_path / "checkpoint")})
        env.execute_sql(
            "CREATE TABLE ids (id BIGINT, pt AS PROCTIME()) WITH ('connector' = 'filesystem', 'format' = 'json', "
            f"'path' = '{tmp_path}/ids')"
        )
        env.execute_sql(
            f"CREATE TABLE names (id BIGINT, name STRING) WITH ('connector' = 'jdbc', 'url' = '{database.url}', "
            f"'table-name' = 'names', 'username' = '{user}', 'password' = '${{env:LATE_PASSWORD}}')"
        )
        query = "SELECT name FROM ids JOIN names FOR SYSTEM_TIME AS OF ids.pt ON ids.id = names.id"
        return [row[0] for row in env.execute_sql(query).collect()]

    monkeypatch.setenv("LATE_PASSWORD", "first")
    assert names("1") == ["a"]
    database.execute(f"ALTER ROLE {user} PASSWORD 'second'")
    database.terminate(f"usename = '{user}'")
    monkeypatch.setenv("LATE_PASSWORD", "second")
    assert names("2") == ["b"]
