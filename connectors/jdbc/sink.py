"""Writing a table of PostgreSQL, exactly once.

Workers give their rows to the driver. It writes all rows of a micro-batch in one transaction, in which it also notes
the micro-batch in the table ``stateplan_epochs``; one that is recorded there is not written again. Whoever started last
owns the row of a sink in that table, so a job that was thought dead cannot write any more.

Source of the options and of what a change does: Flink's ``JdbcDynamicTableSink`` and
``TableBufferReducedStatementExecutor``.
"""

from __future__ import annotations

import io
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

import polars as pl

from stateplan.common.changelog import KIND, RowKind
from stateplan.common.errors import DataError, OptionError, RunError, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.jdbc.columns import Column, TableInfo, column_of, find_table
from stateplan.connectors.jdbc.postgres import (
    Diagnosis,
    Server,
    close,
    execute,
    literal,
    persistent,
    quote_name,
    rows,
)
from stateplan.connectors.protocol import Sink, SinkTable
from stateplan.connectors.sink_epochs import (
    EpochOrder,
    Mark,
    is_of_other_checkpoint,
    refusal,
    statement_of,
    written_before,
)

EPOCHS = "stateplan_epochs"
"""The table with the last micro-batch of each sink, in the schema of the table that is written."""

_CREATE = (
    "CREATE TABLE {table} (uid text PRIMARY KEY, epoch bigint NOT NULL, owner text NOT NULL, "
    "written timestamptz NOT NULL DEFAULT now())"
)

_UNIQUE = """
SELECT i.indimmediate, i.indisprimary, c.conname::text
FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.conrelid = i.indrelid
WHERE i.indrelid = {oid} AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
  AND i.indexprs IS NULL
  AND (SELECT array_agg(a.attname::text ORDER BY a.attname::text) FROM pg_attribute a
       WHERE a.attrelid = i.indrelid AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1]))
      = (SELECT array_agg(n ORDER BY n) FROM unnest({names}) AS n)
"""

_STAGED = {
    "BOOLEAN": "bool",
    "TINYINT": "int2",
    "SMALLINT": "int2",
    "INTEGER": "int4",
    "BIGINT": "int8",
    "FLOAT": "float4",
    "DOUBLE": "float8",
    "DECIMAL": "numeric",
    "CHAR": "text",
    "VARCHAR": "text",
    "VARBINARY": "bytea",
    "DATE": "date",
    "TIME_WITHOUT_TIME_ZONE": "time",
    "TIMESTAMP_WITHOUT_TIME_ZONE": "timestamp",
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": "timestamptz",
}
"""Root of a declared type to the type that ADBC sends its values as."""

_DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
"""Makes the server confirm a commit only when no crash can undo it: the job does not write the micro-batch again."""

_STAGE, _DELETED = "stateplan_stage", "stateplan_deleted"
_REMOVES = (int(RowKind.UPDATE_BEFORE), int(RowKind.DELETE))


def staged_type(data_type: LogicalType) -> str:
    """The type in PostgreSQL that values arrive in."""
    return f"{staged_type(data_type.children[0])}[]" if data_type.root == "ARRAY" else _STAGED[data_type.root]


