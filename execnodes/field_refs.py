"""The fields of its inputs that a node refers to: what the annotations of the node's fields say.

A field of a node, or of a part of one, that holds positions of input fields is annotated with :class:`Ref`. Validation,
lineage and the layout of state after a change of the plan follow from that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, Literal, NamedTuple

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.execnodes.model import PlanModel
from stateplan.functions.rex import FieldAccess, InputRef, PatternInputRef, Rex, TableArgument

ALL_INPUTS: Final = "joined"
EACH: Final = "each"


@dataclass(frozen=True)
class Ref:
    """Marks a field of a node that holds positions of input fields, row expressions, or parts with such fields.

    ``input`` is the position of the input; ``ALL_INPUTS`` counts over the fields of all inputs together; ``EACH``
    is for one value per input. By default it is that of the part around, and the first one for a field of a node.
    A negative position is none.
    """

    input: int | Literal["joined", "each"] | None = None


class FieldRef(NamedTuple):
    """A field of the inputs that a node refers to.

    ``input`` is the position of the input; None counts ``field`` over all inputs' fields joined together.
    ``type`` is the type the field is used as, where the plan says so.
    """

    pointer: str
    field: int
    input: int | None = 0
    type: LogicalType | None = None


def rex_refs(rex: Rex, pointer: str, side: int | None = 0) -> Iterator[FieldRef]:
    """The input references in a row expression at ``pointer``, each with its own pointer."""
    if isinstance(rex, (InputRef, PatternInputRef)):
        yield FieldRef(pointer, rex.index, side, rex.type)
    elif isinstance(rex, TableArgument):
        for name, keys in (("partitionKeys", rex.partition_keys), ("orderKeys", rex.order_keys)):
            yield from (FieldRef(f"{pointer}/{name}/{i}", key, rex.index) for i, key in enumerate(keys))
    elif isinstance(rex, FieldAccess):
        yield from rex_refs(rex.expr, f"{pointer}/expr", side)
    else:
        for position, operand in enumerate(rex.children):
            yield from rex_refs(operand, f"{pointer}/operands/{position}", side)


def marked_refs(part: PlanModel, pointer: str = "", side: int | None = 0) -> Iterator[FieldRef]:
    """What the annotations of ``part`` say, at ``pointer``; ``side`` is the input of a field that says nothing else."""
    for name, key, input_mark in _marked_fields(type(part)):
        value, place = vars(part)[name], f"{pointer}/{key}"
        if input_mark == EACH:
            for position, item in enumerate(value or ()):
                yield from _refs(item, f"{place}/{position}", position)
        else:
            yield from _refs(
                value, place, side if input_mark is None else None if isinstance(input_mark, str) else input_mark
            )


def _refs(value: Any, pointer: str, side: int | None) -> Iterator[FieldRef]:
    if value is None:
        return
    if isinstance(value, int):
        if value >= 0:
            yield FieldRef(pointer, value, side)
    elif isinstance(value, Rex):
        yield from rex_refs(value, pointer, side)
    elif isinstance(value, PlanModel):
        yield from marked_refs(value, pointer, side)
    else:
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _refs(item, f"{pointer}/{key}", side)


@cache
def _marked_fields(cls: type[PlanModel]) -> tuple[tuple[str, str, int | str | None], ...]:
    """Attribute, key and input of the marked fields."""
    return tuple(
        (name, info.alias or name, mark.input)
        for name, info in cls.model_fields.items()
        for mark in info.metadata
        if isinstance(mark, Ref)
    )
