"""Functions from tables to tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from stateplan.execnodes.changelog import ChangelogMode, RowKind, named
from stateplan.execnodes.errors import PlanError
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.functions.process import DeclaredState, TableSemantics
from stateplan.execnodes.functions.user import KIND_WORDS, UserFunction
from stateplan.execnodes.model import ALWAYS, RexField, Text
from stateplan.execnodes.node_text import names_text
from stateplan.execnodes.nodes.base import Stateful, StatefulNode, Stateless, StateList
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.rex import Call, Literal, Rex, TableArgument
from stateplan.execnodes.types import LogicalType, row_type
from stateplan.execnodes.zone import local_time_zone

if TYPE_CHECKING:
    from stateplan.execnodes.runtime.transforms.process_calls import BoundTable, ProcessCall


@exec_node("process-table-function", inputs=None, states=("*",))
class ProcessTableFunction(StatefulNode):
    """Calls a function that takes tables: a process table function in Python, ``FROM_CHANGELOG``, which makes changes
    of rows, or ``TO_CHANGELOG``, which makes rows of changes.

    Flink does not write the states of a function into a plan. stateplan does, in the form of other nodes; Flink ignores
    them.

    .. code-block:: sql

        CREATE FUNCTION running_total AS 'shop.running_total' LANGUAGE PYTHON;
        INSERT INTO totals SELECT product, total FROM running_total(TABLE orders PARTITION BY product)
    """

    NAMED_STATES: ClassVar[bool] = True
    WRITTEN_LAST: ClassVar[tuple[str, ...]] = ("uid", "function_call", "input_changelog_modes", "output_changelog_mode")

    state: StateList = ()
    uid: Annotated[Text | None, ALWAYS] = None
    function_call: Annotated[RexField, Ref()]
    input_changelog_modes: tuple[tuple[Text, ...], ...] = ()
    output_changelog_mode: tuple[Text, ...] = ()

    @property
    def _declared(self) -> tuple[DeclaredState, ...]:
        """The states of the function, once it is known, where the plan says nothing about them."""
        function = self.function_call.function if isinstance(self.function_call, Call) else None
        process = None if function is None or self.states else function.process
        return () if process is None else process.states

    @property
    def state_names(self) -> tuple[str, ...]:
        """As the plan has them; where it has none, those of the function, once it is known."""
        return tuple(entry.name for entry in self.states or self._declared)

    def ttls(self, session: Mapping[str, str] | None = None) -> tuple[int, ...]:
        """As those of other nodes; in a plan of Flink those that the function declares."""
        found = super().ttls(session)
        declared = self._declared
        if not declared:
            return found
        return tuple(ttl if state.ttl is None else state.ttl for ttl, state in zip(found, declared, strict=True))

    @property
    def keeps_state(self) -> bool:
        return self.uid is not None

    def input_of_state(self, index: int) -> int:
        return 0

    @property
    def function(self) -> str:
        """The function's name: the built-in one's without ``$`` and version, else the one in the catalog."""
        return self.function_call.name if isinstance(self.function_call, Call) else "?"

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        return named(self.output_changelog_mode) or None

    def takes(self, position: int) -> ChangelogMode | None:
        modes = self.input_changelog_modes
        known = modes[position] if position < len(modes) else ()
        return named(known) or None

    def needs_update_before(self, position: int, update_before: bool) -> bool:
        return RowKind.UPDATE_BEFORE in (self.takes(position) or ())

    def meaning(self) -> dict[str, Any]:
        """As that of other nodes, with the names of the states: only they say that the function keeps other ones."""
        return super().meaning() | ({"states": [entry.name for entry in self.states]} if self.states else {})

    def translate(self, inputs: Sequence[LogicalType], session: Mapping[str, str]) -> Stateless | Stateful:
        if isinstance(self.function_call, Call) and self.function_call.is_user_defined:
            return self._user_defined(self.function_call, inputs, local_time_zone(session))
        from stateplan.execnodes.runtime.kernels.changelog_functions import FromChangelogTransform, ToChangelogTransform

        names = [f.name for f in inputs[0].fields]
        codes = self._mapping() or {kind.name: kind.name for kind in RowKind}
        op = self._op()
        try:
            if self.function == "TO_CHANGELOG":
                texts = {kind: code for words, code in codes.items() for kind in row_kinds(words)}
                return Stateless((ToChangelogTransform(len(names), texts),))
            if self.function == "FROM_CHANGELOG" and op in names:
                kinds = {c.strip(): row_kinds(word)[0] for found, word in codes.items() for c in found.split(",")}
                return Stateless((FromChangelogTransform(names.index(op), len(names), kinds),))
        except KeyError as word:
            raise self.not_supported(f"the change operation {word}") from None
        raise self.not_supported(f"the function {self.function}")

    def _constants(self, argument: int) -> list[str]:
        """The constants in an argument; nothing for its default."""
        arguments = self.function_call.children
        found = arguments[argument].children if argument < len(arguments) else ()
        return [str(o.value) for o in found if isinstance(o, Literal)]

    def _op(self) -> str:
        """The column of operation codes."""
        return next(iter(self._constants(1)), "op")

    def _mapping(self) -> dict[str, str]:
        """The argument ``op_mapping``; empty for its default."""
        values = self._constants(2)
        return dict(zip(values[::2], values[1::2], strict=False))

    # functions in Python

    def _user_defined(self, call: Call, inputs: Sequence[LogicalType], zone: str) -> Stateless | Stateful:
        from stateplan.execnodes.runtime.kernels.process_table_function import (
            ProcessTableKernel,
            TimedProcessTableKernel,
        )
        from stateplan.execnodes.runtime.transforms.process_calls import ProcessRowsTransform

        made = self._bound(call, inputs, zone)
        if not made.process.has_sets:
            return Stateless((ProcessRowsTransform(made),))
        timed = made.process.timers or any(t.order or t.time is not None for t in made.tables)
        kernel = (TimedProcessTableKernel if timed else ProcessTableKernel)(made)
        return Stateful(kernel, tuple(t.partition for t in made.tables))

    def _bound(self, call: Call, inputs: Sequence[LogicalType], zone: str) -> ProcessCall:
        """The call, as far as plan and function agree on it. Raises PlanError PLAN035, PLAN193."""
        from stateplan.execnodes.runtime.transforms.process_calls import ProcessCall

        function = call.function
        if function is None:
            raise self.not_supported(f"the function {self.function}")
        if function.process is None:
            raise self._other(function, f"it is {KIND_WORDS[function.kind]} now", "a process table function")
        declared = function.process.arguments
        *own, on_time, _ = call.operands if len(call.operands) > 1 else (*call.operands, None, None)
        fits = len(own) == len(declared) and all(
            a.is_table == isinstance(o, TableArgument) for a, o in zip(declared, own, strict=True)
        )
        given = [o for o in own if isinstance(o, TableArgument)]
        if not fits or sorted(o.index for o in given) != list(range(len(inputs))):
            raise self._other(function, "it takes other arguments than in the plan", function.signature)
        names = tuple(s.name for s in function.process.states)
        if self.state_names != names:
            found = ", ".join(self.state_names) or "none"
            raise self._other(function, f"the plan has the states {found}", ", ".join(names) or "no states")
        times = tuple(str(o.value) for o in on_time.children if isinstance(o, Literal)) if on_time is not None else ()
        tables = {
            o.index: self._table(a.name, o, inputs[o.index], times)
            for a, o in zip(declared, own, strict=True)
            if isinstance(o, TableArgument)
        }
        fields = self.output_type.fields
        first = tables[0]
        width = len(first.row.fields) if function.process.passes_through else sum(len(o.partition_keys) for o in given)
        rowtime = fields[-1].type if times and len(fields) > width else None
        result = fields[width : len(fields) - (rowtime is not None)]
        if [f.type for f in result] != [f.type for f in function.result.fields]:
            shown = row_type([(f.name, f.type) for f in result])
            raise self._other(function, f"the plan has its result as {shown.summary()}", function.result.summary())
        scalars: list[Rex | None] = [
            None if isinstance(o, Call) and o.name == "DEFAULT" else o for o in own if not isinstance(o, TableArgument)
        ]
        missing = [
            a.name for a, o in zip(function.process.scalars, scalars, strict=True) if o is None and not a.is_optional
        ]
        if missing:
            raise self._other(function, f"it now needs the argument '{missing[0]}'", function.signature)
        ordered = tuple(tables[i] for i in range(len(inputs)))
        return ProcessCall(function, ordered, tuple(scalars), rowtime, zone, self.label)

    def _table(self, name: str, given: TableArgument, row: LogicalType, times: Sequence[str]) -> BoundTable:
        from stateplan.execnodes.runtime.transforms.process_calls import BoundTable

        names = [f.name for f in row.fields]
        time = next((names.index(t) for t in times if t in names), None)
        order = tuple(
            (key, not word.startswith("DESC"), word.endswith("LAST"))
            for key, word in zip(given.order_keys, given.directions, strict=True)
        )
        semantics = TableSemantics(
            row,
            given.partition_keys,
            given.order_keys,
            given.directions,
            -1 if time is None else time,
            self.takes(given.index) or frozenset({RowKind.INSERT}),
        )
        return BoundTable(name, row, given.partition_keys, order, time, semantics)

    def _other(self, function: UserFunction, problem: str, expected: str) -> PlanError:
        return PlanError("PLAN193", name=function.name, id=self.id, problem=problem, expected=expected)

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        if self.function == "FROM_CHANGELOG":
            return f"makes changes of rows; column {self._op()} says which"
        if self.function == "TO_CHANGELOG":
            return f"makes rows of changes; column {self._op()} says which"
        keys = [
            names_text(o.partition_keys, [f.name for f in inputs[o.index].fields])
            for o in self.function_call.children
            if isinstance(o, TableArgument) and o.partition_keys and o.index < len(inputs)
        ]
        return f"calls {self.function}" + (f" for each {' and '.join(dict.fromkeys(keys))}" if keys else "")


def row_kinds(text: str) -> list[RowKind]:
    """The kinds that ``op_mapping`` names, such as ``INSERT, UPDATE_AFTER``. Raises KeyError for another word."""
    return [RowKind[word.strip()] for word in text.split(",")]
