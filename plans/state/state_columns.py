"""The columns that a state table has in SQL: names, types, and which of them decide the key group of a row."""

from __future__ import annotations

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.execnodes.graph import ExecGraph
from stateplan.runtime.inspect.inspection import OperatorState, TableState
from stateplan.runtime.kernel import StateTable
from stateplan.runtime.operators import Stateful, operator_of
from stateplan.runtime.state_types import column_type

"""The type of times of access and expiry."""


@dataclass(frozen=True)
class StateColumnInfo:
    """A column of a state table.

    Attributes:
        name: what people call it.
        type: its SQL type; nullable.
        column: its name in the table.
        is_key: whether rows are found by it.
    """

    name: str
    type: LogicalType
    column: str
    is_key: bool


@dataclass(frozen=True)
class StateSchema:
    """The columns of a state table.

    Attributes:
        columns: those that mean something to people: those of the key first.
        routing: the columns of the table whose values decide the key group of a row; None if that is not known.
    """

    columns: tuple[StateColumnInfo, ...]
    routing: tuple[str, ...] | None

    @staticmethod
    def of(graph: ExecGraph, operator: OperatorState, table: TableState) -> StateSchema:
        """The columns of a table.

        Args:
            graph: the plan of the checkpoint.
            operator: the operator that has the table.
            table: the table.
        """
        part = _part(graph, operator)
        kernel_table, schema = _kernel_table(part, table.table), table.table.schema
        inputs = [node.output_type for node in graph.inputs(operator.node)]
        types = {name: column_type(kernel_table, name, schema[name], inputs) for name in table.labels}
        lookup = set(table.table.lookup)
        columns = [StateColumnInfo(label, types[name], name, name in lookup) for name, label in table.labels.items()]
        columns.sort(key=lambda c: not c.is_key)
        return StateSchema(tuple(columns), _routing(part, table.table))


def _part(graph: ExecGraph, operator: OperatorState) -> Stateful | None:
    """The operator as this version runs it; None if it cannot, for example without a function of the user."""
    inputs = [node.output_type for node in graph.inputs(operator.node)]
    try:
        part = operator_of(operator.node, inputs, {})
    except StateplanError:
        return None
    return part if isinstance(part, Stateful) else None


def _kernel_table(part: Stateful | None, table: StateTable) -> StateTable | None:
    """The table as the kernel has it."""
    return None if part is None else next((t for t in part.kernel.tables if t.name == table.name), None)


def _routing(part: Stateful | None, table: StateTable) -> tuple[str, ...] | None:
    """The columns that hold the fields by which rows come to a key group."""
    kernel_table = _kernel_table(part, table)
    if part is None or kernel_table is None:
        return None
    columns = {c.field: name for name, c in kernel_table.columns.items() if c.field is not None}
    for number, key in enumerate(part.keys):
        if key and all((number, field) in columns for field in key):
            names = tuple(columns[number, field] for field in key)
            if all(name in table.lookup for name in names):
                return names
    return None
