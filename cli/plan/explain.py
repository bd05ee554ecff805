"""``stateplan plan explain``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.options import PlanArgument, SettingsOption, extensions, format_of, output_option, settings
from stateplan.cli.plan_files import read_plan, tells_new_folder


class ExplainFormat(StrEnum):
    """How a plan is explained."""

    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"
    SVG = "svg"
    HTML = "html"


_BY_EXTENSION = {
    ".txt": ExplainFormat.TEXT,
    ".json": ExplainFormat.JSON,
    ".mmd": ExplainFormat.MERMAID,
    ".mermaid": ExplainFormat.MERMAID,
    ".svg": ExplainFormat.SVG,
    ".html": ExplainFormat.HTML,
    ".htm": ExplainFormat.HTML,
}


@command(quiet=False)
def explain(
    console: Console,
    plan: PlanArgument,
    pairs: SettingsOption,
    output: Annotated[
        ExplainFormat | None,
        typer.Option(
            "--format",
            help="Text, JSON, Mermaid flowchart, SVG image or interactive HTML page. Default: by the file extension "
            "of --output, otherwise text.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None,
        output_option(f"File to write, which ends in {extensions(_BY_EXTENSION)}. An existing file is replaced."),
    ] = None,
    details: Annotated[
        list[str] | None,
        typer.Option(
            "--details",
            metavar="DETAIL,...",
            help="Flink's explain details, for text and JSON: changelog_mode, plan_advice, json_execution_plan.",
        ),
    ] = None,
) -> None:
    """Print the operator tree as Flink does, with the states, or draw it."""
    names = [name for text in details or () for name in text.split(",") if name.strip()]
    from stateplan.plans.explain import explain as explanation_of
    from stateplan.plans.explain import to_json
    from stateplan.plans.render import render_explanation
    from stateplan.plans.render.output import write_beside

    explain_format = format_of(output, target, _BY_EXTENSION) or ExplainFormat.TEXT
    document, options = read_plan(plan), settings(pairs)
    if target is not None:
        with tells_new_folder(console, target):
            write_beside(document, target, render_explanation(document, options, explain_format.value, names))
    elif explain_format == ExplainFormat.JSON:
        console.show("", to_json(explanation_of(document, options, names)))
    else:
        console.show(render_explanation(document, options, explain_format.value, names), None)
