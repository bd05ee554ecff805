"""A micro-batch of a group aggregate, sorted out by group, and taken into the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.kernel import Frames
from stateplan.runtime.kernels.common.key_ids import Bools, Ints
from stateplan.runtime.kernels.common.values import ValueChanges


@dataclass(frozen=True)
class Batch:
    """A batch, sorted out by group. Groups are numbered in order of first arrival.

    Attributes:
        frame: the rows that count: with retractions, those after the group was last empty.
        codes: the group of each.
        signs: +1 or -1 per row; None when all accumulate.
        first: per group its first row in the batch's own frame.
        state_rows: per group its row in the state, -1 for none.
        fresh: per group, whether it starts from nothing.
        rows: per group, rows accumulated less rows retracted, at the end.
        missed: rows retracted from groups that were empty.
    """

    frame: pl.DataFrame
    codes: Ints
    signs: Ints | None
    first: Ints
    state_rows: Ints
    fresh: Bools
    rows: Ints
    missed: int = 0

    @property
    def groups(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class Preparation:
    """What is known of a batch once its state is there.

    Attributes:
        frame: the input.
        state: the frames of the tables of groups and of values.
        batch: the input by group.
        before: the state row each group starts from.
        born: per group since when it is there, a time never reached for one that starts now; None without retractions.
        changes: per table of values, what happens to the values.
        extremes: per call of MIN or MAX with retractions, the extreme value per group as far as it is known without the
            order table, and which groups have to ask it.
    """

    frame: pl.DataFrame
    state: list[pl.DataFrame]
    batch: Batch
    before: pl.DataFrame
    born: Ints | None
    changes: list[ValueChanges]
    extremes: dict[int, tuple[pl.Series, Bools]]

    def is_of(self, frame: pl.DataFrame, state: Frames) -> bool:
        return frame is self.frame and all(a is b for a, b in zip(self.state, state, strict=False))


class Preparer:
    """Sorts batches out. ``more_keys`` and ``process`` of a kernel get the same frames one after the other: what was
    found out for the former is kept for the latter, once.

    Args:
        prepare: sorts out an input with its state.
    """

    def __init__(self, prepare: Callable[[pl.DataFrame, Sequence[pl.DataFrame]], Preparation]) -> None:
        self._prepare = prepare
        self._last: Preparation | None = None

    def ahead(self, frame: pl.DataFrame, state: Frames) -> Preparation:
        """The batch, which :meth:`take` will be asked for next."""
        self._last = self._prepare(frame, state)
        return self._last

    def take(self, frame: pl.DataFrame, state: Frames) -> Preparation:
        """The batch."""
        last, self._last = self._last, None
        return last if last is not None and last.is_of(frame, state) else self._prepare(frame, state)


@dataclass(frozen=True)
class GroupResult:
    """A batch taken into the state.

    Attributes:
        batch: the input by group.
        keys: the key of each group.
        current: the state row of each group, without key and time.
        upserts, deletes: as in :class:`runtime.kernel.Step`.
    """

    batch: Batch
    keys: pl.DataFrame
    current: pl.DataFrame
    upserts: list[pl.DataFrame | None]
    deletes: list[pl.DataFrame | None]
