"""The ``filesystem`` connector: the files of a folder.

A source reads every file below ``path`` (a file, a folder, or a URL such as ``s3://bucket/folder``) once. Without
``source.monitor-interval`` it is bounded: the files that are there when the job starts. With it the folder is watched
for new files. Files and folders whose names start with ``.`` or ``_`` are invisible.

A sink appends files to the folder ``path``, exactly once: each micro-batch stages hidden files and renames them when
it commits.

The options are the rows of :class:`Filesystem`.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stateplan.common.changelog import INSERT_ONLY
from stateplan.common.errors import RunError
from stateplan.common.files import handed_file, plain_path, safe_url
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import PATH, Option, OptionType, Role, alike, flag, parallelism
from stateplan.connectors.datasets import Dataset, datasets_of_path
from stateplan.connectors.formats.base import Decoder, Encoder
from stateplan.connectors.history import BACKFILL_FROM
from stateplan.connectors.listing import FileEntry, matches, require_path, size_as_text, table_files
from stateplan.connectors.partitions import PartitionedDecoder, Partitioner, list_partitions
from stateplan.connectors.protocol import (
    Connector,
    FileSource,
    Lookup,
    Sink,
    SinkTable,
    Source,
    SourceTable,
)
from stateplan.connectors.sink_epochs import EpochOrder, Mark, refusal, written_before
from stateplan.connectors.splits import FileSplit
from stateplan.connectors.staging import Staging

if TYPE_CHECKING:
    import polars as pl

_TEXT, _SIZE, _TIME = OptionType.STRING, OptionType.MEMORY_SIZE, OptionType.DURATION
_ROLLING, _EXTRACTOR, _COMMIT = "sink.rolling-policy.", "partition.time-extractor.", "sink.partition-commit."
_NOT_COMPACTED = "files are not compacted"
_NO_COMMIT = "there is no partition commit; the files of a micro-batch appear together when it ends"


class Filesystem(Connector):
    """The files of a folder."""

    name = "filesystem"
    history_gap = None
    description = "Files in a folder, on a local disk or an object store."
    options = (
        PATH,
        BACKFILL_FROM,
        *alike(
            Option(
                "source.monitor-interval",
                OptionType.DURATION,
                "How often to look for new files. Default: the source reads the existing files and ends.",
                minimum=1,
            ),
            Option(
                "source.path.regex-pattern",
                OptionType.REGEX,
                "Regular expression that the absolute path of a file must match.",
            ),
            Option(
                "lookup.cache",
                OptionType.ENUM,
                "Cache of a table in a lookup join. NONE: check the files in every micro-batch, and read them again if "
                "they changed. FULL: reuse the rows until the reload interval has passed.",
                default="NONE",
                values=("NONE", "FULL"),
            ),
            Option(
                "lookup.full-cache.periodic-reload.interval",
                OptionType.DURATION,
                "Reload interval for `lookup.cache` FULL. Default: never reload.",
                minimum=1,
            ),
            Option(
                "source.max-files-per-trigger",
                OptionType.INTEGER,
                "Maximum number of new files per micro-batch. Default: 128 MiB of files per parallel task, or 256 MiB "
                "in a plan without state.",
                minimum=1,
            ),
            Option(
                "source.report-statistics",
                OptionType.ENUM,
                "Statistics that the source reports to the planner.",
                default="ALL",
                values=("NONE", "ALL"),
                no_effect="the planner uses no statistics",
            ),
            role=Role.SOURCE,
        ),
        parallelism(Role.SINK, "the number of files depends on the partitions of the micro-batch"),
        *alike(
            Option(f"{_ROLLING}file-size", _SIZE, "File size at which the sink starts a new file.", 134217728),
            Option(f"{_ROLLING}rollover-interval", _TIME, "Maximum time that a file stays open.", 1800000),
            Option(f"{_ROLLING}inactivity-interval", _TIME, "Maximum time that a file stays inactive.", 1800000),
            Option(f"{_ROLLING}check-interval", _TIME, "Interval of rolling policy checks.", 60000),
            role=Role.SINK,
            no_effect="files are committed once per micro-batch",
        ),
        flag(
            "auto-compaction",
            "Whether files are compacted after a checkpoint.",
            Role.SINK,
            only_default=_NOT_COMPACTED,
        ),
        Option(
            "compaction.file-size", _SIZE, "Target size of compacted files.", role=Role.SINK, no_effect=_NOT_COMPACTED
        ),
        Option("partition.default-name", _TEXT, "Name of the partition for NULL.", default="__DEFAULT_PARTITION__"),
        *alike(
            Option(f"{_EXTRACTOR}kind", _TEXT, "How to extract partition times.", default="default"),
            Option(f"{_EXTRACTOR}class", _TEXT, "Class that extracts partition times."),
            Option(f"{_EXTRACTOR}timestamp-pattern", _TEXT, "Pattern for partition times."),
            Option(f"{_EXTRACTOR}timestamp-formatter", _TEXT, "Formatter for partition times."),
            no_effect=_NO_COMMIT,
        ),
        *alike(
            flag("sink.shuffle-by-partition.enable", "Whether rows are shuffled by partition before writing."),
            Option(
                f"{_COMMIT}trigger",
                OptionType.ENUM,
                "Trigger of a partition commit.",
                default="process-time",
                values=("partition-time", "process-time"),
            ),
            Option(f"{_COMMIT}delay", _TIME, "Delay of a partition commit.", default=0),
            Option(f"{_COMMIT}watermark-time-zone", _TEXT, "Time zone of the watermark.", default="UTC"),
            Option(f"{_COMMIT}policy.kind", _TEXT, "Policy of a partition commit."),
            Option(f"{_COMMIT}policy.class", _TEXT, "Class of a custom commit policy."),
            Option(f"{_COMMIT}policy.class.parameters", _TEXT, "Parameters of that class."),
            Option(f"{_COMMIT}success-file.name", _TEXT, "Name of the success file.", default="_SUCCESS"),
            role=Role.SINK,
            no_effect=_NO_COMMIT,
        ),
    )
    roles = (Role.SOURCE, Role.SINK)
    formatted = True
    can_look_up = True
    abilities = frozenset(
        {"PartitionPushDown", "ProjectPushDown", "FilterPushDown", "LimitPushDown", "ReadingMetadata"}
    )
    sink_abilities = frozenset({"Partitioning", "Overwrite"})
    metadata = (
        ("file.path", "STRING NOT NULL"),
        ("file.name", "STRING NOT NULL"),
        ("file.size", "BIGINT NOT NULL"),
        ("file.modification-time", "TIMESTAMP_LTZ(3) NOT NULL"),
    )
    keeps_invalid = True
    planner_gives_uid = True

    def is_bounded(self, options: Mapping[str, str]) -> bool:
        return "source.monitor-interval" not in options

    def until_now(self, options: Mapping[str, str]) -> Mapping[str, str]:
        return {key: text for key, text in options.items() if key != "source.monitor-interval"}

    def partitions(self, options: Mapping[str, str], keys: Sequence[str]) -> list[dict[str, str | None]] | None:
        return list_partitions(options["path"], keys, self.value(options, "partition.default-name"))

    def datasets(self, options: Mapping[str, str]) -> tuple[Dataset, ...]:
        return datasets_of_path(options.get("path"))

    def source(self, table: SourceTable) -> Source[Any]:
        return Files(
            table.options["path"],
            decoder_of(table),
            table.options.get("source.path.regex-pattern"),
            table.limit,
            self.is_bounded(table.options),
            table.value("source.monitor-interval"),
            table.value("source.max-files-per-trigger"),
            _is_packed(table),
        )

    def lookup(self, table: SourceTable) -> Lookup:
        reload = 0
        if table.value("lookup.cache") == "FULL":
            interval = table.value("lookup.full-cache.periodic-reload.interval")
            reload = _FOR_EVER if interval is None else interval
        return _LookedUp(table.name, table.options["path"], decoder_of(table), reload, _is_packed(table))

    def sink(self, table: SinkTable) -> Sink:
        if table.overwrite:  # as in Flink, a stream does not overwrite files
            raise RunError("RUN023", summary=table.name)
        assert table.format is not None
        path, uid, extension = table.options["path"], table.uid, table.format.extension
        if not table.partition_keys:
            return _Folder(path, uid, extension, table.encoder())
        partitioner = Partitioner(table.fields, table.partition_keys, table.value("partition.default-name"))
        return _Folder(path, uid, extension, table.encoder(partitioner.in_files), partitioner)


def _is_packed(table: SourceTable) -> bool:
    return table.format is not None and table.format.is_packed


def decoder_of(table: SourceTable) -> Decoder:
    """The decoder of a table's files, whose partition columns are in their paths."""
    if not table.partition_keys:
        return table.decoder()
    assert table.format is not None
    types = dict(table.fields)
    in_files = [i for i, (name, _) in enumerate(table.fields) if name not in table.partition_keys]
    read = [i for i in table.projection if i in in_files]
    output: list[str | int] = [read.index(i) if i in in_files else table.fields[i][0] for i in table.projection]
    fields, places = [table.fields[i] for i in in_files], [in_files.index(i) for i in read]
    return PartitionedDecoder(
        table.format.decoder(table.options, fields, places, table.metadata),
        table.options["path"],
        tuple((k, types[k]) for k in table.partition_keys),
        table.value("partition.default-name"),
        (*output, *range(len(read), len(read) + len(table.metadata))),
        table.format.source_mode(table.options) != INSERT_ONLY,
        None if table.partitions is None else tuple(tuple(p.items()) for p in table.partitions),
    )


