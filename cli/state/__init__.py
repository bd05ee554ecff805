"""The commands on the state of a checkpoint, one module each. A command loads its dependencies when it runs."""

from __future__ import annotations

import typer

from stateplan.cli.options import EXIT_CODES
from stateplan.cli.state.read import read
from stateplan.cli.state.set_ttl import set_ttl
from stateplan.cli.state.show import show

__all__ = ["state_app"]

state_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=EXIT_CODES,
    help="Inspect the state in a checkpoint and change its TTLs.",
)
state_app.command("read", no_args_is_help=True)(read)
state_app.command("show", no_args_is_help=True)(show)
state_app.command("set-ttl", no_args_is_help=True)(set_ttl)
