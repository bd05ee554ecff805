"""Rows of the function table: ARRAY, MAP and ROW."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.common.errors import SqlError, nearest, one_of
from stateplan.common.types import BOOLEAN, INT, STRING, VARIANT, LogicalType, RowField
from stateplan.functions.casting import cast_rex
from stateplan.functions.coercion import to_least_restrictive
from stateplan.functions.comparison import check_ordered
from stateplan.functions.literals import null_literal
from stateplan.functions.rex import Literal, Rex
from stateplan.functions.table import ScalarFunction, TypeRule, always, any_nullable, argument, register
from stateplan.functions.typerules import common_type, family, is_implicit, least_restrictive, same_type


def _array(element: LogicalType, nullable: bool) -> LogicalType:
    return LogicalType("ARRAY", nullable, children=(element,))


def _array_of(operands: Sequence[Rex]) -> LogicalType:
    element = least_restrictive([o.type for o in operands])
    if element is None:
        raise SqlError("SQL203.mixed", what="the elements of ARRAY", types=[o.type for o in operands])
    return _array(element, False)


def _map_operands(operands: Sequence[Rex]) -> list[Rex]:
    if len(operands) % 2:
        raise SqlError("SQL202.takes", name="MAP", what="(key, value) pairs")
    keys, values = to_least_restrictive(operands[0::2]), to_least_restrictive(operands[1::2])
    return [x for pair in zip(keys, values, strict=True) for x in pair]


def _map_of(operands: Sequence[Rex]) -> LogicalType:
    sides = [least_restrictive([o.type for o in operands[i::2]]) for i in (0, 1)]
    key, value = sides
    if key is None or value is None:
        raise SqlError("SQL203.mixed", what="the keys or the values of MAP", types=[o.type for o in operands])
    return LogicalType("MAP", False, children=(key, value))


def _row_of(operands: Sequence[Rex]) -> LogicalType:
    return LogicalType("ROW", False, fields=tuple(RowField(f"EXPR${i}", o.type) for i, o in enumerate(operands)))


def row_item(row: LogicalType, index: Rex) -> RowField:
    """The field of a ROW that a constant in brackets means: its name, or its number from 1.

    Raises:
        SqlError: SQL203, for one that is not such a constant, or means no field.
    """
    fields = {f.name: f for f in row.fields}
    key = index.value if isinstance(index, Literal) else None
    if isinstance(key, int) and not isinstance(key, bool) and 1 <= key <= len(row.fields):
        return row.fields[key - 1]
    if isinstance(key, str) and index.type.is_string and key in fields:
        return fields[key]
    names_text = one_of([f"'{name}'" for name in fields])
    hint = nearest(key, fields) if isinstance(key, str) else None
    raise SqlError("SQL203.no_such_field", type=row, shown=names_text, count=len(fields), hint=hint)


def _item(operands: Sequence[Rex]) -> LogicalType:
    container = operands[0].type
    if container.root == "ROW":
        element_type = row_item(container, operands[1]).type
        return element_type.as_nullable(element_type.nullable or container.nullable)
    return VARIANT if container.root == "VARIANT" else container.children[-1].as_nullable()


def _item_operands(operands: Sequence[Rex]) -> Sequence[Rex]:
    container, index = operands
    if container.type.root == "ROW":
        row_item(container.type, index)
        return operands
    if container.type.root == "VARIANT":
        if not (index.type.is_integer or (index.type.is_string and isinstance(index, Literal))):
            raise SqlError("SQL203.type", type=index.type, what="the index of a VARIANT")
        return operands
    if container.type.root == "MAP" and family(index.type) != family(container.type.children[0]):
        key = container.type.children[0]
        raise SqlError("SQL203.type", type=index.type, what="the key of a map", wanted=key)
    if container.type.root == "ARRAY" and index.type.root != "INTEGER":
        raise SqlError("SQL203.type", type=index.type, what="an array index")
    position = index.value if isinstance(index, Literal) else None
    if container.type.root == "ARRAY" and isinstance(position, int) and position < 1:
        raise SqlError("SQL203.out_of_range", what="an array index", value=position)
    return operands


def _element(operands: Sequence[Rex]) -> LogicalType:
    t = operands[0].type
    return t.children[0].as_nullable(t.nullable or t.children[0].nullable)


def _with_element(operands: Sequence[Rex]) -> Sequence[Rex]:
    """(array, element): the element is cast to the array's element type, an untyped NULL takes it.

    Raises:
        SqlError: SQL203, for an array that is an untyped NULL, or an element that needs an explicit cast.
    """
    array, element, *rest = operands
    if array.type.root == "NULL":
        raise SqlError("SQL203.untyped", what="an array")
    if not is_implicit(element.type, array.type.children[0]):
        raise SqlError("SQL203.type", type=element.type, what="the element of an array", wanted=array.type.children[0])
    inner = array.type.children[0]
    if element.type.root == "NULL":
        return [array, null_literal(inner), *rest]
    if not same_type(inner, element.type) and not (inner.is_string and element.type.is_string):
        element = cast_rex(element, inner)
    return [array, element, *rest]


def _appended(operands: Sequence[Rex]) -> LogicalType:
    inner = operands[0].type.children[0]
    return _array(
        inner.as_nullable(inner.nullable or operands[1].type.nullable),
        operands[0].type.nullable
        or operands[1].type.root == "NULL"
        or (operands[1].type.nullable and not inner.nullable),
    )


def _array_of_common_type(operands: Sequence[Rex]) -> LogicalType:
    inner = common_type([o.type.children[0] for o in operands])
    if inner is None:
        raise SqlError("SQL203.mixed", what="the elements of the arrays", types=[o.type.children[0] for o in operands])
    return _array(inner, any_nullable(operands))


def _without(operands: Sequence[Rex]) -> LogicalType:
    _array_of_common_type(operands)
    return operands[0].type.as_nullable(any_nullable(operands))


def _sorted_type(operands: Sequence[Rex]) -> LogicalType:
    check_ordered(operands[0].type, None)
    return operands[0].type.as_nullable(any_nullable(operands))


def _extreme(operands: Sequence[Rex]) -> LogicalType:
    check_ordered(operands[0].type, None)
    return operands[0].type.children[0].as_nullable()


def _from_arrays(operands: Sequence[Rex]) -> LogicalType:
    return LogicalType("MAP", any_nullable(operands), children=tuple(o.type.children[0] for o in operands))


def _part(index: int) -> TypeRule:
    def rule(operands: Sequence[Rex]) -> LogicalType:
        return _array(operands[0].type.children[index], operands[0].type.nullable)

    return rule


def _entries(operands: Sequence[Rex]) -> LogicalType:
    key, value = operands[0].type.children
    entry = LogicalType("ROW", fields=(RowField("key", key), RowField("value", value)))
    return _array(entry, operands[0].type.nullable)


def _map_union(operands: Sequence[Rex]) -> LogicalType:
    map_type = common_type([o.type for o in operands])
    if map_type is None:
        raise SqlError("SQL203.mixed", what="the maps", types=[o.type for o in operands])
    return map_type


_A = "ARRAY"


def _text_of_array(operands: Sequence[Rex]) -> LogicalType:
    """Raises SqlError SQL203 for an array of anything but texts."""
    element = operands[0].type.children[0]
    if not element.is_string:
        raise SqlError("SQL203", name="ARRAY_JOIN", types=operands[0].type)
    return STRING.as_nullable(any_nullable(operands))


register(
    [
        ScalarFunction(
            "ARRAY", ("ANY",), _array_of, variadic=True, syntax="SPECIAL", coerce=to_least_restrictive, nulls=True
        ),
        ScalarFunction(
            "MAP", ("ANY", "ANY"), _map_of, variadic=True, syntax="SPECIAL", coerce=_map_operands, nulls=True
        ),
        ScalarFunction("ROW", ("ANY",), _row_of, variadic=True, syntax="SPECIAL"),
        ScalarFunction("ITEM", ("ARRAY|MAP|ROW|VARIANT", "ANY"), _item, syntax="SPECIAL", coerce=_item_operands),
        ScalarFunction("CARDINALITY", ("ARRAY|MAP|MULTISET",), always(INT)),
        ScalarFunction("ELEMENT", (_A,), _element),
        ScalarFunction(
            "ARRAY_CONTAINS",
            (_A, "ANY"),
            lambda ops: BOOLEAN.as_nullable(ops[0].type.nullable),
            coerce=_with_element,
            nulls=True,
        ),
        ScalarFunction("ARRAY_POSITION", (_A, "ANY"), always(INT), coerce=_with_element, nulls=True),
        ScalarFunction("ARRAY_APPEND", (_A, "ANY"), _appended, coerce=_with_element, nulls=True),
        ScalarFunction("ARRAY_PREPEND", (_A, "ANY"), _appended, coerce=_with_element, nulls=True),
        ScalarFunction("ARRAY_REMOVE", (_A, "ANY"), lambda ops: ops[0].type, coerce=_with_element, nulls=True),
        ScalarFunction("ARRAY_DISTINCT", (_A,), argument(0)),
        ScalarFunction("ARRAY_REVERSE", (_A,), argument(0)),
        ScalarFunction("ARRAY_SORT", (_A, "BOOLEAN", "BOOLEAN"), _sorted_type, optional=2),
        ScalarFunction("ARRAY_SLICE", (_A, "INT", "INT"), argument(0), optional=1),
        ScalarFunction("ARRAY_UNION", (_A, _A), _array_of_common_type),
        ScalarFunction("ARRAY_CONCAT", (_A,), _array_of_common_type, variadic=True),
        ScalarFunction("ARRAY_EXCEPT", (_A, _A), _without),
        ScalarFunction("ARRAY_INTERSECT", (_A, _A), _array_of_common_type),
        ScalarFunction("ARRAY_MAX", (_A,), _extreme),
        ScalarFunction("ARRAY_MIN", (_A,), _extreme),
        ScalarFunction("ARRAY_JOIN", (_A, "CHARACTER", "CHARACTER"), _text_of_array, optional=1),
        ScalarFunction("MAP_KEYS", ("MAP",), _part(0)),
        ScalarFunction("MAP_VALUES", ("MAP",), _part(1)),
        ScalarFunction("MAP_ENTRIES", ("MAP",), _entries),
        ScalarFunction("MAP_FROM_ARRAYS", (_A, _A), _from_arrays),
        ScalarFunction("MAP_UNION", ("MAP", "MAP"), _map_union, variadic=True),
    ]
)
