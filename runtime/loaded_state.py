"""The state of a key group that its operator begins with, from what is sent to it: state rows, event time, and rows of
inputs that pass through the operator without leaving anything but state."""

from __future__ import annotations

import json

import polars as pl

from stateplan.common.ttl import TtlConfig
from stateplan.runtime.exchange import Blob, Rows, StateRows, StateTime, decode, rows_of
from stateplan.runtime.jobgraph import OperatorSpec, StateOnly
from stateplan.runtime.kernel import NO_WATERMARK, Watermark
from stateplan.runtime.state.keyed_state import KeyedState
from stateplan.runtime.watermarks import EventTime

_STEPS = 1000
"""At most about so many steps are taken for rows of so many times: then a time is rounded up by at most a thousandth of
the shortest TTL."""


def inputs_of(spec: OperatorSpec, blobs: list[Blob]) -> list[pl.DataFrame]:
    """Per input of an operator, the changes that blobs bring, in the order of the blobs."""
    inputs = []
    for number in range(spec.inputs):
        mine = rows_of(blob for blob in blobs if blob.input == number)
        schema = spec.input_schemas[number]
        inputs.append(decode([rows.data for rows in mine]) if mine else pl.DataFrame(schema=schema))
    return inputs


def load_state(spec: OperatorSpec, loading: StateOnly, state: KeyedState, blobs: list[Blob]) -> None:
    """Takes in the state that blobs bring.

    Args:
        spec: the operator.
        loading: what is made of state rows.
        state: of the key group, which is empty.
        blobs: what is sent.
    """
    tables = spec.kernel.tables
    rows = [blob.content for blob in blobs if isinstance(blob.content, StateRows)]
    parts = [[pl.read_ipc_stream(r.data) for r in rows if r.table == number] for number in range(len(tables))]
    loads = [pl.concat(frames, how="diagonal", rechunk=True) if frames else None for frames in parts]
    for table, frame in zip(tables, loads if loading.gather is None else loading.gather(loads), strict=True):
        if frame is not None:
            state.begin_with(table, frame)
    for blob in blobs:
        if isinstance(blob.content, StateTime):
            state.begin_at(EventTime.from_json(json.loads(blob.content.text)))
    input_blobs = [blob for blob in blobs if isinstance(blob.content, Rows)]
    times = sorted({blob.now for blob in input_blobs})
    for start, now in _steps(times, spec.ttl):
        some = [blob for blob in input_blobs if start <= blob.now <= now]
        watermark = Watermark(NO_WATERMARK, now) if spec.kernel.by_clock else Watermark()
        state.step(spec.kernel, inputs_of(spec, some), now, spec.ttl, watermark, spec.fields)
    state.flush()


def _steps(times: list[int], ttl: tuple[TtlConfig, ...]) -> list[tuple[int, int]]:
    """The first and the last time of each step, for rows of the given times in their order."""
    lifetimes = [config.ttl for config in ttl if config.ttl]
    if not times or len(times) <= _STEPS:
        return [(at, at) for at in times]
    width = min(lifetimes, default=_STEPS * (times[-1] - times[0] + 1)) // _STEPS
    steps: list[tuple[int, int]] = []
    for at in times:
        if steps and at - steps[-1][0] <= width:
            steps[-1] = steps[-1][0], at
        else:
            steps.append((at, at))
    return steps
