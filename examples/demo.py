"""``make demo``: runs both examples of FLIP-292, from SQL to plan to edited plan to result. Then it replays recorded
arrivals to check that every state follows the TTL in the plan.

Each command is printed as a user would type it in the folder of the project.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from examples import simulate
from examples.generate import DATA, DAY, HOUR, generate

STATEPLAN = [str(Path(sys.executable).with_name("stateplan"))]
OUT = Path("examples/out")

KINDS = [f"{who} first, {gap}" for who in ("order", "record") for gap in ("< 1 d", "1 to 7 d", ">= 7 d")] + ["together"]

Ttls = dict[str, str]
"""State name -> TTL."""


def heading(text: str) -> None:
    print(f"\n{'=' * 100}\n{text}\n{'=' * 100}", flush=True)


def say(text: str) -> None:
    print(f"\n{text}", flush=True)


def stateplan(*arguments: str, capture: bool = False) -> str:
    """Runs a command after printing it; its standard output when ``capture``."""
    shown = " ".join(shlex.quote(a) for a in arguments)
    print(f"\n$ stateplan {shown}", flush=True)
    done = subprocess.run([*STATEPLAN, *arguments], stdout=subprocess.PIPE if capture else None, text=True, check=False)
    if done.returncode:
        sys.exit(f"demo: the command ended with {done.returncode}")
    return done.stdout or ""


def edit(plan: Path, ttls: Ttls) -> None:
    """Changes TTLs in the text of the plan, as one does in an editor, and prints what has changed."""
    before = plan.read_text()
    after = before
    for name, ttl in ttls.items():
        after, count = re.subn(rf'("ttl" : )"[^"]*"(,\s*"name" : "{name}")', rf'\1"{ttl}"\2', after)
        assert count == 1, f"{plan} has {count} states named {name}"
    plan.write_text(after)
    print(f"\n$ $EDITOR {plan}")
    lines = list(zip(before.splitlines(), after.splitlines(), strict=True))
    for number, (old, new) in enumerate(lines):
        if old != new:
            print(f"  line {number + 1}\n  - {old}\n  + {new}\n    {lines[number + 1][1]}")
    sys.stdout.flush()


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints aligned columns."""
    cells = [[str(v) for v in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for row in [list(columns), ["-" * w for w in widths], *cells]:
        print("  " + "  ".join(text.rjust(w) for text, w in zip(row, widths, strict=True)))
    sys.stdout.flush()


def compare(what: str, got: object, wanted: object, count: int) -> None:
    """Says that both are equal, or ends the demonstration."""
    if got != wanted:
        sys.exit(f"demo: {what}: the result differs from the prediction")
    say(f"OK: {what}: all {count:,} rows are as predicted.")


def read_lines(folder: Path) -> Iterable[dict[str, Any]]:
    for file in sorted(folder.glob("[!._]*.json")):
        for line in file.read_text().splitlines():
            yield json.loads(line)


# ---- 1. on files -----------------------------------------------------------------------------------------------


def run_on_files(query: str, ttls: Ttls) -> None:
    plan = OUT / f"{query}.json"
    stateplan("plan", "compile", "-i", "examples/tables.sql", "-f", f"examples/{query}.sql", "-o", str(plan))
    stateplan("plan", "explain", str(plan))
    edit(plan, ttls)
    stateplan("plan", "execute", str(plan))


def product_stats_on_files() -> None:
    heading("FLIP-292, example 1: 200,000 orders, one in ten delivered twice; each is counted once, per product")
    run_on_files("product_stats", {"deduplicateState": "1 h", "groupAggregateState": "24 h"})

    result: Counter[tuple[Any, ...]] = Counter()
    columns = ("product_id", "buyers", "orders", "items")
    for event in read_lines(OUT / "product_stats"):
        for side, weight in (("before", -1), ("after", 1)):
            if event[side]:
                result[tuple(event[side][c] for c in columns)] += weight
    got = sorted(result.elements())
    say("The result, five of its products:")
    table(columns, got[:5])

    first = {order["order_id"]: order for order in read_lines(DATA / "orders")}
    products: dict[int, list[dict[str, Any]]] = {}
    for order in first.values():
        products.setdefault(order["product_id"], []).append(order)
    wanted = [
        (product, len({o["user_id"] for o in orders}), len(orders), sum(o["num"] for o in orders))
        for product, orders in sorted(products.items())
    ]
    compare("example 1 on files", got, wanted, len(wanted))


def order_tracking_on_files() -> None:
    heading("FLIP-292, example 2: orders joined with 100,000 logistics records")
    run_on_files("order_tracking", {"leftState": "7 d", "rightState": "1 d"})

    columns = ("order_id", "user_id", "product_id", "num", "target")
    got = sorted(tuple(row[c] for c in columns) for row in read_lines(OUT / "order_tracking"))
    say("The result, five of its rows:")
    table(columns, got[:5])

    targets = {record["order_id"]: record["target"] for record in read_lines(DATA / "logistics")}
    wanted = sorted(
        (*(order[c] for c in columns[:-1]), targets[order["order_id"]])
        for order in read_lines(DATA / "orders")
        if order["order_id"] in targets
    )
    compare("example 2 on files", got, wanted, len(wanted))


# ---- 2. on recorded arrivals -----------------------------------------------------------------------------------


def arrivals(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / "replay" / f"{name}.json").read_text().splitlines()]


def parse_changes(lines: Iterable[str]) -> list[tuple[str, tuple[Any, ...]]]:
    """Lines of the print connector, such as ``+I[1, a]``, as (kind, row)."""
    changes = []
    for line in lines:
        values = line[3:-1].split(", ")
        changes.append((line[:2], tuple(int(v) if v.lstrip("-").isdigit() else v for v in values)))
    return changes


def replay(query: str, ttls: Ttls) -> list[tuple[str, tuple[Any, ...]]]:
    """Runs a query on recorded arrivals with the given TTLs; the printed changes as (kind, row)."""
    plan = OUT / f"replay_{query}.json"
    if not plan.exists():
        stateplan(
            "plan", "compile", "-i", f"examples/replay_{query}.sql", "-f", f"examples/{query}.sql", "-o", str(plan)
        )
    edit(plan, ttls)
    lines = stateplan("plan", "execute", str(plan), capture=True).splitlines()
    print(f"  ... {len(lines):,} lines such as: {lines[-1]}")
    return parse_changes(lines)


def replay_product_stats() -> None:
    heading("The proof for example 1: the same orders, arriving over five days of virtual time")
    say(
        "An order that is delivered again after its deduplication state expired counts again. A product without\n"
        "orders for the TTL of the aggregation starts again at zero. examples/simulate.py computes the expected\n"
        "result row by row, without stateplan."
    )
    orders = arrivals("redelivered_orders")
    shown: list[dict[int, tuple[Any, ...]]] = []
    for dedup, aggregate in ((1, 24), (24, 1)):
        changes = replay("product_stats", {"deduplicateState": f"{dedup} h", "groupAggregateState": f"{aggregate} h"})
        got = [(kind, *row) for kind, row in changes if kind != "-U"]
        wanted = simulate.product_stats(orders, dedup * HOUR, aggregate * HOUR)
        # rows of one instant come in no particular order; those of one product do
        compare(
            f"deduplication {dedup} h, aggregation {aggregate} h",
            sorted(got, key=lambda r: r[1]),
            sorted(wanted, key=lambda r: r[1]),
            len(wanted),
        )
        shown += [{row[1]: row[2:] for row in rows} for rows in (wanted, got)]
    say("(buyers, orders, items) per product at the end:")
    table(
        ("product", "1 h / 24 h: predicted", "stateplan", "24 h / 1 h: predicted", "stateplan"),
        [(product, *(one[product] for one in shown)) for product in sorted(shown[0])],
    )
    if shown[0] == shown[2]:
        sys.exit("demo: the swapped TTLs make no difference")


def replay_order_tracking() -> None:
    heading("The proof for example 2: the same orders and logistics records, up to 16 days apart")
    say("An order waits for its record for the left TTL, and a record waits for its order for the right TTL.")
    orders, logistics = arrivals("orders"), arrivals("logistics")
    shipped = {record["order_id"]: record["@at"] for record in logistics}
    wait = {order["order_id"]: shipped[order["order_id"]] - order["@at"] for order in orders}

    def came(order_id: int) -> str:
        gap = wait[order_id]
        if not gap:
            return "together"
        span = "< 1 d" if abs(gap) < DAY else "1 to 7 d" if abs(gap) < 7 * DAY else ">= 7 d"
        return f"{'order' if gap > 0 else 'record'} first, {span}"

    shown = []
    for left, right in ((7, 1), (1, 7)):
        changes = replay("order_tracking", {"leftState": f"{left} d", "rightState": f"{right} d"})
        got = sorted(row for _, row in changes)
        wanted = simulate.order_tracking(orders, logistics, left * DAY, right * DAY)
        compare(f"left {left} d, right {right} d", got, wanted, len(wanted))
        shown += [Counter(came(row[0]) for row in rows) for rows in (wanted, got)]
    pairs = Counter(map(came, wait))
    say("Joined pairs, by which side arrived first and how much later the other side arrived:")
    table(
        ("arrived", "pairs", "7 d / 1 d: predicted", "stateplan", "1 d / 7 d: predicted", "stateplan"),
        [(kind, pairs[kind], *(one[kind] for one in shown)) for kind in KINDS],
    )
    if shown[0] == shown[2]:
        sys.exit("demo: the swapped TTLs make no difference")


def main() -> None:
    started = time.monotonic()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    print("$ python -m examples.generate   # writes examples/data")
    generate()
    product_stats_on_files()
    order_tracking_on_files()
    replay_product_stats()
    replay_order_tracking()
    say(f"All results are as predicted. {time.monotonic() - started:.0f} s.")


if __name__ == "__main__":
    main()
