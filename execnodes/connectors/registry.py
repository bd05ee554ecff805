"""The table of connectors and formats, and the checks of a table's options.

Importing this loads no engine: decoders and encoders import theirs when they are made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from stateplan.execnodes.changelog import INSERT_ONLY, MODES, RETRACT, ChangelogMode, RowKind
from stateplan.execnodes.connectors import blackhole, datagen, filesystem, print, replay  # noqa: A004 - Flink's names
from stateplan.execnodes.connectors.formats import (
    canal_json,
    csv,
    debezium_json,
    json,
    maxwell_json,
    ogg_json,
    op_json,
    parquet,
)
from stateplan.execnodes.connectors.formats.base import check_types
from stateplan.execnodes.connectors.options import Connector, Format, Option, Role, parse_value
from stateplan.execnodes.errors import CatalogError, OptionError, Place, nearest
from stateplan.execnodes.types import LogicalType, parse_type

if TYPE_CHECKING:
    from stateplan.execnodes.connectors.formats.base import Decoder, Encoder
    from stateplan.execnodes.connectors.partitions import Partition

_FORMAT_MODULES: dict[str, ModuleType] = {
    m.FORMAT.name: m for m in (json, csv, parquet, debezium_json, canal_json, maxwell_json, ogg_json, op_json)
}

CONNECTORS: dict[str, Connector] = {
    m.CONNECTOR.name: m.CONNECTOR for m in (filesystem, datagen, print, blackhole, replay)
}
"""Connector name to its row."""

FORMATS: dict[str, Format] = {name: m.FORMAT for name, m in _FORMAT_MODULES.items()}
"""Format name to its row."""

Fields = Sequence[tuple[str, LogicalType]]

_EXCLUSIVE = (
    ("json.fail-on-missing-field", "json.ignore-parse-errors"),
    ("csv.disable-quote-character", "csv.quote-character"),
)
"""Options that a table cannot have both."""


def _listing(names: Sequence[str]) -> str:
    return ", ".join(f"'{n}'" for n in names)


def _role(role: Role | str) -> Role:
    return role if isinstance(role, Role) else Role(role)


def find_connector(options: Mapping[str, str], place: Place | None = None) -> Connector:
    """The connector of a table.

    Raises:
        OptionError: OPT101, no ``connector`` option; OPT102, unknown connector.
    """
    name = options.get("connector")
    if name is None:
        raise OptionError(
            "OPT101.find_connector",
            listing=_listing(list(CONNECTORS)),
            place=place,
            hint=_near_key("connector", options),
        )
    connector = CONNECTORS.get(name)
    if connector is None:
        raise OptionError(
            "OPT102", name=name, listing=_listing(list(CONNECTORS)), place=place, hint=nearest(name, CONNECTORS)
        )
    return connector


def find_format(options: Mapping[str, str], role: Role | str, place: Place | None = None) -> Format | None:
    """The format of a table in a role; None for a connector that has no formats.

    Raises:
        OptionError: OPT101, no ``format`` option; OPT103, unknown format, or one the connector does not take.
    """
    connector = find_connector(options, place)
    if not connector.formats:
        return None
    names = connector.source_formats if _role(role) is Role.SOURCE else connector.sink_formats
    name = options.get("format")
    if name is None:
        raise OptionError(
            "OPT101.find_format",
            name=connector.name,
            listing=_listing(names),
            place=place,
            hint=_near_key("format", options),
        )
    if name not in names:
        what = (
            f"unknown format '{name}'"
            if name not in FORMATS
            else (f"the connector '{connector.name}' has no format '{name}'")
        )
        raise OptionError("OPT103", problem=what, listing=_listing(names), place=place, hint=nearest(name, names))
    return FORMATS[name]


def _near_key(key: str, options: Mapping[str, str]) -> str | None:
    """A hint when one of the written keys looks like the missing one."""
    hint = nearest(key, options)
    return f"the table has {hint.removeprefix('did you mean ').removesuffix('?')}" if hint else None


def _match(key: str, table: Mapping[str, Option]) -> Option | None:
    """The row for a written key; ``fields.a.b.kind`` matches ``fields.#.kind``."""
    if key in table:
        return table[key]
    if key.startswith("fields.") and key.count(".") >= 2:
        return table.get("fields.#." + key.rsplit(".", 1)[1])
    return None


def _known(options: Mapping[str, str], connector: Connector, fmt: Format | None) -> dict[str, Option]:
    known = {o.key: o for o in connector.options}
    if fmt is not None:
        known |= {f"{fmt.name}.{o.key}": o for o in fmt.options}
    return known


