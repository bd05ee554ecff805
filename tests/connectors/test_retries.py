"""Keys without rows are looked up again: against each key by itself, and what keeps rows meanwhile."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.connectors import retries
from stateplan.connectors.protocol import Lookup
from stateplan.connectors.retries import KeyRetries, interruptible, pause
from stateplan.runtime.local.job import LocalJob
from stateplan.session.environment import TableEnvironment
from tests.connectors.jdbc_tables import lookup, options
from tests.support.postgres import Database, fresh_lookups

Row = tuple[int, int]
TABLES = st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=5), min_size=1, max_size=5)


def every(rows: pl.DataFrame, now: int) -> pl.DataFrame:
    return rows


def positive(rows: pl.DataFrame, now: int) -> pl.DataFrame:
    """The rows that a filter would leave."""
    return rows.filter(pl.col("c1") > 0)


class Changing(Lookup):
    """A table that is another one each time that it is read; the last one stays."""

    def __init__(self, tables: list[list[Row]], by_key: bool) -> None:
        self.tables, self.by_key = list(tables), by_key

    def rows(self, now: int, keys: pl.DataFrame | None) -> pl.DataFrame:
        assert (keys is not None) == self.by_key
        rows = self.tables.pop(0) if len(self.tables) > 1 else self.tables[0]
        found = pl.DataFrame(rows, schema={"c0": pl.Int64, "c1": pl.Int64}, orient="row")
        return found if keys is None else found.join(keys, on="c0", how="semi")


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits, which take no time."""
    found: list[float] = []
    monkeypatch.setattr(retries, "pause", found.append)
    return found


KEYS = st.lists(st.sampled_from([None, 0, 1, 2, 3]), unique=True)


@given(TABLES, KEYS, st.integers(1, 4), st.booleans(), st.booleans())
def test_each_key_gets_the_rows_of_the_first_look_that_finds_some(
    tables: list[list[Row]], keys: list[int | None], attempts: int, by_key: bool, filtered: bool
) -> None:
    accepted = positive if filtered else every
    waited: list[float] = []
    looks = [tables[min(i, len(tables) - 1)] for i in range(attempts + 1)]
    needed = 0
    expected: list[Row] = []
    for key in keys:
        counts = [[r for r in look if r[0] == key and (not filtered or r[1] > 0)] for look in looks]
        first = next((i for i, rows in enumerate(counts) if rows), attempts)
        needed = max(needed, first if key is not None else 0)
        expected += counts[first] if key is not None else []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(retries, "pause", waited.append)
        table = Changing(tables, by_key).retrying(KeyRetries(attempts, 250, accepted))
        asked = pl.DataFrame({"c0": keys}, schema={"c0": pl.Int64})
        found = accepted(pickle.loads(pickle.dumps(table)).rows(0, asked), 0)
    assert sorted(found.filter(pl.col("c0").is_in([k for k in keys if k is not None])).rows()) == sorted(expected)
    assert waited == [250] * needed


def test_where_all_rows_are_asked_for_nothing_is_looked_up_again(waits: list[float]) -> None:
    assert Changing([[(1, 1)]], False).retrying(KeyRetries(3, 250, every)).rows(0, None).rows() == [(1, 1)]
    assert waits == []


# ---- PostgreSQL --------------------------------------------------------------------------------------------------


def people(database: Database, more: dict[str, str] | None = None, attempts: int = 3) -> Callable[..., list[Any]]:
    """Asks for the names of some ids, with retries."""
    database.execute("CREATE TABLE people (id bigint, name text)", "INSERT INTO people VALUES (1, 'one')")
    table = lookup(database, "people", "id BIGINT, name STRING", more).retrying(KeyRetries(attempts, 250, every))

    def ask(*ids: int) -> list[Any]:
        return sorted(table.rows(0, pl.DataFrame({"c0": list(ids)})).rows())

    return ask


