"""Compares groups that are made anew with those of the old state, in what both have: history that gives other values is
not what the old job has read.

Codes: CKPT056.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from stateplan.common.errors import CheckpointError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.evolution.conversion import Conversion, NewRows
from stateplan.runtime.checkpoint.slots import OperatorEntry
from stateplan.runtime.jobgraph import OperatorSpec
from stateplan.runtime.kernels.common.key_ids import ids_of, positions, unchanged
from stateplan.runtime.watermarks import EventTime

DIFFERS = "CKPT056"
"""The code of history that gives other values than the old state has."""

_OLD = "@old"
"""The column of rows that are sent for a comparison alone."""

_EXAMPLES = 3


@dataclass(frozen=True)
class OldGroups(Conversion):
    """The groups of the old state, as far as they are compared.

    Attributes:
        table: its name.
        columns: for each column of the new state the old one.
    """

    table: str
    columns: Mapping[str, str]

    def __call__(self, tables: Mapping[str, pl.DataFrame], time: EventTime) -> Iterator[NewRows]:
        rows = tables.get(self.table)
        if rows is not None:
            columns = [pl.col(old).alias(new) for new, old in self.columns.items()]
            yield NewRows(0, rows.select(*columns, pl.lit(value=True).alias(_OLD)))


@dataclass(frozen=True)
class CompareGroups:
    """Passes on the groups that were made anew, once they are found to be as the old ones.

    Attributes:
        name: the name of the operator, for messages.
        keys: columns of the key.
        labels: what people call the columns of keys and the compared ones, in their order.
    """

    name: str
    keys: tuple[str, ...]
    labels: Mapping[str, str]

    def __call__(self, tables: Sequence[pl.DataFrame | None]) -> Sequence[pl.DataFrame | None]:
        """State frames. Raises CheckpointError CKPT056, a group differs."""
        rows, *rest = tables
        if rows is None:
            return tables
        is_old = pl.col(_OLD).is_not_null() if _OLD in rows.columns else pl.lit(value=False)
        old, new = rows.filter(is_old), rows.filter(~is_old).drop(_OLD, strict=False)
        self._compare(old, new)
        return [new if new.height else None, *rest]

    def _compare(self, old: pl.DataFrame, new: pl.DataFrame) -> None:
        ids, (old_codes, new_codes) = ids_of((old, new), self.keys)
        old_rows, new_rows = positions(old_codes, ids.count), positions(new_codes, ids.count)
        same = np.zeros(ids.count, bool)
        names = [name for name in self.labels if name not in self.keys]
        same[new_codes] = unchanged(new, old, old_rows[new_codes], names)
        differences = np.flatnonzero(~same)
        if len(differences):
            examples = [
                f"{self._text(old, old_rows[group])} became {self._text(new, new_rows[group])}"
                for group in differences[:_EXAMPLES]
            ]
            raise CheckpointError(DIFFERS, name=self.name, count=len(differences), examples="; ".join(examples))

    def _text(self, rows: pl.DataFrame, row: int) -> str:
        if row < 0:
            return "nothing"
        values = ["NULL" if value is None else value for value in rows[list(self.labels)].row(int(row))]
        return "{" + ", ".join(f"{label}: {v}" for label, v in zip(self.labels.values(), values, strict=True)) + "}"


def comparison_of(
    spec: OperatorSpec, old: OperatorEntry, calls: Sequence[tuple[int, int]]
) -> tuple[OldGroups, CompareGroups] | None:
    """What sends the old groups of an aggregate, and what compares them; None where they have nothing in common.

    Args:
        spec: the operator.
        old: the state of the old one.
        calls: numbers of the calls that must have the same state, in the new aggregate and the old one.
    """
    table = spec.kernel.tables[0]
    old_table = next(iter(old.tables.values()))
    old_calls = dict(calls)
    columns = dict(zip(table.lookup, old_table.lookup, strict=True))
    columns |= {
        name: f"{part.label}{old_calls[part.call]}"
        for name, part in table.columns.items()
        if part.call is not None and part.call in old_calls
    }
    columns = {new: was for new, was in columns.items() if old_table.columns.get(was) == table.schema[new]}
    if not set(table.lookup) < columns.keys():
        return None
    labels = spec.kernel.labels(table)
    own_labels = {name: labels.get(name, name) for name in columns}
    return OldGroups(next(iter(old.tables)), columns), CompareGroups(spec.name, tuple(table.lookup), own_labels)
