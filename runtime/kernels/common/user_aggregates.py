"""User-defined aggregate functions: an accumulator per group, as bytes in the state, changed row by row.

Source of the semantics: PyFlink's ``SimpleAggsHandleFunction``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import polars as pl

from stateplan.common.errors import CheckpointError, RunError
from stateplan.common.types import LogicalType
from stateplan.common.values.row import RowAccumulator
from stateplan.functions.user import UserFunction, settable
from stateplan.functions.values import column_of, plain_value, python_values, vector_columns
from stateplan.runtime.kernels.common.accumulator_bytes import (
    Classes,
    UnreadableError,
    UnstorableError,
    classes_of,
    decoded,
    encoded,
)
from stateplan.runtime.kernels.common.accumulators import Changes, Fold, MergeableFold
from stateplan.runtime.kernels.common.key_ids import Ints, stable_order
from stateplan.runtime.kernels.common.old_accumulators import MARK, unpickled

_METHODS = ("create_accumulator", "accumulate", "retract", "merge", "get_value", "emit_value")


class UserFold(Fold):
    """A call of a user-defined function. Sees NULLs; ``values`` of its changes are its argument, or a struct of them.

    Args:
        number: the number of the call.
        types: the types of its arguments.
        result: the result of the call, as the plan has it.
        retract: whether rows may be retracted.

    Raises:
        RunError: RUN075, for a function without ``retract`` where it is needed.
    """

    sees_nulls: ClassVar[bool] = True
    needs_order: ClassVar[bool] = True
    arguments: ClassVar[int] = 1_000

    def __init__(
        self, number: int, function: UserFunction, types: Sequence[LogicalType], result: LogicalType, retract: bool
    ) -> None:
        self._column = f"accumulator{number}"
        self._function = function
        self._types = tuple(types)
        self._result = result
        self._classes: Classes | None = None
        self.columns = {self._column: pl.Binary()}
        self.initial = {self._column: None}
        if retract and not hasattr(function.instance(), "retract"):
            raise RunError(
                "RUN075", name=function.name, hint=f"called by {function.operator}" if function.operator else None
            )

    def update(self, before: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        old = before[self._column]
        if not len(changes.codes):
            return [old]
        accumulators = old.to_list()
        signs = np.ones(len(changes.codes), np.int64) if changes.signs is None else changes.signs
        accumulate = self._function.method("accumulate")
        retract = self._function.method("retract") if (signs < 0).any() else accumulate
        open_: dict[int, Any] = {}
        for group, sign, row in self._steps(changes, signs):
            if group not in open_:
                open_[group] = self._decode_accumulator(accumulators[group])
            accumulator = open_[group]
            new_accumulator = self._function.call(accumulate if sign > 0 else retract, (accumulator, *row))
            if new_accumulator is not None:
                open_[group] = new_accumulator
        for group, accumulator in open_.items():
            accumulators[group] = self._encode_accumulator(accumulator)
        return [pl.Series(self._column, accumulators, dtype=pl.Binary())]

    def value(self, state: pl.DataFrame) -> pl.Series:
        get_value = self._function.method("get_value")
        results = [self._function.call(get_value, (accumulator,)) for accumulator in self.load(state)]
        if self._function.vector != "general":
            results = [plain_value(v, self._result) for v in results]
        return column_of(results, self._result, self._function)

    def load(self, state: pl.DataFrame) -> list[Any]:
        """The accumulator of each row of state."""
        return [self._decode_accumulator(data) for data in state[self._column].to_list()]

    def _steps(self, changes: Changes, signs: Ints) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        """Calls to make: the group, +1 or -1, and the arguments; of functions on columns one for the rows of a group
        that come, or go, one after another."""
        if not self._types:
            yield from ((group, sign, ()) for group, sign in zip(changes.codes.tolist(), signs.tolist(), strict=True))
            return
        columns = [changes.column] if len(self._types) == 1 else changes.column.struct.unnest().get_columns()
        if self._function.vector == "general":
            lists = [python_values(c, t) for c, t in zip(columns, self._types, strict=True)]
            yield from zip(changes.codes.tolist(), signs.tolist(), zip(*lists, strict=True), strict=True)
            return
        order = stable_order(changes.codes)
        codes, signs = changes.codes[order], signs[order]
        starts = np.flatnonzero(np.r_[True, (np.diff(codes) != 0) | (np.diff(signs) != 0)])
        sorted_columns = [c[order] for c in columns]
        for start, end in pairwise([*starts.tolist(), len(codes)]):
            arguments = vector_columns(self._function, [c[start:end] for c in sorted_columns], self._types)
            yield int(codes[start]), int(signs[start]), tuple(arguments)

    def _fresh(self) -> Any:
        return self._function.fresh_accumulator()

    def _decode_accumulator(self, data: bytes | None) -> Any:
        """The accumulator; a new one without data. Raises CheckpointError CKPT009."""
        if data is None:
            return self._fresh()
        try:
            read = unpickled if data.startswith(MARK) else decoded
            return settable(read(data, self._known_classes))
        except UnreadableError as cause:
            hint = f"called by {self._function.operator}" if self._function.operator else None
            raise CheckpointError("CKPT009", name=self._function.name, reason=str(cause), hint=hint) from cause

    def _encode_accumulator(self, accumulator: Any) -> bytes:
        try:
            content = accumulator.row() if isinstance(accumulator, RowAccumulator) else accumulator
            return encoded(content, self._known_classes)
        except Exception as cause:  # its attributes are a user's code
            kind = "" if isinstance(cause, UnstorableError) else f"{type(cause).__name__}: "
            raise RunError("RUN076", name=self._function.name, cause=f"{kind}{str(cause)[:200]}") from cause

    def _known_classes(self) -> Classes:
        """The classes that the function's code refers to, in this process."""
        if self._classes is None:
            body = self._function.instance()
            methods = [getattr(body, name, None) for name in _METHODS]
            self._classes = classes_of(methods, body, self._fresh())
        return self._classes


class MergeableUserFold(UserFold, MergeableFold):
    """A call of a function with ``merge``."""

    def merge(self, before: pl.DataFrame, parts: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        accumulators = before[self._column].to_list()
        merge = self._function.method("merge")
        open_: dict[int, Any] = {}
        for group, part in zip(changes.codes.tolist(), parts[self._column].to_list(), strict=True):
            if part is None:  # no row of the mini-batch got past the call's filter
                continue
            if group not in open_:
                open_[group] = self._decode_accumulator(accumulators[group])
            new_accumulator = self._function.call(merge, (open_[group], [self._decode_accumulator(part)]))
            if new_accumulator is not None:
                open_[group] = new_accumulator
        for group, accumulator in open_.items():
            accumulators[group] = self._encode_accumulator(accumulator)
        return [pl.Series(self._column, accumulators, dtype=pl.Binary())]


def user_fold(function: UserFunction) -> type[UserFold]:
    """What computes the calls of a function."""
    return MergeableUserFold if hasattr(function.instance(), "merge") else UserFold
