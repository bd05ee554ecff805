"""The page on state: its files and commands are run, and print what it shows."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scripts.pages import page_path
from stateplan.cli.app import app

pytestmark = pytest.mark.spark

PAGE = page_path("state")
FILES = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", re.S)
BLOCKS = re.compile(r"```console\n(.*?)```", re.S)
STEPS = re.compile(r"^\$ stateplan (.*)\n((?:[^$].*\n|\n)*)", re.M)


def shown(text: str, folder: Path) -> str:
    """What stays the same from run to run: sizes in bytes depend on the versions of libraries."""
    text = re.sub(r"\d[\d.]* (?:B|KiB)\b", "SIZE", text.replace(str(folder), "/data"))
    return re.sub(r" +", " ", text).strip()


def run(command: str, folder: Path) -> str:
    done = CliRunner().invoke(app, shlex.split(command.replace("/data", str(folder))))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_page(spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    files = dict(FILES.findall(text))
    for name, content in files.items():
        (tmp_path / name).write_text(content.replace("/data", str(tmp_path)))
    steps = [step for block in BLOCKS.findall(text) for step in STEPS.findall(block)]
    assert len(steps) == 7
    for command, answer in steps:
        assert shown(run(command, tmp_path), tmp_path) == shown(answer, tmp_path), command
    top = json.loads(run("job top /data/checkpoint --once --format json", tmp_path))
    stored = [state["storedRows"] for operator in top["operators"] for state in operator.get("state", ())]
    assert re.findall(r"^total +\d+ +\d+ +(\d+) ", text, re.M)[0] == str(sum(stored)), "both count stored rows"
    assert (tmp_path / "sizes.svg").read_text().startswith("<svg")
    capsys.readouterr()
    exec(compile((tmp_path / "look.py").read_text(), "look.py", "exec"), {})
    assert capsys.readouterr().out.splitlines()[0] == "3"
