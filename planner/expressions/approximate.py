"""DOUBLE constants, whose text in a plan depends on how they came about.

Calcite keeps a constant that was written as ``1e0``, computed, or handed to a source and back, as a double; one that a
cast gave a type is kept as the decimal it was. Both are in the plan as text; descriptions show only the first with an
exponent. Source: Calcite's ``RexLiteral`` and ``Util.toScientificNotation``.
"""

from __future__ import annotations

from decimal import Decimal

from stateplan.common.values.floats import double_text

_MOST_DIGITS = 20


class Approximate(str):
    """The text of a constant that is kept as a double."""

    __slots__ = ()

    @classmethod
    def shortest(cls, value: float) -> Approximate:
        """``value`` as ``BigDecimal.valueOf`` has it: ``100.0``, ``1.0E+10``."""
        return cls(Decimal(double_text(value)) if value else "0.0")

    @classmethod
    def exact(cls, value: float) -> Approximate:
        """``value`` in all its digits."""
        return cls(str(Decimal(value)))


def scientific(text: str) -> str:
    """The number as descriptions show it: ``1.5E0``, ``1.000E2``, ``0E-1``."""
    sign, digits, exponent = Decimal(text).as_tuple()
    if not isinstance(exponent, int):
        return text
    unscaled = "".join(map(str, digits))
    significand = unscaled[:_MOST_DIGITS]
    if exponent == 0:
        significand = significand[0] + significand[1:].rstrip("0")
    rest = f".{significand[1:]}" if len(significand) > 1 else ""
    return f"{'-' if sign else ''}{significand[0]}{rest}E{len(unscaled) - 1 + exponent}"
