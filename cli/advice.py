"""What the commands ``state advise`` and ``plan advise`` share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stateplan.cli.console import Console
from stateplan.cli.plan_files import read_plan, write_plot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stateplan.plans.state.advise import Advised

MissOption = Annotated[
    str, typer.Option("--miss", metavar="SHARE", help="Share of the uses of a state that its TTL may miss.")
]
PlotOption = Annotated[
    str | None,
    typer.Option("--plot", metavar="FILE", help="Plot TTLs against missed uses and kept rows: FILE.svg or FILE.html."),
]


def tell(
    console: Console, advice: Advised, plot: str | None, name: str | None = None
) -> tuple[list[str], dict[str, object]]:
    """The advice as paragraphs and as data; the plot is written.

    Args:
        plot: a file that ends in ``.svg`` or ``.html``.
        name: what the advice is about, if not a checkpoint.
    """
    from stateplan.plans.state.advise_view import to_html, to_svg, to_text

    write_plot(console, plot, lambda: to_svg(advice), lambda: to_html(advice))
    return [to_text(advice, name).rstrip("\n")], advice.to_json()


def set_in_plan(plan: str, advice: Advised, session: Mapping[str, str], dry_run: bool) -> str:
    """Sets the advised TTLs in a plan file, and returns the diff, which is empty if nothing changes.

    With ``dry_run``, the file stays as it is.

    Raises:
        PlanError: as :func:`plans.edit.plan_edit` and :func:`plans.edit.write_edited`.
    """
    from stateplan.plans.edit import plan_edit, write_edited

    edit = plan_edit(read_plan(plan), advice.assignments, session)
    diff = edit.diff()
    if edit.splices and not dry_run:
        write_edited(edit)
    return diff
