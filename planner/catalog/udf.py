"""Decorators and base classes for user-defined functions, with PyFlink's names.

    >>> @udf(result_type="BIGINT")
    ... def add_one(value):
    ...     return value + 1
    >>> add_one.signature
    'add_one(...)'

Types are texts (``"ROW<id INT, name STRING>"``) or what :class:`DataTypes` makes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias

from stateplan.common.errors import SqlError, StateplanError
from stateplan.common.types import MAX_LENGTH, LogicalType, parse_type, row_type
from stateplan.functions.user import AsyncLimits, FunctionContext, FunctionKind, UserFunction

Type: TypeAlias = "str | LogicalType"


class PythonFunction:
    """What all kinds of functions may have."""

    def open(self, function_context: FunctionContext) -> None:
        """Called once in every process, before the first call."""

    def close(self) -> None:
        """Called when the process ends."""

    def is_deterministic(self) -> bool:
        """Whether equal arguments produce equal results."""
        return True


class ScalarFunction(PythonFunction):
    """A value per row: has ``eval(*arguments)``."""


class AsyncScalarFunction(PythonFunction):
    """A value per row: has ``async def eval(*arguments)``, of which many are awaited at the same time."""


class TableFunction(PythonFunction):
    """Rows per row: ``eval(*arguments)`` yields or returns them, each a value or a tuple."""


class AggregateFunction(PythonFunction):
    """A value per group. ``accumulate`` may change its accumulator or return a new one; so may ``retract``, which is
    needed where rows are retracted."""

    def create_accumulator(self) -> Any:
        """The accumulator of a group without rows."""
        raise NotImplementedError

    def accumulate(self, accumulator: Any, *args: Any) -> Any:
        """Adds a row."""
        raise NotImplementedError

    def get_value(self, accumulator: Any) -> Any:
        """The result."""
        raise NotImplementedError


class TableAggregateFunction(AggregateFunction):
    """Rows per group: ``emit_value(accumulator)`` yields them."""


def _parse_nullable(text: str, nullable: bool = True) -> LogicalType:
    return parse_type(text).as_nullable(nullable)


class DataTypes:
    """Types by PyFlink's names: ``DataTypes.BIGINT()``, ``DataTypes.ARRAY(DataTypes.STRING())``."""

    BOOLEAN = staticmethod(partial(_parse_nullable, "BOOLEAN"))
    TINYINT = staticmethod(partial(_parse_nullable, "TINYINT"))
    SMALLINT = staticmethod(partial(_parse_nullable, "SMALLINT"))
    INT = staticmethod(partial(_parse_nullable, "INT"))
    BIGINT = staticmethod(partial(_parse_nullable, "BIGINT"))
    FLOAT = staticmethod(partial(_parse_nullable, "FLOAT"))
    DOUBLE = staticmethod(partial(_parse_nullable, "DOUBLE"))
    DATE = staticmethod(partial(_parse_nullable, "DATE"))
    STRING = staticmethod(partial(_parse_nullable, f"VARCHAR({MAX_LENGTH})"))
    BYTES = staticmethod(partial(_parse_nullable, f"VARBINARY({MAX_LENGTH})"))

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> LogicalType:  # noqa: N802
        """DECIMAL of at most 38 digits."""
        return _parse_nullable(f"DECIMAL({precision}, {scale})", nullable)

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> LogicalType:  # noqa: N802
        """Text of at most ``length`` characters."""
        return _parse_nullable(f"VARCHAR({length})", nullable)

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> LogicalType:  # noqa: N802
        """Text of exactly ``length`` characters."""
        return _parse_nullable(f"CHAR({length})", nullable)

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> LogicalType:  # noqa: N802
        """Time of day, with milliseconds at most."""
        return _parse_nullable(f"TIME({precision})", nullable)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> LogicalType:  # noqa: N802
        """Date and time without a zone; ``precision`` counts the digits of the fraction."""
        return _parse_nullable(f"TIMESTAMP({precision})", nullable)

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> LogicalType:  # noqa: N802
        """A point in time, which the session's zone shows; ``precision`` counts the digits of the fraction."""
        return _parse_nullable(f"TIMESTAMP({precision}) WITH LOCAL TIME ZONE", nullable)

    @staticmethod
    def ARRAY(element: Type, nullable: bool = True) -> LogicalType:  # noqa: N802
        """A list of values of one type."""
        return LogicalType("ARRAY", nullable, children=(type_of(element),))

    @staticmethod
    def MAP(key: Type, value: Type, nullable: bool = True) -> LogicalType:  # noqa: N802
        """Values by key."""
        return LogicalType("MAP", nullable, children=(type_of(key), type_of(value)))

    @staticmethod
    def FIELD(name: str, data_type: Type) -> tuple[str, LogicalType]:  # noqa: N802
        """A field of :meth:`ROW`."""
        return name, type_of(data_type)

    @staticmethod
    def ROW(fields: Sequence[tuple[str, LogicalType]], nullable: bool = True) -> LogicalType:  # noqa: N802
        """A row of the fields that :meth:`FIELD` returns."""
        return row_type(list(fields), nullable)


