"""Row expressions compiled for frames: projections with a filter, and the values of constants."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import polars as pl

from stateplan.common.changelog import KIND, column
from stateplan.common.errors import DataError, Place, RunError, StateplanError, find_encoded
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.small_frames import without
from stateplan.functions.render import NOW, WATERMARK, Check, Renderer
from stateplan.functions.render.random import random_columns
from stateplan.functions.rex import InputRef, Rex, reads_watermark
from stateplan.functions.rex_text import rex_text

_CHECK = "@check"
_HEIGHT = "@height"


@dataclass(frozen=True)
class _Compiled:
    """A list of expressions ready to select: values by output name, checks, and whether clock or watermark is read."""

    values: tuple[pl.Expr, ...]
    checks: tuple[Check, ...]
    uses_now: bool
    uses_watermark: bool
    randoms: int
    inputs: tuple[str, ...] | None
    """The input columns that the values are; None if any is not one."""
    anchored: bool
    """Whether a value is as long as the frame (and not a constant)."""


def _compile(rexes: tuple[Rex, ...], names: tuple[str, ...], time_zone: str) -> _Compiled:
    renderer = Renderer(time_zone)
    values = []
    for rex, name in zip(rexes, names, strict=True):
        e = renderer.expr(rex)
        if not isinstance(rex, InputRef):
            e = e.cast(rex.type.polars())
        values.append(e.alias(name))
    return _Compiled(
        tuple(values),
        tuple(renderer.checks),
        renderer.uses_now,
        renderer.uses_watermark,
        renderer.randoms,
        _input_columns(rexes),
        any(v.meta.root_names() for v in values),
    )


def _input_columns(rexes: tuple[Rex, ...]) -> tuple[str, ...] | None:
    names = tuple(column(rex.index) for rex in rexes if isinstance(rex, InputRef))
    return names if len(names) == len(rexes) else None


@dataclass(frozen=True)
class Program(FrozenDataclass):
    """Projection and filter of frames. Picklable; compiled once per process.

    Args:
        projection: one expression per output field; the output columns are c0, c1, ...
        condition: rows on which it is not TRUE are dropped; None keeps all.
        time_zone: the session's ``table.local-time-zone``.
        operator: the operator it runs for, as errors name it.
        names: the names of the input fields, for errors.
    """

    projection: tuple[Rex, ...]
    condition: Rex | None = None
    time_zone: str = "UTC"
    operator: str | None = None
    names: tuple[str, ...] = ()

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """Names and Polars types of the output columns, without ``kind``."""
        return {column(i): rex.type.polars() for i, rex in enumerate(self.projection)}

    @property
    def is_random(self) -> bool:
        """Whether random values are in it."""
        return any(p is not None and p.randoms for p in self._programs)

    @property
    def reads_watermark(self) -> bool:
        """Whether CURRENT_WATERMARK is in it; see :class:`runtime.kernel.Transform`."""
        return any(reads_watermark(e) for e in (*self.projection, self.condition) if e is not None)

    @cached_property
    def _programs(self) -> tuple[_Compiled | None, _Compiled]:
        names = tuple(column(i) for i in range(len(self.projection)))
        condition = None if self.condition is None else _compile((self.condition,), ("value",), self.time_zone)
        return condition, _compile(self.projection, names, self.time_zone)

    def __call__(self, frame: pl.DataFrame, now: int, watermark: int | None = None) -> pl.DataFrame:
        """The rows that pass, projected; column ``kind`` is kept.

        Args:
            frame: columns c0, c1, ... and perhaps ``kind``.
            now: the micro-batch's time, epoch milliseconds.
            watermark: how far event time has advanced, epoch milliseconds; None before the first watermark.

        Raises:
            DataError: DATA301, naming function and value, where Flink would fail the job on a row.
            RunError: RUN301 or RUN302, for an expression that cannot be run.
        """
        return self.in_piece(frame, now, watermark, "")

    def in_piece(self, frame: pl.DataFrame, now: int, watermark: int | None, piece: str) -> pl.DataFrame:
        """As :meth:`__call__`, with random values that belong to a piece of the micro-batch's rows."""
        try:
            return self._run(frame, now, watermark, piece)
        except StateplanError:
            raise
        except (Exception, pl.exceptions.PanicException) as cause:
            raise _failure(cause) from cause

    def _randomized(self, frame: pl.DataFrame, program: _Compiled, now: int, piece: str) -> pl.DataFrame:
        if not program.randoms:
            return frame
        part = "where" if program is self._programs[0] else "select"
        return frame.with_columns(random_columns(frame.height, program.randoms, f"{now}\0{piece}\0{part}"))

    def _run(self, frame: pl.DataFrame, now: int, watermark: int | None, piece: str) -> pl.DataFrame:
        condition, projection = self._programs
        kind = [KIND] if KIND in frame.columns else []
        if frame.height == 0:
            schema = self.schema
            return pl.DataFrame(schema=schema | {KIND: pl.Int8()} if kind else schema)
        if projection.uses_now or (condition is not None and condition.uses_now):
            frame = frame.with_columns(pl.lit(now, dtype=pl.Int64).alias(NOW))
        if projection.uses_watermark or (condition is not None and condition.uses_watermark):
            frame = frame.with_columns(pl.lit(watermark, dtype=pl.Int64).alias(WATERMARK))
        if condition is not None:
            frame = self._randomized(frame, condition, now, piece)
            if condition.checks:
                self._verify(frame, condition.checks)
            frame = frame.filter(condition.values[0])
        frame = self._randomized(frame, projection, now, piece)
        if projection.inputs is not None:
            input_columns = [frame[source].alias(column(i)) for i, source in enumerate(projection.inputs)]
            return pl.DataFrame([*input_columns, *(frame[name] for name in kind)])
        extra: list[pl.Expr] = [c.condition.any().alias(f"{_CHECK}{i}") for i, c in enumerate(projection.checks)]
        if not (projection.anchored or kind):
            extra.append(pl.int_range(pl.len()).alias(_HEIGHT))
        out = frame.select([*projection.values, *kind, *extra])
        if not extra:
            return out
        if out.height and any(out[f"{_CHECK}{i}"][0] for i in range(len(projection.checks))):
            self._verify(frame, projection.checks)
        return without(out, *(e.meta.output_name() for e in extra))

    def _verify(self, frame: pl.DataFrame, checks: tuple[Check, ...]) -> None:
        """Raises DataError for the first check that is TRUE on a row."""
        for check in checks:
            value_columns = [v.alias(f"v{i}") for i, v in enumerate(check.values)]
            wrong_rows = frame.filter(check.condition.fill_null(False))
            if wrong_rows.height:
                row = wrong_rows.head(1).select(value_columns).row(0) if value_columns else ()
                values = ", ".join(_value_text(v) for v in row)
                text = None if check.call is None else rex_text(check.call, self.names)
                raise DataError(
                    "DATA301",
                    name=check.function,
                    problem=check.problem.replace("{}", values),
                    place=Place(operator=self.operator, expression=text),
                )


def _failure(cause: BaseException) -> StateplanError:
    """What went wrong inside Polars, as an error of this project."""
    encoded_error = find_encoded(str(cause))
    if encoded_error is not None:
        return encoded_error
    return RunError("RUN304", splitlines=str(cause).splitlines()[0])


def _value_text(value: object) -> str:
    return f"'{value:.60}'" if isinstance(value, str) else "NULL" if value is None else str(value)


@lru_cache(maxsize=1)
def _one_row() -> pl.DataFrame:
    return pl.DataFrame({"@one": [0]})


def evaluate(rex: Rex, now: int = 0, time_zone: str = "UTC") -> Any:
    """The value of a constant expression, as Polars returns it to Python. Raises the same errors as :class:`Program`
    does."""
    return Program((rex,), None, time_zone)(_one_row(), now).item()
