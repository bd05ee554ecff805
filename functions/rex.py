"""Row expressions as Flink's plans write them (Calcite's RexNode through ``RexNodeJsonSerializer``)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import StateplanError, one_of
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import shorten
from stateplan.common.types import BOOLEAN, LogicalType, type_from_json

if TYPE_CHECKING:
    from stateplan.functions.user import UserFunction


LEGACY_CAST = "LEGACY_CAST"
"""The name of CAST and TRY_CAST where they run as before Flink 1.15. It is in no plan."""


@dataclass(frozen=True)
class Rex:
    """Base of all row expressions."""

    type: LogicalType

    def to_json(self) -> dict[str, Any]:
        """The plan's JSON object, keys in Flink's order."""
        raise NotImplementedError

    @property
    def children(self) -> tuple[Rex, ...]:
        return ()


@dataclass(frozen=True)
class InputRef(Rex):
    """Field ``index`` of the input row (of left ++ right for a two-input condition)."""

    index: int

    def to_json(self) -> dict[str, Any]:
        return {"kind": "INPUT_REF", "inputIndex": self.index, "type": self.type.to_json()}


@dataclass(frozen=True)
class Literal(Rex):
    """A constant. ``value`` is the JSON value of the plan: numbers for integers and floats, text for DECIMAL,
    characters, times and intervals (milliseconds or months), None for NULL. ``symbol`` names the enum of a SYMBOL;
    ``sarg`` is the search argument of a SEARCH call, kept as it is."""

    value: Any = None
    symbol: str | None = None
    sarg: Any = None

    def to_json(self) -> dict[str, Any]:
        if self.sarg is not None:
            return {"kind": "LITERAL", "sarg": self.sarg, "type": self.type.to_json()}
        if self.symbol is not None:
            return {"kind": "LITERAL", "symbol": self.symbol, "value": self.value, "type": self.type.to_json()}
        return {"kind": "LITERAL", "value": self.value, "type": self.type.to_json()}


@dataclass(frozen=True)
class Call(Rex):
    """A function call. Exactly one of ``internal_name`` (built-in, ``$NAME$VERSION``), ``system_name``,
    ``catalog_name`` or ``sql_kind`` identifies the function; ``syntax`` is None for FUNCTION. ``function`` is the
    user-defined function of a system or catalog name, once it is known."""

    operands: tuple[Rex, ...] = ()
    internal_name: str | None = None
    syntax: str | None = None
    system_name: str | None = None
    catalog_name: str | None = None
    sql_kind: str | None = None
    function: UserFunction | None = field(default=None, compare=False, repr=False)

    @property
    def is_user_defined(self) -> bool:
        return self.internal_name is None and self.sql_kind is None

    @property
    def name(self) -> str:
        """The plain function name: ``$CAST$1`` is ``CAST``, ``$$SUM0$1`` is ``$SUM0``."""
        if self.internal_name is not None:
            body = self.internal_name[1:]
            return body.rpartition("$")[0] or body
        return self.system_name or self.catalog_name or self.sql_kind or ""

    @property
    def children(self) -> tuple[Rex, ...]:
        return self.operands

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"kind": "CALL"}
        if self.syntax is not None:
            out["syntax"] = self.syntax
        for key, value in (
            ("internalName", self.internal_name),
            ("systemName", self.system_name),
            ("catalogName", self.catalog_name),
            ("sqlKind", self.sql_kind),
        ):
            if value is not None:
                out[key] = value
        if self.operands:
            out["operands"] = [o.to_json() for o in self.operands]
        out["type"] = self.type.to_json()
        return out


@dataclass(frozen=True)
class FieldAccess(Rex):
    """Field ``name`` of ``expr``; Flink writes no type for it."""

    name: str
    expr: Rex

    @property
    def children(self) -> tuple[Rex, ...]:
        return (self.expr,)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "FIELD_ACCESS", "name": self.name, "expr": self.expr.to_json()}


@dataclass(frozen=True)
class CorrelVariable(Rex):
    """The outer row of a correlate, such as ``$cor0``."""

    correl: str

    def to_json(self) -> dict[str, Any]:
        return {"kind": "CORREL_VARIABLE", "correl": self.correl, "type": self.type.to_json()}


@dataclass(frozen=True)
class PatternInputRef(Rex):
    """A field of a row matched by a MATCH_RECOGNIZE variable."""

    alpha: str
    index: int

    def to_json(self) -> dict[str, Any]:
        return {"kind": "PATTERN_INPUT_REF", "alpha": self.alpha, "inputIndex": self.index, "type": self.type.to_json()}


DIRECTIONS = ("ASC_NULLS_FIRST", "ASC_NULLS_LAST", "DESC_NULLS_FIRST", "DESC_NULLS_LAST")
"""The directions of an order of a table argument."""


@dataclass(frozen=True)
class TableArgument(Rex):
    """The input ``index`` as an argument of a function of tables; ``directions`` are those of the order, such as
    ``ASC_NULLS_LAST``."""

    index: int
    partition_keys: tuple[int, ...] = ()
    order_keys: tuple[int, ...] = ()
    directions: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "TABLE_ARG_CALL",
            "inputIndex": self.index,
            "partitionKeys": list(self.partition_keys),
            "orderKeys": list(self.order_keys),
            "orderDirections": list(self.directions),
            "type": self.type.to_json(),
        }


def _bad(subject: str, expectation: str) -> StateplanError:
    return StateplanError("PLAN030", problem=subject, expected=expectation)


def rex_from_json(value: Any, depth: int = 0) -> Rex:
    """A row expression from its JSON object.

    Raises:
        StateplanError: PLAN030, naming what is wrong.
    """
    if depth > 200:
        raise _bad("a row expression is nested more than 200 levels deep", "a shallower expression")
    if not isinstance(value, dict):
        raise _bad(f"not a row expression: {value!r:.80}", 'an object with "kind"')
    kind = _kind_of(value)
    if kind == "FIELD_ACCESS":
        return _field_access(value, depth)
    if "type" not in value:
        raise _bad(f"a row expression of kind {kind} has no type", "a type")
    ltype = type_from_json(value["type"])
    match kind:
        case "INPUT_REF":
            return InputRef(ltype, _input_index(value))
        case "TABLE_ARG_CALL":
            return _table_argument(value, ltype, _input_index(value))
        case "PATTERN_INPUT_REF":
            return PatternInputRef(ltype, str(value.get("alpha")), _input_index(value))
        case "LITERAL":
            return Literal(ltype, value.get("value"), value.get("symbol"), value.get("sarg"))
        case "CORREL_VARIABLE":
            return CorrelVariable(ltype, str(value.get("correl")))
    return _call(value, ltype, depth)


_KEYS: dict[str, set[str]] = {
    "INPUT_REF": {"kind", "inputIndex", "type"},
    "LITERAL": {"kind", "value", "sarg", "symbol", "type", "class"},
    "CALL": {"kind", "syntax", "internalName", "systemName", "catalogName", "sqlKind", "operands", "type", "class"},
    "FIELD_ACCESS": {"kind", "name", "expr"},
    "CORREL_VARIABLE": {"kind", "correl", "type"},
    "PATTERN_INPUT_REF": {"kind", "alpha", "inputIndex", "type"},
    "TABLE_ARG_CALL": {"kind", "inputIndex", "partitionKeys", "orderKeys", "orderDirections", "type"},
}
"""The keys of each kind of row expression."""


def _kind_of(value: dict[str, Any]) -> str:
    """The kind of a row expression that has no other keys than this kind has. Raises StateplanError PLAN030."""
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise _bad(f"unknown kind of row expression: {kind!r:.60}", "one of " + ", ".join(_KEYS))
    unknown_keys = value.keys() - _KEYS[kind]
    if unknown_keys:
        raise _bad(
            f"unknown key {sorted(unknown_keys)[0]!r} in a row expression of kind {kind}",
            "one of " + ", ".join(sorted(_KEYS[kind])),
        )
    return kind


def _field_access(value: dict[str, Any], depth: int) -> FieldAccess:
    """A field of a row from its JSON object. Raises StateplanError PLAN030."""
    expr = rex_from_json(value.get("expr"), depth + 1)
    name = value.get("name")
    if not isinstance(name, str):
        raise _bad("FIELD_ACCESS without a name", "a text")
    names = [f.name for f in expr.type.fields]
    if name not in names and (names or isinstance(expr, CorrelVariable)):
        raise _bad(f"FIELD_ACCESS of the field {name!r:.60}", one_of(map(shorten, names)) or "a row with fields")
    ftype = next((f.type for f in expr.type.fields if f.name == name), LogicalType("NULL"))
    return FieldAccess(ftype, name, expr)


def _input_index(value: dict[str, Any]) -> int:
    """Raises StateplanError PLAN030."""
    index = value.get("inputIndex")
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise _bad(f"inputIndex is {index!r:.40}", "a whole number from 0")
    return index


def _call(value: dict[str, Any], ltype: LogicalType, depth: int) -> Call:
    """A call from its JSON object. Raises StateplanError PLAN030."""
    operands = value.get("operands", [])
    if not isinstance(operands, list):
        raise _bad(f"operands of a call is {operands!r:.40}", "a list of row expressions")
    names = {k: value.get(k) for k in ("internalName", "systemName", "catalogName", "sqlKind", "syntax")}
    for k, v in names.items():
        if v is not None and not isinstance(v, str):
            raise _bad(f"{k} of a call is {v!r:.40}", "a text")
    return Call(
        ltype,
        tuple(rex_from_json(o, depth + 1) for o in operands),
        names["internalName"],
        names["syntax"],
        names["systemName"],
        names["catalogName"],
        names["sqlKind"],
    )


def _table_argument(value: dict[str, Any], row: LogicalType, index: int) -> TableArgument:
    """A table argument from its JSON object. Raises StateplanError PLAN030."""

    def read(key: str, fits: Callable[[Any], bool], expectation: str) -> tuple[Any, ...]:
        items = value.get(key, [])
        if not isinstance(items, list) or not all(map(fits, items)):
            raise _bad(f"{key} of a table is {items!r:.40}", expectation)
        return tuple(items)

    keys, order = (
        read(key, lambda v: type(v) is int and v >= 0, "a list of positions") for key in ("partitionKeys", "orderKeys")
    )
    directions = read("orderDirections", lambda v: v in DIRECTIONS, f"a list of {', '.join(DIRECTIONS)}")
    if len(order) != len(directions):
        raise _bad("a table has another number of orderKeys than of orderDirections", "a direction per key")
    return TableArgument(row, index, keys, order, directions)


def reads_watermark(rex: Rex) -> bool:
    """Whether CURRENT_WATERMARK is called in ``rex``."""
    return (isinstance(rex, Call) and rex.internal_name == "$CURRENT_WATERMARK$1") or any(
        map(reads_watermark, rex.children)
    )


def input_refs(rex: Rex) -> Iterator[int]:
    """Indexes of all input references in ``rex``, in order of appearance."""
    stack = [rex]
    while stack:
        node = stack.pop()
        if isinstance(node, InputRef):
            yield node.index
        stack.extend(reversed(node.children))


def remap(rex: Rex, mapping: dict[int, int] | Any) -> Rex:
    """``rex`` with each input reference ``i`` replaced by ``mapping[i]`` (a dict or a callable)."""
    get = mapping if callable(mapping) else mapping.__getitem__
    if isinstance(rex, InputRef):
        return InputRef(rex.type, get(rex.index))
    if isinstance(rex, Call):
        return replace(rex, operands=tuple(remap(o, mapping) for o in rex.operands))
    if isinstance(rex, FieldAccess):
        return FieldAccess(rex.type, rex.name, remap(rex.expr, mapping))
    return rex


def with_new_calls(rex: Rex, change: Callable[[Call], Call]) -> Rex:
    """``rex`` with each call changed, those of its operands first; ``rex`` itself if nothing is changed."""
    if isinstance(rex, Call):
        operands = tuple(with_new_calls(o, change) for o in rex.operands)
        same = all(map(operator.is_, operands, rex.operands))
        return change(rex if same else replace(rex, operands=operands))
    if isinstance(rex, FieldAccess):
        expr = with_new_calls(rex.expr, change)
        return rex if expr is rex.expr else replace(rex, expr=expr)
    return rex


def shift(rex: Rex, offset: int) -> Rex:
    """``rex`` with each input reference moved by ``offset``."""
    return remap(rex, lambda i: i + offset)


TRUE = Literal(BOOLEAN.not_null(), True)
