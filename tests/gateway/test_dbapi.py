"""The DB-API module at a gateway that serves in this process, on a real port."""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import io
import json
import math
import re
import threading
import time
import warnings
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import stateplan.gateway.dbapi as dbapi
from scripts.pages import page_path
from stateplan.common.errors import (
    DataError,
)
from stateplan.common.types import STRING, parse_type
from stateplan.gateway.client.http import HttpSession
from stateplan.gateway.client.values import row_reader
from stateplan.gateway.protocol import ResultPage
from stateplan.gateway.service.limits import Limits
from stateplan.gateway.service.service import SqlGatewayService
from tests.gateway.in_process_gateway import GatewayHere, gateway_here

PAGE = page_path("python")
TEN = f"SELECT n FROM (VALUES {', '.join(f'({n})' for n in range(10))}) AS t (n)"


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayHere]:
    """Pages have three rows."""
    service = SqlGatewayService(Limits(idle_timeout=0, page_rows=3), keep_unknown=True)
    with gateway_here(service) as running:
        yield running


def at(gateway: GatewayHere) -> str:
    return f"http://127.0.0.1:{gateway.port}"


@pytest.fixture
def connection(gateway: GatewayHere) -> Iterator[dbapi.Connection]:
    with dbapi.connect(at(gateway)) as made:
        yield made


@pytest.fixture
def cursor(connection: dbapi.Connection) -> Iterator[dbapi.Cursor]:
    with connection.cursor() as made:
        yield made


def test_the_module() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    assert issubclass(dbapi.Warning, Exception) and issubclass(dbapi.Error, Exception)
    assert issubclass(dbapi.InterfaceError, dbapi.Error) and not issubclass(dbapi.InterfaceError, dbapi.DatabaseError)
    names = "Data", "Operational", "Integrity", "Internal", "Programming", "NotSupported"
    assert all(issubclass(getattr(dbapi, f"{name}Error"), dbapi.DatabaseError) for name in names)
    for name in ("Warning", "Error", "InterfaceError", "DatabaseError", *(f"{name}Error" for name in names)):
        assert getattr(dbapi.Connection, name) is getattr(dbapi, name)
    noon = dt.datetime(2024, 1, 1, 12, 30)
    assert dbapi.DateFromTicks(noon.timestamp()) == noon.date() == dbapi.Date(2024, 1, 1)
    assert dbapi.TimeFromTicks(noon.timestamp()) == noon.time() == dbapi.Time(12, 30)
    assert dbapi.TimestampFromTicks(noon.timestamp()) == noon == dbapi.Timestamp(2024, 1, 1, 12, 30)
    assert dbapi.Binary(b"x") == b"x"


# values

