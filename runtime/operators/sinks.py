"""What a sink does to rows before they are written."""

from __future__ import annotations

from stateplan.common.errors import PlanError, RunError
from stateplan.common.readable import amount
from stateplan.execnodes.nodes.sink import Sink
from stateplan.runtime.kernel import Kernel
from stateplan.runtime.kernels.sink_materializer import SinkConflictKernel, SinkMaterializerKernel
from stateplan.runtime.operators.base import Options, Rows, Stateful, Stateless, operator_of
from stateplan.runtime.transforms.constraints import ConstraintTransform
from stateplan.runtime.transforms.field_names import field_names

_ENFORCERS = (
    ("table.exec.sink.not-null-enforcer", "ERROR"),
    ("table.exec.sink.type-length-enforcer", "IGNORE"),
    ("table.exec.sink.nested-constraint-enforcer", "IGNORE"),
)


@operator_of.register
def sink(node: Sink, inputs: Rows, session: Options) -> Stateless | Stateful:
    spec = node.dynamic_table_sink.table
    fields = node.written_fields
    if fields and len(fields) != len(inputs[0].fields):
        raise PlanError(
            "PLAN064",
            what=f"node {node.id} ({node.title}) gets",
            count=amount(len(inputs[0].fields), "field"),
            expected=f"{len(fields)}, the columns of the table {spec.summary}",
        )
    options = {**session, **(node.configuration or {})}
    nulls, lengths, nested_mode = (options.get(key, default).upper() for key, default in _ENFORCERS)
    if nested_mode == "ROWS_AND_COLLECTIONS" and lengths == "TRIM_PAD":
        raise RunError("RUN022", summary=spec.summary)
    check = ConstraintTransform(spec.summary, fields, nulls, lengths, nested_mode)
    names_given = field_names([f.type for f in inputs[0].fields], [t for _, t in fields]) if fields else ()
    checks = (*names_given, *((check,) if check.demands_something else ()))
    table = spec.resolved_table
    if not node.require_upsert_materialize or table is None:
        return Stateless(checks)
    names = [name for name, _ in fields]
    primary = table.table_schema.primary_key
    if primary is None:
        raise PlanError("PLAN069", id=node.id, summary=spec.summary)
    key = tuple(names.index(name) for name in primary.columns)
    upsert_key = node.input_upsert_key or ()
    kernel: Kernel = SinkMaterializerKernel(inputs[0], key, upsert_key)
    strategy = node.conflict_strategy
    if strategy is not None and strategy.behavior in ("ERROR", "NOTHING"):
        kernel = SinkConflictKernel(inputs[0], key, upsert_key, spec.summary, strategy.behavior == "ERROR")
    return Stateful(kernel, (key,), checks)
