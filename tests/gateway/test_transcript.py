"""Every exchange of Flink's own client with Flink's own gateway, as recorded, with our gateway in its place.

Status and shape must be the same: keys, types, columns, kinds of results, and rows where they follow from the
statement. Handles, ids and times are others, and errors have our texts. ``DIFFERENT`` has what differs on purpose.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.gateway_server import GatewayServer
from tests.gateway.gateway_transcript import TRANSCRIPT, UUID, Exchange, exchanges

pytestmark = pytest.mark.spark

DIFFERENT = ("EXPLAIN PLAN '/data/out/plan.json';", "EXPLAIN PLAN '/data/out/plan2.json'")
"""Statements that Flink refuses and that run here."""


ORDERS = [(1, 0, 1), (2, 1, 2), (3, 0, 3), (4, 1, 4), (5, 0, 5), (6, 1, 6)]
NOBODY = "00000000-0000-0000-0000-000000000000"


@dataclass
class Replay:
    """Our gateway, and what stands for the handles and ids of the recording."""

    http: httpx.Client
    data: Path
    names: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    early: dict[str, list[Any]] = field(default_factory=dict)
    """By operation, rows that came with a page which has none in the recording."""
    statements: dict[str, str] = field(default_factory=dict)

    def ours(self, text: str) -> str:
        for theirs, own in self.names.items():
            text = text.replace(theirs, own)
        return text.replace("/data/", f"{self.data}/")

    def ask(self, method: str, path: str, body: str | None = None) -> httpx.Response:
        headers = {"content-type": "application/json; charset=UTF-8", "connection": "close"}
        return self.http.request(
            method, self.ours(path), content=None if body is None else self.ours(body), headers=headers
        )


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replay]:
    if TRANSCRIPT is None:
        pytest.skip("no reference material: set STATEPLAN_SHARED to its folder")
    folder = tmp_path_factory.mktemp("gateway")
    orders = folder / "data" / "orders"
    orders.mkdir(parents=True)
    (folder / "out").mkdir()
    lines = [json.dumps(dict(zip(("order_id", "product_id", "num"), row, strict=True))) for row in ORDERS]
    (orders / "1.json").write_text("\n".join(lines[:2]) + "\n")
    (orders / "2.json").write_text("\n".join(lines[2:]) + "\n")
    server = GatewayServer(folder)
    yield Replay(server.http, folder)
    server.stop()


@pytest.mark.parametrize("section", ["B", "A", "C", "D"])
def test_every_exchange_has_the_recorded_answer(replay: Replay, section: str) -> None:
    found = [e for e in exchanges() if e.section == section]
    assert len(found) >= {"A": 60, "B": 10, "C": 80, "D": 12}[section]
    if section == "B":
        _prepare(replay, found)
    for i, exchange in enumerate(found):
        try:
            _check(replay, exchange, found[i + 1 :])
        except AssertionError as error:
            raise AssertionError(f"{exchange.title}: {exchange.method} {exchange.path}\n{error}") from error


def _prepare(replay: Replay, found: list[Exchange]) -> None:
    """The session of section B was opened, and its tables made, before what was recorded."""
    session = replay.ask("POST", "/v4/sessions", "{}").json()["sessionHandle"]
    replay.names[UUID.findall(found[0].path)[0]] = session
    for exchange in exchanges():
        if exchange.section == "A" and exchange.statement.startswith("CREATE TABLE"):
            body = exchange.body or ""
            assert replay.ask("POST", f"/v4/sessions/{session}/configure-session", body).status_code == 200


def _check(replay: Replay, exchange: Exchange, later: list[Exchange]) -> None:
    if exchange.is_fetch:
        _check_fetch(replay, exchange, later)
        return
    operation = _operation(exchange.path)
    if operation in replay.closed and exchange.method == "DELETE":
        return
    answer = replay.ask(exchange.method, exchange.path, exchange.body)
    assert answer.status_code == exchange.status, answer.text
    assert answer.headers["content-type"].lower() == "application/json; charset=utf-8"
    if exchange.status != 200:
        _same_errors(exchange, answer.json())
        return
    ours = answer.json()
    if exchange.length is not None:  # the properties of a session
        assert set(ours) == {"properties"} and all(isinstance(v, str) for v in ours["properties"].values())
        return
    theirs = json.loads(exchange.answer)
    assert list(ours) == list(theirs)
    for key in ("sessionHandle", "operationHandle"):
        if key in theirs:
            assert UUID.fullmatch(ours[key])
            replay.names[theirs[key]] = ours[key]
            replay.statements[theirs[key]] = exchange.statement
    if not {"sessionHandle", "operationHandle", "productName"} & set(theirs):
        assert ours == theirs


def _operation(path: str) -> str:
    found = re.search(r"/operations/([^/]+)", path)
    return found[1] if found else ""


def _same_errors(exchange: Exchange, ours: dict[str, Any]) -> None:
    theirs = json.loads(exchange.answer)
    assert list(ours) == list(theirs) == ["errors"]
    assert len(ours["errors"]) == len(theirs["errors"])
    assert "Traceback" not in str(ours) and ".py" not in str(ours)
    if len(ours["errors"]) == 2:
        assert ours["errors"][0] == theirs["errors"][0]
        assert re.fullmatch(
            r"<Exception on server side:\n.*Caused by: \[\w+\] .*\n\tat stateplan\n\nEnd of exception on server side>",
            ours["errors"][1],
            re.S,
        )


def _check_fetch(replay: Replay, exchange: Exchange, later: list[Exchange]) -> None:
    theirs_operation = _operation(exchange.path)
    if theirs_operation not in replay.names and exchange.title.startswith("try: "):
        _submit(replay, exchange, theirs_operation)
    if "Can not find the submitted operation" in exchange.answer and theirs_operation not in replay.closed:
        close = next((e for e in later if e.method == "DELETE" and _operation(e.path) == theirs_operation), None)
        if close is not None:  # it came first: the fetch was under way
            assert replay.ask("DELETE", close.path, close.body).json() == json.loads(close.answer)
        replay.closed.add(theirs_operation)
    if exchange.status != 200 and "Expecting token" in exchange.answer:
        _check_wrong_token(replay, exchange)
        return
    if exchange.status == 400:
        answer = replay.ask(exchange.method, exchange.path, exchange.body)
        assert answer.status_code == 400
        _same_errors(exchange, answer.json())
        return
    ours, status = _page(replay, exchange)
    if '"NOT_READY"' in exchange.answer:  # ours may be ready, or have failed, before Flink's
        if status == 200 and ours["resultType"] == "NOT_READY":
            assert ours == json.loads(replay.ours(exchange.answer))
        return
    if replay.statements.get(theirs_operation) in DIFFERENT:
        assert (status, exchange.status) == (200, 500)
        return
    assert status == exchange.status, ours
    if status != 200:
        _same_errors(exchange, ours)
        return
    _same_page(replay, exchange, ours)


def _submit(replay: Replay, exchange: Exchange, theirs: str) -> None:
    """Of some statements only the fetch was kept."""
    statement = exchange.title.removeprefix("try: ").removesuffix(": result")
    session = re.search(r"/sessions/([^/]+)", exchange.path)
    assert session is not None
    answer = replay.ask("POST", f"/v4/sessions/{session[1]}/statements", json.dumps({"statement": statement}))
    replay.names[theirs] = answer.json()["operationHandle"]
    replay.statements[theirs] = statement


def _page(replay: Replay, exchange: Exchange) -> tuple[dict[str, Any], int]:
    """Our page for a recorded one: a result of ours may have fewer pages, or more empty ones."""
    operation = _operation(exchange.path)
    wants_rows = '"kind"' in exchange.answer or (exchange.section == "D" and exchange.title.endswith("PAYLOAD"))
    wants_end = '"resultType":"EOS"' in exchange.answer.replace(" ", "")
    asked = re.search(r"/result/(\d+)", exchange.path)
    assert asked is not None
    rows = replay.early.pop(operation, []) if wants_rows else []
    wanted = len(json.loads(exchange.answer)["results"]["data"]) if wants_rows and exchange.length is None else 1
    until = time.monotonic() + 90
    while True:
        assert time.monotonic() < until, f"nothing came: {rows}"
        token = following = replay.tokens.get(operation, 0)
        if int(asked[1]) == 0:
            token = 0
        path = re.sub(r"/result/\d+", f"/result/{token}", exchange.path)
        answer = replay.ask("GET", path, exchange.body)
        page = answer.json()
        if answer.status_code != 200 or page["resultType"] == "NOT_READY":
            if answer.status_code == 200 and '"NOT_READY"' not in exchange.answer:
                continue
            return page, answer.status_code
        if '"NOT_READY"' in exchange.answer:
            return page, 200
        if page["resultType"] == "PAYLOAD":
            assert page["nextResultUri"] == re.sub(r"/result/\d+", f"/result/{token + 1}", replay.ours(_uri(exchange)))
            replay.tokens[operation] = token + 1
            if not wants_rows and token == following:
                replay.early.setdefault(operation, []).extend(page["results"]["data"])
        rows += page["results"]["data"]
        page["results"]["data"] = rows
        done = len(rows) >= wanted or _settled(rows) if wants_rows else True
        if done and (page["resultType"] == "EOS" or not wants_end):
            return page, 200
        assert page["resultType"] != "EOS", f"the result ends: {rows}"


def _uri(exchange: Exchange) -> str:
    """The path with the row format, which an answer of version 2 and later always has."""
    if "rowFormat" in exchange.path or exchange.path.startswith("/v1/"):
        return exchange.path
    return exchange.path + "?rowFormat=JSON"


def _settled(rows: list[Any]) -> bool:
    """Whether the changes of the streaming query are at their end; they are fewer than Flink's, one per row."""
    return _materialized(rows) in (
        [["0", "3", "9"], ["1", "3", "12"]],
        [[0, 3], [1, 3]],
    )


