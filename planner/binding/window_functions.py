"""``TUMBLE``, ``HOP``, ``CUMULATE`` and ``SESSION``: window functions of a table in FROM.

Source: Flink's ``SqlTumbleTableFunction``, ``SqlHopTableFunction``, ``SqlCumulateTableFunction``,
``SqlSessionTableFunction``, ``SqlWindowTableFunction`` and ``WindowUtil.convertToWindowingStrategy``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from stateplan.common.errors import nearest
from stateplan.common.types import LogicalType
from stateplan.functions.rex import Literal, Rex
from stateplan.planner.algebra.relations import Rel
from stateplan.planner.algebra.temporal import WatermarkAssigner
from stateplan.planner.algebra.windows import TimeWindow, WindowTable
from stateplan.planner.binding.table_calls import TableCall, descriptor
from stateplan.planner.dialect import function_name

_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}
_OFFSET = "OFFSET"
"""The argument that may be omitted."""

_TIMES = ("TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE")

WINDOW_FUNCTIONS = tuple(_ARGUMENTS)


def bind_window_function(
    node: exp.Anonymous,
    table: Callable[[exp.Expr], Rel],
    constant: Callable[[exp.Expr], Rex],
    source: str,
    batch: bool,
) -> WindowTable:
    """The relation that a call stands for.

    Args:
        table: binds the table of a table argument.
        constant: binds an expression without columns.
        source: the text that positions point into.
        batch: whether any timestamp may be the time of a window.

    Raises:
        SqlError: SQL119, for arguments that the function does not take.
    """
    name = function_name(node)
    names = _ARGUMENTS[name]
    last = f" and perhaps {_OFFSET}" if _OFFSET in names else f" and {names[-1]}"
    binding = _Binding(node, name, source, ", ".join(names[:-1]) + last)
    arguments = binding.arguments(names, mixed=False)
    for key in names:
        if key not in arguments and key != _OFFSET:
            raise binding.wrong(f"{name} has no {key}", node)
    inner = binding.table(arguments["DATA"], f"{name}(TABLE t, ...)")
    if name != "SESSION":
        binding.require_whole(arguments["DATA"], "puts each row into windows by itself")
    rel = table(inner)
    time = binding.time(arguments["TIMECOL"], rel, batch)
    if rel.fields[time][1].kind is None:
        rel = WatermarkAssigner(rel, time, Literal(rel.fields[time][1].as_nullable(), None))
    lengths = {k: binding.length(k, arguments[k], constant) for k in names[2:] if k in arguments}
    length_exprs = tuple(constant(arguments[k]) for k in lengths)
    window = _window(binding, name, rel, arguments, lengths)
    return WindowTable(rel, window, time, binding.place, lengths=length_exprs)


def _window(
    binding: _Binding, name: str, rel: Rel, arguments: Mapping[str, exp.Expr], lengths: Mapping[str, int]
) -> TimeWindow:
    """The windows of a call, by its ``lengths`` in ms. Raises SqlError SQL119."""
    if name == "SESSION":
        if lengths["GAP"] <= 0:
            raise binding.wrong(f"the GAP of SESSION is {lengths['GAP']} ms", arguments["GAP"], "more than 0 ms")
        return TimeWindow("SESSION", lengths["GAP"], keys=binding.partition(arguments["DATA"], rel))
    size, step, offset = lengths["SIZE"], lengths.get("SLIDE", lengths.get("STEP", 0)), lengths.get("OFFSET", 0)
    for key, length in lengths.items():
        if length <= 0 and key != "OFFSET":
            raise binding.wrong(f"the {key} of {name} is {length} ms", arguments[key], "more than 0 ms")
    if name == "CUMULATE" and size % step:
        problem = f"CUMULATE has windows of at most {size} ms that grow by {step} ms"
        raise binding.wrong(problem, arguments["SIZE"], "a size that is a multiple of the step")
    if name == "CUMULATE":
        return TimeWindow("CUMULATE", size, step, offset)
    if name == "HOP":
        return TimeWindow("HOP", size, step, offset)
    if abs(offset) >= size:
        problem = f"TUMBLE has windows of {size} ms and an offset of {offset} ms"
        raise binding.wrong(problem, arguments["OFFSET"], "an offset below the size")
    return TimeWindow("TUMBLE", size, 0, offset)


def _no_time_attribute(name: str, column_type: LogicalType) -> str | None:
    """How a column becomes a time attribute, by its type."""
    if column_type.root in _TIMES:
        return "a time attribute that was computed with is none any more"
    calls = {"VARCHAR": "TO_TIMESTAMP({})", "CHAR": "TO_TIMESTAMP({})", "BIGINT": "TO_TIMESTAMP_LTZ({}, 3)"}
    conversion = calls.get(column_type.root)
    return conversion and f"declare a computed column, ts AS {conversion.format(name)}, and a WATERMARK for it"


class _Binding(TableCall):
    def time(self, node: exp.Expr, rel: Rel, batch: bool) -> int:
        """The time attribute that a descriptor names; in batch mode any timestamp of milliseconds."""
        columns = descriptor(node)
        if not columns or not isinstance(columns[0], exp.Column):
            raise self.wrong(f"the second argument of {self.name} names a column", node, "DESCRIPTOR(column)")
        name = str(columns[0].name)
        names = [n for n, _ in rel.fields]
        if name not in names:
            raise self.wrong(f"there is no column '{name}'", columns[0], ", ".join(names), nearest(name, names))
        index = names.index(name)
        column_type = rel.fields[index][1]
        if column_type.kind is None and not (
            batch and column_type.root in _TIMES and (column_type.precision or 0) <= 3
        ):
            raise self.wrong(
                f"{self.name} needs a time attribute, and the column '{name}' is of type {column_type.summary()}",
                columns[0],
                "a column with a WATERMARK, or PROCTIME()",
                _no_time_attribute(name, column_type),
            )
        return index

    def partition(self, argument: exp.Expr, rel: Rel) -> tuple[int, ...]:
        """The fields that the table of an argument is partitioned by."""
        if argument.args.get("order"):
            raise self.wrong(f"the table of {self.name} cannot be ordered", argument.args["order"])
        names, positions = [n for n, _ in rel.fields], list[int]()
        for node in argument.args.get("partition_by") or ():
            if not isinstance(node, exp.Column) or node.name not in names:
                near = nearest(node.name, names) if isinstance(node, exp.Column) else None
                raise self.wrong(f"{self.name} is partitioned by columns of its table", node, ", ".join(names), near)
            positions.append(names.index(node.name))
        return tuple(dict.fromkeys(positions))
