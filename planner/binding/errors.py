"""Errors of binding and planning."""

from __future__ import annotations

from stateplan.execnodes.errors import Place, SqlError


def not_supported(what: str, place: Place | None, hint: str | None = None) -> SqlError:
    """SQL150: ``what`` is SQL that Flink plans and stateplan does not yet."""
    return SqlError("SQL150", what=what, place=place, hint=hint)
