"""Recorded arrivals for :mod:`benchmarks.ttl`, half a day per instant; what comes back, comes back after a known time.

Orders, for the deduplication and the aggregate behind it:

- every tenth order comes a second time, 12 or 24 hours later;
- half of the orders are of 200 products that are ordered all the time, by 50 customers each, every one once a day or
  oftener; the others of products that are ordered on one half-day of the week, by the same four customers.

So the deduplication has to know an order for a day, the aggregate a product and its customers for a week.

Orders and logistics records, for the join:

- an order has one logistics record, which comes with it or up to seven days later;
- one order in twenty comes late, 12 hours after its logistics record.

So the join has to know an order for a week, a logistics record for half a day.

Auctions and bids:

- an auction has ten bids, which come with it, 12 or 24 hours later;
- one auction in twenty comes 12 hours after it was opened, and after its first bids.

So a join has to know an auction for a day, a bid for half a day; what is kept per auction is needed for a day.

Visits: a visitor clicks three times within an hour on one half-day of every week. So the number of visits has to be
known for a week, and a session for as long as it lasts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

STEP_HOURS = 12
_WEEK = 7 * 24 // STEP_HOURS
_HOT, _HOT_USERS, _COLD_USERS = 200, 50, 4


def make_input(folder: Path, instants: int, rows: int, seed: int) -> None:
    """Writes ``orders.json`` (for the aggregate), ``placed.json`` and ``logistics.json`` (for the join),
    ``auctions.json`` and ``bids.json``, and ``visits.json``, with about ``rows`` rows per instant and query."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    _write(folder / "orders.json", _orders(instants, max(1, rows * 10 // 11), rng), rng)
    placed, logistics = _deliveries(instants, max(1, rows // 2), rng)
    _write(folder / "placed.json", placed, rng)
    _write(folder / "logistics.json", logistics, rng)
    auctions, bids = _auctions(instants, max(1, rows // 11), rng)
    _write(folder / "auctions.json", auctions, rng)
    _write(folder / "bids.json", bids, rng)
    _write(folder / "visits.json", _visits(instants, max(1, rows // 3), rng), rng)


def rows_until(path: Path, instants: int) -> int:
    """How many rows of a file arrive at its first instants."""
    return pl.scan_ndjson(path).filter(pl.col("@at") < instants * _STEP).collect().height


_STEP = STEP_HOURS * 3_600_000


def _write(path: Path, frame: pl.DataFrame, rng: np.random.Generator) -> None:
    """The rows in the order of their instants, within one in any order."""
    mixed = frame[rng.permutation(frame.height)].sort("instant", maintain_order=True)
    mixed.with_columns((pl.col("instant") * _STEP).alias("@at")).drop("instant").write_ndjson(path)


def _orders(instants: int, rows: int, rng: np.random.Generator) -> pl.DataFrame:
    hot_each = max(_HOT_USERS // 2, rows // 2 // _HOT)
    cold_each = max(1, rows // 2 // _COLD_USERS)
    frames, first = [], 0
    for instant in range(instants):
        turn = np.tile(np.arange(hot_each), _HOT) + instant * hot_each
        hot = np.repeat(np.arange(_HOT), hot_each)
        cold = np.repeat(_HOT + (instant % _WEEK) * cold_each + np.arange(cold_each), _COLD_USERS)
        product = np.concatenate([hot, cold])
        customer = np.concatenate([turn % _HOT_USERS, np.tile(np.arange(_COLD_USERS), cold_each)])
        count = len(product)
        frame = pl.DataFrame(
            {
                "order_id": first + np.arange(count),
                "user_id": product * 1000 + customer,
                "product_id": product,
                "num": rng.integers(1, 100, count),
                "instant": np.full(count, instant),
            }
        )
        again = rng.random(count) < 0.1
        frames += [frame, frame.filter(again).with_columns(pl.col("instant") + rng.integers(1, 3, int(again.sum())))]
        first += count
    return pl.concat(frames).filter(pl.col("instant") < instants)


def _deliveries(instants: int, rows: int, rng: np.random.Generator) -> tuple[pl.DataFrame, pl.DataFrame]:
    count = instants * rows
    order = np.arange(count)
    placed = order // rows
    late = rng.random(count) < 0.05
    delivered = placed + np.where(late, 0, rng.integers(0, _WEEK + 1, count))
    orders = pl.DataFrame(
        {
            "order_id": order,
            "user_id": rng.integers(0, 50_000, count),
            "num": rng.integers(1, 100, count),
            "instant": placed + late,
        }
    )
    logistics = pl.DataFrame(
        {"order_id": order, "target": [f"city{n}" for n in rng.integers(0, 500, count)], "instant": delivered}
    )
    return orders.filter(pl.col("instant") < instants), logistics.filter(pl.col("instant") < instants)


def _auctions(instants: int, rows: int, rng: np.random.Generator) -> tuple[pl.DataFrame, pl.DataFrame]:
    count = instants * rows
    auction = np.arange(count)
    opened = auction // rows
    late = rng.random(count) < 0.05
    auctions = pl.DataFrame({"id": auction, "category": rng.integers(0, 20, count), "instant": opened + late})
    bid_on = np.repeat(auction, 10)
    bids = pl.DataFrame(
        {
            "auction": bid_on,
            "bidder": rng.integers(0, 50_000, len(bid_on)),
            "price": rng.integers(1, 1_000_000, len(bid_on)),
            "instant": np.repeat(opened, 10) + rng.integers(0, 3, len(bid_on)),
        }
    )
    return auctions.filter(pl.col("instant") < instants), bids.filter(pl.col("instant") < instants)


def _visits(instants: int, rows: int, rng: np.random.Generator) -> pl.DataFrame:
    instant = np.repeat(np.arange(instants), rows)
    visitor = (instant % _WEEK) * rows + np.tile(np.arange(rows), instants)
    began = instant * _STEP + rng.integers(0, _STEP - 3_600_000, len(instant))
    clicks = [began, began + 1_200_000, began + 2_400_000]
    times = pl.Series("ts", np.concatenate(clicks)).cast(pl.Datetime("ms")).dt.to_string("%Y-%m-%d %H:%M:%S%.3f")
    return pl.DataFrame({"visitor": np.tile(visitor, 3), "ts": times, "instant": np.tile(instant, 3)})
