"""The package py-flink-sql-gateway of PyPI, which others wrote for Flink's gateway, with ours in its place."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator

import flink_gateway
import pytest
from flink_gateway.client import FlinkSqlGatewayClient
from flink_gateway.exceptions import FlinkSqlGatewayError, OperationalError
from flink_gateway.models import (
    CompleteStatementRequest,
    ConfigureSessionRequest,
    ExecuteStatementRequest,
    OpenSessionRequest,
    ResultKind,
    ResultType,
)

from stateplan.gateway.service.limits import Limits
from stateplan.gateway.service.service import SqlGatewayService
from tests.gateway.in_process_gateway import gateway_here

PAGE_ROWS = 7


@pytest.fixture
def url() -> Iterator[str]:
    service = SqlGatewayService(Limits(idle_timeout=0, page_rows=PAGE_ROWS), keep_unknown=True)
    with gateway_here(service) as gateway:
        yield f"http://127.0.0.1:{gateway.port}"
        assert gateway.service.sessions() == [], "a session was not closed"
        assert gateway.complaints() == []


@pytest.mark.parametrize("version", ["v1", "v2", "v3", "v4"])
def test_every_request_that_it_knows(url: str, version: str) -> None:
    with FlinkSqlGatewayClient(url, api_version=version) as client:
        assert client.get_info().product_name == "stateplan"
        assert client.get_api_versions() == ["V1", "V2", "V3", "V4"]
        session = client.open_session(OpenSessionRequest({"table.exec.state.ttl": "1 h"}, "mine"))
        assert client.get_session_config(session) == {"table.exec.state.ttl": "1 h"}
        client.configure_session(
            session, ConfigureSessionRequest("CREATE TABLE t (a INT) WITH ('connector' = 'print')")
        )
        client.heartbeat(session)
        found = client.complete_statement(session, CompleteStatementRequest("SELECT * FROM t", 15))
        assert found == ["default_catalog.default_database.t"]
        operation = client.execute_statement(session, ExecuteStatementRequest("SHOW TABLES", {"mine": "x"}, 60_000))
        page = client.fetch_results(session, operation, "0", "" if version == "v1" else "PLAIN_TEXT")
        while page.result_type is ResultType.NOT_READY:
            page = client.fetch_results(session, operation, "0")
        assert (page.result_type, page.result_kind) == (ResultType.PAYLOAD, ResultKind.SUCCESS_WITH_CONTENT)
        assert [row.fields for row in page.results.data] == [["t"]]
        assert client.get_operation_status(session, operation) == "FINISHED"
        assert client.fetch_results(session, operation, page.next_token()).result_type is ResultType.EOS
        with pytest.raises(FlinkSqlGatewayError, match="it is FINISHED"):
            client.cancel_operation(session, operation)
        assert client.close_operation(session, operation) == "CLOSED"
        client.close_session(session)
        with pytest.raises(FlinkSqlGatewayError, match="does not exist"):
            client.heartbeat(session)


def test_rows_in_pages(url: str) -> None:
    with flink_gateway.connect(url, properties={"execution.runtime-mode": "BATCH"}) as connection:
        cursor = connection.cursor()
        values = ", ".join(f"({i}, 'n{i}')" for i in range(5 * PAGE_ROWS + 3))
        cursor.execute(f"SELECT a, b FROM (VALUES {values}) AS t (a, b)")
        assert [(name, null_ok) for name, *_, null_ok in cursor.description] == [("a", False), ("b", False)]
        assert cursor.fetchone() == (0, "n0")
        assert cursor.fetchmany(10) == [(i, f"n{i}") for i in range(1, 11)]
        assert cursor.fetchall() == [(i, f"n{i}") for i in range(11, 5 * PAGE_ROWS + 3)]
        assert cursor.fetchone() is None
        cursor.execute("CREATE TABLE t (a INT, b STRING) WITH ('connector' = 'print')")
        cursor.execute("DESCRIBE t")
        assert [row[:2] for row in cursor] == [("a", "INT"), ("b", "STRING")]
        cursor.close()


def test_values_of_every_type(url: str) -> None:
    statement = """SELECT CAST(1 AS BIGINT), CAST(1.50 AS DECIMAL(10, 2)), 'x', CAST(NULL AS INT), TRUE,
        DATE '2026-01-02', TIMESTAMP '2026-01-02 03:04:05.123', TIME '10:11:12', CAST(1.25 AS DOUBLE), ARRAY[1, 2],
        MAP['k', 1], ROW(1, 'z'), X'0AFF'"""
    with flink_gateway.connect(url) as connection:
        row = connection.cursor().execute(statement).fetchone()
    assert row is not None
    assert row[:5] == (1, decimal.Decimal("1.50"), "x", None, True)
    assert row[5:9] == (
        datetime.date(2026, 1, 2),
        datetime.datetime(2026, 1, 2, 3, 4, 5, 123_000),
        datetime.time(10, 11, 12),
        1.25,
    )
    assert row[9:] == ([1, 2], {"k": 1}, {"EXPR$0": 1, "EXPR$1": "z"}, "Cv8=")  # the last one in Base64


def test_errors_and_cursors_side_by_side(url: str) -> None:
    with flink_gateway.connect(url) as connection:
        one, other = connection.cursor(), connection.cursor()
        one.execute("SELECT a FROM (VALUES (1), (2), (3)) AS t (a)")
        with pytest.raises(OperationalError, match=r"\[CAT002\].*nosuch"):
            other.execute("SELECT * FROM nosuch")
        with pytest.raises(OperationalError, match=r"\[SQL"):
            other.execute("SELEC 1")
        other.execute("SHOW CATALOGS")
        assert other.fetchall() == [("default_catalog",)]
        assert one.fetchall() == [(1,), (2,), (3,)]
