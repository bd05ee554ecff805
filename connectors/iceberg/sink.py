"""Writing an Iceberg table: exactly once, because each commit notes the number of its micro-batch.

Without a primary key, workers write files into the folder of the table, and the driver commits them: a reader does not
see a file before a snapshot has it. With a primary key, workers send rows, and the driver replaces the files that have
their keys. Either way, a micro-batch is one snapshot. Source: ``FlinkSink`` of Iceberg's Flink module.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING

from stateplan.common.changelog import KIND, RowKind, column
from stateplan.common.errors import DataError, RunError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.connectors.commits import last_changes, rows_as_part
from stateplan.connectors.iceberg import epochs
from stateplan.connectors.iceberg.access import MERGES, TableAccess
from stateplan.connectors.iceberg.expiry import EVERY, expire
from stateplan.connectors.iceberg.layout import (
    Term,
    order_of,
    order_text,
    partition_terms,
    sort_terms,
    spec_of,
)
from stateplan.connectors.iceberg.properties import FORMAT_VERSION
from stateplan.connectors.iceberg.schema import columns_of, fits, names_of, schema_of
from stateplan.connectors.lake_sink import LakeSink
from stateplan.connectors.sink_epochs import Mark, written_before

if TYPE_CHECKING:
    import polars as pl
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from stateplan.connectors.iceberg.files import TableFile
    from stateplan.connectors.iceberg.rows import Writer

_NO_RETRIES = {"commit.retry.num-retries": "0"}
"""The library would repeat a commit without looking whether the micro-batch is there."""


_LAST_WRITTEN = 2
"""The last version of Iceberg's format whose manifests the library writes."""


@dataclass(frozen=True)
class Target:
    """The table that is written.

    Attributes:
        table: where it is.
        fields: name and type of the declared columns.
        partitioning: the declared partitions; empty for those that the table has.
        ordering: the declared order of rows in files; empty for that of the table.
        key: the columns of PRIMARY KEY; empty for none.
        properties: the properties of a table that is created.
        uid: the uid of the sink in its checkpoint.
        overwrite: whether the first micro-batch replaces what is there.
        expires: whether old snapshots are removed from the metadata.
    """

    table: TableAccess
    fields: tuple[tuple[str, LogicalType], ...]
    partitioning: tuple[Term, ...] = ()
    ordering: tuple[Term, ...] = ()
    key: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    uid: str = ""
    overwrite: bool = False
    expires: bool = False

    def open_table(self, create: bool = True) -> Table:
        """The table as it is.

        Args:
            create: whether it is created where it does not exist.

        Raises:
            RunError: RUN181, RUN184 and RUN185, it cannot be written.
            OptionError: OPT174, it cannot be created.
            DataError: as :meth:`TableAccess.open`.
        """
        replaces_by_key = self.overwrite and bool(self.key)
        if replaces_by_key and self.partitioning:
            raise RunError("RUN185", subject=self.table.label)
        try:
            table = self.table.open()
        except DataError as error:
            if error.code != "DATA474" or not create:
                raise
            table = self._create()
        self._check(table)
        if replaces_by_key and table.spec().fields:
            raise RunError("RUN185", subject=self.table.label)
        return table

    def _create(self) -> Table:
        schema = schema_of(self.fields, self.key)
        spec, order = spec_of(self.partitioning, schema), order_of(self.ordering, schema)
        self.table.create(schema, spec, order, self.properties)  # another job may have made it just now
        return self.table.open()

    def _check(self, table: Table) -> None:
        subject, schema = self.table.label, table.schema()
        columns = {c.name: c for c in columns_of(schema)}
        names = names_of(list(columns.values()))
        for name, data_type in self.fields:
            own_column = columns.get(name)
            if own_column is None:
                hint = nearest(name, names)
                raise RunError("RUN181.missing", subject=subject, column=name, columns=names, hint=hint)
            if not fits(data_type, own_column.type, own_column.nullable or name in self.key):
                own = own_column.declared_type
                raise RunError(
                    "RUN181",
                    subject=subject,
                    column=name,
                    declared=data_type.summary(),
                    found=f"{own_column.type}" + ("" if own_column.nullable else " required"),
                    hint=None if own is None else f"declare it as {own.summary()}",
                )
        declared_columns = dict(self.fields)
        more = [c.name for c in columns.values() if c.name not in declared_columns and not c.nullable]
        if more:
            raise RunError("RUN181.more", subject=subject, columns=more)
        self._check_layout(table)

    def _check_layout(self, table: Table) -> None:
        schema, spec = table.schema(), table.spec()
        own_terms = [term.text for term in partition_terms(schema, spec)]
        pairs = [
            ("the partitions", ", ".join(t.text for t in self.partitioning), ", ".join(own_terms)),
            ("the order of rows", order_text(self.ordering), order_text(sort_terms(schema, table.sort_order()))),
        ]
        if FORMAT_VERSION in self.properties:
            pairs.append(("the format version", self.properties[FORMAT_VERSION], str(table.format_version)))
        for subject, text, own in pairs:
            if text and text != own:
                raise RunError("RUN181.layout", subject=self.table.label, part=subject, own=own or "none", text=text)
        if table.format_version > _LAST_WRITTEN:
            reason = f"the library does not write version {table.format_version} of the format"
            raise RunError("RUN184", subject=self.table.label, reason=reason)
        sources = [f.source_id for f in spec.fields]
        if len(set(sources)) < len(sources) or any(str(f.transform) == "void" for f in spec.fields):
            reason = "a column is the source of two partition fields, or a partition field has none"
            raise RunError("RUN184", subject=self.table.label, reason=reason)


