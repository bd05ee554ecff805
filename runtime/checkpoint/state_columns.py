"""The columns of a state table, as a checkpoint has them: Arrow's schema, as an IPC stream without rows, in base64."""

from __future__ import annotations

import ast
import base64
import binascii
import io
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import polars as pl
from pydantic import PlainSerializer, PlainValidator


def to_text(columns: Mapping[str, pl.DataType]) -> str:
    """The text that :func:`from_text` reads."""
    stream = io.BytesIO()
    pl.DataFrame(schema=dict(columns)).write_ipc_stream(stream)
    return base64.b64encode(stream.getvalue()).decode("ascii")


def from_text(text: str) -> dict[str, pl.DataType]:
    """Column to type. Raises ValueError for what :func:`to_text` did not write."""
    try:
        return dict(pl.read_ipc_stream(base64.b64decode(text, validate=True)).schema)
    except (binascii.Error, OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as cause:
        raise ValueError("the columns of a state table are no schema of Arrow") from cause


_TYPES: Mapping[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64),
        *(pl.Float32, pl.Float64, pl.Decimal, pl.Boolean, pl.String, pl.Binary, pl.Null),
        *(pl.Date, pl.Time, pl.Datetime, pl.Duration, pl.List, pl.Struct, pl.Array),
    )
}


def from_description(text: str) -> pl.DataType:
    """The type that Polars describes as ``text``: checkpoints up to format 2 have that. Raises ValueError.

    Such a text is an expression: ``List(Struct({'key': String, 'value': Int32}))``.
    """

    def build(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value):
                return value
            case ast.Tuple(parts):
                return tuple(map(build, parts))
            case ast.Name(name) if name in _TYPES:
                return _TYPES[name]
            case ast.Dict(keys, values):
                return {build(key): build(value) for key, value in zip(keys, values, strict=True) if key is not None}
            case ast.Call(ast.Name() as kind, arguments, keywords):
                return build(kind)(*map(build, arguments), **{k.arg: build(k.value) for k in keywords if k.arg})
        raise ValueError(f"{ast.unparse(node)} is no part of a type")

    try:
        dtype = build(ast.parse(text, mode="eval").body)
        dtype = dtype() if isinstance(dtype, type) else dtype
    except (SyntaxError, TypeError, pl.exceptions.PolarsError) as cause:
        raise ValueError(f"{text!r} is not a type") from cause
    if not isinstance(dtype, pl.DataType):
        raise ValueError(f"{text!r} is not a type")
    return dtype


def read(value: Any) -> dict[str, pl.DataType]:
    """Column to type, from what a checkpoint of any format has. Raises ValueError."""
    if isinstance(value, str):
        return from_text(value)
    if not isinstance(value, Mapping):
        raise ValueError("the columns of a state table are not understood")
    return {
        str(name): kind if isinstance(kind, pl.DataType) else from_description(kind) for name, kind in value.items()
    }


StateColumns: TypeAlias = Annotated[Mapping[str, Any], PlainValidator(read), PlainSerializer(to_text)]
"""Column to its Polars type."""
