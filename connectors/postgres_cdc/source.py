"""A source of the rows of PostgreSQL tables and then of their changes.

The process that plans reads the slot. It writes what a micro-batch will read to files of the checkpoint, and gives an
offset that names them: so a micro-batch that runs again reads the same, whatever has become of the slot, and workers
need no connection. The slot is moved on when the micro-batch is committed.

The rows that are there are copied in one transaction. Of the changes after it, those are omitted whose transactions its
snapshot has seen: nothing is missing and nothing comes twice, without a lock on the tables.
"""

from __future__ import annotations

import io
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from stateplan.common.changelog import KIND
from stateplan.common.disk import full_disk
from stateplan.common.errors import RunError, StateplanError
from stateplan.common.failure_reasons import reason_of
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath, rename
from stateplan.connectors.jdbc.postgres import persistent, quote_name, rows
from stateplan.connectors.postgres_cdc.pgoutput import Transactions, Visible
from stateplan.connectors.postgres_cdc.rows import ChangeSplit, RowReader
from stateplan.connectors.postgres_cdc.slot import CapturedTable, Origin, Slot, lsn_text, may_pass
from stateplan.connectors.protocol import Offset, OffsetSource

_ROWS = 50_000
"""In a file, at most, and in a frame."""

_QUIET = 1 << 20
"""Bytes of the log that are not worth a micro-batch to let the server forget them."""

_COPY = "copy-"
_AS_WRITTEN = ("bool", "bpchar", "inet", "cidr")
"""Types whose cast to text differs from the text that the log has."""


