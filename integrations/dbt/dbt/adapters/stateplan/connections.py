"""Connections: sessions at a gateway, or at a gateway of dbt's own process. Both are used through the DB-API."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dbt.adapters.contracts.connection import AdapterResponse, Connection, Credentials
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sql import SQLConnectionManager
from dbt.adapters.stateplan.column import literal, quote
from dbt_common.exceptions import DbtConfigError, DbtDatabaseError

import stateplan.gateway.dbapi as dbapi

if TYPE_CHECKING:
    from stateplan.gateway.service.service import SqlGatewayService

logger = AdapterLogger("Stateplan")

METHODS = ("gateway", "local")


@dataclass
class StateplanCredentials(Credentials):
    """An output of a profile.

    Attributes:
        database: the catalog of the models.
        schema: their database in it.
        path: folder or URL of tables, catalog and checkpoints.
        method: ``gateway``, or ``local`` for jobs in the process of dbt.
        endpoint: the address of the gateway.
        token_file, ca_file, certificate: as ``stateplan sql`` has them.
        catalog: options of the catalog; by default a catalog of files below ``path``.
        table_options: options of each new table; by default Delta tables below ``path``.
        options: options of each session.
        wait_seconds: how long a run waits for the first micro-batch of a job that it has started.
    """

    database: str = "lake"
    schema: str = "default"
    path: str = ""
    method: str = "gateway"
    endpoint: str = "http://localhost:8083"
    token_file: str | None = None
    ca_file: str | None = None
    certificate: str | None = None
    catalog: dict[str, Any] = field(default_factory=dict)
    table_options: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    wait_seconds: float = 60.0

    _ALIASES: ClassVar[dict[str, str]] = {"catalog_name": "database"}

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise DbtConfigError(f"the method '{self.method}' is neither 'gateway' nor 'local'")
        if not self.path:
            raise DbtConfigError("the profile needs a 'path': the folder or URL of tables, catalog and checkpoints")
        if self.method == "gateway" and "://" not in self.path and not Path(self.path).is_absolute():
            raise DbtConfigError(
                f"the path '{self.path}' is relative, and the gateway may have another working directory"
            )

    @property
    def type(self) -> str:
        return "stateplan"

    @property
    def unique_field(self) -> str:
        return self.endpoint if self.is_remote else self.path

    def _connection_keys(self) -> tuple[str, ...]:
        return (
            ("method", "endpoint", "path", "database", "schema")
            if self.is_remote
            else ("method", "path", "database", "schema")
        )

    @property
    def is_remote(self) -> bool:
        """Whether jobs run in a gateway."""
        return self.method == "gateway"

    @property
    def root(self) -> str:
        """``path``, which is absolute for jobs in this process."""
        return self.path.rstrip("/") if self.is_remote or "://" in self.path else str(Path(self.path).absolute())

    @property
    def catalog_options(self) -> dict[str, str]:
        """The options of the catalog."""
        return texts(self.catalog) or {"type": "file", "path": f"{self.root}/catalog"}

    @property
    def session_options(self) -> dict[str, str]:
        """The options of a session. An INSERT of a model waits for its rows."""
        return {"table.dml-sync": "true", **texts(self.options)}

    def token(self) -> str | None:
        """What ``token_file`` contains."""
        return None if self.token_file is None else Path(self.token_file).expanduser().read_text().strip()


def texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Options of YAML as texts: ``true``, and not ``True``."""
    return {str(key): str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}


def options_sql(options: Mapping[str, str]) -> str:
    """``('key' = 'value', ...)``."""
    return f"({', '.join(f'{literal(key)} = {literal(text)}' for key, text in options.items())})"


