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

from stateplan.cli.console import Console, JsonConsole
from stateplan.cli.exit_codes import ExitCode
from stateplan.cli.job import job_app
from stateplan.cli.options import (
    EXIT_CODES,
    DebugOption,
    Format,
    FormatOption,
    InitOption,
    QuietOption,
    SettingsOption,
    run,
    settings,
)
from stateplan.cli.plan import plan_app
from stateplan.cli.state import state_app
from stateplan.common.errors import OptionError
from stateplan.common.release import installed_version


class _Commands(TyperGroup):
    """All commands. With ``--format json``, a wrong command line is told in JSON too."""

    def main(self, args: Sequence[str] | None = None, **more: Any) -> Any:  # type: ignore[override]
        words = list(sys.argv[1:] if args is None else args)
        if not ("--format=json" in words or ("--format", "json") in pairwise(words)):
            return super().main(words, **more)
        try:
            code = super().main(words, **{**more, "standalone_mode": False})
        except TyperException as error:
            if not hasattr(error, "format_message"):
                raise
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


app = typer.Typer(
    name="stateplan",
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog=EXIT_CODES,
    help="Compile streaming SQL into a plan file, edit the TTL of each state, and run the plan on Spark.",
)
app.add_typer(plan_app, name="plan")
app.add_typer(job_app, name="job")
app.add_typer(state_app, name="state")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stateplan {installed_version()}")
        raise typer.Exit


@app.callback()
def top(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that come before a command."""


@app.command()
def sql(
    pairs: SettingsOption,
    file: Annotated[str | None, typer.Option("--file", "-f", metavar="SCRIPT", help="SQL script to run.")] = None,
    execute: Annotated[
        list[str] | None, typer.Option("--execute", "-e", metavar="SQL", help="SQL statements to run. Repeatable.")
    ] = None,
    init: InitOption = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="FILE", help="Configuration file (YAML), read after the others. Repeatable."),
    ] = None,
    no_config: Annotated[
        bool,
        typer.Option(
            "--no-config", help="Ignore the configuration files of the machine, the user and the working directory."
        ),
    ] = False,
    show_config: Annotated[
        bool, typer.Option("--show-config", help="Print what is configured, and where each value comes from.")
    ] = False,
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Run the statements at this SQL gateway, such as http://localhost:8083."),
    ] = None,
    token_file: Annotated[
        str | None, typer.Option("--token-file", metavar="FILE", help="File with the token of the gateway.")
    ] = None,
    ca_file: Annotated[
        str | None, typer.Option("--ca-file", metavar="FILE", help="Certificates (PEM) to trust, for https.")
    ] = None,
    certificate: Annotated[
        str | None, typer.Option("--certificate", metavar="FILE", help="Own certificate and key (PEM), for mutual TLS.")
    ] = None,
    output: FormatOption = Format.TEXT,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Run SQL: a script (-f), statements (-e) or standard input. On a terminal, open the SQL shell."""
    from stateplan.cli import sql as command

    def work(console: Console) -> None:
        given = command.Arguments(
            settings(pairs),
            file,
            execute or (),
            init,
            config or (),
            no_config,
            show_config,
            endpoint,
            token_file,
            ca_file,
            certificate,
            debug,
        )
        command.run(console, given)

    run(output, quiet, debug, work)


@app.command()
def gateway(
    pairs: SettingsOption,
    address: Annotated[
        str | None,
        typer.Option("--bind-address", metavar="ADDRESS", help="Address to listen on. Default: 127.0.0.1."),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 for a free one. Default: 8083.")
    ] = None,
    folder: Annotated[
        str | None,
        typer.Option(
            "--dir",
            metavar="FOLDER",
            help="Folder for jobs, plans and the audit log. Default: stateplan/gateway in $XDG_STATE_HOME or "
            "~/.local/state.",
        ),
    ] = None,
    roots: Annotated[
        list[str] | None,
        typer.Option(
            "--root",
            metavar="FOLDER",
            help="Folder or URL that statements may use files of, or server such as kafka://host:port. Repeatable. "
            "Default: all that you may use.",
        ),
    ] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-env",
            metavar="NAME",
            help="With --root: an environment variable of the gateway that tables may refer to by ${env:NAME}. "
            "Repeatable. Default: none.",
        ),
    ] = None,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-module",
            metavar="MODULE",
            help="Module or package that functions of Python may be imported from; '*' for any. Repeatable. "
            "Default: none.",
        ),
    ] = None,
    hosts: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Another name that the gateway is called by. Repeatable."),
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option("--token-file", metavar="FILE", help="File with the token that every request must have."),
    ] = None,
    certificate: Annotated[
        str | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate of the gateway (PEM), for https.")
    ] = None,
    key: Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="Its private key (PEM).")] = None,
    client_ca: Annotated[
        str | None,
        typer.Option("--tls-client-ca", metavar="FILE", help="Only clients with a certificate of this CA may connect."),
    ] = None,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Serve Flink's SQL gateway REST API: sessions, statements, results and jobs over HTTP."""
    from stateplan.cli import gateway as command

    given = command.Settings(
        address,
        port,
        folder,
        tuple(roots or ()),
        tuple(variables or ()),
        tuple(modules or ()),
        tuple(hosts or ()),
        token_file,
        certificate,
        key,
        client_ca,
    )
    run(Format.TEXT, quiet, debug, lambda console: command.run(console, settings(pairs), given, quiet))


@app.command("archive-classes")
def archive_classes(quiet: QuietOption = False, debug: DebugOption = False) -> None:
    """Archive the classes that Spark loads, so that jobs on this machine start faster. Once per Java and Spark."""

    def work(console: Console) -> None:
        from stateplan.cli.archive_classes import run as command

        command(console)

    run(Format.TEXT, quiet, debug, work)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """The entry point of the command."""
    # A plan is many small, long-lived objects: garbage collection would take a sixth of the time.
    gc.set_threshold(200_000, 20, 20)
    app(args=args)
    sys.exit(ExitCode.OK)
