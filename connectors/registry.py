"""The connectors and formats there are, and what the planner and the runtime ask of a table's options.

Those of stateplan are in tables here. Those of other packages come in by entry points of the groups
``stateplan.connectors``, ``stateplan.formats`` and ``stateplan.catalogs``, whose names are theirs: looked at when a
name is not in the tables.
Importing this loads no engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from stateplan.common.changelog import RETRACT, ChangelogMode
from stateplan.common.errors import CatalogError, OptionError, Place, nearest, one_of
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.lazy_table import LazyTable
from stateplan.common.options import PATH, Option, OptionType, Role, accepted_value, match, parse_value
from stateplan.common.secrets import has_reference, references
from stateplan.common.types import LogicalType, parse_type
from stateplan.connectors import foreign
from stateplan.connectors.catalogs import CatalogType
from stateplan.connectors.formats.base import Fields, Format, format_options
from stateplan.connectors.protocol import Connector

T = TypeVar("T", bound=Connector | Format | CatalogType)


def _instance(name: str, kind: Any) -> Any:
    """One of stateplan's own, of its class."""
    return kind()


_CONNECTORS = "stateplan.connectors."
_FORMATS = _CONNECTORS + "formats."
_STATE = "stateplan.plans.state."

CONNECTORS: LazyTable[Connector] = LazyTable(
    {
        "filesystem": _CONNECTORS + "filesystem:Filesystem",
        "datagen": _CONNECTORS + "datagen:Datagen",
        "print": _CONNECTORS + "print:Print",
        "blackhole": _CONNECTORS + "blackhole:Blackhole",
        "replay": _CONNECTORS + "replay:Replay",
        "kafka": _CONNECTORS + "kafka:Kafka",
        "upsert-kafka": _CONNECTORS + "kafka:UpsertKafka",
        "jdbc": _CONNECTORS + "jdbc:Jdbc",
        "postgres-cdc": _CONNECTORS + "postgres_cdc:PostgresCdc",
        "delta": _CONNECTORS + "delta:Delta",
        "iceberg": _CONNECTORS + "iceberg:Iceberg",
    },
    _instance,
)
"""Connector name to connector: stateplan's own, and those of other packages that have been requested."""

FORMATS: LazyTable[Format] = LazyTable(
    {
        "json": _FORMATS + "json:JsonFormat",
        "csv": _FORMATS + "csv:CsvFormat",
        "parquet": _FORMATS + "parquet:ParquetFormat",
        "avro": _FORMATS + "avro:AvroFormat",
        "raw": _FORMATS + "raw:RawFormat",
        "debezium-json": _FORMATS + "change_formats:DebeziumJson",
        "canal-json": _FORMATS + "change_formats:CanalJson",
        "maxwell-json": _FORMATS + "change_formats:MaxwellJson",
        "ogg-json": _FORMATS + "change_formats:OggJson",
        "op-json": _FORMATS + "change_formats:OpJson",
        "avro-confluent": _FORMATS + "avro:AvroConfluent",
        "debezium-avro-confluent": _FORMATS + "avro:DebeziumAvroConfluent",
    },
    _instance,
)
"""Format name to format, likewise."""

CATALOGS: LazyTable[CatalogType] = LazyTable(
    {
        "jdbc": _CONNECTORS + "jdbc.catalog:JdbcCatalogType",
        "delta": _CONNECTORS + "delta.catalog:DeltaCatalogType",
        "iceberg": _CONNECTORS + "iceberg.catalog:IcebergCatalogType",
        "state": _STATE + "state_catalog:StateCatalogType",
    },
    _instance,
)
"""Type of catalog to what it is, likewise."""

INTERNAL: LazyTable[Connector] = LazyTable(
    {
        "*results*": _CONNECTORS + "results:Results",
        "in-memory": _CONNECTORS + "arrow:ArrowTable",
        "state": _STATE + "state_connector:StateConnector",
        "state-audit": _STATE + "lost_rows:LostRowsConnector",
        "table of a test": _CONNECTORS + "tables_of_tests:TableOfTest",
    },
    _instance,
)
"""Connectors of tables that no user creates."""


