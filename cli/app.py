"""The ``stateplan`` command line. This module imports no engine, so that ``plan show`` starts fast."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from stateplan.cli.console import JsonConsole, abandon, make_console, open_standard_files
from stateplan.cli.exit_codes import ExitCode
from stateplan.cli.groups import group
from stateplan.cli.options import Format
from stateplan.common.disk import output_error
from stateplan.common.errors import OptionError
from stateplan.common.release import installed_version


class _Commands(TyperGroup):
    """All commands. With ``--format json``, a wrong command line is reported in JSON too."""

    def main(self, args: Sequence[str] | None = None, **more: Any) -> Any:  # type: ignore[override] # fewer arguments are named
        words = list(sys.argv[1:] if args is None else args)
        if not ("--format=json" in words or ("--format", "json") in pairwise(words)):
            return super().main(words, **more)
        try:
            code = super().main(words, **{**more, "standalone_mode": False})
        except TyperException as error:
            JsonConsole().error(OptionError("OPT400", message=error.format_message()))
            code = ExitCode.USAGE
        sys.exit(code or ExitCode.OK)

    def invoke(self, ctx: Any) -> Any:
        """Leaves out the words that pydantic puts in front of what is wrong with a value."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


def _version(is_set: bool) -> None:
    if is_set:
        typer.echo(f"stateplan {installed_version()}")
        raise typer.Exit


def _top(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that come before a command."""


app = group(
    "Compile streaming SQL into a plan file, edit the TTL of each state, and run the plan on Spark.",
    {
        "sql": "stateplan.cli.sql:sql",
        "test": "stateplan.cli.test:test",
        "review": "stateplan.cli.review:review",
        "format": "stateplan.cli.format:format_sql",
        "gateway": "stateplan.cli.gateway:gateway",
        "language-server": "stateplan.cli.language_server:language_server",
        "archive-classes": "stateplan.cli.archive_classes:archive_classes",
        "plan": "stateplan.cli.plan:plan_app",
        "job": "stateplan.cli.job:job_app",
        "state": "stateplan.cli.state:state_app",
    },
    cls=_Commands,
    name="stateplan",
    callback=_top,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """The entry point of the command."""
    # A plan is many small, long-lived objects: garbage collection would take a sixth of the time.
    gc.set_threshold(200_000, 20, 20)
    open_standard_files()
    try:
        app(args=args)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # Typer printed help
            sys.exit(ExitCode.BROKEN_PIPE)
        raise
    except OSError as failure:
        abandon(sys.stdout)
        make_console(Format.TEXT.value, quiet=False).error(output_error("standard output", failure))
        sys.exit(ExitCode.FAILED)
    sys.exit(ExitCode.OK)
