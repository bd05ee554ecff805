"""What the ``plan`` commands load, and how their work grows with the plan (times: ``benchmarks.plan_commands``)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.support.plan_checks import COMMANDS, fill, run_command, selector
from tests.support.wide_plans import wide_plan

HEAVY = (
    "pyspark",
    "pyarrow",
    "polars",
    "pandas",
    "numpy",
    "sqlglot",
    "fsspec",
    "py4j",
    "jsonschema",
    "stateplan.planner.dialect",
)
RUNS = [(name, *variant) for name, variants in COMMANDS.items() for variant in variants]

SCRIPT = """
import json, sys
sys.argv[0] = "stateplan"
from stateplan.cli.app import app
loaded = {}
for run in json.loads(sys.argv[1]):
    before = set(sys.modules)
    try:
        app(["plan", *run])
    except SystemExit:
        pass
    loaded[" ".join(run)] = sorted(set(sys.modules) - before)
print(json.dumps([sorted(sys.modules), loaded]), file=sys.stderr)
"""
"""Runs commands, one after the other, and tells what is loaded in the end, and what each command loaded."""


def filled(run: tuple[str, ...], folder: Path) -> list[str]:
    """The arguments of a run, with files in ``folder``."""
    return fill(run, folder, selector((folder / "plan.json").read_text()))


def written(folder: Path, operators: int) -> None:
    for name in ("plan.json", "old.json"):
        (folder / name).write_text(wide_plan(operators), encoding="utf-8")


@pytest.mark.parametrize("name", list(COMMANDS))
def test_plan_commands_load_no_engine(name: str, tmp_path: Path) -> None:
    written(tmp_path, 20)
    runs = [filled(run, tmp_path) for run in RUNS if run[0] == name] or [[name]]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(runs)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    everything, by_run = json.loads(done.stderr.splitlines()[-1])
    assert "stateplan.cli.plan" in everything, done.stderr
    assert [module for module in HEAVY if module in everything] == [], by_run


@contextmanager
def counted() -> Iterator[list[int]]:
    """Counts the calls of functions, those of the interpreter's own included."""
    calls = [0]

    def count(_: FrameType, event: str, __: Any) -> None:
        if event in ("call", "c_call"):
            calls[0] += 1

    previous = sys.getprofile()
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(previous)


@pytest.mark.parametrize("run", RUNS, ids=["-".join(run).replace("{", "").replace("}", "") for run in RUNS])
def test_work_grows_with_the_plan_and_no_faster(run: tuple[str, ...], tmp_path: Path) -> None:
    work = []
    for operators in (20, 70, 140):
        written(tmp_path, operators)
        with counted() as calls:
            code, _, err = run_command(*filled(run, tmp_path))
        assert code < 10, err
        work.append(calls[0])
    fixed = work[0]  # of the first run, which loads what later ones have
    assert work[2] > 1.5 * work[1] or fixed > work[1], "the count is not of the work"
    assert work[2] < 2.6 * work[1], f"{work[1]} calls for 70 operators, {work[2]} for 140"
