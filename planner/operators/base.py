"""The definition of a relational operator: all that the planner knows of it besides its shape and metadata.

Passes and the lowering ask the definition; none of them knows an operator by its class. Source of the traits: Flink's
``FlinkChangelogModeInferenceProgram`` and ``FlinkExpandConversionRule``; of texts: ``RelDescriptionWriterImpl``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from stateplan.common.changelog import INSERT_ONLY
from stateplan.common.errors import Place, SqlError
from stateplan.common.settings import OPTIONS, default_text, is_batch, value
from stateplan.common.ttl import parse_ttl
from stateplan.execnodes.node_ttls import ttl_home
from stateplan.execnodes.nodes.base import TTL_OPTIONS, CompiledTtl, ExecNode, TimeBoundNode, passes_changes
from stateplan.execnodes.specs import InputProperty, StateMetadata, hash_distribution
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.relations import Exchange, Join, MultiJoin, Rank, Rel, Sort, rel_type, replace_inputs
from stateplan.planner.algebra.table_functions import is_asynchronous, is_python
from stateplan.planner.digest.expressions import OF_PHYSICAL_PLAN, OF_PLAN, Notation
from stateplan.planner.physical import DeleteKind, Kinds, Physical, UpdateKind, execution_type

INSERT: Kinds = frozenset({"INSERT"})
ALL: Kinds = frozenset({"INSERT", "UPDATE", "DELETE"})

MINI_BATCH = ("table.exec.mini-batch.enabled", "table.exec.mini-batch.size")
TIME_ZONE = ("table.local-time-zone",)

TtlOrigin: TypeAlias = Literal["hint", "function"]
"""Who gives the TTLs of states in a query."""

R = TypeVar("R", bound=Rel)


class Lowering:
    """The options of a plan, as its nodes need them.

    Raises:
        PlanError: for a TTL that is none, as :func:`parse_ttl` does.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options
        self.batch = is_batch(options)
        self.ttls = {key: parse_ttl(options.get(key, "0 ms")) for key in TTL_OPTIONS}
        self.catalog_objects = value(options, "table.plan.compile.catalog-objects")

    def states(
        self, node: ExecNode, hints: Sequence[InputHint | None], origin: TtlOrigin = "hint"
    ) -> tuple[tuple[StateMetadata, ...], list[CompiledTtl]]:
        """The state entries of a node, and where their TTLs come from. A time-bound node has none where nobody gives
        it a TTL, as in Flink's plans.

        Args:
            hints: per state that it keeps, what hints say; where that is not a TTL, it has that of the job.
            origin: who gives these.
        """
        has_job_ttl = node.ttl_option in self.options
        hint_ttls = [None if hint is None else hint.ttl for hint in hints]
        if isinstance(node, TimeBoundNode):
            if all(ttl is None for ttl in hint_ttls) and not (has_job_ttl and ttl_home(node) == "state"):
                return (), []
            hint_ttls = hint_ttls or [None] * len(node.state_names)
        job = CompiledTtl(self.ttls[node.ttl_option], "option" if has_job_ttl else "default")
        ttls = [job if ttl is None or self.batch else CompiledTtl(ttl, origin) for ttl in hint_ttls]
        entries = enumerate(zip(node.state_names, ttls, strict=bool(ttls)))
        return tuple(StateMetadata(index=i, ttl=t.ttl, name=name) for i, (name, t) in entries), ttls

    def configuration(self, keys: Sequence[str]) -> dict[str, str]:
        """The values of the options that a node consumes."""
        return {key: self.options.get(key) or default_text(OPTIONS[key]) or "" for key in keys}


