"""The operator of process table functions."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.common.changelog import RowKind
from stateplan.common.errors import PlanError
from stateplan.common.types import LogicalType, row_type
from stateplan.common.zone import local_time_zone
from stateplan.execnodes.nodes.base import not_supported
from stateplan.execnodes.nodes.process_table_function import ProcessTableFunction, row_kinds
from stateplan.functions.process import TableSemantics
from stateplan.functions.rex import Call, Literal, Rex, TableArgument
from stateplan.functions.user import KIND_WORDS, UserFunction
from stateplan.runtime.kernels.changelog_functions import FromChangelogTransform, ToChangelogTransform
from stateplan.runtime.kernels.process_table_function import ProcessTableKernel, TimedProcessTableKernel
from stateplan.runtime.operators.base import Options, Rows, Stateful, Stateless, operator_of
from stateplan.runtime.transforms.process_calls import BoundTable, ProcessCall, ProcessRowsTransform


@operator_of.register
def process_table_function(node: ProcessTableFunction, inputs: Rows, session: Options) -> Stateless | Stateful:
    if isinstance(node.function_call, Call) and node.function_call.is_user_defined:
        return _user_defined(node, node.function_call, inputs, local_time_zone(session))

    names = [f.name for f in inputs[0].fields]
    codes = _mapping(node) or {kind.name: kind.name for kind in RowKind}
    op = node.op_column()
    try:
        if node.function == "TO_CHANGELOG":
            texts = {kind: code for words, code in codes.items() for kind in row_kinds(words)}
            return Stateless((ToChangelogTransform(len(names), texts),))
        if node.function == "FROM_CHANGELOG" and op in names:
            kinds = {c.strip(): row_kinds(word)[0] for code_list, word in codes.items() for c in code_list.split(",")}
            return Stateless((FromChangelogTransform(names.index(op), len(names), kinds),))
    except KeyError as word:
        raise not_supported(node, f"the change operation {word}") from None
    raise not_supported(node, f"the function {node.function}")


def _mapping(node: ProcessTableFunction) -> dict[str, str]:
    """The argument ``op_mapping``; empty for its default."""
    values = node.constants(2)
    return dict(zip(values[::2], values[1::2], strict=False))


def _user_defined(node: ProcessTableFunction, call: Call, inputs: Rows, zone: str) -> Stateless | Stateful:
    call_of_process = _bound(node, call, inputs, zone)
    if not call_of_process.process.has_sets:
        return Stateless((ProcessRowsTransform(call_of_process),))
    needs_time = call_of_process.process.timers or any(t.order or t.time is not None for t in call_of_process.tables)
    kernel = (TimedProcessTableKernel if needs_time else ProcessTableKernel)(call_of_process)
    return Stateful(kernel, tuple(t.partition for t in call_of_process.tables))


def _bound(node: ProcessTableFunction, call: Call, inputs: Rows, zone: str) -> ProcessCall:
    """The call, as far as plan and function agree on it. Raises PlanError PLAN035, PLAN193."""
    function = call.function
    if function is None:
        raise not_supported(node, f"the function {node.function}")
    if function.process is None:
        raise _other(node, function, f"it is {KIND_WORDS[function.kind]} now", "a process table function")
    parameters = function.process.arguments
    *own, on_time, _ = call.operands if len(call.operands) > 1 else (*call.operands, None, None)
    fits = len(own) == len(parameters) and all(
        a.is_table == isinstance(o, TableArgument) for a, o in zip(parameters, own, strict=True)
    )
    table_arguments = [o for o in own if isinstance(o, TableArgument)]
    if not fits or sorted(o.index for o in table_arguments) != list(range(len(inputs))):
        raise _other(node, function, "it takes other arguments than in the plan", function.signature)
    names = tuple(s.name for s in function.process.states)
    if node.state_names != names:
        plan_states = ", ".join(node.state_names) or "none"
        raise _other(node, function, f"the plan has the states {plan_states}", ", ".join(names) or "no states")
    times = tuple(str(o.value) for o in on_time.children if isinstance(o, Literal)) if on_time is not None else ()
    tables = {
        o.index: _table(node, a.name, o, inputs[o.index], times)
        for a, o in zip(parameters, own, strict=True)
        if isinstance(o, TableArgument)
    }
    fields = node.output_type.fields
    first = tables[0]
    width = (
        len(first.row.fields)
        if function.process.passes_through
        else sum(len(o.partition_keys) for o in table_arguments)
    )
    rowtime = fields[-1].type if times and len(fields) > width else None
    result = fields[width : len(fields) - (rowtime is not None)]
    if [f.type for f in result] != [f.type for f in function.result.fields]:
        plan_type = row_type([(f.name, f.type) for f in result])
        raise _other(node, function, f"the plan has its result as {plan_type.summary()}", function.result.summary())
    scalars: list[Rex | None] = [
        None if isinstance(o, Call) and o.name == "DEFAULT" else o for o in own if not isinstance(o, TableArgument)
    ]
    nulls = [a.name for a, o in zip(function.process.scalars, scalars, strict=True) if o is None and not a.is_optional]
    if nulls:
        raise _other(node, function, f"it now needs the argument '{nulls[0]}'", function.signature)
    ordered_tables = tuple(tables[i] for i in range(len(inputs)))
    return ProcessCall(function, ordered_tables, tuple(scalars), rowtime, zone, node.label)


def _table(
    node: ProcessTableFunction, name: str, argument: TableArgument, row: LogicalType, times: Sequence[str]
) -> BoundTable:
    names = [f.name for f in row.fields]
    time = next((names.index(t) for t in times if t in names), None)
    order = tuple(
        (key, not word.startswith("DESC"), word.endswith("LAST"))
        for key, word in zip(argument.order_keys, argument.directions, strict=True)
    )
    semantics = TableSemantics(
        row,
        argument.partition_keys,
        argument.order_keys,
        argument.directions,
        -1 if time is None else time,
        node.takes(argument.index) or frozenset({RowKind.INSERT}),
    )
    return BoundTable(name, row, argument.partition_keys, order, time, semantics)


def _other(node: ProcessTableFunction, function: UserFunction, problem: str, expectation: str) -> PlanError:
    return PlanError("PLAN193", name=function.name, id=node.id, problem=problem, expected=expectation)
