"""How ``datagen`` makes each column: the options ``fields.*`` of a table, read and checked."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from decimal import Decimal, InvalidOperation
from typing import Any

from stateplan.common.errors import CatalogError, OptionError, Place, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Option, OptionType, flag, parse_value
from stateplan.common.types import CONSTRUCTED, INT, LogicalType

FIELD_OPTIONS = (
    Option(
        "fields.#.kind", OptionType.ENUM, "Generator of the column.", default="random", values=("random", "sequence")
    ),
    Option("fields.#.min", OptionType.STRING, "Minimum random value. Default: the minimum of the type."),
    Option("fields.#.max", OptionType.STRING, "Maximum random value. Default: the maximum of the type."),
    Option(
        "fields.#.max-past", OptionType.DURATION, "Maximum age of random timestamps, relative to the start.", default=0
    ),
    Option(
        "fields.#.length",
        OptionType.INTEGER,
        "Length of random strings and bytes (default 100), or number of elements of arrays and maps (default 3).",
        minimum=1,
    ),
    flag("fields.#.var-len", "Whether the length is random, up to 'length'."),
    Option("fields.#.null-rate", OptionType.FLOAT, "Fraction of NULL values, from 0 to 1.", default=0.0),
    Option("fields.#.start", OptionType.STRING, "First value of a sequence."),
    Option("fields.#.end", OptionType.STRING, "Last value of a sequence."),
)
"""The options of a column; ``#`` stands for its name."""

_OPTIONS = {o.key.removeprefix("fields.#."): o for o in FIELD_OPTIONS}
_DEFAULT_LENGTH = 100
_DEFAULT_SIZE = 3
_LARGEST_FLOAT = 3.4028234663852886e38

_INTEGER_RANGES = {
    "TINYINT": (-128, 127),
    "SMALLINT": (-(1 << 15), (1 << 15) - 1),
    "INTEGER": (-(1 << 31), (1 << 31) - 1),
    "BIGINT": (-(1 << 63), (1 << 63) - 1),
    "INTERVAL_YEAR_MONTH": (0, 120000),
    "INTERVAL_DAY_TIME": (0, 1 << 53),
}
_FLOAT_RANGES = {"FLOAT": (0.0, _LARGEST_FLOAT), "DOUBLE": (0.0, sys.float_info.max)}
_NUMBERS = frozenset({*_INTEGER_RANGES, *_FLOAT_RANGES, "DECIMAL"})
_SEQUENCES = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "CHAR", "VARCHAR"})
_LENGTHS = frozenset({"CHAR", "VARCHAR", "BINARY", "VARBINARY"})
_INSTANTS = frozenset({"TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE"})
_NOW = frozenset({"DATE", "TIME_WITHOUT_TIME_ZONE"})
_SUPPORTED = _NUMBERS | _LENGTHS | _INSTANTS | _NOW | CONSTRUCTED | {"BOOLEAN"}


@dataclass(frozen=True)
class ColumnPlan:
    """How the values of one column, or of a part of one, are made.

    Attributes:
        declared_type: its type.
        sequence: first and last value, or None for random values.
        low, high: range of random numbers.
        length: the length of texts and bytes, or number of elements.
        variable: whether lengths are random.
        max_past: milliseconds before the start that timestamps go.
        null_rate: share of NULLs.
        parts: the parts of containers: element; key and value; fields.
    """

    declared_type: LogicalType
    sequence: tuple[int, int] | None = None
    low: Any = None
    high: Any = None
    length: int = 0
    variable: bool = False
    max_past: int = 0
    null_rate: float = 0.0
    parts: tuple[ColumnPlan, ...] = field(default=())


def _allowed_kinds(data_type: LogicalType, kind: str) -> list[str]:
    """Option names that a column of a type takes."""
    root = data_type.root
    if kind == "sequence":
        return ["kind", "start", "end"]
    out = ["kind", "null-rate"]
    if root in _NUMBERS:
        out += ["min", "max"]
    if root in _LENGTHS:
        out += ["length", "var-len"]
    if root in ("ARRAY", "MAP", "MULTISET"):
        out += ["length"]
    if root in _INSTANTS:
        out += ["max-past"]
    return out


def _parts(data_type: LogicalType) -> list[tuple[str, LogicalType]]:
    """Name in the option key and type of what a container holds."""
    if data_type.root == "ARRAY":
        return [("element", data_type.children[0])]
    if data_type.root == "MULTISET":
        return [("element", data_type.children[0])]
    if data_type.root == "MAP":
        return [("key", data_type.children[0]), ("value", data_type.children[1])]
    return [(f.name, f.type) for f in data_type.fields]


