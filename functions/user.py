"""User-defined functions in Python: what is known of one, and how its values go in and out.

A function is a callable, or an object with ``eval`` (scalar, table and process table functions) or
``create_accumulator``, ``accumulate``, ``get_value`` ... (aggregate functions). Names and types are as in PyFlink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any, Literal, TypeAlias

from stateplan.common.errors import DataError, RunError, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import shorten
from stateplan.common.types import LogicalType
from stateplan.common.values.row import Row, RowAccumulator
from stateplan.functions.process import ProcessDeclaration

FunctionKind: TypeAlias = Literal["SCALAR", "TABLE", "AGGREGATE", "TABLE_AGGREGATE", "PROCESS_TABLE"]

KIND_WORDS: dict[FunctionKind, str] = {
    "SCALAR": "a scalar function",
    "TABLE": "a table function",
    "AGGREGATE": "an aggregate function",
    "TABLE_AGGREGATE": "a table aggregate function",
    "PROCESS_TABLE": "a process table function",
}


class FunctionContext:
    """The argument of ``open`` of a function."""

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """``default_value``: a job has no parameters of its own."""
        return default_value


@dataclass(frozen=True)
class AsyncLimits:
    """How calls of an asynchronous function are awaited.

    Attributes:
        concurrent: how many at the same time.
        timeout: how long, in ms, with all attempts; 0 is forever.
        retries: how often a call that failed is made again.
        delay: how long after it, in ms.
    """

    concurrent: int = 10
    timeout: int = 180_000
    retries: int = 3
    delay: int = 100


@dataclass(frozen=True)
class UserFunction:
    """A function as it was declared.

    Attributes:
        kind: what it gives: a value per row, rows per row, a value per group, rows per group, rows of tables.
        body: the callable or object; in a job something with ``value`` that is it.
        arguments: types of its arguments; None for any.
        result: type of its result; of functions that return rows a ROW.
        accumulator: type of the accumulator; None for any Python object.
        vector: ``pandas`` or ``arrow`` when it accepts and returns whole columns, else ``general``.
        deterministic: whether equal arguments produce equal results.
        name: for messages.
        operator: the operator that calls it, for messages.
        asynchronous: how its calls are awaited; None for a function that is none of coroutines.
        process: what a process table function declares; None for others.
    """

    kind: FunctionKind
    body: Any = field(compare=False, repr=False)
    arguments: tuple[LogicalType, ...] | None
    result: LogicalType
    accumulator: LogicalType | None = None
    vector: Literal["general", "pandas", "arrow"] = "general"
    deterministic: bool = True
    name: str = "a function"
    operator: str = ""
    asynchronous: AsyncLimits | None = None
    process: ProcessDeclaration | None = None

    @property
    def signature(self) -> str:
        """``f(BIGINT, STRING)``."""
        if self.process is not None:
            return f"{self.name}({', '.join(a.summary for a in self.process.arguments)})"
        types = "..." if self.arguments is None else ", ".join(t.summary() for t in self.arguments)
        return f"{self.name}({types})"

    def with_name(self, name: str) -> UserFunction:
        return replace(self, name=name)

    def instance(self) -> Any:
        """The body, ready to be called in this process."""
        return self.body.value if hasattr(self.body, "value") else self.body

    def caller(self) -> Callable[..., Any]:
        """What to call for a row. Raises RunError RUN071 when there is nothing to call."""
        return self.method("eval")

    def method(self, name: str) -> Callable[..., Any]:
        """A method of the body, or a body that is callable itself for ``eval``.

        Raises:
            RunError: RUN071, when it has none.
        """
        body = self.instance()
        method: Callable[..., Any] | None = getattr(body, name, None)
        if method is None and name == "eval" and callable(body):
            method = body
        if method is None:
            raise RunError(
                "RUN071", function=self.name, method=name, hint=f"called by {self.operator}" if self.operator else None
            )
        return method

    def call(self, method: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """What ``method`` gives. Raises DataError DATA310 for an exception inside; errors with a code pass."""
        try:
            return method(*arguments)
        except StateplanError:
            raise
        except Exception as cause:  # whatever a user's code raises
            raise self.failed(cause, arguments) from cause

    def fresh_accumulator(self) -> Any:
        """What ``create_accumulator`` gives; a row as one whose fields can be set. Raises the same errors as
        :meth:`call`."""
        return settable(self.call(self.method("create_accumulator"), ()))

    def failed(self, cause: BaseException, arguments: Sequence[Any]) -> DataError:
        """The error for an exception inside the function.

        A ``TypeError`` of the call itself is what a wrong number of arguments looks like.
        """
        argument_texts = ", ".join(shorten(repr(a)) for a in arguments)
        caller = f" by {self.operator}" if self.operator else ""
        return DataError(
            "DATA310",
            name=self.name,
            cause_name=type(cause).__name__,
            cause=str(cause)[:300],
            shown=argument_texts,
            where=caller,
        )

    def wrong_result(self, value: Any, result_type: LogicalType) -> DataError:
        """The error for a result of another type."""
        caller = f", called by {self.operator}" if self.operator else ""
        return DataError(
            "DATA311",
            name=self.name,
            shown=shorten(repr(value)),
            value_name=type(value).__name__,
            where=caller,
            expected=result_type.summary() + ("" if result_type.nullable else ", not NULL"),
        )

    def wrong_rows(self, row_count: int | str, expected_count: int) -> DataError:
        """The error for a column of another length."""
        return DataError("DATA312", name=self.name, found=row_count, wanted=expected_count)

    def yielded(
        self, method: Callable[..., Any], arguments: Sequence[Any], shown_arguments: Sequence[Any]
    ) -> Sequence[Any]:
        """The rows that ``method`` yields or returns for arguments, none of them a table.

        Args:
            shown_arguments: the arguments that the error shows.

        Raises:
            DataError: DATA310, for an exception inside.
        """
        try:
            result = method(*arguments)
            if result is None:
                return ()
            if isinstance(result, (str, bytes, dict, tuple)) or not hasattr(result, "__iter__"):
                return (result,)
            return list(result)
        except StateplanError:
            raise
        except Exception as cause:  # whatever a user's code raises
            raise self.failed(cause, shown_arguments) from cause

    def rows(
        self, arguments: Sequence[Any], method: str = "eval", shown_arguments: Sequence[Any] | None = None
    ) -> Iterator[Any]:
        """The rows that ``method``, a table function's by default, gives for arguments.

        Args:
            shown_arguments: the arguments that the error shows; by default all.

        Raises:
            DataError: DATA310, for an exception inside.
        """
        try:
            result = self.method(method)(*arguments)
            if result is None:
                return
            if isinstance(result, (str, bytes, dict, tuple)) or not hasattr(result, "__iter__"):
                yield from _unpacked(result)
                return
            for part in [result] if _is_table(result) else result:
                yield from _unpacked(part)
        except (DataError, RunError):
            raise
        except Exception as cause:  # whatever a user's code raises
            raise self.failed(cause, arguments if shown_arguments is None else shown_arguments) from cause


def _is_table(result: Any) -> bool:
    """Whether it is a pandas.DataFrame, or a Table or RecordBatch of PyArrow."""
    return hasattr(result, "itertuples") or (hasattr(result, "to_pylist") and hasattr(result, "schema"))


def _unpacked(result: Any) -> Iterable[Any]:
    """The rows of a table, anything else as it is."""
    if not _is_table(result):
        return (result,)
    rows: Iterable[Any] = (
        result.itertuples(index=False, name=None) if hasattr(result, "itertuples") else result.to_pylist()
    )
    return rows


def settable(accumulator: Any) -> Any:
    """An accumulator, whose fields can be set if it is a row, as in PyFlink."""
    return RowAccumulator.of(accumulator) if isinstance(accumulator, Row) else accumulator
