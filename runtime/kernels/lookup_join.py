"""Lookup joins of changes: what was found for a row is kept, and retracted when the row is.

Source of the semantics: Flink's ``KeyedLookupJoinWrapper``. Rows are known by their upsert key; what an insertion or
the new row of an update found is the state, a deletion or the old row of an update takes it back and forgets it.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from stateplan.common.changelog import KIND, column, columns
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.runtime.kernel import (
    ACCESS_TIME,
    Access,
    Frames,
    Kernel,
    StateColumn,
    StateTable,
    Step,
    field_columns,
    own_columns,
)
from stateplan.runtime.lookup import LookupTransform

_PLACE = "@place"


@dataclass(frozen=True)
class LookupJoinKernel(Kernel):
    """A lookup join with a memory.

    Args:
        input_type: ROW of the input.
        found_type: ROW of what is found.
        key: the upsert key of the input.
        transform: looks rows up.
    """

    input_type: LogicalType
    found_type: LogicalType
    key: tuple[int, ...]
    transform: LookupTransform

    @property
    def tables(self) -> tuple[StateTable, ...]:
        keys = tuple(column(k) for k in self.key)
        fields = field_columns(self.input_type)
        found_columns = (StateColumn(f.type.polars(), f.name) for f in self.found_type.fields)
        column_types = {**{k: fields[k] for k in keys}, **dict(zip(self._found_names, found_columns, strict=True))}
        column_types |= own_columns({_PLACE: pl.Int32()})
        return (StateTable("lookupJoinState", 0, keys, (*keys, _PLACE), column_types, access=Access(use="retracted")),)

    @property
    def _found_names(self) -> list[str]:
        width = len(self.input_type.fields)
        return [column(width + i) for i in range(len(self.found_type.fields))]

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        return [inputs[0].select(self.tables[0].lookup) if inputs[0].height else None]

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        table = self.tables[0]
        keys, found_names = list(table.lookup), self._found_names
        rows = inputs[0]
        if KIND not in rows.columns:
            rows = rows.with_columns(pl.lit(0, dtype=pl.Int8).alias(KIND))
        events = rows.with_row_index("@event").with_columns(
            pl.col("@event").shift(1).over(keys).alias("@earlier"),
            (pl.col("@event") == pl.col("@event").last().over(keys)).alias("@last"),
            pl.col(KIND).is_in([0, 2]).alias("@adds"),
        )
        adding = events.filter("@adds")
        matches = self.transform.look_up(adding.select(*columns(len(self.input_type.fields)), KIND), now)
        matches = matches.with_columns(adding["@event"].gather(matches["@row"]).alias("@event"))
        matches = matches.with_columns(pl.int_range(pl.len(), dtype=pl.Int32).over("@event").alias(_PLACE))
        taking = events.filter(~pl.col("@adds"))
        earlier = matches.select(pl.col("@event").alias("@earlier"), *found_names, _PLACE)
        answered_rows = taking.filter(pl.col("@earlier").is_not_null())
        inside = answered_rows.join(earlier, on="@earlier", maintain_order="left_right")
        stored_matches = state[0].select(*keys, *found_names, _PLACE).sort(_PLACE)
        first = taking.filter(pl.col("@earlier").is_null())
        outside = first.join(stored_matches, on=keys, nulls_equal=True, maintain_order="left_right")
        outside = outside.filter(pl.col(_PLACE) >= 0)
        output_names = ["@event", *columns(len(self.input_type.fields)), KIND, *found_names]
        out = pl.concat([matches.select(output_names), inside.select(output_names), outside.select(output_names)])
        out = out.sort("@event", maintain_order=True).drop("@event")
        upserts = self._match_upserts(events, matches, now)
        old_matches = stored_matches.join(events.select(keys).unique(), on=keys, how="semi", nulls_equal=True)
        deletes = old_matches.select(table.identity)
        deletes = deletes.join(upserts.select(table.identity), on=list(table.identity), how="anti", nulls_equal=True)
        unmatched_rows = first.join(stored_matches.select(keys), on=keys, how="anti", nulls_equal=True)
        return Step(
            out, [upserts if upserts.height else None], [deletes if deletes.height else None], unmatched_rows.height
        )

    def _match_upserts(self, events: pl.DataFrame, matches: pl.DataFrame, now: int) -> pl.DataFrame:
        """What the last change of each key found; a row of place -1 for nothing."""
        table = self.tables[0]
        last = events.filter(pl.col("@last") & pl.col("@adds"))
        rows = last.select("@event", *table.lookup).join(
            matches.select("@event", *self._found_names, _PLACE), on="@event", how="left", maintain_order="left_right"
        )
        rows = rows.with_columns(
            pl.col(_PLACE).fill_null(-1).cast(pl.Int32), pl.lit(now, dtype=pl.Int64).alias(ACCESS_TIME)
        )
        return rows.select([*table.schema, ACCESS_TIME])
