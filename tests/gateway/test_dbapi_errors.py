"""Errors of the DB-API module, at our gateway and as Flink's answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import stateplan.gateway.dbapi as dbapi
from stateplan.common.errors import (
    CatalogError,
    DataError,
    GatewayError,
    PlanError,
    RunError,
    SqlError,
    StateplanError,
)
from stateplan.gateway.rest.guard import Access
from stateplan.gateway.service.limits import Limits
from stateplan.gateway.service.service import SqlGatewayService
from tests.gateway.in_process_gateway import GatewayHere, gateway_here
from tests.gateway.scripted_gateway import OPERATION, SESSION, TRACE, Gateway

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


@pytest.mark.parametrize(
    ("statement", "kind", "cause"),
    [
        ("SELEC 1", dbapi.ProgrammingError, SqlError),
        ("", dbapi.ProgrammingError, SqlError),
        ("SELECT '\ud800'", dbapi.ProgrammingError, SqlError),
        ("SELECT * FROM nosuch", dbapi.ProgrammingError, CatalogError),
        ("EXPLAIN PLAN 'nosuch.json'", dbapi.ProgrammingError, PlanError),
        ("SELECT CAST('x' AS INT)", dbapi.DataError, DataError),
        ("SET 'table.exec.state.ttl' = 'soon'", dbapi.OperationalError, StateplanError),
        ("STOP JOB 'nosuch'", dbapi.OperationalError, RunError),
    ],
)
def test_errors_of_statements(
    cursor: dbapi.Cursor, statement: str, kind: type[dbapi.Error], cause: type[StateplanError]
) -> None:
    with pytest.raises(dbapi.DatabaseError) as raised:
        cursor.execute(statement).fetchall()
    assert type(raised.value) is kind
    assert isinstance(raised.value.__cause__, cause)
    assert raised.value.code == raised.value.__cause__.code
    assert str(raised.value).startswith(f"[{raised.value.code}] ")
    assert cursor.execute("SELECT 1").fetchall() == [(1,)], "the cursor goes on"


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("org.apache.calcite.sql.validate.SqlValidatorException: Object 'nosuch' not found", dbapi.ProgrammingError),
        ('org.apache.flink.sql.parser.impl.ParseException: Encountered "SELEC"', dbapi.ProgrammingError),
        ("org.apache.flink.table.api.ValidationException: no", dbapi.ProgrammingError),
        ("java.lang.NumberFormatException: For input string: 'x'", dbapi.DataError),
        ("org.apache.flink.runtime.rest.handler.RestHandlerException: no", dbapi.OperationalError),
        ("it gives no reason", dbapi.OperationalError),
    ],
)
def test_errors_of_flink(message: str, kind: type[dbapi.Error]) -> None:
    assert type(dbapi._translated(RunError("RUN164", message=message))) is kind


def test_errors_of_unknown_families() -> None:
    assert type(dbapi._translated(StateplanError("BUG000", what="x"))) is dbapi.InternalError
    assert type(dbapi._translated(StateplanError.with_text("NEW001", "x"))) is dbapi.DatabaseError


@pytest.mark.parametrize(
    ("endpoint", "code"),
    [
        ("http://127.0.0.1:1", "RUN161"),
        ("http://127.0.0.1:port", "RUN161"),
        ("http://[::1", "RUN161"),
        ("http://127.0.0.1:99999", "RUN161"),
        ("http://a b", "RUN161"),
        ("ftp://x", "RUN161"),
        ("https://localhost:1", "RUN161"),
    ],
)
def test_a_gateway_that_is_not_there(endpoint: str, code: str) -> None:
    with pytest.raises(dbapi.OperationalError, match=code) as raised:
        dbapi.connect(endpoint)
    assert isinstance(raised.value.__cause__, RunError)


def test_what_a_gateway_refuses(gateway: GatewayHere) -> None:
    for options in ({"table.exec.state.ttl": "soon"}, {"execution.runtime-mode": "never"}, {"a": "\ud800"}):
        with pytest.raises(dbapi.OperationalError):
            dbapi.connect(at(gateway), options)
    for token in ("tökén", "a\nb"):
        with pytest.raises(dbapi.OperationalError):
            dbapi.connect(at(gateway), token=token)


def test_a_token() -> None:
    with gateway_here(SqlGatewayService(Limits(idle_timeout=0)), Access(token="0123456789abcdef")) as guarded:
        with pytest.raises(dbapi.OperationalError, match="RUN162"):
            dbapi.connect(at(guarded))
        with dbapi.connect(at(guarded), token="0123456789abcdef") as connection:
            assert connection.cursor().execute("SELECT 1").fetchall() == [(1,)]


def test_a_session_that_ends(gateway: GatewayHere, connection: dbapi.Connection, cursor: dbapi.Cursor) -> None:
    for session in gateway.service.sessions():
        gateway.service.close_session(session.handle)
    with pytest.raises(dbapi.OperationalError, match=r"session '.*' does not exist") as raised:
        cursor.execute("SELECT 1")
    assert raised.value.code == "GW001"
    assert isinstance(raised.value.__cause__, GatewayError)


def test_a_gateway_that_ends() -> None:
    with gateway_here(SqlGatewayService(Limits(idle_timeout=0, page_rows=3))) as ending:
        connection = dbapi.connect(at(ending))
        cursor = connection.cursor().execute(TEN)
    with pytest.raises(dbapi.OperationalError):
        cursor.fetchall()
    with pytest.raises(dbapi.OperationalError):
        cursor.execute("SELECT 1")
    cursor.close()
    connection.close()


def test_transactions(connection: dbapi.Connection) -> None:
    with pytest.raises(dbapi.NotSupportedError, match="GW033") as raised:
        connection.rollback()
    assert isinstance(raised.value.__cause__, GatewayError)


# Flink's gateway, as it answered when its exchange was recorded


@pytest.mark.parametrize("version", ["v1", "v4"])
def test_flinks_gateway(version: str) -> None:
    flink = Gateway()
    form = "" if version == "v1" else "?rowFormat=JSON"
    session = f"/{version}/sessions/{SESSION}"
    operation = f"{session}/operations/{OPERATION}"
    column = {"name": "product_id", "logicalType": {"type": "BIGINT", "nullable": True}, "comment": None}
    price = {"type": "DECIMAL", "nullable": False, "precision": 10, "scale": 2}
    columns = [column, {"name": "price", "logicalType": price, "comment": None}]

    def page(token: int, rows: list[Any], **more: Any) -> dict[str, Any]:
        results = {"columns": columns, "rowFormat": "JSON", "data": [{"kind": k, "fields": f} for k, f in rows]}
        common = {"isQueryResult": True, "jobID": "f9f2ab5ca13aa7920dc0605fbd603a56"}
        following = {"nextResultUri": f"{operation}/result/{token + 1}{form}"}
        kinds = {"resultType": "PAYLOAD", "resultKind": "SUCCESS_WITH_CONTENT"}
        return {**kinds, **common, "results": results, **following, **more}

    waiting = {"resultType": "NOT_READY", "nextResultUri": f"{operation}/result/0{form}"}
    changes = [("INSERT", [0, 1]), ("UPDATE_BEFORE", [0, 1]), ("UPDATE_AFTER", [0, 2.5]), ("INSERT", [None, 1e3])]
    flink.answers |= {
        "GET /v1/api_versions": (200, {"versions": [version.upper()]}),
        f"POST /{version}/sessions": (200, {"sessionHandle": SESSION}),
        f"DELETE {session}": (200, {"status": "CLOSED"}),
        f"POST {session}/statements": (200, {"operationHandle": OPERATION}),
        f"GET {operation}/result/0{form}": [(200, waiting), (200, waiting), (200, page(0, []))],
        f"GET {operation}/result/1{form}": (200, page(1, changes)),
        f"GET {operation}/result/2{form}": (200, page(2, [], resultType="EOS")),
        f"DELETE {operation}/close": (200, {"status": "CLOSED"}),
    }
    with dbapi.connect(flink.url, changelog=True) as connection:
        rows = connection.cursor().execute("SELECT * FROM t").fetchall()
    assert [row[:2] for row in rows] == [("+I", 0), ("-U", 0), ("+U", 0), ("+I", None)]
    assert [str(row[2]) for row in rows] == ["1.00", "1.00", "2.50", "1000.00"]
    flink.answers[f"GET {operation}/result/0{form}"] = (500, {"errors": ["Internal server error.", TRACE]})
    with dbapi.connect(flink.url) as connection, pytest.raises(dbapi.ProgrammingError, match="'nosuch' not found"):
        connection.cursor().execute("SELECT * FROM nosuch")
    modes = [body["properties"] for request, body in flink.requests if request == f"POST /{version}/sessions"]
    assert modes == [{"execution.runtime-mode": "STREAMING"}, {"execution.runtime-mode": "BATCH"}]
    flink.server.shutdown()
    flink.server.server_close()


@pytest.mark.filterwarnings("ignore:pandas only supports SQLAlchemy")
def test_to_sql_of_pandas_says_what_to_do_instead(gateway: GatewayHere) -> None:
    """It asks for a table of SQLite, and would write with SQLite's types."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, None], "b": ["x", None]})
    with dbapi.connect(f"http://127.0.0.1:{gateway.port}") as connection:
        with pytest.raises(pandas.errors.DatabaseError, match=r"\[GW034\]"):
            frame.to_sql("t", connection)
        with connection.cursor() as cursor, pytest.raises(dbapi.NotSupportedError) as raised:
            cursor.execute("SELECT name FROM sqlite_master")
        assert "executemany" in str(raised.value)
    rows = frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None)
    assert list(rows) == [(1.0, "x"), (None, None)]
