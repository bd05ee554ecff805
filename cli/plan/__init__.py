"""The commands on plan files, one module each. A command loads its dependencies when it runs."""

from __future__ import annotations

from stateplan.cli.options import group
from stateplan.cli.plan.advise import advise
from stateplan.cli.plan.compile import compile_plan
from stateplan.cli.plan.diff import diff
from stateplan.cli.plan.evolve import evolve
from stateplan.cli.plan.execute import execute
from stateplan.cli.plan.explain import explain
from stateplan.cli.plan.lint import lint
from stateplan.cli.plan.migrate import migrate
from stateplan.cli.plan.rebase import rebase
from stateplan.cli.plan.schema import schema
from stateplan.cli.plan.set_ttl import set_ttl
from stateplan.cli.plan.show import show
from stateplan.cli.plan.try_plan import try_plan

plan_app = group("Compile, inspect, edit, compare and run plan files.")
plan_app.command("compile")(compile_plan)
plan_app.command("show")(show)
plan_app.command("explain")(explain)
plan_app.command("set-ttl", no_args_is_help=True)(set_ttl)
plan_app.command("diff")(diff)
plan_app.command("lint")(lint)
plan_app.command("rebase")(rebase)
plan_app.command("migrate")(migrate)
plan_app.command("evolve", no_args_is_help=True)(evolve)
plan_app.command("execute")(execute)
plan_app.command("advise", no_args_is_help=True)(advise)
plan_app.command("try", no_args_is_help=True)(try_plan)
plan_app.command("schema")(schema)
