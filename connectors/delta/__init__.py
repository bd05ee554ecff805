"""The ``delta`` connector: Delta Lake tables, without a JVM.

The options are those of Delta's Flink connector (``DeltaTableConnectorOptions``, ``DeltaSourceOptions``,
``DeltaFlinkJobSpecificOptions``, ``DeltaSinkConf``), and those of Delta for Spark where Flink's has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stateplan.common.changelog import INSERT_ONLY, RETRACT, UPSERT, ChangelogMode
from stateplan.common.errors import OptionError, Place, StateplanError
from stateplan.common.options import Option, OptionType, Role, alike, flag, options_below, parallelism, parse_instant
from stateplan.connectors.budget import Limits
from stateplan.connectors.datasets import Dataset, datasets_of_path
from stateplan.connectors.delta.properties import PROPERTIES, properties_of
from stateplan.connectors.delta.schema import check_columns, check_partitions
from stateplan.connectors.delta.sink import AppendSink, MergeSink, Target
from stateplan.connectors.delta.source import DeltaSource, Rules, Start, partitions_of
from stateplan.connectors.delta.table import STORAGE, TABLE_PATH, Location, places_of
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.history import BACKFILL_FROM
from stateplan.connectors.protocol import Connector, Sink, SinkTable, SourceTable, Table

_AS_OF = ("versionAsOf", "timestampAsOf")
_STARTING = ("startingVersion", "startingTimestamp")
_REMOVING = ("ignoreDeletes", "ignoreChanges", "skipChangeCommits")
_FEED = "readChangeFeed"
_ROLLED = "a worker writes one file for each partition in a micro-batch"
_NO_CHECKS = "a source checks when a micro-batch is due"


class Delta(Connector):
    """Delta Lake tables."""

    name = "delta"
    history_gap = None
    description = (
        "Tables of Delta Lake, on a local disk or an object store: one version, new versions, or the change data "
        "feed. Sinks append rows, or merge them by primary key, exactly once. Needs the extra `delta`."
    )
    options = (
        Option(TABLE_PATH, OptionType.STRING, "Path or URL of the folder of the table.", is_required=True),
        BACKFILL_FROM,
        Option(
            f"{STORAGE}*",
            OptionType.STRING,
            "Options of the object store, by the names of the library `deltalake`: `storage.aws_access_key_id`, "
            "`storage.aws_secret_access_key`, `storage.aws_region`, `storage.aws_endpoint_url` and others. Default: "
            "what the environment says.",
        ),
        *PROPERTIES,
        *alike(
            Option(
                "mode",
                OptionType.ENUM,
                "Whether a source ends with the version that is the latest when the job starts, or waits for new ones.",
                default="batch",
                values=("batch", "streaming"),
            ),
            Option("versionAsOf", OptionType.LONG, "Version to read, in mode batch. Default: the latest.", minimum=0),
            Option(
                "timestampAsOf",
                OptionType.STRING,
                "Time whose version is read, in mode batch: a date, or a date and a time, in UTC.",
            ),
            Option(
                "startingVersion",
                OptionType.STRING,
                "First version whose changes are read: a number, or `latest`. In mode streaming, or with "
                "`readChangeFeed`. Default: the rows of the latest version, and then new rows.",
            ),
            Option(
                "startingTimestamp",
                OptionType.STRING,
                "Time of the first changes to read: those of the first version at that time or later. A date, or a "
                "date and a time, in UTC.",
            ),
            Option(
                "updateCheckIntervalMillis",
                OptionType.LONG,
                "How often to look for new versions, in milliseconds, in mode streaming.",
                default=5000,
                minimum=1,
            ),
            Option(
                "updateCheckDelayMillis",
                OptionType.LONG,
                "Delay of the first check, in milliseconds.",
                default=1000,
                minimum=0,
                no_effect=_NO_CHECKS,
            ),
            flag("ignoreDeletes", "Whether to ignore versions that only delete rows, instead of failing."),
            flag(
                "ignoreChanges",
                "Whether to read the files that an update, a merge or an overwrite has written, instead of failing. "
                "Rows that were already in the table may be read again.",
            ),
            flag("skipChangeCommits", "Whether to ignore versions that delete or change rows, instead of failing."),
            flag(
                "readChangeFeed",
                "Whether to read the change data feed: insertions, updates and deletions, as a changelog.",
            ),
            Option(
                "maxFilesPerTrigger",
                OptionType.INTEGER,
                "Maximum number of files of a micro-batch. A version of the change data feed is read as a whole.",
                default=1000,
                minimum=1,
            ),
            Option(
                "maxBytesPerTrigger",
                OptionType.MEMORY_SIZE,
                "Maximum size of the files of a micro-batch, but at least one file.",
            ),
            Option(
                "parquetBatchSize",
                OptionType.INTEGER,
                "Rows that are read at a time.",
                default=2048,
                no_effect="rows are read in batches of 250,000",
            ),
            role=Role.SOURCE,
        ),
        *alike(
            Option(
                "schema_evolution.mode",
                OptionType.ENUM,
                "With `newcolumn`, the table may have columns that are not declared, into which NULL is written. It "
                "gets declared columns that it lacks and that may be NULL.",
                default="no",
                values=("no", "newcolumn"),
            ),
            Option(
                "file_rolling.strategy",
                OptionType.ENUM,
                "When a new file begins.",
                default="size",
                values=("size", "count"),
                no_effect=_ROLLED,
            ),
            Option(
                "file_rolling.size", OptionType.LONG, "Size of a file, in bytes.", default=104857600, no_effect=_ROLLED
            ),
            Option("file_rolling.count", OptionType.INTEGER, "Rows of a file.", default=-1, no_effect=_ROLLED),
            Option(
                "parquet.compression",
                OptionType.ENUM,
                "Compression codec of files that are appended.",
                default="snappy",
                values=("snappy", "gzip", "zstd", "lz4", "brotli", "uncompressed"),
            ),
            parallelism(Role.SINK, "the number of files depends on the partitions of the micro-batch"),
            role=Role.SINK,
        ),
    )
    roles = (Role.SOURCE, Role.SINK)
    abilities = frozenset(
        {"PartitionPushDown", "ProjectPushDown", "FilterPushDown", "LimitPushDown", "ReadingMetadata"}
    )
    sink_abilities = frozenset({"Partitioning", "Overwrite"})
    metadata = (("_commit_version", "BIGINT NOT NULL"), ("_commit_timestamp", "TIMESTAMP_LTZ(3) NOT NULL"))
    changes_need_key = True
    planner_gives_uid = True

    def is_bounded(self, options: Mapping[str, str]) -> bool:
        return bool(self.value(options, "mode") == "batch")

    def source_mode(self, options: Mapping[str, str]) -> ChangelogMode:
        return RETRACT if self.value(options, "readChangeFeed") else INSERT_ONLY

    def sink_mode(self, options: Mapping[str, str], changelog_mode: ChangelogMode) -> ChangelogMode:
        return UPSERT

    def places(self, options: Mapping[str, str]) -> Iterator[str]:
        return places_of(options_below(options, STORAGE))

    def identity(self, options: Mapping[str, str]) -> Mapping[str, str] | None:
        path = {TABLE_PATH: options[TABLE_PATH]} if TABLE_PATH in options else {}
        return {**path, _FEED: str(self.value(options, _FEED)).lower()}

    def datasets(self, options: Mapping[str, str]) -> tuple[Dataset, ...]:
        return datasets_of_path(options.get(TABLE_PATH))

    def position(self, options: Mapping[str, str]) -> Mapping[str, str]:
        start = {key: options[key] for key in (*_AS_OF, *_STARTING) if key in options}
        return {**(self.identity(options) or {}), **start}

    def check_schema(self, options: Mapping[str, str], fields: Fields, place: Place | None) -> None:
        check_columns(fields, place)
        self._check_modes(options, place)
        self._check_times(options, place)

    def _check_modes(self, options: Mapping[str, str], place: Place | None) -> None:
        """Source: ``DeltaTableFactoryHelper`` and the builders of Delta's sources."""
        streams = not self.is_bounded(options)
        follows = streams or bool(self.value(options, "readChangeFeed"))
        for one, other in (_AS_OF, _STARTING):
            if one in options and other in options:
                raise OptionError("OPT106.both", one=one, other=other, place=place)
        wrong = _AS_OF if streams else ()
        if not follows:
            wrong = _STARTING
        for key in wrong:
            if key in options:
                code = "OPT170.batch" if key in _AS_OF else "OPT170"
                raise OptionError(code, key=key, place=place)
        if follows:
            for one in _AS_OF:
                for other in _STARTING:
                    if one in options and other in options:
                        raise OptionError("OPT106.both", one=one, other=other, place=place)
        if self.value(options, "readChangeFeed"):
            for key in _REMOVING:
                if self.value(options, key):
                    raise OptionError("OPT106.both", one=key, other="readChangeFeed", place=place)

    def _check_times(self, options: Mapping[str, str], place: Place | None) -> None:
        for key in (_AS_OF[1], _STARTING[1]):
            if key in options:
                try:
                    parse_instant(options[key])
                except ValueError:
                    raise OptionError("OPT171", key=key, text=options[key], kind="time", place=place) from None
        text = options.get(_STARTING[0], "latest")
        if text.lower() != "latest" and not (text.isascii() and text.isdigit()):
            raise OptionError("OPT171", text=text, kind="version", key="startingVersion", place=place)

    def partitions(self, options: Mapping[str, str], keys: Sequence[str]) -> list[dict[str, str | None]] | None:
        """Those of the version that is read; None for a stream, to which others may come."""
        if not self.is_bounded(options) or self.value(options, "readChangeFeed"):
            return None
        try:
            return partitions_of(self.source(SourceTable("", self, options, ())), keys)
        except StateplanError:  # the job says what is wrong
            return None

    def source(self, table: SourceTable) -> DeltaSource:
        texts = map(table.options.get, (_AS_OF[1], _STARTING[1]))
        times = [None if text is None else parse_instant(text) for text in texts]
        return DeltaSource(
            _location(table),
            table.fields,
            table.projection,
            table.metadata,
            is_bounded=self.is_bounded(table.options),
            interval=table.value("updateCheckIntervalMillis"),
            start=Start(table.value(_AS_OF[0]), times[0], table.value(_STARTING[0]), times[1]),
            rules=Rules(*(table.value(key) for key in (*_REMOVING, "readChangeFeed"))),
            limits=Limits(table.value("maxFilesPerTrigger"), table.value("maxBytesPerTrigger")),
            partitions=table.partitions,
            filters=table.filters,
            limit=table.limit,
        )

    def sink(self, table: SinkTable) -> Sink:
        check_partitions(table.fields, table.partition_keys)
        target = Target(
            _location(table),
            table.fields,
            table.partition_keys,
            table.primary_key,
            properties_of(table.options),
            table.uid,
            table.overwrite,
            table.value("schema_evolution.mode") == "newcolumn",
            table.value("parquet.compression"),
        )
        return MergeSink(target) if table.primary_key else AppendSink(target)


def _location(table: Table) -> Location:
    return Location(table.name, table.options[TABLE_PATH], table.group(STORAGE))
