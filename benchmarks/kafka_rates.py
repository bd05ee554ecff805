"""What the benchmarks of Kafka share: jobs in turn, each with its time and with the processor time that it takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import psutil

from benchmarks.harness import cpu_seconds
from stateplan import TableEnvironment

COLUMNS = "order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT, ts BIGINT"
NOTE = "left with the neighbour, paid on delivery"

BROKER = "noida-db"
"""Name of the broker's program, a child of this process."""

_IDLE = 7
"""For how many halves of a second the broker has to do nothing."""

_PATIENCE = 120.0


def columns(notes: int) -> str:
    """The columns of orders: five numbers, about 85 bytes as JSON, and ``notes`` texts of about 55 more each."""
    return ", ".join([COLUMNS, *(f"note{i} STRING" for i in range(notes))])


@dataclass
class Rates:
    """What the jobs of one table took, a value for each round.

    Attributes:
        seconds: from the statement to the end of the job.
        ours: processor seconds of this process, Spark and the Python workers.
        broker: processor seconds of the broker.
    """

    seconds: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)
    broker: list[float] = field(default_factory=list)


def measured(
    session: TableEnvironment, statements: Mapping[str, str], rounds: int, tidy: Callable[[], None] = lambda: None
) -> dict[str, Rates]:
    """Runs the jobs of all statements in turn, ``rounds`` times, after a round that warms up.

    Each begins when the broker rests: every few seconds it writes all that it holds to its disk anew, which goes on
    after a job.

    Args:
        session: of the jobs.
        statements: name and INSERT of each.
        rounds: that count.
        tidy: called before each job, to remove what the one before has left.
    """
    found = {name: Rates() for name in statements}
    for number in range(rounds + 1):
        for name, statement in statements.items():
            tidy()
            _rest()
            before, began = _processor(), time.perf_counter()
            job = session.execute_sql(statement).job
            assert job is not None and job.wait(600)
            taken = time.perf_counter() - began
            after = _processor()
            if number:
                found[name].seconds.append(taken)
                found[name].ours.append(after[0] - before[0])
                found[name].broker.append(after[1] - before[1])
    return found


def show(found: Mapping[str, Rates], rows: int, files: str) -> None:
    """Prints what :func:`measured` found. Ratios are those of the same round, to the table ``files``: of the time, of
    the processor time without the broker, and with it."""
    base = found[files]
    print(f"{'table':22s} {'rows/s':>9s}  ratio   processor s  ratio   broker s  ratio")
    for name, rates in found.items():
        both = [a + b for a, b in zip(rates.ours, rates.broker, strict=True)]
        print(
            f"{name:22s} {rows / statistics.median(rates.seconds):9,.0f} {_ratio(base.seconds, rates.seconds):6.2f} "
            f"{statistics.median(rates.ours):13.2f} {_ratio(base.ours, rates.ours):6.2f} "
            f"{statistics.median(rates.broker):10.2f} {_ratio(base.ours, both):6.2f}"
        )


def _rest() -> None:
    """Waits until the broker has been idle for longer than it leaves between two copies of its data."""
    until, idle, last = time.monotonic() + _PATIENCE, 0, _processor()[1]
    while idle < _IDLE and time.monotonic() < until:
        time.sleep(0.5)
        now = _processor()[1]
        idle, last = (idle + 1 if now - last < 0.02 else 0), now


def _ratio(base: list[float], other: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(base, other, strict=True))


def _processor() -> tuple[float, float]:
    """Processor seconds so far, of this process and its descendants without the broker, and of the broker."""
    taken = cpu_seconds(psutil.Process().pid)
    brokers = {child.pid for child in psutil.Process().children() if child.name() == BROKER}
    return (
        sum(spent for pid, spent in taken.items() if pid not in brokers),
        sum(spent for pid, spent in taken.items() if pid in brokers),
    )
