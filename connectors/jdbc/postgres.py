"""Connections to PostgreSQL through ADBC, and the errors of the server and of the way to it as coded errors.

Importing this module loads no client library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import cached_property
from typing import Any, TypeVar

from stateplan.common.errors import DataError, RunError, StateplanError, nearest
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.redaction import secrets_of, without
from stateplan.common.secrets import resolve_references, unresolved
from stateplan.connectors import retries
from stateplan.connectors.extras import require

T = TypeVar("T")

_SETTINGS = {
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "idle_in_transaction_session_timeout": "0",
}
"""Settings of every connection, besides ``TimeZone``: on which the texts of values depend, and that a snapshot is kept
until all who read it have it."""

_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2}:\d{2})")

_KEEP_ALIVE = {"keepalives": "1", "keepalives_idle": "15", "keepalives_interval": "5", "keepalives_count": "3"}

_LOST_STATES = ("08", "57P")
_RETRY_STATES = ("40001", "40P01", "53300", "55P03", "55006")
_NO_ROOM = ("53100", "53200", "53400", "25006")
_LOST_TEXTS = (
    *("server closed the connection", "no connection to the server", "terminating connection", "SSL SYSCALL error"),
    *("connection not open", "Connection reset", "could not receive data", "could not send data", "Broken pipe"),
    *("lost synchronization", "Connection timed out", "connection pointer is NULL", "SSL connection has been closed"),
)

_TLS = ("certificate", "does not support SSL", "SSL error")

_STATES = {
    "permission denied": "42501",
    "No space left on device": "53100",
    "conflict with recovery": "40001",
    "due to lock timeout": "55P03",
    "due to statement timeout": "57014",
}
"""Words of a message to its SQLSTATE, which ADBC does not give for an error that comes with the rows."""

_BEGIN = re.compile(r"(?:\[libpq\] )?Execution error \[PGRES_FATAL_ERROR\]: ERROR:\s+")


def quote_name(name: str) -> str:
    """An identifier as SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as a constant of SQL."""
    content = text.replace("'", "''")
    return f"'{content}'" if "\\" not in text else " E'" + content.replace("\\", "\\\\") + "'"


@dataclass(frozen=True)
class Server(FrozenDataclass):
    """A database of a server, and who connects to it. Picklable; values may be references to secrets, which
    :meth:`connect` resolves.

    Attributes:
        host: name or address; several with commas, the first that answers. None for that of libpq's service file.
        port: of each host, with commas.
        database: its name; None for libpq's default.
        user: None for libpq's default.
        password: None for libpq's default, such as a password file.
        parameters: further parameters of libpq.
        timeout: seconds after which an attempt to connect, or a connection that is silent, is cancelled.
        extra: of stateplan, that installs ADBC.
        owner: what needs ADBC, for errors.
        time_zone: the time zone of the connections: where a TIMESTAMP becomes a ``timestamptz`` or the other way round.
    """

    host: str | None
    port: str
    database: str | None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: int = 60
    extra: str = "jdbc"
    owner: str = "the connector 'jdbc'"
    time_zone: str = "UTC"

    @property
    def summary(self) -> str:
        """The database as errors name it."""
        place = f"{self.host}:{self.port}" if self.host else "the host of the service"
        return f"'{self.database}' at {place}" if self.database else place

    @cached_property
    def _conninfo(self) -> dict[str, str]:
        """What is given to libpq."""
        return {key: resolve_references(value, key) for key, value in self._references().items()}

    def _references(self) -> dict[str, str]:
        """The same with references as they are written."""
        timeout = max(2, self.timeout)
        parameters = {
            "host": self.host,
            "port": self.port if self.host else None,
            "dbname": self.database,
            "user": self.user,
            "password": self.password,
            "connect_timeout": str(timeout),
            "tcp_user_timeout": str(timeout * 1000),
            "application_name": "stateplan",
            **_KEEP_ALIVE,
            **self.parameters,
        }
        return {key: value for key, value in parameters.items() if value is not None}

    def without_secrets(self, text: str) -> str:
        """A message of the client library. Secrets of the connection are removed from it, and values of references are
        replaced by the references that the user wrote."""
        text = unresolved(text, self._references())
        return without(text, secrets_of(self._conninfo))

    def connect(self, autocommit: bool = False) -> Any:
        """A connection of ADBC's DB-API, to be closed by the caller. Not for several threads at once.

        Args:
            autocommit: whether each statement is a transaction of its own.

        Raises:
            OptionError: OPT120 or OPT121, a reference to a secret; OPT122, ADBC is not installed.
            RunError: RUN140, the server cannot be reached; RUN141, it refuses the login; RUN142, there is no such
                database; RUN148, it has no room for the connection; RUN149, it does not know the time zone.
        """
        adbc = require(self.extra, "adbc_driver_postgresql.dbapi", self.owner)
        errors = require(self.extra, "adbc_driver_manager", self.owner)
        conninfo = " ".join(f"{key}={_conninfo_value(value)}" for key, value in self._conninfo.items())
        try:
            connection = adbc.connect(conninfo, autocommit=autocommit)
        except errors.Error as error:
            raise self._unreached(str(error)) from None
        settings = {**_SETTINGS, "TimeZone": _zone_text(self.time_zone)}
        calls = ", ".join(f"set_config({literal(k)}, {literal(v)}, false)" for k, v in settings.items())
        try:
            with self.coded("is told its settings"):
                try:
                    rows(connection, f"SELECT {calls}")
                except errors.Error as error:
                    if Diagnosis.of(error).state != "22023":
                        raise
                    raise RunError("RUN149.zone", server=self.summary, zone=self.time_zone) from None
                if not autocommit:
                    connection.commit()
        except StateplanError:
            close(connection)
            raise
        return connection

    @contextmanager
    def connection(self, autocommit: bool = False) -> Iterator[Any]:
        """A connection that is closed at the end; errors of the client library in it are coded. Raises as
        :meth:`connect` and :meth:`coded`."""
        with self.coded("is read"):
            connection = self.connect(autocommit)
            try:
                yield connection
            finally:
                close(connection)

    def _unreached(self, text: str) -> StateplanError:
        message = text.strip().partition("\n")[0].removeprefix("IO: [libpq] Failed to connect: ")
        server, user, reason = self.summary, self.user or "the default user", self.without_secrets(message)
        if "password authentication failed" in message or "no password supplied" in message or "pg_hba" in message:
            return RunError("RUN141", user=user, server=server, reason=reason)
        if "role " in message and "does not exist" in message:
            return RunError("RUN141", user=user, server=server, reason=reason)
        if "database " in message and "does not exist" in message:
            return RunError("RUN142", server=server, reason=reason, hint=self._near_database())
        if "too many" in message or "connection slots" in message:
            return RunError("RUN148", server=server, reason=reason, problem="has no connection left")
        code = "RUN140.tls" if any(words in message for words in _TLS) else "RUN140"
        return RunError(code, server=server, reason=reason, seconds=self.timeout)

    def _near_database(self) -> str | None:
        """A hint with the databases whose names are like the one that is missing."""
        from dataclasses import replace

        if self.database in (None, "postgres"):
            return None
        try:
            with replace(self, database="postgres", timeout=min(self.timeout, 5)).connection() as other:
                names = [str(row[0]) for row in rows(other, "SELECT datname FROM pg_database WHERE datallowconn")]
        except StateplanError:
            return None
        return nearest(self.database or "", names)

    @contextmanager
    def coded(self, doing: str, table: str | None = None) -> Iterator[None]:
        """Turns errors of the client library into coded ones.

        Args:
            doing: what was done with the database, after "while it".
            table: for the message.

        Raises:
            RunError: RUN143 to RUN149.
            DataError: DATA431 or DATA432.
        """
        errors = require(self.extra, "adbc_driver_manager", self.owner)
        try:
            yield
        except errors.Error as error:
            raise self.error(error, doing, table) from None

    def error(self, error: Exception, doing: str, table: str | None = None) -> StateplanError:
        """The coded error for one of the client library; see :meth:`coded`."""
        diagnosis = Diagnosis.of(error)
        state, server, reason = diagnosis.state, self.summary, self.without_secrets(diagnosis.message)
        subject = f"table '{table}'" if table else "the database"
        if diagnosis.is_lost:
            return RunError("RUN146", doing=doing, reason=reason, what=f"the connection to the database {server} broke")
        if state == "53300":
            return RunError("RUN148", server=server, reason=reason, problem="has no connection left")
        if diagnosis.may_pass:
            return RunError("RUN146", doing=doing, reason=reason, what=f"the database {server} undid a transaction")
        if state.startswith(("23", "44")):
            detail = self.without_secrets(diagnosis.detail)
            return DataError("DATA431", what=subject, constraint=diagnosis.rule, reason=reason, detail=detail)
        if "cannot affect row a second time" in diagnosis.message:
            return DataError("DATA431.keys", what=subject)
        if state.startswith("22"):
            return DataError("DATA432", what=subject, reason=reason)
        if state == "42501":
            user = self.user or "the default user"
            if "new row violates row-level security" in diagnosis.message:
                return DataError("DATA431.policy", what=subject, user=user, reason=reason)
            if "affected by row-level security" in diagnosis.message:
                return RunError("RUN147", user=user, server=server, reason=reason, action="read all rows")
            return RunError("RUN147", user=user, server=server, reason=reason, action=f"use {subject}")
        if state in _NO_ROOM:
            return RunError("RUN148", server=server, reason=reason, problem="cannot take this")
        if state in ("42P01", "3F000"):
            return RunError("RUN143", server=server, name=reason)
        is_retyped = (
            state == "42883" and "operator does not exist" in diagnosis.message
        )  # the type of a key has changed
        if is_retyped or state in ("42703", "42804") or "does not exist in target table" in diagnosis.message:
            return RunError("RUN144.changed", what=subject, server=server, reason=reason)
        return RunError("RUN149", server=server, doing=doing, reason=reason, state=state or "none")


def _zone_text(zone: str) -> str:
    """A time zone as PostgreSQL reads it, which counts the offsets of POSIX from Greenwich to the west."""
    offset = _OFFSET.fullmatch(zone)
    if offset is None:
        return zone or "UTC"
    sign, time = offset.groups()
    return f"<{sign}{time}>{'-' if sign == '+' else '+'}{time}"


def _conninfo_value(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def is_lost(error: StateplanError) -> bool:
    """Whether a connection is gone: what was not committed is undone, and may be done again on another one."""
    return error.code == "RUN146"


def _pause(seconds: float) -> bool:
    retries.pause(1000 * seconds)
    return False


def persistent(call: Callable[[], T], attempts: int, wait: Callable[[float], bool] = _pause) -> T:
    """What a call returns. It is made again where the server cannot be reached or the connection is lost, after 1, 2,
    3, 4 and then every 5 seconds. Raises what the last call raises.

    Args:
        call: opens another connection when the last one is lost.
        attempts: how often to make it again, at most.
        wait: waits for some seconds, and returns whether to give up.
    """
    attempt = 0
    while True:
        try:
            return call()
        except StateplanError as error:
            attempt += 1
            if attempt > attempts or not (is_lost(error) or error.code == "RUN140"):
                raise
            if wait(min(attempt, 5)):
                raise


@dataclass(frozen=True)
class Diagnosis:
    """What an error of ADBC says.

    Attributes:
        state: SQLSTATE; empty if the server did not send one.
        message: the primary message, one line.
        detail: such as the row that failed; empty for none.
        rule: the constraint, or the column that must not be NULL, in words.
        is_lost: whether the connection is gone.
    """

    state: str
    message: str
    detail: str
    rule: str
    is_lost: bool

    @classmethod
    def of(cls, error: Exception) -> Diagnosis:
        """Reads an error of the client library."""
        details = {
            str(key): value.decode(errors="replace") if isinstance(value, bytes) else str(value)
            for key, value in getattr(error, "details", None) or []
        }
        details = {key.removeprefix("b'").removesuffix("'"): value for key, value in details.items()}
        state = getattr(error, "sqlstate", None) or ""
        text = str(error)
        message = details.get("PG_DIAG_MESSAGE_PRIMARY") or _BEGIN.sub("", text.strip().partition("\n")[0])
        state = state or next((code for words, code in _STATES.items() if words in message), "")
        constraint, column = details.get("PG_DIAG_CONSTRAINT_NAME"), details.get("PG_DIAG_COLUMN_NAME")
        rule = f"constraint '{constraint}'" if constraint else f"column '{column}'" if column else "a constraint"
        is_disconnect = state.startswith(_LOST_STATES) or (not state and any(part in text for part in _LOST_TEXTS))
        return cls(state, message, details.get("PG_DIAG_MESSAGE_DETAIL", ""), rule, is_disconnect)

    @property
    def may_pass(self) -> bool:
        """Whether the same may succeed when it is tried again."""
        return self.is_lost or self.state in _RETRY_STATES


def close(connection: Any) -> None:
    """Closes a connection, which may be broken."""
    errors = require("jdbc", "adbc_driver_manager", "the connector 'jdbc'")
    try:
        connection.close()
    except (errors.Error, RuntimeError):
        return


@contextmanager
def receiving() -> Iterator[None]:
    """Turns what Arrow raises for a result that breaks off into an error of the client library, as for a query."""
    from adbc_driver_manager import AdbcStatusCode, OperationalError
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError) as error:
        raise OperationalError(str(error), status_code=AdbcStatusCode.IO) from None


def rows(connection: Any, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """The rows of a query; parameters are in it as ``$1``. Raises errors of the client library."""
    with receiving(), connection.cursor() as cursor:
        cursor.execute(query, parameters or None)
        result: list[tuple[Any, ...]] = cursor.fetchall()
        return result


def execute(connection: Any, *statements: str) -> None:
    """Runs statements without a result. Raises errors of the client library."""
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
