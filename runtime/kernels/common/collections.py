"""Aggregate functions whose result depends on the order of values, or holds them all.

Source of the semantics: Flink's ``FirstValueAggFunction``, ``LastValueAggFunction`` and their ``WithRetract`` twins,
``ListAggFunction``, ``ListAggWithRetractAggFunction``, ``CollectAggFunction``, ``ArrayAggFunction``,
``JsonArrayAggFunction`` and ``JsonObjectAggFunction``. Where Flink keeps a list or a map in a state of its own, an
element here has a time of its own: it expires by itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
import polars as pl

from stateplan.common.errors import DataError
from stateplan.common.types import LogicalType
from stateplan.runtime.kernels.common.accumulators import Changes, Fold, KeepsSecond, MergeableFold, align
from stateplan.runtime.kernels.common.key_ids import Ints, firsts, key_ids, nulls, positions, ranks, stable_order
from stateplan.runtime.kernels.common.lists import (
    STEP,
    VALUE,
    WRITE_TIME,
    elements,
    explode_lists,
    live_entries,
    pack_lists,
    play_changes,
)


class First(Fold):
    """FIRST_VALUE of what is only accumulated: the first value that is not NULL."""

    needs_order: ClassVar[bool] = True
    last: ClassVar[bool] = False

    def __init__(self, number: int, argument: LogicalType | None, result: LogicalType) -> None:
        assert argument is not None
        self._value = f"value{number}"
        self.columns = {self._value: argument.polars()}
        self.initial = {self._value: None}

    def update(self, before: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        old = before[self._value]
        if self.last:
            place = positions(changes.codes, changes.groups)
            return [align(changes.column, place).alias(old.name).zip_with(pl.Series(place >= 0), old)]
        return [old.zip_with(old.is_not_null(), align(changes.column, firsts(changes.codes, changes.groups)))]

    def value(self, state: pl.DataFrame) -> pl.Series:
        return state[self._value]


class Last(First):
    """LAST_VALUE of what is only accumulated: the last value that is not NULL."""

    last = True


class ValueList(Fold):
    """Values in order of arrival. Retracting removes the first equal one; what is not there is not retracted."""

    needs_order: ClassVar[bool] = True
    rewrites: ClassVar[bool] = True
    """Whether a retraction writes the whole list anew, so that none of its elements expires before the others."""

    def __init__(self, number: int, argument: LogicalType | None, result: LogicalType) -> None:
        assert argument is not None
        self._list = f"values{number}"
        self._element = argument.polars()
        self._dtype = pl.List(pl.Struct({VALUE: self._element, WRITE_TIME: pl.Int64()}))
        self.columns = {self._list: self._dtype}
        self.initial = {self._list: None}

    def update(self, before: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        old = before[self._list]
        if not len(changes.codes):
            return [old]
        groups = np.unique(changes.codes)
        number = positions(groups, changes.groups)
        owners, frame = explode_lists(old[groups])
        owners, frame = live_entries(owners, frame, changes.now, changes.ttl)
        new = elements(changes.column.cast(self._element), changes.now)
        both = pl.concat([frame, new])
        codes = np.concatenate([owners, number[changes.codes]])
        if changes.signs is not None:
            change = np.concatenate([np.ones(len(owners), np.int64), changes.signs])
            left = play_changes(codes, both[VALUE], change)
            if self.rewrites:
                both = both.with_columns(_renew_times(both, codes, change, left, changes.now))
            both, codes = both[left], codes[left]
        lists = pack_lists(codes, both, len(groups), old.name, self._dtype)
        return [lists if len(groups) == changes.groups else _replace_lists(old, groups, lists)]

    def values(self, state: pl.DataFrame) -> pl.Series:
        """The lists without times."""
        return state[self._list].list.eval(pl.element().struct.field(VALUE))


class MergeableList(ValueList, MergeableFold):
    """Values whose partial results can be merged."""

    @property
    def parts(self) -> Mapping[str, pl.DataType]:
        return {**self.columns, self._list: pl.List(pl.Struct({VALUE: self._element, STEP: pl.Int64()}))}

    def partial(self, changes: Changes) -> list[pl.Series]:
        """The values and their steps: what is retracted may have arrived before."""
        steps = np.ones(len(changes.codes), np.int64) if changes.signs is None else changes.signs
        frame = pl.DataFrame([changes.column.cast(self._element).alias(VALUE), pl.Series(STEP, steps)])
        return [pack_lists(changes.codes, frame, changes.groups, self._list, self.parts[self._list])]

    def as_partial(self, state: pl.DataFrame) -> list[pl.Series]:
        owners, frame = explode_lists(state[self._list])
        steps = pl.Series(STEP, np.ones(len(owners), np.int64))
        entries = pl.DataFrame([frame[VALUE], steps]) if len(owners) else pl.DataFrame()
        others = [state[n] for n in self.columns if n != self._list]
        return [pack_lists(owners, entries, state.height, self._list, self.parts[self._list]), *others]

    def merge(self, before: pl.DataFrame, parts: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        owners, frame = explode_lists(parts[self._list])
        if not len(owners):
            return [before[n] for n in self.columns]
        steps = frame[STEP].to_numpy()
        signs = None if (steps > 0).all() else steps
        return self.update(
            before, replace(changes, codes=changes.codes[owners], values=frame[VALUE], signs=signs, second=None)
        )


def _renew_times(frame: pl.DataFrame, codes: Ints, change: Ints, left: Ints, now: int) -> pl.Series:
    """Times of access: ``now`` for all elements of a list of which one was removed."""
    has_removal = np.zeros(int(codes.max(initial=-1)) + 1, bool)
    is_removed = np.ones(len(codes), bool)
    is_removed[left] = False
    has_removal[codes[is_removed & (change > 0)]] = True
    return pl.Series(WRITE_TIME, np.where(has_removal[codes], now, frame[WRITE_TIME].to_numpy()))


def _replace_lists(old: pl.Series, rows: Ints, new: pl.Series) -> pl.Series:
    place = np.arange(len(old))
    place[rows] = len(old) + np.arange(len(rows))
    return pl.concat([old, new])[place]


class FirstOf(ValueList):
    """FIRST_VALUE of what may be retracted."""

    rewrites = False

    def value(self, state: pl.DataFrame) -> pl.Series:
        return state[self._list].list.first().struct.field(VALUE)


class LastOf(ValueList):
    """LAST_VALUE of what may be retracted."""

    rewrites = False

    def value(self, state: pl.DataFrame) -> pl.Series:
        return state[self._list].list.last().struct.field(VALUE)


class Arrays(MergeableList):
    """ARRAY_AGG: all values, NULLs too; NULL for none."""

    sees_nulls: ClassVar[bool] = True

    def value(self, state: pl.DataFrame) -> pl.Series:
        return self.values(state)


class ArraysOfValues(Arrays):
    """ARRAY_AGG with IGNORE NULLS."""

    sees_nulls = False


class Text(MergeableFold, KeepsSecond):
    """LISTAGG of what is only accumulated: the text so far, and the separator that came last."""

    needs_order: ClassVar[bool] = True
    arguments: ClassVar[int] = 2

    def __init__(self, number: int, argument: LogicalType | None, result: LogicalType) -> None:
        self._separator, self._text = f"separator{number}", f"text{number}"
        self.columns = {self._separator: pl.String(), self._text: pl.String()}
        self.initial = {self._separator: ",", self._text: None}

    def update(self, before: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        old, text = before[self._separator], before[self._text]
        if not len(changes.codes):
            return [old, text]
        separator = _last(old, changes)
        order = stable_order(changes.codes)
        parts = "," + changes.column if changes.second is None else changes.second + changes.column
        texts = (
            pl.DataFrame([pl.Series("g", changes.codes[order]), parts[order].alias("v")])
            .group_by("g", maintain_order=True)
            .agg(pl.col("v").str.join(""))
        )
        place = positions(texts["g"].to_numpy(), changes.groups)
        text_of_changes = align(texts["v"], place)
        head = pl.Series(text.is_null().to_numpy() & (place >= 0))
        first = np.zeros(len(order), bool)
        _, starts = np.unique(changes.codes[order], return_index=True)
        first[starts] = True
        lengths = np.zeros(changes.groups, np.int64)
        gap = 1 if changes.second is None else changes.second[order[starts]].str.len_chars().cast(pl.Int64).to_numpy()
        lengths[changes.codes[order[starts]]] = gap
        bare = pl.DataFrame([text_of_changes.alias("v"), pl.Series("n", lengths)]).select(
            pl.col("v").str.slice(pl.col("n"))
        )["v"]
        text_of_changes = bare.zip_with(head, text.fill_null("") + text_of_changes)
        return [separator, text_of_changes.zip_with(pl.Series(place >= 0), text).alias(self._text)]

    def second_of(self, state: pl.DataFrame) -> pl.Series:
        return state[self._separator]

    def merge(self, before: pl.DataFrame, parts: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        rows = np.flatnonzero(parts[self._text].is_not_null().to_numpy())
        return self.update(
            before,
            replace(
                changes,
                codes=changes.codes[rows],
                values=parts[self._text][rows],
                second=parts[self._separator][rows],
            ),
        )

    def value(self, state: pl.DataFrame) -> pl.Series:
        return state[self._text]


def _last(old: pl.Series, changes: Changes) -> pl.Series:
    """Per group, the second argument of its last value."""
    if changes.second is None:
        return old
    place = positions(changes.codes, changes.groups)
    return align(changes.second, place).alias(old.name).zip_with(pl.Series(place >= 0), old)


class ListedText(MergeableList, KeepsSecond):
    """LISTAGG of what may be retracted: the values, joined with the separator that came last."""

    arguments: ClassVar[int] = 2

    def __init__(self, number: int, argument: LogicalType | None, result: LogicalType) -> None:
        super().__init__(number, argument, result)
        self._separator = f"separator{number}"
        self.columns = {**self.columns, self._separator: pl.String()}
        self.initial = {**self.initial, self._separator: ","}

    def update(self, before: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        return [*super().update(before, changes), _last(before[self._separator], changes)]

    def second_of(self, state: pl.DataFrame) -> pl.Series:
        return state[self._separator]

    def partial(self, changes: Changes) -> list[pl.Series]:
        start = pl.Series(self._separator, [","], dtype=pl.String).new_from_index(0, changes.groups)
        return [*super().partial(changes), _last(start, changes)]

    def merge(self, before: pl.DataFrame, parts: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        rows = np.flatnonzero(parts[self._list].is_not_null().to_numpy())
        some = replace(changes, codes=changes.codes[rows], values=None, second=parts[self._separator][rows])
        return [super().merge(before, parts, changes)[0], _last(before[self._separator], some)]

    def value(self, state: pl.DataFrame) -> pl.Series:
        frame = pl.DataFrame([self.values(state).alias("v"), state[self._separator].alias("s")])
        return frame.select(pl.when(pl.col("v").is_not_null()).then(pl.col("v").list.join(pl.col("s"))))["v"]


class JsonArray(MergeableList):
    """JSON_ARRAYAGG ... NULL ON NULL: JSON texts."""

    sees_nulls: ClassVar[bool] = True

    def value(self, state: pl.DataFrame) -> pl.Series:
        items = self.values(state).list.eval(pl.element().fill_null("null")).list.join(",")
        return "[" + items.fill_null("") + "]"


class JsonArrayAbsent(JsonArray):
    """JSON_ARRAYAGG ... ABSENT ON NULL."""

    sees_nulls = False


class ValueCounts(MergeableFold):
    """COLLECT: each value with the number of its rows."""

    def __init__(self, number: int, argument: LogicalType | None, result: LogicalType) -> None:
        assert argument is not None
        self._map = f"values{number}"
        self._fields = pl.Struct({VALUE: argument.polars(), "n": pl.Int64(), WRITE_TIME: pl.Int64()})
        self.columns = {self._map: pl.List(self._fields)}
        self.initial = {self._map: None}

    def update(self, before: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        old = before[self._map]
        if not len(changes.codes):
            return [old]
        owners, frame = explode_lists(old)
        owners, frame = live_entries(owners, frame, changes.now, changes.ttl)
        steps = np.ones(len(changes.codes), np.int64) if changes.signs is None else changes.signs
        new = elements(changes.column, changes.now).insert_column(1, pl.Series("n", steps))
        both = pl.concat([frame.select("v", "n", "t"), new]).insert_column(
            0, pl.Series("g", np.concatenate([owners, changes.codes]))
        )
        ids = key_ids(both, ["g", VALUE])
        count = np.zeros(ids.count, np.int64)
        np.add.at(count, ids.codes, both["n"].to_numpy())
        write_times = np.zeros(ids.count, np.int64)
        np.maximum.at(write_times, ids.codes, both[WRITE_TIME].to_numpy())
        remaining = np.flatnonzero(count != 0)
        remaining = remaining[np.argsort(ids.first[remaining])]
        rows = ids.first[remaining]
        frame = both[rows].with_columns(pl.Series("n", count[remaining]), pl.Series(WRITE_TIME, write_times[remaining]))
        return [pack_lists(both["g"].to_numpy()[rows], frame.drop("g"), changes.groups, old.name, old.dtype)]

    def merge(self, before: pl.DataFrame, parts: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        owners, frame = explode_lists(parts[self._map])
        if not len(owners):
            return [before[self._map]]
        return self.update(
            before,
            replace(changes, codes=changes.codes[owners], values=frame[VALUE], signs=frame["n"].to_numpy()),
        )

    def value(self, state: pl.DataFrame) -> pl.Series:
        element = pl.element().struct
        pairs = state[self._map].list.eval(
            pl.struct(element.field(VALUE).alias("key"), element.field("n").cast(pl.Int32).alias("value"))
        )
        return _never_null(pairs)


def _never_null(lists: pl.Series) -> pl.Series:
    """The lists, an empty one for NULL."""
    if not lists.null_count():
        return lists
    empty = pl.Series(lists.name, [[]], dtype=lists.dtype)
    return pl.concat([lists, empty])[np.where(lists.is_null().to_numpy(), len(lists), np.arange(len(lists)))]


class JsonObject(MergeableFold):
    """JSON_OBJECTAGG ... NULL ON NULL: JSON texts by key, in order of the keys. A key that is there already, or NULL,
    fails the job."""

    needs_order: ClassVar[bool] = True
    sees_nulls: ClassVar[bool] = True
    arguments: ClassVar[int] = 2
    absent: ClassVar[bool] = False

    def __init__(self, number: int, argument: LogicalType | None, result: LogicalType) -> None:
        self._map = f"entries{number}"
        self._fields = pl.Struct({"k": pl.String(), VALUE: pl.String(), WRITE_TIME: pl.Int64()})
        self.columns = {self._map: pl.List(self._fields)}
        self.initial = {self._map: None}

    def update(self, before: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        old = before[self._map]
        if not len(changes.codes):
            return [old]
        if changes.column.null_count():
            raise DataError("DATA302.object_key", what="a key that is NULL")
        second = changes.second
        assert second is not None
        owners, frame = explode_lists(old)
        owners, frame = live_entries(owners, frame, changes.now, changes.ttl)
        new = elements(second, changes.now).insert_column(0, changes.column.cast(pl.String).alias("k"))
        both = pl.concat([frame, new])
        codes = np.concatenate([owners, changes.codes])
        steps = np.ones(len(changes.codes), np.int64) if changes.signs is None else changes.signs
        change = np.concatenate([np.ones(len(owners), np.int64), steps])
        if self.absent:
            rows = np.flatnonzero((both[VALUE].is_not_null()).to_numpy() | (change < 0))
            both, codes, change = both[rows], codes[rows], change[rows]
        left = self._left(codes, both["k"], change)
        return [pack_lists(codes[left], both[left], changes.groups, old.name, old.dtype)]

    @property
    def parts(self) -> Mapping[str, pl.DataType]:
        return {self._map: pl.List(pl.Struct({"k": pl.String(), VALUE: pl.String(), STEP: pl.Int64()}))}

    def partial(self, changes: Changes) -> list[pl.Series]:
        """The entries and their steps, in order: what is retracted may have arrived before."""
        second = changes.second
        assert second is not None
        steps = np.ones(len(changes.codes), np.int64) if changes.signs is None else changes.signs
        return [self._pack_objects(changes.codes, changes.column.cast(pl.String), second, steps, changes.groups)]

    def as_partial(self, state: pl.DataFrame) -> list[pl.Series]:
        owners, frame = explode_lists(state[self._map])
        if not len(owners):
            return [nulls(self._map, self.parts[self._map], state.height)]
        return [self._pack_objects(owners, frame["k"], frame[VALUE], np.ones(len(owners), np.int64), state.height)]

    def _pack_objects(self, codes: Ints, keys: pl.Series, values: pl.Series, steps: Ints, groups: int) -> pl.Series:
        frame = pl.DataFrame([keys.alias("k"), values.alias(VALUE), pl.Series(STEP, steps)])
        return pack_lists(codes, frame, groups, self._map, self.parts[self._map])

    def merge(self, before: pl.DataFrame, parts: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        owners, frame = explode_lists(parts[self._map])
        if not len(owners):
            return [before[self._map]]
        steps = frame[STEP].to_numpy()
        signs = None if (steps > 0).all() else steps
        codes = changes.codes[owners]
        return self.update(before, replace(changes, codes=codes, values=frame["k"], second=frame[VALUE], signs=signs))

    @staticmethod
    def _left(codes: Ints, keys: pl.Series, change: Ints) -> Ints:
        """The rows that are left of maps that are written to in order.

        Raises:
            DataError: DATA302, for a key written while it is there.
        """
        ids = key_ids(pl.DataFrame([pl.Series("g", codes), keys]), ["g", "k"])
        order = stable_order(ids.codes)
        sorted_ids, sorted_change = ids.codes[order], change[order]
        twice = np.flatnonzero((sorted_ids[1:] == sorted_ids[:-1]) & (sorted_change[1:] > 0) & (sorted_change[:-1] > 0))
        if len(twice):
            raise DataError(
                "DATA302.object_key",
                what=f"the key '{keys[int(order[twice[0]])]:.60}' twice",
                expected="different keys in each group",
            )
        last = ranks(ids.codes, backwards=True) == 0
        return np.flatnonzero(last & (change > 0))

    def value(self, state: pl.DataFrame) -> pl.Series:
        owners, frame = explode_lists(state[self._map])
        if not frame.height:
            return pl.Series("x", ["{}"]).new_from_index(0, state.height)
        names = pl.Series([json.dumps(k, ensure_ascii=False) for k in frame["k"].to_list()], dtype=pl.String)
        parts = names + ":" + frame[VALUE].fill_null("null")
        objects = (
            pl.DataFrame([pl.Series("g", owners), frame["k"], parts.alias("p")])
            .sort("g", "k")
            .group_by("g", maintain_order=True)
            .agg(pl.col("p").str.join(","))
        )
        place = positions(objects["g"].to_numpy(), state.height)
        text = align(objects["p"], place) if objects.height else nulls("x", pl.String(), state.height)
        return "{" + text.fill_null("") + "}"


class JsonObjectAbsent(JsonObject):
    """JSON_OBJECTAGG ... ABSENT ON NULL: without the keys of NULLs."""

    absent = True
