"""Deterministic input: orders, a tenth of them delivered again, and one logistics record per order id.

``python -m benchmarks.generate [ORDERS] [LOGISTICS] [FOLDER]`` writes ``FOLDER/orders/part-?.json``,
``FOLDER/logistics/part-?.json`` and ``FOLDER/order_changes/part-?.json``, newline-delimited JSON in eight files each.
The last are half as many events of Debezium: a second delivery of an order is an update of it.
"""

from __future__ import annotations

import shutil
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

ORDERS = 2_000_000
LOGISTICS = 1_000_000
PARTS = 8
SEED = 20240101
START_MS = 1_704_067_200_000  # 2024-01-01T00:00:00Z
USERS, PRODUCTS, CITIES = 100_000, 1_000, 500


def _times(count: int, per_second: int) -> pl.Expr:
    seconds = pl.int_range(count, dtype=pl.Int64) // per_second
    return (START_MS + seconds * 1000).cast(pl.Datetime("ms")).dt.strftime("%Y-%m-%d %H:%M:%S")


def orders(count: int, seed: int = SEED, users: int = USERS, products: int = PRODUCTS) -> pl.DataFrame:
    """``count`` orders in arrival order. Each is with probability 0.1 another delivery of an earlier
    order id, chosen uniformly; the new ids are 1, 2, 3, ... The other fields are drawn anew for every row."""
    random = np.random.RandomState(seed)  # its stream of numbers never changes between versions of numpy
    again = random.random_sample(count) < 0.1
    again[:1] = False
    newest = np.cumsum(~again)
    earlier = (random.random_sample(count) * newest).astype(np.int64) + 1
    return pl.DataFrame(
        {
            "order_id": np.where(again, earlier, newest).astype(np.int64),
            "user_id": (random.random_sample(count) * users).astype(np.int64),
            "product_id": (random.random_sample(count) * products).astype(np.int64),
            "num": (random.random_sample(count) * 100).astype(np.int32) + 1,
        }
    ).with_columns(ts=_times(count, 20))


def logistics(count: int, seed: int = SEED + 1) -> pl.DataFrame:
    """One record for each order id from 1 to ``count``, shuffled."""
    random = np.random.RandomState(seed)
    cities = (random.random_sample(count) * CITIES).astype(np.int64)
    return pl.DataFrame({"order_id": random.permutation(count).astype(np.int64) + 1}).with_columns(
        target="city" + pl.Series(cities).cast(pl.String), ts=_times(count, 10)
    )


def order_changes(count: int) -> pl.DataFrame:
    """The first ``count`` orders as events with ``before``, ``after`` and ``op``."""
    after = orders(count)
    before = after.select(pl.struct(pl.all()).shift().over("order_id").alias("before"))
    return before.select("before", after.to_struct("after")).with_columns(
        op=pl.when(pl.col("before").is_null()).then(pl.lit("c")).otherwise(pl.lit("u"))
    )


def write_parts(frame: pl.DataFrame, folder: Path) -> None:
    """``frame`` in :data:`PARTS` files. The folder appears when it is complete."""
    partial = folder.with_name(f"_{folder.name}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    bounds = [round(i * len(frame) / PARTS) for i in range(PARTS + 1)]
    for i, (low, high) in enumerate(pairwise(bounds)):
        frame[low:high].write_ndjson(partial / f"part-{i}.json")
    partial.rename(folder)


def generate(folder: Path, n_orders: int = ORDERS, n_logistics: int = LOGISTICS) -> None:
    """Writes what is not there yet."""
    if not (folder / "orders").is_dir():
        write_parts(orders(n_orders), folder / "orders")
    if not (folder / "logistics").is_dir():
        write_parts(logistics(n_logistics), folder / "logistics")
    if not (folder / "order_changes").is_dir():
        write_parts(order_changes(n_orders // 2), folder / "order_changes")


if __name__ == "__main__":
    args = sys.argv[1:]
    generate(Path(args[2] if len(args) > 2 else "benchmarks/data"), *(int(a) for a in args[:2]))
