"""Values of results in JSON."""

from __future__ import annotations

import math

from stateplan.common.types import LogicalType


def json_value(text: str | None, kind: LogicalType) -> object:
    """A value, which a gateway returns as text, for JSON: whole numbers, FLOAT and DOUBLE as numbers, BOOLEAN as true
    or false, everything else as the text that CAST to STRING gives. What JSON has no number for is a text too."""
    if text is None:
        return None
    try:
        if kind.is_integer:
            return int(text)
        if kind.root in ("FLOAT", "DOUBLE"):
            number = float(text)
            return number if math.isfinite(number) else text
    except ValueError:
        return text
    if kind.root == "BOOLEAN":
        return {"TRUE": True, "FALSE": False}.get(text.upper(), text)
    return text
