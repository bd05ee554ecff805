"""What a connector is: one class says everything that the planner, the runtime and the documentation ask of it.

A connector of another package is a class of this kind under the entry point group ``stateplan.connectors``; see
``docs/connectors/connector-protocol.md``. Importing this module loads no engine.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode
from stateplan.common.errors import OptionError, Place
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Option, Role, match, parse_value
from stateplan.common.paths import AnyPath
from stateplan.common.secrets import resolve_references
from stateplan.common.types import LogicalType
from stateplan.connectors.alignment import Alignment
from stateplan.connectors.datasets import DatasetNames
from stateplan.connectors.formats.base import Decoder, Encoder, Fields, Format, format_options
from stateplan.connectors.listing import FileEntry, entries_in, says_end, size_as_text, table_files
from stateplan.connectors.pace import Pace
from stateplan.connectors.retries import KeyRetries
from stateplan.connectors.sink_epochs import LedgerOwner
from stateplan.connectors.splits import AssignedSplit, EndOfInput, FileSplit, InstantSplit, RangeSplit, Split
from stateplan.functions.rex import Rex

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

S = TypeVar("S", bound=Split)

Partition: TypeAlias = Mapping[str, str | None]
"""Partition column to its value as text; None for NULL."""

Offset: TypeAlias = dict[str, Any]
"""How far a source has been read, JSON-ready: Spark's checkpoint has it before any row up to it is read."""


@dataclass(frozen=True)
class Table:
    """A table in the hands of its connector.

    Attributes:
        name: for errors.
        connector: the connector of the table.
        options: as written.
        fields: name and type of the physical columns.
        format: None for a connector without formats.
        partition_keys: the columns of PARTITIONED BY.
        primary_key: columns of the primary key; empty for none.
        key_format: the format of the keys of messages; None for a table without.
        time_zone: the time zone of the session, ``table.local-time-zone``.
    """

    name: str
    connector: Connector
    options: Mapping[str, str] = field(repr=False)
    fields: tuple[tuple[str, LogicalType], ...]
    format: Format | None = None
    partition_keys: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()
    key_format: Format | None = field(default=None, kw_only=True)
    time_zone: str = field(default="UTC", kw_only=True)

    def value(self, key: str) -> Any:
        """An option's parsed value or its default; references to secrets stay. Raises OptionError OPT104, OPT105."""
        return self.connector.value(self.options, key)

    def secret(self, key: str) -> Any:
        """The same with what references stand for. Raises as :func:`common.secrets.resolve_references` too."""
        text = self.value(key)
        return resolve_references(text, key) if isinstance(text, str) else text

    def group(self, prefix: str) -> dict[str, str]:
        """The options ``prefix*``, without the prefix and with what references stand for. Raises as :meth:`secret`."""
        texts = {key: text for key, text in self.options.items() if key.startswith(prefix)}
        return {key.removeprefix(prefix): resolve_references(text, key) for key, text in texts.items()}


@dataclass(frozen=True)
class SourceTable(Table):
    """A table that is read.

    Attributes:
        projection: positions in ``fields`` of the columns to read, in output order.
        metadata: metadata keys whose values follow them.
        metadata_types: their types in the plan.
        partitions: to read; None for all.
        limit: how many rows are enough; None for all.
        filters: conditions over ``fields``. Rows for which one of them is not TRUE may be omitted; those that are given
            are filtered again.
        start_time: when the job began, ms since 1970.
    """

    projection: tuple[int, ...] = ()
    metadata: tuple[str, ...] = ()
    metadata_types: Mapping[str, LogicalType] = field(default_factory=dict, hash=False)
    partitions: Sequence[Partition] | None = None
    limit: int | None = None
    start_time: int = 0
    filters: tuple[Rex, ...] = ()

    @property
    def leaves_out(self) -> bool:
        """Whether fields of rows can be omitted of what is read: :meth:`Format.leaves_out` of all its formats."""
        keyed_formats = [(self.format, self.connector.format_key(self.options)), (self.key_format, "key.format")]
        formats = [(fmt, format_options(self.options, key)) for fmt, key in keyed_formats if fmt is not None]
        return bool(formats) and all(fmt.leaves_out(options) for fmt, options in formats)

    def decoder(self) -> Decoder:
        """The decoder of the table's files, where it has a format. Messages have :meth:`Format.message_decoder`."""
        assert self.format is not None
        return self.format.decoder(self.options, self.fields, self.projection, self.metadata)


