"""Kernels alone, one thread: ``python -m benchmarks.kernels [rows ...]``.

Each case asks for keys and processes one micro-batch over state as large as the batch. Printed is processor time, the
best of several runs. State lookups and writes are not in it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND
from stateplan.common.types import BIGINT, INT, STRING, LogicalType, row_type
from stateplan.execnodes.ranking import (
    AppendFastStrategy,
    ConstantRange,
    RetractStrategy,
    SortField,
    SortSpec,
    UpdateFastStrategy,
)
from stateplan.execnodes.specs import AggCall, JoinSpec
from stateplan.runtime.kernel import ACCESS_TIME, Kernel, fetch_state
from stateplan.runtime.kernels.deduplicate import DeduplicateKernel
from stateplan.runtime.kernels.group_aggregate import GroupAggregateKernel
from stateplan.runtime.kernels.join import JoinKernel
from stateplan.runtime.kernels.rank import rank_kernel

SIZES = (10, 15_000, 250_000)
ORDERS = row_type([("order_id", BIGINT), ("user_id", BIGINT), ("product_id", BIGINT), ("num", INT), ("ts", STRING)])
LOGISTICS = row_type([("order_id", BIGINT), ("target", STRING), ("lts", STRING)])


@dataclass(frozen=True)
class Case:
    """One kernel on one kind of input.

    Attributes:
        first, second: make the micro-batch that fills the state, and the one that is measured.
    """

    name: str
    kernel: Kernel
    first: Callable[[int], list[pl.DataFrame]]
    second: Callable[[int], list[pl.DataFrame]]


def orders(rows: int, seed: int) -> pl.DataFrame:
    """Orders, a tenth of them with the id of another; with another seed other ids, but for a tenth."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(rows) + seed * rows
    repeated = rng.random(rows) < 0.1
    ids[repeated] = rng.integers(0, rows, int(repeated.sum()))
    return pl.DataFrame(
        {
            "c0": ids,
            "c1": rng.integers(0, 100_000, rows),
            "c2": rng.integers(0, 1000, rows),
            "c3": rng.integers(1, 101, rows).astype(np.int32),
            "c4": pl.Series(
                [f"2024-01-01 00:{s // 60:02d}:{s % 60:02d}" for s in rng.integers(0, 3600, rows).tolist()]
            ),
        }
    )


def logistics(rows: int, seed: int, ids: int) -> pl.DataFrame:
    """One row per order id 0 .. ids - 1, at most ``rows`` of them."""
    rng = np.random.default_rng(seed)
    keys = rng.permutation(ids)[:rows]
    return pl.DataFrame(
        {
            "c0": keys,
            "c1": pl.Series([f"city{c}" for c in rng.integers(0, 500, len(keys)).tolist()]),
            "c2": pl.Series(["2024-01-02 00:00:00"] * len(keys)),
        }
    )


