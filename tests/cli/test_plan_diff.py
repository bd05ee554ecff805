"""``stateplan plan diff``: formats, exit codes, checkpoint directories."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stateplan.cli.app import app
from stateplan.cli.exit_codes import ExitCode
from stateplan.plans.diff_report import EXIT_CODES
from stateplan.plans.document import PlanDocument
from stateplan.plans.verdicts import VERDICTS

ROOT = Path(__file__).resolve().parents[2]
JOIN = ROOT / "tests" / "plans" / "data" / "join" / "plan.json"


def diff(*args: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["plan", "diff", *map(str, args)])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def edited(tmp_path: Path) -> Path:
    document = PlanDocument.load(str(JOIN))
    node = next(n for n in document.graph.nodes if n.title == "join")
    document.set_ttl(node.id, 0, "2 d").write(str(tmp_path / "edited.json"))
    return tmp_path / "edited.json"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    (tmp_path / "other.json").write_text(JOIN.read_text().replace('"INNER"', '"LEFT"'))
    return tmp_path / "other.json"


def test_exit_codes_do_not_fall_with_the_verdict_and_clash_with_nothing() -> None:
    codes = [EXIT_CODES[verdict] for verdict in VERDICTS]
    assert codes == sorted(codes)
    assert codes[0] == ExitCode.OK
    assert not set(codes[1:]) & {code.value for code in ExitCode}
    help_text = CliRunner().invoke(app, ["plan", "diff", "--help"], env={"COLUMNS": "400"}).stdout
    for verdict, code in EXIT_CODES.items():
        assert f"{code} {verdict}" in " ".join(help_text.split())


def test_exit_code_only_when_asked(edited: Path, other: Path) -> None:
    assert diff(JOIN, JOIN, "--exit-code") == (0, "identical: the plans are equivalent\n", "")
    assert diff(JOIN, edited)[0] == 0
    code, out, _ = diff(JOIN, edited, "--exit-code")
    assert code == 10
    assert "leftState: ttl 1 h -> ttl 2 d\n" in out
    code, out, _ = diff(JOIN, other, "--exit-code")
    assert code == 12
    assert "join[5]  backfill\n" in out
    assert "  joinSpec.joinType: INNER -> LEFT\n" in out


def test_json_and_markdown(other: Path) -> None:
    code, out, _ = diff(JOIN, other, "--format", "json", "--exit-code")
    data = json.loads(out)
    assert (code, data["verdict"], data["mayRestart"], data["counts"]["backfill"]) == (12, "backfill", False, 1)
    code, out, _ = diff(JOIN, other, "--format", "markdown")
    assert code == 0
    assert "| `join[5]` | **backfill** |" in out


def test_a_checkpoint_directory_stands_for_its_plan(tmp_path: Path, edited: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    code, _, err = diff(checkpoint, edited)
    assert (code, "PLAN120" in err) == (ExitCode.BAD_INPUT, True)
    (checkpoint / "plan.json").write_text(JOIN.read_text())
    assert diff(checkpoint, edited, "--exit-code")[0] == 10
    assert diff(f"file://{checkpoint}", JOIN, "--exit-code")[0] == 0


def test_bad_input_is_not_a_verdict(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"flinkVersion": "2.3", "nodes": [')
    code, out, err = diff(JOIN, bad, "--exit-code")
    assert (code, out) == (ExitCode.BAD_INPUT, "")
    assert "bad.json" in err


def test_no_engine_is_loaded(edited: Path) -> None:
    code = (
        f"import sys; from stateplan.cli.app import main\n"
        f"try: main(['plan', 'diff', {str(JOIN)!r}, {str(edited)!r}])\nexcept SystemExit: pass\n"
        "loaded = {'pyspark', 'polars', 'pyarrow', 'sqlglot', 'pandas', 'numpy'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=ROOT)


def test_accept_is_an_option_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    import stateplan.cli.session

    seen: list[dict[str, str]] = []

    class Session:
        def __init__(self, console: object, options: dict[str, str], file: str | None) -> None:
            seen.append(options)

        def execute_plan(self, plan: str) -> None:
            pass

    monkeypatch.setattr(stateplan.cli.session, "Session", Session)
    for args in ([], ["--accept", "reset"], ["-D", "execution.state-recovery.accept=rewrite"]):
        assert CliRunner().invoke(app, ["plan", "execute", str(JOIN), *args]).exit_code == 0
    assert [o.get("execution.state-recovery.accept") for o in seen] == [None, "reset", "rewrite"]
    assert CliRunner().invoke(app, ["plan", "execute", str(JOIN), "--accept", "all"]).exit_code == ExitCode.USAGE
