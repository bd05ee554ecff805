"""Table functions and table aggregates in the relational algebra: ``LATERAL TABLE(f(t.x))``, ``f(TABLE t ...)``.

Source: Flink's ``LogicalCorrelate`` over a table function scan, and ``FlinkLogicalCorrelate``; its
``LogicalTableAggregate``, which only its Table API reaches (``flatAggregate``); FLIP-440.
"""

from __future__ import annotations

from dataclasses import field

from stateplan.common.changelog import RowKind
from stateplan.common.errors import Place
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.execnodes.specs import OuterJoinType
from stateplan.functions.process import DeclaredArgument, ProcessDeclaration
from stateplan.functions.rex import Call, CorrelVariable, FieldAccess, InputRef, Literal, Rex
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.relations import AggCall, Aggregate, Calc, Field, Rel, Several, Single, unique_names
from stateplan.planner.catalog.functions import FoundFunction
from stateplan.planner.expressions.ops import conjunctions, kind, rewrite


@dataclass(frozen=True)
class FunctionCorrelate(Single):
    """Each row with the rows that ``call``, over its fields, gives for it; LEFT with NULLs if there are none.

    For UNNEST, ``correl`` is how the plan names the outer row, ``row`` the type it has there, and ``condition`` what
    rows of the function have to meet, over their fields. Its fields have the names of the query, ``columns``, while
    rules are applied (``query_names``), and mostly those of the function in the plan.
    """

    call: Call
    join_type: OuterJoinType
    place: Place | None = field(default=None, compare=False, repr=False)
    correl: str = ""
    row: LogicalType | None = None
    condition: Rex | None = None
    columns: tuple[str, ...] = ()
    query_names: bool = True

    @property
    def is_unnest(self) -> bool:
        return self.call.internal_name is not None and self.call.name.startswith("UNNEST_ROWS")

    @property
    def plan_call(self) -> Rex:
        """The call as plans have it: UNNEST over fields of the outer row."""

        def outer(rex: Rex) -> Rex | None:
            if not isinstance(rex, InputRef) or self.row is None:
                return None
            return FieldAccess(rex.type, self.row.fields[rex.index].name, CorrelVariable(self.row, self.correl))

        return rewrite(self.call, outer)

    def _keeps_names(self) -> bool:
        """Whether the plan has the names of the query. Where Flink has moved a condition in, it keeps those of the
        fields of rows, and of a value that is constant then."""
        if self.join_type == "LEFT" and self.call.name == "UNNEST_ROWS_WITH_ORDINALITY":
            return True
        if self.condition is None:
            return False
        if self.call.operands[0].type.children[0].root == "ROW":
            return True
        terms = (set(map(type, t.children)) for t in conjunctions(self.condition) if kind(t) == "=")
        return {InputRef, Literal} in terms

    @property
    def fields(self) -> tuple[Field, ...]:
        result_fields = [(f.name, f.type) for f in self.call.type.fields]
        if self.columns and (self.query_names or self._keeps_names()):
            result_fields = [(n, t) for n, (_, t) in zip(self.columns, result_fields, strict=True)]
        if self.join_type == "LEFT":
            result_fields = [(n, t.as_nullable()) for n, t in result_fields]
        all_fields = [*self.input.fields, *result_fields]
        names = unique_names([n for n, _ in all_fields])
        return tuple((n, t) for n, (_, t) in zip(names, all_fields, strict=True))


@dataclass(frozen=True)
class TableAggregate(Single):
    """The rows that ``call``, whose type is their ROW, gives for each group: the fields ``group``, then its fields."""

    group: tuple[int, ...]
    call: AggCall
    hint: InputHint | None = None
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        all_fields = [*(self.input.fields[g] for g in self.group), *((f.name, f.type) for f in self.call.type.fields)]
        names = unique_names([n for n, _ in all_fields])
        return tuple((n, t) for n, (_, t) in zip(names, all_fields, strict=True))


@dataclass(frozen=True)
class TableInput:
    """A table argument of a process table function: its ORDER BY as fields, and the words of Flink's plans."""

    argument: DeclaredArgument
    partition: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    directions: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProcessTable(Several):
    """A call of a process table function: per source its table argument, and ``scalars``, per argument in their order a
    constant, or None for its default.

    ``times`` are the columns of ``on_time``, ``uid`` is the identifier that the call has; ``row`` are the fields, as
    Flink names them.
    """

    function_match: FoundFunction
    tables: tuple[TableInput, ...]
    scalars: tuple[Rex | None, ...]
    times: tuple[str, ...] | None
    uid: str | None
    row: tuple[Field, ...]
    place: Place | None = field(default=None, compare=False, repr=False)
    hint: InputHint | None = None

    @property
    def process(self) -> ProcessDeclaration:
        assert self.function_match.function.process is not None
        return self.function_match.function.process

    @property
    def identifier(self) -> str | None:
        """What its state is known by, without an ``uid`` the function's name; None for a function without state."""
        return self.uid or (self.function_match.function.name if self.process.has_sets else None)

    @property
    def upsert_key(self) -> tuple[int, ...]:
        """The key by which its upserts are in order: the partition. Nothing for a function without upserts."""
        mode = self.process.mode
        if self.process.passes_through or RowKind.UPDATE_AFTER not in mode or RowKind.UPDATE_BEFORE in mode:
            return ()
        return tuple(range(len(self.tables[0].partition)))

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.row


def is_python(rel: Rel) -> bool:
    """Whether it is one of Flink's Python operators."""
    if isinstance(rel, (Aggregate, OverAggregate)):
        return any(c.is_user_defined for c in rel.calls)
    if isinstance(rel, FunctionCorrelate):
        return rel.call.internal_name is None
    return isinstance(rel, Calc) and rel.python


def is_asynchronous(rel: Rel) -> bool:
    """Whether it is a Python operator that awaits an asynchronous function."""
    calls = [e.function for e in rel.exprs if isinstance(e, Call)] if isinstance(rel, Calc) and rel.python else []
    return any(f is not None and f.asynchronous is not None for f in calls)
