"""``stateplan plan migrate`` and ``COMPILE PLAN ... FROM``."""

from __future__ import annotations

import json
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest

from scripts.pages import page_path
from stateplan.cli.plan.migrate import migrate
from stateplan.execnodes.graph import FLINK_VERSION
from stateplan.planner.dialect import nodes, parse
from stateplan.session.environment import TableEnvironment
from tests.support.command import Command

ROOT = Path(__file__).parents[2]
FROZEN = ROOT / "tests" / "plans" / "migrations" / "frozen"
OLD, NEW = (str(FROZEN / "1.18-window" / name) for name in ("old.json", "new.json"))


def test_a_plan_is_migrated_and_the_report_printed(stateplan: Command, tmp_path: Path) -> None:
    target = tmp_path / "new.json"
    code, out, err = stateplan("plan", "migrate", OLD, "-o", str(target))
    assert (code, err) == (0, f"wrote {target}\n")
    assert target.read_text() == Path(NEW).read_text()
    assert out == (FROZEN / "1.18-window" / "report.txt").read_text()


def test_the_example_of_the_page(stateplan: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = page_path("plan-migration").read_text()
    command, _, rest = page.partition("```text\n$ stateplan ")[2].partition("\n")
    (tmp_path / "old.json").write_bytes(Path(OLD).read_bytes())
    monkeypatch.chdir(tmp_path)
    code, out, _ = stateplan(*command.split())
    begin, _, end = rest.partition("$ stateplan")[0].partition("...\n")
    assert code == 0
    assert out.startswith(begin)
    assert out.endswith(end)


def test_as_json(stateplan: Command) -> None:
    code, out, _ = stateplan("plan", "migrate", OLD, "--dry-run", "--format", "json")
    told = json.loads(out)
    assert (code, told["from"], told["to"], told["current"], told["state"]) == (0, "1.18", "2.3", False, "identical")
    assert told["changes"][0] == {
        "step": "Flink 1.18 to 1.20",
        "id": 3,
        "operator": "local-window-aggregate",
        "what": "needRetraction: nothing -> false, as the window took insert-only rows",
        "state": "identical",
        "why": None,
        "flinkState": "identical",
        "flinkWhy": None,
    }


def test_a_dry_run_writes_nothing(stateplan: Command, tmp_path: Path) -> None:
    target = tmp_path / "new.json"
    code, out, err = stateplan("plan", "migrate", OLD, "-o", str(target), "--dry-run")
    assert (code, err) == (0, "")
    assert "Flink 1.18 -> 2.3" in out
    assert not target.exists()


def test_to_another_version(stateplan: Command, tmp_path: Path) -> None:
    target = tmp_path / "new.json"
    assert stateplan("plan", "migrate", OLD, "-o", str(target), "--to", "2.0")[0] == 0
    assert json.loads(target.read_text())["flinkVersion"] == "2.0"


def test_an_existing_file_stays_unless_it_is_to_be_replaced(stateplan: Command, tmp_path: Path) -> None:
    target = tmp_path / "new.json"
    target.write_text("mine")
    code, _, err = stateplan("plan", "migrate", OLD, "-o", str(target))
    assert code == 3
    assert "PLAN002" in err
    assert target.read_text() == "mine"
    assert stateplan("plan", "migrate", OLD, "-o", str(target), "--overwrite")[0] == 0
    assert target.read_text() == Path(NEW).read_text()


def test_a_plan_in_place(stateplan: Command, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes(Path(OLD).read_bytes())
    assert stateplan("plan", "migrate", str(plan), "-o", str(plan), "--overwrite")[0] == 0
    first = plan.read_bytes()
    code, out, _ = stateplan("plan", "migrate", str(plan), "-o", str(plan), "--overwrite")
    assert (code, out) == (0, "the plan already has the format of Flink 2.3\n")
    assert plan.read_bytes() == first


def test_without_a_target_the_command_line_is_wrong(stateplan: Command) -> None:
    code, _, err = stateplan("plan", "migrate", OLD)
    assert code == 2
    assert "missing -o PLAN" in err


def test_the_version_is_that_of_the_plans_written_here() -> None:
    assert signature(migrate).parameters["to"].default == FLINK_VERSION


def test_a_version_nobody_knows(stateplan: Command) -> None:
    code, _, err = stateplan("plan", "migrate", OLD, "--dry-run", "--to", "2.4")
    assert code == 3
    assert "[PLAN160] plans cannot be migrated to Flink '2.4'" in err


def test_no_engine_is_loaded() -> None:
    script = (
        "import sys\nfrom stateplan.cli import app\ntry:\n    app.main(['plan', 'migrate', sys.argv[1], '--dry-run'])\n"
        "except SystemExit:\n    pass\nprint(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script, OLD], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stderr.split()}
    assert "stateplan" in loaded
    assert not loaded & {"pyspark", "polars", "pyarrow", "pandas", "numpy", "sqlglot"}


# in SQL


def test_the_statement(tmp_path: Path) -> None:
    target = tmp_path / "new.json"
    tables = TableEnvironment.create()
    result = tables.execute_sql(f"COMPILE PLAN '{target}' FROM '{OLD}'")
    assert result.rows == [("OK",)]
    assert result.notes == ("Flink 1.18 -> 2.3 in 4 steps; state in a checkpoint: identical (used as it is)",)
    assert target.read_text() == Path(NEW).read_text()


def test_the_statement_and_an_existing_file(tmp_path: Path) -> None:
    target = tmp_path / "new.json"
    target.write_text("mine")
    tables = TableEnvironment.create()
    with pytest.raises(Exception, match=r"PLAN002.*\n.*line 1, column 14"):
        tables.execute_sql(f"COMPILE PLAN '{target}' FROM '{OLD}'")
    notes = tables.execute_sql(f"COMPILE PLAN '{target}' IF NOT EXISTS FROM '{OLD}'").notes
    assert notes == (f"the plan {target} already exists; kept unchanged",)
    assert target.read_text() == "mine"
    tables.execute_sql("SET 'table.plan.force-recompile' = 'true'")
    tables.execute_sql(f"COMPILE PLAN '{target}' FROM '{NEW}'")
    assert target.read_bytes() == Path(NEW).read_bytes()


def test_the_statement_says_what_is_wrong_with_the_old_plan(tmp_path: Path) -> None:
    target = tmp_path / "new.json"
    with pytest.raises(Exception, match="PLAN001"):
        TableEnvironment.create().execute_sql(f"COMPILE PLAN '{target}' FROM '{tmp_path}/gone.json'")
    assert not target.exists()


def test_it_is_written_as_it_was_read() -> None:
    (statement,) = parse("compile plan 'a.json' if not exists from 'b.json'")
    assert isinstance(statement, nodes.MigratePlan)
    assert statement.sql("flink") == "COMPILE PLAN 'a.json' IF NOT EXISTS FROM 'b.json'"
