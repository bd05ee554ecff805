"""The commands on plan files. ``show`` and ``explain`` load no engine."""

from __future__ import annotations

from collections.abc import Mapping

from cli.console import Console

__all__ = ["compile_script", "execute", "explain", "show"]


def show(console: Console, plan: str) -> None:
    """``stateplan plan show``."""
    from plans.document import PlanDocument
    from plans.show import show as view_of
    from plans.show import to_json, to_text

    view = view_of(PlanDocument.load(plan))
    console.show(to_text(view), to_json(view))


def explain(console: Console, plan: str, options: Mapping[str, str]) -> None:
    """``stateplan plan explain``."""
    from plans.document import PlanDocument
    from plans.explain import explain as explanation_of
    from plans.explain import to_json, to_text

    explanation = explanation_of(PlanDocument.load(plan), options)
    console.show(to_text(explanation), to_json(explanation))


def compile_script(
    console: Console,
    options: Mapping[str, str],
    file: str,
    init: str | None,
    target: str,
    if_not_exists: bool,
    overwrite: bool,
) -> None:
    """``stateplan plan compile``."""
    from cli.session import Session

    Session(console, options, init).compile(file, target, if_not_exists, overwrite)


def execute(console: Console, options: Mapping[str, str], plan: str, file: str | None) -> None:
    """``stateplan plan execute``."""
    from cli.session import Session

    Session(console, options, file).execute_plan(plan)
