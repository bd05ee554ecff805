"""The text that an error underlines."""

from __future__ import annotations

from stateplan.common.errors import StateplanError


def underlined(error: StateplanError) -> str:
    place = error.place
    assert place is not None
    assert place.source is not None
    assert place.line is not None
    assert place.column is not None
    return place.source.split("\n")[place.line - 1][place.column - 1 : place.column - 1 + place.length]
