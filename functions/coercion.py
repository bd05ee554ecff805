"""Implicit casts: which operands Flink casts to what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateplan.common.types import BIGINT, LogicalType
from stateplan.functions.casting import cast_rex
from stateplan.functions.rex import Literal, Rex
from stateplan.functions.typerules import castable, common_type, family, least_restrictive, same_type


def _cast_all(operands: Sequence[Rex], target: LogicalType) -> list[Rex]:
    """The operands cast to ``target``; where it is a time attribute, constants of other types to a plain timestamp."""
    plain = replace(target, kind=None)

    def own_target(rex: Rex) -> LogicalType:
        is_other = isinstance(rex, Literal) and rex.value is not None and not same_type(rex.type, plain)
        return plain if is_other else target

    return [cast_rex(o, own_target(o)) if castable(o.type, target) else o for o in operands]


def to_least_restrictive(operands: Sequence[Rex]) -> list[Rex]:
    """All operands cast to their least restrictive type; unchanged if there is none."""
    target = least_restrictive([o.type for o in operands])
    return list(operands) if target is None or target.root == "NULL" else _cast_all(operands, target)


def _comparable_text(types: Sequence[LogicalType]) -> bool:
    """Character text against a date, time, timestamp: compared at run time without a cast in the plan."""
    families = {family(t) for t in types}
    return "CHARACTER" in families and len(families) == 2 and bool(families & {"DATE", "TIME", "TIMESTAMP"})


def equal_operands(operands: Sequence[Rex]) -> list[Rex] | None:
    """For ``=`` and ``<>``: both sides of the least restrictive type. None if they cannot be compared."""
    types = [o.type for o in operands]
    target = least_restrictive(types)
    if target is not None:
        return to_least_restrictive(operands)
    return list(operands) if _comparable_text(types) else None


def ordered_operands(operands: Sequence[Rex]) -> list[Rex] | None:
    """For ``<`` and the like: no cast within one family; text takes the type it is compared with. None if they cannot
    be compared."""
    types = [o.type for o in operands]
    families = {family(t) for t in types if t.root != "NULL"}
    if "VARIANT" in families:
        return None
    if len(families) == 1:
        if any(t.root == "NULL" for t in types):
            return to_least_restrictive(operands)
        return list(operands)
    if families == {"CHARACTER", "NUMERIC"}:
        number = least_restrictive([*(t for t in types if family(t) == "NUMERIC"), BIGINT])
        return None if number is None else _cast_all(operands, number)
    if _comparable_text(types):
        other = next(t for t in types if family(t) != "CHARACTER")
        return _cast_all(operands, other)
    return None if least_restrictive(types) is None else to_least_restrictive(operands)


def case_operands(operands: Sequence[Rex]) -> list[Rex]:
    """CASE: the values (every second operand and the last) of their least restrictive type."""
    positions = [*range(1, len(operands) - 1, 2), len(operands) - 1]
    values = to_least_restrictive([operands[i] for i in positions])
    out = list(operands)
    for position, value in zip(positions, values, strict=True):
        out[position] = value
    return out


def to_common(operands: Sequence[Rex]) -> list[Rex]:
    """COALESCE, IFNULL, array functions: operands of the common type, but a character type may stay as it is."""
    target = common_type([o.type for o in operands])
    if target is None or target.root == "NULL":
        return list(operands)
    return [o if _needs_no_cast(o, target) else cast_rex(o, target) for o in operands]


def _needs_no_cast(rex: Rex, target: LogicalType) -> bool:
    same_family = family(rex.type) == family(target) in ("CHARACTER", "BINARY")
    return same_family and not (isinstance(rex, Literal) and rex.value is None)
