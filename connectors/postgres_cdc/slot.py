"""The database that changes come from: its tables, a publication of them, and the replication slot that keeps the log.

All by SQL, over one connection that also holds a lock on the slot, so that no second job reads it.
"""

from __future__ import annotations

import functools
import json
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from stateplan.common.errors import RunError, StateplanError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.jdbc.columns import TableInfo, find_table, fitting
from stateplan.connectors.jdbc.postgres import Diagnosis, Server, close, execute, literal, quote_name, rows
from stateplan.connectors.postgres_cdc.rows import find_column
from stateplan.connectors.postgres_cdc.values import fits

T = TypeVar("T")

_LOCK = 1_397_771_342
"""Names the locks on slots among the advisory locks of a database."""

_PAUSE = 0.2

_TABLES = """
SELECT c.oid::bigint, n.nspname::text, c.relname::text, c.relkind::text, c.relpersistence::text,
       CASE WHEN c.relispartition THEN pg_partition_root(c.oid)::oid::bigint ELSE 0 END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
ORDER BY 2, 3
"""

_TYPES = """
SELECT DISTINCT t.oid::bigint,
       CASE WHEN t.typtype = 'd' THEN b.typname WHEN e.typtype = 'd' THEN '_' || f.typname ELSE t.typname END::text
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_type b ON b.oid = t.typbasetype
LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A' LEFT JOIN pg_type f ON f.oid = e.typbasetype
WHERE a.attrelid IN ({oids}) AND a.attnum > 0 AND NOT a.attisdropped AND t.oid >= 16384
"""

_NO_IDENTITY = """
SELECT l.oid::regclass::text
FROM pg_class c
CROSS JOIN LATERAL (SELECT relid::oid FROM pg_partition_tree(c.oid) UNION SELECT c.oid) AS s
JOIN pg_class l ON l.oid = s.relid
JOIN pg_namespace n ON n.oid = l.relnamespace
LEFT JOIN pg_index i ON i.indrelid = l.oid AND i.indimmediate
  AND CASE l.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END
WHERE {which} AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
  AND l.relkind = 'r' AND l.relpersistence = 'p'
  AND l.relreplident <> 'f' AND i.indrelid IS NULL
LIMIT 1
"""

_PUBLISHED = """
SELECT c.oid::bigint, n.nspname::text, c.relname::text, p.oid::bigint,
       p.pubinsert AND p.pubupdate AND p.pubdelete, p.pubtruncate,
       t.tablename IS NOT NULL, to_jsonb(t) ->> 'rowfilter', to_jsonb(t) ->> 'attnames',
       concat_ws(' ', p.oid, p.xmin, (
         SELECT string_agg(d.objid::text, ' ' ORDER BY d.objid) FROM pg_depend d JOIN pg_depend m USING (classid, objid)
         WHERE d.refclassid = 'pg_publication'::regclass AND d.refobjid = p.oid
           AND (m.refclassid, m.refobjid)
               IN (('pg_class'::regclass, c.oid), ('pg_namespace'::regclass, c.relnamespace)))),
       CASE WHEN c.relkind = 'p' AND c.relreplident = 'f' THEN (
         SELECT l.oid::regclass::text FROM pg_partition_tree(c.oid) AS s JOIN pg_class l ON l.oid = s.relid
         WHERE s.isleaf AND l.relreplident <> 'f' LIMIT 1) END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_publication p ON p.pubname = {publication}
LEFT JOIN pg_publication_tables t
  ON t.pubname = p.pubname AND t.schemaname = n.nspname AND t.tablename = c.relname
WHERE c.oid IN ({oids})
"""

_SLOT = """
SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint, s.plugin::text, s.database::text, s.wal_status,
       (s.confirmed_flush_lsn - '0/0')::bigint, s.slot_name IS NOT NULL, s.database = current_database(),
       (SELECT system_identifier::text FROM pg_control_system())
FROM (SELECT 1) AS one LEFT JOIN pg_replication_slots s ON s.slot_name = {slot}
"""


