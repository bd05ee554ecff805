"""The ``iceberg`` connector: Apache Iceberg tables, without a JVM.

The options are those of Iceberg's Flink connector (``FlinkCatalogFactory``, ``FlinkReadOptions``,
``FlinkWriteOptions``), and those of Iceberg for Spark where Flink's has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stateplan.common.changelog import UPSERT, ChangelogMode
from stateplan.common.errors import OptionError, Place
from stateplan.common.options import Option, OptionType, Role, alike, flag, parallelism
from stateplan.common.secrets import resolve_references
from stateplan.connectors.budget import Limits
from stateplan.connectors.datasets import Dataset, datasets_of_path
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.history import BACKFILL_FROM
from stateplan.connectors.iceberg.access import (
    CATALOG_NAME,
    CATALOG_OPTIONS,
    CATALOG_TYPE,
    OF_SERVER,
    URI,
    WAREHOUSE,
    CatalogAccess,
    TableAccess,
    catalog_options_of,
    check_catalog,
    places_of,
    programs_of,
)
from stateplan.connectors.iceberg.layout import ORDERING, PARTITIONING, partitioning_of, terms_of
from stateplan.connectors.iceberg.lookup import IcebergLookup
from stateplan.connectors.iceberg.properties import EXPIRES, PROPERTIES, WRITE_OPTIONS, properties_of
from stateplan.connectors.iceberg.schema import check_columns
from stateplan.connectors.iceberg.sink import AppendSink, MergeSink, Target
from stateplan.connectors.iceberg.source import IcebergSource, Rules, Start
from stateplan.connectors.protocol import Connector, Lookup, Sink, SinkTable, SourceTable, Table
from stateplan.connectors.time_travel import TimeTravel

DATABASE, TABLE = "catalog-database", "catalog-table"
SNAPSHOT, AS_OF, BRANCH, TAG = "snapshot-id", "as-of-timestamp", "branch", "tag"
_STREAMING, _STRATEGY = "streaming", "starting-strategy"
_FIRST, _FIRST_TIME, _UNTIL = "start-snapshot-id", "start-snapshot-timestamp", "end-snapshot-id"
_EXACT = (SNAPSHOT, AS_OF, BRANCH, TAG)
_STRATEGIES = (
    "INCREMENTAL_FROM_LATEST_SNAPSHOT",
    "INCREMENTAL_FROM_LATEST_SNAPSHOT_EXCLUSIVE",
    "INCREMENTAL_FROM_EARLIEST_SNAPSHOT",
    "INCREMENTAL_FROM_SNAPSHOT_ID",
    "INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP",
    "TABLE_SCAN_THEN_INCREMENTAL",
)
_NEEDS = {"INCREMENTAL_FROM_SNAPSHOT_ID": _FIRST, "INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP": _FIRST_TIME}
_WHOLE_FILES = "a worker reads whole files"


class Iceberg(Connector, TimeTravel):
    """Iceberg tables."""

    name = "iceberg"
    history_gap = None
    description = (
        "Tables of Apache Iceberg, in a SQL, REST, Hive or Glue catalog: one snapshot, or new snapshots. Sinks append "
        "rows, or replace them by primary key, exactly once. Needs the extra `iceberg`."
    )
    options = (
        *CATALOG_OPTIONS,
        Option(DATABASE, OptionType.STRING, "Database of the table in the catalog.", default="default"),
        Option(TABLE, OptionType.STRING, "Name of the table there.", is_required=True),
        BACKFILL_FROM,
        *PROPERTIES,
        *WRITE_OPTIONS,
        *alike(
            flag(_STREAMING, "Whether a source waits for new snapshots. Otherwise it ends with the latest one."),
            Option(
                _STRATEGY,
                OptionType.ENUM,
                "Where a stream begins. Snapshots of an id, a time, the earliest and the latest one are read "
                "themselves, and `EXCLUSIVE` begins behind it.",
                default=_STRATEGIES[0],
                values=_STRATEGIES,
            ),
            Option(
                _FIRST,
                OptionType.LONG,
                "First snapshot of a stream. Of a bounded source: the one behind which it begins to read what was "
                "appended.",
            ),
            Option(_FIRST_TIME, OptionType.LONG, "Time of the first snapshot of a stream, in milliseconds since 1970."),
            Option(_UNTIL, OptionType.LONG, "Last snapshot of a bounded source that reads what was appended."),
            Option(SNAPSHOT, OptionType.LONG, "Snapshot to read as it is."),
            Option(AS_OF, OptionType.LONG, "Time whose snapshot is read as it is, in milliseconds since 1970."),
            Option(BRANCH, OptionType.STRING, "Branch to read as it is."),
            Option(TAG, OptionType.STRING, "Tag to read as it is."),
            Option(
                "monitor-interval", OptionType.DURATION, "How often a stream looks for new snapshots.", default=60_000
            ),
            Option(
                "max-planning-snapshot-count",
                OptionType.INTEGER,
                "Maximum number of snapshots of a micro-batch.",
                minimum=1,
            ),
            Option(
                "streaming-max-files-per-micro-batch",
                OptionType.INTEGER,
                "Maximum number of files of a micro-batch.",
                default=1000,
                minimum=1,
            ),
            flag(
                "streaming-skip-delete-snapshots",
                "Whether a stream ignores snapshots that only delete rows, instead of failing.",
            ),
            flag(
                "streaming-skip-overwrite-snapshots",
                "Whether a stream ignores snapshots that delete or change rows, instead of failing.",
            ),
            Option("split-size", OptionType.LONG, "Bytes of a split.", no_effect=_WHOLE_FILES),
            Option("split-file-open-cost", OptionType.LONG, "Cost of a file.", no_effect=_WHOLE_FILES),
            Option("split-lookback", OptionType.INTEGER, "Number of bins for splits.", no_effect=_WHOLE_FILES),
            role=Role.SOURCE,
        ),
        Option(
            "distribution-mode",
            OptionType.ENUM,
            "How rows are distributed to writers.",
            role=Role.SINK,
            values=("none", "hash", "range"),
            no_effect="a worker writes a file for each partition that it has rows of",
        ),
        parallelism(Role.SINK, "the number of files depends on the partitions of the micro-batch"),
    )
    roles = (Role.SOURCE, Role.SINK)
    can_look_up = True
    abilities = frozenset({"ProjectPushDown", "FilterPushDown", "LimitPushDown", "ReadingMetadata"})
    sink_abilities = frozenset({"Partitioning", "Overwrite"})
    metadata = (("_snapshot_id", "BIGINT NOT NULL"), ("_snapshot_timestamp", "TIMESTAMP_LTZ(3) NOT NULL"))
    changes_need_key = True
    planner_gives_uid = True

    def is_bounded(self, options: Mapping[str, str]) -> bool:
        return not self.value(options, _STREAMING)

    def sink_mode(self, options: Mapping[str, str], changelog_mode: ChangelogMode) -> ChangelogMode:
        return UPSERT

    def places(self, options: Mapping[str, str]) -> Iterator[str]:
        return places_of(options)

    def programs(self, options: Mapping[str, str]) -> Iterator[str]:
        return programs_of(options)

    def identity(self, options: Mapping[str, str]) -> Mapping[str, str] | None:
        address = {key: options[key] for key in (URI, *OF_SERVER, TABLE) if key in options}
        return {**address, **{key: str(self.value(options, key)) for key in (CATALOG_TYPE, CATALOG_NAME, DATABASE)}}

    def datasets(self, options: Mapping[str, str]) -> tuple[Dataset, ...]:
        database, folder = self.value(options, DATABASE), options.get(WAREHOUSE)
        if TABLE not in options:
            return ()
        if self.value(options, CATALOG_TYPE) == "sql" and folder is not None:
            return datasets_of_path(f"{folder.rstrip('/')}/{database}/{options[TABLE]}")
        if URI not in options:
            return ()
        scheme, _, server = options[URI].partition("://")
        return (Dataset(f"{scheme}://{server.rpartition('@')[2]}", f"{database}.{options[TABLE]}"),)

    def position(self, options: Mapping[str, str]) -> Mapping[str, str]:
        keys = (*_EXACT, _FIRST, _FIRST_TIME, _UNTIL)
        return {**(self.identity(options) or {}), **{key: options[key] for key in keys if key in options}}

    def check_schema(self, options: Mapping[str, str], fields: Fields, place: Place | None) -> None:
        check_columns(fields, place)
        check_catalog(options, place)
        properties_of(options)
        names = [name for name, _ in fields]
        for key in (PARTITIONING, ORDERING):
            terms_of(options.get(key, ""), key, names)
        self._check_start(options, place)

    def _check_start(self, options: Mapping[str, str], place: Place | None) -> None:
        """Source: ``ScanContext.validate`` of Iceberg's Flink module."""
        streams = not self.is_bounded(options)
        incremental = (_FIRST, _UNTIL)
        exact = [key for key in _EXACT if key in options]
        if len(exact) > 1:
            raise OptionError("OPT106.both", one=exact[0], other=exact[1], place=place)
        for one in exact:
            other = next((key for key in (*incremental, _FIRST_TIME) if key in options), None)
            if other is not None:
                raise OptionError("OPT106.both", one=one, other=other, place=place)
        wrong = (*_EXACT, _UNTIL) if streams else (_STRATEGY, _FIRST_TIME)
        for key in wrong:
            if key in options:
                owner, own = ("ends by itself", "follows the table")[:: 1 if streams else -1]
                raise OptionError("OPT178", key=key, owner=owner, own=own, place=place)
        if not streams and _UNTIL in options and _FIRST not in options:
            raise OptionError("OPT178.needs", key=_UNTIL, other=_FIRST, place=place)
        if streams:
            strategy = self.value(options, _STRATEGY)
            for name, key in _NEEDS.items():
                if (strategy == name) != (key in options):
                    pair = (f"{_STRATEGY}' = '{name}", key)
                    one, other = pair if strategy == name else pair[::-1]
                    raise OptionError("OPT178.needs", key=one, other=other, place=place)

    def as_of_version(self, options: Mapping[str, str], version: int) -> Mapping[str, str]:
        """Raises OptionError OPT179, and as :meth:`TableAccess.open`."""
        return self._as_of(options, {SNAPSHOT: str(version)})

    def as_of_time(self, options: Mapping[str, str], at: int) -> Mapping[str, str]:
        """Raises as :meth:`as_of_version`."""
        return self._as_of(options, {AS_OF: str(at)})

    def _as_of(self, options: Mapping[str, str], version: Mapping[str, str]) -> Mapping[str, str]:
        of_streams = (_STREAMING, _STRATEGY, _FIRST, _FIRST_TIME, _UNTIL)
        others = {key: text for key, text in options.items() if key not in (*_EXACT, *of_streams)}
        own_options = {**others, **version}
        self.source(SourceTable(own_options[TABLE], self, own_options, ())).initial_offset()
        return own_options

    def without_version(self, options: Mapping[str, str]) -> Mapping[str, str]:
        return {key: text for key, text in options.items() if key not in _EXACT}

    def source(self, table: SourceTable) -> IcebergSource:
        value = table.value
        streams = bool(value(_STREAMING))
        return IcebergSource(
            access_of(table),
            table.fields,
            table.projection,
            table.metadata,
            interval=value("monitor-interval"),
            start=Start(
                value(SNAPSHOT),
                value(AS_OF),
                value(BRANCH) or value(TAG),
                value(_STRATEGY) if streams else None,
                first=value(_FIRST) if streams else None,
                first_time=value(_FIRST_TIME),
                after=None if streams else value(_FIRST),
                until=value(_UNTIL),
            ),
            rules=Rules(value("streaming-skip-delete-snapshots"), value("streaming-skip-overwrite-snapshots")),
            limits=Limits(value("streaming-max-files-per-micro-batch")),
            max_snapshots=value("max-planning-snapshot-count"),
            filters=table.filters,
            limit=table.limit,
        )

    def lookup(self, table: SourceTable) -> Lookup:
        """Raises OptionError OPT178, an option says which snapshot is read: rows are looked up in the current one."""
        for key in (*_EXACT, _FIRST, _UNTIL):
            if key in table.options:
                raise OptionError("OPT178", key=key, owner="is read", own="is looked up")
        return IcebergLookup(access_of(table), tuple(table.fields[i] for i in table.projection))

    def sink(self, table: SinkTable) -> Sink:
        names = [name for name, _ in table.fields]
        target = Target(
            access_of(table),
            table.fields,
            partitioning_of(table.partition_keys, table.options.get(PARTITIONING), names),
            terms_of(table.options.get(ORDERING, ""), ORDERING, names),
            table.primary_key,
            properties_of(table.options),
            table.uid,
            table.overwrite,
            table.value(EXPIRES),
        )
        return MergeSink(target) if table.primary_key else AppendSink(target)


def access_of(table: Table) -> TableAccess:
    """Where a table is. Raises as :func:`resolve_references`."""
    options = {key: resolve_references(text, key) for key, text in catalog_options_of(table.options).items()}
    return TableAccess(table.name, CatalogAccess(options), table.value(DATABASE), table.options[TABLE])
