"""Writes JSON in the layout of Jackson's ``DefaultPrettyPrinter``, in which Flink writes its plans.

Objects are indented by two blanks a level, lists stay on their line and add no level, ``:`` has a blank on
both sides, empty ones are ``{ }`` and ``[ ]``, lines end with LF and the text does not end with one. Only
``"``, backslash and characters below U+0020 are escaped (short forms where JSON has them, else ``\\u001F``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from stateplan.common.errors import PlanError
from stateplan.common.values.floats import double_text

_ESCAPES = {c: f"\\u{c:04X}" for c in range(0x20)} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    8: "\\b",
    9: "\\t",
    10: "\\n",
    12: "\\f",
    13: "\\r",
}
_SPECIAL = re.compile(r'["\\\x00-\x1f]')


def quote(text: str) -> str:
    """``text`` as a JSON text with its quotes."""
    return f'"{text.translate(_ESCAPES)}"' if _SPECIAL.search(text) else f'"{text}"'


def _scalar(value: Any) -> str | None:
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise PlanError("PLAN014", value=value)
        return double_text(value)
    return None


def dumps(value: Any) -> str:
    """``value`` (dict, list, tuple, str, int, float, bool, None) as JSON text.

    Raises:
        PlanError: PLAN014 for a number JSON does not have.
        TypeError: for a value of another type or a key that is not a text.
    """
    scalar = _scalar(value)
    if scalar is not None:
        return scalar
    parts: list[str] = []
    # Per open object or list: members still to come, whether an object, closing text, separator, level.
    stack: list[tuple[Iterator[Any], bool, str, str, int]] = []

    def open_value(item: Any, level: int) -> bool:
        """Writes an empty object or list whole; opens any other, and returns whether it did."""
        if isinstance(item, dict):
            if not item:
                parts.append("{ }")
                return False
            inner = "\n" + "  " * (level + 1)
            stack.append((iter(item.items()), True, "\n" + "  " * level + "}", "," + inner, level + 1))
            parts.append("{" + inner)
            return True
        if isinstance(item, list | tuple):
            if not item:
                parts.append("[ ]")
                return False
            stack.append((iter(item), False, " ]", ", ", level))
            parts.append("[ ")
            return True
        raise TypeError(f"cannot write {type(item).__name__} as JSON")

    open_value(value, 0)
    first = True
    while stack:
        members, is_object, closing, separator, level = stack[-1]
        for member in members:
            if not first:
                parts.append(separator)
            first = False
            item = member
            if is_object:
                key, item = member
                if not isinstance(key, str):
                    raise TypeError(f"a key of a JSON object is {type(key).__name__}, not str")
                parts.append(quote(key) + " : ")
            text = _scalar(item)
            if text is not None:
                parts.append(text)
            elif open_value(item, level):
                first = True
                break
        else:
            parts.append(closing)
            stack.pop()
            first = False
    return "".join(parts)
