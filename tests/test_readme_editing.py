"""What the README shows of editing a plan that Flink made is what happens."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "examples"


def steps(section: str) -> list[tuple[list[str], str]]:
    """The commands of a section's first console block, each with what it prints."""
    block = re.search(r"```console\n(.*?)```", README[README.index(section) :], re.S)
    assert block is not None
    return [
        (shlex.split(command), answer) for command, answer in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block[1], re.M)
    ]


def ran(command: list[str], folder: Path) -> str:
    if command[0] == "stateplan":
        command = [sys.executable, "-m", "stateplan", *command[1:]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLES / "flink", tmp_path / "examples" / "flink")
    return tmp_path


FLOW = steps("## A plan that Flink made")


def test_a_plan_of_flink_is_edited(folder: Path) -> None:
    assert [command[:3] for command, _ in FLOW][1:4] == [
        ["stateplan", "plan", "show"],
        ["stateplan", "plan", "set-ttl"],
        ["stateplan", "plan", "set-ttl"],
    ]
    for command, answer in FLOW[:-1]:
        assert ran(command, folder) == answer
    before = (EXAMPLES / "flink" / "plan.json").read_bytes().splitlines()
    after = (folder / "plan.json").read_bytes().splitlines()
    assert [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]] == [
        (b'      "ttl" : "1 h",', b'      "ttl" : "1 d",')
    ]


@pytest.mark.spark
def test_the_edited_plan_runs(folder: Path) -> None:
    for command, answer in (FLOW[0], FLOW[3], FLOW[4]):
        assert sorted(ran(command, folder).splitlines()) == sorted(answer.splitlines())
