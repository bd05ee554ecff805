"""The commands of the README and of the page on Flink's plans print what these pages show."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.pages import page_path
from tests.support.command import Command

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
README = (ROOT / "README.md").read_text(encoding="utf-8")
FLINK_PLANS = page_path("flink-plans").read_text(encoding="utf-8")

Step = tuple[list[str], str]


def steps(page: str) -> list[Step]:
    """The commands of a page's console blocks, each with what it prints."""
    blocks = "".join(re.findall(r"```console\n(.*?)```", page, re.S))
    return [
        (shlex.split(command), answer) for command, answer in re.findall(r"^\$ (.*)\n((?:[^$].*\n|\n)*)", blocks, re.M)
    ]


QUICK_START = steps(README)
FLINK = steps(FLINK_PLANS)


def ran(command: list[str], folder: Path) -> str:
    """What a command prints on both streams. It leaves nothing in the folder for temporary files."""
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    if command[0] == "stateplan":
        command = [sys.executable, "-m", "stateplan", *command[1:]]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert [p.name for p in temporary.iterdir() if p.name.startswith("stateplan")] == []
    return done.stdout


def executes(step: Step) -> bool:
    return step[0][:3] == ["stateplan", "plan", "execute"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("flink", "quickstart"):
        shutil.copytree(EXAMPLES / name, tmp_path / "examples" / name)
    return tmp_path


def test_the_readme_shows_the_committed_script() -> None:
    shown = re.search(r"## Quick start.*?```sql\n(.*?)```", README, re.S)
    assert shown is not None
    assert shown[1] == (EXAMPLES / "quickstart" / "script.sql").read_text(encoding="utf-8")


def test_the_readme_shows_the_committed_test() -> None:
    assert f"```sql\n{(EXAMPLES / 'quickstart' / 'test.sql').read_text(encoding='utf-8')}```" in README


def test_the_readme_has_at_most_150_lines() -> None:
    assert len(README.splitlines()) <= 150


def test_the_quick_start(folder: Path) -> None:
    commands = [command[2] for command, _ in QUICK_START if command[1] == "plan"]
    assert commands == ["compile", "explain", "execute", "set-ttl", "execute"]
    for step in QUICK_START:
        if not executes(step):
            assert ran(step[0], folder) == step[1]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_quick_start_runs(folder: Path, stateplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is executed first in a process of its own, and then, with other TTLs, in the Spark of the tests."""
    monkeypatch.chdir(folder)
    first = next(step for step in QUICK_START if executes(step))
    for step in QUICK_START:
        command, answer = step
        printed = ran(command, folder) if step is first else "".join(stateplan(*command[1:])[1:])
        assert sorted(printed.splitlines()) == sorted(answer.splitlines())


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_python_of_the_readme(
    folder: Path, stateplan: Command, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert stateplan(*QUICK_START[0][0][1:]).code == 0
    code = re.search(r"```python\n(.*?)```", README, re.S)
    assert code is not None
    exec(code[1], {})
    printed = capfd.readouterr().out
    assert sorted(QUICK_START[-1][1].splitlines()) == sorted(re.findall(r"^[+-].*", printed, re.M))


def test_a_plan_of_flink_is_edited(folder: Path) -> None:
    assert [command[:3] for command, _ in FLINK][1:4] == [
        ["stateplan", "plan", "show"],
        ["stateplan", "plan", "set-ttl"],
        ["stateplan", "plan", "set-ttl"],
    ]
    for command, answer in FLINK[:-1]:
        assert ran(command, folder) == answer
    before = (EXAMPLES / "flink" / "plan.json").read_bytes().splitlines()
    after = (folder / "plan.json").read_bytes().splitlines()
    assert [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]] == [
        (b'      "ttl" : "1 h",', b'      "ttl" : "1 d",')
    ]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_edited_plan_runs(folder: Path, stateplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for command, answer in (FLINK[0], FLINK[3], FLINK[4]):
        printed = "".join(stateplan(*command[1:])[1:]) if command[0] == "stateplan" else ran(command, folder)
        assert sorted(printed.splitlines()) == sorted(answer.splitlines())
