"""Flink's logical types: the value class, its text and JSON forms, and the matching Polars type.

Source: Flink's ``LogicalType`` and its JSON serde (``LogicalTypeJsonSerializer``). A type is written as text when
all of it is plainly serializable, and as an object as soon as one part is a time attribute, RAW, SYMBOL or
structured type.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import StateplanError, nearest
from stateplan.common.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

MAX_LENGTH = 2147483647

_SIMPLE = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DATE"),
    *("NULL", "DESCRIPTOR", "VARIANT"),
)
_LENGTH = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")
_TEXT_ALIASES = {"STRING": ("VARCHAR", MAX_LENGTH), "BYTES": ("VARBINARY", MAX_LENGTH)}


@dataclass(frozen=True)
class RowField:
    """One field of a ROW type."""

    name: str
    type: LogicalType
    description: str | None = None


_TEXTS = {
    "INTEGER": "INT",
    **dict.fromkeys(_LENGTH, "{0.root}({0.length})"),
    "DECIMAL": "DECIMAL({0.precision}, {0.scale})",
    "TIME_WITHOUT_TIME_ZONE": "TIME({0.precision})",
    "TIMESTAMP_WITHOUT_TIME_ZONE": "TIMESTAMP({0.precision})",
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": "TIMESTAMP({0.precision}) WITH LOCAL TIME ZONE",
    "TIMESTAMP_WITH_TIME_ZONE": "TIMESTAMP({0.precision}) WITH TIME ZONE",
    **dict.fromkeys(("INTERVAL_DAY_TIME", "INTERVAL_YEAR_MONTH"), "INTERVAL {0.resolution}"),
    **dict.fromkeys(("ARRAY", "MULTISET"), "{0.root}<{0.children[0]}>"),
    "MAP": "MAP<{0.children[0]}, {0.children[1]}>",
}
"""How types are written that are not called like their root."""


CONSTRUCTED = frozenset({"ARRAY", "MAP", "MULTISET", "ROW"})
"""Roots of the types that are made of others (Flink's ``LogicalTypeFamily.CONSTRUCTED``)."""


_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
"""Types of whole numbers, from narrow to wide."""


@dataclass(frozen=True)
class LogicalType:
    """One of Flink's logical types.

    Attributes:
        root: Flink's ``LogicalTypeRoot`` name, such as ``INTEGER`` or ``TIMESTAMP_WITHOUT_TIME_ZONE``.
        nullable: whether NULL is a value of it.
        length: the length of CHAR, VARCHAR, BINARY, VARBINARY.
        precision: the precision of DECIMAL, TIME, TIMESTAMPs, and of the seconds (days, years) of an interval.
        scale: the scale of DECIMAL.
        children: element of ARRAY and MULTISET; key and value of MAP.
        fields: of ROW.
        kind: ``ROWTIME`` or ``PROCTIME`` for a time attribute.
        resolution: of an interval, such as ``SECOND`` or ``DAY TO SECOND``.
        extra: a type kept as it is (RAW, STRUCTURED_TYPE, SYMBOL): its text, or the items of its JSON object.
    """

    root: str
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    children: tuple[LogicalType, ...] = ()
    fields: tuple[RowField, ...] = ()
    kind: str | None = None
    resolution: str | None = None
    extra: Any = None

    def not_null(self) -> LogicalType:
        """The same type without NULL."""
        return replace(self, nullable=False)

    def as_nullable(self, nullable: bool = True) -> LogicalType:
        """The same type with the given nullability."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    @property
    def is_numeric(self) -> bool:
        return self.root in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")

    @property
    def is_integer(self) -> bool:
        return self.root in _INTEGERS

    def is_narrower(self, other: LogicalType) -> bool:
        """Whether both are types of whole numbers, and the other one has more of them."""
        both = self.is_integer and other.is_integer
        return both and _INTEGERS.index(self.root) < _INTEGERS.index(other.root)

    @property
    def is_string(self) -> bool:
        return self.root in ("CHAR", "VARCHAR")

    @property
    def is_timestamp(self) -> bool:
        return self.root in ("TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE")

    @cached_property
    def is_text(self) -> bool:
        """Whether the plan writes this type as text (else as an object)."""
        if isinstance(self.extra, str):
            return True
        if self.kind is not None or self.extra is not None or self.root == "SYMBOL" or self.length == 0:
            return False
        return all(c.is_text for c in self.children) and all(
            f.type.is_text and f.description is None for f in self.fields
        )

    def __str__(self) -> str:
        """Flink's ``asSerializableString``, for example ``ROW<`a` INT NOT NULL, `b` VARCHAR(2147483647)>``."""
        return self._text

    @cached_property
    def _text(self) -> str:
        return self._base_text() + ("" if self.nullable else " NOT NULL")

    def _base_text(self) -> str:
        if isinstance(self.extra, str):
            return self.extra
        if self.root == "ROW":
            inner = ", ".join(f"`{f.name.replace('`', '``')}` {f.type}" for f in self.fields)
            return f"ROW<{inner}>"
        return _TEXTS.get(self.root, self.root).format(self)

    def summary(self) -> str:
        """The type as Flink's messages show it: STRING for the longest VARCHAR, time attributes marked."""
        text = self._base_text()
        if self.root == "VARCHAR" and self.length == MAX_LENGTH:
            text = "STRING"
        elif self.root == "VARBINARY" and self.length == MAX_LENGTH:
            text = "BYTES"
        elif self.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
            text = f"TIMESTAMP_LTZ({self.precision})"
        text += "" if self.nullable else " NOT NULL"
        return text + (f" *{self.kind}*" if self.kind else "")

    def to_json(self) -> Any:
        """The plan's form: text where possible, else an object."""
        if self.is_text:
            return str(self)
        if self.extra is not None:
            return _thaw(self.extra)
        out: dict[str, Any] = {"type": self.root}
        if not self.nullable:
            out["nullable"] = False
        if self.root == "ROW":
            descriptions = ({} if f.description is None else {"description": f.description} for f in self.fields)
            names = ({"name": f.name, "fieldType": f.type.to_json()} for f in self.fields)
            out["fields"] = [field | more for field, more in zip(names, descriptions, strict=True)]
        elif self.root == "ARRAY" or self.root == "MULTISET":
            out["elementType"] = self.children[0].to_json()
        elif self.root == "MAP":
            out["keyType"] = self.children[0].to_json()
            out["valueType"] = self.children[1].to_json()
        else:
            own = {"length": self.length, "precision": self.precision, "kind": self.kind}
            out |= {key: value for key, value in own.items() if value is not None}
        return out

    def polars(self) -> pl.DataType:
        """The Polars type that holds values of this type in memory.

        TIMESTAMP(p) is a Datetime in ms (p <= 3) or us (p <= 6), else nanoseconds since 1970 in 128 bits;
        TIMESTAMP_LTZ the same in UTC; day-time intervals are Duration in ms, year-month intervals Int32 months; MAP and
        MULTISET a list of (key, value) structs; a VARIANT the JSON text of
        :mod:`stateplan.common.values.variants`.

        Raises:
            StateplanError: TYPE002, for a type that has no representation (RAW, SYMBOL).
        """
        import polars as pl

        simple: dict[str, pl.DataType] = {
            "BOOLEAN": pl.Boolean(),
            "TINYINT": pl.Int8(),
            "SMALLINT": pl.Int16(),
            "INTEGER": pl.Int32(),
            "BIGINT": pl.Int64(),
            "FLOAT": pl.Float32(),
            "DOUBLE": pl.Float64(),
            "CHAR": pl.String(),
            "VARCHAR": pl.String(),
            "BINARY": pl.Binary(),
            "VARBINARY": pl.Binary(),
            "VARIANT": pl.String(),
            "DATE": pl.Date(),
            "TIME_WITHOUT_TIME_ZONE": pl.Time(),
            "INTERVAL_DAY_TIME": pl.Duration("ms"),
            "INTERVAL_YEAR_MONTH": pl.Int32(),
            "NULL": pl.Null(),
        }
        if self.root in simple:
            return simple[self.root]
        if self.root == "DECIMAL":
            return pl.Decimal(self.precision, self.scale or 0)
        if self.is_timestamp:
            unit = self.time_unit()
            zone = "UTC" if self.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" else None
            return pl.Int128() if unit == "ns" else pl.Datetime(unit, zone)
        if self.root == "ARRAY":
            return pl.List(self.children[0].polars())
        if self.root == "MAP":
            return pl.List(pl.Struct({"key": self.children[0].polars(), "value": self.children[1].polars()}))
        if self.root == "MULTISET":
            return pl.List(pl.Struct({"key": self.children[0].polars(), "value": pl.Int32()}))
        if self.root == "ROW":
            return pl.Struct({f.name: f.type.polars() for f in self.fields})
        raise StateplanError("TYPE002", self_=self)

    def time_unit(self) -> Any:
        """``ms``, ``us`` or ``ns``: the unit a timestamp of this precision is held in."""
        precision = self.precision if self.precision is not None else 6
        return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def row_type(fields: list[tuple[str, LogicalType]], nullable: bool = True) -> LogicalType:
    """ROW<...> of (name, type) pairs."""
    return LogicalType("ROW", nullable, fields=tuple(RowField(n, t) for n, t in fields))


BOOLEAN = LogicalType("BOOLEAN")


def with_a_field(row: LogicalType) -> LogicalType:
    """``row`` as frames hold it: a row without fields has one, so that there is something to count."""
    return row if row.fields else row_type([("", BOOLEAN.not_null())])


TINYINT = LogicalType("TINYINT")
SMALLINT = LogicalType("SMALLINT")
INT = LogicalType("INTEGER")
BIGINT = LogicalType("BIGINT")
FLOAT = LogicalType("FLOAT")
DOUBLE = LogicalType("DOUBLE")
STRING = LogicalType("VARCHAR", length=MAX_LENGTH)
DATE = LogicalType("DATE")
VARIANT = LogicalType("VARIANT")
INSTANT = LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=3)
NULL = LogicalType("NULL")


