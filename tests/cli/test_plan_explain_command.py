"""``plan show`` and ``plan explain``: formats, files, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from stateplan.cli.app import app

PLAN = Path(__file__).parent / "data" / "join_plan.json"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments], catch_exceptions=False)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    copy = tmp_path / "plan.json"
    copy.write_bytes(PLAN.read_bytes())
    return copy


@pytest.mark.parametrize(
    ("form", "beginning"),
    [
        ("text", "== Optimized Execution Plan ==\nSink("),
        ("json", '{"trees": [['),
        ("mermaid", "flowchart TD\n"),
        ("svg", '<svg xmlns="http://www.w3.org/2000/svg"'),
        ("html", "<!DOCTYPE html>\n"),
    ],
)
def test_formats(plan: Path, form: str, beginning: str) -> None:
    result = call("explain", str(plan), "--format", form)
    assert result.exit_code == 0
    assert result.stdout.startswith(beginning)


@pytest.mark.parametrize(
    ("name", "beginning"),
    [
        ("p.HTML", "<!DOCTYPE html>"),
        ("p.svg", "<svg "),
        ("p.mmd", "flowchart TD"),
        ("p.json", '{\n  "trees": ['),
        ("p.txt", "== Optimized"),
        ("p", "== Optimized"),
    ],
)
def test_the_ending_of_the_file_says_how(plan: Path, name: str, beginning: str) -> None:
    target = plan.parent / name
    target.write_text("old")
    result = call("explain", str(plan), "-o", str(target))
    assert (result.exit_code, result.output) == (0, "")
    assert target.read_text("utf-8").startswith(beginning)


def test_the_format_wins_over_the_ending(plan: Path) -> None:
    target = plan.parent / "p.html"
    assert call("explain", str(plan), "--format", "mermaid", "-o", str(target)).exit_code == 0
    assert target.read_text().startswith("flowchart TD")


@pytest.mark.parametrize("name", ["p.pdf", "v1.2/p.jsn", "https://host/p.png"])
def test_an_ending_that_no_format_has(plan: Path, name: str) -> None:
    result = call("explain", str(plan), "-o", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: [OPT403] '{name}' ends in '{name[-4:]}'")
    assert "ends in .txt, .json, .mmd, .mermaid, .svg, .html, .htm; or --format" in result.stderr


def test_an_error_is_text_whatever_the_ending(plan: Path) -> None:
    result = call("explain", str(plan.parent / "none.json"), "-o", str(plan.parent / "out.json"))
    assert (result.exit_code, result.stderr[:17]) == (3, "error: [PLAN001] ")


@pytest.mark.parametrize("other", [False, True])
def test_no_plan_is_written_over(plan: Path, other: bool) -> None:
    target = plan.parent / "other.json" if other else plan
    target.write_bytes(PLAN.read_bytes())
    result = call("explain", str(plan), "--format", "html", "-o", str(target))
    assert result.exit_code == 3
    assert "PLAN183" in result.stderr
    assert target.read_bytes() == PLAN.read_bytes()


def test_a_file_that_cannot_be_written(plan: Path) -> None:
    result = call("explain", str(plan), "-o", str(plan / "p.html"))
    assert result.exit_code == 3
    assert result.stderr.startswith("error: [PLAN00")


def test_details(plan: Path) -> None:
    result = call("explain", str(plan), "--details", "changelog_mode,PLAN_ADVICE", "--details", "json-execution-plan")
    assert result.exit_code == 0
    assert "changelogMode=[I]" in result.stdout
    assert "No available advice..." in result.stdout
    assert "== Physical Execution Plan ==" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--details", "estimated_cost"), "PLAN181"),
        (("--details", "costs"), "PLAN180"),
        (("--details", "changelog_mode", "--format", "html"), "PLAN182"),
    ],
)
def test_details_that_cannot_be(plan: Path, arguments: tuple[str, ...], code: str) -> None:
    result = call("explain", str(plan), *arguments)
    assert result.exit_code == 3
    assert code in result.stderr


def test_errors_of_a_drawing_go_to_standard_error(plan: Path) -> None:
    plan.write_text("{")
    result = call("explain", str(plan), "--format", "svg")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "PLAN012" in result.stderr or "PLAN011" in result.stderr


def test_show_narrowed(plan: Path) -> None:
    whole = json.loads(call("show", str(plan), "--format", "json").stdout)["operators"]
    kept = json.loads(call("show", str(plan), "--stateful", "--format", "json").stdout)["operators"]
    assert [o["id"] for o in kept] == [o["id"] for o in whole if o["state"]]
    assert kept
    text = call("show", str(plan), "-m", f"[{kept[0]['id']}]").stdout
    assert text.splitlines()[0].endswith(f"1 of {len(whole)} operators, 1 with state")
    assert "0 of " in call("show", str(plan), "--match", "no such words").stdout


def test_show_takes_options_of_the_session(plan: Path) -> None:
    text = plan.read_text()
    start = text.index('    "state" : [')
    bare = text[:start] + text[text.index('    "inputProperties"', start) :]
    plan.write_text(bare)
    shown = call("show", str(plan), "-D", "table.exec.state.ttl=2 d").stdout
    assert "ttl 2 d  from the session option table.exec.state.ttl" in shown
