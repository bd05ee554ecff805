"""What the two examples must give, worked out one row at a time with plain dictionaries.

Nothing of stateplan is used here: each function is the shortest honest description of the query with a time
to live per state, and stands as the prediction that the replayed runs are held against.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any

Row = dict[str, Any]


def alive(last: int | None, ttl: int, now: int) -> bool:
    """Whether a state entry last touched at ``last`` still exists."""
    return last is not None and last + ttl > now


def product_stats(orders: Iterable[Row], dedup_ttl: int, aggregate_ttl: int) -> list[tuple[Any, ...]]:
    """(kind, product_id, buyers, orders, items), one row per product and instant that changed it, sorted by
    arrival and product. The kind is ``+I`` when the aggregation had nothing on the product, else ``+U``."""
    first_seen: dict[int, int] = {}  # order id -> time; a later delivery does not prolong it
    groups: dict[int, Row] = {}
    out: list[tuple[Any, ...]] = []
    for now, arrivals in groupby(orders, key=itemgetter("@at")):
        changed: dict[int, str] = {}
        for row in arrivals:
            if alive(first_seen.get(row["order_id"]), dedup_ttl, now):
                continue
            first_seen[row["order_id"]] = now

            product = row["product_id"]
            group = groups.get(product)
            if group is None or not alive(group["last"], aggregate_ttl, now):
                group = groups[product] = {"orders": 0, "items": 0, "buyers": 0, "users": {}}
                changed[product] = "+I"
            changed.setdefault(product, "+U")
            group["last"] = now
            group["orders"] += 1
            group["items"] += row["num"]
            # each distinct value is a state entry of its own, written once and not prolonged by repeats
            if not alive(group["users"].get(row["user_id"]), aggregate_ttl, now):
                group["users"][row["user_id"]] = now
                group["buyers"] += 1
        for product, kind in sorted(changed.items()):
            group = groups[product]
            out.append((kind, product, group["buyers"], group["orders"], group["items"]))
    return out


def order_tracking(
    orders: Iterable[Row], logistics: Iterable[Row], left_ttl: int, right_ttl: int
) -> list[tuple[Any, ...]]:
    """(order_id, user_id, product_id, num, target) of every pair that met, sorted. Every order id arrives
    once on each side: whoever comes second finds the first if it is still remembered."""
    shipped = {row["order_id"]: row for row in logistics}
    out = []
    for order in orders:
        record = shipped[order["order_id"]]
        wait = record["@at"] - order["@at"]
        if -right_ttl < wait < left_ttl:
            out.append((*(order[c] for c in ("order_id", "user_id", "product_id", "num")), record["target"]))
    return sorted(out)
