"""The state tables of an operator as the checkpoint itself notes them, for operators whose kernel cannot be made: their
functions, say, are those of another session."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.runtime.checkpoint.slots import OperatorEntry
from stateplan.execnodes.runtime.kernel import StateTable
from stateplan.execnodes.specs import AggCall
from stateplan.execnodes.types import LogicalType


@dataclass(frozen=True)
class NoKernel:
    """What names of columns follow from, in place of a kernel."""

    input_types: tuple[LogicalType, ...] | None
    input_type: LogicalType | None
    agg_calls: tuple[AggCall, ...]

    @staticmethod
    def of(node: ExecNode, inputs: Sequence[LogicalType]) -> NoKernel | TwoSides:
        if len(inputs) == 2:
            return TwoSides(inputs[0], inputs[1])
        several = len(inputs) > 2
        return NoKernel(
            tuple(inputs) if several else None,
            inputs[0] if inputs and not several else None,
            tuple(getattr(node, "agg_calls", ())),
        )


@dataclass(frozen=True)
class TwoSides:
    """The same of an operator with two inputs."""

    left_type: LogicalType
    right_type: LogicalType


def noted_tables(entry: OperatorEntry, node: ExecNode) -> tuple[StateTable, ...]:
    """The tables of an operator.

    Raises:
        ValueError, KeyError, TypeError: the notes are not understood.
    """
    names = node.state_names
    out = []
    for name, facts in entry.tables.items():
        slot = next((i for i, state in enumerate(names) if name.startswith(state)), None)
        if slot is None:
            number = name.rpartition("-")[2]
            slot = int(number) if len(names) > 1 and number.isdecimal() and int(number) < len(names) else 0
        schema = {column: parse_dtype(text) for column, text in facts["columns"].items()}
        out.append(StateTable(name, slot, tuple(facts["lookup"]), tuple(facts["identity"]), schema))
    return tuple(out)


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
