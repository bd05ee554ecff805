"""Before a plan runs: what has moved since it was compiled, and whether it may continue from a checkpoint.

State that a plan cannot use as it is, is rewritten or given up only when ``execution.state-recovery.accept`` says so.

Codes: CKPT003, CKPT022, CKPT023, CKPT055.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from stateplan.common.errors import CheckpointError, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.settings import value
from stateplan.common.ttl import outlives
from stateplan.execnodes.node_tables import table_of
from stateplan.execnodes.nodes.base import TTL_OPTIONS
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import CatalogTable
from stateplan.planner.catalog.resolved_tables import plan_schema
from stateplan.plans.backfill import history_begin, upstream
from stateplan.plans.diff import OperatorDiff, PlanDiff, compare
from stateplan.plans.document import PlanDocument
from stateplan.plans.plan_metadata import schema_hash, schema_hashes, sql_hash
from stateplan.plans.plan_side import PastState
from stateplan.plans.verdicts import Verdict, severity
from stateplan.session.corrections import corrected_sinks

if TYPE_CHECKING:
    from stateplan.runtime.checkpoint.directory import Checkpoint
    from stateplan.runtime.checkpoint.slots import Continuation

ACCEPT = "execution.state-recovery.accept"
"""The option that says which verdict on existing state is put up with, and every milder one with it."""
OUTPUT = "execution.state-recovery.output"
"""The option that says what sinks get."""

RECOVERY_PATH = "execution.state-recovery.path"
"""The option that names the checkpoint or savepoint to start from."""

_VERBS: Mapping[Verdict, str] = {
    "rewrite": "rewritten",
    "derive": "derived",
    "backfill": "made from the history of its inputs",
}

_MANY = 6
"""An error lists this number of reasons."""


def continue_from(old_text: str, document: PlanDocument, options: Mapping[str, str], notes: list[str]) -> Continuation:
    """How ``document`` continues from the state of the plan ``old_text``.

    Args:
        old_text: the plan that wrote the checkpoint.
        document: the plan that is to run.
        options: the options of the session.
        notes: gets what happens to state, a line each.

    Raises:
        CheckpointError: CKPT003, some of the state does not fit and that is not accepted; CKPT022, other sources, and
            CKPT023, a source of other data than the checkpoint has positions of: nothing can mend these; CKPT055, the
            options want corrections, which need a new checkpoint.
    """
    old = PlanDocument.parse(old_text)
    diff = compare(old, document)
    folder = options.get("execution.checkpointing.dir", "")
    if diff.verdict != "identical" and value(options, OUTPUT) == "corrections":
        why = f"they need a new checkpoint, which 'stateplan plan evolve' or '{RECOVERY_PATH}' = '{folder}' makes"
        raise CheckpointError("CKPT055", what=f"a plan that continues in the checkpoint {folder}", why=why)
    _require_sources(diff, document, folder)
    accept = value(options, ACCEPT)
    in_place = "rewrite" if accept in ("derive", "backfill") else accept
    losing: tuple[Verdict, ...] = ("derive", "backfill", "reset", "unknown")
    _require_accepted(diff.operators, folder, in_place, losing)
    notes += _state_notes(old, document, diff, losing)
    return _continuation(old, document, diff)


def evolve_from(
    old_text: str,
    document: PlanDocument,
    options: Mapping[str, str],
    origin: str,
    notes: list[str],
    past: PastState | None = None,
) -> Continuation:
    """How ``document`` continues from the state of the plan ``old_text`` in a checkpoint of its own. Sources that the
    old plan did not have begin where their options say.

    Args:
        old_text: the plan that wrote the checkpoint.
        document: the plan that is to run.
        options: the options of the session.
        origin: the checkpoint, for messages.
        notes: gets what happens to state, a line each.
        past: as for :func:`plans.diff.compare`.

    Raises:
        CheckpointError: CKPT003, some of the state does not fit and that is not accepted; CKPT055, a table cannot get
            corrections.
    """
    evolution = Evolution.between(old_text, document, options, past)
    evolution.check(origin)
    notes += evolution.notes()
    return evolution.with_corrections(options)


def past_state(checkpoint: Checkpoint) -> PastState:
    """What a checkpoint says of the operators of its plan. Raises CheckpointError CKPT031."""
    return PastState(checkpoint.past_ttls(), checkpoint.watermarks())


@dataclass(frozen=True)
class Evolution:
    """How a plan continues from the state of another one in a checkpoint of its own.

    Attributes:
        old, new: the plans.
        diff: what changed.
        continuation: what the new one uses of the old one.
        accept: the worst verdict on state that the user accepts.
    """

    old: PlanDocument
    new: PlanDocument
    diff: PlanDiff
    continuation: Continuation
    accept: str

    @staticmethod
    def between(
        old_text: str,
        document: PlanDocument,
        options: Mapping[str, str],
        past: PastState | None = None,
    ) -> Evolution:
        """From the text of the plan that wrote the checkpoint to another plan. Arguments as :func:`evolve_from`."""
        old = PlanDocument.parse(old_text)
        diff = compare(old, document, past)
        kept_by = {o.new.id: o.keepers for o in diff.operators if o.new is not None and o.keepers is not None}
        anew = {o.new.id for o in diff.operators if o.verdict == "backfill" and o.new is not None}
        accept = value(options, ACCEPT)
        accept = "backfill" if accept == "none" else accept
        may_begin_empty = severity(accept) >= severity("reset")
        shared_calls = {
            o.new.id: (o.old.id, o.shared_calls)
            for o in diff.operators
            if o.new is not None and o.old is not None and o.shared_calls
        }
        continuation = replace(
            _continuation(old, document, diff, ("rewrite", "derive")),
            anew=frozenset(anew | kept_by.keys()),
            comparisons={} if may_begin_empty else shared_calls,
            begins={n.id: at for n in document.graph.nodes if (at := history_begin(n)) is not None},
            keepers={node: rows.inputs for node, rows in kept_by.items()},
            kept_moves={key: move for rows in kept_by.values() for key, move in rows.moves.items()},
            may_begin_empty=may_begin_empty,
        )
        return Evolution(old, document, diff, continuation, accept)

    def check(self, origin: str) -> None:
        """Raises CheckpointError CKPT003, some of the state does not fit and the user does not accept that. Arguments
        as :func:`evolve_from`."""
        operators = [o for o in self.diff.operators if o.new is not None and o.stateful and self.is_fed(o)]
        _require_accepted(operators, origin, self.accept, ("reset", "unknown"))

    def notes(self) -> Iterator[str]:
        """What happens to state, a line each."""
        return _state_notes(self.old, self.new, self.diff, ("reset", "unknown"))

    def with_corrections(self, options: Mapping[str, str]) -> Continuation:
        """The continuation, with the sinks that get corrections if the options of the session say so. Raises
        CheckpointError CKPT055."""
        if value(options, OUTPUT) != "corrections":
            return self.continuation
        for node in (node for plan in (self.old, self.new) for node in plan.graph.nodes):
            table = table_of(node)
            if table is not None and history_begin(node) is not None:
                why = "with 'backfill.from', its history lacks rows that tables have been written from"
                raise CheckpointError("CKPT055", what=f"a plan over '{table.summary}'", why=why)
        corrected = corrected_sinks(self.old, self.new, self.continuation.sources)
        return replace(self.continuation, corrected=corrected)

    def is_fed(self, operator: OperatorDiff) -> bool:
        """Whether an operator of the new plan gets rows of a source that continues: there are rows that it has to
        know."""
        assert operator.new is not None
        graph = self.new.graph
        return not upstream(graph, graph.node(operator.new.id)).isdisjoint(self.continuation.sources)


def needs_new_checkpoint(old_text: str, document: PlanDocument) -> bool:
    """Whether ``document`` cannot continue in place from the state of the plan ``old_text`` without losing any."""
    diff = compare(PlanDocument.parse(old_text), document)
    return any(o.verdict in ("derive", "backfill") for o in diff.operators)


def _continuation(
    old: PlanDocument, document: PlanDocument, diff: PlanDiff, usable: Collection[str] = ("rewrite",)
) -> Continuation:
    """What of the old plan the operators, sources and sinks of a plan continue from. ``usable`` are verdicts on state
    that is not used as it is, but used."""
    from stateplan.runtime.checkpoint.slots import Continuation

    pairs = [(o, o.old.id, o.new.id) for o in diff.operators if o.old is not None and o.new is not None]
    sinks = {node.id for node in document.graph.sinks}
    operators = {
        new_id: was for o, was, new_id in pairs if o.stateful and (o.harmless or (o.move and o.verdict in usable))
    }
    for o in diff.operators:
        if o.new is not None and o.move is not None and o.move.nodes and o.verdict in usable:
            operators[o.new.id] = o.move.nodes[0]
    return Continuation(
        old.graph,
        operators,
        {new_id: was for o, was, new_id in pairs if _goes_on(document, o, new_id)},
        {new_id: was for o, was, new_id in pairs if new_id in sinks},
        {o.new.id: o.move for o in diff.operators if o.new is not None and o.move is not None},
    )


def _goes_on(document: PlanDocument, operator: OperatorDiff, node: int) -> bool:
    """Whether a node is a source that continues where the old one stands."""
    return not document.graph.inputs(document.graph.node(node)) and operator.reads_on


def _require_sources(diff: PlanDiff, document: PlanDocument, folder: str) -> None:
    """Raises CheckpointError CKPT022 or CKPT023 when the sources are not those of the checkpoint."""
    sources = [o for o in diff.operators if not o.stateful and not o.harmless]
    others = [o for o in sources if o.old is None or o.new is None or o.reads_on]
    if others:
        raise CheckpointError(
            "CKPT022.other_sources",
            folder=folder,
            others="; ".join(f"{o.title}: {reason}" for o in others for reason in o.reasons),
        )
    for source in sources:
        assert source.new is not None
        table = table_of(document.graph.node(source.new.id))
        name = source.title if table is None else f"table '{table.summary}'"
        if source.verdict == "unknown" or not source.position_changes:
            raise CheckpointError("CKPT023.no_options", name=name, folder=folder, reasons="; ".join(source.reasons))
        raise CheckpointError(
            "CKPT023",
            name=name,
            folder=folder,
            changes="; ".join(map(str, source.position_changes)),
            before=", ".join(
                f"{c.field} {'left out' if c.before is None else c.before}" for c in source.position_changes
            ),
        )


def _require_accepted(operators: Sequence[OperatorDiff], folder: str, accept: str, losing: Collection[Verdict]) -> None:
    """Raises CheckpointError CKPT003 when the verdict on one of ``operators`` is worse than ``accept``. ``losing`` are
    verdicts with which state is lost here."""
    verdict = max((o.verdict for o in operators), key=severity, default="identical")
    if all(o.harmless for o in operators) or (accept != "none" and severity(verdict) <= severity(accept)):
        return
    reasons = [f"{o.title}: {reason}" for o in operators if not o.harmless for reason in o.reasons]
    omitted = f"; and {len(reasons) - _MANY} more" if len(reasons) > _MANY else ""
    lost_operators = [o for o in operators if o.verdict in losing]
    kept_operators = [o for o in operators if o.stateful and o not in lost_operators and o.new is not None]
    consequences = [f"{_titles(lost_operators)} would start empty or be dropped"] if lost_operators else []
    if kept_operators and lost_operators:
        consequences.append(
            f"{_titles(kept_operators)} would keep {'its' if len(kept_operators) == 1 else 'their'} state"
        )
    elif kept_operators:
        consequences.append("no state would be lost")
    if any(o.verdict in ("derive", "backfill") for o in lost_operators):
        consequences.append("'stateplan plan evolve' makes a new checkpoint, with their state")
    raise CheckpointError(
        "CKPT003",
        folder=folder,
        reasons="; ".join(reasons[:_MANY]),
        more=omitted,
        verdict="reset" if verdict in ("derive", "backfill") and verdict in losing else verdict,
        accept=ACCEPT,
        what="; ".join(consequences),
    )


def _titles(operators: list[OperatorDiff]) -> str:
    names = [o.title for o in operators]
    return ", ".join(names[:_MANY]) + (f" and {len(names) - _MANY} more" if len(names) > _MANY else "")


def _state_notes(old: PlanDocument, new: PlanDocument, diff: PlanDiff, losing: Collection[Verdict]) -> Iterator[str]:
    """What happens to state, a line each. ``losing`` are verdicts with which state is lost."""
    source_changes = [note for note in diff.notes if note.startswith(("the recorded SQL", "the schema of"))]
    if source_changes and diff.verdict != "identical":
        yield f"the checkpoint was written by another plan: {'; '.join(source_changes)}"
    for operator in diff.operators:
        if operator.verdict in losing and operator.stateful:
            outcome = "was removed, with its state" if operator.new is None else "starts with empty state"
            yield f"{operator.title} {outcome}: {'; '.join(operator.reasons)}"
        elif operator.verdict in _VERBS and operator.new is not None and operator.stateful:
            yield f"the state of {operator.title} is {_VERBS[operator.verdict]}: {'; '.join(operator.reasons)}"
    for operator, change in diff.ttl_changes:
        if change.pointer.startswith("/state/") and operator.old is not None and operator.new is not None:
            index = int(change.pointer.split("/")[2])
            old_ttls, new_ttls = old.graph.node(operator.old.id).ttls(), new.graph.node(operator.new.id).ttls()
            short = index < min(len(old_ttls), len(new_ttls)) and outlives(old_ttls[index], new_ttls[index])
            yield f"{operator.title}: {change}" + ("; older rows expire at once" if short else "")


def stale_notes(document: PlanDocument, catalog: CatalogManager, options: Mapping[str, str]) -> Iterator[str]:
    """In what a plan is not what it was when it was compiled, or what the session now says in vain, a line each."""
    facts = document.facts
    if facts is not None and facts.sql is not None and facts.sql_hash not in (None, sql_hash(facts.sql)):
        yield "the SQL text in the plan was edited; this does not change the plan"
    old_hashes = facts.schema_hashes if facts is not None else {}
    new_hashes = schema_hashes(document.graph)
    for node in document.graph.nodes:
        table = table_of(node)
        if table is None or table.identifier not in old_hashes:
            continue
        name, was = table.summary, old_hashes[table.identifier]
        if new_hashes.get(table.identifier, was) != was:
            yield f"the schema of '{name}' in the plan was edited since the plan was compiled"
        catalog_table = catalog.find(table.path)
        if isinstance(catalog_table, CatalogTable) and _hash_of(catalog_table) not in (
            None,
            was,
            new_hashes.get(table.identifier),
        ):
            yield (
                f"the table '{name}' changed since the plan was compiled; computed columns, "
                "watermarks and constraints are those of the plan"
            )
    yield from _options_in_vain(document, options)


def _hash_of(table: CatalogTable) -> str | None:
    try:
        return schema_hash(plan_schema(table).to_json())
    except StateplanError:  # of a schema that cannot appear in a plan, restoring says what is wrong
        return None


def _options_in_vain(document: PlanDocument, options: Mapping[str, str]) -> Iterator[str]:
    plan_values: dict[str, set[str]] = {}
    for node in document.graph.nodes:
        for key, text in (node.configuration or {}).items():
            plan_values.setdefault(key, set()).add(text)
    for key, session_value in options.items():
        if key in TTL_OPTIONS:
            ttls = [s.ttl for node in document.graph.nodes if node.ttl_option == key for s in node.states]
            if any(ttl != value(options, key) for ttl in ttls):
                many = len(ttls)
                own = "the TTL in the plan" if many == 1 else f"the TTLs of {many} states in the plan"
                yield f"the session option '{key}' does not change {own}"
        elif {text.lower() for text in plan_values.get(key, ())} - {session_value.lower()}:
            was = ", ".join(f"'{text}'" for text in sorted(plan_values[key]))
            yield f"the plan was compiled with '{key}' = {was}; '{session_value}' in the session has no effect"
