"""The client of a gateway against a server that answers as Flink's gateway 2.3 did when its exchange was recorded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stateplan.common.changelog import RowKind
from stateplan.common.errors import CheckpointError, RunError, SqlError, StateplanError
from stateplan.common.types import BIGINT, INT, STRING, LogicalType
from stateplan.gateway.client.http import HttpSession, connect
from stateplan.gateway.client.wire import error_of, innermost, type_of
from stateplan.gateway.protocol import PageKind
from tests.gateway.scripted_gateway import OPERATION, SESSION, TRACE, Answer, Gateway


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    made = Gateway()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def session(gateway: Gateway) -> Iterator[HttpSession]:
    made = connect(gateway.url, {"table.exec.state.ttl": "1 h"})
    yield made
    made.close()


def test_a_gateway_that_was_started_again_opens_another_session(gateway: Gateway) -> None:
    session = connect(gateway.url, {"table.exec.state.ttl": "1 h"}, reopens=True)
    path = f"/v4/sessions/{SESSION}"
    gateway.answers[f"GET {path}"] = (200, {"properties": {"table.exec.state.ttl": "2 h"}})
    session.properties()
    gateway.answers[f"POST {path}/statements"] = (
        500, {"errors": ["Internal server error.", f"SqlGatewayException: Session '{SESSION}' does not exist."]}
    )  # fmt: skip
    gateway.answers["POST /v4/sessions"] = (200, {"sessionHandle": "another"})
    gateway.answers["POST /v4/sessions/another/statements"] = (200, {"operationHandle": OPERATION})
    gateway.answers["DELETE /v4/sessions/another"] = (200, {"status": "CLOSED"})
    with pytest.raises(RunError) as said:
        session.submit("SELECT 1")
    assert said.value.code == "RUN167"
    assert gateway.requests[-1] == ("POST /v4/sessions", {"properties": {"table.exec.state.ttl": "2 h"}})
    assert session.submit("SELECT 1") == OPERATION
    session.close()


NAME = {"name": "n", "logicalType": {"type": "BIGINT", "nullable": False}, "comment": None}


def test_a_session(gateway: Gateway) -> None:
    session = connect(gateway.url, {"table.exec.state.ttl": "1 h"}, token="s3cret", name="me")
    assert session.handle == SESSION
    assert gateway.requests[1] == (
        "POST /v4/sessions",
        {"properties": {"table.exec.state.ttl": "1 h"}, "sessionName": "me"},
    )
    assert gateway.headers["authorization"] == "Bearer s3cret"
    path = f"/v4/sessions/{SESSION}"
    gateway.answers[f"GET {path}"] = (200, {"properties": {"a": "b"}})
    assert session.properties() == {"a": "b"}
    gateway.answers[f"POST {path}/configure-session"] = (200, {})
    session.configure("SET 'a' = 'b'")
    assert gateway.requests[-1][1] == {"statement": "SET 'a' = 'b'", "executionTimeout": 0}
    gateway.answers[f"GET {path}/complete-statement"] = (200, {"candidates": ["c.d.orders"]})
    assert session.complete("SELECT * FROM ord", 17) == ["c.d.orders"]
    assert gateway.requests[-1][1] == {"statement": "SELECT * FROM ord", "position": 17}
    session.close()
    session.close()
    assert [r for r, _ in gateway.requests].count(f"DELETE {path}") == 1


def test_a_result_page_by_page(gateway: Gateway, session: HttpSession) -> None:
    assert session.submit("SELECT 1") == OPERATION
    uri = f"{gateway.path}/result/0?rowFormat=PLAIN_TEXT"
    rows = [{"kind": kind.name, "fields": ["1"]} for kind in RowKind]
    more = {"jobID": "9ba8b515c2667311df95ee8a301f07f4"}
    gateway.result(
        0, (200, {"resultType": "NOT_READY", "nextResultUri": uri}), gateway.payload(0, [NAME], rows, **more)
    )
    gateway.result(1, gateway.payload(1, [NAME], [{"kind": "INSERT", "fields": [None]}]))
    ends = {"resultType": "EOS", "isQueryResult": True, "results": {"columns": [NAME], "data": []}}
    gateway.result(2, (200, ends))
    first = session.fetch(OPERATION, 0)
    assert (first.kind, first.next_token) == (PageKind.NOT_READY, 0)
    page = session.fetch(OPERATION, 0)
    assert (page.kind, page.next_token, page.is_query, page.has_content) == (PageKind.PAYLOAD, 1, True, True)
    assert page.job_id == "9ba8b515c2667311df95ee8a301f07f4"
    assert [c.type for c in page.columns] == [BIGINT.not_null()]
    assert page.rows == [(kind, ["1"]) for kind in RowKind]
    assert session.fetch(OPERATION, 1).rows == [(RowKind.INSERT, [None])]
    last = session.fetch(OPERATION, 2)
    assert (last.kind, last.next_token, last.rows) == (PageKind.EOS, None, [])


def test_a_statement_without_content(gateway: Gateway, session: HttpSession) -> None:
    row = [{"kind": "INSERT", "fields": ["OK"]}]
    gateway.result(0, gateway.payload(0, [NAME], row, isQueryResult=False, resultKind="SUCCESS"))
    page = session.fetch(OPERATION, 0)
    assert (page.is_query, page.has_content, page.job_id) == (False, False, None)


def test_cancel_and_close(gateway: Gateway, session: HttpSession) -> None:
    gateway.answers[f"POST {gateway.path}/cancel"] = (200, {"status": "CANCELED"})
    gateway.answers[f"DELETE {gateway.path}/close"] = (200, {"status": "CLOSED"})
    session.cancel(OPERATION)
    session.close_operation(OPERATION)
    assert [r.partition(gateway.path)[2] for r, _ in gateway.requests[-2:]] == ["/cancel", "/close"]


def test_signs_of_life(gateway: Gateway) -> None:
    beats = f"POST /v4/sessions/{SESSION}/heartbeat"
    gateway.answers[beats] = [(500, {"errors": ["once"]}), (200, {})]
    session = connect(gateway.url, heartbeat=0.02)
    until(lambda: [r for r, _ in gateway.requests].count(beats) >= 3)
    session.close()
    threading.Event().wait(0.1)
    count = len(gateway.requests)
    threading.Event().wait(0.1)
    assert len(gateway.requests) == count


def until(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it did not happen")


def test_the_highest_version_that_both_speak(gateway: Gateway) -> None:
    gateway.answers["GET /v1/api_versions"] = (200, {"versions": ["V2", "V3", "V5"]})
    gateway.answers["POST /v3/sessions"] = (200, {"sessionHandle": SESSION})
    gateway.answers[f"DELETE /v3/sessions/{SESSION}"] = (200, {"status": "CLOSED"})
    connect(gateway.url).close()
    gateway.answers["GET /v1/api_versions"] = (200, {"versions": ["V5"]})
    with pytest.raises(RunError, match="RUN163"):
        connect(gateway.url)


def test_version_1_knows_only_json(gateway: Gateway) -> None:
    path = f"/v1/sessions/{SESSION}"
    gateway.answers |= {
        "GET /v1/api_versions": (200, {"versions": ["V1"]}),
        "POST /v1/sessions": (200, {"sessionHandle": SESSION}),
        f"DELETE {path}": (200, {"status": "CLOSED"}),
        f"POST {path}/statements": (200, {"operationHandle": OPERATION}),
        f"DELETE {path}/operations/{OPERATION}/close": (200, {"status": "CLOSED"}),
    }
    rows = [{"kind": "INSERT", "fields": [value]} for value in (1, 1.5, True, False, "x", None, [1, None], {"k": 1})]
    uri = f"{path}/operations/{OPERATION}/result"
    gateway.answers[f"GET {uri}/0"] = gateway.payload(0, [NAME], rows)
    gateway.answers[f"GET {uri}/1"] = (200, {"resultType": "EOS", "results": {"columns": [NAME], "data": []}})
    session = connect(gateway.url)
    texts = [cells[0] for _, cells in session.fetch(OPERATION, 0).rows]
    assert texts == ["1", "1.5", "TRUE", "FALSE", "x", None, "[1, null]", '{"k": 1}']
    session.configure("SET 'a' = 'b'")
    assert f"DELETE {path}/operations/{OPERATION}/close" in [r for r, _ in gateway.requests]
    session.close()


def test_every_type() -> None:
    def made(root: str, **more: Any) -> LogicalType:
        return type_of({"type": root, "nullable": True, **more})

    assert str(made("VARCHAR", length=2147483647)) == str(STRING)
    assert str(made("DECIMAL", precision=10, scale=2)) == "DECIMAL(10, 2)"
    assert str(made("TIME_WITHOUT_TIME_ZONE", precision=0)) == "TIME(0)"
    assert str(made("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=3)) == "TIMESTAMP(3) WITH LOCAL TIME ZONE"
    assert str(made("BINARY", length=2)) == "BINARY(2)"
    assert str(made("ARRAY", elementType={"type": "INTEGER", "nullable": False})) == "ARRAY<INT NOT NULL>"
    key, value = {"type": "CHAR", "nullable": False, "length": 1}, {"type": "INTEGER", "nullable": True}
    assert str(made("MAP", keyType=key, valueType=value)) == "MAP<CHAR(1) NOT NULL, INT>"
    assert str(made("MULTISET", elementType=value)) == "MULTISET<INT>"
    fields = [{"name": "EXPR$0", "fieldType": value}, {"name": "b", "fieldType": key, "description": "why"}]
    assert str(made("ROW", fields=fields)) == "ROW<`EXPR$0` INT, `b` CHAR(1) NOT NULL>"
    assert made("INTERVAL_DAY_TIME", resolution="DAY_TO_SECOND").resolution == "DAY TO SECOND"
    assert made("RAW", **{"class": "x"}) == LogicalType("RAW")
    assert type_of({"type": "INTEGER", "nullable": False}) == INT.not_null()


# errors


def test_the_innermost_cause_is_what_is_wrong() -> None:
    assert innermost(TRACE) == ("org.apache.calcite.sql.validate.SqlValidatorException: Object 'nosuch' not found")
    error = error_of({"errors": ["Internal server error.", TRACE]})
    assert str(error).startswith("[RUN164] org.apache.calcite")
    unknown = "Session '0' does not exist."
    assert innermost(f"org.x.RestHandlerException: Failed.\n\tat x\nCaused by: {unknown}\n\tat y") == unknown
    assert str(error_of({"errors": ["Not found: /v4/nope"]})) == "[RUN164] Not found: /v4/nope"
    assert str(error_of({})) == "[RUN164] it gives no reason"


def test_an_error_of_ours_keeps_its_code() -> None:
    text = "[CKPT003] the plan does not fit\n  --> line 1, column 2\n  expected: another"
    trace = f"<Exception on server side:\nCaused by: {text}\n\tat stateplan\n\nEnd of exception on server side>"
    error = error_of({"errors": ["Internal server error.", trace]})
    assert isinstance(error, CheckpointError)
    assert str(error) == text
    assert isinstance(error_of({"errors": ["[SQL001] no"]}), SqlError)


def test_an_error_comes_with_the_fetch(gateway: Gateway, session: HttpSession) -> None:
    gateway.result(0, (500, {"errors": ["Internal server error.", TRACE]}))
    with pytest.raises(StateplanError, match="Object 'nosuch' not found"):
        session.fetch(session.submit("SELECT * FROM nosuch"), 0)


@pytest.mark.parametrize("status", [401, 403])
def test_a_gateway_that_refuses(gateway: Gateway, status: int) -> None:
    gateway.answers["POST /v4/sessions"] = (status, {"errors": ["no"]})
    with pytest.raises(RunError, match=r"RUN162(.|\n)*--token-file"):
        connect(gateway.url)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ("GET /v1/api_versions", (200, b"<html>")),
        ("GET /v1/api_versions", (200, [1])),
        ("GET /v1/api_versions", (200, {"versions": "V1"})),
        ("GET /v1/api_versions", (502, b"Bad Gateway")),
        ("POST /v4/sessions", (200, {})),
        ("POST /v4/sessions", (200, {"sessionHandle": 5})),
    ],
)
def test_something_else_than_a_gateway(gateway: Gateway, request_: str, answer: Answer) -> None:
    gateway.answers[request_] = answer
    with pytest.raises(RunError, match="RUN163"):
        connect(gateway.url)


@pytest.mark.parametrize(
    "change",
    [
        {"resultType": "MAYBE"},
        {"results": None},
        {"nextResultUri": "/nowhere"},
        {"results": {"columns": [{"name": "a"}], "data": []}},
        {"results": {"columns": [], "data": [{"kind": "UPSERT", "fields": []}]}},
    ],
)
def test_a_page_of_another_form(gateway: Gateway, session: HttpSession, change: dict[str, Any]) -> None:
    status, body = gateway.payload(0, [NAME], [])
    gateway.result(0, (status, {**body, **change}))
    with pytest.raises(RunError, match="RUN163"):
        session.fetch(OPERATION, 0)


@pytest.mark.parametrize("endpoint", ["ftp://host", "http://", "http:///path"])
def test_an_address_that_is_none(endpoint: str) -> None:
    with pytest.raises(RunError, match="cannot be reached: this is not an address"):
        connect(endpoint)


def test_nobody_answers(gateway: Gateway) -> None:
    gateway.server.shutdown()
    gateway.server.server_close()
    with pytest.raises(RunError, match=r"RUN161.*cannot be reached"):
        connect(gateway.url.removeprefix("http://"))


def test_certificates_that_are_not_there() -> None:
    with pytest.raises(RunError, match=r"RUN161.*No such file"):
        connect("https://localhost:1", ca_file="/nowhere.pem")
