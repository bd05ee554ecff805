"""The gateway without HTTP: sessions, operations one after the other, results by token, limits."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import polars as pl
import pytest

from stateplan.common.changelog import RowKind
from stateplan.common.errors import GatewayError, OptionError, RunError, StateplanError
from stateplan.common.types import INT, STRING
from stateplan.connectors.results import ResultChannel
from stateplan.gateway.protocol import GatewaySession, PageKind, ResultPage
from stateplan.gateway.service.fetcher import PAGE_BYTES, ResultFetcher
from stateplan.gateway.service.limits import Limits
from stateplan.gateway.service.operations import Operation, OperationManager, OperationStatus
from stateplan.gateway.service.service import InProcessSession, SqlGatewayService
from stateplan.session.results import ResultKind, TableResult, content, ok

TABLE = "CREATE TABLE t (a INT, b STRING) WITH ('connector' = 'print')"


@pytest.fixture
def service() -> Iterator[SqlGatewayService]:
    made = SqlGatewayService(Limits(idle_timeout=0), keep_unknown=True)
    yield made
    made.stop()


@pytest.fixture
def session(service: SqlGatewayService) -> InProcessSession:
    return service.open_session("test", {})


def first(session: GatewaySession, operation: str) -> ResultPage:
    until = time.monotonic() + 20
    while (page := session.fetch(operation, 0)).kind is PageKind.NOT_READY:
        assert time.monotonic() < until
    return page


def run(session: GatewaySession, statement: str) -> list[list[str | None]]:
    """All rows of a statement."""
    operation = session.submit(statement)
    page, rows, token = first(session, operation), list[list[str | None]](), 0
    while page.kind is not PageKind.EOS:
        rows += [list(fields) for _, fields in page.rows]
        token += 1
        assert page.next_token == token
        page = session.fetch(operation, token)
    return rows


# statements and sessions


def test_a_session_remembers_what_its_statements_do(service: SqlGatewayService, session: InProcessSession) -> None:
    assert isinstance(session, InProcessSession)
    assert run(session, TABLE) == [["OK"]]
    assert run(session, "SHOW TABLES;") == [["t"]]
    assert run(session, "DESCRIBE t")[0] == ["a", "INT", "TRUE", None, None, None]
    assert run(service.open_session(), "SHOW TABLES") == []


def test_errors_come_with_the_fetch(session: InProcessSession) -> None:
    for statement, code in (("SELEC 1", "SQL002"), ("", "SQL010"), ("SELECT * FROM nosuch", "CAT002")):
        operation = session.submit(statement)
        for _ in range(2):
            with pytest.raises(StateplanError) as raised:
                first(session, operation)
            assert raised.value.code == code


def test_options_of_a_session(service: SqlGatewayService) -> None:
    session = service.open_session("s", {"jobmanager.rpc.address": "x", "table.exec.state.ttl": "1 h", "mine": "1"})
    assert session.properties() == {"jobmanager.rpc.address": "x", "table.exec.state.ttl": "1 h", "mine": "1"}
    operation = session.submit("SET 'a.b' = 'c'")
    assert first(session, operation).notes == ("the option 'a.b' has no effect: it is not known",)
    assert session.properties()["a.b"] == "c"
    assert run(session, "RESET 'a.b'") == [["OK"]]
    assert "a.b" not in session.properties()
    with pytest.raises(OptionError):
        service.open_session("s", {"table.exec.state.ttl": "soon"})


def test_unknown_options_are_errors_unless_they_are_kept() -> None:
    service = SqlGatewayService()
    with pytest.raises(OptionError, match="unknown option"):
        service.open_session("s", {"mine": "1"})
    service.stop()


def test_options_of_a_statement_hold_for_it_alone(service: SqlGatewayService, session: InProcessSession) -> None:
    run(session, "SET 'table.exec.state.ttl' = '1 h'")
    operation = service.submit(session.handle, "SET", {"table.exec.state.ttl": "2 h", "other": "x"})
    page = operation.fetch(0, 1000) if operation.wait(10) else None
    assert page is not None
    values = {str(row[0]): row[1] for row in page.rows.values}
    assert (values["table.exec.state.ttl"], values["other"]) == ("2 h", "x")
    assert session.properties() == {"table.exec.state.ttl": "1 h"}
    bad = service.submit(session.handle, "SHOW TABLES", {"table.exec.state.ttl": "soon"})
    assert bad.wait(10) and bad.status is OperationStatus.ERROR
    assert session.properties() == {"table.exec.state.ttl": "1 h"}


def test_configuring_a_session(session: InProcessSession) -> None:
    session.configure(TABLE)
    session.configure("SET 'table.exec.state.ttl' = '1 h'")
    session.configure("CREATE DATABASE d;")
    session.configure("USE d")
    assert run(session, "SHOW TABLES") == []
    for statement in ("SELECT 1", "INSERT INTO t SELECT 1, 'x'", "SHOW TABLES", "EXECUTE PLAN 'p'"):
        with pytest.raises(GatewayError) as raised:
            session.configure(statement)
        assert raised.value.code == "GW007"
    with pytest.raises(StateplanError, match="already"):
        session.configure("CREATE DATABASE d")


def test_completion(session: InProcessSession) -> None:
    session.configure("CREATE TABLE orders (a INT) WITH ('connector' = 'print')")
    assert session.complete("SELECT * FROM ord", 17) == ["default_catalog.default_database.orders"]


def test_a_closed_session_is_gone(service: SqlGatewayService, session: InProcessSession) -> None:
    session.close()
    for call in (session.properties, session.heartbeat, session.close, lambda: session.submit("SHOW TABLES")):
        with pytest.raises(GatewayError) as raised:
            call()
        assert raised.value.code == "GW001"


def test_an_idle_session_is_closed() -> None:
    service = SqlGatewayService(Limits(idle_timeout=300, check_interval=20))
    idle, busy = service.open_session(), service.open_session()
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        busy.heartbeat()
        time.sleep(0.02)
    with pytest.raises(GatewayError, match="GW001"):
        raise _error_of(idle)
    service.stop()


def _error_of(session: InProcessSession) -> Exception:
    try:
        session.heartbeat()
    except GatewayError as error:
        return GatewayError.with_text(error.code, f"{error.code} {error.message}")
    return AssertionError("the session is open")


def test_there_are_only_so_many_sessions() -> None:
    service = SqlGatewayService(Limits(idle_timeout=0, max_sessions=2))
    one = service.open_session()
    service.open_session()
    with pytest.raises(GatewayError) as raised:
        service.open_session()
    assert raised.value.code == "GW005"
    one.close()
    service.open_session()
    service.stop()
    with pytest.raises(GatewayError, match="stopping"):
        service.open_session()


def test_a_statement_may_be_too_long() -> None:
    service = SqlGatewayService(Limits(idle_timeout=0, statement_length=20))
    session = service.open_session()
    with pytest.raises(GatewayError) as raised:
        session.submit("SELECT " + "1" * 20)
    assert raised.value.code == "GW008"
    service.stop()


def test_limits_are_options() -> None:
    limits = Limits.of({"sql-gateway.session.idle-timeout": "5 s", "sql-gateway.session.max-num": "7"})
    assert (limits.idle_timeout, limits.max_sessions, limits.check_interval) == (5000, 7, 60_000)
    assert Limits.of({}) == Limits()
    with pytest.raises(OptionError, match="max-num"):
        Limits.of({"sql-gateway.session.max-nun": "7"})
    with pytest.raises(OptionError, match="not a value"):
        Limits.of({"sql-gateway.session.max-num": "0"})


# operations


@pytest.fixture
def manager() -> Iterator[OperationManager]:
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(8)
    yield OperationManager(pool, Limits(max_waiting=3, max_operations=10, max_queries=2))
    pool.shutdown(wait=False)


def test_statements_of_a_session_run_one_after_the_other(manager: OperationManager) -> None:
    order: list[int] = []
    going = threading.Semaphore(1)

    def step(number: int) -> TableResult:
        assert going.acquire(blocking=False), "two at a time"
        time.sleep(0.02)
        order.append(number)
        going.release()
        return ok("SET")

    operations = []
    for number in range(20):
        while True:
            try:
                operations.append(manager.submit(lambda operation, number=number: step(number)))
                break
            except GatewayError:
                time.sleep(0.01)
    assert all(operation.wait(10) for operation in operations)
    assert order == list(range(20))


def test_only_so_many_statements_wait(manager: OperationManager) -> None:
    release = threading.Event()

    def hold(operation: Operation) -> TableResult:
        release.wait(20)
        return ok("SET")

    held = manager.submit(hold)
    while held.status is OperationStatus.PENDING:
        time.sleep(0.001)
    waiting = [manager.submit(hold) for _ in range(3)]
    assert [operation.status for operation in waiting] == [OperationStatus.PENDING] * 3
    assert held.fetch(0, 10).kind is PageKind.NOT_READY
    with pytest.raises(GatewayError) as raised:
        manager.submit(hold)
    assert raised.value.code == "GW006"
    release.set()
    assert all(operation.wait(10) for operation in waiting)


def test_canceling(manager: OperationManager) -> None:
    begun, release = threading.Event(), threading.Event()
    channel = ResultChannel()

    def query(operation: Operation) -> TableResult:
        begun.set()
        release.wait(20)
        return TableResult(("a",), (INT,), [], ResultKind.SUCCESS_WITH_CONTENT, channel=channel)

    running = manager.submit(query)
    waiting = manager.submit(lambda operation: pytest.fail("it was canceled before its turn"))
    assert begun.wait(10)
    running.cancel()
    waiting.cancel()
    assert running.status is waiting.status is OperationStatus.CANCELED
    for operation in (running, waiting):
        with pytest.raises(GatewayError) as raised:
            operation.fetch(0, 10)
        assert raised.value.code == "GW004"
        with pytest.raises(GatewayError, match="it is CANCELED"):
            operation.cancel()
    release.set()
    until = time.monotonic() + 10
    while not channel.is_exhausted:  # what came of it is given up
        assert time.monotonic() < until
        time.sleep(0.01)


def test_what_is_finished_cannot_be_canceled(manager: OperationManager) -> None:
    done = manager.submit(lambda operation: ok("SET"))
    assert done.wait(10)
    with pytest.raises(GatewayError, match="it is FINISHED"):
        done.cancel()
    manager.close_operation(done.handle)
    assert done.status is OperationStatus.CLOSED
    with pytest.raises(GatewayError) as raised:
        manager.find(done.handle)
    assert raised.value.code == "GW002"


def test_a_time_limit(manager: OperationManager) -> None:
    release = threading.Event()

    def hold(operation: Operation) -> TableResult:
        release.wait(20)
        return ok("SET")

    slow = manager.submit(hold, timeout_ms=50)
    until = time.monotonic() + 10
    while slow.status is not OperationStatus.TIMEOUT:
        assert time.monotonic() < until
        time.sleep(0.01)
    with pytest.raises(GatewayError, match="it is TIMEOUT"):
        slow.fetch(0, 10)
    release.set()
    quick = manager.submit(lambda operation: ok("SET"), timeout_ms=50)
    assert quick.wait(10)
    time.sleep(0.1)
    assert quick.status is OperationStatus.FINISHED


def test_a_bug_is_an_error_with_a_code(manager: OperationManager) -> None:
    def broken(operation: Operation) -> TableResult:
        raise ZeroDivisionError("by zero")

    operation = manager.submit(broken)
    assert operation.wait(10)
    with pytest.raises(StateplanError) as raised:
        operation.fetch(0, 10)
    assert raised.value.code == "BUG000"


def test_old_operations_are_forgotten_and_open_queries_are_not(manager: OperationManager) -> None:
    def query(operation: Operation) -> TableResult:
        return TableResult(("a",), (INT,), [], ResultKind.SUCCESS_WITH_CONTENT, channel=ResultChannel())

    kept = manager.submit(query)
    assert kept.wait(10)
    done = []
    for _ in range(30):
        done.append(manager.submit(lambda operation: ok("SET")))
        assert done[-1].wait(10)
    assert manager.find(kept.handle) is kept
    assert manager.find(done[-1].handle) is done[-1]
    with pytest.raises(GatewayError):
        manager.find(done[0].handle)
    assert manager.submit(query).wait(10)
    with pytest.raises(GatewayError, match="open results of queries: 2"):
        manager.submit(query)
    manager.close_operation(kept.handle)
    assert manager.submit(query).wait(10)


def test_a_query_that_was_read_to_its_end_is_not_open(manager: OperationManager) -> None:
    def query(operation: Operation) -> TableResult:
        channel = ResultChannel()
        channel.end()
        return TableResult(("a",), (INT,), [], ResultKind.SUCCESS_WITH_CONTENT, channel=channel)

    for _ in range(5):  # of which two may be open
        read = manager.submit(query)
        assert read.wait(10)
        assert read.fetch(0, 10).kind is PageKind.EOS


# results


def frame(*values: int, kinds: list[int] | None = None) -> pl.DataFrame:
    found = pl.DataFrame({"c0": pl.Series(values, dtype=pl.Int32)})
    return found if kinds is None else found.with_columns(kind=pl.Series(kinds, dtype=pl.Int8))


def fetcher_of(channel: ResultChannel) -> ResultFetcher:
    return ResultFetcher(TableResult(("a",), (INT,), [], ResultKind.SUCCESS_WITH_CONTENT, channel=channel))


def test_tokens() -> None:
    fetcher = ResultFetcher(content("SHOW", ["name"], [(str(i),) for i in range(5)]))
    pages = [fetcher.fetch(0, 2), fetcher.fetch(1, 2)]
    assert [page.rows.texts() for page in pages] == [[["0"], ["1"]], [["2"], ["3"]]]
    assert fetcher.fetch(1, 2) is pages[1]
    for token in (0, 3, 17):
        with pytest.raises(GatewayError) as raised:
            fetcher.fetch(token, 2)
        assert raised.value.message == f"expecting token to be 2 or 1, but found {token}"
    assert fetcher.fetch(2, 2).rows.texts() == [["4"]]
    for _ in range(2):
        end = fetcher.fetch(3, 2)
        assert (end.kind, end.next_token, end.rows.texts()) == (PageKind.EOS, None, [])
    assert fetcher.fetch(2, 2).rows.texts() == [["4"]]


def test_only_the_first_token_is_known_at_first() -> None:
    fetcher = ResultFetcher(ok("SET"))
    with pytest.raises(GatewayError, match="to be 0, but found 1"):
        fetcher.fetch(1, 2)


def test_the_rows_of_a_query_come_while_it_runs() -> None:
    channel = ResultChannel()
    fetcher = fetcher_of(channel)
    assert (fetcher.is_ready(0), fetcher.fetch(0, 10).rows.texts()) == (False, [])
    told = threading.Event()
    forget = fetcher.listen(told.set)
    channel.put(frame(1, 2, 1, kinds=[0, 0, 3]))
    channel.put(frame(4))
    assert told.is_set() and fetcher.is_ready(1)
    forget()
    told.clear()
    page = fetcher.fetch(1, 3)
    assert page.rows.texts() == [["1"], ["2"], ["1"]]
    assert page.rows.kinds() == [RowKind.INSERT, RowKind.INSERT, RowKind.DELETE]
    channel.end()
    assert not told.is_set()
    assert fetcher.fetch(2, 3).rows.kinds() == [RowKind.INSERT]
    assert fetcher.fetch(3, 3).kind is PageKind.EOS


def test_small_frames_make_one_page_and_a_large_one_several() -> None:
    channel = ResultChannel()
    fetcher = fetcher_of(channel)
    for number in range(5):
        channel.put(frame(number))
    assert fetcher.fetch(0, 100).rows.texts() == [[str(n)] for n in range(5)]
    channel.put(frame(*range(10)))
    assert [len(fetcher.fetch(token, 4).rows.texts()) for token in (1, 2, 3)] == [4, 4, 2]


def test_a_page_is_bounded_in_bytes() -> None:
    channel = ResultChannel()
    fetcher = ResultFetcher(TableResult(("a",), (STRING,), [], ResultKind.SUCCESS_WITH_CONTENT, channel=channel))
    channel.put(pl.DataFrame({"c0": ["x" * (1 << 20)] * 40}))
    sizes = [sum(len(row[0] or "") for row in fetcher.fetch(token, 5000).rows.texts()) for token in range(5)]
    assert all(0 < size <= PAGE_BYTES for size in sizes)


def test_an_error_comes_after_the_last_row_and_stays() -> None:
    channel = ResultChannel()
    fetcher = fetcher_of(channel)
    channel.put(frame(1))
    channel.end(RunError("RUN001", detail="broken"))
    assert fetcher.fetch(0, 10).rows.texts() == [["1"]]
    for _ in range(2):
        with pytest.raises(RunError, match="broken"):
            fetcher.fetch(1, 10)


def test_a_fetch_waits_for_rows(service: SqlGatewayService, session: InProcessSession) -> None:
    channel = ResultChannel()
    operations = service.session(session.handle).operations
    operation = operations.submit(
        lambda operation: TableResult(("a",), (INT,), [], ResultKind.SUCCESS_WITH_CONTENT, channel=channel)
    )
    assert operation.wait(10)
    began = time.monotonic()
    assert session.fetch(operation.handle, 0).rows == []
    assert 0.4 < time.monotonic() - began < 2
    threading.Timer(0.1, channel.put, [frame(7)]).start()
    began = time.monotonic()
    assert session.fetch(operation.handle, 1).rows == [(RowKind.INSERT, ["7"])]
    assert time.monotonic() - began < 0.4
    session.cancel(operation.handle)
    assert session.fetch(operation.handle, 2).kind is PageKind.EOS
    session.close_operation(operation.handle)
    with pytest.raises(GatewayError):
        session.fetch(operation.handle, 2)