def validate_table(
    options: Mapping[str, str], role: Role | str, place: Place | None = None, schema: Fields | None = None
) -> tuple[str, ...]:
    """Checks the options of a table that is about to be used.

    Args:
        options: the table's options as written.
        role: what it is used as: ``source`` or ``sink``.
        place: where the table, or its use, is written.
        schema: name and type of the physical columns, to check what depends on them; None to leave that out.

    Returns:
        Notes for the user: options that are accepted but change nothing here, each with its reason.

    Raises:
        OptionError: OPT101 missing option, OPT102 unknown connector, OPT103 unknown format, OPT104 unknown option,
            OPT105 malformed value, OPT106 options that exclude each other, OPT107 a value that this runtime cannot
            honour, OPT108 an option of a column that the schema does not have or that does not fit its type.
        CatalogError: CAT101, the connector cannot be used in this role; CAT102, a column type that the connector or
            its format cannot hold.
    """
    connector = find_connector(options, place)
    wanted = _role(role)
    if wanted not in connector.roles:
        able = [c.name for c in CONNECTORS.values() if wanted in c.roles]
        verb, other = ("read", "write to") if wanted is Role.SOURCE else ("written to", "read")
        raise CatalogError(
            "CAT101",
            name=connector.name,
            verb=verb,
            value=wanted.value,
            listing=_listing(able),
            roles_value=connector.roles[0].value,
            other=other,
            place=place,
        )
    fmt = find_format(options, wanted, place)
    known = _known(options, connector, fmt)
    notes = []
    for key, text in options.items():
        if key == "connector" or (key == "format" and fmt is not None):
            continue
        option = _match(key, known)
        if option is None:
            names = sorted([*known, *(("format",) if fmt else ())])
            owner = f"connector '{connector.name}'" + (f" with format '{fmt.name}'" if fmt else "")
            raise OptionError(
                "OPT104",
                key=key,
                owner=owner,
                place=place,
                expected="one of " + ", ".join(names) if names else "no options",
                hint=nearest(key, names),
            )
        value = parse_value(option, text, key, place)
        if option.refused and value != option.default:
            raise OptionError("OPT107", key=key, text=text, refused=option.refused, place=place)
        if option.no_effect:
            notes.append(f"the option '{key}' changes nothing here: {option.no_effect}")
    for one, other in _EXCLUSIVE:
        if known.get(one) and known.get(other) and all(_is_set(k, known, options) for k in (one, other)):
            raise OptionError("OPT106.validate_table", one=one, other=other, place=place)
    for key, option in known.items():
        if option.required and key not in options:
            raise OptionError(
                "OPT101.validate_table",
                key=key,
                name=connector.name,
                expectation=option.expectation,
                place=place,
                hint=_near_key(key, options),
            )
    if schema is not None:
        _check_schema(options, connector, fmt, schema, place)
    return tuple(notes)


def _is_set(key: str, known: Mapping[str, Option], options: Mapping[str, str]) -> bool:
    """Whether an option is written, and for a boolean is true."""
    return key in options and parse_value(known[key], options[key], key) is not False


def _check_schema(
    options: Mapping[str, str], connector: Connector, fmt: Format | None, schema: Fields, place: Place | None
) -> None:
    if connector is datagen.CONNECTOR:
        datagen.column_plans(options, schema, place)
    if fmt is not None:
        check_types(schema, fmt, place)
    taken: dict[str, tuple[str, str]] = {}
    if connector is replay.CONNECTOR:
        taken["@at"] = ("a replay table", "the time of arrival")
    if fmt is op_json.FORMAT:
        taken["_op"] = ("a table of format 'op-json'", "the kind of the change")
    for name, _ in schema:
        if name in taken:
            owner, meaning = taken[name]
            raise CatalogError("CAT102.check_schema", owner=owner, name=name, meaning=meaning, place=place)


def source_changelog_mode(options: Mapping[str, str]) -> ChangelogMode:
    """The row kinds a table gives when it is read."""
    fmt = find_format(options, Role.SOURCE)
    if fmt is op_json.FORMAT:
        return MODES[_mode(options)]
    return INSERT_ONLY if fmt is None or fmt.source_changes is None else fmt.source_changes


def sink_changelog_mode(options: Mapping[str, str], asked: ChangelogMode = RETRACT) -> ChangelogMode:
    """The row kinds a table takes when it is written to, of a query that gives ``asked``."""
    fmt = find_format(options, Role.SINK)
    if fmt is op_json.FORMAT:
        return MODES[_mode(options)]
    if fmt is not None:
        return asked if fmt.sink_changes is None else fmt.sink_changes
    connector = find_connector(options)
    if connector is blackhole.CONNECTOR:
        return asked - {RowKind.UPDATE_BEFORE}
    says = any(o.key == "changelog-mode" for o in connector.options)
    mode = option_value(options, "changelog-mode") if says else None
    return asked if mode is None else MODES[str(mode)]


def _mode(options: Mapping[str, str]) -> str:
    return str(option_value(options, "op-json.mode"))


def source_gives_key_deletes(options: Mapping[str, str]) -> bool:
    """Whether only the key is right in the deleted rows that a table gives."""
    return find_format(options, Role.SOURCE) is op_json.FORMAT and _mode(options) == "upsert-key-delete"


