"""What workers hand over to the driver: in reports, or in files of a folder that both of them reach."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from stateplan.common.errors import OptionError
from stateplan.connectors.protocol import Sink
from stateplan.runtime.exchange import Blob, Rows, blob_batch, encode
from stateplan.runtime.hashing import slot_label
from stateplan.runtime.jobgraph import SinkSpec
from stateplan.runtime.sinks import Left, Report, SinkDriver, reports, write_sinks
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import Inserts, read_script

LARGE, SMALL = 200_000, 1000


@dataclass(frozen=True)
class Filler(Sink):
    """Hands over as many bytes as the only row says, and keeps what is committed."""

    committed: list[list[bytes]] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    folder: Path | None = None
    keeps_order = True

    def write(self, frame: pl.DataFrame, epoch: int, part: str) -> bytes:
        size: int = frame["c0"][0]
        return bytes([65 + epoch]) * size

    def commit(self, parts: Sequence[bytes], epoch: int) -> None:
        assert len(parts[:1]) <= 1
        self.committed.append(list(parts))
        if self.folder is not None:
            self.seen.append(len(list(self.folder.iterdir())))


@pytest.fixture
def sink() -> Filler:
    return Filler()


@pytest.fixture
def driver(sink: Filler) -> Iterator[SinkDriver]:
    made = SinkDriver((SinkSpec("u", "out", (), sink),), near=True)
    yield made
    made.close()


def reported(sink: Sink, sizes: list[int], epoch: int, shared: Path | None) -> list[Report]:
    """What a task reports that writes a part of each size."""
    blobs = [
        Blob(slot_label(3), 0, f"{i}", 0, Rows(1, encode(pl.DataFrame({"c0": pl.Series([size], dtype=pl.Int64)}))))
        for i, size in enumerate(sizes)
    ]
    made = write_sinks([(sink, "out", "u")], epoch, [3], shared_folder=shared)([blob_batch(blobs)])
    return reports(value.as_py() for batch in made for value in batch.column(0))


def test_large_parts_are_left_in_files(driver: SinkDriver, sink: Filler) -> None:
    shared = driver.parts_folder
    assert shared is not None and not driver.reports_rows
    for epoch in (0, 1):
        driver.prepare(epoch)
        found = reported(sink, [LARGE, SMALL, LARGE + 1], epoch, shared)
        assert all(isinstance(made, Left) for *_, made in found)
        assert len(pickle.dumps(found)) < 1000
        assert len(list(shared.iterdir())) == 1
        driver.commit(found, epoch)
        letter = bytes([65 + epoch])
        assert sink.committed[epoch] == [letter * LARGE, letter * SMALL, letter * (LARGE + 1)]
        assert list(shared.iterdir()) == []
    assert driver.row_counts == [6]
    driver.close()
    assert not shared.exists()


def test_little_is_reported_itself(driver: SinkDriver, sink: Filler) -> None:
    driver.prepare(0)
    found = reported(sink, [SMALL, 0, SMALL], 0, driver.parts_folder)
    assert [made for *_, made in found] == [b"A" * SMALL, b"", b"A" * SMALL]
    many = reported(sink, [SMALL, 0] * (LARGE // SMALL), 0, driver.parts_folder)
    assert {type(made) for *_, made in many} == {Left, bytes}
    assert all(made == b"" for *_, made in many if isinstance(made, bytes))
    driver.commit(many, 0)
    assert sink.committed == [[b"A" * SMALL] * (LARGE // SMALL)]


def test_what_a_failed_attempt_left_is_removed(driver: SinkDriver, sink: Filler) -> None:
    assert driver.parts_folder is not None
    driver.prepare(0)
    reported(sink, [LARGE], 0, driver.parts_folder)
    driver.prepare(0)
    assert list(driver.parts_folder.iterdir()) == []
    driver.commit(reported(sink, [LARGE], 0, driver.parts_folder), 0)
    assert [len(part) for part in sink.committed[0]] == [LARGE]


def test_what_sinks_say_reaches_the_user_with_the_name_of_the_table() -> None:
    @dataclass(frozen=True)
    class Saying(Filler):
        def prepare(self, epoch: int) -> str | None:
            self.ledger.tell("one")
            return "two"

        def commit(self, parts: Sequence[bytes], epoch: int) -> None:
            self.ledger.tell("three")

    said: list[str] = []
    driver = SinkDriver((SinkSpec("u", "out", (), Saying()),), tell=said.append)
    driver.prepare(0)
    assert said == ["table out: one", "table out: two"]
    driver.commit([], 0)
    assert said[2:] == ["table out: three"]


def test_files_are_there_until_all_sinks_have_committed(tmp_path: Path) -> None:
    sinks = [Filler(), Filler()]
    driver = SinkDriver(tuple(SinkSpec("u", "out", (), sink) for sink in sinks), near=True)
    assert driver.parts_folder is not None
    watching = [replace(sink, folder=driver.parts_folder) for sink in sinks]
    driver.writers = tuple(watching)
    driver.prepare(0)
    of_first = reported(sinks[0], [LARGE, LARGE], 0, driver.parts_folder)
    of_second = [(1, seq, height, made) for _, seq, height, made in reported(sinks[1], [LARGE], 0, driver.parts_folder)]
    driver.commit([*of_first, *of_second], 0)
    assert [sink.seen for sink in watching] == [[2], [2]]
    assert [len(sink.committed[0]) for sink in watching] == [2, 1]
    driver.close()


def test_reports_have_what_cannot_be_left(sink: Filler, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    for shared in (gone, None):
        found = reported(sink, [LARGE, 0, SMALL], 0, shared)
        assert [made if isinstance(made, bytes) else made.read() for *_, made in found] == [
            b"A" * LARGE,
            b"",
            b"A" * SMALL,
        ]
        assert len(pickle.dumps(found)) < LARGE // 10


def test_workers_of_other_machines_share_nothing(sink: Filler) -> None:
    driver = SinkDriver((SinkSpec("u", "out", (), sink),))
    assert driver.parts_folder is None and driver.reports_rows
    driver.prepare(0)
    driver.commit(reported(sink, [LARGE, 0, SMALL], 0, driver.parts_folder), 0)
    assert sink.committed == [[b"A" * LARGE, b"A" * SMALL]]
    driver.close()


def test_nothing_is_reported_without_rows(sink: Filler, tmp_path: Path) -> None:
    empty: list[pa.RecordBatch] = []
    assert list(write_sinks([(sink, "out", "u")], 0, [3], None, tmp_path)(empty)) == []


def test_a_file_that_has_been_cut_off_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "part"
    path.write_bytes(b"head and tail")
    left = Left(path, 5, 8)
    assert left.read() == b"and tail"
    path.write_bytes(b"head and")
    with pytest.raises(OSError, match="cut off"):
        left.read()


def test_a_table_is_there_when_its_job_has_begun(tmp_path: Path) -> None:
    """Not only when its first rows are: who reads it meanwhile finds it empty."""
    env = TableEnvironment.create({})
    env.execute_sql(
        f"CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t/deep', 'format' = 'json')"
    )
    with pytest.raises(OptionError) as missing:
        list(env.execute_sql("SELECT * FROM t").collect())
    assert missing.value.code == "OPT040"
    (statement,) = read_script("INSERT INTO t SELECT 1 WHERE FALSE")
    job = translate(env.session.compiler.document(Inserts.of(statement.node, statement.source)).graph, {}, 1)
    SinkDriver(job.sinks).close()
    assert list(env.execute_sql("SELECT * FROM t").collect()) == []
