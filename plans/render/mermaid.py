"""A plan as a Mermaid flowchart, for Markdown: GitHub, GitLab and others draw it in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stateplan.plans.render.picture import MARKS, Box, Mark, Picture, picture
from stateplan.plans.show import PlanView

_SHAPES = {"source": ("[(", ")]"), "sink": ("[/", "/]"), "operator": ("[", "]")}
_LONGEST = 160

_ENTITIES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "`": "&grave;",
    "#": "&num;",
    "$": "&dollar;",
    "%": "&percnt;",
    "\\": "&bsol;",
}
"""Characters that end a label, or mean something in it: markup, Markdown, entities and directives of Mermaid, formulas,
line breaks."""


def to_mermaid(view: PlanView) -> str:
    """A plan as the text of a Mermaid flowchart, from the sources at the top to the sinks at the bottom."""
    plan_picture = picture(view)
    lines = _lines(plan_picture)
    stateful = [f"n{box.id}" for box in plan_picture.boxes if box.stateful]
    if stateful:
        lines.append("    classDef stateful fill:#fff4d6,stroke:#b7791f,stroke-width:2px,color:#1b1f27")
        lines.append(f"    class {','.join(stateful)} stateful")
    return "\n".join(lines) + "\n"


def marked_mermaid(plan_picture: Picture, marks: Mapping[int, Mark]) -> str:
    """A picture as the text of a Mermaid flowchart in which boxes have colours by their marks. Those without a mark are
    faint, and have their title alone."""
    faint = [box for box in plan_picture.boxes if box.id not in marks]
    boxes = tuple(replace(box, summary="", notes=()) if box in faint else box for box in plan_picture.boxes)
    lines = _lines(Picture(plan_picture.title, boxes, plan_picture.lines))
    if faint:
        lines.append("    classDef faint fill:transparent,stroke:#b6bcc8,stroke-dasharray:3 3")
        lines.append(f"    class {','.join(f'n{box.id}' for box in faint)} faint")
    for mark, (ground, frame) in MARKS.items():
        members = [f"n{box}" for box in sorted(marks) if marks[box] == mark]
        if members:
            dashes = ",stroke-dasharray:6 4" if mark == "removed" else ""
            lines.append(f"    classDef {mark} fill:{ground},stroke:{frame},stroke-width:2px,color:#1b1f27{dashes}")
            lines.append(f"    class {','.join(members)} {mark}")
    return "\n".join(lines) + "\n"


def _lines(plan_picture: Picture) -> list[str]:
    """The boxes and lines of a picture."""
    lines = ["flowchart TD", f"    accTitle: {_plain(plan_picture.title)}"]
    lines += [_box(box) for box in plan_picture.boxes]
    for line in plan_picture.lines:
        label = f'|"{_label(line.label)}"|' if line.label else ""
        lines.append(f"    n{line.source} -->{label} n{line.target}")
    return lines


def _box(box: Box) -> str:
    summary = box.summary if len(box.summary) <= _LONGEST else box.summary[: _LONGEST - 1].rstrip() + "…"
    title = f"{box.table} [{box.label}]" if box.table and not summary else box.title
    text = "<br/>".join(map(_label, filter(None, (title, summary, *box.notes))))
    start, end = _SHAPES[box.kind]
    return f'    n{box.id}{start}"{text}"{end}'


def _label(text: str) -> str:
    """``text`` inside double quotes, which Mermaid reads as HTML: by name, as ``#35;`` is Mermaid's own way to write a
    character, and is not read back wherever Mermaid is."""
    return "".join(_ENTITIES.get(c, c) for c in text)


def _plain(text: str) -> str:
    return "".join(c if c.isalnum() or c in " .,-_/" else " " for c in text).strip() or "Plan"