@dataclass(frozen=True)
class SinkTable(Table):
    """A table that is written.

    Attributes:
        uid: the uid of the sink in this checkpoint: what it names belongs to no other job and to no other checkpoint.
        overwrite: whether the statement is INSERT OVERWRITE.
        metadata: key and type of the metadata that follows the physical columns in each row.
    """

    uid: str = ""
    overwrite: bool = False
    metadata: tuple[tuple[str, LogicalType], ...] = ()

    def encoder(self, fields: Fields | None = None) -> Encoder:
        """The encoder of the table's files, or of some of its columns; for connectors with formats."""
        assert self.format is not None
        return self.format.encoder(self.options, self.fields if fields is None else fields)


# ---- reading ---------------------------------------------------------------------------------------------------


class Source(ABC, Generic[S]):
    """How a table is read. Picklable: made on the driver, used in workers.

    A subclass of one of the four kinds below, which say where splits come from, and which record a split is.

    Attributes:
        bounded: whether it ends by itself.
        interval: milliseconds between micro-batches that an unbounded source asks for; None for the default.
    """

    bounded: bool = True
    interval: int | None = None

    def check(self, name: str) -> None:
        """On the driver before the start, and in workers of a cluster: raises a StateplanError if it cannot be read."""

    def size(self) -> int | None:
        """On the driver: about how many bytes of text are to be read; None if unknown, and the job needs Spark."""
        return None

    def close(self) -> None:
        """When a job without Spark has ended: releases what planning and reading have opened in this process."""

    @abstractmethod
    def splits(self, batch: pa.RecordBatch) -> Sequence[AssignedSplit[S] | EndOfInput]:
        """In a worker: the splits that rows of the Spark source stand for."""

    def expect(self, splits: Sequence[S]) -> None:
        """In a worker: the splits that will be read next, in this order, so that several can be fetched together."""

    @abstractmethod
    def read(self, split: S) -> Iterator[pl.DataFrame]:
        """In a worker: the rows of a split, in order, in frames of bounded size.

        Frames have the projected columns, then the metadata columns, as ``c0, c1, ...`` with exactly the types of
        :meth:`LogicalType.polars`, and ``kind`` (Int8, of :class:`RowKind`) unless all rows are insertions. A frame
        without any column has ``kind`` too, so that its rows can be counted.
        """


class OffsetSource(Source[S]):
    """A source that plans its own splits: ``class LedgerSource(OffsetSource[LedgerSplit])``.

    The offsets between which a micro-batch reads are recorded before it reads any row: one that runs again, after a
    failure or at another parallelism, reads the same. With Spark, a process next to the driver plans.

    Attributes:
        split_type: the record of a split.
        folder: where they may keep files that a micro-batch must read again, for a system that does not keep them: a
            folder of the checkpoint, with ``pathlib``'s names, that need not exist yet. Set before the job starts.
        idle_timeout: parts without rows for so long, ms, hold no watermark back; 0 is never. Set before the job starts.
        alignment: what to ask, with :class:`connectors.alignment.Aligner`, which parts may be read; None for
            a source that waits for nobody. Set before the job starts.
        modules: large modules that planning imports, such as a client. They are imported while the job starts.
        pace: says how many rows a micro-batch may read; None for any number. Set before the job starts.
        acknowledges: whether :meth:`committed` is called: not in a trial beside the job. Set before the job starts.
    """

    split_type: type[S]
    modules: tuple[str, ...] = ()
    folder: AnyPath | None = None
    idle_timeout: int = 0
    alignment: Alignment | None = None
    pace: Pace | None = None
    acknowledges: bool = True

    @abstractmethod
    def initial_offset(self) -> Offset:
        """Where a job without a checkpoint begins."""

    @abstractmethod
    def latest_offset(self, start: Offset) -> Offset:
        """The offset at which the micro-batch that begins at ``start`` ends; ``start`` itself without new rows.

        A bounded source ends when it returns ``start``. A source with many new rows limits the size of its
        micro-batches here.
        """

    @abstractmethod
    def plan(self, start: Offset, end: Offset) -> list[S]:
        """The splits of the micro-batch from ``start`` to ``end``, in the order of their rows, always the same."""

    def for_planning(self) -> OffsetSource[S]:
        """This source for the process in which it plans, which starts sooner without what only :meth:`read` needs."""
        return self

    def committed(self, end: Offset) -> None:
        """Everything before ``end`` has been processed and will not be requested again. At least once, maybe late."""

    def splits(self, batch: pa.RecordBatch) -> Sequence[AssignedSplit[S]]:
        read, rows = self.split_type.from_json, batch.to_pylist()
        return [AssignedSplit(read(json.loads(row["split"])), row["seq"], row["now"]) for row in rows]


