"""``stateplan plan lint`` as its users see it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from scripts.pages import page_path
from stateplan.cli.exit_codes import ExitCode
from stateplan.plans.document import PlanDocument
from stateplan.plans.lint import unsuppress
from tests.plans.lint.lint_cases import all_cases, edited
from tests.support.command import Answer, Command

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def lint(stateplan: Command) -> Command:
    return lambda *args: stateplan("plan", "lint", *args)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A deduplication with 7 d, and an aggregate with 1 h behind it."""
    path = tmp_path / "plan.json"
    text = edited(all_cases()["TTL001"].compiled("totals"), {"deduplicate": "7 d", "group-aggregate": "1 h"}).text
    path.write_text(text)
    return path


def test_text(lint: Command, plan: Path) -> None:
    answer = lint(plan)
    assert answer.code == ExitCode.FINDINGS == 9
    first, excerpt, mark, hint = answer.out.splitlines()
    line, column = map(int, re.fullmatch(rf"{plan}:(\d+):(\d+): TTL001 \[fixable\] .*", first).groups())  # type: ignore[union-attr]
    assert plan.read_text().splitlines()[line - 1][column - 1 :].startswith('"1 h"')
    assert excerpt[mark.index("^") :][: mark.count("^")] == '"1 h"'
    assert hint == '  hint: set its TTL to "7 d"'
    assert answer.err == "1 warning in 1 plan, 1 fixable with --fix\n"


def test_fix_changes_nothing_else(lint: Command, plan: Path) -> None:
    before = plan.read_text()
    answer = lint(plan, "--fix", "--show-fixes")
    assert answer.code == 0
    assert "TTL001 groupAggregateState of group-aggregate[7]: 1 h -> 7 d" in answer.out
    assert answer.err == "nothing found in 1 plan; 1 fixed\n"
    head, _, tail = before.rpartition('"1 h"')
    assert plan.read_text() == f'{head}"7 d"{tail}'
    assert lint(plan).code == 0


def test_diff_writes_nothing(lint: Command, plan: Path) -> None:
    before = plan.read_text()
    answer = lint(plan, "--diff")
    assert answer.code == ExitCode.FINDINGS
    assert re.findall(r"^[-+] .*", answer.out, re.M) == ['-      "ttl" : "1 h",', '+      "ttl" : "7 d",']
    assert plan.read_text() == before
    lint(plan, "--fix")
    assert lint(plan, "--diff") == Answer(0, "", "")


def test_json(lint: Command, plan: Path) -> None:
    answer = lint(plan, "--format", "json")
    (finding,) = json.loads(answer.out)["findings"]
    assert (finding["code"], finding["stateName"], finding["fixable"]) == ("TTL001", "groupAggregateState", True)
    assert finding["place"]["pointer"].endswith("/state/0/ttl")
    assert answer.err == ""


def test_github(lint: Command, plan: Path) -> None:
    answer = lint(plan, "--format", "github")
    assert re.fullmatch(
        rf"::warning file={plan},line=\d+,col=15,endColumn=20,title=TTL001 unaligned-retractions::.*\n", answer.out
    )


def test_sarif(lint: Command, plan: Path) -> None:
    lint(plan, "--suppress", "TTL001", "--reason", "as wanted")
    log = json.loads(lint(plan, "--format", "sarif").out)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert [r["id"] for r in run["tool"]["driver"]["rules"]] == list(all_cases())
    (result,) = run["results"]
    assert result["suppressions"] == [{"kind": "inSource", "justification": "as wanted"}]
    assert result["locations"][0]["physicalLocation"]["region"]["startColumn"] == 15


def test_rules_are_chosen(lint: Command, plan: Path) -> None:
    assert lint(plan, "--select", "TTL002,TTL003").code == 0
    assert lint(plan, "--select", "unaligned-retractions").code == ExitCode.FINDINGS
    assert lint(plan, "--ignore", "TTL").code == 0
    assert lint(plan, "--severity", "TTL001=advice").code == 0
    assert lint(plan, "--severity", "TTL001=advice", "--strict").code == ExitCode.FINDINGS
    wrong = lint(plan, "--select", "unaligned-retraction")
    assert (wrong.code, "did you mean 'unaligned-retractions'" in wrong.err) == (ExitCode.BAD_INPUT, True)
    assert "[OPT421]" in lint(plan, "--severity", "TTL001=bad").err


def test_a_bad_plan_among_several_leaves_all_as_they_are(lint: Command, plan: Path, tmp_path: Path) -> None:
    before, bad = plan.read_text(), tmp_path / "bad.json"
    bad.write_text("{}")
    answer = lint(plan, bad, "--fix")
    assert answer.code == ExitCode.BAD_INPUT
    assert plan.read_text() == before


