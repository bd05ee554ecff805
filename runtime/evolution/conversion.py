"""How the state of an operator is computed from state that another plan has written.

A *conversion* runs where the old state is read, one key group at a time. It gives rows of the new tables. Where their
key group is another one, or several rows become one, the receiver makes the state of what it was sent: see
:class:`runtime.jobgraph.Gather`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import polars as pl

from stateplan.runtime.jobgraph import Gather, JobGraph, StateOnly
from stateplan.runtime.kernel import ACCESS_TIME
from stateplan.runtime.state.runs import WRITTEN


class Converted(NamedTuple):
    """Rows of a new state table, or of an input.

    Attributes:
        number: of the table, or of the input.
        rows: a state frame; of an input, with its fields alone.
        keys: the columns whose hash is that of the key of the operator's input; None for the key group of the old rows.
        is_input: whether they pass through the operator, each at the time of its last access, as rows of an input.
    """

    number: int
    rows: pl.DataFrame
    keys: Sequence[str] | None = None
    is_input: bool = False


class Conversion(ABC):
    """Makes new state rows of the old ones of a key group. Picklable."""

    @abstractmethod
    def __call__(self, tables: Mapping[str, pl.DataFrame]) -> Iterator[Converted]:
        """The new rows.

        Args:
            tables: the old tables by name, without those that have no rows: their columns and the time of access. No
                row is a tombstone, some may have expired.
        """


@dataclass(frozen=True)
class SameRows(Conversion):
    """The same rows, with their columns at other places, or fewer of them.

    Attributes:
        tables: per new table the name of the old one, and for each new column the old one.
    """

    tables: tuple[tuple[str, Mapping[str, str]], ...]

    def __call__(self, tables: Mapping[str, pl.DataFrame]) -> Iterator[Converted]:
        for number, (name, columns) in enumerate(self.tables):
            rows = tables.get(name)
            if rows is not None:
                yield Converted(number, with_columns(rows, columns))


def with_columns(rows: pl.DataFrame, columns: Mapping[str, str]) -> pl.DataFrame:
    """A state frame whose columns have the values of the old ones; the times stay as they are."""
    times = [ACCESS_TIME, *([WRITTEN] if WRITTEN in rows.columns else [])]
    return rows.select(*(pl.col(old).alias(new) for new, old in columns.items()), *times)


@dataclass(frozen=True)
class StateLoad:
    """Where the state of an operator comes from.

    Attributes:
        conversions: number of the old operator, and what is made of its state.
        gather: what the receiver makes of it; None for as it is sent.
        as_stored: whether the stored runs are taken over as they are, without a look at their rows.
    """

    conversions: tuple[tuple[int, Conversion], ...]
    gather: Gather | None = None
    as_stored: bool = False


def loading(job: JobGraph, loads: Sequence[Sequence[StateLoad | None]]) -> JobGraph:
    """A job whose operators make the state that they begin with, and nothing else.

    Args:
        job: the job.
        loads: of each checkpoint that has state, per operator where its state comes from.
    """
    gathers = [next((load.gather for load in some if load is not None), None) for some in zip(*loads, strict=True)]
    operators = (replace(o, loading=StateOnly(gather)) for o, gather in zip(job.operators, gathers, strict=True))
    return replace(job, operators=tuple(operators))
