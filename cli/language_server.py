"""``stateplan language-server``."""

from __future__ import annotations

from typing import Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console


@command(formats=False, quiet=False)
def language_server(
    console: Console,
    tcp: Annotated[
        str | None,
        typer.Option("--tcp", metavar="HOST:PORT", help="Serve one editor at this address, not over standard input."),
    ] = None,
) -> None:
    """Show editors errors, completions and states of SQL files and plans (Language Server Protocol)."""
    from stateplan.connectors.extras import require

    address = None if tcp is None else _address(tcp)
    require("editor", "pygls", "the command 'language-server'")
    from stateplan.editor.server import serve

    serve(address)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise typer.BadParameter(f"'{text}' is not HOST:PORT, such as 127.0.0.1:5007", param_hint="--tcp")
    return host, int(port)
