"""Types as Calcite writes them, which is how Flink's descriptions of operators show them."""

from __future__ import annotations

from stateplan.execnodes.types import LogicalType

CALCITE_NAMES = {
    "TIMESTAMP_WITHOUT_TIME_ZONE": "TIMESTAMP",
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
    "TIME_WITHOUT_TIME_ZONE": "TIME",
}


def calcite_type(t: LogicalType) -> str:
    """The type as Calcite writes it, without NOT NULL: ``INTEGER``, ``VARCHAR(10)``, ``INTERVAL DAY``."""
    if t.kind is not None:
        return t.as_nullable().summary()
    name = CALCITE_NAMES.get(t.root, t.root)
    if t.root in ("CHAR", "VARCHAR", "BINARY", "VARBINARY"):
        return f"{name}({t.length})"
    if t.root == "DECIMAL":
        return f"DECIMAL({t.precision}, {t.scale})"
    if t.precision is not None and t.root in CALCITE_NAMES:
        return f"{name}({t.precision})"
    if t.root.startswith("INTERVAL"):
        return "INTERVAL " + _interval_units(t)
    if t.root in ("ARRAY", "MULTISET"):
        return f"{_nested(t.children[0])} {t.root}"
    if t.root == "MAP":
        return f"({_nested(t.children[0])}, {_nested(t.children[1])}) MAP"
    if t.root == "ROW":
        return "RecordType(" + ", ".join(f"{_nested(f.type)} {f.name}" for f in t.fields) + ")"
    return name


def _nested(t: LogicalType) -> str:
    return calcite_type(t) + ("" if t.nullable else " NOT NULL")


def _interval_units(t: LogicalType) -> str:
    """``DAY(2) TO SECOND(6)`` as ``DAY TO SECOND``."""
    words = []
    for part in (t.resolution or "").split(" TO "):
        name, _, digits = part.partition("(")
        default = {"SECOND": "6"}.get(name, "2")
        words.append(name if not digits or digits.rstrip(")") == default else part)
    return " TO ".join(words)
