"""``stateplan plan set-ttl``."""

from __future__ import annotations

from typing import Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.exit_codes import ExitCode
from stateplan.cli.options import AssignmentsArgument, Format, PlanArgument, SettingsOption, settings
from stateplan.cli.plan_files import STREAM, read_plan, write_plan


@command()
def set_ttl(
    console: Console,
    pairs: SettingsOption,
    plan: PlanArgument,
    assignments: AssignmentsArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print a diff of the file without writing it.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with code 9 if the file would change.")
    ] = False,
    target: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the plan to another file, or - for standard output."
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing --output file.")] = False,
    output: Format = Format.TEXT,
) -> ExitCode:
    """Change TTLs in a plan file. Every other byte of the file stays the same."""
    if overwrite and target in (None, STREAM):
        raise typer.BadParameter("--overwrite requires --output FILE")
    from stateplan.plans.edit import plan_edit, to_json, to_text, write_edited
    from stateplan.plans.selector_text import parse_assignment

    ttl_assignments = [parse_assignment(text) for text in assignments]
    document = read_plan(plan)
    edit = plan_edit(document, ttl_assignments, settings(pairs))
    path = plan if target is None else target
    text = to_text(edit).rstrip("\n")
    data = {"file": path, "changed": bool(edit.splices), "written": False, "changes": to_json(edit)}
    if dry_run:
        if output is Format.TEXT:
            console.note(text)
        diff = edit.diff(new=None if path == STREAM else path)
        console.show(diff, {**data, "diff": diff})
    elif path == STREAM and not check:
        console.note(text)
        console.raw(edit.apply().data)
    elif check:
        console.show(text, data)
    else:
        if path != plan:
            write_plan(console, edit.apply(), path, overwrite)
        elif edit.splices:
            write_edited(edit)
        console.show(text, {**data, "written": path != plan or bool(edit.splices)})
    return ExitCode.FINDINGS if check and edit.splices else ExitCode.OK
