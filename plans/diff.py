"""What changed between two plans, and whether the new one may go on with the state the old one wrote.

Operators are matched by uid, computed afresh from what they mean (see :mod:`execnodes.fingerprint`), never by the
uid a file records. Matched operators are then compared field by field, because the uid leaves out what says nothing
about meaning: table options, configuration, flags about the changes sent on. A change is held to touch state
unless a rule here says that it does not:

- An operator with state is incompatible when anything of it changes but its TTL, description and names.
- A change to an operator whose rows reach state changes what that state means; a change behind the last state
  does not.
- The checkpoint also holds how far each source has been read, and counts sources and operators with state by
  position: these must be the same, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from execnodes.graph import ExecGraph
from execnodes.nodes.base import ExecNode
from execnodes.support import joined_names
from plans.changes import Change, Kind, node_changes
from plans.document import PlanDocument

__all__ = ["Change", "Kind", "Operator", "OperatorDiff", "PlanDiff", "Verdict", "compare", "to_json", "to_text"]

Verdict = Literal["identical", "ttl-only", "stateless", "incompatible"]
"""Of a plan or an operator, from harmless to not.

``identical``: nothing changed that does anything. ``ttl-only``: TTLs changed, and what hangs on them. ``stateless``:
something changed on which no state depends (TTLs may have changed too). ``incompatible``: the state cannot be used.
"""

_RANK: Mapping[Verdict, int] = {"identical": 0, "ttl-only": 1, "stateless": 2, "incompatible": 3}


@dataclass(frozen=True)
class Operator:
    """An operator of one of the plans."""

    id: int
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.name}[{self.id}]"


@dataclass(frozen=True)
class OperatorDiff:
    """An operator in both plans.

    Attributes:
        verdict: what the changes mean for state.
        old, new: the operator in each plan; None where it is not.
        stateful: whether it keeps state.
        changes: its fields that differ.
        reasons: why it is incompatible, for people; empty when it is not.
    """

    verdict: Verdict
    old: Operator | None
    new: Operator | None
    stateful: bool
    changes: tuple[Change, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """``join[5]``, or ``join[5 -> 7]`` where the id changed."""
        if self.old and self.new and self.old.id != self.new.id and self.old.name == self.new.name:
            return f"{self.new.name}[{self.old.id} -> {self.new.id}]"
        return str(self.new or self.old)


@dataclass(frozen=True)
class PlanDiff:
    """Two plans compared.

    Attributes:
        verdict: the worst of the operators, and of what is wrong between them.
        operators: those of the new plan in its order, then those that are gone.
        reasons: why the plans as a whole are incompatible, beside the operators' own reasons.
        notes: differences that do nothing.
    """

    verdict: Verdict
    operators: tuple[OperatorDiff, ...]
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def may_restart(self) -> bool:
        """Whether the new plan may run on the old one's checkpoint."""
        return self.verdict != "incompatible"

    @property
    def all_reasons(self) -> tuple[str, ...]:
        """Every reason against a restart, those of operators with the operator's name; empty when there is none."""
        own = tuple(f"{o.title}: {reason}" for o in self.operators for reason in o.reasons)
        return (*self.reasons, *own)

    @property
    def ttl_changes(self) -> tuple[tuple[OperatorDiff, Change], ...]:
        """The TTLs that differ."""
        return tuple((o, c) for o in self.operators for c in o.changes if c.kind == "ttl")


def compare(old: PlanDocument, new: PlanDocument) -> PlanDiff:
    """Compares the plan that wrote a checkpoint with the one that would go on from it.

    Args:
        old: the plan in the checkpoint.
        new: the plan to run.
    """
    return _Comparison(old, new).run()


class _Side:
    """One plan: operators, where rows go on to state, and the JSON to compare."""

    def __init__(self, document: PlanDocument) -> None:
        self.document = document
        self.graph: ExecGraph = document.graph
        self.uids = document.uids
        self.by_uid = {uid: self.graph.node(node_id) for node_id, uid in self.uids.items()}
        self.stateful = {n.id for n in self.graph.nodes if n.keeps_state}
        self.feeds_state: set[int] = set()
        for node in reversed(self.graph.nodes):
            readers = self.graph.consumers(node)
            if any(r.id in self.stateful or r.id in self.feeds_state for r in readers):
                self.feeds_state.add(node.id)

    def operator(self, node: ExecNode) -> Operator:
        return Operator(node.id, node.title, self.uids[node.id])

    def counted(self) -> tuple[tuple[str, list[ExecNode]], ...]:
        """What Spark counts by position, in order."""
        return (
            ("operators with state", [n for n in self.graph.nodes if n.id in self.stateful]),
            ("sources", [n for n in self.graph.nodes if not self.graph.inputs(n)]),
        )

    def behind(self, node: ExecNode) -> str:
        """The operators with state that rows of ``node`` reach without passing another one, as text."""
        found: dict[int, ExecNode] = {}
        seen, stack = {node.id}, [node]
        while stack:
            for reader in self.graph.consumers(stack.pop()):
                if reader.id in self.stateful:
                    found[reader.id] = reader
                elif reader.id not in seen:
                    seen.add(reader.id)
                    stack.append(reader)
        return " and ".join(str(self.operator(found[i])) for i in sorted(found))


