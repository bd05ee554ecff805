"""A plan drawn: as a Mermaid flowchart, as an SVG, and as a page to look around in.

Each is a function from a :class:`plans.show.PlanView` to text; none of them needs a network, or a file, to be seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from stateplan.common.errors import PlanError, nearest
from stateplan.plans.document import PlanDocument
from stateplan.plans.explain import explain, to_json, to_text
from stateplan.plans.render.html import to_html
from stateplan.plans.render.mermaid import to_mermaid
from stateplan.plans.render.svg import to_svg
from stateplan.plans.show import show

__all__ = ["FORMATS", "render_explanation", "to_html", "to_mermaid", "to_svg"]

FORMATS = {"mermaid": to_mermaid, "svg": to_svg, "html": to_html}
"""The ways to draw a plan, by name."""


def render_explanation(
    document: PlanDocument, session: Mapping[str, str] | None = None, form: str = "text", details: Sequence[str] = ()
) -> str:
    """A plan explained.

    Args:
        document: the plan.
        session: options of the session, for states whose TTL neither the plan nor the node says.
        form: ``text``, ``json``, or one of :data:`FORMATS`.
        details: names of explain details, which text and JSON take.

    Raises:
        PlanError: PLAN180, PLAN181, for a detail that there is not; PLAN182, for one with a drawing; PLAN184, for
            another format; PLAN05x, when an option that decides about a TTL is not a duration.
    """
    if form in ("text", "json"):
        explanation = explain(document, session, details)
        if form == "text":
            return to_text(explanation)
        return json.dumps(to_json(explanation), ensure_ascii=False, indent=2) + "\n"
    if form not in FORMATS:
        forms = ("text", "json", *FORMATS)
        raise PlanError("PLAN184", form=form, known=", ".join(forms), hint=nearest(form, forms))
    if details:
        raise PlanError("PLAN182", details=details[0], form=form)
    return FORMATS[form](show(document, session))