def sink_takes_key_deletes(options: Mapping[str, str]) -> bool:
    """Whether deleted rows of which only the key is right are enough for a table that is written to."""
    if find_format(options, Role.SINK) is op_json.FORMAT:
        return _mode(options) == "upsert-key-delete"
    return find_connector(options) is print.CONNECTOR and options.get("changelog-mode") == "upsert-key-delete"


def source_abilities(options: Mapping[str, str]) -> frozenset[str]:
    """The push-downs the source takes, as the plan names them (``ProjectPushDown``, ``FilterPushDown``, ...)."""
    return find_connector(options).abilities


def sink_abilities(options: Mapping[str, str]) -> frozenset[str]:
    """What the sink can be asked for, as the plan names it (``Partitioning``, ``Overwrite``, ``Bucketing``)."""
    return find_connector(options).sink_abilities


def writable_metadata(options: Mapping[str, str]) -> dict[str, LogicalType]:
    """Metadata key to type of what the sink can write besides its columns."""
    return {key: parse_type(text) for key, text in find_connector(options).writable}


def supports_projection(options: Mapping[str, str]) -> bool:
    """Whether the planner may have the source read only some of its columns."""
    return "ProjectPushDown" in source_abilities(options)


def metadata_columns(options: Mapping[str, str]) -> dict[str, LogicalType]:
    """Metadata key to type of what the source can read besides its columns."""
    rows = list(find_connector(options).metadata)
    fmt = find_format(options, Role.SOURCE)
    if fmt is not None and rows:
        rows += [(f"value.{key}", text) for key, text in fmt.metadata]
    return {key: parse_type(text) for key, text in rows}


def is_bounded(options: Mapping[str, str]) -> bool:
    """Whether a source ends by itself."""
    name = find_connector(options).name
    if name == "filesystem":
        return "source.monitor-interval" not in options
    if name == "datagen":
        return "number-of-rows" in options or any(
            v == "sequence" for k, v in options.items() if k.startswith("fields.") and k.endswith(".kind")
        )
    return True


def option_value(options: Mapping[str, str], key: str) -> object:
    """The parsed value of a connector or format option of a table, or its default when it is not written."""
    connector = find_connector(options)
    known = {o.key: o for o in connector.options}
    for name in connector.formats:
        known |= {f"{name}.{o.key}": o for o in FORMATS[name].options}
    option = _match(key, known)
    if option is None:
        raise OptionError("OPT104.option_value", key=key, name=connector.name)
    return parse_value(option, options[key], key) if key in options else option.default


def make_decoder(
    options: Mapping[str, str],
    fields: Fields,
    projection: Sequence[int],
    metadata: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    partitions: Sequence[Partition] | None = None,
) -> Decoder:
    """The decoder of a table's format; arguments as in :func:`execnodes.connectors.formats.json.make_decoder`.

    Args:
        partition_keys: columns that are not in the files but in their paths.
        partitions: the partitions to read; None for all.
    """
    fmt = find_format(options, Role.SOURCE)
    if fmt is None:
        raise OptionError("OPT103.make_decoder", connector=options["connector"])
    make = _FORMAT_MODULES[fmt.name].make_decoder
    if not partition_keys:
        plain: Decoder = make(options, fields, projection, metadata)
        return plain
    from stateplan.execnodes.connectors.partitions import PartitionedDecoder

    types = dict(fields)
    in_files = [i for i, (name, _) in enumerate(fields) if name not in partition_keys]
    read = [i for i in projection if i in in_files]
    output: list[str | int] = [read.index(i) if i in in_files else fields[i][0] for i in projection]
    return PartitionedDecoder(
        make(options, [fields[i] for i in in_files], [in_files.index(i) for i in read], metadata),
        options["path"],
        tuple((k, types[k]) for k in partition_keys),
        str(option_value(options, "partition.default-name")),
        (*output, *range(len(read), len(read) + len(metadata))),
        source_changelog_mode(options) != INSERT_ONLY,
        None if partitions is None else tuple(tuple(p.items()) for p in partitions),
    )


def partitions_of(options: Mapping[str, str], partition_keys: Sequence[str]) -> list[dict[str, str | None]] | None:
    """The partitions that a table has now; None when its connector does not take their choice, or when they cannot be
    listed."""
    if "PartitionPushDown" not in source_abilities(options) or not partition_keys:
        return None
    from stateplan.execnodes.connectors.partitions import list_partitions

    return list_partitions(options["path"], partition_keys, str(option_value(options, "partition.default-name")))


def make_encoder(options: Mapping[str, str], fields: Fields) -> Encoder:
    """The encoder of a table's format."""
    fmt = find_format(options, Role.SINK)
    if fmt is None:
        raise OptionError("OPT103.make_decoder", connector=options["connector"])
    encoder: Encoder = _FORMAT_MODULES[fmt.name].make_encoder(options, fields)
    return encoder
