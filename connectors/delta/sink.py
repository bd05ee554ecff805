"""Writing a Delta table: exactly once, because each commit notes the number of its micro-batch as an application
transaction of Delta.

Without a primary key, workers write Parquet files into the folder of the table, and the driver commits them: a reader
does not see a file before a commit names it. With a primary key, workers send rows, and the driver merges the last
change of each key. Source: the sinks of Delta's Flink connector, and ``txn`` actions of Delta's protocol.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from stateplan.common.changelog import KIND, RowKind, column
from stateplan.common.errors import DataError, RunError, nearest
from stateplan.common.files import safe_url
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.connectors.commits import last_changes, rows_as_part
from stateplan.connectors.delta.schema import DeltaColumn, fits, names_of, schema_of
from stateplan.connectors.delta.table import Facts, Location
from stateplan.connectors.extras import require
from stateplan.connectors.lake_sink import LakeSink
from stateplan.connectors.sink_epochs import (
    Ledger,
    Mark,
    input_digest,
    statement_of,
    written_before,
)

if TYPE_CHECKING:
    import polars as pl
    from deltalake import CommitProperties, DeltaTable

    from stateplan.connectors.delta.rows import NewFile, Writer

_DELETED = "__stateplan_deleted"
"""Column of a merge: whether the row is to be deleted."""


@dataclass(frozen=True)
class Target:
    """The table that is written.

    Attributes:
        location: where it is.
        fields: name and type of the declared columns.
        partitions: the columns of PARTITIONED BY.
        key: the columns of PRIMARY KEY; empty for none.
        properties: the properties of a table that is created: ``delta.*``.
        uid: the uid of the sink in its checkpoint.
        overwrite: whether the first micro-batch replaces what is there.
        new_columns: whether the table may have columns that are not declared, and gets those that it lacks.
        compression: codec of Parquet.
    """

    location: Location
    fields: tuple[tuple[str, LogicalType], ...]
    partitions: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    uid: str = ""
    overwrite: bool = False
    new_columns: bool = False
    compression: str = "snappy"

    def open_table(self, create: bool = True) -> DeltaTable:
        """The table as it is.

        Args:
            create: whether it is created where it does not exist.

        Raises:
            RunError: RUN171 to RUN175 and RUN178, it cannot be written.
            DataError: as :meth:`Location.open`.
        """
        if self.overwrite and self.key and self.partitions:
            raise RunError("RUN178", name=self.location.name)
        try:
            table = self.location.open()
        except DataError as error:
            if error.code != "DATA450" or not create:
                raise
            self._create()
            table = self.location.open()
        if self.new_columns:
            table = self._with_columns(table)
        self._check(Facts.of(table))
        return table

    def _with_columns(self, table: DeltaTable) -> DeltaTable:
        """The table with the declared columns that it lacks: NULL in the rows that it has."""
        delta = require("delta", "deltalake", "the connector 'delta'")
        facts = Facts.of(table)
        names = {c.name for c in facts.columns}
        more = [(name, kind) for name, kind in self.fields if name not in names and name not in self.partitions]
        if not more or not all(kind.nullable for _, kind in more):
            return table
        facts.check_writable(self.location)
        schema = delta.Schema.from_json(json.dumps({"type": "struct", "fields": schema_of(more)}))
        try:
            with self.location.reaching():
                table.alter.add_columns(schema.fields)
        except delta.exceptions.CommitFailedError:
            pass  # another job has added them just now
        return self.location.open()

    def _create(self) -> None:
        delta = require("delta", "deltalake", "the connector 'delta'")
        schema = delta.Schema.from_json(json.dumps({"type": "struct", "fields": schema_of(self.fields)}))
        Facts((), (), self.properties).check_writable(self.location)
        try:
            with self.location.reaching():
                delta.DeltaTable.create(
                    self.location.uri,
                    schema,
                    mode="ignore",
                    partition_by=list(self.partitions),
                    configuration=dict(self.properties),
                    storage_options=self.location.options,
                )
        except delta.exceptions.CommitFailedError:
            pass  # another job has created it just now

    def _check(self, facts: Facts) -> None:
        name = self.location.name
        facts.check_writable(self.location)
        stored_columns = {c.name: c for c in facts.columns}
        for column_name, data_type in self.fields:
            delta_column = stored_columns.get(column_name)
            if delta_column is None:
                names = names_of(facts.columns)
                hint = nearest(column_name, names)
                raise RunError("RUN172.missing", name=name, column=column_name, columns=names, hint=hint)
            if not fits(data_type, delta_column.type, delta_column.nullable):
                raise self._misfit(delta_column, data_type)
        more = [c for c in facts.columns if c.name not in dict(self.fields)]
        if more and not (self.new_columns and all(c.nullable for c in more)):
            raise RunError("RUN172.more", name=name, columns=names_of(more))
        if facts.partitions != self.partitions:
            declared_keys, found_keys = (", ".join(keys) or "none" for keys in (self.partitions, facts.partitions))
            raise RunError("RUN172.partitions", name=name, declared=declared_keys, found=found_keys)
        for key, text in self.properties.items():
            property_text = facts.configuration.get(key)
            if property_text is None:
                raise RunError("RUN173", name=name, key=key, text=text, found="not set")
            if property_text.lower() != text.lower():
                raise RunError("RUN173", name=name, key=key, text=text, found=f"'{property_text}'")
        if self.overwrite and "deletionVectors" in facts.features:
            # A removal has to name the deletion vector of its file, which the library does not let it do.
            raise RunError("RUN171", name=name, features="deletion vectors, whose files INSERT OVERWRITE cannot remove")
        if facts.is_append_only and (self.key or self.overwrite):
            clause = "INSERT OVERWRITE replaces rows" if self.overwrite else "a primary key replaces rows"
            raise RunError("RUN175", name=name, what=clause)

    def _misfit(self, delta_column: DeltaColumn, data_type: LogicalType) -> RunError:
        own = delta_column.declared_type
        return RunError(
            "RUN172",
            name=self.location.name,
            column=delta_column.name,
            declared=data_type.summary(),
            found=delta_column.type_text + ("" if delta_column.nullable else " not null"),
            hint=None if own is None else f"declare it as {own.summary()}",
        )

    @property
    def input_uid(self) -> str:
        """Names the application transaction whose number is the digest of what the last micro-batch read."""
        return f"{self.uid}/input"

    @property
    def writer_uid(self) -> str:
        """Names the application transaction whose number identifies the checkpoint with which the statement began to
        write last."""
        return f"{statement_of(self.uid)}/writer"

    @property
    def writer(self) -> int:
        """That number for this checkpoint."""
        return int(input_digest(self.uid.encode()), 16)

    def commit_properties(self, ledger: Ledger, epoch: int, places: Sequence[str] = ()) -> CommitProperties:
        """What a commit notes: the micro-batch that it holds, the partitions that it replaces, and, the first time, the
        checkpoint."""
        from deltalake import CommitProperties, Transaction

        hand = ledger.hand(epoch)
        versions = {self.input_uid: hand.number} if hand.input else {}
        if ledger.last_epoch is None:
            versions[self.writer_uid] = self.writer
        versions |= dict.fromkeys((self.uid, *(f"{self.uid}/{place}" for place in places)), epoch)
        return CommitProperties(app_transactions=[Transaction(text, number) for text, number in versions.items()])


class DeltaSink(LakeSink["DeltaTable"]):
    """What both ways of writing have in common.

    Args:
        target: the table.
    """

    missing_code, epochs_code = "DATA450", "RUN176"

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target

    @property
    def location(self) -> Location:
        return self.target.location

    @property
    def place(self) -> str:
        return self.location.uri

    @property
    def subject(self) -> str:
        return f"the Delta table {self.location.name}"

    def local_folder(self) -> tuple[str, str] | None:
        return (self.location.path, self.target.uid) if self.location.is_local else None

    def open_target(self, create: bool) -> DeltaTable:
        return self.target.open_table(create)

    def last_mark(self, table: DeltaTable, epoch: int) -> Mark | None:
        with self.location.reaching():
            last = table.transaction_version(self.target.uid)
            read = table.transaction_version(self.target.input_uid) if last == epoch else None
        return None if last is None else Mark.of(last, read)

    def forgets_epochs(self, table: DeltaTable) -> bool:
        return Facts.of(table).forgets_writers

    def other_writers(self, table: DeltaTable) -> str | None:
        with self.location.reaching():
            writer = table.transaction_version(self.target.writer_uid)
        if writer is None or writer == self.target.writer or self.target.overwrite:
            return None
        return written_before(f"the Delta table {safe_url(self.location.path)}", has_key=bool(self.target.key))

    def _begun(self, table: DeltaTable) -> bool:
        """Whether a micro-batch of this sink is in the table."""
        with self.location.reaching():
            return table.transaction_version(self.target.uid) is not None

    def _commit(self, epoch: int, change: Callable[[DeltaTable], bool]) -> bool:
        """Makes a change in one commit with the number of the micro-batch. Where another writer was faster, looks
        again at what the table has now.

        Args:
            epoch: number of the micro-batch.
            change: makes it, and returns whether there was one: the library commits no merge that changes nothing.

        Returns:
            False if the micro-batch was there before. A commit that seems to have failed may have been made: the store
            took it, and its answer was lost.

        Raises:
            RunError: RUN170, others were always faster; RUN174, the store does not take it.
        """
        from deltalake.exceptions import CommitFailedError

        def make(table: DeltaTable) -> bool:
            with self.location.reaching():
                return change(table)

        def failure(error: Exception) -> RunError:
            return RunError("RUN170", name=self.location.name, epoch=epoch, reason=self.location.error_text(error))

        return self.commit_change(epoch, make, (CommitFailedError,), failure)


class AppendSink(DeltaSink):
    """A table without a primary key: files that workers write and one commit names."""

    def _writer(self) -> Writer:
        from stateplan.connectors.delta.rows import Writer

        target = self.target
        prefix = "part-" + hashlib.sha1(target.uid.encode(), usedforsecurity=False).hexdigest()[:12]
        return Writer(target.location, target.fields, target.partitions, prefix, target.compression)

    def write(self, frame: pl.DataFrame, epoch: int, part: str) -> bytes:
        if not frame.height:
            return b""
        if KIND in frame.columns and (frame[KIND] != RowKind.INSERT).any():
            raise RunError("RUN177", name=self.location.name)
        return json.dumps([asdict(file) for file in self._writer().write(frame)]).encode()

    def commit(self, parts: Sequence[bytes], epoch: int) -> None:
        from stateplan.connectors.delta.rows import NewFile

        files = [NewFile(**file) for part in parts for file in json.loads(part)]
        if not files and not self.target.overwrite:
            return

        def change(table: DeltaTable) -> bool:
            from deltalake.transaction import AddAction

            actions: list[Any] = [AddAction(f.path, f.size, f.partition, f.modified, True, f.stats) for f in files]
            places: list[str] = []
            if self.target.overwrite:
                removals, places = self._replacement(table, files)
                actions += removals
            if actions:
                properties = self.target.commit_properties(self.ledger, epoch, places)
                keys = list(self.target.partitions)
                table.create_write_transaction(actions, "append", table.schema(), keys, commit_properties=properties)
            return bool(actions)

        if not self._commit(epoch, change):
            self._writer().remove(files)

    def _replacement(self, table: DeltaTable, files: Sequence[NewFile]) -> tuple[list[Any], list[str]]:
        """What INSERT OVERWRITE removes in this micro-batch: the files of the whole table, or of the partitions that
        get rows, unless an earlier micro-batch has replaced them; and the names of these partitions."""
        import pyarrow as pa
        from deltalake.transaction import RemoveAction

        from stateplan.connectors.delta.log import value_text

        if self.target.partitions:
            partitions = {_place(file.partition) for file in files}
            places = sorted(p for p in partitions if table.transaction_version(f"{self.target.uid}/{p}") is None)
        else:
            places = []
            if self._begun(table):
                return [], []
        now = int(time.time() * 1000)
        removals = []
        for action in pa.table(table.get_add_actions()).to_pylist():
            partition = {key: value_text(value) for key, value in (action.get("partition") or {}).items()}
            if not self.target.partitions or _place(partition) in places:
                path = unquote(action["path"])
                removals.append(RemoveAction(path, True, now, action["size_bytes"], partition))
        return removals, places


class MergeSink(DeltaSink):
    """A table with a primary key: rows that the driver merges."""

    keeps_order = True

    def write(self, frame: pl.DataFrame, epoch: int, part: str) -> bytes:
        from stateplan.connectors.delta.rows import refuse_empty_texts

        if not frame.height:
            return b""
        refuse_empty_texts(frame, self.target.fields, self.target.partitions, self.location)
        return rows_as_part(frame)

    def commit(self, parts: Sequence[bytes], epoch: int) -> None:
        rows = self._last(parts)
        if rows is None and not self.target.overwrite:
            return

        def change(table: DeltaTable) -> bool:
            before = table.version()
            if self.target.overwrite and not self._begun(table):
                self._replace(table, rows, epoch)
            elif rows is not None:
                self._merge(table, rows, epoch)
            return bool(table.version() > before)

        self._commit(epoch, change)

    def _last(self, parts: Sequence[bytes]) -> pl.DataFrame | None:
        """The last change of each key; None without any."""
        names = [name for name, _ in self.target.fields]
        return last_changes(parts, [column(names.index(k)) for k in self.target.key])

    def _table(self, rows: pl.DataFrame, with_flag: bool) -> Any:
        import polars as pl
        import pyarrow as pa

        from stateplan.connectors.delta.rows import arrays_of

        fields = [(column(i), name, data_type) for i, (name, data_type) in enumerate(self.target.fields)]
        arrays, names = arrays_of(rows, fields), [name for _, name, _ in fields]
        if with_flag:
            is_delete = rows.select(pl.col(KIND).is_in([int(RowKind.DELETE), int(RowKind.UPDATE_BEFORE)])).to_series()
            arrays, names = [*arrays, is_delete.to_arrow()], [*names, _DELETED]
        return pa.table(arrays, names=names)

    def _replace(self, table: DeltaTable, rows: pl.DataFrame | None, epoch: int) -> None:
        import polars as pl
        from deltalake import write_deltalake

        if rows is None:
            rows = pl.DataFrame(schema={column(i): t.polars() for i, (_, t) in enumerate(self.target.fields)})
        else:
            rows = rows.filter(pl.col(KIND).is_in([int(RowKind.INSERT), int(RowKind.UPDATE_AFTER)]))
        properties = self.target.commit_properties(self.ledger, epoch)
        write_deltalake(table, self._table(rows, False), mode="overwrite", commit_properties=properties)

    def _without_strangers(self, table: DeltaTable, rows: pl.DataFrame) -> pl.DataFrame:
        """The changes without deletions of keys that the table does not have. For these, ``deltalake`` writes a row of
        NULLs to a change data feed, and refuses it itself where a column cannot be NULL."""
        import polars as pl
        import pyarrow as pa

        facts = Facts.of(table)
        is_delete = pl.col(KIND).is_in([int(RowKind.DELETE), int(RowKind.UPDATE_BEFORE)])
        deletions = rows.filter(is_delete)
        if deletions.is_empty() or not facts.has_change_feed or all(c.nullable for c in facts.columns):
            return rows
        names = [name for name, _ in self.target.fields]
        key = [column(names.index(k)) for k in self.target.key]
        known_rows = []
        for batch in pa.RecordBatchReader.from_stream(table.scan(columns=list(self.target.key))):
            file_rows = pl.DataFrame(pl.from_arrow(pa.table(batch)))
            file_rows = file_rows.select(
                pl.col(k).cast(rows.schema[c]).alias(c) for k, c in zip(self.target.key, key, strict=True)
            )
            known_rows.append(file_rows.join(deletions, key, "semi"))
        known_keys = pl.concat(known_rows) if known_rows else deletions.select(key).clear()
        return pl.concat([rows.filter(~is_delete), deletions.join(known_keys, key, "semi")])

    def _merge(self, table: DeltaTable, rows: pl.DataFrame, epoch: int) -> None:
        rows = self._without_strangers(table, rows)
        same = " AND ".join(f"target.{_quote(k)} = source.{_quote(k)}" for k in self.target.key)
        columns = {_quote(name): f"source.{_quote(name)}" for name, _ in self.target.fields}
        is_delete = f"source.{_quote(_DELETED)}"
        merge = table.merge(
            self._table(rows, True),
            same,
            source_alias="source",
            target_alias="target",
            commit_properties=self.target.commit_properties(self.ledger, epoch),
        )
        merge = merge.when_matched_delete(is_delete).when_matched_update(columns, f"NOT {is_delete}")
        merge.when_not_matched_insert(columns, f"NOT {is_delete}").execute()


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _place(partition: Mapping[str, str | None]) -> str:
    """A partition as text."""
    return json.dumps(sorted(partition.items()))
