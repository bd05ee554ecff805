"""A drawing of what changed: the operators that differ, and those next to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stateplan.common.lazy_dataclass import dataclass
from stateplan.plans.diff import PlanDiff
from stateplan.plans.diff_report import own_changes
from stateplan.plans.document import PlanDocument
from stateplan.plans.render.mermaid import marked_mermaid
from stateplan.plans.render.picture import Box, Line, Mark, Picture, picture
from stateplan.plans.render.svg import picture_svg
from stateplan.plans.show import show
from stateplan.review.comparison import QueryChange
from stateplan.review.review import Review


@dataclass(frozen=True)
class Drawing:
    """A part of a picture.

    Attributes:
        picture: the boxes and lines.
        marks: by box, how it has changed; a box without a mark is only next to one.
        omissions: how many sources, sinks and operators with state are not drawn.
    """

    picture: Picture
    marks: Mapping[int, Mark]
    omissions: int


def drawing(change: QueryChange) -> Drawing | None:
    """What changed in a query; None if no plan has changed."""
    if change.diff is None or change.old is None or change.new is None:
        return None
    old, new = change.old.document, change.new.document
    if old is None or new is None or change.status == "unchanged":
        return None
    marks = _marks(change.diff, new)
    both = _merge(change.diff, old, new)
    return _near(both, marks) if marks else None


def _marks(diff: PlanDiff, new: PlanDocument) -> dict[int, Mark]:
    offset = _offset(new)
    marks: dict[int, Mark] = {}
    for operator in diff.operators:
        if operator.new is None:
            assert operator.old is not None
            marks[offset + operator.old.id] = "removed"
        elif operator.old is None:
            marks[operator.new.id] = "added"
        elif operator.stateful and not operator.harmless:
            marks[operator.new.id] = "lost" if operator.verdict in ("reset", "unknown") else "converted"
        elif operator.new.name != "exchange" and any(change.kind != "words" for change in own_changes(operator)):
            marks[operator.new.id] = "changed"
    return marks


def _offset(new: PlanDocument) -> int:
    """What is added to the ids of operators of the old plan that the new one does not have."""
    return max((node.id for node in new.graph.nodes), default=0) + 1


def _merge(diff: PlanDiff, old: PlanDocument, new: PlanDocument) -> Picture:
    """The new plan with the operators that it no longer has."""
    now, was, offset = picture(show(new)), picture(show(old)), _offset(new)
    places = {
        o.old.id: o.new.id if o.new is not None else offset + o.old.id for o in diff.operators if o.old is not None
    }
    removals = {o.old.id for o in diff.operators if o.new is None and o.old is not None}
    boxes = tuple(replace(box, id=places[box.id]) for box in was.boxes if box.id in removals)
    lines = tuple(
        Line(places[line.source], places[line.target], line.position, line.label)
        for line in was.lines
        if line.source in places and line.target in places and removals & {line.source, line.target}
    )
    return Picture(now.title, (*boxes, *now.boxes), (*now.lines, *lines))


def _near(picture_of_both: Picture, marks: Mapping[int, Mark]) -> Drawing:
    """The boxes with a mark, and the next ones on the ways of the rows. Operators without state and without a mark are
    a part of the line between two boxes."""
    boxes = {box.id: box for box in picture_of_both.boxes}
    inputs: dict[int, list[Line]] = {}
    for line in picture_of_both.lines:
        inputs.setdefault(line.target, []).append(line)

    def is_drawn(box: int) -> bool:
        return box in marks or boxes[box].stateful or boxes[box].kind != "operator"

    def origins(box: int) -> list[int]:
        """The boxes that are drawn from which rows come to a line that begins at a box."""
        if is_drawn(box):
            return [box]
        return [origin for line in inputs.get(box, ()) for origin in origins(line.source)]

    lines = [
        Line(origin, line.target, line.position, line.label)
        for line in picture_of_both.lines
        if is_drawn(line.target)
        for origin in origins(line.source)
    ]
    lines = [line for line in dict.fromkeys(lines) if marks.keys() & {line.source, line.target}]
    near = {*marks, *(line.source for line in lines), *(line.target for line in lines)}
    boxes_near = tuple(box for box in picture_of_both.boxes if box.id in near)
    omissions = sum(is_drawn(box.id) and box.id not in near for box in picture_of_both.boxes)
    return Drawing(Picture(picture_of_both.title, boxes_near, tuple(lines)), marks, omissions)


def to_mermaid(part: Drawing) -> str:
    """The text of a Mermaid flowchart."""
    return marked_mermaid(part.picture, part.marks)


def to_svg(review: Review) -> str:
    """What changed in all queries, one below the other, as an SVG document."""
    boxes: list[Box] = []
    lines: list[Line] = []
    marks: dict[int, Mark] = {}
    for change in review.queries:
        part = drawing(change)
        if part is None:
            continue
        first = max((box.id for box in boxes), default=0) + 1
        boxes += [replace(box, id=box.id + first) for box in part.picture.boxes]
        lines += [Line(x.source + first, x.target + first, x.position, x.label) for x in part.picture.lines]
        marks |= {box + first: mark for box, mark in part.marks.items()}
    return picture_svg(Picture("Review", tuple(boxes), tuple(lines)), marks)
