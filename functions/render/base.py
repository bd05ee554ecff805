"""Rendering row expressions as Polars expressions: the renderer, and the registry of how each function is rendered.

A rendered expression never raises for a row that Flink would not fail on: what can fail returns NULL there and records
a :class:`Check`, whose condition is only true on rows that Flink would evaluate (the branch of a CASE that is taken,
the right side of an AND whose left is not FALSE). :mod:`runtime.transforms.calc` evaluates the checks with the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import polars as pl

from stateplan.common.changelog import column
from stateplan.common.errors import RunError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.common.values.codecs import plan_value
from stateplan.functions.rex import Call, FieldAccess, InputRef, Literal, Rex

NOW = "@now"
WATERMARK = "@watermark"
"""Column with the micro-batch's time in epoch milliseconds (Int64), present when an expression needs it."""
RANDOM = "@random"
"""With a number behind it, a column of random words (UInt64); as many as an expression needs."""

Render = Callable[["Renderer", Call], pl.Expr]
F = TypeVar("F", bound=Render)

RENDERERS: dict[str, Render] = {}
"""Plan name of a function (``UPPER`` of ``$UPPER$1``) to its rendering."""

USER_DEFINED = "a user-defined function"
"""The key of the rendering of all functions that users define."""


def renders(*names: str) -> Callable[[F], F]:
    """Registers a rendering for the functions with these plan names."""

    def register(render: F) -> F:
        for name in names:
            if name in RENDERERS:
                raise ValueError(f"{name} is rendered twice")
            RENDERERS[name] = render
        return render

    return register


def renders_all(table: Mapping[str, Render]) -> None:
    """Registers a rendering for each name."""
    for name, render in table.items():
        renders(name)(render)


def by_values(function: Callable[..., pl.Expr]) -> Render:
    """The rendering of a function that needs only the values of its operands."""
    return lambda r, call: function(*r.args(call))


def renders_by_values(table: Mapping[str, Callable[..., pl.Expr]]) -> None:
    """Registers functions that need only the values of their operands."""
    renders_all({name: by_values(function) for name, function in table.items()})


def constant(literal: Literal) -> Any:
    """:func:`plan_value` of a literal; None for NULL, and the name of a symbol."""
    if literal.value is None or literal.symbol is not None:
        return literal.value
    return plan_value(literal.type, literal.value)


def constant_text(rex: Rex) -> str | None:
    """The text that an operand is when it is a constant."""
    return rex.value if isinstance(rex, Literal) and isinstance(rex.value, str) else None


@dataclass(frozen=True)
class Check:
    """A condition that fails the job where it is TRUE.

    Attributes:
        condition: BOOLEAN expression.
        function: what fails, for the message: ``CAST``.
        values: the operands to show.
        problem: why, for the message; ``{}`` stands for the values: ``{} is not a number``.
        call: the row expression that fails; None for a check outside of a call.
    """

    condition: pl.Expr
    function: str
    values: tuple[pl.Expr, ...]
    problem: str
    call: Rex | None = None


class Renderer:
    """Renders expressions over one input row type.

    Args:
        time_zone: the session's ``table.local-time-zone``, an IANA name.

    Attributes:
        checks: the checks of everything rendered so far.
        uses_now: whether a rendered expression reads the column :data:`NOW`.
        uses_watermark: whether one reads the column :data:`WATERMARK`.
        randoms: how many columns :data:`RANDOM` they read.
        legacy_casts: whether a cast writes texts as before Flink 1.15, and neither cuts nor fills them.
    """

    def __init__(self, time_zone: str = "UTC") -> None:
        self.time_zone = time_zone
        self.checks: list[Check] = []
        self.uses_now = False
        self.uses_watermark = False
        self.randoms = 0
        self.legacy_casts = False
        self._seeds: dict[str, int] = {}
        self._guards: list[pl.Expr] = []
        self._calls: list[Rex] = []

    def expr(self, rex: Rex) -> pl.Expr:
        """The Polars expression of ``rex``; its dtype is ``rex.type.polars()``.

        Raises:
            RunError: RUN301, for a function or expression that cannot be run.
        """
        if isinstance(rex, InputRef):
            return pl.col(column(rex.index))
        if isinstance(rex, Literal):
            return self.literal(rex.type, constant(rex))
        if isinstance(rex, Call):
            render = RENDERERS.get(USER_DEFINED if rex.is_user_defined else rex.name)
            if render is None:
                raise RunError("RUN301", what=f"the function {rex.name}")
            self._calls.append(rex)
            try:
                return render(self, rex)
            finally:
                self._calls.pop()
        if isinstance(rex, FieldAccess):
            row = self.expr(rex.expr)
            return pl.when(row.is_not_null()).then(row.struct.field(rex.name))
        raise RunError(
            "RUN301", what=f"an expression of kind {type(rex).__name__}", expected="a field, a literal or a call"
        )

    def args(self, call: Call) -> list[pl.Expr]:
        """All operands rendered, but symbols, which are not values."""
        return [self.expr(o) for o in call.operands if o.type.root != "SYMBOL"]

    def literal(self, t: LogicalType, value: Any) -> pl.Expr:
        """A constant of type ``t``."""
        return pl.lit(value, dtype=t.polars())

    def now(self) -> pl.Expr:
        """The micro-batch's time, epoch milliseconds as Int64."""
        self.uses_now = True
        return pl.col(NOW)

    def random(self, seed: str | None = None) -> pl.Expr:
        """A random word per row, as UInt64; always the same one for a constant ``seed``."""
        number = self.randoms if seed is None else self._seeds.setdefault(seed, self.randoms)
        self.randoms = max(self.randoms, number + 1)
        return pl.col(f"{RANDOM}{number}")

    def watermark(self) -> pl.Expr:
        """How far event time has advanced, epoch milliseconds as Int64; NULL before the first watermark."""
        self.uses_watermark = True
        return pl.col(WATERMARK)

    @contextmanager
    def guard(self, condition: pl.Expr) -> Iterator[None]:
        """Within, checks only count on rows where ``condition`` is TRUE."""
        self._guards.append(condition)
        try:
            yield
        finally:
            self._guards.pop()

    def guarded(self) -> pl.Expr | None:
        """The condition under which a row is computed here; None where every row is."""
        condition: pl.Expr | None = None
        for outer in reversed(self._guards):
            condition = outer if condition is None else outer & condition
        return condition

    def fail_where(self, condition: pl.Expr, function: str, problem: str, *values: pl.Expr) -> None:
        """Records that a row on which ``condition`` is TRUE fails the job."""
        for outer in reversed(self._guards):
            condition = outer & condition
        self.checks.append(Check(condition, function, values, problem, self._calls[-1] if self._calls else None))

    def strict(self, result: pl.Expr, function: str, problem: str, *values: pl.Expr) -> pl.Expr:
        """``result``, failing where it is NULL although no operand is."""
        fails = result.is_null()
        for value in values:
            fails = fails & value.is_not_null()
        self.fail_where(fails, function, problem, *values)
        return result


def exact_quotient(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """a / b of two FLOAT or two DOUBLE expressions, correctly rounded; a DOUBLE where b is a constant.

    Polars divides by a scalar as it multiplies with the reciprocal, which is off by one unit in the last place for some
    values: a constant divisor is spread over a column.
    """
    if b.meta.root_names():
        return a / b
    return a.cast(pl.Float64) / (b.cast(pl.Float64) + pl.int_range(pl.len()).cast(pl.Float64) * 0.0)