def _materialized(rows: list[Any]) -> list[Any]:
    table: list[Any] = []
    for row in rows:
        if row["kind"] in ("INSERT", "UPDATE_AFTER"):
            table.append(row["fields"])
        else:
            table.remove(row["fields"])
    return sorted(table)


def _check_wrong_token(replay: Replay, exchange: Exchange) -> None:
    found = re.search(r"Expecting token to be (\d+) or (\d+), but found (\d+)", exchange.answer)
    assert found is not None
    nextly = replay.tokens[_operation(exchange.path)]
    assert nextly > 1
    token = nextly + int(found[3]) - int(found[1])
    token = token if token >= 0 else 0
    answer = replay.ask("GET", re.sub(r"/result/\d+", f"/result/{token}", exchange.path))
    assert answer.status_code == 500
    assert f"xpecting token to be {nextly} or {nextly - 1}, but found {token}" in answer.text
    _same_errors(exchange, answer.json())


def _same_page(replay: Replay, exchange: Exchange, ours: dict[str, Any]) -> None:
    if "jobID" in ours:
        theirs_id = re.search(r'"jobID": ?"([0-9a-f]{32})"', exchange.answer)
        assert theirs_id is not None, "a job that Flink does not start"
        assert re.fullmatch(r"[0-9a-f]{32}", ours["jobID"])
        replay.names[theirs_id[1]] = ours["jobID"]
    if exchange.length is not None:
        _same_beginning(replay, exchange, ours)
        return
    theirs = json.loads(replay.ours(exchange.answer))
    assert list(ours) == list(theirs)
    assert list(ours["results"]) == list(theirs["results"])
    for key in ("resultType", "isQueryResult", "resultKind", "jobID"):
        assert ours.get(key) == theirs.get(key), key
    assert ours["results"]["columns"] == theirs["results"]["columns"]
    assert ours["results"]["rowFormat"] == theirs["results"]["rowFormat"]
    mine, data = ours["results"]["data"], theirs["results"]["data"]
    if replay.statements.get(_operation(exchange.path), "").startswith("EXPLAIN") and data:
        assert len(mine) == 1 and isinstance(mine[0]["fields"][0], str)
        return
    if any(row["kind"] != "INSERT" for row in data):
        assert _materialized(mine) == _materialized(data)
        return
    if theirs["isQueryResult"] and not data:  # rows may come at once
        return
    assert len(mine) == len(data)
    for own, row in zip(mine, data, strict=True):
        assert own["kind"] == row["kind"] and list(own) == list(row)
        for value, other in zip(own["fields"], row["fields"], strict=True):
            if re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z?", str(other)):
                assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}", value.removesuffix("Z"))
                assert value.endswith("Z") == other.endswith("Z")
            elif "savepoint-" in str(other):
                assert re.fullmatch(r"file:/.*savepoint-[0-9a-f]{6}-[0-9a-f]+", value)
            else:
                assert value == other


