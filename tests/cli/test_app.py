"""The command line as its users see it: arguments in, text, files and an exit code out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from stateplan.cli import app
from stateplan.cli.exit_codes import ExitCode, exit_code
from stateplan.common.errors import (
    CatalogError,
    CheckpointError,
    DataError,
    OptionError,
    PlanError,
    RunError,
    SqlError,
    StateplanError,
)
from tests.support.command import Command

PLAN = str(Path(__file__).parent / "data" / "join_plan.json")


def test_show(stateplan: Command) -> None:
    answer = stateplan("plan", "show", PLAN)
    assert (answer.code, answer.err) == (0, "")
    assert "state 1  rightState  ttl 1 h" in answer.out


def test_show_as_json(stateplan: Command) -> None:
    shown = json.loads(stateplan("plan", "show", "--format", "json", PLAN).out)
    states = [s for o in shown["operators"] for s in o["state"]]
    assert [s["name"] for s in states] == ["leftState", "rightState"]


def test_explain(stateplan: Command) -> None:
    answer = stateplan("plan", "explain", PLAN)
    assert answer.code == 0
    assert answer.out.startswith("== Optimized Execution Plan ==\nSink(")


def test_a_missing_plan(stateplan: Command, tmp_path: Path) -> None:
    answer = stateplan("plan", "show", str(tmp_path / "plan.json"))
    assert (answer.code, answer.out) == (ExitCode.BAD_INPUT, "")
    assert answer.err.startswith("error: [PLAN001] ")


def test_a_broken_plan_as_json(stateplan: Command, tmp_path: Path) -> None:
    broken = tmp_path / "plan.json"
    broken.write_text(Path(PLAN).read_text()[:500])
    answer = stateplan("plan", "explain", "--format", "json", str(broken))
    assert (answer.code, answer.out) == (ExitCode.BAD_INPUT, "")
    error = json.loads(answer.err)["error"]
    assert error["code"].startswith("PLAN")
    assert error["place"]["file"] == str(broken)


@pytest.mark.parametrize(
    "args",
    [
        ["plan", "show"],
        ["plan", "shwo", PLAN],
        ["--nope"],
        ["plan", "show", "--format", "xml", PLAN],
        ["plan", "compile", "-f", "x.sql", "-o", "p.json", "--overwrite", "--if-not-exists"],
    ],
)
def test_a_wrong_command_line(stateplan: Command, args: list[str]) -> None:
    answer = stateplan(*args)
    assert (answer.code, answer.out) == (ExitCode.USAGE, "")
    assert "Traceback" not in answer.err


def _commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command and group of commands, as it is written."""
    yield path
    for name, command in getattr(group or get_command(app.app), "commands", {}).items():
        yield from _commands(command, (*path, name))


@pytest.mark.parametrize("path", list(_commands()), ids=" ".join)
def test_every_command_has_help(stateplan: Command, path: tuple[str, ...]) -> None:
    short, long = stateplan(*path, "-h"), stateplan(*path, "--help")
    assert short == long
    assert (short.code, short.err) == (ExitCode.OK, "")
    assert "-h, --help" in short.out


def test_a_word_that_an_option_does_not_take(stateplan: Command) -> None:
    answer = stateplan("plan", "execute", PLAN, "--accept", "all")
    assert answer.code == ExitCode.USAGE
    assert "Invalid value for '--accept': 'all' is not one of 'rewrite', 'reset', 'unknown'." in answer.err


@pytest.mark.parametrize("pair", ["table.exec.state.ttl", "=1 h", ""])
def test_an_option_without_key_or_value(stateplan: Command, pair: str) -> None:
    answer = stateplan("plan", "explain", PLAN, "-D", pair)
    assert answer.code == ExitCode.USAGE
    assert answer.err.startswith("error: [OPT401] ")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["sql", "-f", "a.sql", "-e", "SELECT 1"], "OPT402"),
        (["plan", "set-ttl", PLAN, "join"], "PLAN105"),
        (["plan", "lint", PLAN, "--severity", "TTL001"], "OPT421"),
    ],
)
def test_arguments_of_the_wrong_form(stateplan: Command, args: list[str], code: str) -> None:
    answer = stateplan(*args)
    assert (answer.code, answer.out) == (ExitCode.USAGE, "")
    assert answer.err.startswith(f"error: [{code}] ")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SqlError, 3),
        (PlanError, 3),
        (CatalogError, 3),
        (OptionError, 3),
        (StateplanError, 3),
        (DataError, 1),
        (RunError, 1),
        (CheckpointError, 4),
    ],
)
def test_exit_codes(error: type[StateplanError], code: int) -> None:
    assert exit_code(error.with_text("X001", "wrong")) == code