@dataclass(frozen=True)
class Origin:
    """Where changes come from, as the options of a table say. Picklable.

    Attributes:
        server: its database.
        schema: regular expression that the names of schemas match.
        table: the same for tables.
        slot: name of the replication slot.
        publication: name of the publication.
        create: how to make the publication where it is missing: ``filtered``, ``all_tables`` or ``disabled``.
        fields: name and type of the declared columns.
        seconds: how long to wait for others to let go.
        attempts: how often to try again where the server cannot be reached or a connection is lost.
    """

    server: Server
    schema: str
    table: str
    slot: str
    publication: str
    create: str
    fields: Fields
    seconds: float
    attempts: int

    def names(self, schema: str, table: str) -> bool:
        """Whether a table is among those that are read."""
        return bool(re.fullmatch(self.schema, schema) and re.fullmatch(self.table, table))


@dataclass(frozen=True)
class CapturedTable:
    """A table whose changes are read.

    Attributes:
        oid: its number in the catalog.
        schema: the schema that contains it.
        name: the name of the table.
        partitioned: whether its rows are in partitions.
        columns: per declared column, its name and the internal name of its type.
    """

    oid: int
    schema: str
    name: str
    partitioned: bool
    columns: tuple[tuple[str, str], ...]

    @property
    def path(self) -> str:
        """Its name for people."""
        return f"{self.schema}.{self.name}"

    @property
    def only(self) -> str:
        """Its name as SQL, without tables that inherit from it: those are tables of their own."""
        return ("" if self.partitioned else "ONLY ") + f"{quote_name(self.schema)}.{quote_name(self.name)}"


@dataclass(frozen=True)
class Position:
    """The log of a server, and the part of it that the slot keeps.

    Attributes:
        flushed: the position at which the log ends.
        confirmed: the position from which the slot keeps the log; None if there is no slot.
        cluster: the system identifier of the server, which its standbys share.
    """

    flushed: int
    confirmed: int | None
    cluster: str