DAY = dt.datetime(2024, 1, 1, 10, 0, 0, 123000)
LONG = Decimal("1234567890123456789.0123456789012345678")
SHOWN: list[tuple[str, str, object, Any]] = [
    ("TRUE", "BOOLEAN", dbapi.BOOLEAN, True),
    ("CAST(-1 AS TINYINT)", "TINYINT", dbapi.NUMBER, -1),
    ("1", "INT", dbapi.NUMBER, 1),
    ("9223372036854775807", "BIGINT", dbapi.NUMBER, 2**63 - 1),
    ("CAST('1.50' AS DECIMAL(38, 2))", "DECIMAL(38, 2)", dbapi.NUMBER, Decimal("1.50")),
    (f"CAST('{LONG}' AS DECIMAL(38, 19))", "DECIMAL(38, 19)", dbapi.NUMBER, LONG),
    ("CAST(0 AS DECIMAL(5, 0))", "DECIMAL(5, 0)", dbapi.NUMBER, Decimal(0)),
    ("CAST(0.1 AS FLOAT)", "FLOAT", dbapi.NUMBER, 0.1),
    ("CAST('1e-320' AS DOUBLE)", "DOUBLE", dbapi.NUMBER, 1e-320),
    ("CAST('-Infinity' AS DOUBLE)", "DOUBLE", dbapi.NUMBER, -math.inf),
    ("CAST('a''b\n😀' AS STRING)", "STRING", dbapi.STRING, "a'b\n😀"),
    ("'null'", "CHAR(4)", dbapi.STRING, "null"),
    ("x'00ff'", "BINARY(2)", dbapi.BINARY, b"\x00\xff"),
    ("CAST(x'' AS BYTES)", "BYTES", dbapi.BINARY, b""),
    ("DATE '0001-01-01'", "DATE", dbapi.DATETIME, dt.date(1, 1, 1)),
    ("TIME '10:00:00.123'", "TIME(3)", dbapi.DATETIME, DAY.time()),
    ("TIMESTAMP '2024-01-01 10:00:00.123'", "TIMESTAMP(3)", dbapi.DATETIME, DAY),
    ("CAST('2024-01-01 10:00:00.123' AS TIMESTAMP(9))", "TIMESTAMP(9)", dbapi.DATETIME, DAY),
    ("TO_TIMESTAMP_LTZ(0, 3)", "TIMESTAMP_LTZ(3)", dbapi.DATETIME, dt.datetime(1970, 1, 1, tzinfo=dt.UTC)),
    ("INTERVAL '-1 00:00:01' DAY TO SECOND", "INTERVAL SECOND", dbapi.INTERVAL, -dt.timedelta(1, 1)),
    ("INTERVAL '1-2' YEAR TO MONTH", "INTERVAL MONTH", dbapi.INTERVAL, 14),
    ("ARRAY[1, CAST(NULL AS INT)]", "ARRAY<INT>", dbapi.NESTED, [1, None]),
    ("ROW(1, DATE '2024-01-01')", "ROW", dbapi.NESTED, (1, dt.date(2024, 1, 1))),
    ("MAP['a', x'01']", "MAP", dbapi.NESTED, {"a": b"\x01"}),
    ("MAP[1.5, ARRAY[ROW(1)]]", "MAP", dbapi.NESTED, {Decimal("1.5"): [(1,)]}),
    ("MAP[DATE '2024-01-01', CAST(NULL AS INT)]", "MAP", dbapi.NESTED, {dt.date(2024, 1, 1): None}),
    ("MAP[ARRAY['\"', '\\'], TRUE]", "MAP", dbapi.NESTED, {('"', "\\"): True}),
    ("MAP[CAST(NULL AS INT), 1]", "MAP", dbapi.NESTED, {None: 1}),
    ("CAST(NULL AS ROW<a INT>)", "ROW", dbapi.NESTED, None),
]


def test_values_and_types(cursor: dbapi.Cursor) -> None:
    row = cursor.execute(f"SELECT {', '.join(sql for sql, _, _, _ in SHOWN)}").fetchone()
    assert row is not None and cursor.description is not None
    for found, column, (sql, name, kind, value) in zip(row, cursor.description, SHOWN, strict=True):
        assert (found, type(found)) == (value, type(value)), sql
        assert column[1] == name, sql
        kinds = (dbapi.BOOLEAN, dbapi.NUMBER, dbapi.STRING, dbapi.BINARY, dbapi.DATETIME, dbapi.INTERVAL, dbapi.NESTED)
        assert [k for k in (*kinds, dbapi.ROWID) if k == column[1]] == [kind], sql


def test_a_multiset(cursor: dbapi.Cursor) -> None:
    cursor.execute("SELECT COLLECT(a), COLLECT(ROW(a, 'x\"')) FROM (VALUES (1), (1), (2)) AS t (a)")
    assert cursor.fetchall() == [({1: 2, 2: 1}, {(1, 'x"'): 2, (2, 'x"'): 1})]


def test_the_description(cursor: dbapi.Cursor) -> None:
    assert cursor.description is None
    cursor.execute("SELECT CAST(1.5 AS DECIMAL(5, 2)) AS d, CAST(NULL AS VARCHAR(7)) AS v WHERE 1 = 0")
    assert cursor.description == (
        ("d", "DECIMAL(5, 2)", None, None, 5, 2, False),
        ("v", "VARCHAR(7)", None, 7, None, None, True),
    )
    assert cursor.fetchall() == []