def updates(rows: int, seed: int) -> pl.DataFrame:
    """A changelog: half of the rows insert, a quarter each retracts and inserts again with another number."""
    frame = orders(rows // 2 or 1, 0)
    quarter = frame[: max(1, rows // 4)]
    changed = quarter.with_columns((pl.col("c3") + seed + 1).cast(pl.Int32))
    parts = [(frame, 0)] if seed == 0 else [(orders(rows // 2 or 1, seed), 0), (quarter, 1), (changed, 2)]
    return pl.concat([f.with_columns(pl.lit(kind, dtype=pl.Int8).alias(KIND)) for f, kind in parts])


def call(function: str, argument: int, result: LogicalType, distinct: bool = False) -> AggCall:
    return AggCall(name="x", internal_name=f"${function}$1", arg_list=(argument,), distinct=distinct, type=result)


def cases() -> list[Case]:
    """The cases, in the order they are printed."""

    def pure(rows: int) -> list[pl.DataFrame]:
        return [orders(rows, 0)]

    def more(rows: int) -> list[pl.DataFrame]:
        return [orders(rows, 1)]

    example = (call("COUNT", 1, BIGINT, True), call("COUNT", 0, BIGINT), call("SUM", 3, INT))
    extremes = (call("MIN", 3, INT), call("MAX", 3, INT), call("SUM", 3, INT), call("COUNT", 1, BIGINT, True))
    spec = JoinSpec(join_type="INNER", left_keys=(0,), right_keys=(0,), filter_nulls=(True,))
    unique = ((0,),)
    order = SortSpec(fields=(SortField(index=3, is_ascending=False, null_is_last=True),))
    three = ConstantRange(start=1, end=3)

    def top(strategy: AppendFastStrategy | UpdateFastStrategy | RetractStrategy, number: bool) -> Kernel:
        return rank_kernel(ORDERS, (2,), order, three, strategy, number, True)

    def growing(rows: int) -> list[pl.DataFrame]:
        quarter = orders(rows, 0)[: max(1, rows // 4)]
        larger = quarter.with_columns((pl.col("c3") + 1).cast(pl.Int32))
        parts = [(orders(rows, 1)[: rows - quarter.height], 0), (larger, 2)]
        return [pl.concat([f.with_columns(pl.lit(kind, dtype=pl.Int8).alias(KIND)) for f, kind in parts])]

    def both(rows: int) -> list[pl.DataFrame]:
        return [orders(rows, 0), logistics(rows // 4, 1, rows)]

    def further(rows: int) -> list[pl.DataFrame]:
        return [orders(rows, 1), logistics(rows // 2, 2, rows)]

    def retracting(rows: int) -> list[pl.DataFrame]:
        return [updates(rows, 1), logistics(rows // 2, 2, rows)]

    return [
        Case("deduplicate first, BIGINT key", DeduplicateKernel(ORDERS, (0,), False, True), pure, more),
        Case("deduplicate first, STRING key", DeduplicateKernel(ORDERS, (4,), False, True), pure, more),
        Case("deduplicate first, two keys", DeduplicateKernel(ORDERS, (0, 4), False, True), pure, more),
        Case("deduplicate last, BIGINT key", DeduplicateKernel(ORDERS, (0,), True, True), pure, more),
        Case(
            "group aggregate, example 1",
            GroupAggregateKernel(ORDERS, (2,), example, (False,) * 3, True, False),
            pure,
            more,
        ),
        Case(
            "group aggregate, STRING key, no DISTINCT",
            GroupAggregateKernel(ORDERS, (4,), example[1:], (False,) * 2, True, False),
            pure,
            more,
        ),
        Case(
            "group aggregate, retractions, MIN MAX SUM DISTINCT",
            GroupAggregateKernel(ORDERS, (2,), extremes, (True,) * 4, True, True),
            lambda n: [updates(n, 0)],
            lambda n: [updates(n, 1)],
        ),
        Case("top-3, insert-only", top(AppendFastStrategy(), False), pure, more),
        Case("top-3 with number, insert-only", top(AppendFastStrategy(), True), pure, more),
        Case("top-3 with number, updates", top(UpdateFastStrategy(primary_keys=(0,)), True), pure, growing),
        Case(
            "top-3 with number, retractions",
            top(RetractStrategy(), True),
            lambda n: [updates(n, 0)],
            lambda n: [updates(n, 1)],
        ),
        Case("join, no unique keys", JoinKernel(ORDERS, LOGISTICS, spec), both, further),
        Case("join, unique keys", JoinKernel(ORDERS, LOGISTICS, spec, unique, unique), both, further),
        Case("join, retractions, no unique keys", JoinKernel(ORDERS, LOGISTICS, spec), both, retracting),
    ]


def measure(case: Case, rows: int) -> tuple[int, float]:
    """Rows of the measured micro-batch, and its best processor time in seconds."""
    kernel = case.kernel
    ttl = [3_600_000] * 2
    nothing = [pl.DataFrame(schema={**t.schema, ACCESS_TIME: pl.Int64()}) for t in kernel.tables]
    stored = kernel.process(case.first(rows), nothing, 1, ttl).upserts
    state = [empty if s is None else s for s, empty in zip(stored, nothing, strict=True)]
    inputs = case.second(rows)
    found = dict(zip((t.name for t in kernel.tables), state, strict=True))
    best = float("inf")
    for _ in range(500 if rows < 1000 else 9):
        started = time.process_time()
        kernel.process(inputs, fetch_state(kernel, inputs, lambda table, keys: found[table.name]), 2, ttl)
        best = min(best, time.process_time() - started)
    return sum(frame.height for frame in inputs), best


def main(arguments: Sequence[str]) -> None:
    """Prints a table."""
    sizes = [int(a) for a in arguments] or list(SIZES)
    print(f"{'':52}" + "".join(f"{size:>22,}" for size in sizes))
    for case in cases():
        cells = []
        for size in sizes:
            rows, seconds = measure(case, size)
            cells.append(f"{seconds * 1e3:9.2f} ms {rows / seconds / 1e6:6.1f} M/s")
        print(f"{case.name:52}" + " ".join(cells), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