def _freeze(value: Any) -> Any:
    if isinstance(value, dict):
        return ("{}", tuple((k, _freeze(v)) for k, v in value.items()))
    if isinstance(value, list):
        return ("[]", tuple(_freeze(v) for v in value))
    return value


def _thaw(value: Any) -> Any:
    if isinstance(value, tuple) and len(value) == 2 and value[0] == "{}":
        return {k: _thaw(v) for k, v in value[1]}
    if isinstance(value, tuple) and len(value) == 2 and value[0] == "[]":
        return [_thaw(v) for v in value[1]]
    return value


_KNOWN_OBJECTS = {"TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "TIMESTAMP_WITH_TIME_ZONE"}


def type_from_json(value: Any) -> LogicalType:
    """A type from its JSON form.

    Raises:
        StateplanError: TYPE001, naming what is wrong with the text or object.
    """
    if isinstance(value, str):
        return parse_type(value)
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise StateplanError("TYPE001", value=value, what="type")
    root = value["type"]
    nullable = value.get("nullable", True)
    if not isinstance(nullable, bool):
        raise StateplanError("TYPE001.attribute", value=nullable, key="nullable")
    if root == "ROW" and isinstance(value.get("fields"), list):
        fields = []
        for f in value["fields"]:
            if not isinstance(f, dict) or not isinstance(f.get("name"), str) or "fieldType" not in f:
                raise StateplanError("TYPE001", value=f, what="row field")
            fields.append(RowField(f["name"], type_from_json(f["fieldType"]), f.get("description")))
        return LogicalType("ROW", nullable, fields=tuple(fields))
    if root in ("ARRAY", "MULTISET") and "elementType" in value:
        return LogicalType(root, nullable, children=(type_from_json(value["elementType"]),))
    if root == "MAP" and "keyType" in value and "valueType" in value:
        return LogicalType(
            root, nullable, children=(type_from_json(value["keyType"]), type_from_json(value["valueType"]))
        )
    if root in _KNOWN_OBJECTS and set(value) <= {"type", "nullable", "precision", "kind"}:
        precision = value.get("precision", 6)
        if not isinstance(precision, int) or isinstance(precision, bool):
            raise StateplanError("TYPE001.attribute", value=precision, key="precision")
        kind = value.get("kind")
        if kind not in (None, "ROWTIME", "PROCTIME"):
            raise StateplanError("TYPE001.attribute", value=kind, key="kind")
        return LogicalType(root, nullable, precision=precision, kind=kind)
    if root in _LENGTH and set(value) <= {"type", "nullable", "length"} and type(value.get("length")) is int:
        return LogicalType(root, nullable, length=value["length"])
    if root in ("RAW", "STRUCTURED_TYPE", "SYMBOL", "DISTINCT_TYPE"):
        return LogicalType(root, nullable, extra=_freeze(value))
    raise StateplanError(
        "TYPE001.keys",
        root=root,
        value=", ".join(sorted(value)),
        hint=None if root in _KNOWN_OBJECTS else nearest(root, (*_KNOWN_OBJECTS, "ROW", "ARRAY", "MULTISET", "MAP")),
    )


_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^']|'')*')|([A-Za-z_][A-Za-z_0-9]*)|(\d+)|([<>(),]))")


