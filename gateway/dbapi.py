"""Python's database API (DB-API 2.0) at a SQL gateway, ours or Flink's.

    >>> import stateplan.gateway.dbapi as dbapi
    >>> connection = dbapi.connect("http://localhost:8083")  # doctest: +SKIP
    >>> cursor = connection.cursor()  # doctest: +SKIP
    >>> cursor.execute("SELECT product, SUM(num) FROM orders WHERE id > ? GROUP BY product", [100])  # doctest: +SKIP
    >>> cursor.fetchall()  # doctest: +SKIP
    [('oil', 1), ('tea', 5)]

A connection is a session of the gateway. Queries run in batch mode, so a query returns its final rows. Unbounded tables
need streaming mode: ``connect(changelog=True)``, or the option ``execution.runtime-mode``.

Sources: PEP 249. FLIP-293, Flink's JDBC driver, which also sets batch mode.

Codes: DATA350, DATA351, GW009, GW030 to GW034, RUN161 to RUN164, SQL401, SQL410, and those of statements.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from stateplan.common.changelog import RowKind
from stateplan.common.errors import GatewayError, StateplanError
from stateplan.common.types import STRING as STRING_TYPE
from stateplan.gateway.client import http
from stateplan.gateway.client.parameters import Template, require_text
from stateplan.gateway.client.statement import Statement
from stateplan.gateway.client.values import TypeObject, row_reader, type_code
from stateplan.gateway.protocol import PageKind, ResultColumn, ResultPage, ValueSession

if TYPE_CHECKING:
    from stateplan.gateway.service.service import SqlGatewayService

apilevel = "2.0"
threadsafety = 2
"""Threads can share a connection, whose statements run one after the other. They cannot share a cursor."""
paramstyle = "qmark"

_MODE = "execution.runtime-mode"
_ZONE = "table.local-time-zone"


# exceptions


class Warning(Exception):  # noqa: A001, N818 - the name in PEP 249
    """Not raised here; PEP 249 requires it."""


class Error(Exception):
    """Root of the errors of this module. Its ``__cause__`` is the :class:`StateplanError`.

    Attributes:
        code: see docs/operate/errors.md, such as ``CAT002``.
    """

    code: str | None = None


class InterfaceError(Error):
    """The connection or the cursor is closed (GW030)."""


class DatabaseError(Error):
    """An error of the gateway."""


class DataError(DatabaseError):
    """A value: of a parameter, a result or the input (DATA...)."""


class OperationalError(DatabaseError):
    """The gateway cannot be reached, refuses, or a job fails (RUN..., GW..., OPT..., CKPT...)."""


class IntegrityError(DatabaseError):
    """Not raised here; PEP 249 requires it."""


class InternalError(DatabaseError):
    """An error in stateplan (BUG...)."""


class ProgrammingError(DatabaseError):
    """A statement, its tables, or the number of its parameters (SQL..., CAT..., PLAN..., TYPE...)."""


class NotSupportedError(DatabaseError):
    """Transactions (GW033), changes where only rows are requested (GW032), or ``to_sql`` of pandas (GW034)."""


_OF_SQLITE = "sqlite_master"
"""The table that pandas looks for before it writes."""

_FAMILIES: dict[str, type[DatabaseError]] = {
    **dict.fromkeys(("SQL", "CAT", "PLAN", "TYPE"), ProgrammingError),
    **dict.fromkeys(("RUN", "GW", "OPT", "CKPT"), OperationalError),
    "DATA": DataError,
    "BUG": InternalError,
}
_OF_JAVA: tuple[tuple[str, type[DatabaseError]], ...] = (
    (r"org\.apache\.(calcite|flink\.(sql\.parser|table\.(api|catalog|planner)))\.", ProgrammingError),
    (r"java\.(lang\.(NumberFormat|Arithmetic)Exception|time\.)", DataError),
)
"""How the errors of Flink's gateway begin."""


def _translated(error: StateplanError) -> Error:
    """The error of PEP 249 for an error of ours."""
    kind = _FAMILIES.get(error.code.rstrip("0123456789"), DatabaseError)
    if error.code == "RUN164":
        kind = next((error_class for start, error_class in _OF_JAVA if re.match(start, error.message)), kind)
    return _as(kind, error)


def _as(kind: type[Error], error: StateplanError) -> Error:
    raised_error = kind(str(error))
    raised_error.code = error.code
    raised_error.__cause__ = error
    return raised_error


# types


