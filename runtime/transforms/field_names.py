"""Names of the fields of rows, where a reader knows them by other names: Flink takes them by their position."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import polars as pl

from stateplan.common.changelog import column
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.functions.render.casts import by_position
from stateplan.runtime.kernel import Transform


@dataclass(frozen=True)
class FieldNamesTransform(FrozenDataclass, Transform):
    """Renames the fields of rows to their names in ``types``, at any depth.

    Attributes:
        types: the types of the columns ``c0..cn``.
    """

    types: tuple[LogicalType, ...]

    @cached_property
    def _target_types(self) -> dict[str, pl.DataType]:
        return {column(i): t.polars() for i, t in enumerate(self.types) if has_fields(t)}

    def __call__(self, frame: pl.DataFrame, now: int) -> pl.DataFrame:
        schema = frame.schema
        return frame.with_columns(
            by_position(pl.col(name), schema[name], target).alias(name)
            for name, target in self._target_types.items()
            if schema[name] != target
        )


def field_names(
    input_types: Sequence[LogicalType], output_types: Sequence[LogicalType]
) -> tuple[FieldNamesTransform, ...]:
    """What gives the columns of one type the names of the fields of another; nothing if they are the same."""
    pairs = zip(input_types, output_types, strict=True)
    same = all(not has_fields(t) or g.polars() == t.polars() for g, t in pairs)
    return () if same else (FieldNamesTransform(tuple(output_types)),)


def has_fields(data_type: LogicalType) -> bool:
    """Whether there is a row in values of this type."""
    return bool(data_type.fields) or any(map(has_fields, data_type.children))
