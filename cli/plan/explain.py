"""``stateplan plan explain``."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.console import Console
from cli.options import DebugOption, Format, PlanArgument, SettingsOption, run, settings

if TYPE_CHECKING:
    from plans.document import PlanDocument

__all__ = ["ExplainFormat", "explain"]


class ExplainFormat(StrEnum):
    """How a plan is explained."""

    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"
    SVG = "svg"
    HTML = "html"


_BY_SUFFIX = {
    "json": ExplainFormat.JSON,
    "mmd": ExplainFormat.MERMAID,
    "mermaid": ExplainFormat.MERMAID,
    "svg": ExplainFormat.SVG,
    "html": ExplainFormat.HTML,
    "htm": ExplainFormat.HTML,
}


def explain(
    plan: PlanArgument,
    pairs: SettingsOption,
    form: Annotated[
        ExplainFormat | None,
        typer.Option(
            "--format",
            help="As text, as JSON, or drawn: a Mermaid flowchart, an SVG, or an HTML page to look around in. "
            "By default what the ending of the output file says, else text.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="File to write; an existing one is replaced.")
    ] = None,
    details: Annotated[
        list[str] | None,
        typer.Option(
            "--details",
            metavar="DETAIL,...",
            help="Flink's explain details, for text and JSON: changelog_mode, plan_advice, json_execution_plan.",
        ),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Print the tree of operators as Flink does, and their states; or draw it."""
    chosen = form or _BY_SUFFIX.get((target or "").rpartition(".")[2].lower(), ExplainFormat.TEXT)
    names = [name for given in details or () for name in given.split(",") if name.strip()]

    def work(console: Console) -> None:
        from plans.document import PlanDocument

        document = PlanDocument.load(plan)
        text, data = _explained(document, settings(pairs), chosen, names)
        if target is None:
            console.show(text(), data())
            return
        from plans.render.output import write_beside

        write_beside(document, target, text() if chosen != ExplainFormat.JSON else _dumped(data()))

    run(Format.JSON if chosen == ExplainFormat.JSON else Format.TEXT, False, debug, work)


def _explained(
    document: PlanDocument, options: dict[str, str], form: ExplainFormat, names: list[str]
) -> tuple[Callable[[], str], Callable[[], Any]]:
    """The explanation as text and as data, each made when it is asked for."""
    from plans.explain import explain as explanation_of
    from plans.explain import to_json, to_text

    if form in (ExplainFormat.TEXT, ExplainFormat.JSON):
        explanation = explanation_of(document, options, names)
        return lambda: to_text(explanation), lambda: to_json(explanation)
    from plans.render import drawn

    text = drawn(document, options, form.value, names)
    return lambda: text, lambda: None


def _dumped(data: Any) -> str:
    import json

    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"
