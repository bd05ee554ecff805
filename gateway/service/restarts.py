"""When a job that has failed starts again: Flink's restart strategies.

Source: FLIP-364, ``RestartBackoffTimeStrategy``.

A strategy decides how long to wait, and when to give up. Only failures that may be over soon are tried again: those of
machines, processes and servers. Input that fails a job once fails it again, as a wrong option does.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from stateplan.execnodes.errors import StateplanError
from stateplan.execnodes.settings import value

_FAMILY = "restart-strategy."

RECOVERABLE = frozenset(
    (
        *("RUN001", "RUN010", "RUN011", "RUN014", "RUN019", "RUN031", "RUN093", "RUN094", "RUN095", "RUN096"),
        *("RUN110", "RUN130", "RUN132", "RUN134", "RUN140", "RUN146"),
        *("CKPT030", "CKPT052", "DATA108", "DATA452", "DATA465"),
    )
)
"""Failures of tasks, processes, machines, servers and the network, and of want of space."""


class Strategy(Protocol):
    """A restart strategy of one job."""

    def wait(self, now: float) -> float | None:
        """The job has failed at ``now``: the seconds until it starts again, or None when it has failed for good."""


class Never:
    """``none``."""

    def wait(self, now: float) -> float | None:
        return None


class FixedDelay:
    """``fixed-delay``: always the same wait, and so many restarts in all."""

    def __init__(self, attempts: int, delay: float) -> None:
        self._left, self._delay = attempts, delay

    def wait(self, now: float) -> float | None:
        self._left -= 1
        return None if self._left < 0 else self._delay


class FailureRate:
    """``failure-rate``: always the same wait, and so many restarts within an interval."""

    def __init__(self, most: int, interval: float, delay: float) -> None:
        self._failures: deque[float] = deque(maxlen=most + 1)
        self._interval, self._delay = interval, delay

    def wait(self, now: float) -> float | None:
        self._failures.append(now)
        full = len(self._failures) == self._failures.maxlen
        return None if full and now - self._failures[0] <= self._interval else self._delay


class ExponentialDelay:
    """``exponential-delay``: each wait is longer than the one before, until the job has run for a while.

    Args:
        initial, most: the first and the longest wait, in seconds.
        multiplier: of one wait to the next.
        reset: seconds without a failure, after which all begins anew.
        jitter: share of a wait by which it is longer or shorter, so that not all jobs start at once.
        attempts: so many restarts before it begins anew.
        chance: a number from 0 to 1.
    """

    def __init__(
        self,
        initial: float,
        most: float,
        multiplier: float,
        reset: float,
        jitter: float,
        attempts: int,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._initial, self._most, self._multiplier = initial, most, multiplier
        self._reset, self._jitter, self._attempts, self._chance = reset, jitter, attempts, chance
        self._next, self._done, self._started = initial, 0, float("-inf")

    def wait(self, now: float) -> float | None:
        if now > self._started + self._reset:
            self._next, self._done = self._initial, 0
        self._done += 1
        if self._done > self._attempts:
            return None
        wait = self._next * (1 + self._jitter * (2 * self._chance() - 1))
        self._next = min(self._most, self._next * self._multiplier)
        self._started = now + wait
        return max(0.0, min(self._most, wait))


def strategy_of(options: Mapping[str, str]) -> Strategy:
    """The restart strategy that the options of a session name. Raises OptionError OPT105."""

    def number(key: str) -> float:
        return float(value(options, _FAMILY + key))

    def seconds(key: str) -> float:
        return number(key) / 1000

    kind = value(options, f"{_FAMILY}type").replace("-", "")
    if kind == "fixeddelay":
        return FixedDelay(int(number("fixed-delay.attempts")), seconds("fixed-delay.delay"))
    if kind == "failurerate":
        return FailureRate(
            int(number("failure-rate.max-failures-per-interval")),
            seconds("failure-rate.failure-rate-interval"),
            seconds("failure-rate.delay"),
        )
    if kind == "exponentialdelay":
        return ExponentialDelay(
            seconds("exponential-delay.initial-backoff"),
            seconds("exponential-delay.max-backoff"),
            number("exponential-delay.backoff-multiplier"),
            seconds("exponential-delay.reset-backoff-threshold"),
            number("exponential-delay.jitter-factor"),
            int(number("exponential-delay.attempts-before-reset-backoff")),
        )
    return Never()


class Restarts:
    """The restarts of a gateway's jobs.

    Args:
        stopped: set when the gateway stops; no job starts then.
        clock: seconds.
    """

    def __init__(self, stopped: threading.Event, clock: Callable[[], float] = time.monotonic) -> None:
        self._stopped = stopped
        self._clock = clock
        self._strategies: dict[str, Strategy] = {}
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def wait(self, job_id: str, options: Mapping[str, str], error: StateplanError) -> float | None:
        """A job has failed: the seconds until it starts again, or None when it has failed for good.

        Args:
            job_id: of the job; its failures count together.
            options: of its session.
            error: what it failed of.
        """
        if error.code not in RECOVERABLE or self._stopped.is_set():
            return None
        with self._lock:
            strategy = self._strategies.setdefault(job_id, strategy_of(options))
            wait = strategy.wait(self._clock())
            if wait is None:
                del self._strategies[job_id]
            return wait

    def after(self, wait: float, start: Callable[[], None]) -> None:
        """Has ``start`` called in a thread of its own after so many seconds, unless the gateway stops."""

        def run() -> None:
            if not self._stopped.wait(wait):
                start()

        self.run(run)

    def run(self, call: Callable[[], None]) -> None:
        """Calls what starts jobs, in a thread of its own."""
        thread = threading.Thread(target=call, name="stateplan-restart", daemon=True)
        with self._lock:
            self._threads = [t for t in self._threads if t.is_alive()] + [thread]
            thread.start()

    def join(self, until: float) -> bool:
        """Waits for starts in hand, each of which may have the checkpoint of its job; whether they are over.

        Args:
            until: by the clock.
        """
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, until - self._clock()))
        return not any(thread.is_alive() for thread in threads)
