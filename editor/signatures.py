"""The declarations of user-defined functions, read from the text of their module. The module is not imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stateplan.common.errors import StateplanError
from stateplan.common.types import LogicalType
from stateplan.functions.user import UserFunction
from stateplan.planner.catalog import udf

_DECORATORS = {"udf": udf.udf, "udtf": udf.udtf, "udaf": udf.udaf, "udtaf": udf.udtaf}
_NAMES_OF_TYPES = frozenset(("input_types", "result_type", "result_types", "accumulator_type"))
_OTHER_NAMES = frozenset(("deterministic", "func_type"))


class _Unreadable(Exception):  # noqa: N818 - a signal, which no caller sees
    """What a declaration says cannot be read without running the module."""


class _Body:
    """Stands for the code of a function, which does not run."""

    def eval(self, *arguments: Any) -> Any:
        raise AssertionError("a function that only an editor has")

    accumulate = retract = get_value = create_accumulator = emit_value = merge = eval


def declared_function(path: Path, name: str) -> UserFunction | None:
    """The function that a module declares under a name, with its types and without its code; None where it takes more
    than reading to find them out."""
    try:
        tree = ast.parse(path.read_text("utf-8"))
        call = next(_declarations(tree, name), None)
        return None if call is None else _function(call)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError, _Unreadable, StateplanError):
        return None


def declaration_line(path: Path, name: str) -> int | None:
    """The line, from 0, on which a module defines a name."""
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    for node in tree.body:
        is_definition = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name
        is_value = isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
        if is_definition or is_value:
            return node.lineno - 1
    return None


def _declarations(tree: ast.Module, name: str) -> Iterator[ast.Call]:
    """The calls of decorators that declare ``name``, the last definition first."""
    for node in reversed(tree.body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == name:
            yield from (d for d in node.decorator_list if isinstance(d, ast.Call) and _call_name(d) in _DECORATORS)
        elif (
            isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
            and isinstance(node.value, ast.Call)
            and _call_name(node.value) in _DECORATORS
        ):
            yield node.value


def _call_name(call: ast.Call) -> str:
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _function(call: ast.Call) -> UserFunction:
    decorator: Any = _DECORATORS[_call_name(call)]
    arguments: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg in _NAMES_OF_TYPES:
            arguments[keyword.arg] = _types(keyword.value)
        elif keyword.arg in _OTHER_NAMES:
            arguments[keyword.arg] = _constant(keyword.value)
    function = decorator(_Body(), **arguments)
    assert isinstance(function, UserFunction)
    return function


def _constant(node: ast.expr) -> Any:
    if not isinstance(node, ast.Constant):
        raise _Unreadable
    return node.value


def _types(node: ast.expr) -> Any:
    """A type, or a list of types: texts, or calls of ``DataTypes``."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_types(item) for item in node.elts]
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, bool)):
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = node.func.value
        maker = vars(udf.DataTypes).get(node.func.attr)
        if isinstance(owner, ast.Name) and owner.id == "DataTypes" and maker is not None and node.func.attr.isupper():
            keywords = {keyword.arg: _types(keyword.value) for keyword in node.keywords if keyword.arg}
            data_type: LogicalType | tuple[str, LogicalType] = maker(*map(_types, node.args), **keywords)
            return data_type
    raise _Unreadable
