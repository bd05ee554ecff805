"""Functions from tables to tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from stateplan.common.changelog import ChangelogMode, RowKind, kind_named
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import ALWAYS, RexField, Text
from stateplan.execnodes.node_text import names_text
from stateplan.execnodes.nodes.base import StatefulNode, StateList
from stateplan.execnodes.registry import exec_node
from stateplan.functions.process import DeclaredState
from stateplan.functions.rex import Call, Literal, TableArgument


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
    DROPS_LATE_ROWS: ClassVar[bool] = True

    state: StateList = ()
    uid: Annotated[Text | None, ALWAYS] = None
    function_call: Annotated[RexField, Ref()]
    input_changelog_modes: tuple[tuple[Text, ...], ...] = ()
    output_changelog_mode: tuple[Text, ...] = ()

    @property
    def _declared_states(self) -> tuple[DeclaredState, ...]:
        """The states of the function, once it is known, where the plan says nothing about them."""
        function = self.function_call.function if isinstance(self.function_call, Call) else None
        process = None if function is None or self.states else function.process
        return () if process is None else process.states

    @property
    def state_names(self) -> tuple[str, ...]:
        """As the plan has them; if it has none, those of the function, once it is known."""
        return tuple(entry.name for entry in self.states or self._declared_states)

    def ttls(self, session: Mapping[str, str] | None = None) -> tuple[int, ...]:
        """As those of other nodes; in a plan of Flink those that the function declares."""
        ttls = super().ttls(session)
        states = self._declared_states
        if not states:
            return ttls
        return tuple(ttl if state.ttl is None else state.ttl for ttl, state in zip(ttls, states, strict=True))

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
        return kind_named(self.output_changelog_mode) or None

    def takes(self, position: int) -> ChangelogMode | None:
        modes = self.input_changelog_modes
        input_mode = modes[position] if position < len(modes) else ()
        return kind_named(input_mode) or None

    def needs_update_before(self, position: int, update_before: bool) -> bool:
        return RowKind.UPDATE_BEFORE in (self.takes(position) or ())

    def meaning(self) -> dict[str, Any]:
        """As that of other nodes, with the names of the states: only they say that the function keeps other ones."""
        return super().meaning() | ({"states": [entry.name for entry in self.states]} if self.states else {})

    def constants(self, argument: int) -> list[str]:
        """The constants in an argument; nothing for its default."""
        arguments = self.function_call.children
        operands = arguments[argument].children if argument < len(arguments) else ()
        return [str(o.value) for o in operands if isinstance(o, Literal)]

    def op_column(self) -> str:
        """The column of operation codes."""
        return next(iter(self.constants(1)), "op")

    # functions in Python

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        if self.function == "FROM_CHANGELOG":
            return f"makes changes of rows; column {self.op_column()} says which"
        if self.function == "TO_CHANGELOG":
            return f"makes rows of changes; column {self.op_column()} says which"
        keys = [
            names_text(o.partition_keys, [f.name for f in inputs[o.index].fields])
            for o in self.function_call.children
            if isinstance(o, TableArgument) and o.partition_keys and o.index < len(inputs)
        ]
        return f"calls {self.function}" + (f" for each {' and '.join(dict.fromkeys(keys))}" if keys else "")


def row_kinds(text: str) -> list[RowKind]:
    """The kinds that ``op_mapping`` names, such as ``INSERT, UPDATE_AFTER``. Raises KeyError for another word."""
    return [RowKind[word.strip()] for word in text.split(",")]