def test_a_bug_is_one_line(stateplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("stateplan.plans.show.show", broken)
    answer = stateplan("plan", "show", PLAN)
    assert answer.code == ExitCode.BUG
    assert answer.err == (
        "error: [BUG000] this is a bug in stateplan: ZeroDivisionError: division by zero\n  hint: --debug shows where\n"
    )
    monkeypatch.setenv("STATEPLAN_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        app.main(["plan", "show", PLAN])


def test_a_bug_in_a_statement(stateplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("stateplan.session.environment.run_statement", broken)
    answer = stateplan("sql", "--no-config", "-e", "SHOW TABLES")
    assert answer.code == ExitCode.BUG
    assert answer.err.endswith(
        "error: [BUG000] this is a bug in stateplan: ZeroDivisionError: division by zero\n  hint: --debug shows where\n"
    )
    with pytest.raises(StateplanError) as raised:
        app.main(["sql", "--no-config", "--debug", "-e", "SHOW TABLES"])
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (signal.SIGINT, ExitCode.INTERRUPTED),
        (signal.SIGTERM, ExitCode.TERMINATED),
    ],
)
@pytest.mark.parametrize("half_done", [False, True])
def test_an_interrupted_command(
    stateplan: Command, monkeypatch: pytest.MonkeyPatch, sent: signal.Signals, code: ExitCode, half_done: bool
) -> None:
    def interrupted(*_: object) -> None:
        try:
            os.kill(os.getpid(), sent)
        finally:
            if half_done:  # as py4j does when a signal comes between a question and its answer
                raise RuntimeError("Gateway must be connected")

    monkeypatch.setattr("stateplan.plans.show.show", interrupted)
    # A shell starts without a handler what it puts into the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        answer = stateplan("plan", "show", PLAN)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (answer.code, answer.out, answer.err) == (code, "", "")


def test_a_new_folder_is_told(stateplan: Command, tmp_path: Path) -> None:
    target = tmp_path / "plnas" / "p.svg"
    assert stateplan("plan", "explain", PLAN, "-o", target) == (0, "", f"created the folder {tmp_path / 'plnas'}\n")
    assert stateplan("plan", "explain", PLAN, "-o", target) == (0, "", "")
    copy = tmp_path / "plans" / "2026" / "p.json"
    answer = stateplan("plan", "set-ttl", PLAN, "join.left=1 d", "-o", copy)
    assert (answer.code, answer.err) == (0, f"created the folder {copy.parent}\n")


def test_nobody_reads_the_output() -> None:
    command = f"{sys.executable} -m stateplan plan show {PLAN} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert done.stderr == ""
    assert int(done.stdout) in (ExitCode.OK, ExitCode.BROKEN_PIPE)


def test_version(stateplan: Command) -> None:
    answer = stateplan("--version")
    assert answer.code == 0
    assert answer.out.startswith("stateplan")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--nope", "--format", "json"], "No such option: --nope"),
        (["plan", "show", "--format=json"], "Missing argument 'PLAN'."),
        (["plan", "shwo", PLAN, "--format", "json"], "No such command 'shwo'. Did you mean 'show'?"),
        (["sql", "--format", "json", "-f"], "Option '-f' requires an argument."),
    ],
)
def test_a_wrong_command_line_as_json(stateplan: Command, args: list[str], message: str) -> None:
    answer = stateplan(*args)
    assert (answer.code, answer.out) == (ExitCode.USAGE, "")
    error = json.loads(answer.err)["error"]
    assert (error["code"], error["message"]) == ("OPT400", message)


def test_help_with_json_is_help(stateplan: Command) -> None:
    answer = stateplan("sql", "-h", "--format", "json")
    assert (answer.code, answer.err) == (0, "")
    assert "--show-config" in answer.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_of_a_shell(shell: str) -> None:
    variables = {
        "bash": {"COMP_WORDS": "stateplan pl", "COMP_CWORD": "1"},
        "zsh": {"_TYPER_COMPLETE_ARGS": "stateplan pl"},
        "fish": {"_TYPER_COMPLETE_ARGS": "stateplan pl", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }
    done = subprocess.run(
        [sys.executable, "-c", "from stateplan.cli.app import app; app(prog_name='stateplan')"],
        env={**os.environ, "_STATEPLAN_COMPLETE": f"complete_{shell}", **variables[shell]},
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert "plan" in done.stdout
    assert "state" not in done.stdout.replace("stateplan", "")
