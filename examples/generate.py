"""The input of the demonstration: files for a plain run, and arrivals over days for a replayed run.

``python -m examples.generate`` writes ``examples/data``; the same bytes every time.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import polars as pl

from benchmarks.generate import START_MS, logistics, orders, write_parts

DATA = Path("examples/data")
ORDERS, LOGISTICS = 200_000, 100_000

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR

ORDER_INSTANTS = [m * MINUTE for m in (0, 20, 120, 600, 1380, 1500, 2640, 3600, 5400, 5440, 6120, 6960)]
"""When rows of the replayed example 1 arrive, after the start of 2024."""

TRACKING_INSTANTS = [h * HOUR for h in (0, 2, 23, 24, 44, 60, 120, 192, 216, 384)]
"""When rows of the replayed example 2 arrive."""

PER_INSTANT = 60
PRODUCTS = 12
USERS = 25


def an_order(rng: random.Random, order_id: int) -> dict[str, object]:
    # the square makes some products rare, so that they are idle for longer than a day
    return {
        "order_id": order_id,
        "user_id": rng.randrange(USERS),
        "product_id": int(rng.random() ** 2 * PRODUCTS),
        "num": rng.randint(1, 9),
    }


def redelivered_orders(rng: random.Random) -> list[dict[str, object]]:
    """Orders of which two in five are deliveries of an order that arrived before, with the same fields."""
    seen: list[dict[str, object]] = []
    arrivals: list[dict[str, object]] = []
    for instant in ORDER_INSTANTS:
        for _ in range(PER_INSTANT):
            if seen and rng.random() < 0.4:
                order = rng.choice(seen[-3 * PER_INSTANT :])
            else:
                order = an_order(rng, len(seen) + 1)
                seen.append(order)
            arrivals.append({"@at": START_MS + instant, **order})
    return arrivals


def orders_and_logistics(rng: random.Random) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Every order and its logistics record once each, in any order, up to 16 days apart."""
    left: list[dict[str, object]] = []
    right: list[dict[str, object]] = []
    for order_id in range(1, len(TRACKING_INSTANTS) * PER_INSTANT + 1):
        ordered, shipped = rng.choice(TRACKING_INSTANTS), rng.choice(TRACKING_INSTANTS)
        left.append({"@at": START_MS + ordered, **an_order(rng, order_id)})
        right.append({"@at": START_MS + shipped, "order_id": order_id, "target": f"city{rng.randrange(5)}"})
    return left, right


def write_replay(folder: Path) -> None:
    """Writes the arrivals of both replayed examples."""
    rng = random.Random(20240101)
    left, right = orders_and_logistics(rng)
    files = {"redelivered_orders": redelivered_orders(rng), "orders": left, "logistics": right}
    for name, arrivals in files.items():
        arrivals.sort(key=lambda a: a["@at"])  # type: ignore[arg-type, return-value] # the time is a number
        lines = (json.dumps(a, separators=(",", ":")) + "\n" for a in arrivals)
        (folder / f"{name}.json").write_text("".join(lines))


def generate(folder: Path = DATA) -> None:
    """Writes the input anew."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "replay").mkdir(parents=True)
    once = orders(ORDERS, users=20_000, products=200)
    same = [pl.col(c).first().over("order_id") for c in ("user_id", "product_id", "num")]
    write_parts(once.with_columns(same), folder / "orders")
    write_parts(logistics(LOGISTICS), folder / "logistics")
    write_replay(folder / "replay")


if __name__ == "__main__":
    generate()
