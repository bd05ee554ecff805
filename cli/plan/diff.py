"""``stateplan plan diff``."""

from __future__ import annotations

from typing import Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.options import ReportFormat
from stateplan.cli.plan_files import STREAM, read_plan

SideArgument = Annotated[str, typer.Argument(help="Path or URL of a plan file, or a checkpoint directory.")]


@command(quiet=False)
def diff(
    console: Console,
    old: SideArgument,
    new: SideArgument,
    output: Annotated[
        ReportFormat, typer.Option("--format", help="Output format: text, JSON, or Markdown for a pull request.")
    ] = ReportFormat.TEXT,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code",
            help="Exit with the code of the worst verdict: 0 identical, 10 ttl-only, 11 stateless, 12 rewrite, "
            "12 derive, 12 backfill, 13 reset, 14 unknown.",
        ),
    ] = False,
) -> int:
    """Compare two plans and report the effect of the change on existing state."""
    from stateplan.plans.diff import compare, load_side
    from stateplan.plans.diff_report import EXIT_CODES, to_json, to_markdown, to_text

    before, after = (read_plan(side) if side == STREAM else load_side(side) for side in (old, new))
    differences = compare(before, after)
    text = to_markdown(differences, old, new) if output is ReportFormat.MARKDOWN else to_text(differences)
    console.show(text, to_json(differences))
    return EXIT_CODES[differences.verdict] if exit_code else 0
