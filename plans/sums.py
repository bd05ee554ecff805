"""How the sum of an expression follows from the sum of the field in it.

The sum of ``factor * field + addend`` is ``factor`` times the sum of the field, plus ``addend`` for each value. That is
exact for whole numbers, as long as all of them wrap around at the same width; and for DECIMAL, as long as nothing is
rounded and no sum overflows.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType, type_from_json
from stateplan.plans.meanings import FieldMeanings, is_field

_DIGITS = 38
"""Digits of the largest DECIMAL."""
_ROW_DIGITS = 18
"""Digits of the number of rows that a job can read."""


@dataclass(frozen=True)
class LinearForm:
    """``factor * field + addend``.

    Attributes:
        field: the hash of the values of the field.
        field_type: its type.
        type: the type of the whole.
        factor, addend: numbers.
    """

    field: str
    field_type: LogicalType
    type: LogicalType
    factor: Fraction = Fraction(1)
    addend: Fraction = Fraction(0)

    @property
    def is_field(self) -> bool:
        """Whether it is the field alone."""
        return self.factor == 1 and self.addend == 0

    @property
    def scale(self) -> int:
        """Digits behind the point."""
        return self.type.scale or 0

    @property
    def never_overflows(self) -> bool:
        """Whether no sum of its values is too large for a DECIMAL, in whatever order they are added."""
        return self.digits + self.scale + _ROW_DIGITS <= _DIGITS

    @property
    def digits(self) -> int:
        """The most digits in front of the point."""
        largest = Fraction(10 ** (self.field_type.precision or 0) - 1, 10 ** (self.field_type.scale or 0))
        return len(str(int(abs(self.factor) * largest + abs(self.addend))))

    def times_plus(self, factor: Fraction, addend: Fraction, kind: LogicalType) -> LinearForm | None:
        """``factor * self + addend`` with results of a type; None where some would be rounded, wrap around at another
        width, or be no value of the type."""
        form = replace(self, type=kind, factor=factor * self.factor, addend=factor * self.addend + addend)
        if kind.is_integer:
            is_whole = factor.denominator == addend.denominator == 1
            widens = self.is_field and self.type.is_narrower(kind)
            return form if is_whole and (widens or self.type.root == kind.root) else None
        if kind.root != "DECIMAL" or self.field_type.root != "DECIMAL":
            return None
        scale = max((self.field_type.scale or 0) + _places(form.factor), _places(form.addend))
        return form if scale <= form.scale and form.digits <= (kind.precision or 0) - form.scale else None


def _places(number: Fraction) -> int:
    """Digits behind the point, of a decimal number."""
    return next(places for places in itertools.count() if (number * 10**places).denominator == 1)


def linear_form(field_hash: str, meanings: FieldMeanings) -> LinearForm | None:
    """A field of numbers as an expression of another one, or of itself; None for one of floating-point numbers."""
    expression = meanings.expressions.get(field_hash)
    if expression is not None and expression.settings == "{}":
        form = _form(expression.value, meanings)
        if isinstance(form, LinearForm):
            return form
    kind = meanings.types.get(field_hash)
    if kind is None or not (kind.is_integer or kind.root == "DECIMAL"):
        return None
    return LinearForm(meanings.values(field_hash), kind, kind)


def _form(rex: Any, meanings: FieldMeanings) -> LinearForm | Fraction | None:
    """An expression as a form or a constant; None where it is neither."""
    if is_field(rex):
        return linear_form(rex["field"], meanings)
    kind = type_from_json(rex["type"]) if "type" in rex else None
    if kind is None:
        return None
    if rex.get("kind") == "LITERAL":
        is_number = (kind.is_integer or kind.root == "DECIMAL") and rex.get("value") is not None
        return Fraction(str(rex["value"])) if is_number else None
    name = rex.get("internalName")
    if name not in ("$CAST$1", "$-$1", "$+$1", "$*$1"):
        return None
    parts = [_form(operand, meanings) for operand in rex.get("operands", ())]
    match parts:
        case [Fraction() as number]:
            fits = kind.root == "DECIMAL" and _places(number) <= (kind.scale or 0)
            return number if name == "$CAST$1" and fits else None
        case [LinearForm() as form]:
            return form.times_plus(Fraction(-1 if name == "$-$1" else 1), Fraction(0), kind)
        case [LinearForm() as form, Fraction() as number] if name != "$*$1":
            return form.times_plus(Fraction(1), number if name == "$+$1" else -number, kind)
        case [Fraction() as number, LinearForm() as form] if name != "$*$1":
            return form.times_plus(Fraction(-1 if name == "$-$1" else 1), number, kind)
        case [LinearForm() as form, Fraction() as number] | [Fraction() as number, LinearForm() as form]:
            return form.times_plus(number, Fraction(0), kind)
    return None


def factors(old: LinearForm, new: LinearForm, widths: tuple[LogicalType, LogicalType]) -> tuple[int, int] | None:
    """By what the digits of a sum are multiplied, and what is added for each value, to get another sum.

    Args:
        old, new: what is added up.
        widths: the types of both sums.

    Returns:
        None where the sum does not follow exactly.
    """
    if old.field != new.field or abs(old.factor) != 1:
        return None
    factor = new.factor * old.factor
    addend = new.addend - factor * old.addend
    if new.type.is_integer and old.type.is_integer:
        wraps_alike = all(
            form.is_field or form.type.root == kind.root for form, kind in zip((old, new), widths, strict=True)
        )
        return (int(factor), int(addend)) if wraps_alike and not widths[0].is_narrower(widths[1]) else None
    if not old.never_overflows or not new.never_overflows:
        return None
    digits = factor * Fraction(10) ** (new.scale - old.scale), addend * 10**new.scale
    return (int(digits[0]), int(digits[1])) if digits[0].denominator == digits[1].denominator == 1 else None
