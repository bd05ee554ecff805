"""The commands on the state of a checkpoint, one module each. A command loads its dependencies when it runs."""

from __future__ import annotations

from stateplan.cli.options import group
from stateplan.cli.state.advise import advise
from stateplan.cli.state.read import read
from stateplan.cli.state.set_ttl import set_ttl
from stateplan.cli.state.show import show

state_app = group("Inspect the state in a checkpoint and change its TTLs.")
state_app.command("advise", no_args_is_help=True)(advise)
state_app.command("read", no_args_is_help=True)(read)
state_app.command("show", no_args_is_help=True)(show)
state_app.command("set-ttl", no_args_is_help=True)(set_ttl)