@cache
def _entry_points(group: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


class _Plugins(Generic[T]):
    """Connectors, formats or types of catalogs, with those of other packages.

    Args:
        kind: what they are, for errors.
        group: the group of their entry points.
        base: what each is.
        table: of those that are known.
        internal: those that :meth:`names` omits.
    """

    def __init__(
        self, kind: str, base: type[Any], table: MutableMapping[str, T], internal: Mapping[str, T] | None = None
    ) -> None:
        self.kind = kind
        self.internal = internal or {}
        self.group = f"stateplan.{kind}s"
        self.base = base
        self.table = table
        self.own = frozenset(table)

    def names(self) -> list[str]:
        """Every name, those of stateplan first."""
        return list(dict.fromkeys([*self.table, *(e.name for e in _entry_points(self.group))]))

    def clashes(self) -> Iterator[str]:
        """A sentence for each name of stateplan that another package claims too."""
        for point in _entry_points(self.group):
            if point.name in self.own:
                yield (
                    f"the {self.kind} '{point.name}' of {_package(point)} is not used: stateplan has a {self.kind} of "
                    "that name"
                )

    def find(self, name: str, place: Place | None = None) -> T | None:
        """The one of a name; None if nobody has it.

        Raises:
            OptionError: OPT109, it cannot be loaded; OPT110, several packages have it.
        """
        if name in self.table:
            return self.table[name]
        if name in self.internal:
            return self.internal[name]
        points = [e for e in _entry_points(self.group) if e.name == name]
        if not points:
            return None
        if len({p.value for p in points}) > 1:
            packages = " and ".join(sorted(_package(p) for p in points))
            raise OptionError("OPT110", kind=self.kind, name=name, packages=packages, place=place)
        self.table[name] = self._load(points[0], place)
        return self.table[name]

    def _load(self, point: EntryPoint, place: Place | None) -> T:
        try:
            target = point.load()
            plugin: T = target() if isinstance(target, type) else target
            if not isinstance(plugin, self.base):
                reason = f"{point.value} is no {self.base.__module__}.{self.base.__name__}"
            elif getattr(plugin, "name", None) != point.name:
                reason = f"{point.value} calls itself '{getattr(plugin, 'name', '')}'"
            else:
                return plugin
        except Exception as error:  # whatever a package of somebody else does
            reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        package = _package(point)
        raise OptionError("OPT109", kind=self.kind, name=point.name, package=package, reason=reason, place=place)

    def loadable(self) -> Iterator[T]:
        """All that can be used, those of stateplan first."""
        for name in self.names():
            try:
                plugin = self.find(name)
            except OptionError:
                continue
            if plugin is not None:
                yield plugin


def _package(point: EntryPoint) -> str:
    return f"package '{point.dist.name}'" if point.dist is not None else "another package"


_connectors = _Plugins("connector", Connector, CONNECTORS, INTERNAL)
_formats = _Plugins("format", Format, FORMATS)
_catalogs = _Plugins("catalog", CatalogType, CATALOGS)


def connectors() -> list[Connector]:
    """All connectors that can be used, those of stateplan first."""
    return list(_connectors.loadable())


def catalog_types() -> list[CatalogType]:
    """All types of catalogs of connectors that can be used, those of stateplan first."""
    return list(_catalogs.loadable())


def find_catalog_type(name: str, place: Place | None = None) -> CatalogType | None:
    """The type of catalog of a name; None if no connector has it.

    Raises:
        OptionError: OPT109 or OPT110, it is one of another package that cannot be used.
    """
    return _catalogs.find(name, place)


def clashing_names() -> list[str]:
    """A sentence for each name of a connector, format or type of catalog of stateplan that another package claims
    too."""
    return [*_connectors.clashes(), *_formats.clashes(), *_catalogs.clashes()]


def known_connector(options: Mapping[str, str]) -> Connector | None:
    """What is known of the connector of a table that a plan may have from Flink: this project's, another package's, or
    what it knows of Flink's; None for one that is not known."""
    name = options.get("connector", "")
    try:
        return _connectors.find(name) or foreign.CONNECTORS.get(name)
    except OptionError:
        return None


def known_format(options: Mapping[str, str]) -> Format | None:
    """The same for the format of a table."""
    name = options.get("format", "")
    try:
        return _formats.find(name) or foreign.FORMATS.get(name)
    except OptionError:
        return None


# ---- the options of a table ------------------------------------------------------------------------------------


def _role(role: Role | str) -> Role:
    return role if isinstance(role, Role) else Role(role)


def _near_key(key: str, options: Mapping[str, str]) -> str | None:
    """A hint when one of the written keys looks like the missing one."""
    hint = nearest(key, options)
    return f"the table has {hint.removeprefix('did you mean ').removesuffix('?')}" if hint else None


def find_connector(options: Mapping[str, str], place: Place | None = None) -> Connector:
    """The connector of a table.

    Raises:
        OptionError: OPT101, no ``connector`` option; OPT102, unknown connector; OPT109 or OPT110, one of another
            package that cannot be used.
    """
    name = options.get("connector")
    if name is None:
        raise OptionError(
            "OPT101",
            names=_connectors.names(),
            user="the table",
            key="connector",
            place=place,
            hint=_near_key("connector", options),
        )
    connector = _connectors.find(name, place)
    if connector is None:
        names = _connectors.names()
        raise OptionError("OPT102", name=name, names=names, place=place, hint=nearest(name, names))
    return connector


def formats_of(connector: Connector, role: Role) -> list[str]:
    """The formats that tables of a connector can have."""
    return [fmt.name for fmt in (_formats.loadable() if connector.formatted else ()) if _takes(connector, fmt, role)]


def _takes(connector: Connector, fmt: Format, role: Role) -> bool:
    able = fmt.source_changes if role is Role.SOURCE else fmt.sink_changes
    return role in connector.roles and able is not None and connector.takes_format(fmt, role)


def find_format(options: Mapping[str, str], role: Role | str, place: Place | None = None) -> Format | None:
    """The format of a table in a role; None for a connector that has no formats.

    Raises:
        OptionError: OPT101, no ``format`` option; OPT103, unknown format, or one the connector does not take; OPT109
            or OPT110, one of another package that cannot be used.
    """
    connector = find_connector(options, place)
    if not connector.formatted:
        return None
    return _format_in(connector.format_key(options), connector, options, _role(role), place)


def find_key_format(options: Mapping[str, str], role: Role | str, place: Place | None = None) -> Format | None:
    """The format of the keys of a table's messages; None if it has none. Raises the same errors as
    :func:`find_format`."""
    connector = find_connector(options, place)
    if connector.key_format is None or connector.key_format not in options:
        return None
    return _format_in(connector.key_format, connector, options, _role(role), place)


def _format_in(key: str, connector: Connector, options: Mapping[str, str], role: Role, place: Place | None) -> Format:
    name = options.get(key)
    fmt = _formats.find(name, place) if name is not None else None
    if fmt is not None and _takes(connector, fmt, role):
        return fmt
    names = formats_of(connector, role)
    if name is None:
        hint = _near_key(key, options)
        raise OptionError(
            "OPT101",
            key=key,
            user=f"the connector '{connector.name}'",
            expectation=one_of([f"'{n}'" for n in names]),
            place=place,
            hint=hint,
        )
    problem = f"unknown format '{name}'" if fmt is None else f"the connector '{connector.name}' has no format '{name}'"
    raise OptionError("OPT103", problem=problem, names=names, place=place, hint=nearest(name, names))


def validate_table(
    options: Mapping[str, str],
    role: Role | str,
    place: Place | None = None,
    schema: Fields | None = None,
    places: Mapping[str, Place] | None = None,
    primary_key: Sequence[str] = (),
) -> tuple[str, ...]:
    """Checks the options of a table that is about to be used.

    Args:
        options: the table's options as written.
        role: what it is used as: ``source`` or ``sink``.
        place: where the table, or its use, is written.
        schema: name and type of the physical columns, to check what depends on them; None to leave that out.
        places: where options are written, by key.
        primary_key: columns of the primary key; with ``schema``.

    Returns:
        Notes for the user: options that are accepted but change nothing here, each with its reason.

    Raises:
        OptionError: OPT101 missing option, OPT102 unknown connector, OPT103 unknown format, OPT104 unknown option,
            OPT105 malformed value, OPT106 options that exclude each other, OPT107 a value that this runtime cannot
            honour, OPT108 an option of a column that the schema does not have or that does not fit its type, OPT109 or
            OPT110 a connector or format of another package that cannot be used.
        CatalogError: CAT101, the connector cannot be used in this role; CAT102, a column type that the connector or
            its format cannot hold.
    """
    places = places or {}
    connector, table_role = find_connector(options, places.get("connector", place)), _role(role)
    _check_used_as(connector, table_role, place)
    formats = _formats_of(connector, options, table_role, place, places)
    table_options = _Options(connector, table_role, options, formats, place, places)
    notes = table_options.check_each()
    table_options.check_together()
    connector.check_role(options, table_role, place)
    if schema is not None:
        _check_schema(options, connector, formats, schema, place)
        both = formats[connector.format_key(options)], formats.get(connector.key_format or "")
        connector.check_keys(options, schema, primary_key, both, place)
    return tuple(notes)


def _check_used_as(connector: Connector, table_role: Role, place: Place | None) -> None:
    """Raises CatalogError CAT101 for a connector that cannot be read, or not be written."""
    if table_role in connector.roles:
        return
    able = [c.name for c in _connectors.loadable() if table_role in c.roles]
    verb, other = ("read", "write to") if table_role is Role.SOURCE else ("written to", "read")
    raise CatalogError(
        "CAT101",
        name=connector.name,
        verb=verb,
        role=table_role,
        able=able,
        only=connector.roles[0],
        other=other,
        place=place,
    )


def _formats_of(
    connector: Connector, options: Mapping[str, str], table_role: Role, place: Place | None, places: Mapping[str, Place]
) -> dict[str, Format | None]:
    """The formats of a table, by the option that names each. Raises the same errors as :func:`find_format`."""
    format_key = connector.format_key(options)
    formats = {format_key: find_format(options, table_role, places.get(format_key, place))}
    if connector.key_format is not None:
        option_place = places.get(connector.key_format, place)
        formats[connector.key_format] = find_key_format(options, table_role, option_place)
    return formats


@dataclass
class _Options:
    """The options of a table, among those that its connector and its formats know.

    Args:
        connector: the connector of the table.
        table_role: what it is used as.
        options: as written.
        formats: the formats of the table, by the option that names each.
        place: where the table, or its use, is written.
        places: where options are written, by key.
    """

    connector: Connector
    table_role: Role
    options: Mapping[str, str]
    formats: Mapping[str, Format | None]
    place: Place | None
    places: Mapping[str, Place]

    @cached_property
    def known_options(self) -> dict[str, Option]:
        options = {o.key: o for o in self.connector.options}
        for key, fmt in self.formats.items():
            if fmt is not None:
                options |= {f"{key.removesuffix('format')}{fmt.name}.{o.key}": o for o in fmt.options}
        return options

    def check_each(self) -> list[str]:
        """Checks every option by itself; notes for the user. Raises OptionError OPT104, OPT105, OPT107, OPT124."""
        notes = []
        for key, text in self.options.items():
            if key == "connector" or self.formats.get(key) is not None:
                continue
            option, option_place = match(key, self.known_options), self.places.get(key, self.place)
            if option is None:
                raise self._unknown_option(key, option_place)
            for kind, name in references(text) if key == PATH.key else ():
                raise OptionError("OPT124", key=key, kind=kind, name=name, place=option_place)
            if option.type is not OptionType.STRING and has_reference(text) and not option.only_default:
                continue  # whoever runs the job knows the value
            accepted_value(option, text, key, option_place)
            if option.no_effect:
                notes.append(f"the option '{key}' has no effect: {option.no_effect}")
        return notes

    def _unknown_option(self, key: str, option_place: Place | None) -> OptionError:
        """An option that nobody knows, with those that are of use."""
        fmt, known_options = self.formats[self.connector.format_key(self.options)], self.known_options
        owner = f"connector '{self.connector.name}'" + (f" with format '{fmt.name}'" if fmt else "")
        near = nearest(key, [*known_options, *(("format",) if fmt else ())])
        useful = {
            k
            for k, o in known_options.items()
            if o.role in (self.table_role, Role.BOTH) and not (o.no_effect or o.only_default)
        }
        expectation = None if near else one_of(sorted(useful | ({"format"} if fmt else set()))) or "no options"
        return OptionError("OPT104", key=key, owner=owner, place=option_place, expected=expectation, hint=near)

    def check_together(self) -> None:
        """Raises OptionError OPT106 for options that exclude each other, OPT101 for one that is missing."""
        options, known_options = self.options, self.known_options
        for one, other in _exclusive(self.formats):
            if all(k in options and parse_value(known_options[k], options[k], k) is not False for k in (one, other)):
                raise OptionError("OPT106.both", one=one, other=other, place=self.place)
        for key, option in known_options.items():
            if option.is_required and key not in options:
                raise OptionError(
                    "OPT101",
                    key=key,
                    user=f"the connector '{self.connector.name}'",
                    expectation=option.expectation,
                    place=self.place,
                    hint=_near_key(key, options),
                )


def _exclusive(formats: Mapping[str, Format | None]) -> Iterator[tuple[str, str]]:
    """Pairs of options of the formats that a table cannot have both, by the option that names each format."""
    for key, fmt in formats.items():
        prefix = key.removesuffix("format")
        for one, other in fmt.exclusive if fmt is not None else ():
            yield prefix + one, prefix + other


def _check_schema(
    options: Mapping[str, str],
    connector: Connector,
    formats: Mapping[str, Format | None],
    schema: Fields,
    place: Place | None,
) -> None:
    connector.check_schema(options, schema, place)
    for key, row_format in formats.items():
        format_fields = connector.formatted_fields(options, schema, key)
        if row_format is not None and format_fields is not None:
            row_format.check_columns(format_options(options, key), format_fields, place)
    fmt = next(iter(formats.values()))
    for name, _ in schema:
        if name in connector.reserved:
            owner, meaning = f"a {connector.name} table", connector.reserved[name]
        elif fmt is not None and name in fmt.reserved:
            owner, meaning = f"a table of format '{fmt.name}'", fmt.reserved[name]
        else:
            continue
        raise CatalogError("CAT102.reserved_name", owner=owner, name=name, meaning=meaning, place=place)


# ---- what a table is -------------------------------------------------------------------------------------------


def _speaks(options: Mapping[str, str], role: Role) -> tuple[Connector, Format | None, Mapping[str, str]]:
    """The connector of a table, the format that says which row kinds the table has, and the options of that format.
    Without a format the connector says so."""
    connector, fmt = find_connector(options), find_format(options, role)
    if fmt is None or connector.own_changes:
        return connector, None, options
    return connector, fmt, format_options(options, connector.format_key(options))


def source_changelog_mode(options: Mapping[str, str]) -> ChangelogMode:
    """The row kinds a table emits when it is read."""
    connector, fmt, own = _speaks(options, Role.SOURCE)
    return connector.source_mode(options) if fmt is None else fmt.source_mode(own)


def sink_changelog_mode(options: Mapping[str, str], changelog_mode: ChangelogMode = RETRACT) -> ChangelogMode:
    """The row kinds a table takes when it is written to, of a query with the mode ``changelog_mode``."""
    connector, fmt, own = _speaks(options, Role.SINK)
    return connector.sink_mode(options, changelog_mode) if fmt is None else fmt.sink_mode(own, changelog_mode)


def source_gives_key_deletes(options: Mapping[str, str]) -> bool:
    """Whether only the key is right in the deleted rows that a table emits."""
    connector, fmt, own = _speaks(options, Role.SOURCE)
    return connector.gives_key_deletes(options) if fmt is None else fmt.key_deletes(own)


def sink_takes_key_deletes(options: Mapping[str, str]) -> bool:
    """Whether deleted rows of which only the key is right are enough for a table that is written to."""
    connector, fmt, own = _speaks(options, Role.SINK)
    return connector.takes_key_deletes(options) if fmt is None else fmt.key_deletes(own)


def metadata_columns(options: Mapping[str, str]) -> dict[str, LogicalType]:
    """Metadata key to type of what the source can read besides its columns."""
    rows = list(find_connector(options).metadata)
    fmt = find_format(options, Role.SOURCE)
    if fmt is not None and rows:
        rows += [(f"value.{key}", text) for key, text in fmt.metadata]
    return {key: parse_type(text) for key, text in rows}


def partitions_of(options: Mapping[str, str], partition_keys: Sequence[str]) -> list[dict[str, str | None]] | None:
    """The partitions that a table has now; None if its connector does not take their choice, or when they cannot be
    listed."""
    connector = find_connector(options)
    if "PartitionPushDown" not in connector.abilities or not partition_keys:
        return None
    return connector.partitions(options, partition_keys)


def default_partition(options: Mapping[str, str]) -> str:
    """What stands for NULL in the name of a partition of a table."""
    connector, key = find_connector(options), "partition.default-name"
    has_option = any(option.key == key for option in connector.options)
    return str(connector.value(options, key)) if has_option else "NULL"
