"""The parts of nodes that rank rows: partition, order, range and strategy.

Source: Flink's ``PartitionSpec``, ``SortSpec``, ``RankRange`` and ``RankProcessStrategy``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from stateplan.common.errors import PlanError
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import Flag, Index, PlanModel, custom_error
from stateplan.execnodes.node_text import names_text

RankType = Literal["ROW_NUMBER", "RANK", "DENSE_RANK"]


class PartitionSpec(PlanModel):
    """The fields that rows are ranked by separately; none for all rows together."""

    fields: Annotated[tuple[Index, ...], Ref()]


class SortField(PlanModel):
    """One field of an order."""

    index: Annotated[Index, Ref()]
    is_ascending: Flag
    null_is_last: Flag


class SortSpec(PlanModel):
    """An order; without fields rows stay in order of arrival."""

    fields: Annotated[tuple[SortField, ...], Ref()]

    @property
    def indexes(self) -> tuple[int, ...]:
        return tuple(f.index for f in self.fields)


class ConstantRange(PlanModel):
    """The rows with numbers ``start`` to ``end``, both included; the first row has the number 1, so that a start below
    it is as good as 1."""

    type: Literal["Constant"] = "Constant"
    start: Annotated[int, Field(strict=True)]
    end: Annotated[int, Field(strict=True)]

    @model_validator(mode="after")
    def _not_empty(self) -> ConstantRange:
        if self.end < 1 or self.start > self.end:
            raise custom_error(PlanError("PLAN044.rank_range", start=self.start, end=self.end))
        return self


class VariableRange(PlanModel):
    """The rows with numbers up to the value of the field ``end_index`` in the first row of the partition."""

    type: Literal["Variable"] = "Variable"
    end_index: Annotated[Index, Ref()]


class ConstantRangeWithoutEnd(PlanModel):
    """The rows with numbers from ``start``."""

    type: Literal["ConstantWithoutEnd"] = "ConstantWithoutEnd"
    start: Annotated[int, Field(strict=True)]


RankRange = Annotated[ConstantRange | VariableRange | ConstantRangeWithoutEnd, Field(discriminator="type")]


class UndefinedStrategy(PlanModel):
    """A strategy that was never decided: Flink does not run such a plan either."""

    type: Literal["Undefined"] = "Undefined"


class AppendFastStrategy(PlanModel):
    """The input is insert-only."""

    type: Literal["AppendFast"] = "AppendFast"


class RetractStrategy(PlanModel):
    """The input has changes of any kind."""

    type: Literal["Retract"] = "Retract"


class UpdateFastStrategy(PlanModel):
    """The input updates rows by ``primary_keys``, each update moves a row up, and nothing is deleted."""

    type: Literal["UpdateFast"] = "UpdateFast"
    primary_keys: Annotated[tuple[Index, ...], Ref()]


RankStrategy = Annotated[
    UndefinedStrategy | AppendFastStrategy | RetractStrategy | UpdateFastStrategy, Field(discriminator="type")
]


def order_text(order: SortSpec, names: Sequence[str]) -> str:
    """``v DESC, id ASC``; nulls are named where they are not in the default place."""

    def parts() -> Iterator[str]:
        for field in order.fields:
            text = f"{names_text([field.index], names)} {'ASC' if field.is_ascending else 'DESC'}"
            if field.null_is_last == field.is_ascending:
                text += f" NULLS {'LAST' if field.null_is_last else 'FIRST'}"
            yield text

    return ", ".join(parts())


def range_text(rank_range: ConstantRange | VariableRange | ConstantRangeWithoutEnd, names: Sequence[str]) -> str:
    """``the first 3 rows``, ``rows 2 to 3``, ``the first n rows``."""
    if isinstance(rank_range, VariableRange):
        return f"the first {names_text([rank_range.end_index], names)} rows"
    if isinstance(rank_range, ConstantRangeWithoutEnd):
        return f"the rows from {rank_range.start} on"
    if rank_range.start == rank_range.end or rank_range.end == 1:
        return "the first row" if rank_range.end == 1 else f"row {rank_range.end}"
    return (
        f"the first {rank_range.end} rows" if rank_range.start <= 1 else f"rows {rank_range.start} to {rank_range.end}"
    )
