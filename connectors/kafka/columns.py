"""Which columns of a table are in the key of a message, and which in its value.

Source: Flink's ``KafkaConnectorOptionsUtil.createKeyFormatProjection`` and ``createValueFormatProjection``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stateplan.common.errors import OptionError, Place, nearest
from stateplan.common.options import list_of
from stateplan.connectors.formats.base import Fields


@dataclass(frozen=True)
class Layout:
    """Where the columns of a table are in its messages.

    Attributes:
        key: positions of the columns in the key, in the order of the key.
        value: the same of the value.
        prefix: that the names of the columns in the key have in the table, and not in the key.
    """

    key: tuple[int, ...]
    value: tuple[int, ...]
    prefix: str = ""

    def key_fields(self, fields: Fields) -> Fields:
        """Name and type of the fields of a key.

        Args:
            fields: the physical columns of the table.
        """
        return tuple((fields[i][0].removeprefix(self.prefix), fields[i][1]) for i in self.key)

    def value_fields(self, fields: Fields) -> Fields:
        """The same of a value."""
        return tuple(fields[i] for i in self.value)


def layout_of(
    options: Mapping[str, str], fields: Fields, primary_key: Sequence[str] = (), place: Place | None = None
) -> Layout:
    """The layout of a table.

    Args:
        options: of the table, as written.
        fields: its physical columns.
        primary_key: for a table whose key is its primary key, as with ``upsert-kafka``.
        place: of the table.

    Raises:
        OptionError: OPT140, the options of the key do not go together, or do not fit the columns; OPT105.
    """
    names = [name for name, _ in fields]
    prefix = options.get("key.fields-prefix", "")
    wanted = list(primary_key) or list(list_of(options, "key.fields"))
    if "key.format" not in options:
        if "key.fields" in options:
            raise OptionError("OPT140", key="key.fields", what="the format of the key", place=place)
        wanted = []
    elif not wanted:
        raise OptionError("OPT140", key="key.format", what="the columns of the key", place=place)
    for name in wanted:
        if name not in names:
            raise OptionError("OPT140.unknown", name=name, names=names, place=place, hint=nearest(name, names))
        if not name.startswith(prefix):
            raise OptionError("OPT140.prefix", name=name, prefix=prefix, place=place)
    key = tuple(map(names.index, wanted))
    everything = options.get("value.fields-include", "ALL").upper() == "ALL"
    if everything and prefix:
        raise OptionError("OPT140", key="key.fields-prefix", what="values without the columns of the key", place=place)
    value = tuple(i for i in range(len(names)) if everything or i not in key)
    return Layout(key, value, prefix)
