"""``FROM_CHANGELOG`` and ``TO_CHANGELOG``: functions of a table in FROM.

Source: Flink's ``FromChangelogTypeStrategy`` and ``ToChangelogTypeStrategy``; FLIP-440 (process table functions).
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from stateplan.common.changelog import RowKind
from stateplan.common.errors import SqlError, nearest
from stateplan.common.types import STRING
from stateplan.execnodes.nodes.process_table_function import row_kinds
from stateplan.functions.rex import Literal, Rex
from stateplan.planner.algebra.relations import ChangelogFunction, Rel
from stateplan.planner.binding.table_calls import TableCall, descriptor
from stateplan.planner.dialect import function_name
from stateplan.planner.expressions.ops import kind

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
    table_call = TableCall(node, name, source, ", ".join(_ARGUMENTS))
    wrong, arguments = table_call.wrong, table_call.arguments(_ARGUMENTS)
    inner = table_call.table(arguments.get("input"), f"{name}(input => TABLE t)")
    table_call.require_whole(arguments["input"], "takes each row by itself")
    rel = table(inner)
    op = _descriptor(arguments.get("op"), wrong)
    column = op or "op"
    if name == "FROM_CHANGELOG":
        op_node = arguments.get("op") or node
        types = dict(rel.fields)
        if column not in types:
            names = ", ".join(types)
            raise wrong(f"there is no column '{column}' with operation codes", op_node, names, nearest(column, types))
        if not types[column].is_string:
            raise wrong(
                f"the column '{column}' of operation codes is of type {types[column].summary()}", op_node, "a STRING"
            )
        row = tuple(f for f in rel.fields if f[0] != column)
    else:
        row = ((column, STRING), *rel.fields)
    mapping = None
    if "op_mapping" in arguments:
        mapping = constant(arguments["op_mapping"])
        _check_mapping(name, mapping, arguments["op_mapping"], wrong)
    return ChangelogFunction(rel, name, op, mapping, row, table_call.place)


_Wrong = Callable[..., SqlError]


def _descriptor(node: exp.Expr | None, wrong: _Wrong) -> str | None:
    if node is None:
        return None
    columns = descriptor(node)
    if len(columns) == 1 and isinstance(columns[0], exp.Column):
        return str(columns[0].name)
    raise wrong("the descriptor for 'op' must contain exactly one column name", node, "DESCRIPTOR(column)")


def _check_mapping(name: str, mapping: Rex, node: exp.Expr, wrong: _Wrong) -> None:
    values = mapping.children
    if kind(mapping) != "MAP" or not all(isinstance(v, Literal) and isinstance(v.value, str) for v in values):
        raise wrong("'op_mapping' must be a constant MAP", node, "MAP['code', 'INSERT', ..]")
    texts = [str(v.value) for v in values if isinstance(v, Literal)]
    operations: list[RowKind] = []
    for text in texts[1::2] if name == "FROM_CHANGELOG" else texts[::2]:
        for word in text.split(",") if name == "TO_CHANGELOG" else [text]:
            try:
                kinds = row_kinds(word)
            except KeyError:
                names = [k.name for k in RowKind]
                raise wrong(
                    f"unknown change operation '{word.strip()}'",
                    node,
                    "one of " + ", ".join(names),
                    nearest(word.strip(), names),
                ) from None
            if kinds[0] in operations:
                raise wrong(f"the change operation {kinds[0].name} comes twice", node, "each once", _TWICE.get(name))
            operations += kinds
    if name == "FROM_CHANGELOG" and RowKind.UPDATE_AFTER in operations and RowKind.UPDATE_BEFORE not in operations:
        raise wrong(
            "'op_mapping' has UPDATE_AFTER without UPDATE_BEFORE",
            node,
            "a code for UPDATE_BEFORE: FROM_CHANGELOG cannot read upserts",
        )


_TWICE = {"FROM_CHANGELOG": "codes of one operation go together: MAP['c, r', 'INSERT']"}
