"""``stateplan plan show``."""

from __future__ import annotations

from cli.console import Console
from cli.options import DebugOption, Format, FormatOption, PlanArgument, run

__all__ = ["show"]


def show(plan: PlanArgument, output: FormatOption = Format.TEXT, debug: DebugOption = False) -> None:
    """List the operators of a plan with their states and the time each state lives."""

    def work(console: Console) -> None:
        from plans.document import PlanDocument
        from plans.show import show as view_of
        from plans.show import to_json, to_text

        view = view_of(PlanDocument.load(plan))
        console.show(to_text(view), to_json(view))

    run(output, False, debug, work)
