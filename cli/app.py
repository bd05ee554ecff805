"""The ``stateplan`` command line. This module and what it imports load no engine: ``plan show`` starts fast."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated, NoReturn

import typer

from cli.console import Console, make_console
from cli.exit_codes import ExitCode, exit_code
from execnodes.errors import OptionError, StateplanError

__all__ = ["app", "main"]

EXIT_CODES = "Exit codes: " + "; ".join(f"{code.value} {code.meaning}" for code in ExitCode) + "."

app = typer.Typer(
    name="stateplan",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog=EXIT_CODES,
    help="Streaming SQL whose state you can see and edit: SQL is compiled into a plan file, the plan is run.",
)
plan_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, epilog=EXIT_CODES, help="Compile, read and run plan files."
)
app.add_typer(plan_app, name="plan")


class Format(StrEnum):
    """Output formats."""

    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="Results as text or as a JSON object per line.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No notes and no progress on standard error.")]
DebugOption = Annotated[
    bool, typer.Option("--debug", envvar="STATEPLAN_DEBUG", help="Show the whole story of an error.")
]
SettingsOption = Annotated[
    list[str],
    typer.Option(
        "--define",
        "-D",
        metavar="KEY=VALUE",
        default_factory=list,
        show_default=False,
        help="Set an option before anything runs; may be repeated.",
    ),
]
InitOption = Annotated[
    str | None, typer.Option("--init", "-i", metavar="SCRIPT", help="SQL script to run first: tables and settings.")
]
PlanArgument = Annotated[str, typer.Argument(metavar="PLAN", help="Path or URL of a plan file.")]


def settings(pairs: Sequence[str]) -> dict[str, str]:
    """The options of ``-D KEY=VALUE``.

    Raises:
        OptionError: OPT401, when one has no ``=`` or no key.
    """
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise OptionError(
                "OPT401",
                f"-D {pair!r} is not an option",
                expected="-D KEY=VALUE, such as -D table.exec.state.ttl='1 h'",
            )
        found[key.strip()] = value.strip()
    return found


def run(output: Format, quiet: bool, debug: bool, work: Callable[[Console], None]) -> None:
    """Runs a command; ends the process with its exit code when something goes wrong."""
    console = make_console(output.value, quiet)
    if not debug:
        logging.getLogger().addHandler(logging.NullHandler())  # py4j logs calls that Ctrl-C cut off
    previous = signal.signal(signal.SIGTERM, _terminate)
    code = ExitCode.OK
    try:
        work(console)
    except StateplanError as error:
        console.error(error)
        code = exit_code(error)
        if debug:
            raise
    except _Terminated:
        code = ExitCode.TERMINATED
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except BrokenPipeError:
        # the interpreter would complain when it flushes standard output at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ExitCode.BROKEN_PIPE
    except Exception as bug:
        console.bug(bug)
        code = ExitCode.BUG
        if debug:
            raise
    finally:
        console.close()
        signal.signal(signal.SIGTERM, previous)
    if code:
        raise typer.Exit(code.value)


class _Terminated(KeyboardInterrupt):
    """SIGTERM: ends a job the way Ctrl-C does."""


def _terminate(*_: object) -> NoReturn:
    raise _Terminated


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"stateplan {version('stateplan')}")
        except PackageNotFoundError:
            typer.echo("stateplan, not installed")
        raise typer.Exit


@app.callback()
def top(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Options that come before a command."""


@app.command()
def sql(
    pairs: SettingsOption,
    file: Annotated[str | None, typer.Option("--file", "-f", metavar="SCRIPT", help="SQL script to run.")] = None,
    execute: Annotated[
        list[str] | None, typer.Option("--execute", "-e", metavar="SQL", help="Statements to run; may be repeated.")
    ] = None,
    init: InitOption = None,
    output: FormatOption = Format.TEXT,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Run SQL: a script (-f), statements (-e), standard input, or a shell when that is a terminal."""
    from cli import sql as command

    run(output, quiet, debug, lambda console: command.run(console, settings(pairs), file, execute or [], init, debug))


@plan_app.command("compile")
def plan_compile(
    pairs: SettingsOption,
    file: Annotated[
        str,
        typer.Option(
            "--file", "-f", metavar="SCRIPT", help="SQL script: tables, settings and one INSERT or STATEMENT SET."
        ),
    ],
    target: Annotated[str, typer.Option("--output", "-o", metavar="PLAN", help="Path or URL to write.")],
    init: InitOption = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Leave an existing plan alone.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing plan.")] = False,
    output: FormatOption = Format.TEXT,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Compile the query of a script into a plan file."""
    from cli import plan as command

    if if_not_exists and overwrite:
        raise typer.BadParameter("--if-not-exists and --overwrite exclude each other")
    run(
        output,
        quiet,
        debug,
        lambda console: command.compile_script(console, settings(pairs), file, init, target, if_not_exists, overwrite),
    )


@plan_app.command("show")
def plan_show(plan: PlanArgument, output: FormatOption = Format.TEXT, debug: DebugOption = False) -> None:
    """List the operators of a plan with their states and the time each state lives."""
    from cli import plan as command

    run(output, False, debug, lambda console: command.show(console, plan))


@plan_app.command("explain")
def plan_explain(
    plan: PlanArgument, pairs: SettingsOption, output: FormatOption = Format.TEXT, debug: DebugOption = False
) -> None:
    """Print the tree of operators as Flink does, and their states."""
    from cli import plan as command

    run(output, False, debug, lambda console: command.explain(console, plan, settings(pairs)))


@plan_app.command("execute")
def plan_execute(
    plan: PlanArgument,
    pairs: SettingsOption,
    file: Annotated[
        str | None, typer.Option("--file", "-f", metavar="SCRIPT", help="SQL script to run first: tables and settings.")
    ] = None,
    output: FormatOption = Format.TEXT,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Run a plan, until its sources end or Ctrl-C."""
    from cli import plan as command

    run(output, quiet, debug, lambda console: command.execute(console, settings(pairs), plan, file))


def main(args: Sequence[str] | None = None) -> NoReturn:
    """The entry point of the command."""
    app(args=args)
    sys.exit(ExitCode.OK)