@dataclass(eq=False)
class ChangeSource(OffsetSource[ChangeSplit]):
    """Rows and changes of tables.

    An offset has ``tables`` (OID to name) and ``types`` from the first micro-batch on; ``copy``, the files with the
    rows that were there, of which ``copied`` have been read; ``lsn``, the place in the log up to which changes have
    been read, and ``batch``, the files with the changes before it; ``cluster``, the system identifier of the server;
    ``publication``, the OID of the publication, and ``marks``, those of its tables (see :class:`Published`); ``last``,
    the last transaction that has been read, by which a log is known again (see :class:`Transactions`).

    Args:
        origin: the origin of the changes.
        row_reader: what is read of them.
        mode: the mode of start-up: ``initial``, ``snapshot``, ``latest-offset``, ``committed-offset`` or ``never``.
        append: whether all changes become insertions.
        max_changes: about how many a micro-batch has at most.
        max_log: bytes of the log that it looks at, at most.
        heartbeat: seconds after which a micro-batch without rows lets the server forget the log.
    """

    split_type = ChangeSplit
    modules = ("adbc_driver_postgresql.dbapi", __name__)

    origin: Origin
    row_reader: RowReader
    mode: str
    append: bool
    max_changes: int
    max_log: int
    heartbeat: float
    _slot: Slot | None = None
    _planned_at: float = field(default_factory=time.monotonic)

    @property
    def bounded(self) -> bool:  # type: ignore[override] # whether it ends is a matter of the options
        return self.mode == "snapshot"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_slot": None}

    @property
    def slot(self) -> Slot:
        """The connection of the process that plans."""
        if self._slot is None:
            self._slot = Slot(self.origin)
        return self._slot

    def close(self) -> None:
        """Ends the connection."""
        if self._slot is not None:
            self._slot.close()
            self._slot = None

    def check(self, name: str) -> None:
        """On the driver: raises as :meth:`Slot.tables` and :meth:`Slot.check_possible`. Workers need no database."""
        if _is_worker():
            return
        slot = Slot(self.origin)

        def once() -> None:
            slot.tables()
            if not self.bounded:
                slot.check_possible()

        try:
            persistent(once, self.origin.attempts)
        finally:
            slot.close()

    # ---- offsets -----------------------------------------------------------------------------------------------

    def initial_offset(self) -> Offset:
        return {}

    def latest_offset(self, start: Offset) -> Offset:
        """As the base says. The first one copies the tables, and returns when that is done. What fails because the
        server cannot be reached or a connection is lost is done again.

        Raises:
            RunError: as the methods of :class:`Slot`; RUN155, the slot does not have the changes after ``start``;
                RUN031 or RUN165, a file cannot be written.
            DataError: DATA440.
        """
        return persistent(lambda: self._latest(start), self.origin.attempts)

    def _latest(self, start: Offset) -> Offset:
        if not start:
            return self._begin()
        copied_tables, files = start.get("copied", 0), start.get("copy", {}).get("files", 0)
        if copied_tables < files:
            return {**start, "copied": min(files, copied_tables + max(1, self._most // _ROWS))}
        return start if self.bounded else self._more(start)

    @property
    def _most(self) -> int:
        """About how many changes the next micro-batch has at most."""
        rows = None if self.pace is None else self.pace.rows()
        return self.max_changes if rows is None else min(self.max_changes, rows)

    def plan(self, start: Offset, end: Offset) -> list[ChangeSplit]:
        tables, types = list(end["tables"]), end["types"]
        first, last = start.get("copied", 0), end.get("copied", 0)
        if first < last:
            copy = end["copy"]["id"]
            return [ChangeSplit(_copy_name(copy, i), tables, types, is_copy=True) for i in range(first, last)]
        batch, count = end.get("batch") or ("", 0)
        return [ChangeSplit(_batch_name(start["lsn"], batch, i), tables, types) for i in range(count)]

    def committed(self, end: Offset) -> None:
        """Moves the slot on, and removes files that are no longer needed."""
        lsn = end.get("lsn")
        for path in self._files():
            if path.name.startswith(_COPY):
                number = int(path.stem.rpartition("-")[2])
                is_copy = path.name.startswith(_copy_name(end.get("copy", {}).get("id", ""), None))
                is_committed = is_copy and number < end.get("copied", 0)
            else:
                is_committed = lsn is not None and int(path.name[:16], 16) < lsn
            if is_committed:
                path.unlink(missing_ok=True)
        if lsn is not None and end.get("copied", 0) >= end.get("copy", {}).get("files", 0):
            try:
                self.slot.advance(lsn)
            except StateplanError as error:
                if not may_pass(error):
                    raise

    # ---- the beginning -----------------------------------------------------------------------------------------

    def _begin(self) -> Offset:
        for path in self._files():
            path.unlink(missing_ok=True)
        slot = self.slot
        tables = slot.tables()
        oids = [table.oid for table in tables]
        offset: Offset = {"tables": {str(t.oid): t.path for t in tables}, "types": slot.types(oids)}
        if not self.bounded:
            offset |= self._start_of_log(tables)
        if self.mode in ("initial", "snapshot"):
            offset |= {"copy": self._copy(tables), "copied": 0}
            offset["copied"] = min(offset["copy"]["files"], max(1, self._most // _ROWS))
        self._planned_at = time.monotonic()
        return offset

    def _start_of_log(self, tables: list[CapturedTable]) -> Offset:
        slot = self.slot
        slot.check_possible()
        before = slot.position()
        if before.confirmed is None and self.mode == "committed-offset":
            raise RunError("RUN155", slot=self.origin.slot, server=self.origin.server.summary)
        fresh, publication = slot.publish(tables)
        if before.confirmed is None:
            slot.make()
        elif fresh:
            slot.settle()
        position = slot.position()
        assert position.confirmed is not None
        latest = self.mode == "latest-offset" and before.confirmed is not None
        lsn = position.flushed if latest else position.confirmed
        return {"lsn": lsn, "cluster": position.cluster, "publication": publication.oid, "marks": publication.marks}

    def _copy(self, tables: list[CapturedTable]) -> dict[str, Any]:
        """Copies the rows that are there to files, as one snapshot of the database sees them."""
        attempt, count = uuid.uuid4().hex[:12], 0
        server = self.origin.server
        with server.connection() as connection:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                cursor.execute("SET LOCAL row_security = off")
            snapshot, until = rows(
                connection,
                "SELECT pg_current_snapshot()::text, (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
                "ELSE pg_current_wal_insert_lsn() END - '0/0')::bigint",
            )[0]
            for table in tables:
                for batch in self._rows_of(connection, table):
                    self._write(_copy_name(attempt, count), batch)
                    count += 1
            connection.rollback()
        if not self.bounded:
            self._wait_flushed(until)
        return {"id": attempt, "files": count, "seen": snapshot, "until": until}

    def _wait_flushed(self, lsn: int) -> None:
        """Waits until no crash of the server can undo what the snapshot has seen (``synchronous_commit`` = off)."""
        while self.slot.position().flushed < lsn:
            time.sleep(0.05)

    def _rows_of(self, connection: Any, table: CapturedTable) -> Iterator[pa.RecordBatch]:
        names = [name for name, _ in self.origin.fields]
        texts = [_text_sql(quote_name(column), kind) for column, kind in table.columns]
        query = f"SELECT {', '.join(f'{t} AS c{i}' for i, t in enumerate(texts))} FROM {table.only}"
        facts = {"schema": table.schema, "table": table.name}
        schema = pa.schema([(name, pa.string()) for name in names], facts)
        with connection.cursor() as cursor:

            def begin() -> tuple[Any, Any]:
                cursor.execute(query)
                reader = cursor.fetch_record_batch()
                return reader, next(reader, None)

            for batch in self.slot.batches(begin):
                for at in range(0, batch.num_rows, _ROWS):
                    part = batch.slice(at, _ROWS)
                    yield pa.record_batch([c.cast(pa.string()) for c in part.columns], schema=schema)

    # ---- what comes after it -----------------------------------------------------------------------------------

    def _more(self, start: Offset) -> Offset:
        slot, lsn = self.slot, start["lsn"]
        position = slot.position()
        name, server = self.origin.slot, self.origin.server.summary
        if start.get("cluster", position.cluster) != position.cluster:
            raise RunError("RUN155.cluster", server=server)
        if position.flushed < lsn:
            ends = lsn_text(position.flushed)
            raise RunError(
                "RUN155.other_log", server=server, problem=f"ends at {ends}, and the job continues at {lsn_text(lsn)}"
            )
        publication = slot.check_published({int(oid): path for oid, path in start["tables"].items()}, has_begun=True)
        if start.get("publication", publication.oid) != publication.oid:
            read = self.origin.publication
            raise RunError(
                "RUN160.unfit", publication=read, server=server, problem="is not the one that the job has read"
            )
        for oid, mark in start.get("marks", publication.marks).items():
            if publication.marks[oid] != mark:
                read, table = self.origin.publication, start["tables"][oid]
                raise RunError(
                    "RUN160.unfit",
                    publication=read,
                    server=server,
                    problem="was altered since the job began",
                    table=table,
                )
        if position.confirmed is None:
            raise RunError("RUN155", slot=name, server=server)
        if position.confirmed > lsn:
            confirmed_lsn = lsn_text(position.confirmed)
            raise RunError("RUN155.moved", confirmed=confirmed_lsn, lsn=lsn_text(lsn), slot=name, server=server)
        if position.flushed <= lsn:
            return start
        until = min(position.flushed, lsn + self.max_log)
        attempt, count, end, transactions = self._fetch(start, until)
        self._check_log(start, transactions, position.confirmed)
        if count == 0 and end >= until == position.flushed:
            elapsed = time.monotonic() - self._planned_at
            if elapsed < self.heartbeat or until - lsn < _QUIET:
                return start
        self._planned_at = time.monotonic()
        more: Offset = {**start, "lsn": end, "batch": [attempt, count]}
        if transactions.last is not None:
            more["last"] = transactions.last
        if count:  # a column may have got a type that was created meanwhile
            more["types"] = {**start["types"], **slot.types(list(map(int, start["tables"])))}
        copy = start.get("copy", {})
        if end >= copy.get("until", end + 1):
            more["copy"] = {"id": copy["id"], "files": copy["files"]}
        return more

    def _check_log(self, start: Offset, transactions: Transactions, confirmed_lsn: int) -> None:
        """Raises RunError RUN155 where the slot has other transactions before an offset than those that were read."""
        last, last_passed = start.get("last"), transactions.last_passed
        if last is None:
            return
        is_missing = last_passed is None and last[0] >= confirmed_lsn
        if is_missing:  # unless the slot was moved on just now, by a connection that broke
            is_missing = last[0] >= (self.slot.position().confirmed or 0)
        if is_missing or last_passed not in (None, last):
            raise RunError(
                "RUN155.other_log",
                server=self.origin.server.summary,
                problem=f"has other transactions before {lsn_text(start['lsn'])} than those that the job has read",
            )

    def _fetch(self, start: Offset, until: int) -> tuple[str, int, int, Transactions]:
        """Writes the changes after an offset to files; their name, how many files, where in the log they end, and the
        transactions."""
        lsn, copy, most = start["lsn"], start.get("copy", {}), self._most
        tables = frozenset(map(int, start["tables"]))
        visible = Visible.of(copy["seen"]) if "seen" in copy else None
        while True:
            attempt, count, messages = uuid.uuid4().hex[:12], 0, 0
            transactions = Transactions(lsn, visible, copy.get("until", 0), tables)
            for array in self.slot.peek(until, most):
                messages += len(array)
                for at in range(0, len(array), _ROWS):
                    kept_messages = transactions.keep(array.slice(at, _ROWS))
                    if len(kept_messages):
                        self._write(_batch_name(lsn, attempt, count), pa.record_batch([kept_messages], ["message"]))
                        count += 1
            if messages < most:
                return attempt, count, max(until, transactions.end or 0), transactions
            if transactions.end is not None and transactions.end > lsn:
                return attempt, count, transactions.end, transactions
            most *= 4  # all of them had been read before, and the slot was not moved on yet

    # ---- files -------------------------------------------------------------------------------------------------

    def _files(self) -> list[AnyPath]:
        folder = self._folder()
        return [path for path in folder.iterdir() if path.name.endswith(".arrow")] if folder.exists() else []

    def _folder(self) -> AnyPath:
        assert self.folder is not None, "the folder is set before the job starts"
        return self.folder

    def _write(self, name: str, batch: pa.RecordBatch) -> None:
        out = io.BytesIO()
        with pa.ipc.new_file(out, batch.schema) as writer:
            writer.write_batch(batch)
        folder = self._folder()
        path = folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if isinstance(path, Path):
                partial = path.with_suffix(".tmp")
                with partial.open("wb") as file:
                    file.write(out.getbuffer())
                    file.flush()
                    os.fsync(file.fileno())
                rename(partial, name)
            else:
                path.write_bytes(out.getvalue())
        except OSError as error:
            raise full_disk(error, path) or RunError(
                "RUN165", file=path, reason=error.strerror or error, doing="written"
            ) from error

    def read(self, split: ChangeSplit) -> Iterator[pl.DataFrame]:
        """The rows of a file.

        Raises:
            RunError: RUN165, it is not there.
            DataError: DATA440 to DATA445.
        """
        row_reader = self.row_reader.of(split)
        path = self._folder() / split.name
        try:
            table = pa.ipc.open_file(pa.py_buffer(path.read_bytes())).read_all()
        except (OSError, pa.ArrowException) as error:
            raise RunError("RUN165", file=path, doing="read", reason=reason_of(error)) from error
        if split.is_copy:
            facts: Mapping[bytes, bytes] = table.schema.metadata
            frame = row_reader.copied_rows(table, facts[b"schema"].decode(), facts[b"table"].decode())
        else:
            frame = row_reader.changes(table["message"].combine_chunks())
        yield frame.with_columns(pl.lit(0, pl.Int8()).alias(KIND)) if self.append else frame


def _copy_name(attempt: str, index: int | None) -> str:
    return f"{_COPY}{attempt}-" + ("" if index is None else f"{index:06d}.arrow")


def _batch_name(lsn: int, attempt: str, index: int) -> str:
    return f"{lsn:016x}-{attempt}-{index:06d}.arrow"


def _text_sql(name: str, kind: str) -> str:
    """A column as the text that the log has of its values."""
    return f"CASE WHEN {name} IS NOT NULL THEN concat({name}) END" if kind in _AS_WRITTEN else f"{name}::text"


def _is_worker() -> bool:
    from pyspark import TaskContext

    return TaskContext.get() is not None
