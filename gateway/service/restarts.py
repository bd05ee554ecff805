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
from dataclasses import field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.settings import value

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
        """The job has failed at ``now``: the seconds until it starts again, or None if it has failed for good."""

    @property
    def first(self) -> float | None:
        """The seconds after a failure that does not count; None if the job never starts again."""


class Never:
    """``none``."""

    first = None

    def wait(self, now: float) -> float | None:
        return None


class FixedDelay:
    """``fixed-delay``: always the same wait, and this number of restarts in all."""

    def __init__(self, attempts: int, delay: float) -> None:
        self._left, self._delay = attempts, delay
        self.first = delay if attempts else None

    def wait(self, now: float) -> float | None:
        self._left -= 1
        return None if self._left < 0 else self._delay


class FailureRate:
    """``failure-rate``: always the same wait, and this number of restarts within an interval."""

    def __init__(self, most: int, interval: float, delay: float) -> None:
        self._failures: deque[float] = deque(maxlen=most + 1)
        self._interval, self._delay = interval, delay
        self.first: float | None = delay

    def wait(self, now: float) -> float | None:
        self._failures.append(now)
        full = len(self._failures) == self._failures.maxlen
        return None if full and now - self._failures[0] <= self._interval else self._delay


class ExponentialDelay:
    """``exponential-delay``: each wait is longer than the one before, until the job has run for a while.

    Args:
        initial, most: the first and the longest wait, in seconds.
        multiplier: how much longer each wait is than the one before.
        reset: seconds without a failure, after which all starts again.
        jitter: share of a wait by which it is longer or shorter, so that not all jobs start at once.
        attempts: this number of restarts before it starts again.
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
        self._next, self._attempt, self._next_start = initial, 0, float("-inf")
        self.first: float | None = initial

    def wait(self, now: float) -> float | None:
        if now > self._next_start + self._reset:
            self._next, self._attempt = self._initial, 0
        self._attempt += 1
        if self._attempt > self._attempts:
            return None
        wait = self._next * (1 + self._jitter * (2 * self._chance() - 1))
        self._next = min(self._most, self._next * self._multiplier)
        self._next_start = now + wait
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


_RETRY_SECONDS = 600.0
"""Seconds within which a job brings Spark to its end once more, so that it is one of few suspects."""

_PROOF = 120.0
"""Seconds after which a job that still has its first micro-batch in hand holds up no suspect."""


@dataclass(order=True)
class _Turn:
    """A suspect that waits for its turn: the one that has failed least often first.

    Attributes:
        failures: how often it has failed.
        number: of the order in which they arrived.
        job_id: the id of the job.
        due: when it may start, by the clock.
        start: starts it.
        cleared: whether those that are not suspected have settled.
        settled: whether it has come as far as not to be to blame.
    """

    failures: int
    number: int
    job_id: str = field(compare=False)
    due: float = field(compare=False)
    start: Callable[[], None] = field(compare=False)
    cleared: Callable[[], bool] = field(compare=False)
    settled: Callable[[], bool] = field(compare=False)


class Restarts:
    """The restarts of a gateway's jobs.

    All jobs of a gateway run in one Spark. A job that brings it to its end fails all of them, and does so again when it
    is started again. So only the failures of suspects count. Suspects start one after another when it happens again:
    each one shows by itself whether it was to blame.

    Args:
        stop_event: set when the gateway stops; no job starts then.
        clock: seconds.
    """

    def __init__(self, stop_event: threading.Event, clock: Callable[[], float] = time.monotonic) -> None:
        self._stop_event = stop_event
        self._clock = clock
        self._strategies: dict[str, Strategy] = {}
        self._suspects: dict[str, tuple[int, float]] = {}
        self._turns: list[_Turn] = []
        self._turning = False
        self._numbers = count()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def wait(self, job_id: str, options: Mapping[str, str], error: StateplanError, counts: bool = True) -> float | None:
        """A job has failed: the seconds until it starts again, or None if it has failed for good.

        Args:
            job_id: the id of the job; its failures count together.
            options: the options of its session.
            error: what it failed of.
            counts: whether the failure counts against the job.
        """
        if error.code not in RECOVERABLE or self._stop_event.is_set():
            return None
        with self._lock:
            strategy = self._strategies.setdefault(job_id, strategy_of(options))
            now = self._clock()
            if not counts:
                self._suspects.pop(job_id, None)
                return strategy.first
            if error.code == "RUN019":
                often, last = self._suspects.get(job_id, (0, now))
                self._suspects[job_id] = (often + 1 if now - last < _RETRY_SECONDS else 1), now
            wait = strategy.wait(now)
            if wait is None:
                del self._strategies[job_id]
            return wait

    def after(self, wait: float, start: Callable[[], None]) -> None:
        """Calls ``start`` in a thread of its own after this number of seconds, unless the gateway stops."""

        def run() -> None:
            if not self._stop_event.wait(wait):
                start()

        self.run(run)

    def in_turn(
        self,
        job_id: str,
        wait: float,
        start: Callable[[], None],
        is_clear: Callable[[], bool],
        is_settled: Callable[[], bool],
    ) -> None:
        """Calls ``start`` as :meth:`after` does. A suspect waits until those that are not suspected have settled, and
        one that is suspected once more until suspects before it have.

        Args:
            job_id: the id of the job.
            wait: seconds.
            start: starts it.
            is_clear: whether those that are not suspected have settled.
            is_settled: whether the job has: it has finished a micro-batch, has none in hand, or has ended.
        """
        with self._lock:
            often, _ = self._suspects.get(job_id, (0, 0.0))
            if often:
                due = self._clock() + wait
                heappush(self._turns, _Turn(often, next(self._numbers), job_id, due, start, is_clear, is_settled))
                turning, self._turning = self._turning, True
        if not often:
            self.after(wait, start)
        elif not turning:
            self.run(self._take_turns)

    def _take_turns(self) -> None:
        while True:
            with self._lock:
                turn = heappop(self._turns) if self._turns else None
                self._turning = turn is not None
            if turn is None or self._stop_event.wait(max(0.0, turn.due - self._clock())):
                return
            self._await(turn.cleared)
            if turn.failures == 1:
                self.run(turn.start)
            elif not self._stop_event.is_set():
                turn.start()
                self._await(partial(self._is_through, turn))

    def _is_through(self, turn: _Turn) -> bool:
        return turn.settled() or any(other.job_id == turn.job_id for other in tuple(self._turns))

    def _await(self, holds: Callable[[], bool]) -> None:
        """Waits until something holds, for a while, unless the gateway stops."""
        until = self._clock() + _PROOF
        while not holds() and self._clock() < until and not self._stop_event.wait(0.2):
            pass

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
