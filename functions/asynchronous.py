"""How the calls of asynchronous scalar functions are awaited, by options.

Source: Flink's options ``table.exec.async-scalar.*``, its ``AsyncWaitOperator`` with results in order, and PyFlink's
``AsyncScalarFunctionOperation``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stateplan.common.errors import RunError
from stateplan.common.ttl import parse_ttl
from stateplan.functions.rex import Call, Rex
from stateplan.functions.user import AsyncLimits

_PREFIX = "table.exec.async-scalar."

ASYNC_OPTIONS = {
    f"{_PREFIX}max-attempts": "3",
    f"{_PREFIX}max-concurrent-operations": "10",
    f"{_PREFIX}retry-delay": "100 ms",
    f"{_PREFIX}retry-strategy": "FIXED_DELAY",
    f"{_PREFIX}timeout": "3 min",
}
"""The options of asynchronous scalar functions, with Flink's defaults."""


def limits_of(options: Mapping[str, str]) -> AsyncLimits:
    """How calls are awaited, by the options of a node or a session.

    Raises:
        RunError: RUN077, for a number that is none.
        PlanError: for a time that is none, as :func:`parse_ttl` does.
    """
    older = options.get(f"{_PREFIX}buffer-capacity")
    if older is not None:  # what plans of Flink 1.19 and 2.0 call it
        options = {f"{_PREFIX}max-concurrent-operations": older, **options}
    values = {key.removeprefix(_PREFIX): options.get(key, default) for key, default in ASYNC_OPTIONS.items()}
    return AsyncLimits(
        concurrent=max(1, _number(values, "max-concurrent-operations")),
        timeout=parse_ttl(values["timeout"]),
        retries=_number(values, "max-attempts") if values["retry-strategy"].upper() == "FIXED_DELAY" else 0,
        delay=parse_ttl(values["retry-delay"]),
    )


def _number(options: Mapping[str, str], key: str) -> int:
    text = options[key].strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise RunError("RUN077", prefix=_PREFIX, key=key, text=text)
    return int(text)


def with_limits(rex: Rex, limits: AsyncLimits) -> Rex:
    """``rex`` whose asynchronous calls are awaited by ``limits``."""
    if not isinstance(rex, Call):
        return rex
    operands = tuple(with_limits(o, limits) for o in rex.operands)
    function = rex.function
    if function is not None and function.asynchronous is not None:
        function = replace(function, asynchronous=limits)
    return replace(rex, operands=operands, function=function)
