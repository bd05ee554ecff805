"""What changed between two plans, and whether the new one may go on with the state the old one wrote.

Operators are matched by fingerprint, computed afresh from what they mean (see :mod:`execnodes.fingerprint`), never by
the uid a file records; then by lineage and by similarity (see :mod:`plans.similarity`). State may be used where its
operator means what it meant and is given the same rows as before, as :mod:`plans.lineage` tells; where only its columns
stand elsewhere or fewer of them are needed, it can be rewritten. Everything else is lost, or cannot be told.

The verdicts of all kinds of change are listed in ``docs/plans/plan-diff.md``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from stateplan.common.errors import Place, PlanError
from stateplan.connectors.registry import known_connector
from stateplan.execnodes.fingerprint import fingerprints, readers, uids
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_text import agg_text, joined_names
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.deduplicate import Deduplicate
from stateplan.execnodes.nodes.group_aggregate import GroupAggregate
from stateplan.execnodes.nodes.join import Join
from stateplan.execnodes.nodes.opaque import OpaqueNode, unknown_keys
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.specs import AggCall
from stateplan.plans.changes import SAME_VERSIONS, Change, node_changes
from stateplan.plans.document import PlanDocument
from stateplan.plans.lineage import Lineage, lineage
from stateplan.plans.similarity import match
from stateplan.plans.storage import exists

Verdict = Literal["identical", "ttl-only", "stateless", "rewrite", "reset", "unknown"]
VERDICTS: tuple[Verdict, ...] = ("identical", "ttl-only", "stateless", "rewrite", "reset", "unknown")
"""Of a plan or an operator, from harmless to not.

``identical``: nothing changed that does anything. ``ttl-only``: TTLs changed, and what hangs on them. ``stateless``:
something changed on which no existing state depends (TTLs may have changed too). ``rewrite``: the state has what is
needed, in another layout. ``reset``: the state is lost, the operator starts empty. ``unknown``: it cannot be told.
"""

_HARMLESS: frozenset[Verdict] = frozenset({"identical", "ttl-only", "stateless"})


def severity(verdict: str) -> int:
    """The place of a verdict among :data:`VERDICTS`."""
    return [*map(str, VERDICTS)].index(verdict)


@dataclass(frozen=True)
class Operator:
    """An operator of one of the plans."""

    id: int
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.name}[{self.id}]"


@dataclass(frozen=True)
class StateMove:
    """Where state that has to be rewritten finds what it needs in the old state.

    Attributes:
        fields: per input, for each of its fields the field of the old input that holds it; None for one that is not
            stored.
        calls: for each aggregate call the old one that is the same.
    """

    fields: tuple[tuple[int | None, ...], ...]
    calls: tuple[int, ...] = ()


@dataclass(frozen=True)
class OperatorDiff:
    """An operator in one or both plans.

    Attributes:
        verdict: what the changes mean for state.
        old, new: the operator in each plan; None where it is not.
        stateful: whether it keeps state.
        changes: its fields that differ.
        reasons: what led to the verdict, for people; empty for identical operators and mere TTLs.
        move: how its state is rewritten, with the verdict ``rewrite``.
        moved: of a source, the changes after which its position in the old plan means nothing in the new one.
    """

    verdict: Verdict
    old: Operator | None
    new: Operator | None
    stateful: bool
    changes: tuple[Change, ...] = ()
    reasons: tuple[str, ...] = ()
    move: StateMove | None = None
    moved: tuple[Change, ...] = ()

    @property
    def title(self) -> str:
        """``join[5]``, or ``join[5 -> 7]`` where the id changed."""
        if self.old and self.new and self.old.id != self.new.id and self.old.name == self.new.name:
            return f"{self.new.name}[{self.old.id} -> {self.new.id}]"
        return str(self.new or self.old)

    @property
    def harmless(self) -> bool:
        """Whether existing state can be used as it is."""
        return self.verdict in _HARMLESS


@dataclass(frozen=True)
class PlanDiff:
    """Two plans compared.

    Attributes:
        verdict: the worst of the operators'.
        operators: those of the new plan in its order, then those that are gone.
        notes: differences that do nothing.
    """

    verdict: Verdict
    operators: tuple[OperatorDiff, ...]
    notes: tuple[str, ...] = ()

    @property
    def may_restart(self) -> bool:
        """Whether the new plan may run on the old one's checkpoint without anybody being asked."""
        return self.verdict in _HARMLESS

    @property
    def all_reasons(self) -> tuple[str, ...]:
        """Every reason against a restart, with the operator's name; empty when there is none."""
        return tuple(f"{o.title}: {reason}" for o in self.operators if not o.harmless for reason in o.reasons)

    @property
    def ttl_changes(self) -> tuple[tuple[OperatorDiff, Change], ...]:
        """The TTLs that differ."""
        return tuple((o, c) for o in self.operators for c in o.changes if c.kind == "ttl")


