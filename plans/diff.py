"""What changed between two plans, and whether the new one may continue with the state the old one wrote.

Operators are matched by fingerprint, computed afresh from what they mean (see :mod:`execnodes.fingerprint`), never by
the uid a file records; then by lineage and by similarity (see :mod:`plans.similarity`). State may be used where its
operator means what it meant and is given the same rows as before, as :mod:`plans.lineage` determines; where only its
columns are elsewhere or fewer of them are needed, it can be rewritten. Everything else is lost, or cannot be
determined.

The verdicts of all kinds of change are listed in ``docs/plans/plan-diff.md``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from stateplan.common.errors import Place, PlanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.history import BACKFILL
from stateplan.connectors.registry import known_connector
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.join import Join
from stateplan.execnodes.nodes.multi_join import MultiJoin
from stateplan.execnodes.nodes.opaque import OpaqueNode, unknown_keys
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.plans.backfill import late_begins, obstacle, upstream
from stateplan.plans.changes import SAME_VERSIONS, Change, legible, node_changes
from stateplan.plans.derivation import Outcome, StateMove
from stateplan.plans.document import PlanDocument
from stateplan.plans.kept_input import KeptInputs, kept_inputs
from stateplan.plans.lineage import lineage_of_table
from stateplan.plans.plan_side import Operator, PastState, PlanSide
from stateplan.plans.similarity import match
from stateplan.plans.state_comparison import StateComparison
from stateplan.plans.storage import exists
from stateplan.plans.verdicts import HARMLESS, VERDICTS, Verdict, severity


@dataclass(frozen=True)
class OperatorDiff:
    """An operator in one or both plans.

    Attributes:
        verdict: what the changes mean for state.
        old, new: the operator in each plan; None if it is not.
        stateful: whether it keeps state.
        changes: its fields that differ.
        reasons: what led to the verdict, for people; empty for identical operators and mere TTLs.
        move: how its state is rewritten, with the verdict ``rewrite``.
        position_changes: of a source, the changes after which its old position means nothing in the new plan.
        shared_calls: with the verdict ``backfill``, as of :meth:`StateComparison.shared_calls`.
        keepers: the inputs of operators of the new plan from whose kept rows its state is computed.
    """

    verdict: Verdict
    old: Operator | None
    new: Operator | None
    stateful: bool
    changes: tuple[Change, ...] = ()
    reasons: tuple[str, ...] = ()
    move: StateMove | None = None
    position_changes: tuple[Change, ...] = ()
    keepers: KeptInputs | None = None
    shared_calls: tuple[tuple[int, int], ...] = ()

    @property
    def title(self) -> str:
        """``join[5]``, or ``join[5 -> 7]`` where the id changed."""
        if self.old and self.new and self.old.id != self.new.id and self.old.name == self.new.name:
            return f"{self.new.name}[{self.old.id} -> {self.new.id}]"
        return str(self.new or self.old)

    @property
    def harmless(self) -> bool:
        """Whether existing state can be used as it is."""
        return self.verdict in HARMLESS

    @property
    def reads_on(self) -> bool:
        """Of a source: whether it can continue where one of the old plan stands."""
        return self.old is not None and (self.harmless or (self.verdict == "derive" and not self.position_changes))


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
        return self.verdict in HARMLESS

    @property
    def all_reasons(self) -> tuple[str, ...]:
        """Every reason against a restart, with the operator's name; empty if there is none."""
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


def compare(old: PlanDocument, new: PlanDocument, past: PastState | None = None) -> PlanDiff:
    """Compares the plan that wrote a checkpoint with the one that would continue from it.

    Args:
        old: the plan in the checkpoint.
        new: the plan to run.
        past: the past of the operators of the old plan, as the checkpoint says.
    """
    old_side = PlanSide(old, past)
    return _Comparison(old_side, PlanSide(new, before=old_side)).run()


