"""Values of VARIANT: JSON in one spelling, so that equal values are equal texts.

The spelling is that of ``Variant.toJson`` in Flink: without blanks, names in Java's order, decimals without zeros at
the end, and other numbers as ``Double.toString`` has them.

Source: Flink's ``BinaryVariantInternalBuilder`` and ``BinaryVariant``.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from functools import lru_cache
from typing import Any

from stateplan.common.values.floats import double_text
from stateplan.common.values.java_hash import java_order

_MOST_DIGITS = 38
_LARGEST = 16 * 1024 * 1024
_SPACE = " \t\r\n"


class VariantError(ValueError):
    """The text is not JSON, or a value has no such part."""


def first_json(decoder: json.JSONDecoder, text: str) -> Any:
    """The first JSON value of a text; what comes behind it is not read, as in Flink.

    Raises:
        ValueError: the text begins with none.
    """
    body = text.lstrip(_SPACE)
    value, end = decoder.raw_decode(body)
    following = body[end : end + 1]
    if value is None or isinstance(value, bool):
        ends = not following.isalnum() and following not in ("_", "$")
    else:
        ends = isinstance(value, str | list | dict) or following in ("", *_SPACE)
    if not ends:
        raise ValueError(text)
    return value


def no_constant(text: str) -> Any:
    """For ``parse_constant``: NaN and the infinities are not JSON."""
    raise ValueError(text)


def _integer(text: str) -> Any:
    number = int(text)
    return number if -(2**63) <= number < 2**63 else _fraction(text)


def _fraction(text: str) -> Any:
    if "e" in text or "E" in text:
        return float(text)
    number = Decimal(text)
    _, digits, exponent = number.as_tuple()
    fits = len(digits) <= _MOST_DIGITS and -int(exponent) <= _MOST_DIGITS
    return number if fits else float(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise VariantError("an object has a name twice")
    return fields


def _decoder(**hooks: Any) -> json.JSONDecoder:
    return json.JSONDecoder(parse_constant=no_constant, parse_float=_fraction, parse_int=_integer, **hooks)


_DECODERS = {True: _decoder(), False: _decoder(object_pairs_hook=_unique)}
"""By whether an object may contain a name twice. The last value of the name counts."""


@lru_cache(maxsize=16)
def parse_variant(text: str, duplicates: bool = False) -> str:
    """The VARIANT of a JSON text.

    Args:
        text: the JSON.
        duplicates: whether an object may contain a name twice.

    Raises:
        VariantError: the text is not JSON, or the value is larger than 16 MiB.
    """
    try:
        variant = variant_text(first_json(_DECODERS[duplicates], text))
    except (ValueError, RecursionError, ArithmeticError) as cause:
        raise VariantError(str(cause)) from cause
    if len(variant) > _LARGEST:
        raise VariantError("it is larger than 16 MiB")
    return variant


class _Number(str):
    """A number in a value that is parsed again. It keeps its spelling, because a float would lose digits or
    the type."""


_SPELLING_DECODER = json.JSONDecoder(parse_constant=_Number, parse_float=_Number, parse_int=_Number)


@lru_cache(maxsize=16)
def _read(value: str) -> Any:
    return _SPELLING_DECODER.decode(value)


def variant_part(value: str, key: str | int) -> str | None:
    """The field ``key`` of an object, or the item ``key`` of an array, counted from 1; None if it is missing.

    Raises:
        VariantError: ``key`` is a name and the value is not an object, or a number and the value is not an array.
    """
    content = _read(value)
    if isinstance(key, str):
        if not isinstance(content, dict):
            raise VariantError("a name in brackets takes a field of an object")
        return variant_text(content[key]) if key in content else None
    if not isinstance(content, list):
        raise VariantError("a number in brackets takes an item of an array")
    return variant_text(content[key - 1]) if 1 <= key <= len(content) else None


_ESCAPED = re.compile(r"\\u[0-9a-f]{4}")


def variant_text(value: Any) -> str:
    """The spelling of a value that was read."""
    if isinstance(value, dict):
        pairs = ((name, value[name]) for name in sorted(value, key=java_order))
        return "{" + ",".join(f"{_string(name)}:{variant_text(part)}" for name, part in pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(variant_text, value)) + "]"
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, Decimal):
        return _plain(value)
    if isinstance(value, float):
        return double_text(value)
    return _string(value) if isinstance(value, str) else json.dumps(value)


def _plain(value: Decimal) -> str:
    text = format(abs(value) if value == 0 else value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _string(text: str) -> str:
    valid_text = text.encode("utf-8", "replace").decode()
    return _ESCAPED.sub(lambda m: "\\u" + m[0][2:].upper(), json.dumps(valid_text, ensure_ascii=False))
