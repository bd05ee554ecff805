"""Kills ``plan evolve`` at random instants: nothing is lost or doubled, and the old checkpoint stays as it is.

    python -m scripts.evolution_kills [--kills 30] [--seed 1]

The old plan has stopped. ``plan evolve --output corrections`` makes a checkpoint for another plan from its own: some
state is carried over, some with fewer columns, some derived, some computed from kept rows, some made from history, and
tables get corrections. Its processes are killed at an instant between its start and its end. Then the same command is
repeated, and the new plan reads the rest of the input. In the end, every sink has to hold what it holds where the new
plan has read everything. Every fifth time there are no corrections, and the old plan continues instead.

Exit code 1 when a sink differs.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import psutil
import typer

from benchmarks.harness import process_tree, run
from tests.support.shop import BY_ITEM, BY_PRODUCT, JOINED, Shop, arrive_later, shop_after

KEYED = "product STRING, n BIGINT, PRIMARY KEY (product) NOT ENFORCED"
OUTER = JOINED.replace("JOIN", "LEFT JOIN")
BY_TARGET = f"SELECT target, COUNT(product), SUM(id) FROM ({OUTER}) GROUP BY target"
OLD = [
    ("counts", "product STRING, n BIGINT, s BIGINT", BY_ITEM),
    ("keyed", KEYED, "SELECT product, COUNT(*) FROM orders GROUP BY product"),
    ("lines", "id BIGINT, product STRING, target STRING", JOINED),
    ("amounts", "product STRING, amount BIGINT", f"SELECT product, n + s FROM ({BY_ITEM}) AS t (product, n, s)"),
]
NEW = [
    ("counts", "product STRING, n BIGINT, s BIGINT", BY_PRODUCT),
    ("keyed", KEYED, "SELECT product, COUNT(*) FROM orders WHERE amount > 3 AND product <> 'b' GROUP BY product"),
    ("lines", "id BIGINT, product STRING, target STRING", OUTER),
    ("targets", "target STRING, n BIGINT, s BIGINT", BY_TARGET),
    ("amounts", "product STRING, amount BIGINT", BY_ITEM.replace("COUNT(*), ", "")),
]
SINKS = ("counts", "keyed", "lines", "targets", "amounts")
ROWS = 400
ROOT = Path(__file__).parents[1]


def main(
    kills: Annotated[int, typer.Option(help="number of kills")] = 30,
    seed: Annotated[int, typer.Option(help="of the instants")] = 1,
) -> int:
    dice = random.Random(seed)
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        wholes = {}
        for which, plan in (("old", OLD), ("new", NEW)):
            whole = shop_after(base / f"whole_{which}", plan, ROWS)
            arrive_later(whole, ROWS)
            whole.run(plan, "first")
            wholes[which] = {sink: whole.holds(sink) for sink in SINKS}
        shop, kept = shop_after(base / "shop", OLD, ROWS), base / "kept"
        shop.plan(NEW, "second").write_to_file(shop.folder / "new.json")
        shutil.copytree(shop.folder, kept)
        seconds = _evolve(shop, "corrections", None)
        for number in range(1, kills + 1):
            shutil.rmtree(shop.folder)
            shutil.copytree(kept, shop.folder)
            which = "new" if number % 5 else "old"
            after = dice.uniform(0, seconds)
            _evolve(shop, "corrections" if which == "new" else "changes", after)
            is_changed = _content(kept / "first") != _content(shop.folder / "first")
            if which == "new":
                _evolve(shop, "corrections", None)
            arrive_later(shop, ROWS)
            shop.run(NEW if which == "new" else OLD, "second" if which == "new" else "first")
            differ = [sink for sink in SINKS if shop.holds(sink) != wholes[which][sink]]
            wrong += bool(differ or is_changed)
            result = "the old checkpoint is changed" if is_changed else f"other rows in {differ}" if differ else "right"
            print(
                f"{number}: killed after {after:.1f} s of {seconds:.1f} s, then the {which} plan: {result}", flush=True
            )
    print(f"{kills} kills, {wrong} wrong")
    return int(bool(wrong))


def _evolve(shop: Shop, output: str, seconds: float | None) -> float:
    """Runs ``plan evolve``, and kills all of its processes after ``seconds``. Returns how long it ran."""
    command = [sys.executable, "-m", "stateplan", "plan", "evolve", "new.json", "--checkpoint", "first"]
    command += ["--to", "second", "--output", output, "-D", "parallelism.default=2"]
    began = time.monotonic()
    process = subprocess.Popen(
        command, cwd=shop.folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True
    )
    try:
        _, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        for member in process_tree(process.pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                member.send_signal(signal.SIGKILL)
        process.communicate()
        return time.monotonic() - began
    if process.returncode and "CKPT071" not in errors:  # it was killed after its end
        raise SystemExit(f"{' '.join(command)} failed:\n{errors}")
    return time.monotonic() - began


def _content(folder: Path) -> dict[str, bytes]:
    """The files of a checkpoint, without those of its lock."""
    files = (
        path for path in folder.rglob("*") if path.is_file() and "lock" not in path.name and "writers" not in path.name
    )
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


if __name__ == "__main__":
    run(main, __doc__)
