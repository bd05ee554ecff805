"""Pathway's program for the streaming query of :mod:`.peers`. It runs in an environment of its own."""

from __future__ import annotations

import sys
from typing import Any

import pathway as pw  # type: ignore[import-not-found] # in an environment of its own


class Arrival(pw.Schema):  # type: ignore[misc] # unknown here
    """A row of the input."""

    order_id: int
    sent: int


def _print(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
    if is_addition:
        print(f"+I[{row['order_id']}, {row['sent']}]", flush=True)


def main(folder: str) -> None:
    """Runs until it is killed."""
    arrivals = pw.io.jsonlines.read(folder, schema=Arrival, mode="streaming", autocommit_duration_ms=50)
    first = arrivals.groupby(pw.this.order_id).reduce(pw.this.order_id, sent=pw.reducers.min(pw.this.sent))
    pw.io.subscribe(first, _print)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    main(*sys.argv[1:])