class LocalGateways:
    """The gateways of this process, by their folder. Each lasts as long as it has connections."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._services: dict[Path, tuple[SqlGatewayService, int]] = {}

    def acquire(self, folder: Path) -> SqlGatewayService:
        """The gateway of a folder. Raises GatewayError GW016, another process has it."""
        from stateplan.gateway.service.service import SqlGatewayService

        with self._lock:
            service, users = self._services.get(folder, (None, 0))
            if service is None:
                service = SqlGatewayService(folder=folder)
            self._services[folder] = service, users + 1
            return service

    def release(self, folder: Path) -> None:
        """One connection less."""
        with self._lock:
            service, users = self._services.pop(folder)
            if users > 1:
                self._services[folder] = service, users - 1
        if users == 1:
            service.stop()


LOCAL_GATEWAYS = LocalGateways()


class Handle:
    """An open session, with the cursor that was opened last.

    Args:
        credentials: where it is.
    """

    def __init__(self, credentials: StateplanCredentials) -> None:
        self._folder = None if credentials.is_remote else Path(credentials.root) / "gateway"
        self._cursor: dbapi.Cursor | None = None
        self._bounded: dict[str, str] = {}
        if self._folder is None:
            self._connection = dbapi.connect(
                credentials.endpoint,
                credentials.session_options,
                token=credentials.token(),
                ca_file=credentials.ca_file,
                certificate=credentials.certificate,
                name="dbt",
            )
            return
        service = LOCAL_GATEWAYS.acquire(self._folder)
        try:
            self._connection = dbapi.connect(service, credentials.session_options, name="dbt")
        except BaseException:
            LOCAL_GATEWAYS.release(self._folder)
            raise

    def cursor(self) -> dbapi.Cursor:
        """A new cursor."""
        self._cursor = self._connection.cursor()
        return self._cursor

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement; none for one without rows."""
        with self.cursor() as cursor:
            cursor.execute(statement)
            return [] if cursor.description is None else cursor.fetchall()

    def bound(self, sources: Mapping[str, str]) -> None:
        """Queries of this session read these tables instead of those of the catalog. By name, their declarations."""
        for name in [name for name, text in self._bounded.items() if sources.get(name) != text]:
            self.run(f"DROP TEMPORARY TABLE {name}")
            del self._bounded[name]
        for name, text in sources.items():
            if name not in self._bounded:
                self.run(f"CREATE TEMPORARY TABLE {name} {text}")
                self._bounded[name] = text

    def cancel(self) -> None:
        """Ends the statement that runs, from any thread."""
        if self._cursor is not None:
            self._cursor.cancel()

    def close(self) -> None:
        """Ends the session."""
        if self._connection.closed:
            return
        self._connection.close()
        if self._folder is not None:
            LOCAL_GATEWAYS.release(self._folder)


class StateplanConnectionManager(SQLConnectionManager):
    """A session for each thread of dbt. There are no transactions: a statement takes effect when it is executed."""

    TYPE = "stateplan"

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._bounded_sources: dict[str, str] = {}
        self._unbounded_threads: set[int] = set()

    def bound(self, name: str, declaration: str) -> None:
        """Queries read a source by this declaration, which ends, and only streaming tables follow it."""
        self._bounded_sources[name] = declaration

    @contextmanager
    def without_bounds(self) -> Iterator[None]:
        """The session of this thread reads sources as the catalog has them."""
        thread = threading.get_ident()
        self._unbounded_threads.add(thread)
        try:
            yield
        finally:
            self._unbounded_threads.discard(thread)

    def add_query(self, sql: str, *arguments: Any, **keywords: Any) -> tuple[Connection, Any]:
        connection = self.get_thread_connection()
        is_unbounded = threading.get_ident() in self._unbounded_threads
        with self.exception_handler(sql):
            connection.handle.bound({} if is_unbounded else self._bounded_sources)
        return super().add_query(sql, *arguments, **keywords)

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        try:
            yield
        except dbapi.Error as error:
            raise DbtDatabaseError(str(error)) from error

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        from stateplan.common.errors import StateplanError

        credentials = connection.credentials
        assert isinstance(credentials, StateplanCredentials)

        def connect() -> Handle:
            try:
                handle = Handle(credentials)
            except StateplanError as error:
                raise DbtDatabaseError(str(error)) from error
            try:
                catalog = quote(credentials.database)
                handle.run(f"CREATE CATALOG IF NOT EXISTS {catalog} WITH {options_sql(credentials.catalog_options)}")
                handle.run(f"USE CATALOG {catalog}")
            except BaseException:
                handle.close()
                raise
            return handle

        return cls.retry_connection(connection, connect=connect, logger=logger, retryable_exceptions=[])

    def cancel(self, connection: Connection) -> None:
        connection.handle.cancel()

    @classmethod
    def get_response(cls, cursor: dbapi.Cursor) -> AdapterResponse:
        return AdapterResponse(_message="OK", query_id=cursor.job_id)

    @classmethod
    def data_type_code_to_name(cls, type_code: int | str) -> str:
        """Texts of any length are alike, as contracts want it."""
        return re.sub(r"^(VARCHAR|CHAR|STRING)\b.*", "STRING", str(type_code))

    @classmethod
    def process_results(cls, column_names: Iterable[str], rows: Iterable[Sequence[Any]]) -> Iterator[dict[str, Any]]:
        return super().process_results(list(column_names), ([_plain(value) for value in row] for row in rows))

    def begin(self) -> None:
        """There are none."""

    def commit(self) -> None:
        """There are none."""

    def clear_transaction(self) -> None:
        """There are none."""

    def rollback_if_open(self) -> None:
        """There are none."""

    def add_begin_query(self) -> None:
        """There are none."""

    def add_commit_query(self) -> None:
        """There are none."""


def _plain(value: Any) -> Any:
    """A value that dbt can put into a table of its own: a ROW as a list, bytes as hexadecimal digits."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value.hex() if isinstance(value, bytes) else value
