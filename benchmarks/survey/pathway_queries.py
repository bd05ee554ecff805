"""Queries of the benchmark as Pathway's programs, over bounded input. It runs in an environment of its own.

What goes in and out is that of :mod:`.spark_queries`; its state is not written anywhere.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("PATHWAY_THREADS", "2")

import pathway as pw  # type: ignore[import-not-found] # reads the number of threads when it loads


class Order(pw.Schema):  # type: ignore[misc] # unknown here
    """A row of orders."""

    order_id: int
    user_id: int
    product_id: int
    num: int
    ts: str


class Logistics(pw.Schema):  # type: ignore[misc] # unknown here
    """A row of logistics."""

    order_id: int
    target: str
    ts: str


def _query(name: str, folder: str) -> Any:
    orders = pw.io.jsonlines.read(f"{folder}/orders", schema=Order, mode="static")
    if name == "filter":
        big = orders.filter(pw.this.num > 50)
        return big.select(pw.this.order_id, pw.this.user_id, pw.this.product_id, num=pw.this.num * 2)
    if name == "order_tracking":
        logistics = pw.io.jsonlines.read(f"{folder}/logistics", schema=Logistics, mode="static")
        both = orders.join(logistics, orders.order_id == logistics.order_id)
        return both.select(orders.order_id, orders.user_id, orders.product_id, orders.num, logistics.target)
    first = orders.groupby(pw.this.order_id).reduce(
        pw.this.order_id,
        user_id=pw.reducers.any(pw.this.user_id),
        product_id=pw.reducers.any(pw.this.product_id),
        num=pw.reducers.any(pw.this.num),
    )
    if name == "dedup":
        return first
    return first.groupby(pw.this.product_id).reduce(
        pw.this.product_id,
        buyers=pw.reducers.count_distinct(pw.this.user_id),
        orders=pw.reducers.count(),
        items=pw.reducers.sum(pw.this.num),
    )


def main() -> None:
    """Answers until standard input ends."""
    for line in sys.stdin:
        name, folder = Path(line.strip()).read_text().split("\n")[:2]
        began = time.perf_counter()
        try:
            pw.io.null.write(_query(name, folder))
            pw.run(monitoring_level=pw.MonitoringLevel.NONE)
            wall = (time.perf_counter() - began) * 1000
            answer = f"RESULT {wall:.0f} {wall:.0f}"
        except Exception as error:  # whatever Pathway says
            answer = "FAILED " + str(error).replace("\n", " ")
        pw.internals.parse_graph.G.clear()
        print(answer, flush=True)


if __name__ == "__main__":
    main()
