"""Properties that an Iceberg table can be created with, as options of the table.

Source: the table properties of Iceberg's specification. Those with which the library would import a class are refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from stateplan.common.errors import OptionError
from stateplan.common.options import Option, OptionType, Role, accepted_value, flag
from stateplan.connectors.iceberg.access import CODE_KEYS
from stateplan.connectors.iceberg.layout import ORDERING, PARTITIONING

_PREFIXES = {
    "write.": "how files are written",
    "commit.": "how commits are made",
    "history.": "how long snapshots stay",
    "read.": "how other engines read the table",
}
FORMAT_VERSION = "format-version"

_FORMAT = Option(
    FORMAT_VERSION,
    OptionType.ENUM,
    "Version of the format of a table that is created.",
    default="2",
    values=("2", "3"),
    only_default="the library does not write version 3",
)

PROPERTIES = (
    _FORMAT,
    *(
        Option(f"{prefix}*", OptionType.STRING, f"Properties of a table that is created: {topic}.")
        for prefix, topic in _PREFIXES.items()
    ),
    Option(
        PARTITIONING,
        OptionType.STRING,
        "Hidden partitions of a table that is created, behind those of PARTITIONED BY: `days(at), bucket(16, id)`. "
        "Also `years`, `months`, `hours` and `truncate(4, name)`.",
    ),
    Option(
        ORDERING,
        OptionType.STRING,
        "Order of the rows in each file of a table that is created: `region, at DESC NULLS LAST`.",
    ),
)
"""The options that say how a table is created."""

EXPIRES = "expire-snapshots"

WRITE_OPTIONS = (
    flag(
        EXPIRES,
        "Whether the job removes old snapshots from the metadata of the table, by its properties "
        "`history.expire.max-snapshot-age-ms` (5 days) and `history.expire.min-snapshots-to-keep` (1). Files stay.",
        role=Role.SINK,
    ),
    Option(
        "write.upsert.enabled",
        OptionType.BOOLEAN,
        "Whether rows replace those with the same primary key.",
        role=Role.SINK,
        no_effect="a table with a primary key replaces rows by key, and one without appends them",
    ),
)


def properties_of(options: Mapping[str, str]) -> dict[str, str]:
    """The properties among the options of a table.

    Raises:
        OptionError: OPT105, OPT107, a version of the format that is none, or that cannot be written; OPT175, a property
            names code.
    """
    properties = {
        key: text for key, text in options.items() if key.startswith(tuple(_PREFIXES)) or key == FORMAT_VERSION
    }
    for key in properties:
        if key in CODE_KEYS or key.endswith(("-impl", ".impl")):
            raise OptionError("OPT175.code", key=key)
    if FORMAT_VERSION in properties:
        accepted_value(_FORMAT, properties[FORMAT_VERSION], FORMAT_VERSION)
    return properties
