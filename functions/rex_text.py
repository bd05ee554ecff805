"""Row expressions in words: as ``plan show``, ``explain`` and errors print them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stateplan.functions.rex import (
    LEGACY_CAST,
    Call,
    CorrelVariable,
    FieldAccess,
    InputRef,
    Literal,
    PatternInputRef,
    Rex,
)

_POSTFIX: Mapping[str, str] = {
    "IS NULL": "IS NULL",
    "IS NOT NULL": "IS NOT NULL",
    "IS TRUE": "IS TRUE",
    "IS FALSE": "IS FALSE",
    "IS NOT TRUE": "IS NOT TRUE",
    "IS NOT FALSE": "IS NOT FALSE",
}
_INFIX = frozenset({"=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "||", "AND", "OR", "LIKE"})
_BARE = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"})
_MS_UNITS = ((86_400_000, "DAY"), (3_600_000, "HOUR"), (60_000, "MINUTE"), (1_000, "SECOND"))


def rex_text(rex: Rex, names: Sequence[str]) -> str:
    """A row expression as SQL-like text over the input fields ``names``."""
    if isinstance(rex, (InputRef, PatternInputRef)):
        return field_name(rex.index, names)
    if isinstance(rex, Literal):
        return _literal_text(rex)
    if isinstance(rex, FieldAccess):
        return f"{rex_text(rex.expr, names)}.{rex.name}"
    if isinstance(rex, CorrelVariable):
        return rex.correl
    if isinstance(rex, Call):
        return _call_text(rex, [rex_text(o, names) for o in rex.operands])
    return type(rex).__name__


def field_name(index: int, names: Sequence[str]) -> str:
    """A field; one without a name is ``$3``."""
    return names[index] if 0 <= index < len(names) else f"${index}"


def _call_text(call: Call, operands: list[str]) -> str:
    name = call.name
    if name in _POSTFIX and len(operands) == 1:
        return f"{operands[0]} {_POSTFIX[name]}"
    if name == "NOT" and len(operands) == 1:
        return f"NOT {operands[0]}"
    if name in ("CAST", "TRY_CAST", "REINTERPRET", LEGACY_CAST) and len(operands) == 1:
        target = call.type.not_null().summary().removesuffix(" NOT NULL")
        return f"{name.removeprefix('LEGACY_')}({operands[0]} AS {target})"
    if name == "CASE" and len(operands) % 2:
        whens = " ".join(f"WHEN {w} THEN {t}" for w, t in zip(operands[:-1:2], operands[1:-1:2], strict=True))
        return f"CASE {whens} ELSE {operands[-1]} END"
    if name in _INFIX and len(operands) > 1:
        return "(" + f" {name} ".join(operands) + ")"
    return f"{name}({', '.join(operands)})"


def _literal_text(literal: Literal) -> str:
    value, root = literal.value, literal.type.root
    if literal.sarg is not None:
        return _sarg_text(literal.sarg)
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if root in _BARE or literal.symbol is not None:
        return str(value)
    if root == "INTERVAL_DAY_TIME":
        return _interval_text(str(value))
    literal_text = "'" + str(value).replace("'", "''") + "'"
    prefix = {
        "DATE": "DATE ",
        "TIME_WITHOUT_TIME_ZONE": "TIME ",
        "TIMESTAMP_WITHOUT_TIME_ZONE": "TIMESTAMP ",
    }.get(root, "")
    return prefix + literal_text


def _interval_text(value: str) -> str:
    if not value.lstrip("-").isdecimal():
        return f"INTERVAL '{value}'"
    ms = int(value)
    size, unit = next(((s, u) for s, u in _MS_UNITS if ms % s == 0), (1, "MILLISECOND"))
    return f"INTERVAL '{ms // size}' {unit}"


def _sarg_text(sarg: object) -> str:
    """The ranges of a SEARCH: ``{1, 2, [5..9)}``."""
    ranges = sarg.get("ranges") if isinstance(sarg, dict) else None
    if not isinstance(ranges, list):
        return "{...}"
    parts = []
    for bounds in ranges:
        low, high = (_bound(bounds, side) for side in ("lower", "upper"))
        if low is not None and low == high:
            parts.append(str(low[0]))
        else:
            opening = "[" if low and low[1] else "("
            closing = "]" if high and high[1] else ")"
            parts.append(f"{opening}{low[0] if low else ''}..{high[0] if high else ''}{closing}")
    return "{" + ", ".join(parts) + "}"


def _bound(bounds: object, side: str) -> tuple[object, bool] | None:
    """Value of one end of a range, and whether it belongs to the range; None for an open end."""
    bound_json = bounds.get(side) if isinstance(bounds, dict) else None
    if not isinstance(bound_json, dict) or "value" not in bound_json:
        return None
    return bound_json["value"], bound_json.get("boundType") == "CLOSED"