class _Comparison:
    def __init__(self, old: PlanSide, new: PlanSide) -> None:
        self.old, self.new = old, new
        by = list(zip(old.names_to_match(), new.names_to_match(), strict=True))
        pairs = match(old.graph, new.graph, by, (old.lineages, new.lineages))
        self.partners = {now: old.graph.node(was) for now, was in pairs.items()}
        self.states = StateComparison(old, new)
        self._changes: dict[int, tuple[Change, ...]] = {}

    def run(self) -> PlanDiff:
        diffs = [self.with_joined_rows(self.compare_operator(node)) for node in self.new.graph.nodes]
        sources = {d.new.id for d in diffs if d.new is not None and self.goes_on(d)}
        partners_by_id = {
            d.new.id: self.old.graph.node(d.move.nodes[0]) if d.move and d.move.nodes else self.partners[d.new.id]
            for d in diffs
            if d.new and d.stateful and (d.harmless or d.move)
        }
        diffs = [self.with_history(d, sources, partners_by_id) for d in diffs]
        partner_ids = {node.id for node in self.partners.values()}
        diffs += [self.removed_operator(node) for node in self.old.graph.nodes if node.id not in partner_ids]
        verdict = max((d.verdict for d in diffs), key=severity, default=VERDICTS[0])
        return PlanDiff(verdict, tuple(diffs), tuple(self.notes()))

    def goes_on(self, diff: OperatorDiff) -> bool:
        """Whether an operator is a source that continues where the old one stands."""
        assert diff.new is not None
        return diff.reads_on and not self.new.graph.inputs(self.new.graph.node(diff.new.id))

    def _keeper_names(self, inputs: KeptInputs) -> list[str]:
        """The operators that have kept rows, by their titles in the new plan, or else in the old one."""
        keepers = sorted({node for node, _ in inputs.inputs - inputs.moves.keys()})
        others = sorted({node for move in inputs.moves.values() for node in move.nodes})
        return [str(self.new.operator(self.new.graph.node(i))) for i in keepers] + [
            str(self.old.operator(self.old.graph.node(i))) for i in others
        ]

    def with_joined_rows(self, diff: OperatorDiff) -> OperatorDiff:
        """An operator of the new plan, which may be a join of rows that others have kept."""
        node = None if diff.new is None else self.new.graph.node(diff.new.id)
        if diff.verdict != "reset" or not isinstance(node, (Join, MultiJoin)):
            return diff
        outcome = self.states.joins_of_several(node)
        return (
            diff if outcome is None else replace(diff, verdict=outcome[0], reasons=tuple(outcome[1]), move=outcome[2])
        )

    def with_history(
        self, diff: OperatorDiff, sources: Collection[int], partners_by_id: Mapping[int, ExecNode]
    ) -> OperatorDiff:
        """An operator of the new plan, whose state may be made of rows that others have kept, or of the history of its
        inputs. State of new sources alone needs neither.

        Args:
            diff: the operator.
            sources: the sources that continue.
            partners_by_id: as of :func:`kept_inputs`.
        """
        if diff.verdict != "reset" or not diff.stateful or diff.new is None or diff.new.id not in self.new.stateful:
            return diff
        node = self.new.graph.node(diff.new.id)
        if upstream(self.new.graph, node).isdisjoint(sources):
            return replace(diff, verdict="derive", reasons=(*diff.reasons, "it reads new sources only"))
        inputs = kept_inputs(self.states, node, partners_by_id)
        if inputs is not None and obstacle(self.new.graph, node, sources, inputs.inputs) is None:
            has_history = not upstream(self.new.graph, node, inputs.inputs).isdisjoint(sources)
            names = self._keeper_names(inputs)
            reasons = (
                *diff.reasons,
                f"it is computed from the rows that {' and '.join(names)} {_HAS[len(names) > 1]} kept",
                *late_begins(self.new.graph, node, sources, inputs.inputs),
            )
            verdict: Verdict = "backfill" if has_history else "derive"
            return replace(diff, verdict=verdict, reasons=reasons, keepers=inputs)
        problem = obstacle(self.new.graph, node, sources)
        if problem is None:
            late = late_begins(self.new.graph, node, sources)
            shared_calls = self.states.shared_calls(self.partners[node.id], node) if diff.old and not late else ()
            return replace(diff, verdict="backfill", reasons=(*diff.reasons, *late), shared_calls=shared_calls)
        return replace(diff, reasons=(*diff.reasons, problem))

    # -- what is the same --------------------------------------------------------------------------------------------

    def changes(self, node: ExecNode) -> tuple[Change, ...]:
        """The fields of an operator of the new plan that differ from its partner's."""
        if node.id not in self._changes:
            old = self.partners[node.id]
            names = self.old.names(old), self.new.names(node)
            self._changes[node.id] = tuple(node_changes(old, node, names))
        return self._changes[node.id]

    def hard(self, node: ExecNode) -> list[Change]:
        """The changes that are more than words, TTLs and tuning; of those that only say that a field of the input is
        elsewhere now, none."""
        old = self.partners[node.id]
        has_shifts = any(
            a.fields != b.fields for a, b in zip(self.old.inputs(old), self.new.inputs(node), strict=False)
        )
        return [c for c in self.changes(node) if c.kind == "other" and not (has_shifts and c.is_number)]

    def rewired(self, node: ExecNode) -> bool:
        """Whether the operators in front are others than those of the partner."""
        partners = [self.partners.get(n.id) for n in self.new.graph.inputs(node)]
        return [n.id if n else None for n in partners] != [n.id for n in self.old.graph.inputs(self.partners[node.id])]

    # -- operators ---------------------------------------------------------------------------------------------------

    def compare_operator(self, node: ExecNode) -> OperatorDiff:
        new, old = self.new.operator(node), self.partners.get(node.id)
        if old is None:
            return self.new_operator(node, new)
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
            position_changes = self.position_changes(old, node)
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
        position_changes = self.position_changes(old, new)
        if all(c.field == "table.identifier" for c in position_changes) and self._same_data(old, new):
            return "identical", ["the table was renamed; its options are the same"] if position_changes else []
        if position_changes:
            return "derive", [f"{c}: its offsets belong to the old value" for c in position_changes]
        return "identical", []

    def position_changes(self, old: TableSourceScan, new: TableSourceScan) -> tuple[Change, ...]:
        """The changes of a source after which its positions mean something else."""
        was, now = _position(old), _position(new)
        return tuple(
            c
            for c in self.changes(new)
            if c.moves_source and (c.option is None or was.get(c.option) != now.get(c.option))
        )

    def _same_data(self, old: ExecNode, new: ExecNode) -> bool:
        """Whether two sources read the same data, as far as their options say: fields that both have are equal."""
        fields = self.old.lineages[old.id].fields, self.new.lineages[new.id].fields
        return self.old.lineages[old.id].rows == self.new.lineages[new.id].rows or bool(set(fields[0]) & set(fields[1]))

    def compare_state(self, old: ExecNode, new: ExecNode) -> Outcome:
        """What becomes of the state of an operator that had state and has it still."""
        changes = self.changes(new)
        version = next((c for c in changes if c.pointer == "/type/version" and new.title not in SAME_VERSIONS), None)
        if version is not None:
            return "unknown", [f"version of the operator {version.before} -> {version.after}: {_NOT_TOLD}"], None
        states = [str(c) for c in changes if c.pointer.startswith("/state/") and c.kind == "other"]
        if states:
            return "unknown", [f"{s}: {_NOT_TOLD}" for s in states], None
        outcome = self.states.compare(old, new)
        if outcome is not None:
            return outcome
        hard = [c for c in self.hard(new) if not c.pointer.startswith("/outputType/")]
        if (isinstance(new, OpaqueNode) or unknown_keys(old) or unknown_keys(new)) and hard:
            reason = f"{hard[0]}: the effect on the state of {new.title} is unknown"
            return "unknown", [reason], None
        causes, has_unknown = self.causes(new)
        reasons = [str(c) for c in legible(hard)] + [f"its input changed: {c}" for c in causes]
        inputs = zip(self.old.inputs(old), self.new.inputs(new), strict=False)
        if not hard and all(b.rows == a.rows for b, a in inputs):
            words = old.describe(self.old.graph.input_types(old)), new.describe(self.new.graph.input_types(new))
            if words[0] != words[1]:
                reasons.insert(0, f"its keys or values changed: {words[0]} -> {words[1]}")
        if has_unknown:
            return "unknown", reasons, None
        return "reset", reasons or ["its input changed"], None

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
                cause_by_id[current.id] = f"{self.new.operator(current)} {legible(own)[0]}"
            else:
                if hard:
                    fields[current.id] = f"{self.new.operator(current)} {hard[0]}"
                stack.extend(self.new.graph.inputs(current))
        cause_by_id = cause_by_id or fields
        if not cause_by_id and self.rewired(node):
            cause_by_id[node.id] = "its inputs changed"
        return [cause_by_id[i] for i in sorted(cause_by_id)], has_unknown

    def new_operator(self, node: ExecNode, new: Operator) -> OperatorDiff:
        if node.id in self.new.stateful:
            reason = "it is new, and has not seen the rows read so far"
            return OperatorDiff("reset", None, new, True, (), (reason,))
        if not self.new.graph.inputs(node):
            twin = next((old for old in self.old.graph.nodes if _at_one_position(old, node)), None)
            if twin is not None:
                reason = f"it continues where {self.old.operator(twin)} of the old plan stands"
                return OperatorDiff("derive", self.old.operator(twin), new, False, (), (reason,))
            reason = "it is a new source, without an offset"
            return OperatorDiff("derive", None, new, False, (), (reason,))
        return OperatorDiff("stateless", None, new, False)

    def removed_operator(self, node: ExecNode) -> OperatorDiff:
        old = self.old.operator(node)
        if node.id in self.old.stateful:
            return OperatorDiff("derive", old, None, True, (), ("it was removed; its state is deleted",))
        if not self.old.graph.inputs(node):
            reason = "this source was removed, with its offset"
            return OperatorDiff("derive", old, None, False, (), (reason,))
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
    options = {key: text for key, text in options.items() if not key.startswith(BACKFILL)}
    position = options if connector is None else connector.position(options)
    return {"connector": options.get("connector"), **position}


def _at_one_position(old: ExecNode, new: ExecNode) -> bool:
    """Whether two scans read the same data, and a position of one means the same to the other."""
    if not isinstance(old, TableSourceScan) or not isinstance(new, TableSourceScan):
        return False
    tables = [node.scan_table_source.table for node in (old, new)]
    if any(t.resolved_table is None or t.resolved_table.options is None for t in tables):
        return False
    lineages = [lineage_of_table(node) for node in (old, new)]
    return lineages[0] == lineages[1] and _position(old) == _position(new)


_HAS = ("has", "have")

_NOT_TOLD = "the compatibility of its state is unknown"
