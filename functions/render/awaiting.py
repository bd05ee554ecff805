"""Coroutines, many of which are awaited at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

from stateplan.common.errors import StateplanError
from stateplan.common.ttl import format_ttl
from stateplan.functions.user import AsyncLimits, UserFunction


def awaited(function: UserFunction, call: Callable[..., Any], rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """What the function returns for each of ``rows``, in their order. A call that fails is made again as often as its
    limits say; the time they give counts from the first attempt.

    Raises:
        DataError: DATA310, for a call that failed for good or took too long.
    """
    limits = function.asynchronous or AsyncLimits()

    async def one(gate: asyncio.Semaphore, row: tuple[Any, ...]) -> Any:
        async with gate:
            try:
                async with asyncio.timeout(limits.timeout / 1000 if limits.timeout else None):
                    return await _call_with_retries(call, row, limits)
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


async def _call_with_retries(call: Callable[..., Any], row: tuple[Any, ...], limits: AsyncLimits) -> Any:
    for _ in range(limits.retries):
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
