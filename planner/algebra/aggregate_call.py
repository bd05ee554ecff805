"""A call of an aggregate function in the relational algebra."""

from __future__ import annotations

from dataclasses import dataclass

from stateplan.execnodes.types import LogicalType


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