class FileSource(Source[FileSplit]):
    """A source of whole files below a folder.

    Spark lists and records files on local disk and in HDFS. Elsewhere the driver lists them, and Spark records markers
    that stand for them; so it does for bounded input by event time.

    Attributes:
        path: folder or file, a plain path or URL.
        max_files: in a micro-batch; None to bound its bytes.
        is_packed: as of :class:`connectors.formats.base.Format`.
    """

    path: str
    max_files: int | None = None
    is_packed: bool = False

    def files(self) -> list[FileEntry]:
        """On the driver: the files that there are now, where the driver lists them."""
        return table_files(self.path)

    def new_files(self, known_paths: Container[str]) -> list[FileEntry]:
        """The same without those of some paths."""
        return [file for file in self.files() if file.path not in known_paths]

    def size(self) -> int | None:
        """About the size of the files as text; None where only Spark lists them."""
        return size_as_text(self.path, self.files, is_packed=self.is_packed)

    def splits(self, batch: pa.RecordBatch) -> Sequence[AssignedSplit[FileSplit] | EndOfInput]:
        rows = batch.to_pylist()
        if "content" not in batch.schema.names:
            # Spark has read those that only Spark reaches.
            splits = [FileSplit(row["path"], data=row.get("data"), modified=row.get("modified")) for row in rows]
            return [AssignedSplit(split, row["seq"], row["now"]) for split, row in zip(splits, rows, strict=True)]
        files = [
            AssignedSplit(FileSplit(file.path, file.size), f"{row['seq']}{file.modified:016d}/{file.path}", row["now"])
            for row in rows
            for file in entries_in(row["content"])
        ]
        return [*files, *(EndOfInput(row["now"]) for row in rows if says_end(row["content"]))]


class RangeSource(Source[RangeSplit]):
    """A source of numbered rows.

    Attributes:
        total: number of rows; None for a source that is not ``bounded``.
        per_second: rows to make in a second, when there is no end.
        any_clock: whether the rows may be read on a virtual clock, at its instant 0.
    """

    total: int | None = None
    per_second: int = 1
    any_clock: bool = False

    def splits(self, batch: pa.RecordBatch) -> Sequence[AssignedSplit[RangeSplit]]:
        ranges: list[AssignedSplit[RangeSplit]] = []
        for row in sorted(batch.to_pylist(), key=lambda r: int(r["start"])):
            if ranges and ranges[-1].split.stop == row["start"]:
                ranges[-1] = replace(ranges[-1], split=replace(ranges[-1].split, stop=row["stop"]))
            else:
                ranges.append(AssignedSplit(RangeSplit(row["start"], row["stop"]), row["seq"], row["now"]))
        return ranges