def type_of(data_type: Type) -> LogicalType:
    """A type as the types of columns are written in SQL.

    Raises:
        SqlError: SQL213, for what is not a type.
    """
    if isinstance(data_type, LogicalType):
        return data_type
    expected = "such as 'BIGINT' or DataTypes.BIGINT()"
    if not isinstance(data_type, str):
        raise SqlError("SQL213", given=data_type, expected=expected)
    from stateplan.planner.dialect import logical_type, parse_expression

    bare = data_type.strip()
    is_not_null = bare.upper().endswith("NOT NULL") and not bare.upper().endswith("<NOT NULL")
    try:
        cast = parse_expression(f"CAST(NULL AS {bare[:-8].strip() if is_not_null else bare})")
        return logical_type(cast.args["to"]).as_nullable(not is_not_null)
    except (StateplanError, KeyError, AttributeError):
        raise SqlError("SQL213", given=data_type, expected=expected) from None


def _types(data_types: Type | Iterable[Type] | None) -> tuple[LogicalType, ...] | None:
    if data_types is None:
        return None
    if isinstance(data_types, (str, LogicalType)):
        return (type_of(data_types),)
    return tuple(type_of(t) for t in data_types)


def _user_function(
    kind: FunctionKind,
    body: Any,
    arguments: Type | Iterable[Type] | None,
    result: LogicalType,
    *,
    accumulator: LogicalType | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> UserFunction:
    if func_type not in ("general", "pandas", "arrow"):
        raise SqlError("SQL214", func_type=func_type)
    if isinstance(body, type):
        body = body()
    method_name = {"SCALAR": "eval", "TABLE": "eval", "AGGREGATE": "accumulate", "TABLE_AGGREGATE": "accumulate"}[kind]
    of_columns = kind == "AGGREGATE" and func_type != "general"
    if not hasattr(body, method_name) and not ((method_name == "eval" or of_columns) and callable(body)):
        raise SqlError(
            "SQL214.no_function",
            body=body,
            what="function",
            expected=f"a callable, or an object with '{method_name}'"
            if method_name == "eval"
            else f"an object with '{method_name}'",
            hint=None
            if method_name == "eval"
            else "rows come one after another: a function of all of them will not do",
        )
    if deterministic is None:
        determinism = getattr(body, "is_deterministic", None)
        deterministic = bool(determinism()) if determinism is not None else True
    function_name = name or getattr(body, "__name__", None) or type(body).__name__
    vector: Any = func_type
    limits = None
    evaluate = getattr(body, method_name, body)
    if inspect.iscoroutinefunction(evaluate) or inspect.iscoroutinefunction(type(evaluate).__call__):
        if kind != "SCALAR" or func_type != "general":
            raise SqlError("SQL214.coroutine", shown=function_name)
        limits = AsyncLimits()
    return UserFunction(
        kind, body, _types(arguments), result, accumulator, vector, deterministic, function_name, asynchronous=limits
    )


def udf(
    f: Any = None,
    input_types: Type | Iterable[Type] | None = None,
    result_type: Type | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: Literal["general", "pandas", "arrow"] = "general",
) -> Any:
    """A scalar function of a callable or an object with ``eval``; without ``f`` a decorator.
    One of coroutines (``async def``) is asynchronous.

    Args:
        input_types: the types of its arguments, which are cast to them; None takes any arguments.
        func_type: with ``pandas`` (``arrow``) it is given a ``pandas.Series`` (``pyarrow.Array``) per argument and
            gives one back.

    Raises:
        SqlError: SQL213, SQL214.
    """
    result = _required_type(result_type, "result_type")

    def declare(body: Any) -> UserFunction:
        return _user_function(
            "SCALAR",
            body,
            input_types,
            result,
            deterministic=deterministic,
            name=name,
            func_type=func_type,
        )

    return declare if f is None else declare(f)


def udtf(
    f: Any = None,
    input_types: Type | Iterable[Type] | None = None,
    result_types: Type | Iterable[Type] | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Any:
    """A table function of a callable or :class:`TableFunction`; without ``f`` a decorator.

    ``result_types`` are the types of the columns, called f0, f1 ..., or one ROW.

    Raises:
        SqlError: SQL213, SQL214.
    """
    types = _types(result_types)
    if not types:
        raise SqlError("SQL214.type_missing", what="result_types")
    single = len(types) == 1 and types[0].root == "ROW"
    result = types[0] if single else row_type([(f"f{i}", t) for i, t in enumerate(types)])

    def declare(body: Any) -> UserFunction:
        return _user_function("TABLE", body, input_types, result, deterministic=deterministic, name=name)

    return declare if f is None else declare(f)


def udaf(
    f: Any = None,
    input_types: Type | Iterable[Type] | None = None,
    result_type: Type | None = None,
    accumulator_type: Type | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: Literal["general", "pandas", "arrow"] = "general",
) -> Any:
    """An aggregate function of an :class:`AggregateFunction`; without ``f`` a decorator.

    Args:
        func_type: with ``pandas`` (``arrow``) ``accumulate`` and ``retract`` are given many rows of a group at once: a
            ``pandas.Series`` (``pyarrow.Array``) per argument. ``f`` may then be a function that gives the value of all
            rows at once, which runs with OVER.

    Raises:
        SqlError: SQL213, SQL214.
    """
    return _aggregate("AGGREGATE", f, input_types, result_type, accumulator_type, deterministic, name, func_type)


def udtaf(
    f: Any = None,
    input_types: Type | Iterable[Type] | None = None,
    result_type: Type | None = None,
    accumulator_type: Type | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: Literal["general", "pandas", "arrow"] = "general",
) -> Any:
    """A table aggregate function of a :class:`TableAggregateFunction`; without ``f`` a decorator.

    ``result_type`` is the ROW of its columns, or the type of one, which is called f0.

    Raises:
        SqlError: SQL213, SQL214.
    """
    return _aggregate("TABLE_AGGREGATE", f, input_types, result_type, accumulator_type, deterministic, name, func_type)


def _aggregate(
    kind: FunctionKind,
    f: Any,
    input_types: Type | Iterable[Type] | None,
    result_type: Type | None,
    accumulator_type: Type | None,
    deterministic: bool | None,
    name: str | None,
    func_type: str,
) -> Any:
    def declare(body: Any) -> UserFunction:
        instance = body() if isinstance(body, type) else body
        result, accumulator = result_type, accumulator_type
        if result is None and hasattr(instance, "get_result_type"):
            result = instance.get_result_type()
        if accumulator is None and hasattr(instance, "get_accumulator_type"):
            accumulator = instance.get_accumulator_type()
        row = _required_type(result, "result_type")
        return _user_function(
            kind,
            instance,
            input_types,
            row_type([("f0", row)]) if kind == "TABLE_AGGREGATE" and row.root != "ROW" else row,
            accumulator=None if accumulator is None else type_of(accumulator),
            deterministic=deterministic,
            name=name,
            func_type=func_type,
        )

    return declare if f is None else declare(f)


def _required_type(data_type: Type | None, argument_name: str) -> LogicalType:
    if data_type is None:
        raise SqlError("SQL214.type_missing", what=argument_name)
    return type_of(data_type)


def of_callable(body: Callable[..., Any] | UserFunction, name: str) -> UserFunction:
    """``body`` if it is a declared function, under another name.

    Raises:
        SqlError: SQL214, for anything else.
    """
    if not isinstance(body, UserFunction):
        raise SqlError("SQL214.no_function", body=body, name=name, what="user-defined function")
    return replace(body, name=name)