class _Planner:
    """Reads the ``fields.*`` options of a table into plans, and keeps account of the keys it has seen."""

    def __init__(self, options: Mapping[str, str], place: Place | None) -> None:
        self.options = {k: v for k, v in options.items() if k.startswith("fields.")}
        self.place = place
        self.known_keys: list[str] = []

    def number(self, text: str, key: str, data_type: LogicalType) -> Any:
        try:
            if data_type.root in _INTEGER_RANGES:
                low, high = _INTEGER_RANGES[data_type.root]
                value: Any = int(text)
                if not low <= value <= high:
                    raise ValueError(text)
                return value
            return Decimal(text) if data_type.root == "DECIMAL" else float(text)
        except (ValueError, InvalidOperation) as error:
            raise OptionError("OPT105", text=text, key=key, declared=data_type.summary(), place=self.place) from error

    def plan(self, data_type: LogicalType, prefix: str) -> ColumnPlan:
        if data_type.root not in _SUPPORTED:
            raise CatalogError("CAT102.generated", declared=data_type.summary(), place=self.place)
        kind = self.value(prefix, "kind")
        names = _allowed_kinds(data_type, kind)
        self.known_keys += [prefix + name for name in names]
        if kind == "sequence":
            return ColumnPlan(data_type, sequence=self.sequence(data_type, prefix))
        low, high = self.range(data_type, prefix)
        parts = (
            tuple(self.plan(part, f"{prefix}{name}.") for name, part in _parts(data_type))
            if (data_type.root in CONSTRUCTED)
            else ()
        )
        if data_type.root == "MULTISET":
            parts += (ColumnPlan(INT, low=1, high=10),)
        rate = self.value(prefix, "null-rate")
        if not 0 <= rate <= 1:
            raise OptionError(
                "OPT105",
                text=self.options[prefix + "null-rate"],
                key=prefix + "null-rate",
                place=self.place,
                expected="a number from 0 to 1",
            )
        return ColumnPlan(
            data_type,
            low=low,
            high=high,
            length=self.length(data_type, prefix),
            variable=self.value(prefix, "var-len"),
            max_past=self.value(prefix, "max-past"),
            null_rate=rate,
            parts=parts,
        )

    def value(self, prefix: str, name: str) -> Any:
        option = _OPTIONS[name]
        key = prefix + name
        return parse_value(option, self.options[key], key, self.place) if key in self.options else option.default

    def sequence(self, data_type: LogicalType, prefix: str) -> tuple[int, int]:
        if data_type.root not in _SEQUENCES:
            raise OptionError("OPT108", declared=data_type.summary(), prefix=prefix, place=self.place)
        ends = []
        for name in ("start", "end"):
            key = prefix + name
            if key not in self.options:
                raise OptionError(
                    "OPT101", key=key, user="the sequence", expectation="a whole number", place=self.place
                )
            try:
                ends.append(int(self.options[key]))
            except ValueError as error:
                raise OptionError(
                    "OPT105", key=key, text=self.options[key], place=self.place, expected="a whole number"
                ) from error
        if ends[1] < ends[0]:
            raise OptionError("OPT106", prefix=prefix, low="start", high="end", ends=ends, place=self.place)
        if data_type.root in _INTEGER_RANGES:
            low, high = _INTEGER_RANGES[data_type.root]
            if ends[0] < low or ends[1] > high:
                raise OptionError("OPT105.ends", ends=ends, type=data_type, low=low, high=high, place=self.place)
        return ends[0], ends[1]

    def range(self, data_type: LogicalType, prefix: str) -> tuple[Any, Any]:
        if data_type.root not in _NUMBERS:
            return None, None
        limits: tuple[Any, Any]
        if data_type.root == "DECIMAL":
            limits = Decimal(0), Decimal((0, (9,) * (data_type.precision or 10), -(data_type.scale or 0)))
        else:
            limits = _INTEGER_RANGES.get(data_type.root) or _FLOAT_RANGES[data_type.root]
        ends: list[Any] = [
            self.number(self.options[prefix + name], prefix + name, data_type)
            if prefix + name in self.options
            else default
            for name, default in zip(("min", "max"), limits, strict=True)
        ]
        if ends[0] > ends[1]:
            raise OptionError("OPT106", prefix=prefix, ends=ends, low="min", high="max", place=self.place)
        return ends[0], ends[1]

    def length(self, data_type: LogicalType, prefix: str) -> int:
        own_length = self.value(prefix, "length")
        if data_type.root not in _LENGTHS:
            return own_length if own_length is not None else _DEFAULT_SIZE
        key, limit = prefix + "length", data_type.length or 1
        if own_length is not None and data_type.root in ("CHAR", "BINARY"):
            raise OptionError("OPT108.fixed_length", key=key, declared=data_type.summary(), place=self.place)
        if own_length is not None and own_length > limit:
            raise OptionError(
                "OPT108.too_long",
                key=key,
                wanted=own_length,
                declared=data_type.summary(),
                limit=limit,
                place=self.place,
            )
        if data_type.root in ("CHAR", "BINARY"):
            return limit
        return min(_DEFAULT_LENGTH, limit) if own_length is None else int(own_length)


def column_plans(
    options: Mapping[str, str], fields: Sequence[tuple[str, LogicalType]], place: Place | None = None
) -> tuple[ColumnPlan, ...]:
    """How to make every column.

    Raises:
        OptionError: OPT101, OPT105, OPT106 or OPT108, for options that are missing, malformed, exclude each other, or
            do not go with the column; CatalogError: CAT102, for a type that cannot be made.
    """
    planner = _Planner(options, place)
    plans = tuple(planner.plan(data_type, f"fields.{name}.") for name, data_type in fields)
    for key in planner.options:
        if key not in planner.known_keys:
            raise OptionError(
                "OPT108.no_column",
                key=key,
                known=planner.known_keys,
                place=place,
                hint=nearest(key, planner.known_keys),
            )
    return plans