def load_side(path: str) -> PlanDocument:
    """The plan in a file, at a URL, or of the job that wrote a checkpoint directory.

    Raises:
        PlanError: PLAN120, a directory that holds no plan; what :meth:`PlanDocument.load` raises.
    """
    try:
        return PlanDocument.load(path)
    except PlanError as error:
        if error.code != "PLAN003" or not exists(path):
            raise
    inside = f"{path.rstrip('/')}/plan.json"
    if not exists(inside):
        raise PlanError("PLAN120", place=Place(file=path))
    return PlanDocument.load(inside)


def compare(old: PlanDocument, new: PlanDocument) -> PlanDiff:
    """Compares the plan that wrote a checkpoint with the one that would go on from it.

    Args:
        old: the plan in the checkpoint.
        new: the plan to run.
    """
    return _Comparison(_Side(old), _Side(new)).run()


class _Side:
    """One plan: its operators, what they mean and which of them keep state."""

    def __init__(self, document: PlanDocument) -> None:
        self.document = document
        self.graph: ExecGraph = document.graph
        self.prints = fingerprints(self.graph)
        self.uids = uids(self.graph, self.prints)
        self.lineages = lineage(self.graph)
        self.stateful = {n.id for n in self.graph.nodes if n.keeps_state}

    def operator(self, node: ExecNode) -> Operator:
        return Operator(node.id, node.title, self.uids[node.id])

    def names(self, node: ExecNode) -> tuple[str, ...]:
        """The names of a node's input fields."""
        return tuple(joined_names(self.graph.input_types(node)))

    def names_to_match(self) -> tuple[Mapping[int, Hashable], ...]:
        """Names to match operators by: what they mean; for those of which there are several, with what reads them; and
        two that do not depend on what else a projection passes on: all that an operator emits, what its state means."""
        prints = self.prints
        twins = len(set(prints.values())) < len(prints)
        read = readers(self.graph, prints) if twins else prints
        meanings: dict[int, tuple[str, ...]] = {
            i: (self.graph.node(i).name, x.rows, *x.fields) for i, x in self.lineages.items()
        }
        state: dict[int, tuple[str, ...]] = {
            i: (self.graph.node(i).name, self.lineages[i].state) for i in self.stateful
        }
        return prints, {i: (print_, read[i]) for i, print_ in prints.items()}, meanings, state


