"""The commands on the state of a checkpoint, one module each. A command loads its dependencies when it runs."""

from __future__ import annotations

from stateplan.cli.groups import group

state_app = group(
    "Inspect the state in a checkpoint and change its TTLs.",
    {
        "advise": "stateplan.cli.state.advise:advise",
        "read": "stateplan.cli.state.read:read",
        "show": "stateplan.cli.state.show:show",
        "set-ttl": "stateplan.cli.state.set_ttl:set_ttl",
    },
    no_args_is_help=("advise", "read", "show", "set-ttl"),
)