class InstantSource(Source[InstantSplit]):
    """A source on a virtual clock: each distinct instant of all such tables of a plan is one micro-batch, ascending,
    and is the time that its operators see. If ``tasks`` read an instant, the column ``part`` numbers them from 0."""

    tasks: int = 1

    def splits(self, batch: pa.RecordBatch) -> Sequence[AssignedSplit[InstantSplit]]:
        return [AssignedSplit(InstantSplit(row["now"]), row["seq"], row["now"]) for row in batch.to_pylist()]

    @abstractmethod
    def instants(self) -> list[int]:
        """On the driver: the distinct instants of the table, ascending."""

    def bytes_to_read(self) -> int | None:
        """The bytes of all splits, if they are known and an instant can have many; else None, and instants count."""
        return None


class Lookup(ABC):
    """A table whose rows are looked up when other rows ask for them. Picklable.

    Attributes:
        by_key: whether :meth:`rows` makes use of ``keys``.
        is_final: whether later looks in a micro-batch cannot find more.
    """

    by_key: bool = False
    is_final: bool = False

    def size(self) -> int | None:
        """On the driver: about how many bytes of text are read at once; None if unknown, and the query needs Spark."""
        return 0 if self.by_key else None

    @abstractmethod
    def rows(self, now: int, keys: pl.DataFrame | None) -> pl.DataFrame:
        """In a worker: the rows of the table as it is now, in the frames of :meth:`Source.read`.

        Args:
            now: the time of the micro-batch, ms.
            keys: distinct values that are requested, under the names of the table's columns (``c0, ...``); rows with
                other values can be omitted. None if any row may be asked for, or without ``by_key``.
        """

    def retrying(self, key_retries: KeyRetries) -> Lookup:
        """As this, but keys without rows are looked up again, unless :attr:`is_final`; rows that it keeps are not."""
        return self if self.is_final else Retrying(self, key_retries)


@dataclass(frozen=True)
class Retrying(Lookup):
    """A table that is looked up again for keys without rows."""

    lookup: Lookup
    key_retries: KeyRetries
    by_key: bool = True

    def size(self) -> int | None:
        return self.lookup.size()

    def rows(self, now: int, keys: pl.DataFrame | None) -> pl.DataFrame:
        def read(some: pl.DataFrame | None) -> pl.DataFrame:
            return self.lookup.rows(now, some if self.lookup.by_key else None)

        return read(keys) if keys is None else self.key_retries.rows(now, keys, read)


# ---- writing ---------------------------------------------------------------------------------------------------


class Sink(LedgerOwner):
    """How a table is written, once per micro-batch: ``prepare`` on the driver, ``write`` in workers, ``commit`` on the
    driver. Picklable.

    Every micro-batch has an epoch, 0, 1, ... It may run again under the same epoch, after a failure at any point; after
    ``commit`` too, when Spark had no time to note it. A sink is exactly-once when what ``write`` makes stays invisible
    until ``commit``, and ``commit`` of an epoch that is committed changes nothing.

    Attributes:
        keeps_order: whether parts are committed in the order of the rows; else each worker writes one part.
        needs_rows: whether the rows themselves matter; else they are only counted.
        is_transient: whether nobody finds what it wrote when the job is gone, so that no other job can continue it.
    """

    keeps_order: bool = False
    needs_rows: bool = True
    is_transient: bool = False

    def announce(self, token: str) -> None:
        """On the driver, before a job on a cluster starts: leaves a mark where workers will write. The next
        :meth:`prepare` removes it."""

    def check(self, name: str, token: str) -> None:
        """In a worker of a cluster: raises a StateplanError when the mark is not there, so that what this machine
        writes would not come to the table ``name``."""

    def begin(self) -> None:
        """On the driver, when a job starts: makes the place of a table that has no rows yet, where readers look."""

    def prepare(self, epoch: int) -> str | None:
        """On the driver, before each attempt at a micro-batch: removes what an unfinished attempt left behind.

        Returns:
            A sentence for the user, or nothing.
        """
        return None

    def write(self, frame: pl.DataFrame, epoch: int, part: str) -> bytes:
        """In a worker: stages rows (``c0, c1, ...``; ``kind`` where they are changes).

        Args:
            frame: the rows.
            epoch: the epoch of the micro-batch.
            part: distinguishes the parts of a micro-batch; the same again replaces the part.

        Returns:
            What :meth:`commit` needs of the part; empty for nothing.
        """
        return b""

    def commit(self, parts: Sequence[bytes], epoch: int) -> None:
        """On the driver, after all workers: makes the micro-batch visible, at once or not at all.

        Args:
            parts: what :meth:`write` gave, in order, without the empty ones. Each is read when it is requested, so one
                at a time need be in memory.
            epoch: the epoch of the micro-batch.
        """

    def release(self) -> None:
        """On the driver: the job is about to be stopped, so a :meth:`commit` that waits must not wait any longer."""

    def close(self) -> None:
        """On the driver: the job has ended. Closes what :meth:`prepare` and :meth:`commit` have opened."""


