"""The documentation: generated parts are up to date, links lead somewhere, nothing speaks of one machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scripts.docs import outdated
from stateplan.cli.app import app

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_generated_parts_are_up_to_date() -> None:
    assert outdated(write=False) == [], "run: make docs"


def test_the_first_plan_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    script = re.search(r"```sql\n(-- script.sql\n.*?)```", text, re.S)
    shown = re.search(r"```console\n\$ (.*?\n)(.*?)\$ (stateplan plan explain.*?\n)(.*?)```", text, re.S)
    assert script is not None
    assert shown is not None
    monkeypatch.chdir(tmp_path)
    Path("script.sql").write_text(script[1])
    for command, answer in ((shown[1], shown[2]), (shown[3], shown[4])):
        done = subprocess.run(
            [sys.executable, "-m", "stateplan", *command.split()[1:]],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
        assert (done.stderr + done.stdout).rstrip("\n") == answer.rstrip("\n")


def test_the_drawing_of_the_first_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = re.search(r"```sql\n(-- script.sql\n.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    drawing = re.search(r"```mermaid\n(.*?)```", (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"), re.S)
    assert script is not None
    assert drawing is not None
    monkeypatch.chdir(tmp_path)
    Path("script.sql").write_text(script[1])
    runner = CliRunner()
    assert runner.invoke(app, ["plan", "compile", "-f", "script.sql", "-o", "plan.json"]).exit_code == 0
    assert runner.invoke(app, ["plan", "explain", "plan.json", "--format", "mermaid"]).stdout == drawing[1]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(there), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_page_names_a_machine(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"(?<![\w.])/(?:home|root|work|tmp|Users)/\S+", text)