def test_a_suppression(lint: Command, plan: Path) -> None:
    before = plan.read_text()
    answer = lint(plan, "--suppress", "TTL001", "--operator", "group-aggregate", "--reason", 'say "why"')
    assert answer.code == 0
    assert answer.err.endswith("TTL001 is suppressed at group-aggregate[7]\n")
    suppressed = plan.read_text()
    assert json.loads(suppressed)["nodes"][6]["stateplan"]["suppress"] == {"TTL001": 'say "why"'}
    assert unsuppress(PlanDocument.load(str(plan)), 7, "TTL001").text == before
    assert lint(plan) == Answer(0, "", "nothing found in 1 plan; 1 suppressed\n")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("--suppress", "TTL001", "--reason", " "), "PLAN131"),
        (("--suppress", "TTL002", "--reason", "x"), "PLAN135"),
        (("--suppress", "TTL001", "--operator", "sink", "--reason", "x"), "PLAN135"),
        (("--suppress", "TTL001", "--operator", "jion", "--reason", "x"), "PLAN101"),
        (("--suppress", "TTL001", "--operator", "exchange", "--reason", "x"), "PLAN136"),
        (("--suppress", "TTL01", "--reason", "x"), "PLAN130"),
        (("--suppress", "TTL", "--reason", "x"), "PLAN130"),
        (("--checkpoint", "/nowhere"), "PLAN137"),
    ],
)
def test_what_cannot_be_done(lint: Command, plan: Path, args: tuple[str, ...], code: str) -> None:
    before = plan.read_text()
    answer = lint(plan, *args)
    assert answer.code == ExitCode.BAD_INPUT
    assert f"[{code}]" in answer.err
    assert plan.read_text() == before


def test_a_rule_is_explained(lint: Command) -> None:
    answer = lint("--explain", "TTL001")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("TTL001 unaligned-retractions (warning)\n\nState downstream of updates expires")
    assert "\nBest practice: " in answer.out
    assert "[OPT420]" in lint("--explain", "TTL999").err


@pytest.mark.parametrize("how", ["--checkpoint", "--against"])
def test_against_what_wrote_the_state(lint: Command, plan: Path, tmp_path: Path, how: str) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "plan.json").write_text(edited(PlanDocument.load(str(plan)), {"deduplicate": "30 d"}).text)
    old = folder if how == "--checkpoint" else folder / "plan.json"
    answer = lint(plan, how, old, "--select", "TTL010")
    assert answer.code == ExitCode.FINDINGS
    assert "TTL010 deduplicateState of deduplicate[4] was written with the TTL 30 d; with 7 d" in answer.out
    assert lint(plan, "--select", "TTL010").code == 0


def test_states_that_the_plan_says_nothing_about(lint: Command, tmp_path: Path) -> None:
    document = all_cases()["TTL001"].compiled("totals")
    data = json.loads(document.text)
    for node in data["nodes"]:
        if "deduplicate" in node["type"]:
            del node["state"]
        if "group-aggregate" in node["type"]:
            node["state"][0]["ttl"] = "1 h"
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(data, indent=2))
    assert lint(path, "-D", "table.exec.state.ttl=1 h").code == 0
    answer = lint(path, "-D", "table.exec.state.ttl=2 h", "--fix")
    assert answer.code == 0
    assert json.loads(path.read_text())["nodes"][6]["state"][0]["ttl"] == "2 h"
    assert "state" not in json.loads(path.read_text())["nodes"][3]


@pytest.mark.parametrize(
    "args",
    [
        ("--fix", "--suppress", "TTL001", "--reason", "x"),
        ("--suppress", "TTL001"),
        ("--reason", "x"),
        ("--against", "x", "--checkpoint", "y"),
    ],
)
def test_what_excludes_each_other(lint: Command, plan: Path, args: tuple[str, ...]) -> None:
    assert lint(plan, *args).code == ExitCode.USAGE


def test_the_page_shows_what_it_prints(lint: Command, plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = re.search(r"```console\n\$ stateplan plan lint plan.json\n(.*?)```", page_path("lint").read_text(), re.S)
    assert shown
    monkeypatch.chdir(plan.parent)
    answer = lint("plan.json")
    assert answer.out + answer.err == shown[1]


def test_the_hook_for_pre_commit() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    hook = next(hook for hook in hooks if hook["entry"] == "stateplan plan lint")
    assert hook["language"] == "python"
    files = re.compile(hook["files"])
    assert files.search("etl/plans/orders.json")
    assert files.search("orders.plan.json")
    assert not files.search("package.json")
    jsonschema.validate(
        hook,
        {
            "required": ["id", "name", "entry", "language"],
            "properties": {k: {"type": "string"} for k in ("id", "name", "entry", "language", "files", "description")},
        },
    )
