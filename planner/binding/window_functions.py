"""``TUMBLE``, ``HOP`` and ``CUMULATE``: window functions of a table in FROM.

Source: Flink's ``SqlTumbleTableFunction``, ``SqlHopTableFunction``, ``SqlCumulateTableFunction``,
``SqlWindowTableFunction`` and ``WindowUtil.convertToWindowingStrategy``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from stateplan.execnodes.errors import SqlError, nearest
from stateplan.execnodes.rex import Literal, Rex
from stateplan.planner.algebra.relations import Rel
from stateplan.planner.algebra.windows import TimeWindow, WindowTable
from stateplan.planner.binding.errors import not_supported
from stateplan.planner.dialect import function_name, nodes
from stateplan.planner.positions import place_of

_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
}

WINDOW_FUNCTIONS = (*_ARGUMENTS, "SESSION")


def bind_window_function(
    node: exp.Anonymous, table: Callable[[exp.Expr], Rel], constant: Callable[[exp.Expr], Rex], source: str
) -> WindowTable:
    """The relation that a call stands for.

    Args:
        table: binds the table of a table argument.
        constant: binds an expression without columns.
        source: the text that positions point into.

    Raises:
        SqlError: SQL119, for arguments that the function does not take; SQL150, for SESSION.
    """
    name = function_name(node)
    if name == "SESSION":
        raise not_supported("a SESSION window", place_of(node, source), "TUMBLE, HOP and CUMULATE are")
    binding = _Binding(node, name, source)
    given = binding.arguments()
    argument = given["DATA"]
    if not isinstance(argument, (nodes.TableArgument, exp.Subquery)):
        raise binding.wrong(f"the first argument of {name} must be a table", argument, f"{name}(TABLE t, ...)")
    if argument.args.get("partition_by"):
        raise binding.wrong(
            f"{name} puts each row into windows by itself: its table cannot be partitioned",
            argument.args["partition_by"][0],
            "TABLE t without PARTITION BY",
        )
    rel = table(argument if isinstance(argument, exp.Subquery) else argument.this)
    time = binding.time(given["TIMECOL"], rel)
    lengths = {k: binding.length(k, given[k], constant) for k in _ARGUMENTS[name][2:] if k in given}
    size, step, offset = lengths["SIZE"], lengths.get("SLIDE", lengths.get("STEP", 0)), lengths.get("OFFSET", 0)
    for key, length in lengths.items():
        if length <= 0 and key != "OFFSET":
            raise binding.wrong(f"the {key} of {name} is {length} ms", given[key], "more than 0 ms")
    if name == "CUMULATE":
        if size % step:
            raise binding.wrong(
                f"CUMULATE has windows of at most {size} ms that grow by {step} ms",
                given["SIZE"],
                "a size that is a multiple of the step",
            )
        return WindowTable(rel, TimeWindow("CUMULATE", size, step, offset), time, place_of(node, source))
    if name == "HOP":
        return WindowTable(rel, TimeWindow("HOP", size, step, offset), time, place_of(node, source))
    if abs(offset) >= size:
        raise binding.wrong(
            f"TUMBLE has windows of {size} ms and an offset of {offset} ms", given["OFFSET"], "an offset below the size"
        )
    return WindowTable(rel, TimeWindow("TUMBLE", size, 0, offset), time, place_of(node, source))


class _Binding:
    """One call."""

    def __init__(self, node: exp.Anonymous, name: str, source: str) -> None:
        self.node, self.name, self.source = node, name, source

    def wrong(self, what: str, where: exp.Expr, expected: str, hint: str | None = None) -> SqlError:
        return SqlError("SQL119", problem=what, place=place_of(where, self.source), expected=expected, hint=hint)

    def arguments(self) -> dict[str, exp.Expr]:
        """The arguments by name, all that are needed among them."""
        names, out = _ARGUMENTS[self.name], {}
        shown = ", ".join(names[:-1]) + f" and perhaps {names[-1]}"
        by_name = False
        for position, argument in enumerate(self.node.expressions):
            named = isinstance(argument, exp.Kwarg)
            if position and named != by_name:
                raise self.wrong(f"{self.name} has arguments with and without a name", argument, "all of one kind")
            by_name = named
            if not named and position >= len(names):
                raise self.wrong(f"{self.name} has too many arguments", argument, shown)
            key = str(argument.this.name) if named else names[position]
            if key not in names:
                raise self.wrong(f"{self.name} has no argument '{key}'", argument, shown, nearest(key, names))
            if key in out:
                raise self.wrong(f"the argument {key} of {self.name} comes twice", argument, "each once")
            out[key] = argument.expression if named else argument
        for key in names[:-1]:
            if key not in out:
                raise self.wrong(f"{self.name} has no {key}", self.node, shown)
        return out

    def time(self, node: exp.Expr, rel: Rel) -> int:
        """The time attribute that a descriptor names."""
        columns = node.expressions if isinstance(node, exp.Anonymous) and function_name(node) == "DESCRIPTOR" else []
        if not columns or not isinstance(columns[0], exp.Column):
            raise self.wrong(f"the second argument of {self.name} names a column", node, "DESCRIPTOR(column)")
        name = str(columns[0].name)
        names = [n for n, _ in rel.fields]
        if name not in names:
            raise self.wrong(f"there is no column '{name}'", columns[0], ", ".join(names), nearest(name, names))
        index = names.index(name)
        found = rel.fields[index][1]
        if found.kind not in ("ROWTIME", "PROCTIME"):
            raise self.wrong(
                f"{self.name} needs a time attribute, and the column '{name}' is of type {found.summary()}",
                columns[0],
                "a column with a WATERMARK, or PROCTIME()",
                "a time attribute that was computed with is none any more",
            )
        return index

    def length(self, key: str, node: exp.Expr, constant: Callable[[exp.Expr], Rex]) -> int:
        """Milliseconds of an interval."""
        rex = constant(node)
        if rex.type.root == "INTERVAL_YEAR_MONTH":
            raise self.wrong(
                f"the {key} of {self.name} is in months, which are not all of one length", node, "DAY or less"
            )
        if not isinstance(rex, Literal) or rex.type.root != "INTERVAL_DAY_TIME":
            raise self.wrong(f"the {key} of {self.name} must be a constant interval", node, "INTERVAL '5' MINUTE")
        return int(rex.value)
