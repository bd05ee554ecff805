"""What a job reads again of a source whose splits the connector plans."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest

from stateplan.common.errors import CheckpointError, DataError
from stateplan.connectors.history import HistoryLost, PastSplit, RepeatableSource
from stateplan.connectors.kafka.splits import KafkaSplit
from stateplan.connectors.listing import FileEntry, file_list
from stateplan.connectors.protocol import FileSource, Offset, OffsetSource
from stateplan.connectors.splits import FileSplit
from stateplan.evolution.history import History, Piece, with_all_parts
from stateplan.runtime.checkpoint.directory import Checkpoint
from stateplan.runtime.jobgraph import JobGraph, Pipeline, SourceSpec
from stateplan.runtime.spark.checkpoint_files import BatchOffsets

READ_AT = 1_000


class Ledger(OffsetSource[KafkaSplit], RepeatableSource[KafkaSplit]):
    """Has a row for each number between two offsets, which arrived at some time."""

    split_type = KafkaSplit

    def __init__(self, times: Sequence[int | None] = (), failure: Exception | None = None) -> None:
        self.times, self.failure = times, failure

    def initial_offset(self) -> Offset:
        return {"at": 0}

    def latest_offset(self, start: Offset) -> Offset:
        return start

    def plan(self, start: Offset, end: Offset) -> list[KafkaSplit]:
        return [KafkaSplit("t", 0, n, n + 1) for n in range(start["at"], end["at"])]

    def read(self, split: KafkaSplit) -> Iterator[pl.DataFrame]:
        yield from ()

    def history(
        self, begin: dict[str, Any], end: dict[str, Any], step: int | None, size: int, since: int | None = None
    ) -> Iterator[PastSplit[KafkaSplit]]:
        if self.failure is not None:
            raise self.failure
        for split in self.plan(begin, end):
            at = self.times[split.start]
            if at is None or since is None or at >= since:
                yield PastSplit(split, at, 1, str(split.start))


def pieces_of(
    folder: Path,
    reader: Ledger,
    begin: Offset | None,
    end: Offset | None,
    step: int | None = None,
    since: int | None = None,
) -> list[tuple[int, int]]:
    """The first offset of each piece that is read again, and its time."""
    if begin is not None:
        (folder / "splits" / "marks").mkdir(parents=True)
        (folder / "splits" / "marks" / "beginning.json").write_text(json.dumps(begin))
    old = SimpleNamespace(
        folder=folder,
        batch=7,
        layout=SimpleNamespace(sources=[SimpleNamespace(node=1, markers="marks")]),
        spark=SimpleNamespace(offsets=lambda batch: BatchOffsets({"batchTimestampMs": READ_AT}, (end,))),
    )
    history = History(cast("Any", old), {2: 1}, frozenset({3}), 1, 1 << 20, begins={} if since is None else {2: since})
    spec = SourceSpec("uid", "t", "ledger", reader, Pipeline((), ()), 2)
    return [(cast("KafkaSplit", piece.split).start, piece.at) for piece in history.pieces(spec, step)]


def test_what_was_read_is_read_again_and_nothing_arrives_after_it_was_read(tmp_path: Path) -> None:
    reader = Ledger((1, 2, 3, 5_000, 6_000))
    assert pieces_of(tmp_path, reader, {"at": 1}, {"at": 4}) == [(1, 2), (2, 3), (3, READ_AT)]


def test_a_source_that_has_read_nothing_has_no_history(tmp_path: Path) -> None:
    assert pieces_of(tmp_path, Ledger(), None, None) == []


def test_rows_without_a_time_are_enough_where_nothing_expires(tmp_path: Path) -> None:
    assert pieces_of(tmp_path, Ledger((None, None)), {"at": 0}, {"at": 2}) == [(0, 0), (1, 1)]


def test_rows_before_the_begin_of_the_history_are_left_out(tmp_path: Path) -> None:
    assert pieces_of(tmp_path, Ledger((1, 2, 3)), {"at": 0}, {"at": 3}, since=2) == [(1, 2), (2, 3)]
    with pytest.raises(CheckpointError, match="does not say when its rows arrived, and its history begins at a time"):
        pieces_of(tmp_path / "other", Ledger((None,)), {"at": 0}, {"at": 1}, since=2)


def test_files_that_are_gone_are_not_missed_before_the_begin_of_the_history(tmp_path: Path) -> None:
    assert files_of(tmp_path, Bucket("s3"), since=6) == []
    with pytest.raises(CheckpointError, match=r"1\.json is gone"):
        files_of(tmp_path, Bucket("s3"), since=5)


@pytest.mark.parametrize(
    ("begin", "reader", "reason"),
    [
        (None, Ledger((1, 2)), "the checkpoint does not say where the old job began to read it"),
        ({"at": 0}, Ledger((1, None)), "it does not say when its rows arrived, and state of the plan expires"),
        ({"at": 0}, Ledger(failure=HistoryLost("the rows are gone")), "the rows are gone"),
        ({"at": 0}, Ledger(failure=DataError("DATA454.hole", name="t", version=3, first=4, last=3)), "DATA454"),
    ],
)
def test_history_that_is_lost_is_refused(begin: Offset | None, reader: Ledger, reason: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as error:
        pieces_of(tmp_path, reader, begin, {"at": 2}, step=10)
    assert error.value.code == "CKPT054"
    assert error.value.message.startswith("the history of table 't' cannot be read again: ")
    assert reason in error.value.message


class Bucket(FileSource):
    """Files that are not local."""

    def __init__(self, scheme: str, *files: FileEntry | Exception) -> None:
        self.path = f"{scheme}://bucket/t"
        self._files = files

    def files(self) -> list[FileEntry]:
        for file in self._files:
            if isinstance(file, Exception):
                raise file
        return [file for file in self._files if isinstance(file, FileEntry)]

    def read(self, split: FileSplit) -> Iterator[pl.DataFrame]:
        yield from ()


def files_of(folder: Path, reader: Bucket, since: int = 0) -> list[str]:
    """The files that are read again of a job that has read a file of 10 bytes at the time 5."""
    marker = folder / "marker"
    marker.write_text(file_list(reader.path, [FileEntry(f"{reader.path}/1.json", 10, 5)]))
    spark = SimpleNamespace(
        offsets=lambda batch: BatchOffsets({"batchTimestampMs": READ_AT}, (None,)),
        files_of=lambda number, batch: [(str(marker), 5)],
        marker=Path,
    )
    old = SimpleNamespace(
        folder=folder, batch=7, layout=SimpleNamespace(sources=[SimpleNamespace(node=1, markers="marks")]), spark=spark
    )
    history = History(cast("Any", old), {2: 1}, frozenset({3}), 1, 1 << 20, begins={2: since})
    spec = SourceSpec("uid", "t", "filesystem", reader, Pipeline((), ()), 2)
    return [cast("FileSplit", piece.split).path for piece in history.pieces(spec, None)]


def test_files_of_an_object_store_are_read_again(tmp_path: Path) -> None:
    reader = Bucket("s3", FileEntry("s3://bucket/t/1.json", 10, 5), FileEntry("s3://bucket/t/2.json", 10, 9))
    assert files_of(tmp_path, reader) == ["s3://bucket/t/1.json"]


@pytest.mark.parametrize(
    ("scheme", "now", "reason"),
    [
        ("s3", (), "1.json is gone"),
        ("s3", (FileEntry("s3://bucket/t/1.json", 10, 6),), "1.json was modified after it was read"),
        ("s3", (FileEntry("s3://bucket/t/1.json", 11, 5),), "1.json was modified after it was read"),
        ("s3", (DataError("DATA105", path="s3://bucket/t", strerror="denied"),), "DATA105"),
        ("hdfs", (), "changes of hdfs://bucket/t/1.json go unnoticed, as it is in HDFS"),
    ],
)
def test_files_that_are_not_as_they_were_are_refused(
    scheme: str, now: tuple[FileEntry | Exception, ...], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError) as error:
        files_of(tmp_path, Bucket(scheme, *now))
    assert error.value.code == "CKPT054"
    assert reason in error.value.message


@pytest.mark.parametrize(("folder", "marker"), [("closing", "00000000_17"), ("marks", "00000002_0_end")])
@pytest.mark.parametrize("has_ended", [True, False])
def test_event_time_that_ended_before_the_last_rows_is_refused(
    folder: str, marker: str, has_ended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "splits" / folder).mkdir(parents=True)
    (tmp_path / "splits" / folder / marker).touch()
    checkpoint = SimpleNamespace(input_ended=lambda batch: has_ended)
    monkeypatch.setattr(Checkpoint, "look", staticmethod(lambda folder: checkpoint))
    layout = SimpleNamespace(sources=[SimpleNamespace(node=1, markers="marks")])
    old = SimpleNamespace(folder=tmp_path, batch=7, layout=layout)
    clockless = SimpleNamespace(by_clock=False)
    window = SimpleNamespace(
        node=3, name="w", level=1, pipeline=Pipeline((), ()), kernel=clockless, event_time=True, inputs=1
    )
    job = JobGraph((), (cast("Any", window),), (), 8)
    history = History(cast("Any", old), {2: 1}, frozenset({3}), 1, 1 << 20)
    if has_ended:
        assert history._has_ended(True)
    else:
        with pytest.raises(CheckpointError, match="then more rows came"):
            history.job(job)
    assert history._has_ended(False) is has_ended


def test_every_part_is_named_at_every_instant() -> None:
    def piece(partition: int, start: int, stop: int, at: int) -> Piece:
        part = f"t/{partition}"
        rest = KafkaSplit("t", partition, 9, 9, part=part)
        return Piece(at, 1, KafkaSplit("t", partition, start, stop, part=part), "", rest)

    steps = with_all_parts({5: [piece(0, 0, 1, 5)], 6: [piece(1, 0, 9, 6), piece(0, 1, 9, 6)]})
    names = {
        at: [(p.split.part, cast("KafkaSplit", p.split).stop > cast("KafkaSplit", p.split).start) for p in some]
        for at, some in steps.items()
    }
    assert names == {5: [("t/0", True), ("t/1", False)], 6: [("t/1", True), ("t/0", True)]}