# ---- the connector ---------------------------------------------------------------------------------------------


class Connector(DatasetNames):
    """A connector: where rows come from or go to. Subclasses set the attributes and override what differs.

    Attributes:
        name: Flink's identifier.
        description: one paragraph for the documentation.
        options: its options, without ``connector`` and ``format``.
        roles: what its tables can be used as.
        formatted: whether its tables have a format.
        format_keys: the options that name it, of which a table has one. Options of a format named by ``value.format``
            begin with ``value.`` too; see :func:`connectors.formats.base.format_options`.
        key_format: the option that names a second format, for keys of messages; None if there is none.
        own_changes: whether the row kinds of tables with a format are those of the connector and not of the format.
        can_look_up: whether its tables can be looked up: :meth:`lookup`.
        abilities: names of the push-downs its sources take, as the plan writes them.
        metadata: metadata key to type text of what its sources can read.
        records_metadata: whether its rows have whatever metadata a plan reads, as fields besides their columns.
        sink_abilities: what its sinks can be asked for, as the plan writes it; ``WritingMetadata`` is not among them.
        writable: metadata key to type text of what its sinks can write.
        changes_need_key: whether a table without a primary key takes insertions only.
        keeps_invalid: whether its sources read every position once, so that invalid input can go to the table of
            ``<format>.errors.table``.
        reserved: names that no column may have, with their meaning.
        history_gap: why what its sources have read cannot be read once more, as it was; None where it mostly can.
        single_reader: why a second job cannot read a table beside the one that reads it; None where it can.
        planner_gives_uid: whether a source node of version 1 has the uid of the plan in Flink, as in version 2:
            the connector gives a Source, a SourceFunction or an InputFormat.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    options: ClassVar[tuple[Option, ...]] = ()
    roles: ClassVar[tuple[Role, ...]] = ()
    formatted: ClassVar[bool] = False
    format_keys: ClassVar[tuple[str, ...]] = ("format",)
    key_format: ClassVar[str | None] = None
    own_changes: ClassVar[bool] = False
    can_look_up: ClassVar[bool] = False
    abilities: ClassVar[frozenset[str]] = frozenset()
    metadata: ClassVar[tuple[tuple[str, str], ...]] = ()
    records_metadata: ClassVar[bool] = False
    sink_abilities: ClassVar[frozenset[str]] = frozenset()
    writable: ClassVar[tuple[tuple[str, str], ...]] = ()
    changes_need_key: ClassVar[bool] = False
    keeps_invalid: ClassVar[bool] = False
    reserved: ClassVar[Mapping[str, str]] = {}
    planner_gives_uid: ClassVar[bool] = False
    history_gap: ClassVar[str | None] = "its connector does not read it again"
    single_reader: ClassVar[str | None] = None

    def value(self, options: Mapping[str, str], key: str) -> Any:
        """The parsed value of an option, or its default. Raises OptionError OPT104, OPT105."""
        option = match(key, {o.key: o for o in self.options})
        if option is None:
            raise OptionError("OPT104", key=key, owner=f"connector '{self.name}'")
        return parse_value(option, options[key], key) if key in options else option.default

    def format_key(self, options: Mapping[str, str]) -> str:
        """The option of a table that names its format."""
        return next((key for key in self.format_keys if key in options), self.format_keys[0])

    def takes_format(self, fmt: Format, role: Role) -> bool:
        """Whether tables in this role, which the format can read or write, can have it."""
        return self.formatted and fmt.has_files

    def is_bounded(self, options: Mapping[str, str]) -> bool:
        """Whether a table that is read ends by itself."""
        return True

    def until_now(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """Options with which a table is read as it is now, and ends; the given ones where it does, or never can."""
        return options

    def source_mode(self, options: Mapping[str, str]) -> ChangelogMode:
        """The row kinds that a table emits; asked without a format, or with :attr:`own_changes`."""
        return INSERT_ONLY

    def sink_mode(self, options: Mapping[str, str], changelog_mode: ChangelogMode) -> ChangelogMode:
        """The row kinds that a table takes of a query with the mode ``changelog_mode``; asked as
        :meth:`source_mode`."""
        return changelog_mode

    def gives_key_deletes(self, options: Mapping[str, str]) -> bool:
        """Whether only the key is right in deleted rows that a table emits; asked as :meth:`source_mode`."""
        return False

    def takes_key_deletes(self, options: Mapping[str, str]) -> bool:
        """Whether deleted rows of which only the key is right are enough; asked as :meth:`source_mode`."""
        return False

    def writable_metadata(self, options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Metadata key to type text of what a table can write: :attr:`writable`, unless its options matter."""
        return self.writable

    def check_schema(self, options: Mapping[str, str], fields: Fields, place: Place | None) -> None:
        """Raises an OptionError or CatalogError where the physical columns and the options do not go together."""

    def formatted_fields(self, options: Mapping[str, str], fields: Fields, key: str) -> Fields | None:
        """The physical columns that the format holds which the option ``key`` names: one of :attr:`format_keys`, or
        :attr:`key_format`. None for those that are not checked before the job starts: by default, of a table with a
        format for keys."""
        return None if self.key_format in options else fields

    def check_role(self, options: Mapping[str, str], role: Role, place: Place | None) -> None:
        """Raises an OptionError where the options do not suit a table that is read, or one that is written."""

    def check_keys(
        self,
        options: Mapping[str, str],
        fields: Fields,
        primary_key: Sequence[str],
        formats: tuple[Format | None, Format | None],
        place: Place | None,
    ) -> None:
        """Raises an OptionError or CatalogError where the primary key, the options and the formats (of the table, and
        of the keys of its messages) do not go together."""

    def places(self, options: Mapping[str, str]) -> Iterable[str]:
        """Servers and files that a table reaches by options whose keys do not end in a word such as ``path`` or
        ``url``: URLs (see :func:`common.secrets.server_url`) and paths. A gateway with roots refuses those that are not
        below one. Options may be missing, and have references to secrets."""
        return ()

    def programs(self, options: Mapping[str, str]) -> Iterable[str]:
        """The options with which a table runs a program or loads code. A gateway with roots refuses them."""
        return ()

    def identity(self, options: Mapping[str, str]) -> Mapping[str, str] | None:
        """What says which data a table holds: state over two tables of the same identity means the same. None when the
        options do not say it, and so the name of the table has to."""
        return options

    def position(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """What a position in a table depends on: where one of these options differs, a job does not continue."""
        return options

    def takes_filters(self, options: Mapping[str, str], filters: Sequence[Rex]) -> tuple[Sequence[Rex], Sequence[Rex]]:
        """The conditions that a source is given for ``FilterPushDown``, and those that the query applies itself.

        Source: Flink's ``SupportsFilterPushDown``. A condition that is given and not in the second list is applied by
        the scan.
        """
        return filters, filters

    def partitions(self, options: Mapping[str, str], keys: Sequence[str]) -> list[dict[str, str | None]] | None:
        """The partitions that a table has now, for ``PartitionPushDown``; None if they cannot be listed."""
        return None

    def source(self, table: SourceTable) -> Source[Any]:
        """How a table is read; for a connector whose roles have SOURCE."""
        raise NotImplementedError(self.name)

    def lookup(self, table: SourceTable) -> Lookup:
        """How a table is looked up; for a connector that :attr:`can_look_up`."""
        raise NotImplementedError(self.name)

    def sink(self, table: SinkTable) -> Sink:
        """How a table is written; for a connector whose roles have SINK."""
        raise NotImplementedError(self.name)
