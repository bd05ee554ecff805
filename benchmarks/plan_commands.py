"""How long the ``plan`` commands take on a plan of 500 operators, each in a fresh process.

``python -m benchmarks.plan_commands`` prints, per command, the medians of processor and wall time and the ratio of the
processor time to that of a process that only imports typer and pydantic, which any of the commands has to do: on a busy
machine that ratio is the figure to look at. The exit code is 1 when a command takes more than ``--limit`` seconds.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from stateplan.plans.tableau import render
from tests.conftest import ROOT
from tests.support.plan_checks import COMMANDS, fill, selector
from tests.support.wide_plans import wide_plan

FLOOR = ("-c", "import typer, pydantic")


def measured(arguments: Sequence[str], folder: Path) -> tuple[float, float]:
    """Seconds of wall and of processor time of a fresh ``python ARGUMENTS`` run in ``folder``."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(ROOT)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 5, 6, 7, 8, 9):
        raise SystemExit(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(args: list[str] | None = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.plan_commands", description=(__doc__ or "").split(".")[0]
    )
    parser.add_argument("--operators", type=int, default=500, help="size of the plan (default: 500)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each command (default: 5)")
    parser.add_argument(
        "--limit", type=float, default=0.5, help="seconds of wall time a command may take (default: 0.5)"
    )
    given = parser.parse_args(args)
    text = wide_plan(given.operators)
    state = selector(text)
    rows: list[tuple[str, str, str, str]] = []
    over = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        floor = _medians(FLOOR, folder, given.runs)
        rows.append(("python -c 'import typer, pydantic'", f"{floor[0]:.2f}", f"{floor[1]:.2f}", "1.0"))
        for command, variants in {**COMMANDS, "schema": ((),)}.items():
            for variant in variants:
                (folder / "plan.json").write_text(text)
                (folder / "old.json").write_text(text)
                arguments = fill(variant, ".", state)
                wall, spent = _medians(("-m", "stateplan", "plan", command, *arguments), folder, given.runs)
                what = f"plan {command} {' '.join(arguments)}"
                rows.append((what, f"{wall:.2f}", f"{spent:.2f}", f"{spent / floor[1]:.1f}"))
                if wall > given.limit:
                    over.append(what)
    print(f"{given.operators} operators, {len(text) / 1e6:.1f} MB; medians of {given.runs} runs\n")
    print(render(("command", "wall s", "cpu s", "x floor"), rows))
    for what in over:
        print(f"more than {given.limit} s: {what}")
    return 1 if over else 0


def _medians(arguments: Sequence[str], folder: Path, runs: int) -> tuple[float, float]:
    measured(arguments, folder)  # compiles what has changed
    found = [measured(arguments, folder) for _ in range(runs)]
    return statistics.median(wall for wall, _ in found), statistics.median(spent for _, spent in found)


if __name__ == "__main__":
    sys.exit(main())