def test_parameters(cursor: dbapi.Cursor) -> None:
    values = [None, True, -5, 0.1, Decimal("1.50"), "it's ? ü😀\n--", b"\x00", DAY.date(), DAY.time(), DAY]
    values += [DAY.replace(tzinfo=dt.UTC), dt.timedelta(hours=-1)]
    cursor.execute(f"SELECT CAST(? AS INT), {', '.join('?' * (len(values) - 1))} -- ?", values)
    assert cursor.fetchall() == [tuple(values)]
    query = "SELECT n FROM (VALUES (1), (2), (3)) AS t (n) WHERE n > ? LIMIT ?"
    assert cursor.execute(query, (1, 1)).fetchall() == [(2,)]
    with pytest.raises(dbapi.ProgrammingError, match="SQL410"):
        cursor.execute(query, [1])
    with pytest.raises(dbapi.ProgrammingError, match="SQL410"):
        cursor.execute(query, [1, object()])
    with pytest.raises(dbapi.DataError, match="DATA350"):
        cursor.execute(query, [1, math.nan])


def test_microseconds_in_the_zone_of_the_session(gateway: GatewayHere) -> None:
    moment = dt.datetime(2024, 7, 1, microsecond=1, tzinfo=dt.UTC)
    with dbapi.connect(at(gateway)) as connection, connection.cursor() as cursor:
        with pytest.raises(dbapi.DataError, match=r"table\.local-time-zone"):
            cursor.execute("SELECT ?", [moment])
        cursor.execute("SET 'table.local-time-zone' = 'Asia/Tokyo'")
        assert cursor.execute("SELECT ?", [moment]).fetchall() == [(moment,)]


def test_values_that_python_does_not_have(cursor: dbapi.Cursor) -> None:
    with pytest.raises(dbapi.DataError, match=r"DATA351.*'x'.*nanoseconds") as raised:
        cursor.execute("SELECT 1, CAST('2024-01-01 00:00:00.000000001' AS TIMESTAMP(9)) AS x").fetchall()
    assert raised.value.code == "DATA351"
    assert isinstance(raised.value.__cause__, DataError)
    with pytest.raises(dbapi.ProgrammingError, match="GW031"):
        cursor.fetchall()


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("DATE", "+10000-01-01"),
        ("TIMESTAMP(3)", "+10000-01-01T00:00:00"),
        ("TIMESTAMP_LTZ(3)", "0000-01-01T00:00:00Z"),
        ("TIMESTAMP(9)", "2024-01-01T00:00:00.0000000011"),
        ("TIME(9)", "10:00:00.000000001"),
        ("INTERVAL DAY TO SECOND(3)", 2**62),
        ("BIGINT", "x"),
        ("DECIMAL(5, 2)", "x"),
        ("BYTES", "?"),
        ("ARRAY<INT>", 5),
        ("MAP<INT, INT>", {"a": 1}),
        ("ROW<a INT>", {"b": 1}),
    ],
)
def test_values_of_another_form(sql: str, value: object) -> None:
    """Those of the year 10000, and those of a gateway that is none."""
    read = row_reader(["a", "x"], [STRING, parse_type(sql)])
    with pytest.raises(DataError, match=r"DATA351.*'x'"):
        read(["a", value])
    assert read(["a", None]) == ("a", None)
    with pytest.raises(DataError, match=r"DATA351.*1 value.*2 columns"):
        read(["a"])


# results


def test_fetching(cursor: dbapi.Cursor) -> None:
    assert cursor.rownumber is None
    rows = [(n,) for n in range(10)]
    assert cursor.execute(TEN).fetchall() == rows
    assert (cursor.rownumber, cursor.fetchone(), cursor.fetchall(), cursor.fetchmany(3)) == (10, None, [], [])
    cursor.execute(TEN)
    assert cursor.arraysize == 1
    assert (cursor.fetchone(), cursor.rownumber) == ((0,), 1)
    assert cursor.fetchmany() == [(1,)]
    assert (cursor.fetchmany(5), cursor.rownumber) == (rows[2:7], 7)
    assert cursor.fetchmany(5) == rows[7:]
    assert list(cursor.execute(TEN)) == rows
    cursor.arraysize = 4
    assert [len(cursor.execute(TEN).fetchmany()), cursor.rowcount] == [4, -1]
    assert cursor.fetchmany(0) == []