class IcebergSink(LakeSink["Table"]):
    """What both ways of writing have in common.

    Args:
        target: the table.
    """

    missing_code, epochs_code = "DATA474", "RUN182"

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target

    @property
    def table(self) -> TableAccess:
        return self.target.table

    @property
    def place(self) -> str:
        return self.table.place

    @property
    def subject(self) -> str:
        return self.table.label

    def local_folder(self) -> tuple[str, str] | None:
        folder = self.table.catalog.local_warehouse
        return None if folder is None else (folder, self.target.uid)

    def open_target(self, create: bool) -> Table:
        return self.target.open_table(create)

    def last_mark(self, table: Table, epoch: int) -> Mark | None:
        return epochs.last_mark(table, self.target.uid)

    def other_writers(self, table: Table) -> str | None:
        if self.target.overwrite or not epochs.has_other_checkpoint(table, self.target.uid):
            return None
        return written_before(self.subject, has_key=bool(self.target.key))

    def _commit(self, epoch: int, files: Sequence[TableFile] = (), rows: pl.DataFrame | None = None) -> bool:
        """Makes a change in one commit with the number of the micro-batch.

        Args:
            epoch: the number of the micro-batch.
            files: new files.
            rows: changes to merge; None for none.

        Returns:
            False if the micro-batch was there before.

        Raises:
            RunError: RUN180, others were always faster.
        """
        from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

        def change(table: Table) -> bool:
            with self.table.reaching():
                return self._change(table, epoch, files, rows)

        def failure(error: Exception) -> RunError:
            return RunError("RUN180", subject=self.subject, epoch=epoch, reason=self.table.error_text(error))

        overtaken = (CommitFailedException, CommitStateUnknownException)
        is_new = self.commit_change(epoch, change, overtaken, failure)
        if self.target.expires and epoch % EVERY == 0:
            later = suppress(*overtaken, DataError)  # the next look comes
            with later, self.table.reaching():
                expire(self.table.open())
        return is_new

    def _change(self, table: Table, epoch: int, files: Sequence[TableFile], rows: pl.DataFrame | None) -> bool:
        """Commits a micro-batch, and returns whether it has changed something."""
        from stateplan.connectors.iceberg.files import data_file_of

        old_files: Sequence[DataFile] = []
        places: Sequence[str] = ()
        begins = self.target.overwrite and epochs.last_mark(table, self.target.uid) is None
        if self.target.overwrite:
            old_files, places = self._replacement(table, files, begins)
        if rows is not None:
            from stateplan.connectors.iceberg.merge import merge

            rewritten_files, files = merge(
                self.table, table, self.target.fields, self.target.key, rows, bool(old_files) or begins
            )
            old_files = old_files or rewritten_files
        if not files and not old_files:
            return False
        spec = table.spec().spec_id
        if any(file.spec != spec for file in files):
            raise RunError("RUN184", subject=self.table.label, reason="its partitions changed during the micro-batch")
        summary = epochs.summary_of(self.target.uid, self.ledger, epoch, places)
        metadata = table.metadata
        local = {MERGES: "true", **metadata.properties, **_NO_RETRIES}
        table.metadata = metadata.model_copy(update={"properties": local})
        transaction = table.transaction()
        update = transaction.update_snapshot(snapshot_properties=summary)
        with update.overwrite() if old_files else update.merge_append() as snapshot:
            for old in old_files:
                snapshot.delete_data_file(old)
            for file in files:
                snapshot.append_data_file(data_file_of(file, metadata))
        transaction.set_properties(epochs.properties_of(table, self.target.uid, self.ledger, epoch))
        transaction.commit_transaction()
        return True

    def _replacement(self, table: Table, files: Sequence[TableFile], begins: bool) -> tuple[list[DataFile], list[str]]:
        """What INSERT OVERWRITE removes in this micro-batch: the files of the whole table, or of the partitions that
        get rows, unless an earlier micro-batch has replaced them; and the names of these partitions."""
        from stateplan.connectors.iceberg.files import file_of

        tasks = [task.file for task in table.scan().plan_files()]
        if not table.spec().fields:
            return (tasks if begins else []), []
        earlier_places = epochs.replaced_partitions(table, self.target.uid)
        places = sorted({json.dumps(file.partition) for file in files} - earlier_places)
        spec = table.spec().spec_id
        if places and any(file.spec_id != spec for file in tasks):
            reason = "INSERT OVERWRITE replaces partitions, and some of its files have older ones"
            raise RunError("RUN184", subject=self.table.label, reason=reason)
        old_files = [f for f in tasks if places and json.dumps(file_of(f, table.metadata).partition) in places]
        return old_files, places