class _Comparison:
    def __init__(self, old: PlanDocument, new: PlanDocument) -> None:
        self.old, self.new = _Side(old), _Side(new)
        self.partners: dict[int, ExecNode] = {}  # new id -> old node
        self.matched: set[int] = set()  # new ids matched by uid
        self.notes: list[str] = []
        self.reasons: list[str] = []

    def run(self) -> PlanDiff:
        self.match()
        diffs = {node.id: self.compare_operator(node) for node in self.new.graph.nodes}
        taken = {node.id for node in self.partners.values()}
        gone = [self.gone(node) for node in self.old.graph.nodes if node.id not in taken]
        self.compare_order()
        self.compare_plans()
        operators = (*diffs.values(), *gone)
        verdict: Verdict = "incompatible" if self.reasons else "identical"
        for diff in operators:
            if _RANK[diff.verdict] > _RANK[verdict]:
                verdict = diff.verdict
        return PlanDiff(verdict, operators, tuple(self.reasons), tuple(self.notes))

    def match(self) -> None:
        """Pairs operators by uid; those left over by what they most likely were, to have something to say."""
        for uid, node in self.new.by_uid.items():
            if uid in self.old.by_uid:
                self.partners[node.id] = self.old.by_uid[uid]
                self.matched.add(node.id)
        taken = {node.id for node in self.partners.values()}
        for same in (_same_table, _same_id, _same_type):
            for node in self.new.graph.nodes:
                if node.id in self.partners:
                    continue
                partner = next((o for o in self.old.graph.nodes if o.id not in taken and same(o, node)), None)
                if partner is not None:
                    self.partners[node.id] = partner
                    taken.add(partner.id)

    def compare_operator(self, node: ExecNode) -> OperatorDiff:
        new, old = self.new.operator(node), self.partners.get(node.id)
        stateful = node.id in self.new.stateful or (old is not None and old.id in self.old.stateful)
        if old is None:
            return self.added(node, new, stateful)
        changes = tuple(self.changes(old, node))
        hard = [c for c in changes if c.kind == "other"]
        reasons: list[str] = []
        if stateful:
            reasons += [str(c) for c in hard]
            if node.id not in self.matched and not hard:
                reasons.append(f"what it reads has changed: {self.cause(node)}")
        elif node.id in self.new.feeds_state and (hard or self.rewired(node, old)):
            what = "; ".join(map(str, hard)) or "it has other inputs"
            reasons.append(f"{what} (it feeds the state of {self.new.behind(node)})")
        if not reasons and not self.new.graph.inputs(node):
            moved = [c for c in hard if c.moves_source]
            reasons += [f"{c} (the checkpoint holds how far this source has been read)" for c in moved]
        verdict: Verdict = "identical"
        if reasons:
            verdict = "incompatible"
        elif hard or any(c.kind == "tuning" for c in changes) or self.rewired(node, old):
            verdict = "stateless"
        elif any(c.kind == "ttl" for c in changes):
            verdict = "ttl-only"
        return OperatorDiff(verdict, self.old.operator(old), new, stateful, changes, tuple(reasons))

    def changes(self, old: ExecNode, new: ExecNode) -> Iterator[Change]:
        types = self.old.graph.input_types(old), self.new.graph.input_types(new)
        return node_changes(old, new, (joined_names(types[0]), joined_names(types[1])))

    def rewired(self, node: ExecNode, old: ExecNode) -> bool:
        """Whether the operators in front are others than those of the partner."""
        now = [self.partners.get(n.id) for n in self.new.graph.inputs(node)]
        return [n.id if n else None for n in now] != [n.id for n in self.old.graph.inputs(old)]

    def cause(self, node: ExecNode) -> str:
        """The nearest operators in front of ``node`` that are not what they were."""
        found: dict[int, str] = {}
        seen, stack = set[int](), list(self.new.graph.inputs(node))
        while stack:
            current = stack.pop()
            if current.id in seen or current.id in self.matched:
                continue
            seen.add(current.id)
            old = self.partners.get(current.id)
            own = [c for c in self.changes(old, current) if c.kind == "other"] if old else []
            if old is None:
                found[current.id] = f"{self.new.operator(current)} is new"
            elif own:
                found[current.id] = f"{self.new.operator(current)} {own[0]}"
            else:
                stack.extend(self.new.graph.inputs(current))
        return "; ".join(found[i] for i in sorted(found)) or "its inputs are others"

    def added(self, node: ExecNode, new: Operator, stateful: bool) -> OperatorDiff:
        reasons = []
        if stateful:
            reasons.append("it is new and keeps state, of which the checkpoint has none")
        elif not self.new.graph.inputs(node):
            reasons.append("it is a new source, of which the checkpoint does not know how far it has been read")
        elif node.id in self.new.feeds_state:
            reasons.append(f"it is new and feeds the state of {self.new.behind(node)}")
        return OperatorDiff("incompatible" if reasons else "stateless", None, new, stateful, (), tuple(reasons))

    def gone(self, node: ExecNode) -> OperatorDiff:
        reasons = []
        stateful = node.id in self.old.stateful
        if stateful:
            reasons.append("it is gone, and the checkpoint has its state")
        elif not self.old.graph.inputs(node):
            reasons.append("this source is gone, and the checkpoint holds how far it has been read")
        elif node.id in self.old.feeds_state:
            reasons.append(f"it is gone, and has fed the state of {self.old.behind(node)}")
        verdict: Verdict = "incompatible" if reasons else "stateless"
        return OperatorDiff(verdict, self.old.operator(node), None, stateful, (), tuple(reasons))

    def compare_order(self) -> None:
        """Those Spark counts by position must come in the same order."""
        for (what, was), (_, now) in zip(self.old.counted(), self.new.counted(), strict=True):
            partners = [self.partners[n.id].id for n in now if n.id in self.partners]
            order = [n.id for n in was if n.id in partners]
            if order != [i for i in partners if i in order]:
                before, after = (
                    ", ".join(str(side.operator(n)) for n in nodes)
                    for side, nodes in ((self.old, was), (self.new, now))
                )
                self.reasons.append(f"the {what} come in another order: {before} -> {after}")

    def compare_plans(self) -> None:
        versions = [side.graph.flink_version for side in (self.old, self.new)]
        if versions[0] != versions[1]:
            self.notes.append(f"flinkVersion: {versions[0]} -> {versions[1]}")
        renamed = sum(1 for i in self.matched if self.partners[i].id != i)
        if renamed:
            self.notes.append(f"{renamed} {'operator has another id' if renamed == 1 else 'operators have other ids'}")
        statements = [side.document.facts.sql_hash if side.document.facts else None for side in (self.old, self.new)]
        if None not in statements and statements[0] != statements[1]:
            self.notes.append("the recorded SQL differs")


