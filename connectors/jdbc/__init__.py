"""The connector ``jdbc``: tables of PostgreSQL, read, looked up and written through ADBC.

Source: Flink's ``JdbcDynamicTableFactory``, ``JdbcConnectorOptions`` and ``LookupOptions``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stateplan.common.changelog import UPSERT, ChangelogMode
from stateplan.common.errors import OptionError, Place
from stateplan.common.options import Option, OptionType, Role, alike, parallelism
from stateplan.connectors.datasets import Dataset, dataset_of_postgres
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.jdbc.address import database_of, first_server, places_of, properties_of, server_of
from stateplan.connectors.jdbc.columns import check_types, split_name
from stateplan.connectors.jdbc.postgres import Server
from stateplan.connectors.protocol import Connector, Lookup, Sink, SinkTable, Source, SourceTable, Table
from stateplan.functions.rex import Call, InputRef, Literal, Rex

_CONNECTION = (
    Option(
        "url",
        OptionType.STRING,
        "The database: `jdbc:postgresql://host:port/database`, with properties of the connection after `?`. Other "
        "databases are refused.",
        is_required=True,
    ),
    Option(
        "table-name",
        OptionType.STRING,
        "The table, `table` or `schema.table`. A name in double quotes is used exactly. Another name is also found in "
        "lower case, as in SQL.",
        is_required=True,
    ),
    Option("username", OptionType.STRING, "The user. With `password` or not at all."),
    Option("password", OptionType.STRING, "The password. Write a reference such as `${env:PGPASSWORD}`."),
    Option(
        "driver",
        OptionType.STRING,
        "The class of the JDBC driver.",
        no_effect="the connection is made by ADBC and libpq, not by a JDBC driver",
    ),
    Option(
        "compatible-mode",
        OptionType.STRING,
        "The database that another one imitates.",
        only_default="only PostgreSQL is supported",
    ),
    Option(
        "connection.max-retry-timeout",
        OptionType.DURATION,
        "Timeout of an attempt to connect, and of a connection without a response.",
        default=60_000,
        minimum=1000,
    ),
    Option(
        "properties.*",
        OptionType.STRING,
        "Properties of the connection, named as in PostgreSQL's JDBC driver or in libpq: `properties.sslmode`, "
        "`properties.ApplicationName`.",
    ),
)

_SCAN = alike(
    Option(
        "scan.partition.column",
        OptionType.STRING,
        "A column of numbers by whose ranges the table is read in parallel. The four options of partitions belong "
        "together.",
    ),
    Option("scan.partition.num", OptionType.INTEGER, "The number of ranges.", minimum=1),
    Option(
        "scan.partition.lower-bound",
        OptionType.LONG,
        "The smallest value of the first range. Rows with smaller values are not read.",
    ),
    Option(
        "scan.partition.upper-bound",
        OptionType.LONG,
        "The largest value of the last range. Rows with larger values are not read.",
    ),
    Option(
        "scan.fetch-size",
        OptionType.INTEGER,
        "How many rows the database sends at once.",
        default=0,
        no_effect="rows come as one stream of COPY, in frames of bounded size",
    ),
    Option(
        "scan.auto-commit",
        OptionType.BOOLEAN,
        "Whether each statement is a transaction of its own.",
        default=True,
        no_effect="all ranges are read in one snapshot, which is one transaction",
    ),
    Option(
        "filter.handling.policy",
        OptionType.ENUM,
        "Whether conditions of the query are given to the source. The rows are the same.",
        default="ALWAYS",
        values=("ALWAYS", "NEVER"),
    ),
    role=Role.SOURCE,
)

_CACHE = alike(
    Option(
        "lookup.cache",
        OptionType.ENUM,
        "Rows that a worker keeps after a lookup: none, the rows of recent keys, or the whole table.",
        default="NONE",
        values=("NONE", "PARTIAL", "FULL"),
    ),
    Option(
        "lookup.partial-cache.max-rows",
        OptionType.LONG,
        "How many keys a worker keeps; those asked for longest ago go first.",
        minimum=1,
    ),
    Option(
        "lookup.partial-cache.expire-after-write",
        OptionType.DURATION,
        "After what time the rows of a key are read again.",
    ),
    Option(
        "lookup.partial-cache.expire-after-access",
        OptionType.DURATION,
        "After what time without being asked for a key is dropped.",
    ),
    Option(
        "lookup.partial-cache.cache-missing-key",
        OptionType.BOOLEAN,
        "Whether it is kept that a key has no rows.",
        default=True,
    ),
    Option(
        "lookup.full-cache.reload-strategy",
        OptionType.ENUM,
        "When the whole table is read again: in intervals, or at a time of the day.",
        default="PERIODIC",
        values=("PERIODIC", "TIMED"),
    ),
    Option("lookup.full-cache.periodic-reload.interval", OptionType.DURATION, "The interval. Required for PERIODIC."),
    Option(
        "lookup.full-cache.periodic-reload.schedule-mode",
        OptionType.ENUM,
        "Whether the interval begins at the end of a reload or at its begin.",
        default="FIXED_DELAY",
        values=("FIXED_DELAY", "FIXED_RATE"),
    ),
    Option(
        "lookup.full-cache.timed-reload.iso-time",
        OptionType.STRING,
        "The time of the day in ISO-8601, with an offset or in UTC: `02:30Z`. Required for TIMED.",
    ),
    Option(
        "lookup.full-cache.timed-reload.interval-in-days",
        OptionType.INTEGER,
        "The number of days between two reloads.",
        default=1,
        minimum=1,
    ),
    Option(
        "lookup.max-retries",
        OptionType.INTEGER,
        "How often a look-up is tried again when the connection breaks.",
        default=3,
        minimum=0,
    ),
    Option(
        "lookup.cache.max-rows",
        OptionType.LONG,
        "Older name of `lookup.partial-cache.max-rows`, with `lookup.cache.ttl`.",
        default=-1,
    ),
    Option(
        "lookup.cache.ttl",
        OptionType.DURATION,
        "Older name of `lookup.partial-cache.expire-after-write`, with `lookup.cache.max-rows`.",
        default=10_000,
    ),
    Option(
        "lookup.cache.caching-missing-key",
        OptionType.BOOLEAN,
        "Older name of `lookup.partial-cache.cache-missing-key`.",
        default=True,
    ),
    role=Role.SOURCE,
)

_ONE_TRANSACTION = "a micro-batch is written in one transaction"
_SINK = alike(
    Option(
        "sink.buffer-flush.max-rows",
        OptionType.INTEGER,
        "How many rows are written at once.",
        default=100,
        no_effect=_ONE_TRANSACTION,
    ),
    Option(
        "sink.buffer-flush.interval",
        OptionType.DURATION,
        "After what time rows are written.",
        default=1000,
        no_effect=_ONE_TRANSACTION,
    ),
    Option(
        "sink.max-retries",
        OptionType.INTEGER,
        "How often the transaction of a micro-batch is tried again when the connection breaks.",
        default=3,
        minimum=0,
    ),
    parallelism(Role.SINK, f"{_ONE_TRANSACTION}, by the driver"),
    role=Role.SINK,
)

_COMPARISONS = frozenset({"=", "<", "<=", ">", ">=", "<>", "AND", "OR", "LIKE"})
_CONSTANTS = frozenset(
    (
        *("CHAR", "VARCHAR", "BOOLEAN", "DECIMAL", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE"),
        *("DATE", "TIME_WITHOUT_TIME_ZONE", "TIMESTAMP_WITHOUT_TIME_ZONE"),
    )
)


class Jdbc(Connector):
    """Tables of PostgreSQL."""

    name = "jdbc"
    description = (
        "A table or view of PostgreSQL. A scan reads it once, in one snapshot. A lookup join queries the rows of keys."
        " A sink inserts rows, or with a primary key upserts and deletes them, exactly once. "
        "Needs `pip install 'stateplan[jdbc]'`."
    )
    options = (*_CONNECTION, *_SCAN, *_CACHE, *_SINK)
    roles = (Role.SOURCE, Role.SINK)
    can_look_up = True
    abilities = frozenset({"ProjectPushDown", "FilterPushDown", "LimitPushDown"})
    changes_need_key = True
    history_gap = "the rows in the database may have changed since they were read"

    def sink_mode(self, options: Mapping[str, str], changelog_mode: ChangelogMode) -> ChangelogMode:
        return UPSERT

    def takes_filters(self, options: Mapping[str, str], filters: Sequence[Rex]) -> tuple[Sequence[Rex], Sequence[Rex]]:
        if self.value(options, "filter.handling.policy") == "NEVER":
            return (), filters
        pushed_filters = [f for f in filters if isinstance(f, Call) and _is_told(f)]
        return pushed_filters, [f for f in filters if f not in pushed_filters]

    def check_schema(self, options: Mapping[str, str], fields: Fields, place: Place | None) -> None:
        """Raises OptionError OPT120, OPT121, OPT145 to OPT151; CatalogError CAT102."""
        check_types(fields, "the connector 'jdbc'", place)
        if ("username" in options) != ("password" in options):
            raise OptionError("OPT148", keys=["username", "password"], place=place)
        self._server(options, place)
        if split_name(options["table-name"]) is None or len(split_name(options["table-name"]) or ()) > 2:
            raise OptionError("OPT151", name=options["table-name"], place=place)
        self._check_partitions(options, place)
        self._check_cache(options, place)

    def _check_partitions(self, options: Mapping[str, str], place: Place | None) -> None:
        keys = [o.key for o in _SCAN if o.key.startswith("scan.partition.")]
        if 0 < sum(key in options for key in keys) < len(keys):
            raise OptionError("OPT148", keys=keys, place=place)
        if keys[0] in options:
            lower, upper = (self.value(options, f"scan.partition.{end}-bound") for end in ("lower", "upper"))
            if lower > upper:
                raise OptionError("OPT149", lower=lower, upper=upper, place=place)

    def _check_cache(self, options: Mapping[str, str], place: Place | None) -> None:
        older = ["lookup.cache.max-rows", "lookup.cache.ttl"]
        if sum(key in options for key in older) == 1:
            raise OptionError("OPT148", keys=older, place=place)
        if self.value(options, "lookup.cache") != "FULL":
            return
        if self.value(options, "lookup.full-cache.reload-strategy") == "PERIODIC":
            if self.value(options, "lookup.full-cache.periodic-reload.interval") is None:
                raise OptionError("OPT150", key="lookup.full-cache.periodic-reload.interval", place=place)
            return
        from stateplan.connectors.jdbc.caches import time_of_day

        text = self.value(options, "lookup.full-cache.timed-reload.iso-time")
        if text is None:
            raise OptionError("OPT150", key="lookup.full-cache.timed-reload.iso-time", place=place)
        if time_of_day(text) is None:
            raise OptionError("OPT150.time", text=text, place=place)

    def places(self, options: Mapping[str, str]) -> Iterator[str]:
        return places_of(options.get("url", ""), properties_of(options))

    def identity(self, options: Mapping[str, str]) -> Mapping[str, str] | None:
        texts = {key: options[key] for key in ("connector", "url", "table-name") if key in options}
        return {**texts, "url": database_of(texts["url"])} if "url" in texts else texts

    def datasets(self, options: Mapping[str, str]) -> tuple[Dataset, ...]:
        names = split_name(options.get("table-name", ""))
        server = first_server(options.get("url", ""))
        if not names or server is None:
            return ()
        return dataset_of_postgres(*server, *(("public",) if len(names) == 1 else ()), *names)

    def position(self, options: Mapping[str, str]) -> Mapping[str, str]:
        ranges = {key: text for key, text in options.items() if key.startswith("scan.partition.")}
        return {**(self.identity(options) or {}), **ranges}

    def source(self, table: SourceTable) -> Source[Any]:
        from stateplan.connectors.jdbc.scan import source_of

        return source_of(table, self._server_of(table))

    def lookup(self, table: SourceTable) -> Lookup:
        from stateplan.connectors.jdbc.lookup import lookup_of

        return lookup_of(table, self._server_of(table))

    def sink(self, table: SinkTable) -> Sink:
        from stateplan.connectors.jdbc.sink import sink_of

        return sink_of(table, self._server_of(table))

    def _server_of(self, table: Table) -> Server:
        return self._server(table.options, None, table.time_zone)

    def _server(self, options: Mapping[str, str], place: Place | None, time_zone: str = "UTC") -> Server:
        return server_of(
            options["url"],
            options.get("username"),
            options.get("password"),
            properties_of(options),
            self.value(options, "connection.max-retry-timeout"),
            "the connector 'jdbc'",
            place,
            time_zone,
        )


def _is_told(rex: Rex) -> bool:
    """Whether Flink's source takes a condition, or a part of one (``JdbcFilterPushdownPreparedStatementVisitor``)."""
    if isinstance(rex, InputRef):
        return True
    if isinstance(rex, Literal):
        return rex.type.root in _CONSTANTS and rex.symbol is None and rex.sarg is None
    if not isinstance(rex, Call):
        return False
    if rex.name in ("IS NULL", "IS NOT NULL"):
        return isinstance(rex.operands[0], InputRef)
    return rex.name in _COMPARISONS and len(rex.operands) >= 2 and all(map(_is_told, rex.operands[:2]))
