"""``stateplan plan rebase``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.options import InitOption, ReportFormat, SettingsOption, settings
from stateplan.cli.plan_files import read_plan, write_plan

if TYPE_CHECKING:
    from stateplan.plans.document import PlanDocument
    from stateplan.plans.rebase import Rebase


class Winner(StrEnum):
    """Which value wins a conflict."""

    OURS = "ours"
    THEIRS = "theirs"


@command()
def rebase(
    console: Console,
    pairs: SettingsOption,
    ours: Annotated[str, typer.Option("--ours", metavar="PLAN", help="The edited plan.")],
    base: Annotated[
        str | None,
        typer.Option(
            "--base", metavar="PLAN", help="The plan before the edits. Optional for plans that stateplan compiled."
        ),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option("--sql", metavar="SCRIPT", help="The new SQL script, with tables, settings and one query."),
    ] = None,
    theirs: Annotated[
        str | None,
        typer.Option("--theirs", metavar="PLAN", help="The plan that the new SQL compiles to, instead of --sql."),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--output", "-o", metavar="PLAN", help="Path or URL of the new plan.")
    ] = None,
    conflict: Annotated[
        Winner | None,
        typer.Option("--conflict", help="Which value wins a conflict: the edit (ours) or the new SQL (theirs)."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Write nothing if an edit is lost.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the report without writing a plan.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing plan file.")] = False,
    init: InitOption = None,
    output: Annotated[ReportFormat, typer.Option("--format", help="Format of the report.")] = ReportFormat.TEXT,
) -> None:
    """Apply the edits of a plan to the plan of newer SQL, as a three-way merge. Lists conflicts and lost edits."""
    if (sql is None) == (theirs is None):
        raise typer.BadParameter("give either --sql SCRIPT or --theirs PLAN")
    if theirs is not None and (init is not None or pairs):
        raise typer.BadParameter("--init and -D require --sql")
    if target is None and not dry_run:
        raise typer.BadParameter("missing -o PLAN (or --dry-run, which only prints the report)")
    from stateplan.plans.rebase import rebase

    new = read_plan(theirs) if theirs is not None else _compile_again(console, settings(pairs), init, sql or "")
    old = read_plan(base) if base is not None else None
    outcome = rebase(old, read_plan(ours), new, conflict.value if conflict else None)
    _report(console, outcome, output)
    if outcome.conflicts and not dry_run:
        raise _conflict_error(outcome)
    if strict and outcome.having("lost") and not dry_run:
        raise _lost_error(outcome)
    if target is not None and not dry_run:
        write_plan(console, outcome.document, target, overwrite)
        console.note(f"wrote {target}")


def _compile_again(console: Console, options: dict[str, str], init: str | None, sql: str) -> PlanDocument:
    from stateplan.cli.session import Session

    return Session(console, options, init).compiled(sql)


def _report(console: Console, outcome: Rebase, output: ReportFormat) -> None:
    from stateplan.plans.rebase.report import to_json, to_markdown, to_text

    console.show((to_markdown if output is ReportFormat.MARKDOWN else to_text)(outcome), to_json(outcome))
    lost_count = len(outcome.having("lost"))
    if lost_count:
        console.warning(f"{lost_count} {'edit is' if lost_count == 1 else 'edits are'} lost: see the report")


def _lost_error(outcome: Rebase) -> Exception:
    from stateplan.common.errors import PlanError

    lost_edits = outcome.having("lost")
    return PlanError(
        "PLAN154",
        count=len(lost_edits),
        wording="edit is" if len(lost_edits) == 1 else "edits are",
        place=lost_edits[0].place,
    )


def _conflict_error(outcome: Rebase) -> Exception:
    from stateplan.common.errors import PlanError

    count = len(outcome.conflicts)
    return PlanError(
        "PLAN153",
        count=count,
        wording="edit conflicts" if count == 1 else "edits conflict",
        place=outcome.conflicts[0].place,
    )