@dataclass(frozen=True)
class Files(FileSource):
    """Whole files, decoded by a format; of each no more than ``limit`` rows are needed. ``pattern`` is
    ``source.path.regex-pattern``."""

    path: str
    decoder: Decoder
    pattern: str | None = None
    limit: int | None = None
    bounded: bool = True
    interval: int | None = None
    max_files: int | None = None
    is_packed: bool = False

    def check(self, name: str) -> None:
        require_path(self.path, name, self.bounded)

    def files(self) -> list[FileEntry]:
        return self.new_files(())

    def new_files(self, known_paths: Container[str]) -> list[FileEntry]:
        return table_files(self.path, self.pattern, known_paths)

    def read(self, split: FileSplit) -> Iterator[pl.DataFrame]:
        path = plain_path(split.path)
        if self.pattern is not None and not matches(path, self.pattern):
            return
        if split.data is not None and split.modified is not None:
            with handed_file(path, split.data, split.modified.timestamp()):
                yield from self._frames(path)
        else:
            yield from self._frames(path)

    def _frames(self, path: str) -> Iterator[pl.DataFrame]:
        from stateplan.common.small_frames import first_rows

        frames = self.decoder.read(path)
        return _join_frames(frames) if self.limit is None else first_rows(frames, self.limit)


