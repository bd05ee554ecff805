"""Asynchronous scalar functions: coroutines, many of which are awaited at the same time.

Source: Flink's options ``table.exec.async-scalar.*``, its ``AsyncWaitOperator`` with results in order, and PyFlink's
``AsyncScalarFunctionOperation``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stateplan.execnodes.errors import RunError, StateplanError
from stateplan.execnodes.functions.user import AsyncLimits, UserFunction
from stateplan.execnodes.rex import Call, Rex
from stateplan.execnodes.ttl import format_ttl, parse_ttl

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
    found = {key.removeprefix(_PREFIX): options.get(key, default) for key, default in ASYNC_OPTIONS.items()}
    return AsyncLimits(
        concurrent=max(1, _number(found, "max-concurrent-operations")),
        timeout=parse_ttl(found["timeout"]),
        again=_number(found, "max-attempts") if found["retry-strategy"].upper() == "FIXED_DELAY" else 0,
        delay=parse_ttl(found["retry-delay"]),
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


def awaited(function: UserFunction, call: Callable[..., Any], rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """What the function gives for each of ``rows``, in their order. A call that fails is made again as often as its
    limits say; the time they give counts from the first attempt.

    Raises:
        DataError: DATA310, for a call that failed for good or took too long.
    """
    limits = function.asynchronous or AsyncLimits()

    async def one(gate: asyncio.Semaphore, row: tuple[Any, ...]) -> Any:
        async with gate:
            try:
                async with asyncio.timeout(limits.timeout / 1000 if limits.timeout else None):
                    return await _tried(call, row, limits)
            except StateplanError:
                raise
            except TimeoutError as cause:
                late = TimeoutError(f"no result after {format_ttl(limits.timeout)}")
                raise function.failed(late, row) from cause
            except Exception as cause:  # whatever a user's code raises
                raise function.failed(cause, row) from cause

    async def every() -> list[Any]:
        gate = asyncio.Semaphore(limits.concurrent)
        tasks = [asyncio.ensure_future(one(gate, row)) for row in rows]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    return asyncio.run_coroutine_threadsafe(every(), _loop()).result()


async def _tried(call: Callable[..., Any], row: tuple[Any, ...], limits: AsyncLimits) -> Any:
    for _ in range(limits.again):
        try:
            return await call(*row)
        except StateplanError:
            raise
        except Exception:  # made again, whatever it was
            await asyncio.sleep(limits.delay / 1000)
    return await call(*row)


_LOOPS: dict[str, asyncio.AbstractEventLoop] = {}
_LOCK = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    """The loop that runs the coroutines of this process, in a thread of its own: connections that a function keeps
    belong to it."""
    with _LOCK:
        if "loop" not in _LOOPS:
            loop = _LOOPS["loop"] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="stateplan-async", daemon=True).start()
        return _LOOPS["loop"]
