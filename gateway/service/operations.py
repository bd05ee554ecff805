"""The statements of a session: one at a time, in the order of their arrival. Source: Flink's ``OperationManager``."""

from __future__ import annotations

import enum
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from stateplan.common.errors import GatewayError, StateplanError
from stateplan.gateway.protocol import PageKind
from stateplan.gateway.service.fetcher import Page, ResultFetcher, Rows
from stateplan.gateway.service.limits import Limits
from stateplan.runtime.failures import as_error
from stateplan.session.results import TableResult

_log = logging.getLogger("stateplan.gateway")


class OperationStatus(enum.Enum):
    """The status of an operation. Source: Flink's ``OperationStatus``."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    CLOSED = "CLOSED"
    ERROR = "ERROR"
    TIMEOUT = "TIMEOUT"

    @property
    def is_terminal(self) -> bool:
        return self not in (OperationStatus.PENDING, OperationStatus.RUNNING)


class Operation:
    """A statement of a session.

    Args:
        run: does what the statement says; is given this.
        on_end: called once, when it is over: FINISHED, or what keeps it from that.

    Attributes:
        handle: its UUID.
        status: how far it is.
        error: what it failed of.
        since: when it was submitted (:func:`time.monotonic`).
    """

    def __init__(self, run: Callable[[Operation], TableResult], on_end: Callable[[Operation], None]) -> None:
        self.handle = str(uuid.uuid4())
        self.status = OperationStatus.PENDING
        self.error: StateplanError | None = None
        self.since = time.monotonic()
        self.fetcher: ResultFetcher | None = None
        self._run = run
        self._on_end = on_end
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._listeners: list[Callable[[], None]] = []

    @property
    def is_open_query(self) -> bool:
        """Whether it is a query whose result somebody may still want."""
        fetcher = self.fetcher
        open_result = fetcher is not None and fetcher.is_query and not fetcher.is_read
        return open_result and self.status is OperationStatus.FINISHED

    @property
    def is_canceled(self) -> bool:
        return self.status in (OperationStatus.CANCELED, OperationStatus.CLOSED, OperationStatus.TIMEOUT)

    def execute(self) -> None:
        """Runs the statement, in the thread of the caller."""
        if not self._becomes(OperationStatus.RUNNING):
            return
        try:
            result = self._run(self)
        except StateplanError as error:
            self._fail(error)
        except Exception as bug:
            _log.exception("a statement failed in a way that nobody expected")
            self._fail(as_error(bug))
        else:
            self._finish(result)

    def _finish(self, result: TableResult) -> None:
        fetcher = ResultFetcher(result)
        with self._lock:
            is_canceled = self.is_canceled
            if not is_canceled:
                self.fetcher, self.status = fetcher, OperationStatus.FINISHED
        if is_canceled:
            fetcher.close()
        self._tell()

    def _fail(self, error: StateplanError) -> None:
        with self._lock:
            if not self.is_canceled:
                self.error, self.status = error, OperationStatus.ERROR
        self._tell()

    def _becomes(self, status: OperationStatus) -> bool:
        """Changes the status, unless the operation is over; whether it was not."""
        with self._lock:
            if self.status.is_terminal:
                return False
            self.status = status
        if status.is_terminal:
            self._tell()
        return True

    def _tell(self) -> None:
        with self._lock:
            first = not self._over.is_set()
            self._over.set()
            calls, self._listeners = self._listeners, []
        if first:
            self._on_end(self)
        for call in calls:
            call()

    def cancel(self) -> None:
        """Cancels the statement while it runs; it ends at the next place where it can, and its result is dropped.

        Raises:
            GatewayError: GW004, it is over.
        """
        if not self._becomes(OperationStatus.CANCELED):
            raise GatewayError("GW004", status=self.status.value, handle=self.handle)

    def time_out(self) -> None:
        """Cancels the statement because it took too long."""
        self._becomes(OperationStatus.TIMEOUT)

    def close(self) -> None:
        """Drops the statement and its result. Does not wait for the end of a query's job."""
        with self._lock:
            fetcher, self.fetcher = self.fetcher, None
            self.status = OperationStatus.CLOSED
        self._tell()
        if fetcher is not None:
            threading.Thread(target=fetcher.close, name="stateplan-close", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Waits for the end of the statement; whether it has ended."""
        return self._over.wait(seconds)

    def is_ready(self, token: int) -> bool:
        """Whether a fetch has something to give."""
        fetcher = self.fetcher
        return self.status.is_terminal and (fetcher is None or fetcher.is_ready(token))

    def listen(self, call: Callable[[], None]) -> Callable[[], None]:
        """Calls ``call``, in another thread or at once, whenever :meth:`is_ready` may have changed. Returns a function
        that ends this."""
        with self._lock:
            if not self.status.is_terminal:
                self._listeners.append(call)
                return lambda: self._forget(call)
            fetcher = self.fetcher
        if fetcher is not None:
            return fetcher.listen(call)
        call()
        return lambda: None

    def _forget(self, call: Callable[[], None]) -> None:
        with self._lock:
            if call in self._listeners:
                self._listeners.remove(call)

    def fetch(self, token: int, limit: int) -> Page:
        """The page of ``token``; NOT_READY before the statement has done its work. It does not wait.

        Raises:
            GatewayError: GW003, GW004.
            StateplanError: what the statement, or the job of a query, failed of.
        """
        status, fetcher, error = self.status, self.fetcher, self.error
        if error is not None:
            raise error
        if fetcher is not None:
            return fetcher.fetch(token, limit)
        if status.is_terminal:
            raise GatewayError("GW004.no_result", status=status.value, handle=self.handle)
        return self.later(token)

    def later(self, token: int) -> Page:
        """The answer to who is to ask for the page of ``token`` again."""
        return Page(PageKind.NOT_READY, Rows(()), token)

    def size(self, token: int, limit: int) -> int:
        """About how many bytes the page of ``token`` has in memory."""
        fetcher = self.fetcher
        return 0 if fetcher is None else fetcher.size(token, limit)


class OperationManager:
    """The operations of one session.

    Args:
        pool: runs statements, of all sessions.
        limits: the limits of the gateway.
    """

    def __init__(self, pool: ThreadPoolExecutor, limits: Limits) -> None:
        self._pool = pool
        self._limits = limits
        self._lock = threading.Lock()
        self._operations: dict[str, Operation] = {}
        self._queue: deque[Operation] = deque()
        self._busy = False
        self._closed = False

    def submit(
        self,
        run: Callable[[Operation], TableResult],
        timeout_ms: int = 0,
        on_end: Callable[[Operation], None] | None = None,
    ) -> Operation:
        """Lets a statement wait for its turn.

        Args:
            run: does what it says; is given the operation.
            timeout_ms: so long after this the statement is cancelled; 0 for never.
            on_end: called when it is over.

        Raises:
            GatewayError: GW006, too many wait, or too many results of queries are open.
        """
        limit: threading.Timer | None = None

        def over(operation: Operation) -> None:
            if limit is not None:
                limit.cancel()
            if on_end is not None:
                on_end(operation)

        operation = Operation(run, over)
        with self._lock:
            self._require_room()
            if timeout_ms > 0:
                limit = threading.Timer(min(timeout_ms / 1000, threading.TIMEOUT_MAX), operation.time_out)
                limit.daemon = True
                limit.start()
            self._operations[operation.handle] = operation
            self._forget_old()
            self._queue.append(operation)
            begin, self._busy = not self._busy, True
        if begin:
            self._pool.submit(self._work)
        return operation

    def _require_room(self) -> None:
        if self._closed:
            raise GatewayError("GW002.session_closed")
        if len(self._queue) >= self._limits.max_waiting:
            raise GatewayError("GW006", count=len(self._queue), what="waiting statements")
        queries = sum(operation.is_open_query for operation in self._operations.values())
        if queries >= self._limits.max_queries:
            raise GatewayError("GW006", count=queries, what="open results of queries")

    def _forget_old(self) -> None:
        over = len(self._operations) - self._limits.max_operations
        if over > 0:
            finished_handles = [h for h, o in self._operations.items() if o.status.is_terminal and not o.is_open_query]
            for handle in finished_handles[:over]:
                del self._operations[handle]

    def _work(self) -> None:
        """Runs the next statement, and has the one after it run."""
        with self._lock:
            operation = self._queue.popleft() if self._queue else None
            if operation is None:
                self._busy = False
                return
        try:
            operation.execute()
        finally:
            try:
                self._pool.submit(self._work)
            except RuntimeError:  # the gateway stops
                self._busy = False

    @property
    def waiting_bytes(self) -> int:
        """About how many bytes of results wait for somebody to fetch them."""
        return sum(fetcher.waiting_bytes for fetcher in self._query_results())

    def forget_read(self) -> None:
        """Drops the last pages of results that have been fetched completely."""
        for fetcher in self._query_results():
            fetcher.forget_read()

    def _query_results(self) -> list[ResultFetcher]:
        fetchers = [operation.fetcher for operation in list(self._operations.values())]
        return [fetcher for fetcher in fetchers if fetcher is not None and fetcher.is_query]

    def find(self, handle: str) -> Operation:
        """The operation. Raises GatewayError GW002."""
        operation = self._operations.get(handle)
        if operation is None:
            raise GatewayError("GW002", handle=handle)
        return operation

    def close_operation(self, handle: str) -> None:
        """Drops an operation and its result. Raises GatewayError GW002."""
        with self._lock:
            operation = self._operations.pop(handle, None)
        if operation is None:
            raise GatewayError("GW002", handle=handle)
        operation.close()

    def close(self) -> None:
        """Drops all operations."""
        with self._lock:
            self._closed = True
            operations = list(self._operations.values())
            self._operations.clear()
            self._queue.clear()
        for operation in operations:
            operation.close()