_FRAME_BYTES = 16 << 20


def _join_frames(frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The frames of a file, put together up to :data:`_FRAME_BYTES`: what follows costs less for large ones."""
    import polars as pl

    frames_to_join: list[pl.DataFrame] = []
    size = 0.0
    for frame in frames:
        frames_to_join.append(frame)
        size += frame.estimated_size()
        if size >= _FRAME_BYTES:
            yield pl.concat(frames_to_join, rechunk=True)
            frames_to_join, size = [], 0.0
    if frames_to_join:
        yield pl.concat(frames_to_join, rechunk=True)


_FOR_EVER = 1 << 60
_KEPT_TABLES = 64
_lookup_tables: dict[tuple[object, ...], tuple[int, object, pl.DataFrame]] = {}
"""Per table that is looked up: when it was read (ms), what its files were then, its rows."""


@dataclass(frozen=True)
class _LookedUp(Lookup):
    """A table read whole, and again when its files have changed; rows once read are used for ``reload`` milliseconds
    all the same."""

    name: str
    path: str
    decoder: Decoder
    reload: int
    is_packed: bool

    def size(self) -> int | None:
        return size_as_text(self.path, lambda: table_files(self.path), is_packed=self.is_packed)

    @property
    def is_final(self) -> bool:  # type: ignore[override]  # read only
        return bool(self.reload)

    def rows(self, now: int, keys: pl.DataFrame | None) -> pl.DataFrame:
        import polars as pl

        files = sorted(table_files(self.path), key=lambda file: file.path.split("/"))
        stamp = tuple((file.path, file.version, file.size) for file in files)
        key = (self.path, repr(self.decoder), self.reload)
        cached = _lookup_tables.get(key)
        if cached is not None and (cached[1] == stamp or now - cached[0] < self.reload):
            return cached[2]
        frames = [f for p in files for f in self.decoder.read(p.path)]
        if not frames:
            raise RunError("RUN025", name=self.name)
        rows = pl.concat(frames)
        while len(_lookup_tables) >= _KEPT_TABLES:
            _lookup_tables.pop(next(iter(_lookup_tables)))
        _lookup_tables[key] = (now, stamp, rows)
        return rows


@dataclass(frozen=True)
class _Folder(Sink):
    """Files that appear once, whole, and exactly once: staged hidden by workers, renamed by the driver. Their names
    carry the epoch."""

    folder: str
    uid: str
    extension: str
    encoder: Encoder
    partitioner: Partitioner | None = None

    def announce(self, token: str) -> None:
        Staging.at(self.folder, self.uid).announce(token)

    def check(self, name: str, token: str) -> None:
        if not Staging.at(self.folder, self.uid).sees(token):
            raise RunError("RUN153", name=name, path=safe_url(self.folder))

    def begin(self) -> None:
        Staging.at(self.folder, self.uid).begin()

    def prepare(self, epoch: int) -> None:
        last_epoch, folder = self.ledger.expected(self.folder), f"the folder {safe_url(self.folder)}"
        staging = Staging.at(self.folder, self.uid)

        def check(last_mark: Mark | None) -> None:
            def refuse(order: EpochOrder) -> RunError | None:
                if order is not EpochOrder.NO_EPOCHS:
                    return refusal(order, folder, last_mark, epoch, last_epoch)
                self.ledger.tell(
                    f"{folder} has lost what this job wrote up to micro-batch {last_epoch}; "
                    f"the job continues with {epoch}"
                )
                self.ledger.last_epoch = None
                return None

            def others() -> str | None:
                return written_before(folder, has_key=False) if staging.others() else None

            self.ledger.is_done(epoch, last_mark, self.folder, refuse, others)

        staging.clean(epoch, check)

    def write(self, frame: pl.DataFrame, epoch: int, part: str) -> bytes:
        parts = [("", frame)] if self.partitioner is None else self.partitioner.split(frame)
        files = {partition: self.encoder.encode(rows) for partition, rows in parts}
        return "\n".join(Staging.at(self.folder, self.uid).stage(epoch, part, self.extension, files)).encode()

    def commit(self, parts: Sequence[bytes], epoch: int) -> None:
        names = [name for part in parts for name in part.decode().split("\n")]
        Staging.at(self.folder, self.uid).commit(epoch, names, self.ledger.input)
        if names:
            self.ledger.note(self.folder, epoch)
