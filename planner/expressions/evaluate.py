"""Evaluating constant expressions with the functions of the runtime."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from stateplan.execnodes.errors import StateplanError
from stateplan.execnodes.rex import Literal, Rex
from stateplan.execnodes.types import LogicalType
from stateplan.planner.expressions.approximate import Approximate

_ZONE = ContextVar("zone", default="UTC")


@contextmanager
def session_time_zone(zone: str) -> Iterator[None]:
    """Constants are evaluated as in a session with the time zone ``zone`` for as long as this lasts."""
    token = _ZONE.set(zone)
    try:
        yield
    finally:
        _ZONE.reset(token)


def current_time_zone() -> str:
    """The time zone in which constants are evaluated."""
    return _ZONE.get()


def evaluate_constant(rex: Rex) -> Literal | None:
    """The constant that ``rex`` is; None where it fails, cannot be run here, or is of a type without constants."""
    writer = _WRITERS.get(rex.type.root)
    if writer is None:
        return None
    from stateplan.execnodes.runtime.transforms.calc import evaluate

    try:
        value = evaluate(rex, time_zone=_ZONE.get())
    except StateplanError:
        return None
    if value is None:
        return Literal(rex.type.as_nullable(), None)
    return Literal(rex.type.not_null(), writer(rex.type, value))


def _moment(type: LogicalType, value: Any) -> str:  # noqa: A002
    text: str = value.replace(tzinfo=None).isoformat(sep=" ")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _time(type: LogicalType, value: dt.time) -> str:  # noqa: A002
    text = value.isoformat()
    return text.rstrip("0").rstrip(".") if "." in text else text


_WRITERS: dict[str, Callable[[LogicalType, Any], Any]] = {
    **dict.fromkeys(("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "CHAR", "VARCHAR"), lambda t, v: v),
    **dict.fromkeys(("FLOAT", "DOUBLE"), lambda t, v: Approximate.exact(v)),
    **dict.fromkeys(("BINARY", "VARBINARY"), lambda t, v: base64.b64encode(v).decode()),
    "DECIMAL": lambda t, v: format(v, "f"),
    "DATE": lambda t, v: v.isoformat(),
    "TIME_WITHOUT_TIME_ZONE": _time,
    "TIMESTAMP_WITHOUT_TIME_ZONE": _moment,
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": lambda t, v: _moment(t, v.astimezone(dt.UTC)),
    "INTERVAL_DAY_TIME": lambda t, v: str(int(v / dt.timedelta(milliseconds=1))),
    "INTERVAL_YEAR_MONTH": lambda t, v: str(v),
}
"""Type root to what turns the value that Polars gives into the plan's."""
