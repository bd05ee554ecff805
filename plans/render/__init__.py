"""A plan drawn: as a Mermaid flowchart, as an SVG, and as a page to look around in.

Each is a function from a :class:`plans.show.PlanView` to text; none of them needs a network, or a file, to be seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from execnodes.errors import PlanError
from plans.document import PlanDocument
from plans.render.html import to_html
from plans.render.mermaid import to_mermaid
from plans.render.svg import to_svg
from plans.show import show

__all__ = ["FORMATS", "drawn", "to_html", "to_mermaid", "to_svg"]

FORMATS = {"mermaid": to_mermaid, "svg": to_svg, "html": to_html}
"""The ways to draw a plan, by name."""


def drawn(document: PlanDocument, session: Mapping[str, str] | None, form: str, details: Sequence[str] = ()) -> str:
    """A plan drawn in one of :data:`FORMATS`.

    Args:
        document: the plan.
        session: options of the session, for states whose TTL neither the plan nor the node says.
        form: ``mermaid``, ``svg`` or ``html``.
        details: names of explain details: there is none that a drawing takes.

    Raises:
        PlanError: PLAN182, for details; PLAN05x, when an option that decides about a TTL is not a duration.
    """
    if details:
        raise PlanError(
            "PLAN182",
            f"the explain detail {details[0]:.80} does not go with the format {form}",
            expected="the format text or json",
            hint="an HTML page shows the changelog mode of each operator as it is",
        )
    return FORMATS[form](show(document, session))