STRING = TypeObject("STRING", "CHAR", "VARCHAR", "STRING")
BINARY = TypeObject("BINARY", "BINARY", "VARBINARY", "BYTES")
NUMBER = TypeObject("NUMBER", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
DATETIME = TypeObject("DATETIME", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")
ROWID = TypeObject("ROWID")
BOOLEAN = TypeObject("BOOLEAN", "BOOLEAN")
INTERVAL = TypeObject("INTERVAL", "INTERVAL")
NESTED = TypeObject("NESTED", "ARRAY", "MAP", "MULTISET", "ROW")

Date, DateFromTicks = dt.date, dt.date.fromtimestamp
Time = dt.time
Timestamp, TimestampFromTicks = dt.datetime, dt.datetime.fromtimestamp
Binary = bytes


def TimeFromTicks(ticks: float) -> dt.time:  # noqa: N802 - the name in PEP 249
    """The local time of day, ``ticks`` seconds after 1970."""
    return dt.datetime.fromtimestamp(ticks).time()


Description = tuple[str, str, None, int | None, int | None, int | None, bool]
"""Name, type, display size, internal size, precision, scale, and whether there are NULLs."""


def _description(column: ResultColumn) -> Description:
    kind = column.type
    return column.name, type_code(kind), None, kind.length, kind.precision, kind.scale, kind.nullable


_OP: Description = ("op", type_code(STRING_TYPE), None, None, None, None, False)


# connections


def connect(
    endpoint: str | SqlGatewayService = "http://localhost:8083",
    options: Mapping[str, str] | None = None,
    *,
    token: str | None = None,
    ca_file: str | None = None,
    certificate: str | None = None,
    name: str | None = None,
    changelog: bool = False,
) -> Connection:
    """Opens a session at a gateway.

    Args:
        endpoint: address of the gateway; without a scheme it is http. Or a gateway of this process, which needs no
            network.
        options: set in the session. Without ``execution.runtime-mode`` among them, it is set to BATCH.
        token: sent as ``Authorization: Bearer``.
        ca_file: certificates (PEM) to trust instead of those of the system.
        certificate: certificate and key of the client (PEM), for mutual TLS.
        name: the name of the session.
        changelog: whether rows of queries begin with a column ``op``, their kind of change: ``+I``, ``-U``, ``+U`` or
            ``-D``. Then ``execution.runtime-mode`` is STREAMING by default.

    Raises:
        OperationalError: RUN161, the gateway cannot be reached; RUN162, it refuses; RUN163, it is not an SQL gateway;
            an option is unknown or has a wrong value.
    """
    session_options = {_MODE: "STREAMING" if changelog else "BATCH", **(options or {})}
    try:
        if isinstance(endpoint, str):
            session: ValueSession = http.connect(
                endpoint, session_options, token=token, name=name, ca_file=ca_file, certificate=certificate
            )
        else:
            from stateplan.gateway.client.in_process import open_session

            session = open_session(endpoint, session_options, name)
    except StateplanError as error:
        raise _translated(error) from error
    return Connection(_Session(session, changelog))


class _Session:
    """What a connection and its cursors share.

    Attributes:
        gateway: the session at the gateway.
        changelog: see :func:`connect`.
        closed: whether the connection was closed.
        abandoned: statements whose cursors are gone.
    """

    def __init__(self, session: ValueSession, changelog: bool) -> None:
        self.gateway = session
        self.changelog = changelog
        self.closed = False
        self.abandoned: deque[Statement] = deque()

    def require_open(self, subject: str = "connection", is_open: bool = True) -> None:
        """Raises InterfaceError GW030."""
        if self.closed or not is_open:
            raise _as(InterfaceError, GatewayError("GW030", what="connection" if self.closed else subject))

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Errors of ours as those of PEP 249."""
        try:
            yield
        except StateplanError as error:
            self.require_open()  # another thread has closed it
            raise _translated(error) from error

    def zone(self) -> str | None:
        """The time zone of the session, where it is set."""
        zone = self.gateway.properties().get(_ZONE)
        return None if zone == "default" else zone

    def submit(self, text: str) -> Statement:
        """Begins a statement, and ends abandoned ones. Raises StateplanError."""
        while self.abandoned:
            self.abandoned.popleft().close()
        return Statement(self.gateway, text)


def _end(session: ValueSession) -> None:
    with contextlib.suppress(StateplanError):  # a session that nobody ends times out
        session.close()


class Connection:
    """A session at a gateway, from :func:`connect`. Leaving a ``with`` closes it.

    A connection that is no longer referenced is closed, and so is one that is open when the process ends.

    Methods of connections and cursors raise InterfaceError GW030 after ``close()``.
    """

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._end = weakref.finalize(self, _end, session.gateway)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._session.closed

    def close(self) -> None:
        """Ends the session and its queries. Jobs of INSERTs keep running. Can be called again."""
        self._session.closed = True
        self._end()

    def cursor(self) -> Cursor:
        """A new cursor."""
        self._session.require_open()
        return Cursor(self, self._session)

    def commit(self) -> None:
        """Does nothing: a statement takes effect when it is executed."""
        self._session.require_open()

    def rollback(self) -> NoReturn:
        """Raises NotSupportedError GW033: there are no transactions."""
        self._session.require_open()
        raise _as(NotSupportedError, GatewayError("GW033"))

    def __enter__(self) -> Connection:
        self._session.require_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


# cursors


class Cursor:
    """Runs statements one after the other, from :meth:`Connection.cursor`. Leaving a ``with`` closes it.

    Attributes:
        arraysize: number of rows that :meth:`fetchmany` returns by default.
    """

    def __init__(self, connection: Connection, session: _Session) -> None:
        self._connection = connection
        self._session = session
        self._open = True
        self._statement: Statement | None = None
        self._abandon: weakref.finalize[Any, Cursor] | None = None
        self._rows: deque[tuple[Any, ...]] = deque()
        self._read: Callable[[Sequence[Any]], tuple[Any, ...]] | None = None
        self._is_query = False
        self._description: tuple[Description, ...] | None = None
        self._job_id: str | None = None
        self._rownumber = 0
        self.arraysize = 1

    @property
    def connection(self) -> Connection:
        """The connection that made it."""
        return self._connection

    @property
    def description(self) -> tuple[Description, ...] | None:
        """Of each column: name, type, None, length, precision, scale, whether there are NULLs. None without rows.

        A type is a text such as ``DECIMAL(10, 2)``, and equal to STRING, BINARY, NUMBER, DATETIME, BOOLEAN, INTERVAL or
        NESTED of this module.
        """
        return self._description

    @property
    def rowcount(self) -> int:
        """-1: a gateway does not say how many rows there will be, or were written."""
        return -1

    @property
    def rownumber(self) -> int | None:
        """Index of the next row, from 0; None without rows."""
        return None if self._description is None else self._rownumber

    @property
    def lastrowid(self) -> None:
        """None: rows have no ids."""
        return None

    @property
    def job_id(self) -> str | None:
        """Of the job that the last statement started, as SHOW JOBS lists it; None if it started none."""
        return self._job_id

    def execute(self, operation: str, parameters: Sequence[Any] | None = None) -> Cursor:
        """Runs a statement. Returns when a query returns rows or its job runs, and when the job of an INSERT runs.

        An INSERT continues in the background. With the option ``table.dml-sync`` its end is waited for.

        Args:
            operation: SQL, with ``?`` for parameters.
            parameters: one value per ``?``, see :func:`gateway.client.parameters.literal`. With None, ``?`` is left
                as it is.

        Returns:
            The cursor itself.

        Raises:
            ProgrammingError: the statement is wrong; SQL410, the parameters do not fit it.
            DataError: DATA350, a parameter has no literal.
            OperationalError: the gateway or the job fails.
        """
        self._require_open()
        self._discard()
        with self._session.errors():
            if parameters is None:
                require_text(operation)
                statement = operation
            else:
                statement = Template(operation, self._session.zone).bind(parameters)
            try:
                self._run(statement)
            except StateplanError as error:
                if error.code == "CAT002" and _OF_SQLITE in statement:
                    raise _as(NotSupportedError, GatewayError("GW034")) from error
                raise
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Sequence[Any]]) -> Cursor:
        """Runs a statement for each of these parameters.

        ``INSERT INTO t VALUES (?, ?)`` becomes an INSERT of up to 500 rows, so that there are few jobs. ``job_id`` is
        that of the last one.

        Raises:
            ProgrammingError: as :meth:`execute`; GW031, the statement returns rows.
            DataError, OperationalError: as :meth:`execute`.
        """
        self._require_open()
        self._discard()
        with self._session.errors():
            template = Template(operation, self._session.zone)
            for statement in template.bind_all(list(seq_of_parameters)):
                self._run(statement)
                if self._description is not None:
                    self._discard()
                    raise _as(ProgrammingError, GatewayError("GW031.rows_unexpected"))
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None after the last one. It waits for it.

        Raises:
            ProgrammingError: GW031, there is no result.
            DataError: DATA351, a value is beyond Python's class for it.
            OperationalError: the job fails; GW009, the statement was canceled.
            NotSupportedError: GW032, a row is not an insertion, and the connection has no ``changelog``.
        """
        self._require_result()
        while not self._rows and self._statement is not None:
            self._fetch()
        if not self._rows:
            return None
        self._rownumber += 1
        return self._rows.popleft()

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next ``size`` rows, by default :attr:`arraysize`; fewer at the end, none after it.

        With ``changelog`` it waits for one row, and returns those that are there. Raises the same errors as
        :meth:`fetchone`.
        """
        self._require_result()
        count = self.arraysize if size is None else size
        while len(self._rows) < count and self._statement is not None:
            before = len(self._rows)
            self._fetch()
            if self._session.changelog and before and len(self._rows) == before:
                break
        rows = [self._rows.popleft() for _ in range(min(count, len(self._rows)))]
        self._rownumber += len(rows)
        return rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left. Of a query without an end, it never returns. Raises the same errors as
        :meth:`fetchone`."""
        self._require_result()
        while self._statement is not None:
            self._fetch()
        rows = list(self._rows)
        self._rows.clear()
        self._rownumber += len(rows)
        return rows

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def cancel(self) -> None:
        """Ends the statement that runs, with the job of a query. Another thread can call it.

        Who waits for the statement or its rows gets OperationalError GW009. Without a statement, nothing happens. The
        job of an INSERT keeps running; ``STOP JOB`` ends it.
        """
        statement = self._statement
        if statement is not None and not self._session.closed:
            with self._session.errors():
                statement.cancel()

    def close(self) -> None:
        """Drops the result; the job of a query ends. Can be called again."""
        if self._open and not self._session.closed:
            self._discard()
        self._open = False

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Does nothing: a value's class decides its type."""
        self._require_open()

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing: values are given whole."""
        self._require_open()

    def __enter__(self) -> Cursor:
        self._require_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def _require_open(self) -> None:
        self._session.require_open("cursor", self._open)

    def _require_result(self) -> None:
        self._require_open()
        if self._description is None:
            raise _as(ProgrammingError, GatewayError("GW031"))

    def _run(self, text: str) -> None:
        """Runs a statement as far as its first page."""
        self._statement = statement = self._session.submit(text)
        # A cursor can be collected in the middle of a request. The next statement closes its result.
        self._abandon = weakref.finalize(self, self._session.abandoned.append, statement)
        self._abandon.atexit = False
        try:
            page = statement.page()
            while page.kind is PageKind.NOT_READY:
                page = statement.page()
            self._job_id = page.job_id
            self._is_query = page.is_query
            if page.is_query or (page.has_content and page.job_id is None):
                self._describe(page.columns)
                self._take(page)
            else:
                self._finish()
        except BaseException:
            statement.cancel()
            self._discard()
            raise

    def _describe(self, columns: Sequence[ResultColumn]) -> None:
        self._read = row_reader([c.name for c in columns], [c.type for c in columns])
        ops = (_OP,) if self._has_ops else ()
        self._description = (*ops, *map(_description, columns))

    @property
    def _has_ops(self) -> bool:
        return self._is_query and self._session.changelog

    def _fetch(self) -> None:
        """Asks once for more rows."""
        assert self._statement is not None
        statement = self._statement
        try:
            with self._session.errors():
                self._take(statement.page())
        except BaseException:  # a page may have been read and not kept
            self._discard()
            raise

    def _take(self, page: ResultPage) -> None:
        """The rows of a page. Raises DataError DATA351."""
        assert self._read is not None
        if self._has_ops:
            self._rows.extend([(kind.short, *self._read(values)) for kind, values in page.values])
        else:
            changes = [kind for kind, _ in page.values if kind is not RowKind.INSERT]
            if changes:
                raise _as(NotSupportedError, GatewayError("GW032", kind=changes[0].short))
            read = self._read
            self._rows.extend([read(values) for _, values in page.values])
        if self._statement is not None and self._statement.ended:
            self._finish()

    def _finish(self) -> None:
        """The statement has nothing more to give."""
        statement, self._statement = self._statement, None
        if self._abandon is not None:
            self._abandon.detach()
        if statement is not None:
            statement.close()

    def _discard(self) -> None:
        """Forgets the last statement and its result."""
        self._finish()
        self._rows.clear()
        self._description = self._read = self._job_id = None
        self._rownumber = 0
        self._is_query = False
