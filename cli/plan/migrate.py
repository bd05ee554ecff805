"""``stateplan plan migrate``."""

from __future__ import annotations

from typing import Annotated

import typer

from stateplan.cli.console import Console
from stateplan.cli.files import read_plan, write_plan
from stateplan.cli.options import DebugOption, Format, FormatOption, PlanArgument, QuietOption, run

__all__ = ["migrate"]


def migrate(
    plan: PlanArgument,
    target: Annotated[
        str | None, typer.Option("--output", "-o", metavar="PLAN", help="Path or URL to write the migrated plan to.")
    ] = None,
    to: Annotated[str, typer.Option("--to", metavar="VERSION", help="Flink version to migrate to.")] = "2.3",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change; write nothing.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing plan.")] = False,
    output: FormatOption = Format.TEXT,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Bring a plan of an older Flink release to the current format, and say what that means for state."""
    if target is None and not dry_run:
        raise typer.BadParameter("where to? -o PLAN writes the migrated plan, --dry-run only says what would change")

    def work(console: Console) -> None:
        from stateplan.plans import storage
        from stateplan.plans.migrate import migrate, to_json, to_text

        migration = migrate(read_plan(plan), to)
        if target is not None and not dry_run:
            write_plan(migration.document, target, overwrite)
            console.note(f"written to {storage.shown(target)}")
        console.show(to_text(migration), to_json(migration))

    run(output, quiet, debug, work)
