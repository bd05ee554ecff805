"""Temporal joins: each left row with the version of its right row that held at its time.

Source of the semantics: Flink's ``TemporalRowTimeJoinOperator`` and ``TemporalProcessTimeJoinOperator``. By event time
a left row waits until the watermark has reached its time; then it meets the newest version of its key that is not newer
than itself. A version is forgotten once a newer one is at or before the watermark and its key is used. NULL is an
ordinary key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import cached_property

import polars as pl

from stateplan.common.changelog import KIND, RowKind, column, columns
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.runtime.kernel import (
    ACCESS_TIME,
    NO_WATERMARK,
    Access,
    EventTimeKernel,
    Frames,
    StateTable,
    Step,
    Watermark,
    field_columns,
    own_columns,
)
from stateplan.runtime.kernels.common.key_ids import state_columns
from stateplan.runtime.kernels.common.two_sides import TwoSides

_TIME, _NUMBER, _ROW_KIND, _KEY = "@time", "@n", "@row_kind", "@key"


def _kinds(frame: pl.DataFrame) -> pl.Expr:
    return pl.col(KIND) if KIND in frame.columns else pl.lit(0, dtype=pl.Int8)


def _millis(row: LogicalType, index: int) -> pl.Expr:
    """The time of a row, epoch milliseconds; 0 if there is none."""
    name = column(index)
    if not row.fields[index].type.is_timestamp:
        return pl.col(name).cast(pl.Int64).fill_null(0)
    return pl.col(name).cast(pl.Datetime("ms")).to_physical().fill_null(0)


@dataclass(frozen=True)
class _TemporalJoin(TwoSides):
    """What both kinds of temporal join share: keys, condition and the rows that come out.

    Args:
        spec: INNER or LEFT.
        upserts: whether updates of the left input come without their old rows. A change that meets nothing then
            deletes the row of its key, which may have met something before; Flink leaves that row.
    """

    upserts: bool = field(default=False, kw_only=True)

    @property
    def left_keys(self) -> list[str]:
        return [column(k) for k in self.spec.left_keys]

    @property
    def right_keys(self) -> list[str]:
        return list(dict.fromkeys(column(k) for k in self.spec.right_keys))

    def as_right(self, left: pl.DataFrame) -> pl.DataFrame:
        """The keys of left rows under the names of the right key columns; all NULL where two left columns stand for
        one right column and differ: such a row meets nothing."""
        pairs: dict[str, list[str]] = {}
        for a, b in zip(self.spec.left_keys, self.spec.right_keys, strict=True):
            pairs.setdefault(column(b), []).append(column(a))
        out = left.select(pl.col(names[0]).alias(right) for right, names in pairs.items())
        schema = state_columns(self.right_type)
        return out.select(pl.col(n).cast(schema[n], strict=False) for n in out.columns)

    def agree(self, left: pl.DataFrame) -> pl.Series:
        """Whether the left columns that stand for one right column are equal."""
        first: dict[int, str] = {}
        ok = pl.Series([True]).new_from_index(0, left.height)
        for a, b in zip(self.spec.left_keys, self.spec.right_keys, strict=True):
            name = first.setdefault(b, column(a))
            if name != column(a):
                ok &= left[name].eq_missing(left[column(a)])
        return ok

    def number_keys(self, left: pl.DataFrame, right: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
        """A number for the key of each left row and of each right row, equal for equal keys."""
        names = self.right_keys
        both = pl.concat([self.as_right(left), right.select(names)])
        distinct_keys = both.unique(maintain_order=True).with_row_index(_KEY)
        numbers = both.join(distinct_keys, on=names, how="left", nulls_equal=True, maintain_order="left")[_KEY]
        numbers = numbers.cast(pl.Int64)
        return numbers[: left.height], numbers[left.height :]

    def join_rows(self, left: pl.DataFrame, right: pl.DataFrame, has_match: pl.Series, now: int) -> pl.DataFrame:
        """Left rows with the right rows beside them, as changes of the kind of the left row.

        Args:
            left: rows with :data:`KIND`.
            right: as many rows; only those of ``has_match`` count.
            has_match: whether a left row has found one.
        """
        width = len(self.left_type.fields)
        beside = right.select(
            pl.col(n).alias(column(width + i)) for i, n in enumerate(columns(len(self.right_type.fields)))
        )
        both = pl.concat([left.select(*columns(width), KIND), beside], how="horizontal")
        both = both.with_columns(has_match.alias(_KEY))
        if self._condition is not None and both.height:
            holds = self._condition(both.drop(_KEY, KIND), now)[column(0)].fill_null(False)
            both = both.with_columns((pl.col(_KEY) & holds).alias(_KEY))
        if self.spec.join_type != "LEFT":
            if not self.upserts:
                return both.filter(_KEY).drop(_KEY)
            delete_kind = pl.lit(RowKind.DELETE, dtype=pl.Int8)
            both = both.with_columns(pl.when(_KEY).then(pl.col(KIND)).otherwise(delete_kind).alias(KIND))
        none = [pl.when(_KEY).then(pl.col(n)).alias(n) for n in beside.columns]
        return both.with_columns(none).drop(_KEY)


def _output(rows: pl.DataFrame, insert_only: bool) -> pl.DataFrame:
    return rows.drop(KIND) if insert_only else rows


@dataclass(frozen=True)
class TemporalJoinKernel(_TemporalJoin, EventTimeKernel):
    """Joins by event time.

    Args:
        left_time, right_time: fields that hold the time of a row, and from when on a version holds.
    """

    left_time: int
    right_time: int

    @property
    def versioned_inputs(self) -> tuple[int, ...]:
        return (1,)

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        buffer = field_columns(self.left_type)
        buffer |= own_columns({_ROW_KIND: pl.Int8(), _NUMBER: pl.Int64(), _TIME: pl.Int64()})
        left_keys = tuple(dict.fromkeys(self.left_keys))
        right_keys = tuple(self.right_keys)
        versions = {**field_columns(self.right_type, 1), **own_columns({_ROW_KIND: pl.Int8(), _TIME: pl.Int64()})}
        access = Access(tuple(state_columns(self.left_type)))
        return (
            StateTable("leftState", 0, left_keys, (*left_keys, _NUMBER), buffer, _TIME, access),
            StateTable("leftState.next", 0, (), (), own_columns({_NUMBER: pl.Int64()}), access=Access(lasting=True)),
            StateTable("rightState", 1, right_keys, (*right_keys, _TIME), versions, access=Access(use="joined")),
        )

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        return self.more_keys(inputs, [])

    def first_keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        return [None, inputs[0].head(1) if inputs[0].height else None, None]

    def more_keys(self, inputs: Frames, state: Frames) -> list[pl.DataFrame | None]:
        key_frames = [self.as_right(f) for f in (inputs[0], *state[:1]) if f.height]
        if inputs[1].height:
            key_frames.append(inputs[1].select(self.right_keys))
        first = self.first_keys(inputs) if not state else [None, None, None]
        return [*first[:2], pl.concat(key_frames) if key_frames else None]

    def advance(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int], watermark: Watermark) -> Step:
        stored_rows, counter, versions = state
        new_rows, next_number = self._numbered_rows(inputs[0], counter, now)
        all_versions = self._versions(inputs[1], versions, now)
        buffer = pl.concat([stored_rows.with_columns(pl.lit(True).alias("@old")), new_rows])
        has_advanced = watermark.now > watermark.before
        ready = buffer[_TIME] <= watermark.now if has_advanced else pl.Series([False]).new_from_index(0, buffer.height)
        out = self._release(buffer.filter(ready).sort(_NUMBER), all_versions, now)
        waiting_rows = buffer.filter(~ready & ~pl.col("@old"))
        released_rows = buffer.filter(ready & pl.col("@old"))
        left, right, forgotten = self.tables[0], *self._clean_versions(all_versions, watermark, now, ttl[1])
        insert_only = KIND not in inputs[0].columns and not self.upserts and not (buffer[_ROW_KIND] != 0).any()
        return Step(
            _output(out, insert_only),
            [_some(waiting_rows.select([*left.schema, ACCESS_TIME])), next_number, _some(right)],
            [_some(released_rows.select(left.identity)), None, _some(forgotten)],
        )

    def _numbered_rows(
        self, rows: pl.DataFrame, counter: pl.DataFrame, now: int
    ) -> tuple[pl.DataFrame, pl.DataFrame | None]:
        """New left rows as rows of their table, numbered on, and the number to continue from."""
        first = counter[_NUMBER][0] if counter.height else 0
        waiting_rows = rows.select(
            *state_columns(self.left_type),
            _kinds(rows).alias(_ROW_KIND),
            (pl.int_range(pl.len(), dtype=pl.Int64) + first).alias(_NUMBER),
            _millis(self.left_type, self.left_time).alias(_TIME),
            pl.lit(now, dtype=pl.Int64).alias(ACCESS_TIME),
            pl.lit(False).alias("@old"),
        )
        if not rows.height:
            return waiting_rows, None
        after = pl.DataFrame({_NUMBER: [first + rows.height], ACCESS_TIME: [now]})
        return waiting_rows, after.cast(pl.Int64)

    def _versions(self, rows: pl.DataFrame, old_versions: pl.DataFrame, now: int) -> pl.DataFrame:
        """All versions of the keys at hand, the last one of each key and time; ``@old`` marks those of which the state
        has a row, ``@new`` those to write."""
        fresh = rows.select(
            *state_columns(self.right_type),
            _kinds(rows).alias(_ROW_KIND),
            _millis(self.right_type, self.right_time).alias(_TIME),
            pl.lit(now, dtype=pl.Int64).alias(ACCESS_TIME),
            pl.lit(False).alias("@old"),
            pl.lit(True).alias("@new"),
        )
        identity = list(self.tables[2].identity)
        both = pl.concat([old_versions.with_columns(pl.lit(True).alias("@old"), pl.lit(False).alias("@new")), fresh])
        both = both.with_columns(pl.col("@old").any().over(identity))
        return both.unique(subset=identity, keep="last", maintain_order=True)

    def _release(self, rows: pl.DataFrame, versions: pl.DataFrame, now: int) -> pl.DataFrame:
        rows = rows.rename({_ROW_KIND: KIND})
        number, of_version = self.number_keys(rows, versions)
        agrees = self.agree(rows)
        row_times = pl.DataFrame({_KEY: number, _TIME: rows[_TIME]}).with_row_index("@row").sort(_TIME)
        version_times = pl.DataFrame({_KEY: of_version, _TIME: versions[_TIME]}).with_row_index("@version").sort(_TIME)
        matches = row_times.join_asof(
            version_times, on=_TIME, by=_KEY, strategy="backward", check_sortedness=False
        ).sort("@row")
        version = matches["@version"]
        beside = versions[version.fill_null(0)] if versions.height else versions.clear(rows.height)
        has_match = version.is_not_null() & agrees & beside[_ROW_KIND].is_in([0, 2]).fill_null(False)
        return self.join_rows(rows, beside, has_match, now)

    def _clean_versions(
        self, versions: pl.DataFrame, watermark: Watermark, now: int, ttl: int
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The versions to write, and those to forget: older than the newest one that the watermark has reached. As with
        Flink's timers nothing is forgotten while it is still: rows that arrived late may still ask."""
        table = self.tables[2]
        _, number = self.number_keys(pl.DataFrame(schema=state_columns(self.left_type)), versions)
        keyed_versions = versions.with_columns(number.alias(_KEY))
        new_watermark = watermark.now if watermark.now > watermark.before else NO_WATERMARK
        past = pl.col(_TIME).filter(pl.col(_TIME) <= new_watermark).max().over(_KEY)
        dead = (pl.col(_TIME) < past).fill_null(False)
        forgotten = keyed_versions.filter(dead & pl.col("@old")).select(table.identity)
        upserts = keyed_versions.filter(~dead if ttl > 0 else ~dead & pl.col("@new"))
        upserts = upserts.with_columns(pl.lit(now, dtype=pl.Int64).alias(ACCESS_TIME))
        return upserts.select([*table.schema, ACCESS_TIME]), forgotten