@dataclass(frozen=True)
class Target:
    """The table that is written, as the database has it.

    Attributes:
        table: the table of the database.
        columns: those that are written, with their declared types, in the order of a row.
        key: positions in ``columns`` of the primary key; empty for none.
    """

    table: TableInfo
    columns: tuple[tuple[Column, LogicalType], ...]
    key: tuple[int, ...]

    def stages(self) -> list[str]:
        """Statements that make the temporary tables of a connection."""
        every = [f"c{i} {staged_type(data_type)}" for i, (_, data_type) in enumerate(self.columns)]
        keys = [every[i] for i in self.key]
        out = [f"CREATE TEMPORARY TABLE {_STAGE} ({', '.join(every)}) ON COMMIT DELETE ROWS"]
        if keys:
            out.append(f"CREATE TEMPORARY TABLE {_DELETED} ({', '.join(keys)}) ON COMMIT DELETE ROWS")
        return out

    def value(self, position: int, table: str) -> str:
        """A value of a temporary table as one of the column. A value that is too long is an error, not cut."""
        column, data_type = self.columns[position]
        name = f"{table}.c{position}"
        if data_type.is_string and column.type not in ("text", "varchar", "bpchar", "name"):
            return f"{name}::{column.sql_type}"
        if data_type.root == "TIMESTAMP_WITHOUT_TIME_ZONE" and column.type == "timestamptz":
            return f"{name}::timestamptz"
        if data_type.root == "ARRAY" and f"_{staged_type(data_type)[:-2]}" != column.type:
            return f"{name}::{column.sql_type}"
        return name

    @property
    def names(self) -> list[str]:
        """The columns as SQL."""
        return [quote_name(column.name) for column, _ in self.columns]

    def write(self) -> str:
        """Moves what is staged into the table, rows with an equal key over those that are there."""
        values = ", ".join(self.value(i, "s") for i in range(len(self.columns)))
        sql = f"INSERT INTO {self.table.sql} ({', '.join(self.names)}) SELECT {values} FROM {_STAGE} AS s"
        if not self.key:
            return sql
        keys = [self.names[i] for i in self.key]
        others = [name for i, name in enumerate(self.names) if i not in self.key]
        order = ", ".join(self.value(i, "s") for i in self.key)
        change = f"UPDATE SET {', '.join(f'{name} = EXCLUDED.{name}' for name in others)}" if others else "NOTHING"
        return f"{sql} ORDER BY {order} ON CONFLICT ({', '.join(keys)}) DO {change}"

    def delete(self) -> str:
        """Removes the rows whose keys are staged."""
        equal = " AND ".join(f"t.{self.names[i]} = {self._deleted(i)}" for i in self.key)
        return f"DELETE FROM {self.table.sql} AS t USING {_DELETED} AS d WHERE {equal}"

    def _deleted(self, position: int) -> str:
        """A value of a key that is removed as the column has it, which pads or rounds it when a row is added."""
        column, value = self.columns[position][0], self.value(position, "d")
        if column.type == "bpchar":
            return f"{value}::bpchar"
        is_rounded = column.type in ("numeric", "time", "timestamp", "timestamptz") and column.modifier >= 0
        return f"{value}::{column.sql_type}" if is_rounded else value

    @property
    def is_direct(self) -> bool:
        """Whether rows can go to the table without a stage: nothing is converted, and COPY does what INSERT does."""
        same = all(
            (column.type, data_type.root != "ARRAY") == (staged_type(data_type), True)
            for column, data_type in self.columns
        )
        return not self.key and self.table.takes_copy and same


