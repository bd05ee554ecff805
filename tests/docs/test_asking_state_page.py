"""The pages on state as tables and on lost rows: their files and commands are run, and print what they show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scripts.pages import page_path
from stateplan.cli.app import app

pytestmark = pytest.mark.spark

FILES = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", re.S)
BLOCKS = re.compile(r"```console\n(.*?)```", re.S)
STEPS = re.compile(r"^\$ stateplan (.*)\n((?:[^$].*\n|\n)*)", re.M)


def lines(text: str) -> list[str]:
    """The lines of a text, in any order: rows of state have none."""
    return sorted(re.sub(r" +", " ", line) for line in text.splitlines() if line.strip())


def walk(page: str, tmp_path: Path) -> int:
    """Runs the commands of a page; how many they are."""
    text = page_path(page).read_text(encoding="utf-8")
    for name, content in FILES.findall(text):
        (tmp_path / name).write_text(content.replace("/data", str(tmp_path)))
    steps = [step for block in BLOCKS.findall(text) for step in STEPS.findall(block)]
    for command, answer in steps:
        done = CliRunner().invoke(app, shlex.split(command.replace("/data", str(tmp_path))))
        assert done.exit_code == 0, done.output
        assert lines(done.stdout.replace(str(tmp_path), "/data")) == lines(answer), command
    return len(steps)


def test_the_page_on_lost_rows(spark: object, tmp_path: Path) -> None:
    assert walk("lost-rows", tmp_path) == 4


def test_the_page_on_asking_state(spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert walk("asking-state", tmp_path) == 9
    capsys.readouterr()
    exec(compile((tmp_path / "ask.py").read_text(), "ask.py", "exec"), {})
    assert capsys.readouterr().out.splitlines()[-1] == "6"


def test_the_script_is_that_of_the_page_on_state() -> None:
    files, others = (
        dict(FILES.findall(page_path(name).read_text(encoding="utf-8"))) for name in ("asking-state", "state")
    )
    assert all(files[name] == others[name] for name in ("shop.sql", "orders.json", "parcels.json"))