def lsn_text(lsn: int) -> str:
    """A place in the log as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


@dataclass(frozen=True)
class Publication:
    """A publication of tables.

    Attributes:
        oid: its number in the catalog.
        marks: OID of a table to a text that is another one after the publication was made again or altered, or the
            table taken out of it and added again: changes between may be missing.
    """

    oid: int
    marks: dict[str, str]


class Slot:
    """A connection to an origin. Not picklable; for one thread.

    Methods raise RUN140 to RUN149 where the server fails, and RUN155 to RUN160 where it cannot give the changes.
    """

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.server = origin.server
        self._connection: Any = None
        self._locked = False

    def close(self) -> None:
        """Ends the connection, and with it the lock."""
        if self._connection is not None:
            close(self._connection)
            self._connection = None
            self._locked = False

    # ---- connection --------------------------------------------------------------------------------------------

    @contextmanager
    def connection(self, with_lock: bool = True) -> Iterator[Any]:
        """The connection. After an error it is created again.

        Args:
            with_lock: whether no other job may have the slot.

        Raises:
            RunError: RUN157, another job has it.
        """
        try:
            with self.server.coded("is asked for changes"):
                if self._connection is None:
                    self._connection = self.server.connect(autocommit=True)
                if with_lock:
                    self._lock()
                yield self._connection
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        if self._locked:
            return
        key = zlib.crc32(self.origin.slot.encode()) >> 1

        def try_lock() -> bool:
            return bool(rows(self._connection, f"SELECT pg_try_advisory_lock({_LOCK}, {key})")[0][0])

        def error() -> RunError:
            locks = f"SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = {_LOCK} AND objid = {key}"
            pids = [str(row[0]) for row in rows(self._connection, f"{locks} AND granted")]
            return self._in_use(", ".join(pids) or "?")

        self._wait(try_lock, error)
        self._locked = True

    def _wait(self, is_done: Callable[[], bool], error: Callable[[], RunError]) -> None:
        until = time.monotonic() + self.origin.seconds
        while not is_done():
            if time.monotonic() > until:
                raise error()
            time.sleep(_PAUSE)

    def _in_use(self, pid: str) -> RunError:
        return RunError("RUN157", slot=self.origin.slot, server=self.server.summary, pid=pid)

    def _patient(self, call: Callable[[], T]) -> T:
        """What a call returns that may find the slot in use for a while, by a process that was killed, say."""
        until = time.monotonic() + self.origin.seconds
        while True:
            try:
                return call()
            except _failures() as error:
                diagnosis = Diagnosis.of(error)
                if diagnosis.state != "55006" and "is active for PID" not in diagnosis.message:
                    raise
                if time.monotonic() > until:
                    pid = re.search(r"PID (\d+)", diagnosis.message)
                    raise self._in_use(pid[1] if pid else "?") from None
                time.sleep(_PAUSE)

    # ---- tables ------------------------------------------------------------------------------------------------

    def tables(self) -> list[CapturedTable]:
        """The tables that the options name, checked against the declared columns.

        Raises:
            RunError: RUN143, it does not exist; RUN144 or RUN145, a column is missing or of another type; RUN159, its
                changes are not in the log.
        """
        with self.connection(with_lock=False) as connection:
            existing_tables = rows(connection, _TABLES)
            matching = [row for row in existing_tables if self.origin.names(row[1], row[2])]
            oids = {row[0] for row in matching}
            tables = []
            for oid, in_schema, name, kind, persistence, root in matching:
                if root in oids and root != oid:
                    continue
                if persistence != "p":
                    server = self.server.summary
                    raise RunError("RUN159", table=f"{in_schema}.{name}", server=server, problem="is UNLOGGED")
                info = find_table(connection, self.server, f"{quote_name(in_schema)}.{quote_name(name)}")
                tables.append(CapturedTable(oid, in_schema, name, kind == "p", self._columns(info)))
        if not tables:
            table_name = f"{self.origin.schema}.{self.origin.table}"
            names = [f"{row[1]}.{row[2]}" for row in existing_tables]
            raise RunError(
                "RUN143", server=self.server.summary, name=f"'{table_name}'", hint=nearest(table_name, names)
            )
        return tables

    def _columns(self, table: TableInfo) -> tuple[tuple[str, str], ...]:
        names, columns = [column.name for column in table.columns], []
        server = self.server.summary
        for name, data_type in self.origin.fields:
            place = find_column(names, name)
            if place is None:
                near = nearest(name, names)
                raise RunError("RUN144", name=table.path, column=name, columns=names[:20], server=server, hint=near)
            column = table.columns[place]
            if not fits(column.type, data_type):
                raise RunError(
                    "RUN145",
                    column=name,
                    name=table.path,
                    actual=column.sql_type,
                    declared=data_type,
                    server=server,
                    fitting=fitting(column),
                )
            columns.append((column.name, column.type))
        return tuple(columns)

    def types(self, oids: list[int]) -> dict[str, str]:
        """The types of columns of tables that users have created: OID to internal name, of a domain its base's."""
        with self.connection(with_lock=False) as connection:
            type_rows = rows(connection, _TYPES.format(oids=", ".join(map(str, oids))))
        return {str(oid): name for oid, name in type_rows}

    # ---- publication and slot ----------------------------------------------------------------------------------

    def check_possible(self) -> None:
        """Raises RunError RUN156 where the server cannot decode its log."""
        with self.connection(with_lock=False) as connection:
            level, standby = rows(connection, "SELECT current_setting('wal_level'), pg_is_in_recovery()")[0]
        if standby:
            raise RunError(
                "RUN156", server=self.server.summary, problem="is a standby, which does not report how far its log is"
            )
        if level != "logical":
            raise RunError("RUN156", server=self.server.summary, problem=f"has wal_level = {level}")

    def publish(self, tables: list[CapturedTable]) -> tuple[bool, Publication]:
        """Makes the publication, unless it is there; whether it was not, and what it is.

        Raises:
            RunError: RUN160, it is missing and must not be made, or lacks something.
        """
        name = literal(self.origin.publication)
        with self.connection() as connection:
            exists = bool(rows(connection, f"SELECT 1 FROM pg_publication WHERE pubname = {name}"))
            if not exists and self.origin.create != "disabled":
                version = int(rows(connection, "SELECT current_setting('server_version_num')")[0][0])
                self._check_identity(connection, tables)
                execute(connection, self._creation(tables, version))
        return not exists, self.check_published({table.oid: table.path for table in tables})

    def _check_identity(self, connection: Any, tables: list[CapturedTable]) -> None:
        """Raises RunError RUN159 where the server would refuse updates and deletions of a table that is published."""
        condition = f"c.oid IN ({', '.join(str(table.oid) for table in tables)})"
        condition = "TRUE" if self.origin.create == "all_tables" else condition
        tables_without = rows(connection, _NO_IDENTITY.format(which=condition))
        if tables_without:
            raise RunError("RUN159.no_identity", table=tables_without[0][0], server=self.server.summary)

    def _creation(self, tables: list[CapturedTable], version: int) -> str:
        every = self.origin.create == "all_tables"
        of = "FOR ALL TABLES" if every else "FOR TABLE " + ", ".join(table.only for table in tables)
        settings = ["publish_via_partition_root = true"] if any(table.partitioned for table in tables) else []
        if version >= 180000:
            settings.append("publish_generated_columns = stored")
        options = f" WITH ({', '.join(settings)})" if settings else ""
        return f"CREATE PUBLICATION {quote_name(self.origin.publication)} {of}{options}"

    def check_published(self, tables: Mapping[int, str], has_begun: bool = False) -> Publication:
        """The publication.

        Args:
            tables: OID to name.
            has_begun: whether the job has read the publication before.

        Raises:
            RunError: changes would be missing: RUN159, a table is gone or has another name; RUN160, the publication is
                gone, or omits some of them.
        """
        oid, marks = 0, {}
        with self.connection() as connection:
            query = _PUBLISHED.format(publication=literal(self.origin.publication), oids=", ".join(map(str, tables)))
            publications = {row[0]: row[1:] for row in rows(connection, query)}
        publication, server, name = self.origin.publication, self.server.summary, quote_name(self.origin.publication)
        unfit = functools.partial(RunError, "RUN160.unfit", publication=publication, server=server, name=name)
        for number, path in tables.items():
            if number not in publications:
                raise RunError("RUN159", table=path, server=server, problem="was dropped, and maybe created again")
            schema, table, oid, changes, truncates, has_columns, condition, columns, mark, partial = publications[
                number
            ]
            if not self.origin.names(schema, table):
                raise RunError("RUN159.renamed", table=path, now=f"{schema}.{table}", server=server)
            marks[str(number)] = mark
            sql = f"{quote_name(schema)}.{quote_name(table)}"
            if oid is None:
                code = "RUN160.dropped" if has_begun else "RUN160"
                raise RunError(code, publication=publication, table=path, server=server, name=name, sql=sql)
            if not has_columns:
                raise unfit(problem="does not have the table", table=path, sql=sql)
            if not (changes and truncates):
                raise unfit(problem="leaves out some kinds of changes")
            if condition is not None:
                raise unfit(problem="leaves out some rows of the table", table=path)
            if partial is not None:
                raise RunError("RUN159.partition", table=path, server=server, partition=partial)
            if columns is not None and (column := self._lacking(columns, sql)) is not None:
                raise unfit(problem=f"does not have the column '{column}' of the table '{path}'")
        return Publication(oid, marks)

    def _lacking(self, columns_json: str, sql: str) -> str | None:
        """The first declared column that a publication does not have. Raises RunError RUN144 where the table has it
        neither."""
        names = json.loads(columns_json)
        lacking = next((name for name, _ in self.origin.fields if find_column(names, name) is None), None)
        if lacking is not None:
            with self.connection() as connection:
                self._columns(find_table(connection, self.server, sql))
        return lacking

    def position(self) -> Position:
        """The state of the slot.

        Raises:
            RunError: RUN155, the slot is of another database or plug-in, or the server has removed the log
                that the slot kept.
        """
        with self.connection() as connection:
            slot_row = rows(connection, _SLOT.format(slot=literal(self.origin.slot)))[0]
        flushed_lsn, plugin, database, status, confirmed_lsn, exists, is_own_database, cluster = slot_row
        slot, server = self.origin.slot, self.server.summary
        if not exists:
            return Position(flushed_lsn, None, cluster)
        if plugin != "pgoutput" or not is_own_database:
            other = database or "no database"
            raise RunError("RUN155.other_plugin", plugin=plugin, database=other, slot=slot, server=server)
        if status == "lost" or confirmed_lsn is None:
            raise RunError("RUN155.lost", slot=slot, server=server)
        return Position(flushed_lsn, confirmed_lsn, cluster)

    def make(self) -> None:
        """Makes the slot. Waits until transactions that are open have ended.

        Raises:
            RunError: RUN156, the user may not, or there are too many slots; RUN158, transactions stay open.
        """
        from adbc_driver_manager import Error

        name = literal(self.origin.slot)
        with self.connection() as connection:
            execute(connection, f"SET statement_timeout = {int(self.origin.seconds * 1000)}")
            try:
                rows(connection, f"SELECT pg_create_logical_replication_slot({name}, 'pgoutput')::text")
            except Error as error:
                diagnosis = Diagnosis.of(error)
                reason = self.server.without_secrets(diagnosis.message)
                if diagnosis.state == "57014":
                    raise self._still_open(connection) from None
                if diagnosis.state == "42501":
                    user = self.server.user or "the default user"
                    raise RunError("RUN156.role", server=self.server.summary, user=user, reason=reason) from None
                if diagnosis.state == "53400":
                    raise RunError("RUN156.slots", server=self.server.summary, reason=reason) from None
                raise
            execute(connection, "RESET statement_timeout")

    def settle(self) -> None:
        """Lets the slot begin after all transactions that had begun when the publication was made: what they had done
        before is not in it. Raises RunError RUN158, transactions stay open."""
        flushed_lsn = self.position().flushed
        with self.connection() as connection:
            (below,) = rows(connection, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")[0]
            oldest = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
            self._wait(lambda: rows(connection, oldest)[0][0] >= below, lambda: self._still_open(connection))
        self.advance(flushed_lsn)

    def _still_open(self, connection: Any) -> RunError:
        open_since = (
            "SELECT pid, EXTRACT(epoch FROM now() - xact_start)::bigint FROM pg_stat_activity "
            "WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1"
        )
        transactions = rows(connection, open_since)
        since = (
            f"process {transactions[0][0]}, for {transactions[0][1]} s"
            if transactions
            else "prepared, or of a user that is hidden"
        )
        return RunError("RUN158", server=self.server.summary, seconds=f"{self.origin.seconds:g}", since=since)

    def drop(self) -> None:
        """Removes the slot that this connection has made."""
        with self.connection() as connection:
            rows(connection, f"SELECT pg_drop_replication_slot({literal(self.origin.slot)})::text")

    def peek(self, until: int, most: int) -> Iterator[Any]:
        """Messages of all transactions that the slot keeps, in the order in which they were committed, as arrays of
        Arrow.

        Args:
            until: the place in the log up to which to read.
            most: how many messages to read, at least; the transaction that passes it comes whole.
        """
        publication = literal(quote_name(self.origin.publication))
        query = (
            f"SELECT data FROM pg_logical_slot_peek_binary_changes({literal(self.origin.slot)}, '{lsn_text(until)}', "
            f"{most}, 'proto_version', '1', 'publication_names', {publication})"
        )
        with self.connection() as connection, connection.cursor() as cursor:

            def begin() -> tuple[Any, Any]:
                cursor.execute(query)
                reader = cursor.fetch_record_batch()
                return reader, next(reader, None)

            yield from (batch.column(0) for batch in self.batches(lambda: self._patient(begin)))

    def batches(self, begin: Callable[[], tuple[Any, Any]]) -> Iterator[Any]:
        """The record batches of a query. Raises errors of the server as coded ones, which its reader does not.

        Args:
            begin: runs the query, and returns its reader and the first batch.
        """
        try:
            reader, batch = begin()
            while batch is not None:
                yield batch
                batch = next(reader, None)
        except _failures() as error:
            raise self.server.error(error, "is asked for changes") from None

    def advance(self, lsn: int) -> None:
        """Lets the server forget the log before a place. Does nothing if it has, or where the slot is in use."""
        position = self.position()
        if position.confirmed is None or not position.confirmed < lsn <= position.flushed:
            return
        query = f"SELECT pg_replication_slot_advance({literal(self.origin.slot)}, '{lsn_text(lsn)}')::text"
        with self.connection() as connection:
            self._patient(lambda: rows(connection, query))


def _failures() -> tuple[type[Exception], ...]:
    """What ADBC raises, or lets Arrow raise when a result is read."""
    from adbc_driver_manager import Error
    from pyarrow import ArrowException

    return Error, ArrowException, OSError


def may_pass(error: StateplanError) -> bool:
    """Whether what failed may be left for later, as long as nothing depends on it."""
    return error.code in ("RUN140", "RUN146", "RUN157")
