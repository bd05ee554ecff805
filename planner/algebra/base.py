"""What relations of the algebra share: fields, inputs, calls of aggregate functions."""

from __future__ import annotations

from dataclasses import dataclass

from stateplan.execnodes.types import LogicalType
from stateplan.planner.abilities import Field


@dataclass(frozen=True)
class Rel:
    """A relational expression."""

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return ()

    @property
    def fields(self) -> tuple[Field, ...]:
        """Name and type of every field of its rows."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        return len(self.fields)


@dataclass(frozen=True)
class Pair(Rel):
    """A relational expression over two."""

    left: Rel
    right: Rel

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Single(Rel):
    input: Rel

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.input,)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


@dataclass(frozen=True)
class AggCall:
    """One aggregate function call; ``name`` is None until the output field gets one."""

    function: str
    args: tuple[int, ...]
    type: LogicalType
    name: str | None = None
    distinct: bool = False
    filter: int = -1
    internal_name: str = ""
    syntax: str | None = None
    system_name: str | None = None
    catalog_name: str | None = None

    @property
    def is_user_defined(self) -> bool:
        return self.system_name is not None or self.catalog_name is not None
