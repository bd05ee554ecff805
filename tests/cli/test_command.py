"""What makes a command of a function."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Annotated

import typer
from typer.testing import CliRunner

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.exit_codes import ExitCode
from stateplan.cli.options import Format
from stateplan.common.errors import OptionError


@dataclass(frozen=True)
class Arguments:
    """What the command is given."""

    plan: Annotated[str, typer.Argument(metavar="PLAN")]
    names: Annotated[list[str], typer.Option("--name")] = field(default_factory=list)
    most: Annotated[int, typer.Option("--most")] = 3


@command()
def count(console: Console, given: Arguments, quiet: bool, output: Format = Format.TEXT) -> ExitCode | None:
    """Counts names."""
    if given.plan == "none":
        raise OptionError("OPT401", pair="x")
    if given.plan == "bad":
        raise typer.BadParameter("no such plan")
    if given.plan == "bug":
        raise ZeroDivisionError
    console.show(f"{given}", {"names": given.names, "quiet": quiet, "output": output.value})
    return ExitCode.FINDINGS if len(given.names) > given.most else None


@command(formats=False, quiet=False)
def alone(console: Console) -> int:
    """Has no options but --debug."""
    console.show("done", None)
    return 12


app = typer.Typer()
app.command("count")(count)
app.command("alone")(alone)


def run(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.stdout, done.stderr


def test_a_record_stands_for_its_fields() -> None:
    code, out, _ = run("count", "p.json", "--name", "a", "--name", "b", "--format", "json")
    assert code == 0
    assert json.loads(out) == {"names": ["a", "b"], "quiet": False, "output": "json"}
    code, out, _ = run("count", "p.json", "--most", "1", "-q")
    assert (code, out) == (0, "Arguments(plan='p.json', names=[], most=1)\n"), "a list without values is empty"


def test_the_result_is_the_exit_code() -> None:
    assert run("count", "p", "--name", "a", "--name", "b", "--most", "1")[0] == ExitCode.FINDINGS
    assert run("alone") == (12, "done\n", "")


def test_errors_have_their_exit_codes() -> None:
    code, _, err = run("count", "none")
    assert code == ExitCode.USAGE and "[OPT401]" in err
    code, _, err = run("count", "bad")
    assert code == ExitCode.USAGE and "no such plan" in err
    code, _, err = run("count", "bug")
    assert code == ExitCode.BUG and "[BUG000]" in err


def test_common_options_come_last_and_only_where_they_are_asked_for() -> None:
    _, text, _ = run("count", "--help")
    options = [word for word in ("--name", "--most", "--format", "--quiet", "--debug") if word in text]
    assert options == sorted(options, key=text.index) and len(options) == 5
    _, text, _ = run("alone", "--help")
    assert "--debug" in text and "--quiet" not in text and "--format" not in text


def test_a_process_that_runs_many_commands_has_one_handler_more_at_most() -> None:
    run("count", "p.json")
    handlers = list(logging.getLogger().handlers)
    run("count", "p.json")
    assert logging.getLogger().handlers == handlers
