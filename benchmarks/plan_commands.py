"""How long the ``plan`` commands take on a plan of 500 operators, each in a fresh process.

``python -m benchmarks.plan_commands [--operators 500] [--runs 5] [--limit 0.5]`` prints, per command, the medians of
processor and wall time and the ratio of the processor time to that of a process that only imports typer and pydantic,
which any of the commands has to do: on a busy machine that ratio is the figure to look at. The exit code is 1 when a
command takes more than ``--limit`` seconds.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import run
from stateplan.common.readable import render
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


def main(operators: int = 500, runs: int = 5, limit: float = 0.5) -> int:
    """The command; its exit code."""
    text = wide_plan(operators)
    state = selector(text)
    rows: list[tuple[str, str, str, str]] = []
    over = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        floor = _medians(FLOOR, folder, runs)
        rows.append(("python -c 'import typer, pydantic'", f"{floor[0]:.2f}", f"{floor[1]:.2f}", "1.0"))
        for command, variants in {**COMMANDS, "schema": ((),)}.items():
            for variant in variants:
                (folder / "plan.json").write_text(text)
                (folder / "old.json").write_text(text)
                arguments = fill(variant, ".", state)
                wall, spent = _medians(("-m", "stateplan", "plan", command, *arguments), folder, runs)
                what = f"plan {command} {' '.join(arguments)}"
                rows.append((what, f"{wall:.2f}", f"{spent:.2f}", f"{spent / floor[1]:.1f}"))
                if wall > limit:
                    over.append(what)
    print(f"{operators} operators, {len(text) / 1e6:.1f} MB; medians of {runs} runs\n")
    print(render(("command", "wall s", "cpu s", "x floor"), rows))
    for what in over:
        print(f"more than {limit} s: {what}")
    return 1 if over else 0


def _medians(arguments: Sequence[str], folder: Path, runs: int) -> tuple[float, float]:
    measured(arguments, folder)  # compiles what has changed
    found = [measured(arguments, folder) for _ in range(runs)]
    return statistics.median(wall for wall, _ in found), statistics.median(spent for _, spent in found)


if __name__ == "__main__":
    run(main, __doc__)