def _same_beginning(replay: Replay, exchange: Exchange, ours: dict[str, Any]) -> None:
    """Compares with an answer that was cut off: its beginning, and its length where only handles differ."""
    text = json.dumps(ours) if '": "' in exchange.answer else json.dumps(ours, separators=(",", ":"))
    theirs = replay.ours(exchange.answer)
    upto = theirs.find('"data"')
    assert text[: upto if upto > 0 else len(theirs)] == (theirs[:upto] if upto > 0 else theirs)
    columns = ours["results"]["columns"]
    if columns[0]["name"] == "job id":
        wanted = dict(re.findall(r'"fields": ?\["([0-9a-f]{32})".*?"(RUNNING|CANCELED|FINISHED|FAILED)"', theirs))
        wanted = {job: status for job, status in wanted.items() if job in replay.names.values()}
        until, listed = time.monotonic() + 30, _listed(ours)
        while time.monotonic() < until and any(listed[job][2] != status for job, status in wanted.items()):
            time.sleep(0.1)  # a job that was cancelled a moment ago may still be ending
            listed = _listed(_jobs(replay, exchange))
        assert {job: listed[job][2] for job in wanted} == wanted
        assert all(len(fields) == 4 for fields in listed.values())
        return
    mine = len(re.sub(r"/result/\d+", "/result/1", text))
    assert exchange.length is not None
    rows = [json.dumps(row, separators=(",", ":")) for row in ours["results"]["data"]]
    if '": "' not in exchange.answer:  # section C asked before the row was there
        mine -= sum(map(len, rows))
    assert mine == exchange.length


def _listed(ours: dict[str, Any]) -> dict[str, list[Any]]:
    return {row["fields"][0]: row["fields"] for row in ours["results"]["data"]}


def _jobs(replay: Replay, exchange: Exchange) -> dict[str, Any]:
    """The answer to SHOW JOBS in the session of an exchange, asked anew."""
    session, _, _ = exchange.path.partition("/operations/")
    answer = replay.ask("POST", f"{session}/statements", json.dumps({"statement": "SHOW JOBS"}))
    where = f"{session}/operations/{answer.json()['operationHandle']}/result/0?rowFormat=JSON"
    while (page := replay.ask("GET", where).json())["resultType"] == "NOT_READY":
        time.sleep(0.05)
    found: dict[str, Any] = page
    return found