@dataclass
class JdbcSink(Sink):
    """A table that is written.

    Attributes:
        server: the server that has it.
        name: as declared.
        fields: name and type of the columns.
        primary_key: columns by which rows are replaced and removed; empty to add rows only.
        uid: the uid of the sink.
        retries: how often a transaction is tried again whose connection broke.
    """

    server: Server
    name: str
    fields: Fields
    primary_key: tuple[str, ...]
    uid: str
    retries: int
    _connection: Any = field(default=None, repr=False, compare=False)
    _target: Target | None = field(default=None, repr=False, compare=False)
    _owner: str | None = field(default=None, repr=False, compare=False)
    _released: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        own_fields = ("_connection", "_target", "_owner", "_released")
        return {key: value for key, value in self.__dict__.items() if key not in own_fields}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._connection = self._target = self._owner = None
        self._released = threading.Event()

    @property
    def _expected(self) -> int:
        """The last micro-batch that the database must have; -1 for none."""
        epoch = self.ledger.expected(self._place)
        return -1 if epoch is None else epoch

    @property
    def _place(self) -> str:
        return f"{self.server.database}.{self.name}"

    @property
    def keeps_order(self) -> bool:  # type: ignore[override]  # read only
        return bool(self.primary_key)

    @property
    def _key(self) -> list[int]:
        names = [name for name, _ in self.fields]
        return [names.index(name) for name in self.primary_key]

    # ---- in workers --------------------------------------------------------------------------------------------

    def write(self, frame: pl.DataFrame, epoch: int, part: str) -> bytes:
        out = io.BytesIO()
        self._last(frame).write_ipc_stream(out)
        return out.getvalue()

    def _last(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows that count: with a primary key, the last change of each key. Raises DataError DATA433."""
        if not self.primary_key:
            if KIND in frame.columns:
                wrong = frame.filter(pl.col(KIND) != int(RowKind.INSERT))
                if wrong.height:
                    verb = "removed" if wrong[KIND][0] in _REMOVES else "updated"
                    raise DataError("DATA433", verb=verb)
            return frame.drop(KIND, strict=False)
        if KIND not in frame.columns:
            frame = frame.with_columns(pl.lit(int(RowKind.INSERT), pl.Int8).alias(KIND))
        return frame.unique([f"c{i}" for i in self._key], keep="last", maintain_order=True)

    # ---- on the driver -----------------------------------------------------------------------------------------

    def prepare(self, epoch: int) -> None:
        if self._owner is None:
            owner = uuid.uuid4().hex
            self._with_retries(lambda: self._claim(owner, epoch))
            self._owner = owner

    def commit(self, parts: Sequence[bytes], epoch: int) -> None:
        if not parts:
            return
        if self._owner is None:
            self.prepare(epoch)
        frame = pl.concat([pl.read_ipc_stream(io.BytesIO(part)) for part in parts])
        if self.primary_key and len(parts) > 1:
            frame = self._last(frame)
        self._with_retries(lambda: self._write_rows(frame, epoch))

    def release(self) -> None:
        self._released.set()

    def close(self) -> None:
        self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            close(self._connection)
            self._connection = None

    def _with_retries(self, attempt: Callable[[], None]) -> None:
        """Does something in a transaction, and again on a new connection when the old one broke."""

        def once() -> None:
            try:
                with self.server.coded("writes", self.name):
                    attempt()
            except BaseException:
                self._drop()
                raise

        persistent(once, self.retries, self._released.wait)

    def _connected(self) -> tuple[Any, Target]:
        """The connection, with its temporary tables, and the table. Raises errors of the client library too."""
        if self._connection is None or self._target is None:
            connection = self.server.connect()
            try:
                self._target = self._describe_target(connection)
                execute(connection, _DURABLE, *self._target.stages())
                connection.commit()
            except BaseException:
                close(connection)
                raise
            self._connection = connection
        return self._connection, self._target

    def _describe_target(self, connection: Any) -> Target:
        """The table as it is now.

        Raises:
            RunError: RUN143 to RUN145.
            OptionError: OPT153, the database has no such key.
        """
        table = find_table(connection, self.server, self.name)
        columns = tuple(
            (column_of(table, self.server, name, data_type, True), data_type) for name, data_type in self.fields
        )
        for column, _ in columns:
            if column.is_generated:
                raise RunError(
                    "RUN145.unusable",
                    column=column.name,
                    name=table.path,
                    server=self.server.summary,
                    problem="is generated and cannot be written",
                )
        if self.primary_key:
            keys = [columns[i][0].name for i in self._key]
            names = f"ARRAY[{', '.join(map(literal, keys))}]::text[]"
            constraints = rows(connection, _UNIQUE.format(oid=table.oid, names=names))
            if not constraints:
                raise OptionError("OPT153", name=table.path, keys=keys, server=self.server.summary)
            for at_once, primary, constraint in constraints:
                if not at_once:
                    constraint_sql = f"{'PRIMARY KEY' if primary else 'UNIQUE'} ({', '.join(map(quote_name, keys))})"
                    raise OptionError(
                        "OPT153.deferrable",
                        name=table.path,
                        keys=keys,
                        server=self.server.summary,
                        constraint=constraint,
                        statement=f"ALTER TABLE {table.sql} DROP CONSTRAINT {quote_name(constraint)}, "
                        f"ADD {constraint_sql}",
                    )
        return Target(table, columns, tuple(self._key))

    # ---- the transaction ---------------------------------------------------------------------------------------

    def _epochs(self, target: Target) -> str:
        return f"{quote_name(target.table.schema)}.{EPOCHS}"

    @contextmanager
    def _noting(self, connection: Any, target: Target) -> Iterator[None]:
        """Raises RunError RUN147, the user may not use the table of epochs; other errors stay as they are."""
        from adbc_driver_manager import Error

        try:
            yield
        except Error as error:
            diagnosis = Diagnosis.of(error)
            if diagnosis.state != "42501":
                raise
            connection.rollback()
            (user,) = rows(connection, "SELECT quote_ident(current_user)")[0]
            raise RunError(
                "RUN147",
                user=self.server.user or "the default user",
                server=self.server.summary,
                reason=self.server.without_secrets(diagnosis.message),
                action=f"use table '{target.table.schema}.{EPOCHS}'",
                hint=f"run once as its owner: GRANT SELECT, INSERT, UPDATE ON {self._epochs(target)} TO {user}",
            ) from None

    @property
    def _input_uid(self) -> str:
        """The row in the table of epochs whose number is the digest of what the last micro-batch read."""
        return f"{self.uid}/input"

    def _claim(self, owner: str, epoch: int) -> None:
        """Makes this job the owner of the sink's rows in the table of epochs."""
        connection, target = self._connected()
        table = self._epochs(target)
        if rows(connection, f"SELECT to_regclass({literal(table)}) IS NULL")[0][0]:
            self._create(connection, table)
        with self._noting(connection, target), connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {table} (uid, epoch, owner) VALUES ($1, -1, $2) "
                "ON CONFLICT (uid) DO UPDATE SET owner = EXCLUDED.owner RETURNING uid, epoch",
                (self.uid, owner),
            )
            epochs = {str(uid): int(number) for uid, number in cursor.fetchall()}
            for uid, number in rows(connection, f"SELECT uid, epoch FROM {table} WHERE uid = $1", [self._input_uid]):
                epochs[str(uid)] = int(number)

        def others() -> str | None:
            query = f"SELECT uid FROM {table} WHERE starts_with(uid, $1) AND epoch >= 0"
            with self._noting(connection, target):
                uids = [str(uid) for (uid,) in rows(connection, query, [statement_of(self.uid)])]
            if not any(is_of_other_checkpoint(uid, self.uid) for uid in uids):
                return None
            subject = f"table '{target.table.path}' of {self.server.summary}"
            return written_before(subject, has_key=bool(self.primary_key))

        try:
            self._is_done(target, epoch, epochs, others)
        except StateplanError:
            connection.rollback()
            raise
        connection.commit()

    def _is_done(
        self,
        target: Target,
        epoch: int,
        epochs: Mapping[str, int],
        others: Callable[[], str | None] = lambda: None,
    ) -> bool:
        """Whether the database has a micro-batch, by what its table of epochs says.

        Args:
            target: the table.
            epoch: the epoch of the micro-batch.
            epochs: numbers in the table of epochs by their ids.
            others: as in :meth:`Ledger.is_done`.

        Raises:
            RunError: RUN150, it has other micro-batches than the checkpoint.
        """
        last = epochs.get(self.uid, -1)
        last_mark = Mark.of(last, epochs.get(self._input_uid)) if last >= 0 else None

        def refuse(order: EpochOrder) -> RunError:
            return self._refusal(order, target, last_mark, epoch)

        return self.ledger.is_done(epoch, last_mark, self._place, refuse, others)

    def _refusal(self, order: EpochOrder, target: Target, last_mark: Mark | None, epoch: int) -> RunError:
        """The database has other micro-batches than the checkpoint."""
        subject = f"table '{target.table.path}' in {self.server.summary}"
        return refusal(order, subject, last_mark, epoch, self._expected, "RUN150")

    def _create(self, connection: Any, table: str) -> None:
        statement = _CREATE.format(table=table)
        try:
            with self.server.coded("creates the table of epochs"):
                execute(connection, statement)
                connection.commit()
        except StateplanError as error:
            connection.rollback()
            if error.code == "RUN147":
                user, server = self.server.user or "the default user", self.server.summary
                reason = error.message
                raise RunError(
                    "RUN147",
                    user=user,
                    server=server,
                    reason=reason,
                    statement=statement,
                    action="create the table of epochs",
                ) from None
            # Another sink may have created it at the same time.
            if rows(connection, f"SELECT to_regclass({literal(table)}) IS NULL")[0][0]:
                raise

    def _write_rows(self, frame: pl.DataFrame, epoch: int) -> None:
        """Writes a micro-batch, unless it is written already."""
        connection, target = self._connected()
        table = self._epochs(target)
        with self._noting(connection, target):
            owners = rows(
                connection,
                f"SELECT uid, epoch, owner FROM {table} WHERE uid IN ($1, $2) ORDER BY uid FOR UPDATE",
                [self.uid, self._input_uid],
            )
        epochs = {str(uid): int(number) for uid, number, _ in owners}
        mine = [owner for uid, _, owner in owners if uid == self.uid]
        error: RunError | None = None
        if not mine or epochs[self.uid] < self._expected:
            last = epochs.get(self.uid, -1)
            error = self._refusal(EpochOrder.BEHIND, target, Mark(last) if last >= 0 else None, epoch)
        elif mine[0] != self._owner:
            error = RunError("RUN150", name=target.table.path, server=self.server.summary)
        if error is not None:
            connection.rollback()
            raise error
        try:
            is_done = self._is_done(target, epoch, epochs)
        except StateplanError:
            connection.rollback()
            raise
        if is_done:
            connection.rollback()
            return
        if self._describe_target(connection) != target:  # somebody has changed the table; its columns fit
            connection.rollback()
            self._drop()
            self._write_rows(frame, epoch)
            return
        with connection.cursor() as cursor:
            self._move(cursor, target, frame)
            with self._noting(connection, target):
                cursor.execute(f"UPDATE {table} SET epoch = $1, written = now() WHERE uid = $2", (epoch, self.uid))
                hand = self.ledger.hand(epoch)
                if hand.input:
                    cursor.execute(
                        f"INSERT INTO {table} (uid, epoch, owner) VALUES ($1, $2, $3) ON CONFLICT (uid) DO UPDATE "
                        "SET epoch = EXCLUDED.epoch, owner = EXCLUDED.owner, written = now()",
                        (self._input_uid, hand.number, self._owner),
                    )
        connection.commit()
        self.ledger.note(self._place, epoch)

    def _move(self, cursor: Any, target: Target, frame: pl.DataFrame) -> None:
        if not target.key:
            if target.is_direct:
                named_rows = frame.rename({f"c{i}": column.name for i, (column, _) in enumerate(target.columns)})
                schema_arguments = {"db_schema_name": target.table.schema}
                cursor.adbc_ingest(target.table.name, named_rows.to_arrow(), mode="append", **schema_arguments)
                return
            cursor.adbc_ingest(_STAGE, frame.to_arrow(), mode="append", temporary=True)
            cursor.execute(target.write())
            return
        removed_keys = frame.filter(pl.col(KIND).is_in(_REMOVES)).select(f"c{i}" for i in target.key)
        remaining_rows = frame.filter(~pl.col(KIND).is_in(_REMOVES)).drop(KIND)
        if removed_keys.height:
            cursor.adbc_ingest(_DELETED, removed_keys.to_arrow(), mode="append", temporary=True)
            cursor.execute(target.delete())
        if remaining_rows.height:
            cursor.adbc_ingest(_STAGE, remaining_rows.to_arrow(), mode="append", temporary=True)
            cursor.execute(target.write())


def sink_of(table: SinkTable, server: Server) -> JdbcSink:
    """The sink of a table."""
    retries: int = table.value("sink.max-retries")
    key: Sequence[str] = table.primary_key
    return JdbcSink(server, table.value("table-name"), table.fields, tuple(key), table.uid, retries)
