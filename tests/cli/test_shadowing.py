"""A user's own packages named as our folders replace them neither in the command nor in Spark's workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.rooms import ROOMS

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """\
CREATE TABLE orders (id INT, amount INT) WITH ('connector' = 'filesystem', 'path' = 'orders.json', 'format' = 'json');
CREATE TABLE totals (id INT, total INT) WITH ('connector' = 'print');
INSERT INTO totals SELECT id, SUM(amount) FROM orders GROUP BY id;
"""


@pytest.fixture
def users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a user with packages of these names, there and on PYTHONPATH."""
    work, other = tmp_path / "work", tmp_path / "library"
    for folder in (work, other):
        for name in ROOMS:
            (folder / name).mkdir(parents=True)
            (folder / name / "__init__.py").write_text("raise RuntimeError('a package of the user was imported')\n")
    (work / "script.sql").write_text(SCRIPT)
    (work / "orders.json").write_text('{"id": 1, "amount": 2}\n{"id": 1, "amount": 3}\n')
    # The folder of the user stands first, as it does for `python -m` and for scripts of the user.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(other), str(ROOT)]))
    return work


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stateplan", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_command(users_folder: Path) -> None:
    compiled = run(users_folder, "plan", "compile", "-f", "script.sql", "-o", "plan.json")
    assert (compiled.returncode, compiled.stderr) == (0, "wrote plan.json: 4 operators, 1 state\n")
    shown = run(users_folder, "plan", "show", "plan.json")
    assert (shown.returncode, shown.stderr) == (0, "")


@pytest.mark.spark
def test_the_workers(users_folder: Path) -> None:
    done = run(users_folder, "sql", "-q", "-f", "script.sql")
    assert (done.returncode, done.stdout) == (0, "+I[1, 5]\n"), done.stderr
