"""The edits of one plan carried over to another that was compiled from newer SQL: a three-way merge.

``base`` is the plan as it was compiled, ``ours`` the same with somebody's edits, ``theirs`` what the new SQL compiles
to. What differs between base and ours is an edit, whatever it is: a TTL, an option of a table, a suppressed lint rule.
Each is made in theirs at the operator's counterpart, unless theirs has another value there than base: then the edit
conflicts, and somebody has to decide. An edit of an operator that has no counterpart, or more than one that could be
it, is lost.

Error codes: PLAN150 to PLAN154.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

from stateplan.common.errors import Place, PlanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.execnodes.node_ttls import compiled_ttls
from stateplan.execnodes.nodes.base import ExecNode, entries_of
from stateplan.plans.document import PlanDocument
from stateplan.plans.jsontext import SourceMap, join_pointer
from stateplan.plans.rebase.edits import ABSENT, Path, Values, compiled_values, find, label, means_same, text, values
from stateplan.plans.rebase.matching import By, Partner, edited_partners, partners
from stateplan.plans.text_splices import Splice, apply_splices, member_splice, removal_splice

Status = Literal["carried", "already", "conflict", "lost"]
"""Of an edit: it is made in the new plan; the new plan has the value already; the new plan has a third value; there is
nowhere to make it."""

Side = Literal["ours", "theirs"]
"""Whose value wins where an edit conflicts."""


@dataclass(frozen=True)
class Edit:
    """One edit and what became of it.

    Attributes:
        status: see :data:`Status`.
        operator: title and id of the edited operator.
        field: what was edited, in words.
        base, ours, theirs: the three values as text; ``theirs`` is None when the edit is lost.
        place: the place of the value in the edited plan.
        theirs_place: of the value in the new plan, where that has it.
        counterpart: title and id of the operator in the new plan.
        by: how the counterpart was found.
        origin: the origin of the new plan's TTL: hint, option or default; None if it does not say.
        reason: why it is lost, or how a conflict was resolved.
    """

    status: Status
    operator: str
    field: str
    base: str
    ours: str
    theirs: str | None
    place: Place
    theirs_place: Place | None = None
    counterpart: str | None = None
    by: By | None = None
    origin: str | None = None
    reason: str = ""


class _Change(NamedTuple):
    """A value to be put into the new plan."""

    node: ExecNode
    path: Path
    value: Any


@dataclass(frozen=True)
class Rebase:
    """The new plan with the edits.

    Attributes:
        document: the new plan with the edits that are carried over; where one conflicts, the new plan's own value.
        edits: all edits, in the order of the edited plan.
        notes: what could not be looked at.
    """

    document: PlanDocument
    edits: tuple[Edit, ...]
    notes: tuple[str, ...] = ()

    def having(self, status: Status) -> tuple[Edit, ...]:
        """The edits with a status."""
        return tuple(edit for edit in self.edits if edit.status == status)

    @property
    def conflicts(self) -> tuple[Edit, ...]:
        """Edits that somebody has to decide about."""
        return self.having("conflict")


def rebase(base: PlanDocument | None, ours: PlanDocument, theirs: PlanDocument, conflict: Side | None = None) -> Rebase:
    """Carries the edits of a plan over to one that was compiled anew.

    Args:
        base: the plan as it was compiled; None when ``ours`` says itself what the compiler wrote, as it does of TTLs.
        ours: the edited plan.
        theirs: the plan compiled anew.
        conflict: whose value is taken where an edit conflicts; without it such an edit stays a conflict.

    Returns:
        The merged plan, with every edit.

    Raises:
        PlanError: PLAN150 (``base`` and ``ours`` are different plans), PLAN151 (there is no ``base``, and ``ours`` does
            not say what was compiled), PLAN152 (with the edits the new plan would not be valid).
    """
    merge = _Merge(base, ours, theirs, conflict)
    edits = tuple(merge.edits())
    return Rebase(merge.merge(), edits, tuple(merge.notes))


class _Member(NamedTuple):
    """A key of the object at ``pointer`` and its new value; ABSENT takes it out.

    ``order`` are the keys of such an object as Flink writes them: a key that is not there yet is put among them.
    """

    pointer: str
    key: str
    value: Any
    order: tuple[str, ...] = ()


def _splice(source: SourceMap, member: _Member) -> Splice:
    if member.value is ABSENT:
        return removal_splice(source, member.pointer, member.key)
    return member_splice(source, member.pointer, member.key, member.value, member.order)


def _batches(members: Iterable[_Member]) -> Iterator[list[_Member]]:
    """The members in as few passes as it takes, in each pass one of a node: those of different nodes never overlap."""
    members_by_node: dict[str, list[_Member]] = defaultdict(list)
    for member in members:
        members_by_node["/".join(member.pointer.split("/", 3)[:3])].append(member)
    for batch in zip_longest(*members_by_node.values()):
        yield [member for member in batch if member is not None]


def _with_members(document: PlanDocument, members: Iterable[_Member]) -> PlanDocument:
    """The plan with other values of some keys, one after the other; every other byte stays.

    Raises:
        PlanError: when what comes out is not a valid plan.
    """
    text = document.text
    for batch in _batches(members):
        source = SourceMap(text)
        text = apply_splices(text, [_splice(source, member) for member in batch])
    return document.with_text(text)


class _Merge:
    def __init__(
        self, base: PlanDocument | None, ours: PlanDocument, theirs: PlanDocument, conflict: Side | None
    ) -> None:
        self.base, self.ours, self.theirs, self.conflict = base, ours, theirs, conflict
        self.notes: list[str] = []
        self.changes: list[_Change] = []
        self.drafts: dict[int, dict[str, Any]] = {}
        """What the changed nodes of the new plan look like so far, by id."""
        self.origins = edited_partners(base, ours) if base is not None else {}
        self._check()
        self.partners = partners(base if base is not None else ours, theirs)

    def _check(self) -> None:
        nodes = self.ours.graph.nodes
        if self.base is None:
            if any(n.states and not compiled_ttls(n) for n in nodes):
                raise PlanError("PLAN151", place=self.ours.place(""))
            self.notes.append("without --base, only edits of states and suppressions are known")
        elif 2 * len(self.origins) < len(nodes):
            raise PlanError("PLAN150", found=len(self.origins), nodes=nodes, place=self.ours.place("/nodes"))

    # what was edited

    def edits(self) -> Iterator[Edit]:
        """Every edit, judged; what is to be done to the new plan is recorded in ``changes``."""
        for node in self.ours.graph.nodes:
            source = self._origin(node)
            if source is None:
                yield self._node_edit(self.ours, node, "the operator", "nothing", "there", "it was added by hand")
                continue
            if self.base is not None and node == source:
                continue
            before, after = self._values(source), values(node)
            if not node.states and not source.states:  # the TTL is that of the configuration, and edited there
                before, after = ({k: v for k, v in side.items() if k != "state"} for side in (before, after))
            for path, was, now in find(before, after):
                yield self._judged(node, path, was, now, self.partners.get(source.id))
        if self.base is not None:
            partner_ids = {partner.node.id for partner in self.origins.values()}
            for node in self.base.graph.nodes:
                if node.id not in partner_ids:
                    yield self._node_edit(self.base, node, "the operator", "there", "nothing", "it was removed by hand")

    def _origin(self, node: ExecNode) -> ExecNode | None:
        """The node that was edited, whose counterpart is looked for; itself where there is no base."""
        if self.base is None:
            return node
        origin = self.origins.get(node.id)
        return None if origin is None else origin.node

    def _values(self, source: ExecNode) -> Values:
        """A node as it was compiled."""
        return compiled_values(source) if self.base is None else values(source)

    def _node_edit(self, document: PlanDocument, node: ExecNode, field: str, base: str, ours: str, reason: str) -> Edit:
        place = document.place(document.graph.pointer(node))
        return Edit("lost", _name(node), field, base, ours, None, place, reason=reason)

    # what becomes of it

    def _judged(self, node: ExecNode, path: Path, base: Any, ours: Any, partner: Partner | None) -> Edit:
        edit = Edit(
            "lost",
            _name(node),
            label(path, node),
            text(base, path),
            text(ours, path),
            None,
            self._place(self.ours, node, path),
        )
        if partner is None:
            return replace(edit, reason=self._why_lost(node))
        place = self._place(self.theirs, partner.node, path)
        edit = replace(edit, counterpart=_name(partner.node), by=partner.by, theirs_place=place)
        theirs = _value(values(partner.node), path)
        if path[0] == "state" and path[2:] != ("ttl",) and not partner.node.states:
            theirs = _NOWHERE
        if theirs is _NOWHERE:
            if base is not ABSENT or path[0] == "state":
                return replace(edit, reason=f"{edit.counterpart} of the new plan has no {edit.field}")
            theirs = ABSENT
        edit = replace(edit, theirs=text(theirs, path), origin=_origin(partner.node, path))
        if means_same(theirs, ours, path):
            return replace(edit, status="already")
        if means_same(theirs, base, path):
            self.changes.append(_Change(partner.node, path, ours))
            return replace(edit, status="carried")
        if self.conflict == "ours":
            self.changes.append(_Change(partner.node, path, ours))
            return replace(edit, status="carried", reason=f"instead of {edit.theirs}, as requested")
        if self.conflict == "theirs":
            return replace(edit, status="already", reason=f"{edit.theirs} is kept, as requested")
        return replace(edit, status="conflict")

    def _place(self, document: PlanDocument, node: ExecNode, path: Path) -> Place:
        own_path = self._state_path(node, path) if path[0] == "state" else path
        return document.place(document.graph.pointer(node) + join_pointer(own_path))

    @staticmethod
    def _state_path(node: ExecNode, path: Path) -> Path:
        """The path with the position of a state's entry in place of its index."""
        position = next((p for p, entry in enumerate(entries_of(node)) if str(entry.index) == path[1]), None)
        return ("state",) if position is None else ("state", str(position), *path[2:])

    def _why_lost(self, node: ExecNode) -> str:
        partner_ids = {partner.node.id for partner in self.partners.values()}
        others = [n for n in self.theirs.graph.nodes if n.name == node.name and n.id not in partner_ids]
        if not others:
            return f"the new plan has no matching {node.title}"
        ids = ", ".join(str(n.id) for n in others[:8]) + (", ..." if len(others) > 8 else "")
        return f"several operators {node.title} of the new plan match: {ids}"

    # the new plan

    def merge(self) -> PlanDocument:
        """The new plan with the changes in its text; every other byte of it stays.

        Raises:
            PlanError: PLAN152, when that is not a valid plan.
        """
        document = self.theirs
        try:
            document = _with_members(document, (member for c in self.changes for member in self._members(c)))
            for change in self.changes:
                if change.path[0] == "state" and change.path[2:] == ("ttl",) and not change.node.states:
                    document = document.set_ttl(change.node.id, int(change.path[1]), change.value)
        except PlanError as error:
            raise PlanError(
                "PLAN152", problem=error.message, place=error.place, expected=error.expected, hint=error.hint
            ) from error
        return document

    def _members(self, change: _Change) -> Iterator[_Member]:
        """The keys to set in the text for one change."""
        at = self.theirs.graph.pointer(change.node)
        if change.path[0] == "state":
            if change.node.states:
                path = self._state_path(change.node, change.path)
                yield _Member(at + join_pointer(path[:-1]), path[-1], change.value)
            return
        draft: Any = self.drafts.setdefault(change.node.id, copy.deepcopy(change.node.to_json()))
        *way, last = change.path
        depth = 0
        while depth < len(way) and isinstance(draft.get(way[depth]), dict):
            draft = draft[way[depth]]
            depth += 1
        value, key = change.value, change.path[depth]
        if value is not ABSENT:
            for name in reversed(change.path[depth + 1 :]):
                value = {name: value}
            draft[key] = value
        elif depth < len(way) or draft.pop(last, ABSENT) is ABSENT:
            return
        order = () if depth else tuple(name for _, name, _, _ in change.node.layout())
        yield _Member(at + join_pointer(change.path[:depth]), key, value, order)


_NOWHERE: Any = object()


def _value(data: Values, path: Path) -> Any:
    """The value at a path; ABSENT when only its last key is missing, _NOWHERE when there is no object to hold it."""
    value: Any = data
    for depth, key in enumerate(path):
        if not isinstance(value, dict):
            return _NOWHERE
        if key not in value:
            return ABSENT if depth == len(path) - 1 else _NOWHERE
        value = value[key]
    return value


def _origin(node: ExecNode, path: Path) -> str | None:
    """Where the compiler had the TTL at ``path`` from, unless it has been edited since."""
    compiled_entries = compiled_ttls(node)
    if path[0] != "state" or path[2:] != ("ttl",) or int(path[1]) >= len(compiled_entries):
        return None
    index = int(path[1])
    return compiled_entries[index].origin if node.ttls()[index] == compiled_entries[index].ttl else None


def _name(node: ExecNode) -> str:
    return f"{node.id} ({node.title})"