def test_statements_without_rows(connection: dbapi.Connection, cursor: dbapi.Cursor) -> None:
    assert cursor.connection is connection
    cursor.execute(TEN)
    assert cursor.job_id is not None
    assert cursor.execute("CREATE TABLE t (a INT) WITH ('connector' = 'blackhole')") is cursor
    assert (cursor.description, cursor.rowcount, cursor.job_id, cursor.lastrowid) == (None, -1, None, None)
    for fetch in (cursor.fetchone, cursor.fetchmany, cursor.fetchall, lambda: next(cursor)):
        with pytest.raises(dbapi.ProgrammingError, match="GW031"):
            fetch()
    assert cursor.execute("SHOW TABLES").fetchall() == [("t",)]
    assert cursor.execute("DESCRIBE t").fetchall() == [("a", "INT", True, None, None, None)]
    cursor.setinputsizes([None])
    cursor.setoutputsize(1)
    connection.commit()


def test_executemany_is_for_statements_without_rows(cursor: dbapi.Cursor) -> None:
    cursor.executemany("CREATE DATABASE d", [])
    with pytest.raises(dbapi.ProgrammingError, match="GW031"):
        cursor.executemany("SELECT ?", [[1], [2]])
    assert cursor.description is None
    cursor.executemany("SET 'table.exec.state.ttl' = ?", [["1 h"], ["2 h"]])
    assert cursor.execute("SET 'table.exec.state.ttl'").fetchall() == [("table.exec.state.ttl", "2 h")]


def test_results_that_nobody_reads_are_closed(connection: dbapi.Connection) -> None:
    """A session has at most twenty of them."""
    for _ in range(30):
        assert connection.cursor().execute(TEN).fetchone() == (0,)