class Operator(Generic[R]):
    """A relational operator. Subclasses say what is different from an operator that passes its rows on.

    Attributes:
        exec_node: the class of its exec node, which says which changes it takes and emits. Descriptions begin with
            the name of the class.
        clause: the SQL clause that messages name, for an operator that accepts only insertions.
        options: those that the node consumes; their values are frozen in the plan.
        passes_deletions: whether deletions leave it in the form in which they arrive.
        stops_mini_batches: whether no mini-batch assigner is placed upstream of it.
        named_calls: whether two nodes are different if only the names of their aggregate calls differ.
        hint_fields: per state of its exec node, the field of the relation that has its hint.
        key_field: the field of the relation with the keys by which it wants the rows of its input spread; empty if it
            wants all of them in one task.
    """

    exec_node: ClassVar[type[ExecNode]]
    clause: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()
    passes_deletions: ClassVar[bool] = False
    stops_mini_batches: ClassVar[bool] = False
    named_calls: ClassVar[bool] = True
    hint_fields: ClassVar[tuple[str, ...]] = ()
    key_field: ClassVar[str | None] = None

    def __init_subclass__(cls, of: type[Rel], node: type[ExecNode], clause: str = "") -> None:
        cls.exec_node, cls.clause = node, clause
        _OPERATORS[of] = cls()

    def describe(self, rel: R, node: Physical, notation: Notation) -> list[str]:
        """Its arguments in the description of its node."""
        return []

    def lower(self, rel: R, node: Physical, lowering: Lowering) -> ExecNode:
        """Its exec node, without an id and without states."""
        raise NotImplementedError

    def common(self, rel: R, node: Physical, lowering: Lowering) -> dict[str, Any]:
        """The fields that all exec nodes have."""
        keys = self.required_keys(rel)
        return {
            "id": 0,
            "configuration": lowering.configuration(self.options) if self.options and not is_python(rel) else None,
            "input_properties": (InputProperty(),) * len(rel.inputs)
            if keys is None
            else tuple(hash_distribution(tuple(k), i) for i, k in enumerate(keys)),
            "output_type": rel_type(rel),
            "description": describe(node),
        }

    def state_hints(self, rel: R) -> Sequence[InputHint | None]:
        """Per state of its exec node, what hints say of the input whose rows it keeps."""
        return tuple(vars(rel)[name] for name in self.hint_fields)

    def late_hints(self, rel: R) -> Sequence[InputHint | None]:
        """Per input of its exec node, what hints say of it; of one for all, that."""
        return self.state_hints(rel)

    def ttl_origin(self, rel: R) -> TtlOrigin:
        """Who gives these TTLs."""
        return "hint"

    def identifier(self, rel: R) -> str | None:
        """What its state is known by in the whole job, where the query says that."""
        return None

    def provided(self, rel: R, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        """The modifications that it emits.

        Raises:
            SqlError: SQL140, an input whose changes it cannot consume.
        """
        if self.exec_node.TAKES == INSERT_ONLY:
            return insert_only(self.clause, inputs, rel.written_at)
        return INSERT if self.exec_node.EMITS == INSERT_ONLY else frozenset().union(*(i.kinds for i in inputs))

    def update(self, rel: R, node: Physical, required_kind: UpdateKind) -> Physical | None:
        """``node`` emitting updates as ``required_kind``; None if it cannot."""
        needs_update_before = self.exec_node.NEEDS_UPDATE_BEFORE
        input_kind = (
            required_kind
            if needs_update_before is None
            else "BEFORE_AND_AFTER"
            if needs_update_before
            else "ONLY_UPDATE_AFTER"
        )
        return rebuilt(node, [update(i, input_kind) for i in node.inputs], required_kind)

    def delete(self, rel: R, node: Physical, required_kind: DeleteKind) -> Physical | None:
        """``node`` emitting deletions, as ``required_kind`` where it has a choice; None if that cannot be."""
        if self.passes_deletions:
            return with_deletions(node, [deleting(node.input, required_kind)], required_kind)
        return with_deletions(node, [deleting(i, "FULL_DELETE") for i in node.inputs], "FULL_DELETE")

    def distribute(self, rel: R, inputs: Sequence[Rel]) -> Rel:
        """It, over ``inputs`` with the exchanges that it needs."""
        if self.key_field is None:
            return replace_inputs(rel, inputs)
        return replace_inputs(rel, [exchanged(inputs[0], vars(rel)[self.key_field] if self.key_field else ())])

    def required_keys(self, rel: R) -> Sequence[Sequence[int]] | None:
        """Per input, the keys by which its node wants rows spread; None if it does not say."""
        return None

    def waits_for_watermarks(self, rel: R) -> bool:
        """Whether it works by event time (``requireWatermark`` of Flink's physical nodes)."""
        return False


_OPERATORS: dict[type[Rel], Operator[Any]] = {}


def operator_of(kind: type[Rel]) -> Operator[Any]:
    """The definition of a relational operator."""
    return _OPERATORS[kind]


# descriptions


def describe(node: Physical) -> str:
    """The ``description`` of a plan's node: ``Calc(select=[a, b], where=[(a > 1)])``."""
    return _description(node, execution_type(node), OF_PLAN)


def describe_physical(node: Physical) -> str:
    """A node as EXPLAIN shows it in the physical plan: ``Calc(select=[a, b], where=[>(a, 1)])``."""
    return _description(node, type(node.rel), OF_PHYSICAL_PLAN)


def _description(node: Physical, kind: type[Rel], notation: Notation) -> str:
    operator = _OPERATORS[kind]
    prefix = "" if not is_python(node.rel) else "PythonAsync" if is_asynchronous(node.rel) else "Python"
    name = prefix + operator.exec_node.__name__
    details = ", ".join(operator.describe(node.rel, node, notation))
    return f"{name}({details})" if details else name


# changes


def update(node: Physical, required_kind: UpdateKind) -> Physical | None:
    """``node`` emitting updates as ``required_kind``, if it emits any; None if it cannot."""
    kind: UpdateKind = required_kind if "UPDATE" in node.kinds else "NONE"
    return _OPERATORS[type(node.rel)].update(node.rel, node, kind)


def delete(node: Physical, required_kind: DeleteKind) -> Physical | None:
    """``node`` emitting deletions, as ``required_kind`` where it has a choice; None if that cannot be."""
    return _OPERATORS[type(node.rel)].delete(node.rel, node, required_kind)


def deleting(node: Physical, required_kind: DeleteKind) -> Physical | None:
    """``node`` emitting deletions exactly as ``required_kind``, or none at all; None if it cannot."""
    new_node = delete(node, required_kind)
    return new_node if new_node is not None and new_node.delete in (required_kind, "NONE") else None


def rebuilt(node: Physical, inputs: Sequence[Physical | None], update: UpdateKind) -> Physical | None:
    """``node`` over ``inputs``; None if one of them could not be made."""
    new_inputs = [i for i in inputs if i is not None]
    if len(new_inputs) < len(inputs):
        return None
    return Physical(replace_inputs(node.rel, [i.rel for i in new_inputs]), tuple(new_inputs), node.kinds, update)


def with_deletions(node: Physical, inputs: Sequence[Physical | None], delete: DeleteKind) -> Physical | None:
    """``node`` over ``inputs``, emitting deletions as ``delete``, if any."""
    new_node = rebuilt(node, inputs, node.update)
    if new_node is None:
        return None
    return Physical(
        new_node.rel, new_node.inputs, new_node.kinds, new_node.update, delete if "DELETE" in node.kinds else "NONE"
    )


def insert_only(who: str, inputs: Sequence[Physical], place: Place | None) -> Kinds:
    """The kinds of an operator that accepts and emits insertions only.

    Raises:
        SqlError: SQL140, an input that updates or deletes rows.
    """
    for node in inputs:
        if not node.is_insert_only:
            raise not_consumed(who, node, INSERT, place, "a query below that only adds rows")
    return INSERT


def not_consumed(who: str, node: Physical, accepted: Kinds, place: Place | None, expected: str) -> SqlError:
    """The error for changes of ``node`` beyond ``accepted``; it names the operator that makes them."""
    extra = node.kinds - accepted
    culprit = node
    while passes_changes(_OPERATORS[type(culprit.rel)].exec_node):
        below = next((i for i in culprit.inputs if i.kinds & extra), None)
        if below is None or isinstance(culprit.rel, (Join, MultiJoin)):
            break
        culprit = below
    words = " and ".join(w for k, w in (("UPDATE", "update"), ("DELETE", "delete")) if k in extra)
    rel = culprit.rel
    corrected = isinstance(rel, Rank) and rel.is_corrected and culprit.input.is_insert_only
    return SqlError(
        "SQL140",
        who=who,
        words=words,
        describe=describe(culprit),
        place=place,
        expected=expected,
        hint=_AS_FLINK if corrected else None,
    )


_AS_FLINK = (
    "order by a time attribute alone; Flink plans this as if no row were ever replaced, which "
    "SET 'table.optimizer.flink-faults' = 'as-flink' does too"
)


# distribution


def exchanged(rel: Rel, keys: tuple[int, ...]) -> Rel:
    """``rel`` spread by ``keys``; without keys nothing is to do behind a sort, all of whose rows are in one task."""
    return rel if not keys and isinstance(rel, Sort) else Exchange(rel, keys)
