"""Building row expressions from SQL names: lookup, checks, implicit casts, result types."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.common.errors import Place, SqlError
from stateplan.common.types import BOOLEAN
from stateplan.functions.casting import cast_rex
from stateplan.functions.coercion import equal_operands
from stateplan.functions.rex import Call, Literal, Rex
from stateplan.functions.table import ScalarFunction, find_scalar, names, unknown_function
from stateplan.functions.typerules import least_restrictive


def _require(name: str, place: Place | None) -> ScalarFunction:
    function = find_scalar(name)
    if function is None:
        raise unknown_function(name, names(), place)
    return function


def call_of(function: ScalarFunction, operands: Sequence[Rex]) -> Call:
    """The plan's CALL of ``function``; nothing is checked or cast."""
    return Call(function.returns(operands), tuple(operands), function.internal_name, function.syntax)


def make_call(name: str, operands: Sequence[Rex], place: Place | None = None) -> Rex:
    """The call of the function or operator with this SQL name.

    Args:
        name: any case: ``"+"``, ``"AND"``, ``"IS NOT NULL"``, ``"NOT LIKE"``, ``"CASE"``, ``"UPPER"``; ``"NEGATE"`` is
            the unary minus.
        operands: in the order of Flink's plans: CASE takes (condition, value)... and the ELSE value last, TRIM
            (flag, characters, text), POSITION (needle, text), FLOOR and CEIL TO (value, unit), EXTRACT (unit, value),
            TIMESTAMPADD (unit, count, value), TIMESTAMPDIFF (unit, from, to).
        place: for errors.

    Raises:
        SqlError: SQL200 (unknown, with the nearest name), SQL201 (not supported), SQL202 (operand count), SQL203
            (operand types).
    """
    function = _require(name, place)
    function.check(operands, place)
    try:
        if function.rewrite is not None:
            return function.rewrite(operands, place)
        return call_of(function, function.coerce(operands) if function.coerce is not None else operands)
    except SqlError as error:
        if error.place is None:
            error.place = place
        raise


def coerce_operands(name: str, operands: Sequence[Rex], place: Place | None = None) -> list[Rex]:
    """The operands with the casts that :func:`make_call` would insert. Raises as it does."""
    function = _require(name, place)
    function.check(operands, place)
    return list(function.coerce(operands) if function.coerce else operands)


def make_in(value: Rex, items: Sequence[Rex], place: Place | None = None, *, negated: bool = False) -> Rex:
    """``value [NOT] IN (items)``. Raises SqlError, as :func:`compare_with_items`."""
    return compare_with_items("<>" if negated else "=", value, items, place, every=negated)


def compare_with_items(operator: str, value: Rex, items: Sequence[Rex], place: Place | None, *, every: bool) -> Rex:
    """``value operator ANY (items)``, or ``ALL`` with ``every``: a disjunction or conjunction, which ``simplify`` turns
    into SEARCH where Flink does.

    Items are cast to the type of ``value`` where their types differ in more than length, precision or scale.

    Raises:
        SqlError: SQL203, where the items have no common type, or one that does not mix with the value's; SQL204 from
            the cast.
    """
    if least_restrictive([item.type for item in items]) is None:
        raise SqlError("SQL203.mixed", what="the values of a list", types=[item.type for item in items], place=place)
    terms: list[Rex] = []
    for item in items:
        if item.type.root == "NULL" and isinstance(item, Literal):
            terms.append(Literal(BOOLEAN, None))
            continue
        if equal_operands([value, item]) is None:
            raise SqlError("SQL203.incomparable", left=value.type, right=item.type, name="IN, ANY or ALL", place=place)
        similar = item.type.root == value.type.root or (value.type.root == "VARCHAR" and item.type.root == "CHAR")
        right = item if similar else cast_rex(item, value.type, place)
        nullable = value.type.nullable or right.type.nullable
        terms.append(Call(BOOLEAN.as_nullable(nullable), (value, right), f"${operator}$1", "BINARY"))
    if len(terms) == 1:
        return terms[0]
    return make_call("AND" if every else "OR", terms, place)