# changes


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The DDL of a table whose three files are a micro-batch each."""
    folder = tmp_path_factory.mktemp("orders")
    for n, product in enumerate(("tea", "oil", "tea")):
        (folder / f"{n}.json").write_text(json.dumps({"product": product, "num": n + 1}) + "\n")
    return (
        f"CREATE TABLE orders (product STRING, num INT) WITH ('connector' = 'filesystem', 'path' = '{folder}', "
        "'format' = 'json', 'source.max-files-per-trigger' = '1')"
    )


TOTALS = "SELECT product, SUM(num) AS items FROM orders GROUP BY product"


def test_a_query_gives_its_final_rows(cursor: dbapi.Cursor, orders: str) -> None:
    cursor.execute(orders)
    assert sorted(cursor.execute(TOTALS).fetchall()) == [("oil", 2), ("tea", 4)]
    assert cursor.execute("SELECT num FROM orders ORDER BY num DESC").fetchall() == [(3,), (2,), (1,)]


def test_a_streaming_query_does_not_lose_its_changes(gateway: GatewayHere, orders: str) -> None:
    options = {"execution.runtime-mode": "streaming"}
    with dbapi.connect(at(gateway), options) as connection, connection.cursor() as cursor:
        cursor.execute(orders)
        assert sorted(cursor.execute("SELECT num FROM orders").fetchall()) == [(1,), (2,), (3,)]
        with pytest.raises(dbapi.NotSupportedError, match=r"GW032.*-U(.|\n)*changelog=True"):
            cursor.execute(TOTALS).fetchall()
        cursor.execute("SET 'execution.runtime-mode' = 'batch'")
        assert sorted(cursor.execute(TOTALS).fetchall()) == [("oil", 2), ("tea", 4)]


def test_changes_with_their_kinds(gateway: GatewayHere, orders: str) -> None:
    with dbapi.connect(at(gateway), changelog=True) as connection, connection.cursor() as cursor:
        cursor.execute(orders)
        cursor.execute(TOTALS)
        assert cursor.description is not None
        assert [column[0] for column in cursor.description] == ["op", "product", "items"]
        assert cursor.description[0][1] == dbapi.STRING
        changes = cursor.fetchall()
        assert sorted(changes[:2]) == [("+I", "oil", 2), ("+I", "tea", 1)]
        assert changes[2:] == [("-U", "tea", 1), ("+U", "tea", 4)]
        assert cursor.execute("SHOW TABLES").fetchall() == [("orders",)], "no query, no changes"
        assert 0 < len(cursor.execute(TOTALS).fetchmany(100)) <= 4
    with dbapi.connect(at(gateway), {"execution.runtime-mode": "batch"}, changelog=True) as connection:
        cursor = connection.cursor()
        cursor.execute(orders)
        assert sorted(cursor.execute(TOTALS).fetchall()) == [("+I", "oil", 2), ("+I", "tea", 4)]


# the end


def test_what_is_closed_says_so(gateway: GatewayHere) -> None:
    with dbapi.connect(at(gateway)) as connection:
        with connection.cursor() as cursor:
            cursor.execute(TEN)
        for use in (lambda: cursor.execute("SELECT 1"), cursor.fetchone, cursor.__enter__, lambda: next(cursor)):
            with pytest.raises(dbapi.InterfaceError, match=r"GW030.*cursor"):
                use()
        cursor.close()
        cursor.cancel()
        cursor = connection.cursor().execute(TEN)
        assert not connection.closed
    assert connection.closed
    for use in (
        connection.cursor,
        connection.commit,
        connection.rollback,
        connection.__enter__,
        cursor.fetchall,
        lambda: cursor.execute("SELECT 1"),
        lambda: cursor.executemany("SELECT 1", []),
        lambda: cursor.setinputsizes([]),
    ):
        with pytest.raises(dbapi.InterfaceError, match=r"GW030.*connection"):
            use()
    cursor.cancel()
    cursor.close()
    connection.close()


def test_another_thread_closes_the_connection(gateway: GatewayHere, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = dbapi.connect(at(gateway))
    cursor = connection.cursor().execute(TEN)
    fetch = HttpSession.fetch_values

    def closed_meanwhile(session: HttpSession, operation: str, token: int) -> ResultPage:
        connection.close()
        return fetch(session, operation, token)

    monkeypatch.setattr(HttpSession, "fetch_values", closed_meanwhile)
    with pytest.raises(dbapi.InterfaceError, match=r"GW030.*connection"):
        cursor.fetchall()


def test_a_connection_that_is_forgotten_ends_its_session(gateway: GatewayHere) -> None:
    before = len(gateway.service.sessions())
    connection: dbapi.Connection | None = dbapi.connect(at(gateway))
    assert len(gateway.service.sessions()) == before + 1
    cursor: dbapi.Cursor | None = connection and connection.cursor().execute(TEN)
    connection = None
    gc.collect()
    assert cursor is not None and cursor.fetchone() == (0,), "a cursor keeps its connection"
    cursor = None
    gc.collect()
    assert len(gateway.service.sessions()) == before


def test_a_canceled_result_is_not_taken_for_whole(cursor: dbapi.Cursor) -> None:
    cursor.cancel()
    cursor.execute(TEN)
    cursor.cancel()
    with pytest.raises(dbapi.OperationalError, match=r"GW009.*canceled"):
        cursor.fetchall()
    with pytest.raises(dbapi.ProgrammingError, match="GW031"):
        cursor.fetchall()
    assert cursor.execute("SELECT 1").fetchall() == [(1,)]


def test_threads_share_a_connection(connection: dbapi.Connection) -> None:
    found: dict[int, list[tuple[Any, ...]]] = {}

    def work(number: int) -> None:
        for _ in range(3):
            found[number] = connection.cursor().execute(f"{TEN} WHERE n <> ?", [number]).fetchall()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {number: [(n,) for n in range(10) if n != number] for number in range(6)}


# data frames

FRAME = (
    "SELECT * FROM (VALUES (1, CAST(1.5 AS DECIMAL(5, 2)), 'x', TIMESTAMP '2024-01-01 10:00:00.123', "
    "DATE '2024-01-01', TRUE, CAST(0.5 AS DOUBLE), TO_TIMESTAMP_LTZ(0, 3), ARRAY[-1], MAP['k', -1], x'00')) "
    "AS t (i, d, s, ts, date1, b, f, ltz, a, m, x)"
)


def test_polars_reads_a_query(connection: dbapi.Connection) -> None:
    frame = pl.read_database(FRAME, connection)
    assert frame.row(0) == (
        *(1, Decimal("1.50"), "x", DAY, DAY.date(), True, 0.5, dt.datetime(1970, 1, 1, tzinfo=dt.UTC)),
        *([-1], {"k": -1}, b"\x00"),
    )
    assert frame.schema["d"] == pl.Decimal(5, 2) and frame.schema["ts"] == pl.Datetime("ms")
    empty = pl.read_database(f"{FRAME} WHERE i > ?", connection, execute_options={"parameters": [1]})
    assert empty.height == 0 and empty.schema["d"] == pl.Decimal(5, 2)
    batches = list(pl.read_database(TEN, connection, iter_batches=True, batch_size=4))
    assert [batch.height for batch in batches] == [4, 4, 2]


def test_pandas_reads_a_query(connection: dbapi.Connection) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "pandas only supports SQLAlchemy", UserWarning)
        frame = pd.read_sql(FRAME, connection)
        some = pd.read_sql(f"{TEN} WHERE n > ?", connection, params=[7])
        chunks = [len(chunk) for chunk in pd.read_sql(TEN, connection, chunksize=4)]
        with pytest.raises(pd.errors.DatabaseError, match="SQL002"):
            pd.read_sql("SELEC 1", connection)
    assert list(frame.columns) == ["i", "d", "s", "ts", "date1", "b", "f", "ltz", "a", "m", "x"]
    assert frame["ts"][0] == pd.Timestamp(DAY)
    assert list(some["n"]) == [8, 9]
    assert chunks == [4, 4, 2]


# the documentation


def test_the_page(gateway: GatewayHere) -> None:
    """Its examples print what their comments say."""
    section = PAGE.read_text("utf-8").partition("## Database API")[2].partition("\n## ")[0]
    examples = re.findall(r"```python\n(.*?)```", section, re.S)
    assert examples
    names: dict[str, Any] = {}
    for example in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(example.replace("http://localhost:8083", at(gateway)), names)
        assert printed.getvalue().splitlines() == re.findall(r"print\(.*\)  # (.*)", example)


# jobs


def statuses(cursor: dbapi.Cursor) -> dict[str | None, str]:
    """Where each job stands."""
    return {job: status for job, _, status, _ in cursor.execute("SHOW JOBS").fetchall()}


@pytest.mark.spark
def test_inserts(spark: object, gateway: GatewayHere, tmp_path: Path) -> None:
    with dbapi.connect(at(gateway)) as connection, connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE t (a INT, b STRING) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t', "
            "'format' = 'json')"
        )
        before = statuses(cursor)
        cursor.execute("INSERT INTO t VALUES (?, ?)", [0, "it's"])
        first = cursor.job_id
        assert first is not None and re.fullmatch("[0-9a-f]{32}", first)
        assert (cursor.description, cursor.rowcount) == (None, -1)
        cursor.execute("SET 'table.dml-sync' = 'true'")
        cursor.executemany("INSERT INTO t VALUES (?, ?)", [[n, f"row {n}"] for n in range(1, 100)])
        last = cursor.job_id
        assert last not in (None, first)
        until = time.monotonic() + 60
        while statuses(cursor)[first] == "RUNNING":
            assert time.monotonic() < until
            time.sleep(0.1)
        assert statuses(cursor).keys() - before.keys() == {first, last}, "ninety-nine rows are one job"
        rows = cursor.execute("SELECT a, b FROM t ORDER BY a").fetchall()
        assert rows == [(0, "it's"), *((n, f"row {n}") for n in range(1, 100))]


@pytest.mark.spark
def test_cancel_from_another_thread(spark: object, gateway: GatewayHere) -> None:
    with dbapi.connect(at(gateway), changelog=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE ticks (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '20')")
        cursor.execute("SELECT n FROM ticks")
        job = cursor.job_id
        assert len(cursor.fetchmany(1000)) < 1000, "it does not wait for rows that are not there yet"
        timer = threading.Timer(1, cursor.cancel)
        timer.start()
        with pytest.raises(dbapi.OperationalError, match="GW009"):
            cursor.fetchall()
        timer.join()
        until = time.monotonic() + 60
        while statuses(cursor)[job] == "RUNNING":
            assert time.monotonic() < until
            time.sleep(0.1)