def _table(node: ExecNode) -> str | None:
    for key in ("scan_table_source", "dynamic_table_sink"):
        spec = getattr(node, key, None)
        if spec is not None:
            return str(spec.table.identifier)
    return None


def _same_table(old: ExecNode, new: ExecNode) -> bool:
    return old.name == new.name and _table(new) is not None and _table(old) == _table(new)


def _same_id(old: ExecNode, new: ExecNode) -> bool:
    return old.name == new.name and old.id == new.id


def _same_type(old: ExecNode, new: ExecNode) -> bool:
    return old.name == new.name


_SAYS: Mapping[Verdict, str] = {
    "identical": "the plans mean the same",
    "ttl-only": "only TTLs differ; the state is judged by the new ones",
    "stateless": "no state depends on what differs",
    "incompatible": "the new plan cannot go on with the state of the old one",
}


def to_text(diff: PlanDiff) -> str:
    """The comparison as text: the verdict, then what differs."""
    lines = [f"{diff.verdict}: {_SAYS[diff.verdict]}"]
    lines += [f"  {reason}" for reason in diff.reasons]
    for operator in diff.operators:
        if operator.verdict == "identical" and not operator.changes:
            continue
        place = " (new)" if operator.old is None else " (gone)" if operator.new is None else ""
        lines += ["", f"{operator.title}{place}  {operator.verdict}"]
        told = " ".join(operator.reasons)
        lines += [f"  {reason}" for reason in operator.reasons]
        lines += [f"  {change}" for change in operator.changes if str(change) not in told]
    if diff.notes:
        lines += ["", *diff.notes]
    return "\n".join(lines) + "\n"


def to_json(diff: PlanDiff) -> dict[str, Any]:
    """The comparison as JSON-ready data."""
    return {
        "verdict": diff.verdict,
        "mayRestart": diff.may_restart,
        "reasons": list(diff.reasons),
        "notes": list(diff.notes),
        "operators": [
            {
                "verdict": o.verdict,
                "old": o.old and vars(o.old),
                "new": o.new and vars(o.new),
                "stateful": o.stateful,
                "changes": [vars(c) for c in o.changes],
                "reasons": list(o.reasons),
            }
            for o in diff.operators
        ],
    }
