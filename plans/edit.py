"""Edits of the TTLs in a plan: several at once, all or none, and what they change.

Error codes: PLAN106, PLAN107.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stateplan.common.errors import Place, PlanError
from stateplan.common.files import safe_url
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import in_columns
from stateplan.common.ttl import format_ttl
from stateplan.execnodes.node_ttls import ttl_home
from stateplan.execnodes.nodes.base import STATE_TTL
from stateplan.plans import storage
from stateplan.plans.document import PlanDocument, TtlGiven, given_ttl, ttl_text
from stateplan.plans.selector_text import Assignment, parse_selector
from stateplan.plans.selectors import Selectors
from stateplan.plans.states import StateView
from stateplan.plans.text_splices import Splice, apply_splices, unified_diff


@dataclass(frozen=True)
class Change:
    """What happens to one state.

    Attributes:
        state: the state before, with its TTL and who said so.
        label: a selector for it by the id of its operator, such as ``join[5].right``.
        ttl: its TTL then, in milliseconds.
        in_plan: whether the plan has a TTL for it already.
        in_request: whether it was named; a state that was not is written down when another one of its operator is, in a
            plan that had no states.
    """

    state: StateView
    label: str
    ttl: int
    in_plan: bool = True
    in_request: bool = True

    @property
    def has_effect(self) -> bool:
        """Whether the file changes: the TTL does, or the plan did not say it."""
        return self.ttl != self.state.ttl or not self.in_plan

    @property
    def text(self) -> str:
        """``1 h -> 1 d``, or ``1 h, unchanged``."""
        old = ttl_text(self.state.ttl)
        if not self.has_effect:
            return f"{old}, unchanged"
        if self.in_plan:
            return f"{old} -> {ttl_text(self.ttl)}"
        new = f"{old} -> {ttl_text(self.ttl)}" if self.ttl != self.state.ttl else old
        return f"{new}, now stored in the plan (before: {self.state.source_text})"

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "state": self.label,
            **self.state.identity,
            "old": format_ttl(self.state.ttl),
            "oldMillis": self.state.ttl,
            "oldSource": self.state.source,
            "new": format_ttl(self.ttl),
            "newMillis": self.ttl,
            "changed": self.has_effect,
        }


@dataclass(frozen=True)
class Edit:
    """An edit that has been worked out and not been made.

    Attributes:
        document: the plan.
        before: its text without the edit.
        changes: what happens to each state, in the order of the plan.
        splices: what changes in the text.
    """

    document: PlanDocument
    before: str
    changes: tuple[Change, ...]
    splices: tuple[Splice, ...]

    def diff(self, old: str | None = None, new: str | None = None) -> str:
        """The change of the file as ``diff -u`` shows it; empty if there is none."""
        name = safe_url(self.document.file or "plan.json")
        return unified_diff(self.before, apply_splices(self.before, self.splices), old or name, new or name)

    def apply(self) -> PlanDocument:
        """Changes the document, and gives it back."""
        return self.document.rewrite(self.splices)


def plan_edit(
    document: PlanDocument,
    assignments: Sequence[Assignment],
    session: Mapping[str, str] | None = None,
) -> Edit:
    """Works out an edit; the document stays as it is.

    Args:
        document: the plan.
        assignments: TTLs for states.
        session: the session's options, for states that neither the plan nor the node gives a TTL.

    Raises:
        PlanError: PLAN101 to PLAN104 for a selector that does not point at one state, PLAN106 for two TTLs of one
            state, with the place of the later selector.
    """
    selectors = Selectors(document, session)
    assignment_of: dict[StateView, Assignment] = {}
    for assignment in assignments:
        for view in selectors.select(assignment.selector):
            earlier = assignment_of.setdefault(view, assignment)
            if earlier.ttl != assignment.ttl:
                raise PlanError(
                    "PLAN106.by_selectors",
                    view=view,
                    ttls=(ttl_text(earlier.ttl), ttl_text(assignment.ttl)),
                    selectors=(earlier.selector, assignment.selector),
                    place=assignment.selector.place,
                )
    silent = {view.node_id for view in assignment_of if not _says_ttl(document, view)}
    changes = []
    for view in selectors.views:
        if view in assignment_of or view.node_id in silent:
            ttl = assignment_of[view].ttl if view in assignment_of else view.ttl
            changes.append(Change(view, selectors.by_id(view), ttl, view.node_id not in silent, view in assignment_of))
    edits = [(change.state.node_id, change.state.index, change.ttl) for change in changes]
    return Edit(document, document.text, tuple(changes), document.ttl_splices(edits, session))


def _says_ttl(document: PlanDocument, view: StateView) -> bool:
    """Whether the plan has a TTL where one would be written for this state."""
    node = document.graph.node(view.node_id)
    return bool(node.states) if ttl_home(node) == "state" else STATE_TTL in (node.configuration or {})


def set_ttls(
    document: PlanDocument, ttls: Mapping[str, TtlGiven], session: Mapping[str, str] | None = None
) -> tuple[Change, ...]:
    """Sets TTLs by selector: ``{"deduplicate": "1 h", "join.right": "7 d"}``; all of them or none.

    Raises:
        PlanError: as :func:`plan_edit`, :func:`parse_selector` and :func:`given_ttl`.
    """
    assignments = [Assignment(parse_selector(selector), given_ttl(ttl)) for selector, ttl in ttls.items()]
    edit = plan_edit(document, assignments, session)
    edit.apply()
    return edit.changes


def write_edited(edit: Edit) -> None:
    """Makes the edit and writes the file the plan came from, whole or not at all.

    Raises:
        PlanError: PLAN107, when the file is not as it was read; others when it cannot be written.
    """
    url = edit.document.file
    if url is None:
        raise AssertionError("the plan came from a file")
    if storage.read_bytes(url) != edit.document.data:
        raise PlanError("PLAN107", shown=safe_url(url), place=Place(file=safe_url(url)))
    edit.apply().write(url, overwrite=True)


def to_text(edit: Edit) -> str:
    """A line per state: ``join[5].right  rightState  1 h -> 1 d``."""
    return in_columns([(change.label, change.state.name, change.text) for change in edit.changes])


def to_json(edit: Edit) -> list[dict[str, Any]]:
    """The changes as JSON-ready data."""
    return [change.to_json() for change in edit.changes]
