"""Which rows of two frames agree, in columns whose names may differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from stateplan.runtime.kernels.common.key_ids import Ints, firsts, ids_of, positions

Pairs = Sequence[tuple[str, str]]
"""Columns of a row, and those of another one, which are equal where both agree. NULL equals NULL."""


def keys_of(rows: pl.DataFrame, others: pl.DataFrame, pairs: Pairs) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The columns of both frames in ``pairs``, with the same names and types."""
    names = [f"p{i}" for i in range(len(pairs))]  # a key may have a column twice
    left = pl.DataFrame([rows[a].alias(n) for n, (a, _) in zip(names, pairs, strict=True)])
    right = pl.DataFrame([others[b].cast(rows[a].dtype).alias(n) for n, (a, b) in zip(names, pairs, strict=True)])
    return left, right


def match(rows: pl.DataFrame, others: pl.DataFrame, pairs: Pairs, first: bool = False) -> Ints:
    """Per row, the last (or first) one of ``others`` that agrees with it in all ``pairs`` of columns; -1 for none."""
    if not rows.height or not others.height:
        return np.full(rows.height, -1, np.int64)
    if not pairs:
        return np.full(rows.height, 0 if first else others.height - 1, np.int64)
    left, right = keys_of(rows, others, pairs)
    ids, (mine, theirs) = ids_of((left, right), left.columns)
    return (firsts if first else positions)(theirs, ids.count)[mine]
