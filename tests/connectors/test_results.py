"""The way of a query's rows from the job to its reader."""

from __future__ import annotations

import threading
import time

import polars as pl
import pytest

from stateplan.common.errors import RunError
from stateplan.connectors.protocol import SinkTable
from stateplan.connectors.registry import CONNECTORS, find_connector
from stateplan.connectors.results import ResultChannel, Results


def frame(*values: int) -> pl.DataFrame:
    return pl.DataFrame({"c0": list(values)}, schema={"c0": pl.Int32})


def test_rows_come_in_their_order_and_end() -> None:
    channel = ResultChannel()
    assert channel.take(0) is None and not channel.is_exhausted
    channel.put(frame(1, 2))
    channel.put(frame())
    channel.put(frame(3))
    channel.end()
    assert not channel.is_exhausted
    taken = [channel.take(0), channel.take(0), channel.take(0)]
    assert [None if f is None else f["c0"].to_list() for f in taken] == [[1, 2], [3], None]
    assert channel.is_exhausted


def test_pages() -> None:
    channel = ResultChannel()
    channel.put(frame(*range(5)))
    channel.end()
    pages = []
    while not channel.is_exhausted:
        page = channel.take(0, limit=2)
        assert page is not None
        pages.append(page["c0"].to_list())
    assert pages == [[0, 1], [2, 3], [4]]


def test_an_error_comes_behind_the_last_row() -> None:
    channel = ResultChannel()
    channel.put(frame(1))
    channel.end(RunError("RUN030", cause="x"))
    assert channel.wait(0)
    assert channel.take(0) is not None
    assert not channel.is_exhausted
    for ask in (channel.take, channel.wait):
        with pytest.raises(RunError, match="RUN030"):
            ask(0)


@pytest.mark.parametrize("way", ["read", "release", "discard"])
def test_a_job_waits_for_its_reader(way: str) -> None:
    channel = ResultChannel(buffer_rows=2)
    channel.put(frame(1, 2, 3))
    put = threading.Thread(target=channel.put, args=(frame(4),))
    put.start()
    put.join(0.2)
    assert put.is_alive()
    if way == "read":
        assert channel.take(0) is not None
    elif way == "release":
        channel.release()
    else:
        channel.discard()
    put.join(10)
    assert not put.is_alive()
    assert channel.is_exhausted == (way == "discard")
    assert (channel.take(0) is None) == (way == "discard")


def test_a_reader_that_waits_is_woken() -> None:
    channel = ResultChannel()
    started = time.monotonic()
    threading.Timer(0.1, channel.put, (frame(1),)).start()
    assert channel.take(30) is not None
    threading.Timer(0.1, channel.end).start()
    assert channel.take(30) is None and channel.is_exhausted
    assert time.monotonic() - started < 20


def test_the_sink_hands_over_what_workers_send() -> None:
    channel = ResultChannel()
    options = {"connector": Results.name, "channel": channel.id}
    connector = find_connector(options)
    sink = connector.sink(SinkTable("t", connector, options, ()))
    rows = pl.DataFrame({"c0": [1, 1], "kind": [0, 3]}, schema={"c0": pl.Int32, "kind": pl.Int8})
    sink.commit([sink.write(frame(7), 0, "a"), sink.write(rows, 0, "b")], 0)
    first, second = channel.take(0), channel.take(0)
    assert first is not None and first.equals(frame(7))
    assert second is not None and second.equals(rows)


def test_rows_that_nobody_reads_any_more_are_dropped() -> None:
    options = {"connector": Results.name, "channel": "gone"}
    connector = find_connector(options)
    sink = connector.sink(SinkTable("t", connector, options, ()))
    sink.commit([sink.write(frame(1), 0, "a")], 0)
    sink.release()


def test_no_user_is_offered_the_connector() -> None:
    assert Results.name not in CONNECTORS