class _TypeParser:
    """Recursive descent over Flink's type grammar (``LogicalTypeParser``)."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, int]] = []
        pos, end = 0, len(text.rstrip())
        while pos < end:
            m = _TOKEN.match(text, pos)
            if not m:
                raise self.error(pos)
            self.tokens.append((m.group(m.lastindex or 0), m.start(m.lastindex or 0)))
            pos = m.end()
        self.i = 0

    def error(self, pos: int) -> StateplanError:
        return StateplanError("TYPE001.syntax", text=self.text, pos=pos + 1)

    def fail(self) -> StateplanError:
        return self.error(self.tokens[self.i][1] if self.i < len(self.tokens) else len(self.text))

    def peek(self) -> str:
        return self.tokens[self.i][0].upper() if self.i < len(self.tokens) else ""

    def take(self, *want: str) -> str:
        if self.i >= len(self.tokens) or (want and self.peek() not in want):
            raise self.fail()
        self.i += 1
        return self.tokens[self.i - 1][0]

    def skip(self, *words: str) -> bool:
        if [t[0].upper() for t in self.tokens[self.i : self.i + len(words)]] == list(words):
            self.i += len(words)
            return True
        return False

    def number(self) -> int:
        text = self.take()
        if not text.isdigit():
            self.i -= 1
            raise self.fail()
        return int(text)

    def arguments(self, *defaults: int) -> list[int]:
        values = list(defaults)
        if self.skip("("):
            values[0] = self.number()
            for k in range(1, len(defaults)):
                if self.skip(","):
                    values[k] = self.number()
            self.take(")")
        return values

    def parse(self, depth: int = 0) -> LogicalType:
        if depth > 100:
            raise StateplanError("TYPE001.nesting")
        base = self.base(depth)
        if self.skip("NOT", "NULL"):
            return base.not_null()
        self.skip("NULL")
        return base

    def base(self, depth: int) -> LogicalType:
        word = self.take().upper()
        if word in ("INT", "INTEGER"):
            return INT
        if word in _SIMPLE:
            if word == "DOUBLE":
                self.skip("PRECISION")
            return LogicalType(word)
        if word in _TEXT_ALIASES:
            root, length = _TEXT_ALIASES[word]
            return LogicalType(root, length=length)
        if word in _LENGTH:
            return LogicalType(word, length=self.arguments(1)[0])
        if word in ("DECIMAL", "DEC", "NUMERIC"):
            precision, scale = self.arguments(10, 0)
            return LogicalType("DECIMAL", precision=precision, scale=scale)
        if word == "TIME":
            precision = self.arguments(0)[0]
            self.skip("WITHOUT", "TIME", "ZONE")
            return LogicalType("TIME_WITHOUT_TIME_ZONE", precision=precision)
        if word == "TIMESTAMP":
            precision = self.arguments(6)[0]
            if self.skip("WITH", "LOCAL", "TIME", "ZONE"):
                return LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=precision)
            if self.skip("WITH", "TIME", "ZONE"):
                return LogicalType("TIMESTAMP_WITH_TIME_ZONE", precision=precision)
            self.skip("WITHOUT", "TIME", "ZONE")
            return LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=precision)
        if word == "TIMESTAMP_LTZ":
            return LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=self.arguments(6)[0])
        if word == "INTERVAL":
            return self.interval()
        if word in ("ARRAY", "MULTISET"):
            self.take("<")
            child = self.parse(depth + 1)
            self.take(">")
            return LogicalType(word, children=(child,))
        if word == "MAP":
            self.take("<")
            key = self.parse(depth + 1)
            self.take(",")
            value = self.parse(depth + 1)
            self.take(">")
            return LogicalType("MAP", children=(key, value))
        if word == "ROW":
            return self.row(depth)
        if word in ("STRUCTURED", "RAW"):
            return self.verbatim(word)
        self.i -= 1
        raise self.fail()

    def verbatim(self, word: str) -> LogicalType:
        """A type whose text is kept as it is: STRUCTURED<...> or RAW('class', 'serializer')."""
        start = self.tokens[self.i - 1][1]
        depth = 0
        while True:
            depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(self.take(), 0)
            if depth == 0:
                break
        last, at = self.tokens[self.i - 1]
        root = "STRUCTURED_TYPE" if word == "STRUCTURED" else "RAW"
        return LogicalType(root, extra=self.text[start : at + len(last)])

    def interval(self) -> LogicalType:
        start = self.i
        while self.peek() in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "TO"):
            self.take()
            self.arguments(0)
        words = self.text[
            self.tokens[start][1] : self.tokens[self.i][1] if self.i < len(self.tokens) else len(self.text)
        ]
        resolution = words.strip()
        root = "INTERVAL_YEAR_MONTH" if resolution.upper().startswith(("YEAR", "MONTH")) else "INTERVAL_DAY_TIME"
        if not resolution:
            raise self.fail()
        return LogicalType(root, resolution=resolution)

    def row(self, depth: int) -> LogicalType:
        closer = ">" if self.take("<", "(") == "<" else ")"
        fields: list[RowField] = []
        while self.peek() != closer:
            if fields:
                self.take(",")
            name = self.take()
            name = name[1:-1].replace("``", "`") if name.startswith("`") else name
            field_type = self.parse(depth + 1)
            description = None
            if self.i < len(self.tokens) and self.tokens[self.i][0].startswith("'"):
                description = self.take()[1:-1].replace("''", "'")
            fields.append(RowField(name, field_type, description))
        self.take(closer)
        return LogicalType("ROW", fields=tuple(fields))


def parse_type(text: str) -> LogicalType:
    """A type from Flink's text form.

    Raises:
        StateplanError: TYPE001, with the character where reading stopped.
    """
    parser = _TypeParser(text)
    result = parser.parse()
    if parser.i != len(parser.tokens):
        raise parser.fail()
    return result
