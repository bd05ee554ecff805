"""The state tables of an operator as the checkpoint itself notes them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from stateplan.runtime.kernel import StateTable, own_columns

MAIN_TABLE = "rows"
"""The short name of the table that holds what a state is about."""


def noted_tables(notes: Mapping[str, Any]) -> tuple[StateTable, ...]:
    """The tables of an operator, of which ``notes`` has what the layout of the checkpoint says.

    Raises:
        ValueError, KeyError, TypeError: the notes are not understood.
    """
    return tuple(
        StateTable(
            name,
            facts["slot"],
            tuple(facts["lookup"]),
            tuple(facts["identity"]),
            own_columns({column: parse_dtype(text) for column, text in facts["columns"].items()}),
        )
        for name, facts in notes.items()
    )


def short_names(tables: Sequence[StateTable]) -> dict[str, str]:
    """For the name of each table a short one: the first table of a state is :data:`MAIN_TABLE`, where the others are
    named after it."""
    out: dict[str, str] = {}
    for slot in dict.fromkeys(t.slot for t in tables):
        mine = [t.name for t in tables if t.slot == slot]
        main = next((n for n in mine if all(o == n or o.startswith((f"{n}.", f"{n}-")) for o in mine)), None)
        for name in mine:
            out[name] = name if main is None else MAIN_TABLE if name == main else name[len(main) + 1 :]
    return out


def parse_dtype(text: str) -> pl.DataType:
    """The Polars type whose ``str()`` is ``text``. Raises ValueError for what is none."""
    try:
        found = _built(ast.parse(text, mode="eval").body)
    except SyntaxError as cause:
        raise ValueError(f"{text!r} is not a type") from cause
    if isinstance(found, type) and issubclass(found, pl.DataType):
        found = found()
    if not isinstance(found, pl.DataType):
        raise ValueError(f"{text!r} is not a type")
    return found


def _built(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        found = getattr(pl, node.id, None)
        if isinstance(found, type) and issubclass(found, pl.DataType):
            return found
    if isinstance(node, ast.Call):
        made = _built(node.func)
        keywords: Mapping[str, Any] = {k.arg: _built(k.value) for k in node.keywords if k.arg is not None}
        return made(*map(_built, node.args), **keywords)
    if isinstance(node, ast.Dict) and all(k is not None for k in node.keys):
        return {_built(k): _built(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None}
    raise ValueError(f"{ast.unparse(node)} is no part of a type")