class AppendSink(IcebergSink):
    """A table without a primary key: files that workers write and one commit names."""

    def _writer(self) -> Writer:
        from stateplan.connectors.iceberg.rows import Writer

        return Writer(self.table, self.target.fields)

    def write(self, frame: pl.DataFrame, epoch: int, part: str) -> bytes:
        if not frame.height:
            return b""
        if KIND in frame.columns and (frame[KIND] != RowKind.INSERT).any():
            raise RunError("RUN183", subject=self.table.label)
        return json.dumps([dict(vars(file)) for file in self._writer().write(frame)]).encode()

    def commit(self, parts: Sequence[bytes], epoch: int) -> None:
        from stateplan.connectors.iceberg.files import TableFile

        files = [TableFile.from_json(file) for part in parts for file in json.loads(part)]
        if not files and not self.target.overwrite:
            return
        if not self._commit(epoch, files):
            self._writer().remove(files)


class MergeSink(IcebergSink):
    """A table with a primary key: rows that the driver merges."""

    keeps_order = True

    def write(self, frame: pl.DataFrame, epoch: int, part: str) -> bytes:
        return rows_as_part(frame) if frame.height else b""

    def commit(self, parts: Sequence[bytes], epoch: int) -> None:
        names = [name for name, _ in self.target.fields]
        rows = last_changes(parts, [column(names.index(k)) for k in self.target.key])
        if rows is None and not self.target.overwrite:
            return
        self._commit(epoch, rows=rows)