class _Comparison:
    def __init__(self, old: _Side, new: _Side) -> None:
        self.old, self.new = old, new
        by = list(zip(old.names_to_match(), new.names_to_match(), strict=True))
        pairs = match(old.graph, new.graph, by, (old.lineages, new.lineages))
        self.partners = {now: old.graph.node(was) for now, was in pairs.items()}
        self._changes: dict[int, tuple[Change, ...]] = {}

    def run(self) -> PlanDiff:
        diffs = [self.compare_operator(node) for node in self.new.graph.nodes]
        partner_ids = {node.id for node in self.partners.values()}
        diffs += [self.gone(node) for node in self.old.graph.nodes if node.id not in partner_ids]
        verdict = max((d.verdict for d in diffs), key=severity, default=VERDICTS[0])
        return PlanDiff(verdict, tuple(diffs), tuple(self.notes()))

    # -- what is the same --------------------------------------------------------------------------------------------

    def changes(self, node: ExecNode) -> tuple[Change, ...]:
        """The fields of an operator of the new plan that differ from its partner's."""
        if node.id not in self._changes:
            old = self.partners[node.id]
            names = self.old.names(old), self.new.names(node)
            self._changes[node.id] = tuple(node_changes(old, node, names))
        return self._changes[node.id]

    def hard(self, node: ExecNode) -> list[Change]:
        """The changes that are more than words, TTLs and tuning; of those that only say that a field of the input
        stands elsewhere now, none."""
        old = self.partners[node.id]
        has_shifts = any(
            a.fields != b.fields for a, b in zip(self.inputs(self.old, old), self.inputs(self.new, node), strict=False)
        )
        return [c for c in self.changes(node) if c.kind == "other" and not (has_shifts and c.is_number)]

    def rewired(self, node: ExecNode) -> bool:
        """Whether the operators in front are others than those of the partner."""
        partners = [self.partners.get(n.id) for n in self.new.graph.inputs(node)]
        return [n.id if n else None for n in partners] != [n.id for n in self.old.graph.inputs(self.partners[node.id])]

    @staticmethod
    def inputs(side: _Side, node: ExecNode) -> list[Lineage]:
        return [side.lineages[n.id] for n in side.graph.inputs(node)]

    # -- operators ---------------------------------------------------------------------------------------------------

    def compare_operator(self, node: ExecNode) -> OperatorDiff:
        new, old = self.new.operator(node), self.partners.get(node.id)
        if old is None:
            return self.added(node, new)
        was_stateful, stateful = old.id in self.old.stateful, node.id in self.new.stateful
        verdict: Verdict
        move: StateMove | None = None
        position_changes: tuple[Change, ...] = ()
        if was_stateful and stateful:
            verdict, reasons, move = self.compare_state(old, node)
        elif stateful:
            verdict, reasons = "reset", ["it is now stateful, and starts with empty state"]
        elif was_stateful:
            verdict, reasons = "reset", ["it is no longer stateful; its state is deleted"]
        elif isinstance(node, TableSourceScan) and isinstance(old, TableSourceScan):
            verdict, reasons = self.compare_source(old, node)
            position_changes = self.moved(old, node)
        else:
            verdict, reasons = "identical", []
        if verdict == "identical":
            verdict, reasons = self.harmless(node, reasons)
        return OperatorDiff(
            verdict,
            self.old.operator(old),
            new,
            was_stateful or stateful,
            self.changes(node),
            tuple(dict.fromkeys(reasons)),
            move,
            position_changes,
        )

    def harmless(self, node: ExecNode, reasons: list[str]) -> tuple[Verdict, list[str]]:
        """The verdict of an operator whose state is not touched."""
        kinds = {c.kind for c in self.changes(node)}
        if "other" in kinds or "tuning" in kinds or self.rewired(node):
            behind = self.touched_behind(node)
            if behind and node.id not in self.new.stateful:
                reasons = [*reasons, f"it has no state; see {behind} for the effect downstream"]
            return "stateless", reasons
        return ("ttl-only" if "ttl" in kinds else "identical"), reasons

    def touched_behind(self, node: ExecNode) -> str:
        """The next operators with state behind ``node``, as text."""
        readers_by_id: dict[int, ExecNode] = {}
        visited_ids, stack = {node.id}, [node]
        while stack:
            for reader in self.new.graph.consumers(stack.pop()):
                if reader.id in self.new.stateful:
                    readers_by_id[reader.id] = reader
                elif reader.id not in visited_ids:
                    visited_ids.add(reader.id)
                    stack.append(reader)
        return " and ".join(str(self.new.operator(readers_by_id[i])) for i in sorted(readers_by_id))

    def compare_source(self, old: TableSourceScan, new: TableSourceScan) -> tuple[Verdict, list[str]]:
        tables = old.scan_table_source.table, new.scan_table_source.table
        has_options = [bool(t.resolved_table and t.resolved_table.options is not None) for t in tables]
        if has_options[0] != has_options[1]:
            age = "old" if has_options[1] else "new"
            return "unknown", [f"the {age} plan does not contain the options of {tables[0].summary}: {_NOT_TOLD}"]
        position_changes = self.moved(old, new)
        if all(c.field == "table.identifier" for c in position_changes) and self._same_data(old, new):
            return "identical", ["the table was renamed; its options are the same"] if position_changes else []
        if position_changes:
            return "reset", [f"{c}: its offsets belong to the old value" for c in position_changes]
        return "identical", []

    def moved(self, old: TableSourceScan, new: TableSourceScan) -> tuple[Change, ...]:
        """The changes of a source after which its positions mean something else."""
        was, now = _position(old), _position(new)
        return tuple(
            c
            for c in self.changes(new)
            if c.moves_source and (c.option is None or was.get(c.option) != now.get(c.option))
        )

    def _same_data(self, old: ExecNode, new: ExecNode) -> bool:
        """Whether two sources read the same data, as far as their options tell: fields that both have are equal."""
        fields = self.old.lineages[old.id].fields, self.new.lineages[new.id].fields
        return self.old.lineages[old.id].rows == self.new.lineages[new.id].rows or bool(set(fields[0]) & set(fields[1]))

    def compare_state(self, old: ExecNode, new: ExecNode) -> tuple[Verdict, list[str], StateMove | None]:
        """What becomes of the state of an operator that had state and has it still."""
        was, now = self.old.lineages[old.id], self.new.lineages[new.id]
        changes = self.changes(new)
        version = next((c for c in changes if c.pointer == "/type/version" and new.title not in SAME_VERSIONS), None)
        if version is not None:
            return "unknown", [f"version of the operator {version.before} -> {version.after}: {_NOT_TOLD}"], None
        states = [str(c) for c in changes if c.pointer.startswith("/state/") and c.kind == "other"]
        if states:
            return "unknown", [f"{s}: {_NOT_TOLD}" for s in states], None
        if was.state == now.state:
            old_inputs, new_inputs = self.inputs(self.old, old), self.inputs(self.new, new)
            if isinstance(new, GroupAggregate) and isinstance(old, GroupAggregate):
                return self.compare_calls(old, new, old_inputs[0], new_inputs[0])
            return self.compare_fields(old, new, old_inputs, new_inputs)
        hard = [c for c in self.hard(new) if not c.pointer.startswith("/outputType/")]
        if (isinstance(new, OpaqueNode) or unknown_keys(old) or unknown_keys(new)) and hard:
            reason = f"{hard[0]}: the effect on the state of {new.title} is unknown"
            return "unknown", [reason], None
        causes, has_unknown = self.causes(new)
        reasons = [str(c) for c in hard] + [f"its input changed: {c}" for c in causes]
        inputs = zip(self.inputs(self.old, old), self.inputs(self.new, new), strict=False)
        if not hard and all(b.rows == a.rows for b, a in inputs):
            words = old.describe(self.old.graph.input_types(old)), new.describe(self.new.graph.input_types(new))
            if words[0] != words[1]:
                reasons.insert(0, f"its keys or values changed: {words[0]} -> {words[1]}")
        if has_unknown:
            return "unknown", reasons, None
        return "reset", reasons or ["its input changed"], None

    def compare_calls(
        self, old: GroupAggregate, new: GroupAggregate, old_input: Lineage, new_input: Lineage
    ) -> tuple[Verdict, list[str], StateMove | None]:
        """An aggregate of the same groups over the same rows."""
        was, now = self.old.lineages[old.id].calls, self.new.lineages[new.id].calls
        names = self.old.names(old), self.new.names(new)
        fresh = [agg_text(c, names[1]) for c, h in zip(new.agg_calls, now, strict=True) if h not in was]
        if fresh:
            return "reset", [f"{', '.join(fresh)} would not have seen the earlier rows"], None
        simple = all(_is_simple(c, r) for n in (old, new) for c, r in _calls(n))
        arguments = [[(c.arg_list, c.filter_arg) for c in n.agg_calls] for n in (old, new)]
        if was == now and old.grouping == new.grouping and (simple or arguments[0] == arguments[1]):
            return "identical", [], None
        if not simple:
            reason_to_reset = (
                "its state holds single values (DISTINCT, MIN or MAX over updates), which cannot be rewritten"
            )
            return "reset", [reason_to_reset], None
        calls = tuple(_place(was, h, i) for i, h in enumerate(now))
        removed_calls = [agg_text(c, names[0]) for c, h in zip(old.agg_calls, was, strict=True) if h not in now]
        fields = (_place(old_input.fields, h, i) if i in new.grouping else None for i, h in enumerate(new_input.fields))
        reason = f"{', '.join(removed_calls)} is no longer kept" if removed_calls else "its columns are reordered"
        return "rewrite", [reason], StateMove((tuple(fields),), calls)

    def compare_fields(
        self, old: ExecNode, new: ExecNode, old_inputs: Sequence[Lineage], new_inputs: Sequence[Lineage]
    ) -> tuple[Verdict, list[str], StateMove | None]:
        """An operator that stores fields of its input, of the same rows as before."""
        moves: list[tuple[int | None, ...]] = []
        lost_fields: list[str] = []
        types = self.old.graph.input_types(old), self.new.graph.input_types(new)
        keys = _only_keys(new)
        for side, (b, a) in enumerate(zip(old_inputs, new_inputs, strict=True)):
            needed_fields = range(len(a.fields)) if keys is None else keys
            missing_names = [types[1][side].fields[i].name for i in needed_fields if a.fields[i] not in b.fields]
            if missing_names:
                return "reset", [f"earlier rows in state lack {', '.join(missing_names)}"], None
            moves.append(tuple(_place(b.fields, h, i) if i in needed_fields else None for i, h in enumerate(a.fields)))
            if keys is None:
                lost_fields += [types[0][side].fields[i].name for i, h in enumerate(b.fields) if h not in a.fields]
        if not lost_fields and all(j is None or i == j for move in moves for i, j in enumerate(move)):
            return "identical", [], None
        if not new.STORES_FIELDS or any(not t.fields for t in types[1]):
            return "reset", [f"the fields of its rows moved, and state of {new.title} cannot be rewritten"], None
        if isinstance(new, Join) and lost_fields and _counts_equal_rows(new):
            return (
                "reset",
                [f"{', '.join(lost_fields)} was removed, and equal rows are kept as one row with a count"],
                None,
            )
        reason = f"{', '.join(lost_fields)} is no longer kept" if lost_fields else "its columns are reordered"
        return "rewrite", [reason], StateMove(tuple(moves))

    def causes(self, node: ExecNode) -> tuple[list[str], bool]:
        """The nearest operators in front of ``node`` that are not what they were, and whether one cannot be judged."""
        cause_by_id: dict[int, str] = {}
        fields: dict[int, str] = {}
        has_unknown = False
        visited_ids, stack = set[int](), list(self.new.graph.inputs(node))
        while stack:
            current = stack.pop()
            if current.id in visited_ids:
                continue
            visited_ids.add(current.id)
            old = self.partners.get(current.id)
            if old is None:
                cause_by_id[current.id] = f"{self.new.operator(current)} is new"
                continue
            if self.old.lineages[old.id] == self.new.lineages[current.id]:
                continue
            if isinstance(current, TableSourceScan) and isinstance(old, TableSourceScan):
                has_unknown = has_unknown or self.compare_source(old, current)[0] == "unknown"
            elif current.id in self.new.stateful and self.compare_operator(current).verdict == "unknown":
                has_unknown = True
            hard = self.hard(current)
            own = [c for c in hard if not c.pointer.startswith("/outputType/")]
            if own:
                cause_by_id[current.id] = f"{self.new.operator(current)} {own[0]}"
            else:
                if hard:
                    fields[current.id] = f"{self.new.operator(current)} {hard[0]}"
                stack.extend(self.new.graph.inputs(current))
        cause_by_id = cause_by_id or fields
        if not cause_by_id and self.rewired(node):
            cause_by_id[node.id] = "its inputs changed"
        return [cause_by_id[i] for i in sorted(cause_by_id)], has_unknown

    def added(self, node: ExecNode, new: Operator) -> OperatorDiff:
        if node.id in self.new.stateful:
            reason = "it is new; its state starts empty, without the rows read so far"
            return OperatorDiff("reset", None, new, True, (), (reason,))
        if not self.new.graph.inputs(node):
            reason = "it is a new source, without an offset"
            return OperatorDiff("reset", None, new, False, (), (reason,))
        return OperatorDiff("stateless", None, new, False)

    def gone(self, node: ExecNode) -> OperatorDiff:
        old = self.old.operator(node)
        if node.id in self.old.stateful:
            return OperatorDiff("reset", old, None, True, (), ("it was removed; its state is deleted",))
        if not self.old.graph.inputs(node):
            reason = "this source was removed, with its offset"
            return OperatorDiff("reset", old, None, False, (), (reason,))
        return OperatorDiff("stateless", old, None, False)

    def notes(self) -> Iterator[str]:
        versions = [side.graph.flink_version for side in (self.old, self.new)]
        if versions[0] != versions[1]:
            yield f"flinkVersion: {versions[0]} -> {versions[1]}"
        renumbered = sum(1 for now, was in self.partners.items() if was.id != now)
        if renumbered:
            yield f"{renumbered} {'operator has a new id' if renumbered == 1 else 'operators have new ids'}"
        facts = self.old.document.facts, self.new.document.facts
        statements = [f.sql_hash if f else None for f in facts]
        if None not in statements and statements[0] != statements[1]:
            yield "the recorded SQL differs"
        schemas = [f.schema_hashes if f else {} for f in facts]
        for table in sorted(t for t, h in schemas[1].items() if schemas[0].get(t, h) != h):
            yield f"the schema of {table} differs"


