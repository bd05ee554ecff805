"""Events that hold the row after a change, and of the row before only what has changed: Canal's and Maxwell's.

What ``old`` does not mention is as it is after the change. A field that is mentioned as null was NULL, so it matters
whether a field is there: lines whose ``old`` holds a null, or values in values, are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np
import polars as pl

from stateplan.common.changelog import column
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import BOOLEAN, STRING, LogicalType, row_type
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.formats.change_events import changes_of
from stateplan.connectors.formats.json_decode import Event
from stateplan.connectors.formats.json_rows import BadEvent, Number

HAS_WHOLE_OLD = "@filled"
"""Field of an event whose ``old`` holds whole rows."""

_SCALARS = rb'(?:"(?:[^"\\\n]|\\.)*"|[-+.0-9eE,:\s]++|true|false)*'
_OLD = re.compile(rb'"old"')
_SIMPLE = re.compile(
    rb'"old"\s*:\s*(?:null|\{%s\}|\[\s*\{%s\}(?:\s*,\s*\{%s\})*\s*\])' % (_SCALARS, _SCALARS, _SCALARS)
)


@dataclass(frozen=True)
class DataOld(Event):
    """How such events are written, and the columns that are read of them.

    Attributes:
        names: the names of the columns.
        insert, update, delete: values of the field ``type``; ``ignored`` are those that change no rows.
        has_lists: whether ``data`` and ``old`` are lists of rows.
        expected: a whole event, for messages.
        filters: patterns that a field of the event must match wholly for the event to count.
    """

    names: tuple[str, ...]
    insert: str
    update: str
    delete: str
    ignored: tuple[str, ...]
    has_lists: bool
    expected: str
    filters: Mapping[str, str] = field(default_factory=dict)

    def fields(self, columns: Fields) -> Fields:
        row = row_type(list(columns))
        rows = LogicalType("ARRAY", children=(row,)) if self.has_lists else row
        event_fields = [("data", rows), ("old", rows), ("type", STRING), (HAS_WHOLE_OLD, BOOLEAN)]
        return event_fields + [(name, STRING) for name in self.filters]

    # pieces and frames

    def fits(self, piece: bytes) -> bool:
        """Whether a field that is NULL in an ``old`` of these lines is always one that is not there."""
        return len(_OLD.findall(piece)) == len(_SIMPLE.findall(piece))

    def select(self, df: pl.DataFrame) -> pl.DataFrame:
        """The events that count."""
        for i, pattern in enumerate(self.filters.values()):
            name = column(4 + i)
            good = [v for v in df[name].unique() if v is not None and re.fullmatch(pattern, v)]
            df = df.filter(pl.col(name).is_in(good))
        return df

    def frame(self, df: pl.DataFrame) -> bool:
        """Whether all events of a frame are good, and what is NULL in their old rows was not there."""
        if any(df[column(4 + i)].null_count() for i in range(len(self.filters))):
            return False
        data, old, kind = self.select(df).get_columns()[:3]
        if not kind.is_in([self.insert, self.update, self.delete, *self.ignored]).all(ignore_nulls=False):
            return False
        update = kind == self.update
        if (data.is_null() & ~kind.is_in(self.ignored)).any() or (update & old.is_null()).any():
            return False
        if not self.has_lists:
            return True
        after, before = data.filter(update), old.filter(update)
        if (before.list.len() < after.list.len()).any() or data.list.eval(pl.element().is_null()).list.any().any():
            return False
        return self._alike(before)

    @staticmethod
    def _alike(old: pl.Series) -> bool:
        """Whether the old rows of each event mention the same fields."""
        counts = old.list.len().to_numpy()
        many = np.flatnonzero(counts > 1)
        if not len(many):
            return True
        rows = old[many].explode()
        if rows.null_count():
            return False
        event = pl.Series("event", np.repeat(many, counts[many]))
        has_value = rows.struct.unnest().select(pl.all().is_not_null()).with_columns(event)
        kinds = has_value.group_by("event").agg(pl.exclude("event").n_unique()).drop("event")
        return bool((kinds.max_horizontal() <= 1).all())

    def changes(self, df: pl.DataFrame, width: int) -> tuple[pl.DataFrame, pl.Series]:
        data, old, kind, full_flags = df.get_columns()[:4]
        update, delete = (kind == self.update).to_numpy(), (kind == self.delete).to_numpy()
        events = np.flatnonzero(~kind.is_in(self.ignored).to_numpy())
        if self.has_lists:
            counts = data.list.len().fill_null(0).to_numpy().astype(np.int64)
            counts[kind.is_in(self.ignored).to_numpy()] = 0
            events = np.repeat(np.arange(df.height), counts)
            places = np.arange(len(events)) - np.repeat(np.cumsum(counts) - counts, counts)
            after = data.filter(pl.Series(counts > 0)).explode().struct.unnest()
            olds = np.where(update, old.list.len().fill_null(0).to_numpy().astype(np.int64), 0)
            starts = np.cumsum(olds) - olds
            update_rows = update[events]
            flat = old.filter(pl.Series(olds > 0)).explode().struct.unnest()
            before = flat[(starts[events] + places)[update_rows]]
        else:
            after = data[events].struct.unnest()
            update_rows = update[events]
            before = old[events[update_rows]].struct.unnest()
        old_rows = self._fill_old(before, after.filter(pl.Series(update_rows)), full_flags[events[update_rows]])
        # What goes as a deletion or an insertion is in data.
        row_images = pl.concat([old_rows, after])
        place = np.arange(len(events)) + old_rows.height
        place[update_rows] = np.arange(old_rows.height)
        rows, pairs = changes_of(row_images[place], after, update_rows, delete[events])
        return rows, pl.Series(events[pairs])

    @staticmethod
    def _fill_old(before: pl.DataFrame, after: pl.DataFrame, full_flags: pl.Series) -> pl.DataFrame:
        """The rows before, what is not known of them taken from those after."""
        is_full = full_flags.fill_null(False)
        parts = [
            pl.select(pl.when(is_full | b.is_not_null()).then(b).otherwise(a).alias(b.name)).to_series()
            for b, a in zip(before.get_columns(), after.get_columns(), strict=True)
        ]
        return pl.DataFrame(parts)

    # single events

    def prepare(self, event: dict[str, Any]) -> dict[str, Any] | BadEvent | None:
        """An event with whole rows in ``old``; None for one that does not count."""
        for name, pattern in self.filters.items():
            if name not in event:
                return BadEvent(f'there is no "{name}"', self.expected)
            if not re.fullmatch(pattern, tree_text(event[name])):
                return None
        kind = tree_text(event["type"]) if event.get("type") is not None else None
        if kind in self.ignored:
            return None
        data, old = event.get("data"), event.get("old")
        if kind == self.update and old is not None:
            absent = [name for name in self.names if not _mentions(old, name)]
            if self.has_lists and isinstance(data, list) and isinstance(old, list):
                old = [_full_old(o, d, absent) for o, d in zip(old, data, strict=False)]
            elif not self.has_lists:
                old = _full_old(old, data, absent)
        else:
            old = None
        return {**event, "old": old, HAS_WHOLE_OLD: True}

    def row(self, row: list[Any]) -> BadEvent | None:
        data, old, kind = row[:3]
        if kind is None:
            return BadEvent('there is no "type"', self.expected)
        if kind not in (self.insert, self.update, self.delete):
            return BadEvent(f'unknown "type" value "{kind}"', self.expected)
        if data is None:
            return BadEvent(f'the "data" field of the {kind} event is null', self.expected)
        if kind == self.update and old is None:
            return BadEvent(f'the "old" field of the {kind} event is null', self.expected)
        if self.has_lists and (None in data or (kind == self.update and (None in old or len(old) < len(data)))):
            return BadEvent(f"a row of the {kind} event is missing", self.expected)
        return None


def tree_text(value: Any) -> str:
    """The text of a JSON value as Jackson's ``asText`` gives it."""
    if isinstance(value, (dict, list)):
        return ""
    if isinstance(value, (str, Number)):
        return str(value)
    return {True: "true", False: "false", None: "null"}[value]


def _mentions(value: Any, name: str) -> bool:
    """Whether a field of this name is anywhere in a value."""
    if isinstance(value, dict):
        return name in value or any(_mentions(v, name) for v in value.values())
    return isinstance(value, list) and any(_mentions(v, name) for v in value)


def _full_old(old: Any, data: Any, absent: list[str]) -> Any:
    if not isinstance(old, dict) or not isinstance(data, dict):
        return old
    return {**old, **{name: data[name] for name in absent if name in data}}
