"""``stateplan sql``."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console, JsonConsole
from stateplan.cli.options import InitOption, SettingsOption
from stateplan.cli.options import settings as parse_settings
from stateplan.common.errors import OptionError, StateplanError
from stateplan.common.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from stateplan.cli.sql_client.client import Client, Terminal
    from stateplan.cli.sql_client.configuration import Settings
    from stateplan.cli.sql_client.jobs import JobsHere
    from stateplan.cli.sql_client.statements import Piece
    from stateplan.gateway.protocol import GatewaySession


@dataclass(frozen=True)
class Arguments:
    """The arguments and options of ``stateplan sql``."""

    pairs: SettingsOption
    file: Annotated[str | None, typer.Option("--file", "-f", metavar="SCRIPT", help="SQL script to run.")] = None
    statements: Annotated[
        list[str], typer.Option("--execute", "-e", metavar="SQL", help="SQL statements to run. Repeatable.")
    ] = field(default_factory=list)
    init: InitOption = None
    config: Annotated[
        list[str],
        typer.Option("--config", metavar="FILE", help="Configuration file (YAML), read after the others. Repeatable."),
    ] = field(default_factory=list)
    no_config: Annotated[
        bool,
        typer.Option(
            "--no-config", help="Ignore the configuration files of the machine, the user and the working directory."
        ),
    ] = False
    show_config: Annotated[
        bool, typer.Option("--show-config", help="Print the configuration, with the file and line of each value.")
    ] = False
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Run the statements at this SQL gateway, such as http://localhost:8083."),
    ] = None
    token_file: Annotated[
        str | None, typer.Option("--token-file", metavar="FILE", help="File with the token of the gateway.")
    ] = None
    ca_file: Annotated[
        str | None, typer.Option("--ca-file", metavar="FILE", help="Certificates (PEM) to trust, for https.")
    ] = None
    certificate: Annotated[
        str | None, typer.Option("--certificate", metavar="FILE", help="Own certificate and key (PEM), for mutual TLS.")
    ] = None


@command()
def sql(console: Console, arguments: Arguments, debug: bool) -> None:
    """Run SQL: a script (-f), statements (-e) or standard input. On a terminal, open the SQL shell."""
    from stateplan.cli.sql_client.configuration import load

    if arguments.file and arguments.statements:
        raise OptionError("OPT402")
    settings = load(arguments.config, parse_settings(arguments.pairs), standard=not arguments.no_config)
    if arguments.endpoint is None:
        settings.check()
    if arguments.show_config:
        _show(console, settings)
    elif arguments.file or arguments.statements or not _is_terminal():
        _script(console, arguments, settings)
    else:
        _shell(console, arguments, settings, debug)


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()


def _show(console: Console, settings: Settings) -> None:
    """Where every value comes from."""
    options = [(o.key, o.redacted, o.origin) for o in sorted(settings.options.values(), key=lambda o: o.key)]
    statements = [(d.section[:-1], " ".join(d.statement.split()), d.origin) for d in settings.statements()]
    if isinstance(console, JsonConsole):
        console.show(
            "",
            {
                "files": [str(path) for path in settings.files],
                "options": [dict(zip(("key", "value", "source"), row, strict=True)) for row in options],
                "statements": [dict(zip(("kind", "statement", "source"), row, strict=True)) for row in statements],
            },
        )
        return
    console.note("configuration files: " + (", ".join(map(str, settings.files)) or "none"))
    console.table(["key", "value", "source"], options)
    if statements:
        console.table(["kind", "statement", "source"], statements)


@contextlib.contextmanager
def _client(
    console: Console,
    arguments: Arguments,
    settings: Settings,
    defaults: Mapping[str, str],
    tell: Callable[[str], None],
    terminal: Terminal | None = None,
) -> Iterator[Client]:
    """A client in a session with all that is configured. Afterwards the session ends, and so do jobs of this process.

    Args:
        defaults: options that hold where nothing else sets them, in a session of this process.
        tell: receives notes about running jobs.
        terminal: the terminal of the user.

    Raises:
        StateplanError: the session cannot be opened, or a statement of a configuration file is wrong.
    """
    from stateplan.cli.sql_client.client import Client
    from stateplan.cli.sql_client.statements import read_text

    with contextlib.ExitStack() as stack:
        options = settings.values()
        if arguments.endpoint is not None:
            from stateplan.gateway.client.http import connect

            token = None if arguments.token_file is None else _token(arguments.token_file)
            session: GatewaySession = connect(
                arguments.endpoint,
                options,
                token=token,
                ca_file=arguments.ca_file,
                certificate=arguments.certificate,
                reopens=terminal is not None,
            )
            stack.callback(_closing, session)
            client = Client(session, console, None, terminal)
        else:
            from stateplan.cli.sql_client.jobs import JobsHere
            from stateplan.gateway.service.service import SqlGatewayService

            clients: list[Client] = []
            service = SqlGatewayService(console=tell, on_progress=lambda progress: clients[0].on_progress(progress))
            stack.callback(service.stop)
            session = service.open_session("shell", {**defaults, **options})
            jobs = JobsHere(service.jobs)
            client = Client(session, console, jobs, terminal, _check)
            clients.append(client)
            stack.callback(_stop, console, jobs)
        stack.callback(client.jobs.close)
        for declaration in settings.statements():
            try:
                session.configure(declaration.statement)
            except StateplanError as error:
                raise declaration.at_file(error)  # noqa: B904 - it is the same error
        if arguments.init is not None:
            client.run_script(read_text(arguments.init), arguments.init)
        yield client


def _stop(console: Console, jobs: JobsHere) -> None:
    """Jobs of this process end with it."""
    for progress in jobs.stop_all():
        console.finished(progress, "stopped")


def _closing(session: GatewaySession) -> None:
    with contextlib.suppress(StateplanError):  # the gateway is away, or has closed it
        session.close()


def _check(piece: Piece) -> None:
    from stateplan.session.script import read_script

    read_script(piece.text)


def _token(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as cause:
        reason = (cause.strerror if isinstance(cause, OSError) else None) or "it is not text"
        raise OptionError("OPT414", path=path, reason=reason) from cause


def _script(console: Console, arguments: Arguments, settings: Settings) -> None:
    from stateplan.cli.sql_client.client import Quit
    from stateplan.cli.sql_client.jobs import JobsHere
    from stateplan.cli.sql_client.statements import read_text

    with _client(console, arguments, settings, {"table.dml-sync": "true"}, console.note) as client:
        with contextlib.suppress(Quit):
            if arguments.statements:
                for statement in arguments.statements:
                    client.run_script(statement)
            else:
                file = arguments.file or "-"
                client.run_script(read_text(file), "<stdin>" if file == "-" else file)
        if isinstance(client.jobs, JobsHere):
            client.jobs.wait(console.finished)


def _shell(console: Console, arguments: Arguments, settings: Settings, debug: bool) -> None:
    from stateplan.cli.sql_client.shell import Shell, terminal

    with terminal(console) as (screen, own):
        shells: list[Shell] = []
        plain = os.environ.get("TERM") == "dumb"
        with _client(
            own,
            arguments,
            settings,
            {},
            lambda text: shells[0].tell(text) if shells else own.note(text),
            None if plain else screen,
        ) as client:
            for path in settings.files:
                own.note(f"configured by {path}")
            own.note("Type HELP; for help, QUIT; to exit.")
            shells.append(Shell(client, own, screen, debug))
            shells[0].loop()
