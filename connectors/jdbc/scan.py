"""Reading a table of PostgreSQL, once and in one snapshot.

A micro-batch that runs again has to read the same rows, but the database keeps a snapshot only as long as the
transaction that made it. So a job of Spark first copies the rows to files in its checkpoint, in one snapshot, and reads
these. A copy that was not finished is created again: none of its rows has been read. A query that runs in one process
reads the rows where they are.

Source of the options: Flink's ``JdbcDynamicTableSource`` and ``JdbcNumericBetweenParametersProvider``.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stateplan.common.disk import full_disk
from stateplan.common.errors import RunError, StateplanError, nearest
from stateplan.common.failure_reasons import reason_of
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath, remove_tree, rename, write_whole
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.jdbc.columns import (
    TableInfo,
    column_of,
    find_table,
    frame_of,
    guards_sql,
    select_sql,
    value_sql,
)
from stateplan.connectors.jdbc.filters import condition_sql
from stateplan.connectors.jdbc.postgres import Server, execute, persistent, quote_name, receiving, rows
from stateplan.connectors.protocol import Offset, OffsetSource, SourceTable
from stateplan.connectors.splits import Split
from stateplan.functions.rex import Rex, input_refs

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

_CHUNK_BYTES = 32 << 20
"""Bytes of Arrow in a file of the copy: what one task reads at once."""

_BATCH_BYTES = 256 << 20
_RETRIES = 3
"""How often a copy is begun anew when the server cannot be reached or a connection is lost."""

_READERS = 8
"""Ranges that are read at once."""

_MANIFEST = "copy.json"


@dataclass(frozen=True)
class Ranges:
    """Ranges of numbers by which a table is read in parallel.

    Attributes:
        column: of numbers, as declared.
        count: the number of the ranges.
        lower: the least value that is read.
        upper: the largest one.
    """

    column: str
    count: int
    lower: int
    upper: int

    def conditions(self, name: str) -> list[str]:
        """A condition for each range on the column ``name``, as SQL. They leave no gap, also between whole numbers."""
        values = self.upper - self.lower + 1
        count = min(self.count, values)
        size, larger = values // count, values % count
        starts = [self.lower + i * size + min(i, larger) for i in range(count)]
        ends = [f"{name} < {start}" for start in starts[1:]] + [f"{name} <= {self.upper}"]
        return [f"{name} >= {start} AND {end}" for start, end in zip(starts, ends, strict=True)]


@dataclass(frozen=True)
class TableReader:
    """The queries of a table.

    Attributes:
        server: the server that has it.
        name: as declared: ``schema.table``.
        fields: name and type of what is read.
        filters: the conditions of the rows that the query needs, over ``all_fields``. The database applies those that
            its SQL can express.
        all_fields: name and type of the columns that filters are over.
        ranges: None to read the table at once.
        limit: how many rows are enough; None for all.
    """

    server: Server
    name: str
    fields: Fields
    filters: tuple[Rex, ...] = ()
    all_fields: Fields = ()
    ranges: Ranges | None = None
    limit: int | None = None

    def queries(self, connection: Any) -> list[str]:
        """The query of each range.

        Raises:
            RunError: RUN143 to RUN145, the table is not as declared.
            Error: of the client library.
        """
        table = find_table(connection, self.server, self.name)
        columns = [(column_of(table, self.server, name, data_type), data_type) for name, data_type in self.fields]
        values = [value_sql(column, data_type) for column, data_type in columns]
        query = f"SELECT {select_sql([*values, *guards_sql(columns)])} FROM {table.sql}"
        filter_texts = [condition_sql(f, self.all_fields, table) for f in self.filters]
        common = [sql for sql in filter_texts if sql is not None]
        ranges = self.ranges.conditions(self._range_column(table)) if self.ranges is not None else [""]
        end = f" LIMIT {self.limit}" if self.limit is not None and len(common) == len(filter_texts) else ""
        out = []
        for one in ranges:
            conditions = [f"({c})" for c in (one, *common) if c]
            out.append(query + (" WHERE " + " AND ".join(conditions) if conditions else "") + end)
        return out

    @property
    def asks(self) -> dict[str, Any]:
        """What the rows depend on that it reads, besides the table. JSON-ready."""
        return {
            "fields": [[name, data_type.summary()] for name, data_type in self.fields],
            "filters": [f.to_json() for f in self.filters],
            "over": [self.all_fields[i][0] for f in self.filters for i in input_refs(f)],
            "ranges": None if self.ranges is None else vars(self.ranges),
            "limit": self.limit,
        }

    def _range_column(self, table: TableInfo) -> str:
        assert self.ranges is not None
        column = table.column(self.ranges.column)
        if column is None:
            names = [c.name for c in table.columns]
            raise RunError(
                "RUN144",
                name=table.path,
                column=self.ranges.column,
                columns=names[:20],
                server=self.server.summary,
                hint=nearest(self.ranges.column, names),
            )
        if column.type not in ("int2", "int4", "int8", "oid", "numeric", "float4", "float8"):
            raise RunError(
                "RUN145.unusable",
                name=table.path,
                column=column.name,
                server=self.server.summary,
                problem=f"is {column.sql_type} and cannot be cut into ranges of numbers",
                expected="a column of numbers",
            )
        return quote_name(column.name)

    def frames(self, batch: pa.RecordBatch | pa.Table) -> pl.DataFrame:
        """The rows of a result as frames. Raises DataError DATA430."""
        return frame_of(batch, self.fields)

    def batches(self, connection: Any, query: str) -> Iterator[pa.RecordBatch]:
        """The result of a query, as it comes. Raises errors of the client library."""
        with receiving(), connection.cursor() as cursor:
            cursor.execute(query)
            yield from cursor.fetch_record_batch()


@dataclass(frozen=True)
class JdbcSplit(Split):
    """A file of rows that were copied; or, of a job without a checkpoint, all rows.

    Attributes:
        number: the number of the file.
        copy: name of the copy; None for a job without a checkpoint.
        size: the size of the file in bytes.
    """

    number: int
    copy: str | None = None
    size: int = 0

    @property
    def byte_count(self) -> int:
        return self.size


class JdbcSource(OffsetSource[JdbcSplit]):
    """A table that is read once. An offset is how many files of the copy have been read.

    Args:
        reader: the reader of the table.
        batch_bytes: how many bytes the copy reads in a micro-batch, but at least one file.
    """

    bounded = True
    split_type = JdbcSplit
    modules = ("adbc_driver_postgresql.dbapi", __name__)

    def __init__(self, reader: TableReader, batch_bytes: int = _BATCH_BYTES) -> None:
        self.reader = reader
        self.batch_bytes = batch_bytes
        self._removed_files = 0

    def check(self, name: str) -> None:
        try:
            self.size()
        except StateplanError as error:
            raise error.within(f"table {name}") from None

    def size(self) -> int | None:
        """What the database expects the rows to have."""
        with self.reader.server.connection() as connection:
            queries = self.reader.queries(connection)
            with connection.cursor() as cursor:
                cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": False})
                total = 0.0
                for query in queries:
                    cursor.execute(f"EXPLAIN (FORMAT JSON) {query}")
                    plan = json.loads(cursor.fetchall()[0][0])[0]["Plan"]
                    total += plan["Plan Rows"] * max(8, plan["Plan Width"])
        return int(total)

    def initial_offset(self) -> Offset:
        return {"files": 0}

    def latest_offset(self, start: Offset) -> Offset:
        if self.folder is None:
            return {"files": 1}
        sizes = self._copied_for(start["files"])
        end, batch_size = start["files"], 0
        while end < len(sizes) and (batch_size == 0 or batch_size + sizes[end] <= self.batch_bytes):
            batch_size += sizes[end]
            end += 1
        return {"files": end}

    def plan(self, start: Offset, end: Offset) -> list[JdbcSplit]:
        if self.folder is None:
            return [JdbcSplit(0)]
        sizes = self._copied_for(start["files"])
        attempt = self._copy["attempt"]
        return [JdbcSplit(n, attempt, sizes[n]) for n in range(start["files"], end["files"])]

    def read(self, split: JdbcSplit) -> Iterator[pl.DataFrame]:
        if split.copy is None:
            yield from self._read_there()
            return
        import pyarrow as pa

        assert self.folder is not None
        path = self.folder / split.copy / _file(split.number)
        try:
            with pa.ipc.open_file(_open_file(path)) as file:
                for number in range(file.num_record_batches):
                    yield self.reader.frames(file.get_batch(number))
        except (OSError, pa.ArrowInvalid) as error:
            raise _damage_error(path, error) from None

    def _read_there(self) -> Iterator[pl.DataFrame]:
        """All rows, in one snapshot, without a copy."""
        with self.reader.server.connection() as connection:
            execute(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            for query in self.reader.queries(connection):
                for batch in self.reader.batches(connection, query):
                    yield self.reader.frames(batch)

    def committed(self, end: Offset) -> None:
        if self.folder is None:
            return
        copy = self._copy
        for number in range(self._removed_files, end["files"]):
            path = self.folder / copy["attempt"] / _file(number)
            try:
                path.unlink(missing_ok=True)
            except OSError:  # it goes with the checkpoint
                return
        self._removed_files = max(self._removed_files, end["files"])

    # ---- the copy ----------------------------------------------------------------------------------------------

    def _copied_for(self, start: int) -> list[int]:
        """The bytes of each file of the copy. Raises RunError RUN149, those from ``start`` on have other rows or
        columns than the job reads now."""
        sizes: list[int] = self._copy["sizes"]
        if start < len(sizes) and self._copy.get("asks", self._asks) != self._asks:
            raise RunError("RUN149.other_copy", name=self.reader.name)
        return sizes

    @property
    def _asks(self) -> dict[str, Any]:
        """As it is read from JSON."""
        questions: dict[str, Any] = json.loads(json.dumps(self.reader.asks))
        return questions

    @cached_property
    def _copy(self) -> dict[str, Any]:
        """The finished copy: its folder, and the bytes of each of its files."""
        assert self.folder is not None
        manifest = self.folder / _MANIFEST
        try:
            if manifest.exists():
                manifest_data: dict[str, Any] = json.loads(manifest.read_text())
                return manifest_data
            self.folder.mkdir(parents=True, exist_ok=True)
            leftovers: list[AnyPath] = [*self.folder.iterdir()]
            for left in leftovers:
                remove_tree(left)
            copy = persistent(self._copy_rows, _RETRIES)
            write_whole(manifest, json.dumps(copy))
            return copy
        except (OSError, ValueError) as error:
            raise full_disk(error, self.folder) or _damage_error(manifest, error) from None

    def _copy_rows(self) -> dict[str, Any]:
        """Copies all rows, each range by a connection of its own, in one snapshot."""
        assert self.folder is not None
        name = f"rows-{uuid.uuid4().hex[:12]}"
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        server = self.reader.server
        with server.connection() as first:
            execute(first, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            queries = self.reader.queries(first)
            if len(queries) == 1:
                parts = [self._files(first, queries[0], folder, 0)]
            else:
                snapshot = str(rows(first, "SELECT pg_export_snapshot()")[0][0])

                def one(part: int) -> list[tuple[AnyPath, int]]:
                    with server.connection() as other:
                        execute(other, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                        execute(other, f"SET TRANSACTION SNAPSHOT '{snapshot}'")
                        return self._files(other, queries[part], folder, part)

                with ThreadPoolExecutor(min(_READERS, len(queries))) as pool:
                    parts = list(pool.map(one, range(len(queries))))
        sizes: list[int] = []
        for path, size in (file for part in parts for file in part):
            rename(path, _file(len(sizes)))
            sizes.append(size)
        return {"attempt": name, "sizes": sizes, "asks": self._asks}

    def _files(self, connection: Any, query: str, folder: AnyPath, part: int) -> list[tuple[AnyPath, int]]:
        """The files with the rows of a query, and their bytes."""
        files: list[tuple[AnyPath, int]] = []
        batches: list[pa.RecordBatch] = []
        size = 0

        def flush() -> None:
            path = folder / f"part-{part}-{len(files)}.arrow"
            _write(path, batches)
            files.append((path, size))

        for batch in self.reader.batches(connection, query):
            if batch.num_rows:
                batches.append(batch)
                size += batch.nbytes
            if size >= _CHUNK_BYTES:
                flush()
                batches, size = [], 0
        if batches:
            flush()
        return files

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_copy"}


def _file(number: int) -> str:
    return f"{number:06d}.arrow"


def _write(path: AnyPath, batches: Sequence[pa.RecordBatch]) -> None:
    import pyarrow as pa

    buffer = io.BytesIO() if not isinstance(path, Path) else None
    with pa.ipc.new_file(str(path) if buffer is None else buffer, batches[0].schema) as out:
        for batch in batches:
            out.write_batch(batch)
    if buffer is not None:
        path.write_bytes(buffer.getvalue())


def _open_file(path: AnyPath) -> Any:
    """What Arrow reads a file from."""
    import pyarrow as pa

    return pa.memory_map(str(path)) if isinstance(path, Path) else pa.BufferReader(path.read_bytes())


def _damage_error(path: AnyPath, error: Exception) -> RunError:
    reason = reason_of(error).partition("\n")[0]
    return RunError("RUN149.broken_copy", path=path, reason=reason)


def source_of(table: SourceTable, server: Server) -> JdbcSource:
    """The source of a table."""
    fields = tuple(table.fields[i] for i in table.projection)
    column = table.value("scan.partition.column")
    ranges = None
    if column is not None:
        ranges = Ranges(
            column,
            table.value("scan.partition.num"),
            table.value("scan.partition.lower-bound"),
            table.value("scan.partition.upper-bound"),
        )
    name = table.value("table-name")
    return JdbcSource(TableReader(server, name, fields, table.filters, table.fields, ranges, table.limit))
