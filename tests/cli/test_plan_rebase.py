"""``stateplan plan rebase``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.pages import page_path
from stateplan.plans.document import PlanDocument
from tests.support.command import Command

ROOT = Path(__file__).parents[2]
TABLES = """
CREATE TABLE orders (id BIGINT, product STRING, amount BIGINT)
WITH ('connector' = 'filesystem', 'path' = '/data/orders', 'format' = 'json');
CREATE TABLE totals (product STRING, total BIGINT) WITH ('connector' = 'print');
"""
OLD = "INSERT INTO totals SELECT product, SUM(amount) FROM orders GROUP BY product;"
NEW = "INSERT INTO totals SELECT product, SUM(amount) FROM orders WHERE amount > 0 GROUP BY product;"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stateplan: Command) -> Path:
    """A folder with the old plan, the edited one and the new SQL."""
    monkeypatch.chdir(tmp_path)
    for name, text in {"tables.sql": TABLES, "old.sql": OLD, "new.sql": NEW}.items():
        (tmp_path / name).write_text(text)
    assert stateplan("plan", "compile", "-i", "tables.sql", "-f", "old.sql", "-o", "old.json", "-q")[0] == 0
    edited = PlanDocument.load("old.json")
    edited.set_ttl(edited.graph.sinks[0].id - 1, 0, "1 d")
    edited.write("edited.json")
    return tmp_path


TO_NEW = ("--sql", "new.sql", "--init", "tables.sql")
EDITED = ("plan", "rebase", "--base", "old.json", "--ours", "edited.json")


def ttl(plan: str) -> int:
    return next(s.ttl for n in PlanDocument.load(plan).graph.nodes for s in n.states)


def test_the_edit_is_carried_over(stateplan: Command, work: Path) -> None:
    code, out, err = stateplan(*EDITED, *TO_NEW, "-o", "new.json")
    assert (code, err) == (0, "wrote new.json\n")
    assert out.startswith("1 edit: 1 carried over\n")
    assert ttl("new.json") == 86_400_000
    facts = PlanDocument.load("new.json").facts
    assert facts is not None
    assert facts.sql == NEW.rstrip(";")


def test_a_plan_in_place_of_sql_and_none_as_base(stateplan: Command, work: Path) -> None:
    assert stateplan("plan", "compile", "-i", "tables.sql", "-f", "new.sql", "-o", "theirs.json", "-q")[0] == 0
    code, out, _ = stateplan("plan", "rebase", "--ours", "edited.json", "--theirs", "theirs.json", "-o", "new.json")
    assert code == 0
    assert "of the new plan (theirs.json:" in out
    assert ttl("new.json") == 86_400_000
    assert ttl("theirs.json") == 0


def test_in_place(stateplan: Command, work: Path) -> None:
    code, _, err = stateplan(*EDITED, *TO_NEW, "-o", "edited.json")
    assert code == 3
    assert "PLAN002" in err
    assert stateplan(*EDITED, *TO_NEW, "-o", "edited.json", "--overwrite")[0] == 0
    assert len(PlanDocument.load("edited.json").graph.nodes) > len(PlanDocument.load("old.json").graph.nodes)


CONFLICT = (*TO_NEW, "-D", "table.exec.state.ttl=3 h", "-o", "new.json")


def test_a_conflict_writes_nothing(stateplan: Command, work: Path) -> None:
    code, out, err = stateplan(*EDITED, *CONFLICT)
    assert code == 3
    assert "in conflict: 3 (group-aggregate) groupAggregateState: 0 ms -> 1 d\n  edited.json:" in out
    assert "which has 3 h from an option" in out
    assert "[PLAN153] 1 edit conflicts with the new SQL; nothing was written" in err
    assert not (work / "new.json").exists()


@pytest.mark.parametrize(("side", "hours"), [("ours", 24), ("theirs", 3)])
def test_a_conflict_is_resolved_as_asked_for(stateplan: Command, work: Path, side: str, hours: int) -> None:
    assert stateplan(*EDITED, *CONFLICT, "--conflict", side)[0] == 0
    assert ttl("new.json") == hours * 3_600_000


def test_a_dry_run_writes_nothing_and_is_no_failure(stateplan: Command, work: Path) -> None:
    code, out, err = stateplan(*EDITED, *CONFLICT, "--dry-run", "--format", "json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert (told["conflicts"], told["edits"][0]["status"], told["edits"][0]["theirs"]) == (1, "conflict", "3 h")
    assert not (work / "new.json").exists()


def test_lost_edits_are_warned_of(stateplan: Command, work: Path) -> None:
    (work / "new.sql").write_text("INSERT INTO totals SELECT product, amount FROM orders")
    code, out, err = stateplan(*EDITED, *TO_NEW, "-o", "new.json", "--format", "markdown")
    assert code == 0
    assert out.startswith("**1 edit: 1 lost**\n\n| | operator | what | edit | new plan |\n")
    assert "warning: 1 edit is lost: see the report" in err
    assert (work / "new.json").exists()


def test_lost_edits_are_an_error_when_asked_for(stateplan: Command, work: Path) -> None:
    (work / "new.sql").write_text("INSERT INTO totals SELECT product, amount FROM orders")
    code, _, err = stateplan(*EDITED, *TO_NEW, "-o", "new.json", "--strict")
    assert code == 3
    assert "[PLAN154] 1 edit is lost; nothing was written" in err
    assert not (work / "new.json").exists()
    assert stateplan(*EDITED, *TO_NEW, "-o", "new.json", "--strict", "--dry-run")[0] == 0


def test_the_example_of_the_page(stateplan: Command, work: Path) -> None:
    (work / "tables.sql").write_text(
        TABLES + "CREATE TABLE logistics (order_id BIGINT, state STRING) "
        "WITH ('connector' = 'filesystem', 'path' = '/data/logistics', 'format' = 'json');"
    )
    joined = "INSERT INTO totals SELECT product, {} FROM orders JOIN logistics ON id = order_id {} GROUP BY product;"
    (work / "old.sql").write_text(joined.format("SUM(amount)", ""))
    (work / "new.sql").write_text(joined.format("SUM(amount) + COUNT(*)", "WHERE state <> 'lost'"))
    stateplan("plan", "compile", "-i", "tables.sql", "-f", "old.sql", "-o", "old.json", "--overwrite")
    edited = PlanDocument.load("old.json")
    edited.set_ttls([(5, "rightState", "1 d"), (8, 0, "2 h")]).write("edited.json", overwrite=True)
    page = page_path("plan-rebase").read_text()
    command, _, rest = page.partition("```text\n$ stateplan ")[2].partition("\n")
    code, out, _ = stateplan(*command.split())
    assert code == 0
    assert out == rest.partition("```")[0]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--theirs", "old.json", *TO_NEW, "--dry-run"), "either --sql SCRIPT or --theirs PLAN"),
        (("--dry-run",), "either --sql SCRIPT or --theirs PLAN"),
        (("--theirs", "old.json", "--init", "tables.sql", "--dry-run"), "--init and -D require --sql"),
        (TO_NEW, "missing -o PLAN"),
    ],
)
def test_command_lines_that_are_wrong(stateplan: Command, work: Path, args: tuple[str, ...], says: str) -> None:
    code, _, err = stateplan(*EDITED, *args)
    assert code == 2
    assert says in " ".join(err.split())


def test_between_files_no_engine_is_loaded(work: Path) -> None:
    script = (
        "import sys\nfrom stateplan.cli import app\n"
        "args = 'plan rebase --ours edited.json --theirs old.json --dry-run'.split()\n"
        "try:\n    app.main(args)\nexcept SystemExit:\n    pass\nprint(*sys.modules, file=sys.stderr)"
    )
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", script], cwd=work, capture_output=True, text=True, check=True, env=env)
    assert done.stdout.startswith("1 edit: 1 carried over")
    loaded = {name.split(".")[0] for name in done.stderr.split()}
    assert not loaded & {"pyspark", "polars", "pyarrow", "pandas", "numpy", "sqlglot"}
