"""Which micro-batches a system has, next to the one that a job is about to write."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from stateplan.common.errors import CheckpointError, RunError
from stateplan.connectors.filesystem import _Folder
from stateplan.connectors.sink_epochs import EpochOrder, Ledger, Mark, compare_epochs
from stateplan.runtime.checkpoint.record import BatchRecord
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from tests.connectors.kafka_sinks import EXACT
from tests.connectors.kafka_sinks import make as kafka_sink
from tests.connectors.kafka_sinks import rows as messages
from tests.connectors.kafka_sinks import write as write_messages
from tests.support.kafka import Kafka


class Lines:
    """An encoder that writes a line for each row."""

    def encode(self, rows: pl.DataFrame) -> bytes:
        return "".join(f"{row[0]}\n" for row in rows.rows()).encode()


@pytest.mark.parametrize(
    ("found", "hand", "expected", "how"),
    [
        (None, Mark(3, "a"), None, EpochOrder.NEW),
        (None, Mark(3, "a"), 2, EpochOrder.NO_EPOCHS),
        (Mark(2, "a"), Mark(3, "b"), 2, EpochOrder.NEW),
        (Mark(3, "a"), Mark(3, "a"), 2, EpochOrder.SAME),
        (Mark(3, "a"), Mark(3, "b"), 2, EpochOrder.OTHER),
        (Mark(3), Mark(3, "b"), 2, EpochOrder.SAME),
        (Mark(4, "a"), Mark(3, "a"), 2, EpochOrder.AHEAD),
        (Mark(1, "a"), Mark(3, "a"), 2, EpochOrder.BEHIND),
    ],
)
def test_standings(found: Mark | None, hand: Mark, expected: int | None, how: EpochOrder) -> None:
    assert compare_epochs(found, hand, expected) is how


def test_a_digest_survives_as_a_number() -> None:
    mark = Mark(7, "00f0123456789ab")
    assert Mark.of(7, mark.number) == mark
    assert Mark.of(7, Mark(7).number) == Mark(7)
    assert Mark.of(7, None) == Mark(7)


def write(folder: Path | str, epoch: int, read: str, value: int, ledger: Ledger | None = None, uid: str = "uid") -> str:
    """What the user is told."""
    sink = _Folder(str(folder), uid, "txt", Lines())  # type: ignore[arg-type]
    if ledger is not None:
        sink.ledger.last_epoch = ledger.last_epoch
    sink.ledger.input = read
    sink.prepare(epoch)
    sink.commit([sink.write(pl.DataFrame({"c0": [value]}), epoch, "0")], epoch)
    if ledger is not None:
        ledger.last_epoch = sink.ledger.last_epoch
    return " ".join(sink.ledger.take_sentences())


def rows(folder: Path) -> list[str]:
    return sorted(p.read_text().strip() for p in folder.glob("[!.]*"))


def test_files_of_another_history_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, 0, "a", 1)
    write(out, 1, "b", 2)
    write(out, 1, "b", 2)  # the same micro-batch again
    assert rows(out) == ["1", "2"]
    with pytest.raises(RunError) as other:
        write(out, 1, "c", 3)
    with pytest.raises(RunError) as ahead:
        write(out, 0, "a", 1)
    assert (other.value.code, ahead.value.code) == ("RUN002", "RUN002")
    assert rows(out) == ["1", "2"]
    write(out, 2, "d", 4)
    assert rows(out) == ["1", "2", "4"]


def test_a_folder_that_was_removed_is_told_of_and_one_that_was_set_back_is_refused(tmp_path: Path) -> None:
    out, ledger = tmp_path / "out", Ledger()
    write(out, 0, "a", 1, ledger)
    out.rename(tmp_path / "away")
    said = write(out, 1, "b", 2, ledger)
    assert "micro-batch 0" in said
    assert rows(out) == ["2"]
    out.rename(tmp_path / "newer")
    (tmp_path / "away").rename(out)
    with pytest.raises(RunError) as behind:
        write(out, 2, "c", 3, ledger)
    assert behind.value.code == "RUN002"


@pytest.mark.parametrize("place", ["local", "memory"])
def test_rows_of_a_checkpoint_that_is_gone_are_told_of(place: str, tmp_path: Path) -> None:
    out = tmp_path / "out" if place == "local" else f"memory://{tmp_path.name}/out"
    assert write(out, 0, "a", 1, uid="sink-one") == ""
    assert write(out, 0, "b", 1, uid="other-two") == "", "another statement"
    assert "twice" in write(out, 0, "c", 1, uid="sink-two")
    assert write(out, 0, "c", 1, uid="sink-two") == "", "again, after a failure"
    assert write(out, 1, "d", 2, uid="sink-two") == ""
    assert write(out, 5, "e", 2, uid="sink-three") == "", "it goes on from a savepoint"
    assert write(out, 0, "", 2, uid="sink-four") == "", "without a checkpoint"


@pytest.mark.parametrize(("connector", "word"), [("kafka", "twice"), ("upsert-kafka", "stay")])
def test_messages_of_a_checkpoint_that_is_gone_are_told_of(kafka: Kafka, connector: str, word: str) -> None:
    topic = kafka.topic()

    def run(uid: str, read: str, epoch: int = 0) -> str:
        keys = ("k",) if connector == "upsert-kafka" else ()
        sink = kafka_sink(kafka.servers, topic, connector=connector, key=keys, **EXACT, uid=f"{topic}{uid}")
        sink.ledger.input = read
        write_messages(sink, messages(("a", 1)), epoch)
        sink.close()
        return " ".join(sink.ledger.take_sentences())

    assert run("-one", "a") == ""
    assert run("other-two", "b") == "", "another statement"
    assert word in run("-two", "c")
    assert run("-two", "d", 1) == ""
    assert run("-three", "") == "", "without a checkpoint"


def test_a_marker_of_an_earlier_version_counts(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, 0, "", 1)
    marker = next(out.glob(".staged-uid/0.committed"))
    marker.write_text("[]")
    write(out, 0, "a", 9)
    assert rows(out) == ["1"]


@pytest.fixture
def spark(tmp_path: Path) -> SparkCheckpoint:
    """What Spark has written when micro-batch 2 begins."""
    found = SparkCheckpoint.of(tmp_path)
    for place, text in {
        "metadata": '{"id":"1"}',
        **{f"offsets/{n}": f'v1\n{{}}\n{{"logOffset":{n}}}' for n in range(3)},
        **{f"commits/{n}": "v1\n{}" for n in range(2)},
        **{f"sources/0/{n}": f'v1\n{{"path":"file:///in/{n}","timestamp":1,"batchId":{n}}}' for n in range(3)},
    }.items():
        path = tmp_path / "spark" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return found


def facts(reached: int | None) -> dict[str, object]:
    """What ``stateplan.json`` says."""
    return {"layouts": [1], **({} if reached is None else {"reached": reached})}


def checked(spark: SparkCheckpoint, reached: int | None = 0) -> str:
    """The code of the refusal; nothing for none."""
    folder = spark.folder.parent
    assert isinstance(folder, Path)
    try:
        BatchRecord.of(folder, "job").check(spark, facts(reached), 0, None)
    except CheckpointError as error:
        return error.code
    return ""


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("offsets/2", "CKPT016"),
        ("offsets/1", "CKPT014"),
        ("commits/1", "CKPT016"),
        ("sources/0/0", "CKPT014"),
        ("metadata", "CKPT014"),
        ("../progress.json", "CKPT016"),
    ],
)
def test_what_spark_lost_is_refused(spark: SparkCheckpoint, tmp_path: Path, place: str, code: str) -> None:
    record = BatchRecord.of(tmp_path, "job")
    record.adopt(facts(None), facts(0))
    read = record.begin(2, spark, 0, -1)
    assert read and record.begin(2, spark, 0, -1) == read
    assert checked(spark) == ""
    path = tmp_path / "spark" / place
    text = path.read_text()
    path.unlink()
    assert checked(spark) == code
    path.write_text(text.replace("2", "3").replace("1", "7").replace("0", "8").replace("{}", '{"a":1}'))
    assert checked(spark) in ("CKPT014", "CKPT005")
    path.write_text(text)
    assert checked(spark) == ""


def test_a_checkpoint_of_an_earlier_version_goes_on(spark: SparkCheckpoint, tmp_path: Path) -> None:
    assert checked(spark, reached=None) == ""
    BatchRecord.of(tmp_path, "job").adopt(facts(None), facts(-1))
    assert checked(spark, reached=-1) == ""
    (tmp_path / "progress.json").unlink()
    assert checked(spark, reached=-1) == "CKPT016"
