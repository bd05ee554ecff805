"""Calls of functions of tables in FROM: ``f(TABLE t, name => value)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from stateplan.common.errors import Place, SqlError, nearest
from stateplan.functions.rex import Literal, Rex
from stateplan.planner.dialect import function_name, nodes
from stateplan.planner.positions import place_of


class TableCall:
    """One call. All errors are SqlError SQL119.

    Args:
        node: the call.
        name: the name of the function.
        source: the text that positions point into.
        takes: what it takes, for errors.
    """

    def __init__(self, node: exp.Anonymous, name: str, source: str, takes: str) -> None:
        self.node, self.name, self.source, self.takes = node, name, source, takes

    @property
    def place(self) -> Place:
        return place_of(self.node, self.source)

    def wrong(
        self, problem: str, node: exp.Expr | None, expected: str | None = None, hint: str | None = None
    ) -> SqlError:
        place = place_of(node or self.node, self.source)
        return SqlError("SQL119", problem=problem, place=place, expected=expected or self.takes, hint=hint)

    def arguments(self, names: Sequence[str], mixed: bool = True) -> dict[str, exp.Expr]:
        """The arguments by name; ``mixed``: some may be named, and others not."""
        out: dict[str, exp.Expr] = {}
        by_name = False
        for position, argument in enumerate(self.node.expressions):
            is_named = isinstance(argument, exp.Kwarg)
            if position and is_named != by_name and not mixed:
                raise self.wrong(f"{self.name} has arguments with and without a name", argument, "all of one kind")
            by_name = is_named
            if not is_named and position >= len(names):
                raise self.wrong(f"{self.name} has too many arguments", argument)
            key = str(argument.this.name) if is_named else names[position]
            if key not in names:
                raise self.wrong(f"{self.name} has no argument '{key}'", argument, hint=nearest(key, names))
            if key in out:
                raise self.wrong(f"'{key}' comes twice", argument, "each once")
            out[key] = argument.expression if is_named else argument
        return out

    def table(self, argument: exp.Expr | None, expected: str | None = None) -> exp.Expr:
        """The table, or the query, of the first argument."""
        if not isinstance(argument, (nodes.TableArgument, exp.Subquery)):
            raise self.wrong(f"the first argument of {self.name} must be a table", argument, expected)
        return argument if isinstance(argument, exp.Subquery) else argument.this

    def require_whole(self, argument: exp.Expr, why: str) -> None:
        """The table of an argument must not be partitioned."""
        if argument.args.get("partition_by"):
            problem = f"{self.name} {why}: its table cannot be partitioned"
            raise self.wrong(problem, argument.args["partition_by"][0], "TABLE t without PARTITION BY")

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


def descriptor(node: exp.Expr | None) -> list[exp.Expr]:
    """The columns of ``DESCRIPTOR(a, b)``; nothing for anything else."""
    return list(node.expressions) if isinstance(node, exp.Anonymous) and function_name(node) == "DESCRIPTOR" else []
