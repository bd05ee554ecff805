"""``stateplan plan explain``."""

from __future__ import annotations

from cli.console import Console
from cli.options import DebugOption, Format, FormatOption, PlanArgument, SettingsOption, run, settings

__all__ = ["explain"]


def explain(
    plan: PlanArgument, pairs: SettingsOption, output: FormatOption = Format.TEXT, debug: DebugOption = False
) -> None:
    """Print the tree of operators as Flink does, and their states."""

    def work(console: Console) -> None:
        from plans.document import PlanDocument
        from plans.explain import explain as explanation_of
        from plans.explain import to_json, to_text

        explanation = explanation_of(PlanDocument.load(plan), settings(pairs))
        console.show(to_text(explanation), to_json(explanation))

    run(output, False, debug, work)