@dataclass(frozen=True)
class ProcessingTimeJoinKernel(_TemporalJoin):
    """Joins with the row of a key that is there when the left row arrives; the right rows of a micro-batch come
    first."""

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        keys = tuple(self.right_keys)
        row_types = field_columns(self.right_type, 1)
        return (StateTable("rightState", 1, keys, keys, row_types, access=Access(use="joined")),)

    def keys(self, inputs: Frames) -> list[pl.DataFrame | None]:
        key_frames = [self.as_right(inputs[0])] if inputs[0].height else []
        if inputs[1].height:
            key_frames.append(inputs[1].select(self.right_keys))
        return [pl.concat(key_frames) if key_frames else None]

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        table = self.tables[0]
        changes = inputs[1].select(*table.schema, _kinds(inputs[1]).alias(_ROW_KIND))
        last = changes.unique(subset=list(table.identity), keep="last", maintain_order=True)
        stored_rows = state[0].drop(ACCESS_TIME).with_columns(pl.lit(0, dtype=pl.Int8).alias(_ROW_KIND))
        latest_rows = pl.concat([stored_rows, last]).unique(
            subset=list(table.identity), keep="last", maintain_order=True
        )
        live = latest_rows.filter(pl.col(_ROW_KIND).is_in([0, 2])).drop(_ROW_KIND)
        rows = inputs[0].with_columns(_kinds(inputs[0]).alias(KIND))
        number, of_row = self.number_keys(rows, live)
        place = pl.DataFrame({_KEY: of_row}).with_row_index("@row")
        matches = pl.DataFrame({_KEY: number}).join(place, on=_KEY, how="left", maintain_order="left")["@row"]
        beside = live[matches.fill_null(0)] if live.height else live.clear(rows.height)
        has_match = matches.is_not_null() & self.agree(rows)
        out = self.join_rows(rows, beside, has_match, now)
        rows_to_write = live if ttl[1] > 0 else live.join(last, on=list(table.identity), how="semi", nulls_equal=True)
        upserts = rows_to_write.with_columns(pl.lit(now, dtype=pl.Int64).alias(ACCESS_TIME))
        deletes = last.filter(~pl.col(_ROW_KIND).is_in([0, 2])).select(table.identity)
        return Step(
            _output(out, KIND not in inputs[0].columns and not self.upserts), [_some(upserts)], [_some(deletes)]
        )


def _some(frame: pl.DataFrame) -> pl.DataFrame | None:
    return frame if frame.height else None
