"""``stateplan plan migrate``."""

from __future__ import annotations

from typing import Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.options import PlanArgument
from stateplan.cli.plan_files import read_plan, write_plan
from stateplan.common.files import safe_url


@command()
def migrate(
    console: Console,
    plan: PlanArgument,
    target: Annotated[
        str | None, typer.Option("--output", "-o", metavar="PLAN", help="Path or URL of the migrated plan.")
    ] = None,
    to: Annotated[str, typer.Option("--to", metavar="VERSION", help="Target Flink version.")] = "2.3",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the changes without writing them.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing plan file.")] = False,
) -> None:
    """Update a plan of an older Flink release to the current format, and report the effect on state."""
    if target is None and not dry_run:
        raise typer.BadParameter("missing -o PLAN (or --dry-run, which only prints the changes)")
    from stateplan.plans.migrate import migrate, to_json, to_text

    migration = migrate(read_plan(plan), to)
    if target is not None and not dry_run:
        write_plan(console, migration.document, target, overwrite)
        console.note(f"wrote {safe_url(target)}")
    console.show(to_text(migration), to_json(migration))