def test_a_row_that_comes_while_a_look_up_waits_is_found(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def comes(ms: float) -> None:
        waits.append(ms)
        database.execute(f"INSERT INTO people VALUES ({len(waits) + 1}, 'late')")

    monkeypatch.setattr(retries, "pause", comes)
    with fresh_lookups():
        assert people(database)(1, 2, 3) == [(1, "one"), (2, "late"), (3, "late")]
    assert waits == [250, 250]


PARTIAL = {"lookup.cache": "PARTIAL", "lookup.partial-cache.max-rows": "100"}


def test_a_cache_keeps_what_the_last_attempt_found(database: Database, waits: list[float]) -> None:
    """As in Flink: a key that it knows to have no rows is not looked up again."""
    with fresh_lookups():
        ask = people(database, PARTIAL)
        assert ask(1, 2) == [(1, "one")]
        assert len(waits) == 3
        database.execute("INSERT INTO people VALUES (2, 'two'), (3, 'three')")
        assert ask(1, 2, 3) == [(1, "one"), (3, "three")]
        assert len(waits) == 3


def test_a_cache_without_missing_keys_hides_no_retry(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with fresh_lookups():
        ask = people(database, {**PARTIAL, "lookup.partial-cache.cache-missing-key": "false"}, attempts=1)
        waits: list[float] = []
        monkeypatch.setattr(retries, "pause", waits.append)
        assert ask(2) == []
        comes = "INSERT INTO people VALUES (2, 'two')"
        monkeypatch.setattr(retries, "pause", lambda ms: database.execute(comes))
        assert ask(2) == [(2, "two")]
        database.execute("DELETE FROM people")
        assert ask(2) == [(2, "two")]
    assert waits == [250]


def test_a_cache_of_the_whole_table_has_no_retries(database: Database, waits: list[float]) -> None:
    full = {"lookup.cache": "FULL", "lookup.full-cache.periodic-reload.interval": "1 h"}
    with fresh_lookups():
        assert people(database, full)(1, 2) == [(1, "one")]
    assert waits == []


RETRY = (
    "'retry-predicate'='lookup_miss', 'retry-strategy'='fixed_delay', 'fixed-delay'='{delay}', 'max-attempts'='{most}'"
)


def joined(session: TableEnvironment, delay: str, most: int) -> str:
    hint = RETRY.format(delay=delay, most=most)
    session.execute_sql(
        "CREATE VIEW asks AS SELECT CAST(id AS BIGINT) AS id, PROCTIME() AS p FROM (VALUES 1, 2) AS v (id)"
    )
    return (
        f"SELECT /*+ LOOKUP('table'='people', {hint}) */ asks.id, name "
        "FROM asks LEFT JOIN people FOR SYSTEM_TIME AS OF asks.p ON asks.id = people.id"
    )


def test_a_job_waits_for_a_row(database: Database) -> None:
    database.execute("CREATE TABLE people (id bigint, name text)", "INSERT INTO people VALUES (1, 'one')")
    session = TableEnvironment.create({})
    pairs = ", ".join(f"'{key}' = '{text}'" for key, text in options(database, "people").items())
    session.execute_sql(f"CREATE TABLE people (id BIGINT, name STRING) WITH ({pairs})")
    query = joined(session, "100 ms", 300)
    later = threading.Timer(0.5, database.execute, ["INSERT INTO people VALUES (2, 'two')"])
    with fresh_lookups():
        later.start()
        began = time.monotonic()
        rows = sorted(tuple(row) for row in session.execute_sql(query).collect())
        later.join()
    assert rows == [(1, "one"), (2, "two")]
    assert time.monotonic() - began < 20


def test_files_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one.json").write_text('{"id": 1, "name": "one"}\n')
    waits: list[float] = []

    def comes(ms: float) -> None:
        waits.append(ms)
        if len(waits) == 2:
            (tmp_path / "two.json").write_text('{"id": 2, "name": "two"}\n')

    monkeypatch.setattr(retries, "pause", comes)
    session = TableEnvironment.create({})
    session.execute_sql(
        f"CREATE TABLE people (id BIGINT, name STRING) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'json')"
    )
    rows = sorted(tuple(row) for row in session.execute_sql(joined(session, "7 s", 5)).collect())
    assert (rows, waits) == ([(1, "one"), (2, "two")], [7000, 7000])


# ---- waiting -----------------------------------------------------------------------------------------------------


def test_a_wait_ends_when_nobody_wants_it_any_more() -> None:
    stopped = threading.Event()
    raised: list[str] = []

    def check() -> None:
        if stopped.is_set():
            raise RuntimeError("stopped")

    def run() -> None:
        with interruptible(check):
            try:
                pause(3_600_000)
            except RuntimeError as error:
                raised.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.2)
    assert thread.is_alive()
    stopped.set()
    thread.join(5)
    assert raised == ["stopped"]
    began = time.monotonic()
    pause(150)
    assert 0.14 <= time.monotonic() - began < 5


def test_a_job_that_waits_is_stopped_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = threading.Event()

    def waits(ms: float) -> None:
        waiting.set()
        pause(ms)

    monkeypatch.setattr(retries, "pause", waits)
    (tmp_path / "one.json").write_text('{"id": 1, "name": "one"}\n')
    session = TableEnvironment.create({})
    session.execute_sql(
        f"CREATE TABLE people (id BIGINT, name STRING) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'json')"
    )
    job = session.execute_sql(joined(session, "1 h", 3)).job
    assert isinstance(job, LocalJob)
    assert waiting.wait(20)
    began = time.monotonic()
    job.stop()
    assert time.monotonic() - began < 10
    assert job.status.value == "CANCELED"
