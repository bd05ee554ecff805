"""How long commands take, each in a process of its own."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.conftest import ROOT

_STATEPLAN = str(Path(sys.executable).with_name("stateplan"))
_SCRIPT = "examples/quickstart/script.sql"

_UDAF = """
import sys
from stateplan import AggregateFunction, DataTypes, TableEnvironment, udaf

class Longest(AggregateFunction):
    def create_accumulator(self):
        return [""]
    def accumulate(self, accumulator, text):
        accumulator[0] = max(accumulator[0], text, key=len)
    def get_value(self, accumulator):
        return accumulator[0]

env = TableEnvironment.create()
env.create_temporary_function("longest", udaf(Longest(), result_type=DataTypes.STRING()))
env.create_temporary_view("words", env.from_elements([("a",), ("abc",), ("ab",)], ["word"]))
print(env.execute_sql("SELECT longest(word) FROM words").to_pandas())
"""

_DUCKDB = """
import duckdb
rows = duckdb.sql("SELECT product_id, COUNT(*), SUM(num) FROM (SELECT DISTINCT ON (order_id) * FROM "
                  "read_json('examples/quickstart/orders.json')) GROUP BY product_id")
print(rows)
"""


def _plan(work: Path) -> str:
    return str(work / "plan.json")


COMMANDS: dict[str, Callable[[Path], Sequence[Sequence[str]]]] = {
    "quick start": lambda work: [
        (_STATEPLAN, "plan", "compile", "-f", _SCRIPT, "-o", str(work / "new.json"), "--overwrite"),
        (_STATEPLAN, "plan", "execute", str(work / "new.json"), "--quiet"),
    ],
    "plan compile": lambda work: [
        (_STATEPLAN, "plan", "compile", "-f", _SCRIPT, "-o", str(work / "new.json"), "--overwrite")
    ],
    "plan show": lambda work: [(_STATEPLAN, "plan", "show", _plan(work))],
    "plan lint": lambda work: [(_STATEPLAN, "plan", "lint", _plan(work))],
    "plan set-ttl": lambda work: [(_STATEPLAN, "plan", "set-ttl", _plan(work), "deduplicate=1 h")],
    "sql -f": lambda _: [(_STATEPLAN, "sql", "--no-config", "-f", _SCRIPT)],
    "SELECT 1": lambda _: [(_STATEPLAN, "sql", "--no-config", "-e", "SELECT 1")],
    "Python aggregate over 3 rows": lambda _: [(sys.executable, "-c", _UDAF)],
    "import typer, pydantic": lambda _: [(sys.executable, "-c", "import typer, pydantic")],
}
"""What is timed; the last is what every command of this kind has to do."""


def command_time(case: str, work: Path) -> dict[str, float]:
    """The fastest of five runs, wall and processor seconds, after one that warms the caches.

    Raises:
        RuntimeError: a command fails.
    """
    compile_plan = (_STATEPLAN, "plan", "compile", "-f", _SCRIPT, "-o", _plan(work), "--overwrite")
    _run(compile_plan)
    commands = COMMANDS[case](work)
    best = {"wall s": float("inf"), "cpu s": float("inf")}
    for number in range(6):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        for command in commands:
            _run(command)
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if number:
            best = {"wall s": min(best["wall s"], wall), "cpu s": min(best["cpu s"], cpu)}
    return best


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 9):
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-200:]}")
