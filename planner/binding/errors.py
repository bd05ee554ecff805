"""Errors of binding and planning."""

from __future__ import annotations

from stateplan.execnodes.errors import Place, SqlError


def counted(number: int, noun: str) -> str:
    """``1 column``, ``2 columns``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def not_supported(what: str, place: Place | None, hint: str | None = None) -> SqlError:
    """SQL150: ``what`` is SQL that Flink plans and stateplan does not yet."""
    return SqlError("SQL150", what=what, place=place, hint=hint)
