"""Constants and types as Flink's descriptions of operators show them.

Source: Calcite's ``RexLiteral``.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from stateplan.common.types import LogicalType
from stateplan.functions.rex import Literal
from stateplan.planner.expressions.approximate import Approximate, scientific

CALCITE_NAMES = {
    "TIMESTAMP_WITHOUT_TIME_ZONE": "TIMESTAMP",
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
    "TIME_WITHOUT_TIME_ZONE": "TIME",
}


def calcite_type(t: LogicalType, charset: str = "") -> str:
    """The type as Calcite writes it, without NOT NULL: ``INTEGER``, ``VARCHAR(10)``, ``INTERVAL DAY``.

    Args:
        charset: what follows the type of a text.
    """
    if t.kind is not None:
        return t.as_nullable().summary()
    name = CALCITE_NAMES.get(t.root, t.root)
    if t.length is not None:
        return f"{name}({t.length}){charset if t.is_string else ''}"
    if t.root == "DECIMAL":
        return f"DECIMAL({t.precision}, {t.scale})"
    if t.precision is not None and t.root in CALCITE_NAMES:
        return f"{name}({t.precision})"
    if t.root.startswith("INTERVAL"):
        return "INTERVAL " + _interval_units(t)
    if t.root in ("ARRAY", "MULTISET"):
        return f"{_nested(t.children[0], charset)} {t.root}"
    if t.root == "MAP":
        return f"({_nested(t.children[0], charset)}, {_nested(t.children[1], charset)}) MAP"
    if t.root == "ROW":
        fields = ", ".join(f"{_nested(f.type, charset)} {f.name}" for f in t.fields)
        return f"RecordType:peek_no_expand({fields})"
    return name


def _nested(t: LogicalType, charset: str) -> str:
    return calcite_type(t, charset) + ("" if t.nullable else " NOT NULL")


def _interval_units(t: LogicalType) -> str:
    """``DAY(2) TO SECOND(6)`` as ``DAY TO SECOND``."""
    words = []
    for part in (t.resolution or "").split(" TO "):
        name, _, digits = part.partition("(")
        default = {"SECOND": "6"}.get(name, "2")
        words.append(name if not digits or digits.rstrip(")") == default else part)
    return " TO ".join(words)


def _number(value: Any, t: LogicalType) -> str:
    if isinstance(value, Approximate):
        return scientific(value)
    return format(Decimal(str(value)), "f") if t.root == "DECIMAL" else str(value)


_SYMBOLS = {
    "JSON_QUERY_ON_EMPTY_OR_ERROR": "SqlJsonQueryEmptyOrErrorBehavior[{}]",
    "JSON_VALUE_ON_EMPTY_OR_ERROR": "{}",
    "JSON_EMPTY_OR_ERROR": "ON {}",
    "JSON_ON_NULL": "{}_ON_NULL",
}
"""How Calcite shows the values of an enum, where it does not show their names."""
_NEW_NAMES = {("JSON_QUERY_WRAPPER", "CONDITIONAL_ARRAY"): "WITH_CONDITIONAL_ARRAY"}
"""Values whose names in plans are not Calcite's."""


def _symbol(literal: Literal) -> str:
    name = str(literal.symbol)
    return _NEW_NAMES.get((name, str(literal.value)), _SYMBOLS.get(name, "{}").format(literal.value))


def plain_literal(literal: Literal) -> str:
    """A constant in the description of an operator."""
    t, value = literal.type, literal.value
    if literal.sarg is not None:
        return _sarg(literal)
    if literal.symbol is not None:
        return _symbol(literal)
    if value is None:
        return f"null:{calcite_type(t).replace(' NOT NULL', '')}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if t.is_string:
        return f"'{value}'"
    if t.is_numeric:
        return _number(value, t)
    if t.root.startswith("INTERVAL"):
        return f"{value}:{calcite_type(t)}"
    if t.root in ("BINARY", "VARBINARY"):
        import base64

        return f"X'{base64.b64decode(value).hex().upper()}'"
    return str(value)


def charset(text: str) -> str:
    escaped = str(text).replace("'", "''")
    return f"_UTF-16LE'{escaped}'"


def _sarg(literal: Literal, with_type: bool = False) -> str:
    """The ranges of a SEARCH, ``with_type`` with the types of their ends."""
    t = literal.type

    def point(value: Any) -> str:
        if with_type:
            text = typed_literal(Literal(t.not_null(), value))
            return text.replace(":BIGINT", "L:BIGINT") if t.root == "BIGINT" else text
        if t.is_string:
            return charset(value)
        return _number(value, t) if t.root == "DECIMAL" else str(value)

    parts = []
    for r in literal.sarg["ranges"]:
        low, high = r.get("lower"), r.get("upper")
        if low and high and low["value"] == high["value"] and low["boundType"] == high["boundType"] == "CLOSED":
            parts.append(point(low["value"]))
            continue
        begin = ("[" if low["boundType"] == "CLOSED" else "(") + point(low["value"]) if low else "(-∞"
        end = point(high["value"]) + ("]" if high["boundType"] == "CLOSED" else ")") if high else "+∞)"
        parts.append(f"{begin}..{end}")
    null_as = literal.sarg.get("nullAs", "UNKNOWN")
    suffix = "" if null_as == "UNKNOWN" else f"; NULL AS {null_as}"
    return f"Sarg[{', '.join(parts)}{suffix}]"


def typed_literal(literal: Literal) -> str:
    """A constant with its type where the value does not say it, as filters of a scan show it."""
    t, value = literal.type, literal.value
    if literal.sarg is not None:
        return _sarg(literal, with_type=True) + ("" if t.root == "INTEGER" or _is_whole_time(t) else f":{full_type(t)}")
    if literal.symbol is not None:
        return f"FLAG({_symbol(literal)})"
    if value is None:
        return f"null:{full_type(t)}"
    if isinstance(value, bool) or t.root == "INTEGER":
        return plain_literal(literal)
    if t.is_string:
        exact = t.root == "CHAR" and t.length == len(str(value).encode("utf-16-le")) // 2
        return charset(value) + ("" if exact else f":{full_type(t)}")
    if _is_whole_time(t):
        return str(value)
    if t.root.startswith("INTERVAL"):
        return plain_literal(literal)
    return f"{plain_literal(literal)}:{full_type(t)}"


def _is_whole_time(t: LogicalType) -> bool:
    """Whether Calcite leaves the type out for a time without a fraction of seconds."""
    return t.root == "DATE" or (t.root in CALCITE_NAMES and t.precision == 0)


def full_type(t: LogicalType) -> str:
    return calcite_type(t, ' CHARACTER SET "UTF-16LE"')
