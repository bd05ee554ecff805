"""The commands on plan files, one module each. A command loads its dependencies when it runs."""

from __future__ import annotations

from stateplan.cli.groups import group

plan_app = group(
    "Compile, inspect, edit, compare and run plan files.",
    {
        "compile": "stateplan.cli.plan.compile:compile_plan",
        "show": "stateplan.cli.plan.show:show",
        "explain": "stateplan.cli.plan.explain:explain",
        "set-ttl": "stateplan.cli.plan.set_ttl:set_ttl",
        "diff": "stateplan.cli.plan.diff:diff",
        "lint": "stateplan.cli.plan.lint:lint",
        "rebase": "stateplan.cli.plan.rebase:rebase",
        "migrate": "stateplan.cli.plan.migrate:migrate",
        "evolve": "stateplan.cli.plan.evolve:evolve",
        "execute": "stateplan.cli.plan.execute:execute",
        "advise": "stateplan.cli.plan.advise:advise",
        "try": "stateplan.cli.plan.try_plan:try_plan",
        "schema": "stateplan.cli.plan.schema:schema",
    },
    no_args_is_help=("set-ttl", "evolve", "advise", "try"),
)