def _position(scan: TableSourceScan) -> Mapping[str, str | None]:
    """What says what a position in the table of a scan means, by option."""
    table = scan.scan_table_source.table.resolved_table
    options = {} if table is None or table.options is None else table.options
    connector = known_connector(options)
    position = options if connector is None else connector.position(options)
    return {"connector": options.get("connector"), **position}


_NOT_TOLD = "the compatibility of its state is unknown"

_SIMPLE = frozenset({"COUNT", "SUM", "$SUM0", "AVG", "MIN", "MAX"})
"""Aggregate functions whose state is columns of the group's row."""


def _only_keys(node: ExecNode) -> Sequence[int] | None:
    """The fields that are stored, of an operator that stores no others than its key's; None for all."""
    if isinstance(node, Deduplicate) and not node.keep_last_row and not node.is_rowtime:
        return node.unique_keys
    return None


def _place(fields: Sequence[str], field: str, own_position: int) -> int:
    """Where a field stands, at best at the same place."""
    return own_position if own_position < len(fields) and fields[own_position] == field else fields.index(field)


def _calls(node: GroupAggregate) -> Iterator[tuple[AggCall, bool]]:
    return zip(node.agg_calls, node.agg_call_need_retractions, strict=True)


def _is_simple(call: AggCall, retracts: bool) -> bool:
    return call.function in _SIMPLE and not call.distinct and not (retracts and call.function in ("MIN", "MAX"))


def _counts_equal_rows(node: Join) -> bool:
    """Whether a side of an outer join has no unique key: equal rows are kept once, with their number."""
    outer = node.join_spec.join_type
    left = outer in ("LEFT", "FULL", "SEMI", "ANTI") and not node.left_upsert_keys
    return left or (outer in ("RIGHT", "FULL") and not node.right_upsert_keys)
