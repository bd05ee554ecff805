"""The ``postgres-cdc`` connector: the rows of PostgreSQL tables, and their changes as they are committed.

Options, metadata and row kinds are those of Flink CDC's connector of that name (``PostgreSQLTableFactory``,
``PostgreSQLReadableMetadata``). The options are the rows of :class:`PostgresCdc`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stateplan.common.changelog import INSERT_ONLY, RETRACT, UPSERT, ChangelogMode
from stateplan.common.errors import CatalogError, OptionError, Place
from stateplan.common.options import Option, OptionType, Role, alike, flag
from stateplan.common.secrets import server_url
from stateplan.common.types import LogicalType
from stateplan.connectors.datasets import Dataset, dataset_of_postgres
from stateplan.connectors.extras import require
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.protocol import Connector, Source, SourceTable

_TEXT, _TIME, _NUMBER, _ENUM = OptionType.STRING, OptionType.DURATION, OptionType.INTEGER, OptionType.ENUM
_PLACE = ("database-name", "schema-name", "table-name")
"""Options that say which tables they are. An offset says on which server: its address may change."""

_CHUNKS = "the tables are copied in one transaction, without chunks"
_DEBEZIUM = "stateplan reads the log itself, and knows no other options of Debezium"
_SCALARS = frozenset(
    (
        *("CHAR", "VARCHAR", "BOOLEAN", "BINARY", "VARBINARY", "DECIMAL", "TINYINT", "SMALLINT", "INTEGER", "BIGINT"),
        *("FLOAT", "DOUBLE", "DATE", "TIME_WITHOUT_TIME_ZONE", "TIMESTAMP_WITHOUT_TIME_ZONE"),
        "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
    )
)


class PostgresCdc(Connector):
    """Rows of PostgreSQL tables and their changes."""

    name = "postgres-cdc"
    history_gap = "the server forgets its log once it has been read"
    single_reader = "its replication slot serves one reader, and forgets what that has read"
    description = "Rows of PostgreSQL tables, and their changes from the log of the server."
    options = alike(
        Option("hostname", _TEXT, "Name or address of the server.", is_required=True),
        Option("port", _NUMBER, "Port of the server.", default=5432, minimum=1),
        Option("username", _TEXT, "User, with the right REPLICATION.", is_required=True),
        Option("password", _TEXT, "Password of the user.", is_required=True),
        Option("database-name", _TEXT, "The database.", is_required=True),
        Option("schema-name", OptionType.REGEX, "Regular expression for the schema of the tables.", is_required=True),
        Option("table-name", OptionType.REGEX, "Regular expression for the names of the tables.", is_required=True),
        Option("slot.name", _TEXT, "Replication slot. It is made if it is missing, and stays.", is_required=True),
        Option(
            "decoding.plugin.name",
            _TEXT,
            "Plug-in of the server that decodes its log.",
            default="pgoutput",
            only_default="the log is read with pgoutput, which every server has, and the changes are the same",
        ),
        Option(
            "changelog-mode",
            _ENUM,
            "`all`: updates have the old row; the tables need REPLICA IDENTITY FULL. `upsert`: updates have the new "
            "row and deletions the key; needs a PRIMARY KEY.",
            default="all",
            values=("all", "upsert"),
        ),
        Option(
            "scan.startup.mode",
            _ENUM,
            "`initial`: the rows that are there, then changes. `latest-offset`: changes from now on. "
            "`committed-offset`: changes from where the slot is. `snapshot`: the rows that are there; the table ends.",
            default="initial",
            values=("initial", "latest-offset", "committed-offset", "snapshot"),
        ),
        Option(
            "scan.max-changes",
            _NUMBER,
            "How many changes a micro-batch has at most. A transaction that passes it comes whole.",
            default=200_000,
            minimum=1,
        ),
        Option(
            "scan.max-log",
            OptionType.MEMORY_SIZE,
            "How much of the server's log a micro-batch looks at, at most.",
            default=1 << 30,
            minimum=1,
        ),
        Option(
            "heartbeat.interval.ms",
            _TIME,
            "How often to let the server forget its log while the tables are quiet.",
            default=30_000,
            minimum=1,
        ),
        Option(
            "connect.timeout",
            _TIME,
            "How long to wait for the server, for transactions that are open when a slot is made, and for a slot that "
            "is in use.",
            default=30_000,
            minimum=250,
        ),
        Option("connect.max-retries", _NUMBER, "How often to try again to connect.", default=3, minimum=0),
        flag(
            "scan.read-changelog-as-append-only.enabled",
            "Whether all changes become insertions; the metadata column `row_kind` has the kind of change.",
        ),
        Option(
            "debezium.publication.name",
            _TEXT,
            "Publication of the tables. Default: `stateplan_` and the name of the slot.",
        ),
        Option(
            "debezium.publication.autocreate.mode",
            _ENUM,
            "How to make a publication that is missing: of the tables that are read, of all tables, or not.",
            default="filtered",
            values=("filtered", "all_tables", "disabled"),
        ),
        Option(
            "debezium.skipped.operations",
            _ENUM,
            "`t`: a TRUNCATE changes nothing. `none`: it ends the job with an error.",
            default="none",
            values=("none", "t"),
        ),
        Option(
            "debezium.snapshot.mode",
            _ENUM,
            "`never`: changes from where the slot is, which is made if it is missing.",
            default="initial",
            values=("initial", "never"),
        ),
        Option("debezium.*", _TEXT, "Other options of Debezium.", only_default=_DEBEZIUM),
        flag(
            "scan.newly-added-table.enabled",
            "Whether to copy tables that come to match the names later.",
            only_default="tables are looked for when a job begins; start with a new checkpoint",
        ),
        flag("scan.incremental.snapshot.enabled", "Whether to copy in chunks.", no_effect=_CHUNKS),
        *alike(
            Option("scan.incremental.snapshot.chunk.size", _NUMBER, "Rows of a chunk.", default=8096),
            Option("scan.incremental.snapshot.chunk.key-column", _TEXT, "Column by which chunks are made."),
            Option("chunk-meta.group.size", _NUMBER, "How chunks are reported.", default=1000),
            Option("chunk-key.even-distribution.factor.lower-bound", OptionType.FLOAT, "How to cut.", default=0.05),
            Option("chunk-key.even-distribution.factor.upper-bound", OptionType.FLOAT, "How to cut.", default=1000.0),
            flag("scan.incremental.snapshot.backfill.skip", "Whether changes may come twice."),
            flag("scan.incremental.snapshot.unbounded-chunk-first.enabled", "Which chunk is first.", default=True),
            no_effect=_CHUNKS,
        ),
        flag(
            "scan.incremental.close-idle-reader.enabled",
            "Whether to close idle readers.",
            no_effect="tasks end with their micro-batch",
        ),
        Option(
            "scan.lsn-commit.checkpoints-num-delay",
            _NUMBER,
            "How many checkpoints later to move the slot on.",
            default=3,
            no_effect="a job continues from its last micro-batch, whose changes the checkpoint contains",
        ),
        Option(
            "scan.snapshot.fetch.size",
            _NUMBER,
            "How many rows to fetch at once.",
            default=1024,
            no_effect="the server sends the rows of a table as one stream",
        ),
        Option("connection.pool.size", _NUMBER, "Connections.", default=30, no_effect="two connections are enough"),
        flag(
            "scan.include-partitioned-tables.enabled",
            "Whether to read partitioned tables by their root.",
            no_effect="partitioned tables are always read by their root, if their names match",
        ),
        flag(
            "table-id.include-database",
            "Whether identifiers have the database.",
            no_effect="identifiers are not shown; the metadata column `database_name` has it",
        ),
        flag(
            "scan.pre-epoch-timestamp.wall-clock-conversion.enabled",
            "Whether times before 1970 are those of the database.",
            no_effect="they always are",
        ),
        role=Role.SOURCE,
    )
    roles = (Role.SOURCE,)
    metadata = (
        ("table_name", "STRING NOT NULL"),
        ("schema_name", "STRING NOT NULL"),
        ("database_name", "STRING NOT NULL"),
        ("op_ts", "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL"),
        ("row_kind", "STRING NOT NULL"),
    )
    planner_gives_uid = True

    def is_bounded(self, options: Mapping[str, str]) -> bool:
        return bool(self.value(options, "scan.startup.mode") == "snapshot")

    def source_mode(self, options: Mapping[str, str]) -> ChangelogMode:
        if self.value(options, "scan.read-changelog-as-append-only.enabled"):
            return INSERT_ONLY
        return RETRACT if self.value(options, "changelog-mode") == "all" else UPSERT

    def gives_key_deletes(self, options: Mapping[str, str]) -> bool:
        return bool(self.value(options, "changelog-mode") == "upsert")

    def check_schema(self, options: Mapping[str, str], fields: Fields, place: Place | None) -> None:
        """Raises OptionError OPT147, OPT156 or OPT157; CatalogError CAT102, a column of a type that has no values
        here."""
        if "@" in options["hostname"]:
            raise OptionError("OPT147.user", key="hostname", options=["username", "password"], place=place)
        slot = options["slot.name"]
        if re.fullmatch("[a-z0-9_]{1,63}", slot) is None:
            raise OptionError("OPT156", slot=slot, place=place)
        mode = options.get("scan.startup.mode", "initial")
        if self.value(options, "debezium.snapshot.mode") == "never" and mode not in ("initial", "committed-offset"):
            raise OptionError("OPT157", mode=mode, place=place)
        for name, data_type in fields:
            if not _is_readable(data_type):
                raise CatalogError("CAT102", column=name, type=data_type, owner="a postgres-cdc table", place=place)

    def places(self, options: Mapping[str, str]) -> Iterator[str]:
        if "hostname" in options:
            server = server_url("jdbc:postgresql", f"{options['hostname']}:{options.get('port', '5432')}")
            yield f"{server}/{options.get('database-name', '')}"

    def identity(self, options: Mapping[str, str]) -> Mapping[str, str] | None:
        return {key: options[key] for key in _PLACE if key in options}

    def datasets(self, options: Mapping[str, str]) -> tuple[Dataset, ...]:
        if not all(key in options for key in ("hostname", *_PLACE)):
            return ()
        return dataset_of_postgres(options["hostname"], options.get("port", "5432"), *(options[key] for key in _PLACE))

    def position(self, options: Mapping[str, str]) -> Mapping[str, str]:
        defaults = {"scan.startup.mode": "initial", "debezium.snapshot.mode": "initial"}
        return {**defaults, **{key: options[key] for key in (*_PLACE, "slot.name", *defaults) if key in options}}

    def source(self, table: SourceTable) -> Source[Any]:
        """Raises OptionError OPT122, ADBC is not installed; OPT155, upserts without a primary key."""
        require("postgres-cdc", "adbc_driver_postgresql", "the connector 'postgres-cdc'")
        from stateplan.connectors.jdbc.postgres import Server
        from stateplan.connectors.postgres_cdc.rows import RowReader
        from stateplan.connectors.postgres_cdc.slot import Origin
        from stateplan.connectors.postgres_cdc.source import ChangeSource

        retract = table.value("changelog-mode") == "all"
        if not retract and not table.primary_key:
            raise OptionError("OPT155", table=table.name)
        seconds = table.value("connect.timeout") / 1000
        never = table.value("debezium.snapshot.mode") == "never"
        server = Server(
            table.value("hostname"),
            str(table.value("port")),
            table.value("database-name"),
            table.value("username"),
            table.value("password"),
            timeout=max(1, round(seconds)),
            extra="postgres-cdc",
            owner="the connector 'postgres-cdc'",
        )
        slot = table.value("slot.name")
        origin = Origin(
            server,
            table.value("schema-name"),
            table.value("table-name"),
            slot,
            table.value("debezium.publication.name") or f"stateplan_{slot}"[:63],
            table.value("debezium.publication.autocreate.mode"),
            table.fields,
            seconds,
            table.value("connect.max-retries"),
        )
        row_reader = RowReader(
            tuple(table.fields[i] for i in table.projection),
            table.metadata,
            table.primary_key,
            retract,
            table.value("debezium.skipped.operations") == "t",
            server.database or "",
        )
        return ChangeSource(
            origin,
            row_reader,
            "never" if never and "scan.startup.mode" not in table.options else table.value("scan.startup.mode"),
            table.value("scan.read-changelog-as-append-only.enabled"),
            table.value("scan.max-changes"),
            table.value("scan.max-log"),
            table.value("heartbeat.interval.ms") / 1000,
        )


def _is_readable(data_type: LogicalType) -> bool:
    """Whether PostgreSQL has values of a type: a scalar, or an array of them."""
    element = data_type.children[0] if data_type.root == "ARRAY" else data_type
    return element.root in _SCALARS
