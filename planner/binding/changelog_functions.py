"""``FROM_CHANGELOG`` and ``TO_CHANGELOG``: functions of a table in FROM.

Source: Flink's ``FromChangelogTypeStrategy`` and ``ToChangelogTypeStrategy``; FLIP-440 (process table functions).
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from stateplan.execnodes.changelog import RowKind
from stateplan.execnodes.errors import SqlError, nearest
from stateplan.execnodes.nodes.process_table_function import row_kinds
from stateplan.execnodes.rex import Literal, Rex
from stateplan.execnodes.types import STRING
from stateplan.planner.algebra.relations import ChangelogFunction, Rel
from stateplan.planner.dialect import function_name, nodes
from stateplan.planner.expressions.ops import kind
from stateplan.planner.positions import place_of

CHANGELOG_FUNCTIONS = ("FROM_CHANGELOG", "TO_CHANGELOG")

_ARGUMENTS = ("input", "op", "op_mapping")


def bind_changelog_function(
    node: exp.Anonymous, table: Callable[[exp.Expr], Rel], constant: Callable[[exp.Expr], Rex], source: str
) -> ChangelogFunction:
    """The relation that a call stands for.

    Args:
        table: binds the table of a table argument.
        constant: binds an expression without columns.
        source: the text that positions point into.

    Raises:
        SqlError: SQL119, for arguments that the function does not take.
    """
    name = function_name(node)

    def wrong(what: str, where: exp.Expr, expected: str, hint: str | None = None) -> SqlError:
        return SqlError("SQL119", problem=what, place=place_of(where, source), expected=expected, hint=hint)

    given = _arguments(node, wrong)
    argument = given.get("input")
    if not isinstance(argument, (nodes.TableArgument, exp.Subquery)):
        raise wrong(f"the first argument of {name} must be a table", argument or node, f"{name}(input => TABLE t)")
    if argument.args.get("partition_by"):
        raise wrong(
            f"{name} takes each row by itself: its table cannot be partitioned",
            argument.args["partition_by"][0],
            "TABLE t without PARTITION BY",
        )
    rel = table(argument if isinstance(argument, exp.Subquery) else argument.this)
    op = _descriptor(given.get("op"), wrong)
    column = op or "op"
    if name == "FROM_CHANGELOG":
        where = given.get("op") or node
        types = dict(rel.fields)
        if column not in types:
            names = ", ".join(types)
            raise wrong(f"there is no column '{column}' with operation codes", where, names, nearest(column, types))
        if not types[column].is_string:
            raise wrong(
                f"the column '{column}' of operation codes is of type {types[column].summary()}", where, "a STRING"
            )
        row = tuple(f for f in rel.fields if f[0] != column)
    else:
        row = ((column, STRING), *rel.fields)
    mapping = None
    if "op_mapping" in given:
        mapping = constant(given["op_mapping"])
        _check_mapping(name, mapping, given["op_mapping"], wrong)
    return ChangelogFunction(rel, name, op, mapping, row, place_of(node, source))


_Wrong = Callable[..., SqlError]


def _arguments(node: exp.Anonymous, wrong: _Wrong) -> dict[str, exp.Expr]:
    out: dict[str, exp.Expr] = {}
    for position, argument in enumerate(node.expressions):
        named = isinstance(argument, exp.Kwarg)
        if not named and position >= len(_ARGUMENTS):
            raise wrong(f"{function_name(node)} has too many arguments", argument, ", ".join(_ARGUMENTS))
        key = argument.this.name if named else _ARGUMENTS[position]
        if key not in _ARGUMENTS or key in out:
            what = f"{function_name(node)} has no argument '{key}'" if key not in _ARGUMENTS else f"'{key}' comes twice"
            raise wrong(what, argument, "one of " + ", ".join(_ARGUMENTS), nearest(key, _ARGUMENTS))
        out[key] = argument.expression if named else argument
    return out


def _descriptor(node: exp.Expr | None, wrong: _Wrong) -> str | None:
    if node is None:
        return None
    if isinstance(node, exp.Anonymous) and function_name(node) == "DESCRIPTOR":
        columns = node.expressions
        if len(columns) == 1 and isinstance(columns[0], exp.Column):
            return str(columns[0].name)
    raise wrong("the descriptor for 'op' must contain exactly one column name", node, "DESCRIPTOR(column)")


def _check_mapping(name: str, mapping: Rex, node: exp.Expr, wrong: _Wrong) -> None:
    values = mapping.children
    if kind(mapping) != "MAP" or not all(isinstance(v, Literal) and isinstance(v.value, str) for v in values):
        raise wrong("'op_mapping' must be a constant MAP", node, "MAP['code', 'INSERT', ..]")
    texts = [str(v.value) for v in values if isinstance(v, Literal)]
    meant: list[RowKind] = []
    for text in texts[1::2] if name == "FROM_CHANGELOG" else texts[::2]:
        for word in text.split(",") if name == "TO_CHANGELOG" else [text]:
            try:
                found = row_kinds(word)
            except KeyError:
                names = [k.name for k in RowKind]
                raise wrong(
                    f"unknown change operation '{word.strip()}'",
                    node,
                    "one of " + ", ".join(names),
                    nearest(word.strip(), names),
                ) from None
            if found[0] in meant:
                raise wrong(f"the change operation {found[0].name} comes twice", node, "each once", _TWICE.get(name))
            meant += found
    if name == "FROM_CHANGELOG" and RowKind.UPDATE_AFTER in meant and RowKind.UPDATE_BEFORE not in meant:
        raise wrong(
            "'op_mapping' has UPDATE_AFTER without UPDATE_BEFORE",
            node,
            "a code for UPDATE_BEFORE: FROM_CHANGELOG cannot read upserts",
        )


_TWICE = {"FROM_CHANGELOG": "codes of one operation go together: MAP['c, r', 'INSERT']"}
