"""The documentation: generated parts are up to date, links lead somewhere, nothing speaks of one machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scripts.docs import outdated
from scripts.pages import page_path
from stateplan.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_generated_parts_are_up_to_date() -> None:
    assert outdated(write=False) == [], "run: make docs"


def test_the_drawing_of_the_quick_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = re.search(r"```mermaid\n(.*?)```", page_path("cli").read_text(encoding="utf-8"), re.S)
    assert drawing is not None
    monkeypatch.chdir(tmp_path)
    script = str(ROOT / "examples" / "quickstart" / "script.sql")
    runner = CliRunner()
    assert runner.invoke(app, ["plan", "compile", "-f", script, "-o", "plan.json"]).exit_code == 0
    assert runner.invoke(app, ["plan", "explain", "plan.json", "--format", "mermaid"]).stdout == drawing[1]


def anchors(page: Path) -> set[str]:
    """The anchors of a page: its own, and those that GitHub makes of headings."""
    text = page.read_text(encoding="utf-8")
    own = re.findall(r'<a id="([^"]+)"></a>', text)
    titles = re.findall(r"^#+ (.*)$", re.sub("<a id=[^>]*></a>", "", text), re.M)
    return {*own, *(re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles)}


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
