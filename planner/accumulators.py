"""The types of accumulators in plans, as Flink's Java classes give them.

Source: the accumulator classes of Flink's aggregate functions, and ``MapView`` and ``ListView``.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from stateplan.common.types import DOUBLE, LogicalType, RowField, type_from_json

Json = dict[str, Any]

_FUNCTIONS = "org.apache.flink.table.runtime.functions.aggregate"
_VIEWS = "org.apache.flink.table.api.dataview"
_DATA = "org.apache.flink.table.data"
_BOXED = {
    "CHAR": f"{_DATA}.StringData",
    "VARCHAR": f"{_DATA}.StringData",
    "DECIMAL": f"{_DATA}.DecimalData",
    "TIMESTAMP_WITHOUT_TIME_ZONE": f"{_DATA}.TimestampData",
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": f"{_DATA}.TimestampData",
    "ARRAY": f"{_DATA}.ArrayData",
    "MULTISET": f"{_DATA}.MapData",
    "MAP": f"{_DATA}.MapData",
    "ROW": f"{_DATA}.RowData",
    "DATE": "java.lang.Integer",
    "TIME_WITHOUT_TIME_ZONE": "java.lang.Integer",
    "INTERVAL_YEAR_MONTH": "java.lang.Integer",
    "INTERVAL_DAY_TIME": "java.lang.Long",
}
"""Java classes of values, where they are not those of the type itself."""

_LONGS = {"conversionClass": "[J", "elementClass": {"conversionClass": "long"}}


def _plain(t: LogicalType) -> LogicalType:
    """The type without being a time attribute."""
    return LogicalType(t.root, t.nullable, precision=t.precision) if t.kind else t


def _map_view(key: LogicalType, value: str, value_class: Json | None = None) -> Json:
    text = f"STRUCTURED<'{_VIEWS}.MapView', `map` MAP<{key}, {value}>>"
    classes: Json = {}
    if key.root in _BOXED:
        classes["keyClass"] = {"conversionClass": _BOXED[key.root]}
    if value_class is not None:
        classes["valueClass"] = value_class
    external: Any = {"logicalType": text, "fields": [{"name": "map", **classes}]} if classes else text
    return {"type": "RAW", "class": f"{_VIEWS}.MapView", "externalDataType": external}


def _list_view(element: LogicalType) -> Json:
    descriptor: Json = {"name": "list", "conversionClass": "java.util.List"}
    if element.root in _BOXED:
        descriptor["elementClass"] = {"conversionClass": _BOXED[element.root]}
    text = f"STRUCTURED<'{_VIEWS}.ListView', `list` ARRAY<{element}>>"
    external = {"logicalType": text, "fields": [descriptor]}
    return {"type": "RAW", "class": f"{_VIEWS}.ListView", "externalDataType": external}


def _structured(name: str, attributes: list[tuple[str, Any]]) -> LogicalType:
    return type_from_json(
        {
            "type": "STRUCTURED_TYPE",
            "implementationClass": f"{_FUNCTIONS}.{name}",
            "attributes": [{"name": n, "attributeType": t} for n, t in attributes],
            "comparison": "EQUALS",
        }
    )


def distinct_map(arguments: Sequence[LogicalType], counts: int) -> LogicalType:
    """The map of distinct values, rows of several arguments: how often each is there, ``counts`` times where several
    calls count by themselves."""
    key = _plain(arguments[0])
    if len(arguments) > 1:
        fields = tuple(RowField(f"f{i}", _plain(t)) for i, t in enumerate(arguments))
        key = LogicalType("ROW", fields=fields)
    if counts > 1:
        return type_from_json(_map_view(key, "ARRAY<BIGINT NOT NULL>", _LONGS))
    return type_from_json(_map_view(key, "BIGINT NOT NULL"))


def extreme(name: str, argument: LogicalType) -> LogicalType:
    """MIN or MAX of what may be retracted: the value, and the map of all values."""
    value = _plain(argument)
    word = name.capitalize()
    return _structured(
        f"{word}WithRetractAggFunction${word}WithRetractAccumulator",
        [(name, value.to_json()), ("mapSize", "BIGINT"), ("map", _map_view(value.not_null(), "BIGINT"))],
    )


def collect_map(argument: LogicalType) -> LogicalType:
    """COLLECT: the map of values and their numbers."""
    view = _map_view(_plain(argument).not_null(), "INT")
    return _structured("CollectAggFunction$CollectAccumulator", [("map", view)])


def list_views(has_separator: bool) -> LogicalType:
    """LISTAGG of what may be retracted: values, and those retracted before they arrived; the separator, where the call
    has one."""
    view = _list_view(LogicalType("VARCHAR", False, length=2147483647))
    name = "ListAggWsWithRetract" if has_separator else "ListAggWithRetract"
    separator = [("delimiter", "VARCHAR(2147483647)")] if has_separator else []
    return _structured(f"{name}AggFunction${name}Accumulator", [("list", view), ("retractList", view), *separator])


def percentile() -> LogicalType:
    """PERCENTILE: the percentages, and the map of values and their numbers."""
    return _structured(
        "PercentileAggFunction$PercentileAccumulator",
        [("percentages", "ARRAY<DOUBLE>"), ("valueCount", _map_view(DOUBLE, "BIGINT"))],
    )


def welford() -> LogicalType:
    """Variances: number, mean and sum of squared differences."""
    return type_from_json(
        f"STRUCTURED<'{_FUNCTIONS}.WelfordM2AggFunction$WelfordM2Accumulator', "
        "`n` BIGINT NOT NULL, `mean` DOUBLE NOT NULL, `m2` DOUBLE NOT NULL>"
    )


_SERIALIZERS = {
    "CHAR": "org.apache.flink.table.runtime.typeutils.StringDataSerializer$StringDataSerializerSnapshot",
    "VARCHAR": "org.apache.flink.table.runtime.typeutils.StringDataSerializer$StringDataSerializerSnapshot",
    **{
        root: f"org.apache.flink.api.common.typeutils.base.{name}Serializer${name}SerializerSnapshot"
        for root, name in (
            ("BOOLEAN", "Boolean"),
            ("TINYINT", "Byte"),
            ("SMALLINT", "Short"),
            ("INTEGER", "Int"),
            ("DATE", "Int"),
            ("BIGINT", "Long"),
            ("FLOAT", "Float"),
            ("DOUBLE", "Double"),
        )
    },
}


def array_list(argument: LogicalType) -> LogicalType | None:
    """ARRAY_AGG: values, and those retracted before they arrived; None for values whose serializer is not known."""
    serializer = _SERIALIZERS.get(argument.root)
    if serializer is None:
        return None
    own = "org.apache.flink.table.runtime.typeutils.LinkedListSerializer$LinkedListSerializerSnapshot"
    snapshot = (
        _utf(own)
        + b"\x00\x00\x00\x03\x00\r\xe7\x04\x00\x00\x00\x03\x01\x00\x14W\xfd\x00\x00\x00\x01\x00\x00\x00\x01"
        + _utf(serializer)
        + b"\x00\x00\x00\x03"
    )
    raw = f"RAW('java.util.LinkedList', '{base64.b64encode(snapshot).decode()}')"
    name = f"{_FUNCTIONS}.ArrayAggFunction$ArrayAggAccumulator"
    return type_from_json(f"STRUCTURED<'{name}', `list` {raw}, `retractList` {raw}>")


def _utf(text: str) -> bytes:
    """``DataOutput.writeUTF``."""
    return len(text).to_bytes(2, "big") + text.encode()
