"""``Double.toString`` and ``Float.toString`` as Java 17 has them, for single values and for columns.

Most texts have the shortest digits that read back as the same number. Java 17 writes other digits for some powers of
two, for subnormal numbers, and for numbers with more digits than the mantissa holds; there this module follows its
algorithm step by step, overflows included (see docs/decisions/0014-java-floats.md).

Source: ``jdk.internal.math.FloatingDecimal`` of JDK 17.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

from stateplan.common.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

_LONG_END = 2.0**63
_SHORTEST_AGAIN = 1e40
"""Beyond it, nothing halfway between two neighbours has as few digits as they have, and no ``long`` overflows."""

_FEW = 200
"""Fewer numbers are quicker one by one."""


@dataclass(frozen=True)
class _Width:
    """A binary format: bits of the mantissa, exponent and value of the smallest normal number."""

    bits: int
    min_exponent: int

    @property
    def min_normal(self) -> float:
        return 2.0**self.min_exponent

    @property
    def whole_from(self) -> float:
        """From here on up to 2^63, Java writes a number as a ``long`` that it cuts itself."""
        return 2.0 ** (self.bits + 1)


_DOUBLE, _FLOAT = _Width(53, -1022), _Width(24, -126)

_CUT_FROM = (4, 7, 10, 14, 17, 20, 24, 27, 30, 34, 37)
"""One more digit of a ``long`` is cut off for each of these that its highest bit's distance from the mantissa reaches
(``insignificantDigitsForPow2``)."""
_POWERS_OF_TEN = [10 ** sum(d >= start for start in _CUT_FROM) for d in range(64)]


def _digits(size: float, width: _Width) -> tuple[str, int]:
    """Java's digits of a positive number, and the exponent of 0.digits (``BinaryToASCIIBuffer.dtoa``)."""
    fraction, exponent = math.frexp(size)
    mantissa, exponent = int(fraction * 2**53), exponent - 1
    bits = width.bits - max(0, width.min_exponent - exponent)
    zeros = (mantissa & -mantissa).bit_length() - 1
    tiny = max(0, 52 - zeros - exponent)
    if -21 <= exponent <= 62 and tiny == 0:
        cut = _POWERS_OF_TEN[max(0, exponent - bits - 1)]
        count, rest = divmod(int(size), cut)
        text = str((count + (rest * 2 >= cut > 1)) * cut)
        return text.rstrip("0"), len(text)
    place = math.floor((mantissa / 2**52 - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)
    return _generate(mantissa >> zeros, exponent, tiny, bits, place)


def _bits_of_5(power: int) -> int:
    return (5**power).bit_length() if 0 < power < 27 else power * 3


def _wrap(value: int, word: int) -> int:
    """``value`` in an ``int`` or ``long`` of ``word`` bits; ``word`` 0 has room for all."""
    return (value + (1 << word - 1)) % (1 << word) - (1 << word - 1) if word else value


def _generate(mantissa: int, exponent: int, tiny: int, bits: int, place: int) -> tuple[str, int]:
    """Digits, and exponent of 0.digits, until what is left is less than half a unit in the last place.

    Args:
        mantissa: without its trailing zeros.
        exponent: of its highest bit.
        tiny: bits behind the binary point.
        bits: the bits that the format has for this number.
        place: estimated exponent of the first digit, right or one too high.
    """
    length = mantissa.bit_length()
    fives, unit_fives = max(0, -place), max(0, place)
    twos, unit_twos = fives + tiny + exponent, unit_fives + tiny
    half = twos - bits - (length == 1)
    twos -= length - 1
    common = min(twos, unit_twos, half)
    twos, unit_twos, half = twos - common, unit_twos - common, half - common
    size = max(length + twos + _bits_of_5(fives), unit_twos + 1 + _bits_of_5(unit_fives + 1))
    word = 32 if size < 32 else 64 if size < 64 else 0
    rest, unit, margin = mantissa * 5**fives << twos, 5**unit_fives << unit_twos, 5**fives << half
    ten = unit * 10
    digits, low, high = "", False, False
    while not (low or high):
        digit, rest = divmod(rest, unit)
        rest, margin = rest * 10, _wrap(margin * 10, word)
        if not word:
            low, high = rest < margin, rest + margin >= ten
        elif margin > 0:
            low, high = rest < margin, _wrap(rest + margin, word) > ten
        else:
            low = high = True
        first = not digits
        if first and digit == 0 and not high:
            place -= 1
        else:
            digits += str(digit)
        if first and not -3 <= place < 8:
            low = high = False
    over = _wrap(_wrap(rest * 2, word) - ten, word)
    if high and (not low or over > 0 or (over == 0 and int(digits[-1]) % 2)):
        text = str(int(digits) + 1).zfill(len(digits))
        return text[: len(digits)], place + 1 + len(text) - len(digits)
    return digits, place + 1


def _shortest(text: str) -> tuple[str, int]:
    """Digits, and exponent of 0.digits, of a positive number as Python writes it."""
    mantissa, _, power = text.partition("e")
    units, _, fraction = mantissa.partition(".")
    digits = (units + fraction).lstrip("0")
    return digits.rstrip("0"), len(digits) - len(fraction) + int(power or 0)


def _text(value: float, width: _Width) -> str:
    if value != value:
        return "NaN"
    sign, size = "-" if math.copysign(1, value) < 0 else "", abs(value)
    if size == 0:
        return sign + "0.0"
    if size == math.inf:
        return sign + "Infinity"
    if 1e-3 <= size < 1e7:
        exact = False
    else:
        odd = size < width.min_normal or width.whole_from <= size < _SHORTEST_AGAIN
        exact = odd or math.frexp(size)[0] == 0.5
    if exact:
        digits, exponent = _digits(size, width)
    else:
        digits, exponent = _shortest(repr(size) if width is _DOUBLE else _float_repr(size))
    if exponent > 7 or exponent < -2:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"
    if exponent <= 0:
        return f"{sign}0.{'0' * -exponent}{digits}"
    return f"{sign}{digits[:exponent].ljust(exponent, '0')}.{digits[exponent:] or '0'}"


def _float_repr(size: float) -> str:
    for precision in range(1, 9):
        text = f"{size:.{precision}g}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == size:
            return text
    return f"{size:.9g}"


def double_text(value: float) -> str:
    """``Double.toString``: 1.0, 1.0E10, 4.9E-324, NaN, -Infinity."""
    return _text(value, _DOUBLE)


def float_text(value: float) -> str:
    """``Float.toString`` of a number that 32 bits hold exactly."""
    return _text(value, _FLOAT)


def floats_text(series: pl.Series) -> pl.Series:
    """The texts of a Float64 or Float32 column by :func:`double_text` or :func:`float_text`; NULL stays NULL."""
    import polars as pl

    size = series.abs()
    plain = ((size >= 1e-3) & (size < 1e7)) | (size == 0)
    text = series.cast(pl.String)
    if plain.all():
        return text
    places = (~plain).fill_null(False).arg_true()
    far = series.gather(places)
    if len(far) < _FEW:
        width = _DOUBLE if series.dtype == pl.Float64 else _FLOAT
        return text.scatter(places, [_text(v, width) for v in far.to_list()])
    return text.scatter(places, _far_text(far, text.gather(places)))


def _far_text(series: pl.Series, shortest: pl.Series) -> pl.Series:
    """Texts of numbers out of the range that is written without exponent, given the shortest digits of each."""
    import numpy as np
    import polars as pl

    width = _DOUBLE if series.dtype == pl.Float64 else _FLOAT
    size = np.abs(series.cast(pl.Float64).to_numpy())
    with np.errstate(invalid="ignore"):  # some processors warn of NaN and infinity
        fractions, exponents = np.frexp(size)
    is_whole = (size >= width.whole_from) & (size < _LONG_END)
    if is_whole.any():
        cut = np.array(_POWERS_OF_TEN)[np.clip(exponents[is_whole] - width.bits - 2, 0, None)]
        count, rest = np.divmod(size[is_whole].astype(np.int64), cut)
        shortest = shortest.scatter(
            np.flatnonzero(is_whole), pl.Series((count + (rest * 2 >= cut) * (cut > 1)) * cut).cast(pl.String)
        )
    text = _with_exponent(series < 0, shortest.str.strip_prefix("-"))
    odd = (size < width.min_normal) | ((size >= _LONG_END) & (size < _SHORTEST_AGAIN)) | (fractions == 0.5)
    slow = np.flatnonzero((odd & ~is_whole) | ~np.isfinite(size))
    if not len(slow):
        return text
    return text.scatter(slow, [_text(v, width) for v in series.gather(slow).to_list()])


def _with_exponent(negative: pl.Series, text: pl.Series) -> pl.Series:
    """Positive numbers in any form as ``d.ddE-5``."""
    import polars as pl

    parts = pl.col("text").str.split_exact("e", 1).struct
    mantissa, power = parts.field("field_0"), parts.field("field_1").str.strip_prefix("+").cast(pl.Int64).fill_null(0)
    point = mantissa.str.find(".", literal=True).fill_null(mantissa.str.len_bytes())
    all_digits = mantissa.str.replace(".", "", literal=True)
    digits = all_digits.str.strip_chars_start("0")
    exponent = power + point.cast(pl.Int64) - (all_digits.str.len_bytes() - digits.str.len_bytes()).cast(pl.Int64) - 1
    significant = digits.str.strip_chars_end("0")
    rest = pl.when(significant.str.len_bytes() > 1).then(significant.str.slice(1)).otherwise(pl.lit("0"))
    sign = pl.when(pl.col("negative")).then(pl.lit("-")).otherwise(pl.lit(""))
    frame = pl.DataFrame({"text": text, "negative": negative})
    return frame.select(
        pl.concat_str(sign, significant.str.head(1), pl.lit("."), rest, pl.lit("E"), exponent)
    ).to_series()
