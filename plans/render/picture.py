"""What is drawn of a plan: a box per operator, a line per input, and on the lines how long what they bring is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from stateplan.common.lazy_dataclass import dataclass
from stateplan.plans.show import OperatorView, PlanView
from stateplan.plans.states import StateView

_USUAL = "default_catalog.default_database."
"""Left out in front of the names of tables, which boxes have little room for."""

Mark = Literal["added", "removed", "changed", "converted", "lost"]
"""How an operator has changed: it is new, or gone; it differs; its state is converted, or lost."""

MARKS: Mapping[Mark, tuple[str, str]] = {
    "added": ("#dcf5e3", "#1a7f37"),
    "removed": ("#ffffff", "#8a919e"),
    "changed": ("#e6f0fb", "#1a5fd0"),
    "converted": ("#fff4d6", "#b7791f"),
    "lost": ("#ffe3e0", "#c62828"),
}
"""The colours of boxes with a mark: of the ground and of the frame."""


@dataclass(frozen=True)
class Box:
    """An operator.

    Attributes:
        id: the id of the node.
        title: its name and id.
        summary: what it does.
        notes: the states that cannot be distinguished by input, a line each.
        states: its states, each with its index and what is written of it.
        table: the name of the table that a source or sink stands for; empty for other operators.
        stateful: whether it keeps state.
        kind: ``source``, ``sink`` or ``operator``.
    """

    id: int
    title: str
    summary: str
    notes: tuple[str, ...]
    stateful: bool
    kind: str
    states: tuple[tuple[int, str], ...] = ()
    table: str = ""

    @property
    def label(self) -> str:
        """The id in its title, which that of an operator of another plan has."""
        return self.title.rpartition("[")[2].rstrip("]")


@dataclass(frozen=True)
class Line:
    """An input of an operator: from where to where, the how manieth input it is, and the TTL of what it brings."""

    source: int
    target: int
    position: int
    label: str = ""


@dataclass(frozen=True)
class Picture:
    """Boxes, inputs before those that read them, and lines, in the order of the inputs."""

    title: str
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]


def picture(view: PlanView) -> Picture:
    """What is drawn of ``view``."""
    read = {source for operator in view.operators for source in operator.inputs}
    boxes, lines = [], []
    for operator in view.operators:
        labels, notes = _labels(operator)
        kind = "operator" if operator.inputs and operator.id in read else "sink" if operator.inputs else "source"
        title = f"{operator.name} [{operator.id}]"
        stateful = bool(operator.states) or operator.keeps_state
        texts = tuple((state.index, _short(state, len(operator.states) == 1)) for state in operator.states)
        summary = clean(operator.summary.replace(_USUAL, ""))
        boxes.append(Box(operator.id, clean(title), summary, notes, stateful, kind, texts, clean(operator.table or "")))
        lines += [
            Line(source, operator.id, position, labels[position]) for position, source in enumerate(operator.inputs)
        ]
    return Picture(clean(f"Plan {view.file}" if view.file else "Plan"), tuple(boxes), tuple(lines))


def _labels(operator: OperatorView) -> tuple[list[str], tuple[str, ...]]:
    """The TTL on each input, and the states that are not of one input."""
    states, inputs = operator.states, len(operator.inputs)
    if len(states) == inputs == 1:
        return [_ttl(states[0])], ()
    if len(states) == inputs:
        return [_state_text(state) for state in states], ()
    if inputs == 1:
        return [", ".join(map(_state_text, states))], ()
    return [""] * inputs, tuple(map(_state_text, states))


def _state_text(state: StateView) -> str:
    return f"{clean(state.name).removesuffix('State') or state.index}: {_ttl(state)}"


def _short(state: StateView, alone: bool) -> str:
    """What stands of a state in its operator: ``left: 1 d``, or ``TTL 1 d`` of the only one."""
    if alone:
        return state.ttl_text.replace("ttl", "TTL")
    return _state_text(state).replace("never expires", "never").replace("no ttl", "no TTL")


def _ttl(state: StateView) -> str:
    return state.ttl_text.removeprefix("ttl ")


def clean(text: str) -> str:
    """``text`` on one line, without characters that XML cannot hold or that turn the direction of writing."""
    return " ".join("".join(c if _harmless(ord(c)) else "\ufffd" for c in text).split())


def _harmless(code: int) -> bool:
    if code < 0x20:
        return code in (9, 10, 13)
    turns = 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069
    return not (0x7F <= code <= 0x9F or 0xD800 <= code <= 0xDFFF or code in (0xFFFE, 0xFFFF) or turns)
