"""How large states have been over time, from the records that a job leaves of its micro-batches. Needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stateplan.common.errors import CheckpointError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath
from stateplan.common.readable import amount, bytes_text
from stateplan.plans.render.chart import MOST, Panel, Points, numbers, times
from stateplan.plans.render.chart import to_svg as chart_svg
from stateplan.runtime.metrics.log import read_job, read_metrics
from stateplan.runtime.metrics.records import BatchMetrics, JobInfo

Key = tuple[str, int]
"""A state: uid of its operator, index among its states."""


@dataclass(frozen=True)
class Series:
    """The sizes of one state.

    Attributes:
        name: a selector for it, or the operator and the name of the state.
        rows, bytes: number of stored rows and their bytes, per record of the history; None if the state did not exist.
        partial: whether rows from before the first record are missing in these numbers.
    """

    name: str
    rows: tuple[int | None, ...]
    bytes: tuple[int | None, ...]
    partial: bool


@dataclass(frozen=True)
class History:
    """The sizes of states.

    Attributes:
        batches: the micro-batch of each record, ascending.
        times: its clock (that of the replay for replay tables), ms since 1970.
        series: the states of the last record in the order of the plan, then states that no longer exist.
    """

    batches: tuple[int, ...]
    times: tuple[int, ...]
    series: tuple[Series, ...]


def history(folder: AnyPath, names: Mapping[Key, str], only: Sequence[Key] | None = None) -> History:
    """The history of a checkpoint.

    Args:
        folder: the checkpoint.
        names: selectors for the states of its plan.
        only: the states wanted; all by default, those too that an earlier plan had.

    Raises:
        CheckpointError: CKPT040, there are no records; CKPT001, CKPT002, it is not a checkpoint or cannot be read.
    """
    records = read_metrics(folder)
    if not any(record.state for record in records):
        raise CheckpointError("CKPT040", folder=folder, what="history of its state size")
    keys_with_rows = {
        (uid, i) for record in records for uid, size in record.state.items() for i in range(len(size.rows))
    }
    keys = [k for k in names if k in keys_with_rows]
    keys = [k for k in keys if k in only] if only is not None else [*keys, *sorted(keys_with_rows - names.keys())]
    others = _other_names(read_job(folder))
    return History(
        tuple(r.batch for r in records),
        tuple(r.time for r in records),
        tuple(_series(records, key, names.get(key) or others.get(key) or f"{key[0]}.{key[1]}") for key in keys),
    )


def _other_names(job: JobInfo | None) -> dict[Key, str]:
    """Names of states by what the job says of its operators."""
    operators = job.operators if job else ()
    return {(o.uid, i): f"{o.name}.{state}" for o in operators for i, state in enumerate(o.states)}


def _series(records: Sequence[BatchMetrics], key: Key, name: str) -> Series:
    uid, index = key
    sizes = [record.state.get(uid) for record in records]
    is_there = [s is not None and index < len(s.rows) for s in sizes]
    return Series(
        name,
        tuple(s.rows[index] if s is not None and ok else None for s, ok in zip(sizes, is_there, strict=True)),
        tuple(s.bytes[index] if s is not None and ok else None for s, ok in zip(sizes, is_there, strict=True)),
        any(s is not None and s.partial for s in sizes),
    )


def to_svg(state_history: History, title: str) -> str:
    """Two panels over one axis of time: stored rows above, bytes below; a line per state, its name and last value."""
    first, last = state_history.batches[0], state_history.batches[-1]
    about = f"{amount(len(state_history.series), 'state')}, micro-batches {first} to {last}"
    if any(s.partial for s in state_history.series):
        about += "; state from before the records is not counted"
    axis, xs = numbers(first, last, "micro-batch"), state_history.batches
    if state_history.times[0] < state_history.times[-1]:
        axis, xs = times(state_history.times[0], state_history.times[-1]), state_history.times
    series = _fewer(state_history)
    panels = (
        Panel("stored rows", [(s.name, _points(xs, s.rows)) for s in series]),
        Panel("bytes", [(s.name, _points(xs, s.bytes)) for s in series], bytes_text, binary=True),
    )
    return chart_svg(title, about, panels, axis)


def _points(xs: Sequence[int], values: Sequence[int | None]) -> Points:
    return [(x, v) for x, v in zip(xs, values, strict=True) if v is not None]


def _fewer(state_history: History) -> list[Series]:
    """At most as many series as can be drawn: the smallest are added up."""
    if len(state_history.series) <= MOST:
        return list(state_history.series)
    order = sorted(state_history.series, key=lambda s: max((b or 0 for b in s.bytes), default=0), reverse=True)
    large, rest = order[: MOST - 1], order[MOST - 1 :]

    def total(values: Sequence[tuple[int | None, ...]]) -> tuple[int | None, ...]:
        return tuple(
            None if all(v is None for v in column) else sum(v or 0 for v in column)
            for column in zip(*values, strict=True)
        )

    rows, sizes = total([s.rows for s in rest]), total([s.bytes for s in rest])
    others = Series(f"{len(rest)} others", rows, sizes, any(s.partial for s in rest))
    return [s for s in state_history.series if s in large] + [others]
