"""What has to be done before a job runs with another parallelism, as read from Spark's log of micro-batches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.common.errors import CheckpointError
from stateplan.runtime.checkpoint.directory import Checkpoint
from stateplan.runtime.checkpoint.rescale import (
    Rescale,
    check_parallelism,
    last_of_job,
    plan_rescale,
    wanted_parallelism,
)
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from tests.runtime.state_jobs import GRAPH, JOB, go_on, start


def log(folder: Path, planned_with: list[int], committed: int) -> Path:
    """Spark's part of a checkpoint: per micro-batch its partitions, of which the first ones are committed."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    for batch, partitions in enumerate(planned_with):
        head = json.dumps({"batchWatermarkMs": 0, "conf": {"spark.sql.shuffle.partitions": str(partitions)}})
        (folder / "offsets" / str(batch)).write_text(f"v1\n{head}\n{{}}")
        (folder / "offsets" / f".{batch}.crc").touch()
    for batch in range(committed):
        (folder / "commits" / str(batch)).write_text("v1\n{}")
    return folder


@pytest.mark.parametrize(
    ("planned_with", "committed", "wanted", "after", "expected"),
    [
        ([], 0, 5, 5, None),
        ([], 0, None, None, None),
        ([2, 2], 2, 2, 2, None),
        ([2, 2], 2, None, 2, None),
        ([2, 2], 1, 2, 2, None),
        ([2, 2], 2, 5, 5, Rescale(2, 5, None, ((2, 5),))),
        ([2, 2], 1, 5, 5, Rescale(2, 5, 1, ((2, 5),))),
        ([2], 0, 5, 5, Rescale(2, 5, 0, ((1, 5),))),
        ([2, 2, 5], 2, 5, 5, Rescale(2, 5, None, ((2, 5),))),
        ([2, 2, 5], 2, None, 5, Rescale(2, 5, None, ((2, 5),))),
        ([2, 2, 5], 2, 3, 3, Rescale(2, 3, None, ((2, 5), (3, 3)))),
        ([2, 2, 5], 2, 2, 2, Rescale(2, 2, None, ((2, 5), (3, 2)))),
        ([2, 2, 5], 3, 2, 2, Rescale(5, 2, None, ((3, 2),))),
        ([2, 2, 5, 5], 3, 3, 3, Rescale(5, 3, 3, ((4, 3),))),
    ],
    ids=[
        "nothing has run",
        "nothing has run, nothing is wanted",
        "as it is",
        "nothing is wanted",
        "one in hand, as it is",
        "up",
        "one in hand",
        "the first one in hand",
        "interrupted",
        "interrupted, nothing is wanted",
        "interrupted, then another",
        "interrupted, and back",
        "finished, and back",
        "finished, and the next one in hand",
    ],
)
def test_what_is_left_to_do(
    planned_with: list[int], committed: int, wanted: int | None, after: int | None, expected: object, tmp_path: Path
) -> None:
    folder = log(tmp_path, planned_with, committed)
    assert plan_rescale(SparkCheckpoint(folder), wanted) == (after, expected)
    assert SparkCheckpoint(folder).last_done == committed - 1


def test_the_first_micro_batch_of_the_job_comes_behind_the_repartition() -> None:
    assert Rescale(2, 5, None, ((7, 5),)).next_batch == 8
    assert Rescale(2, 3, None, ((7, 5), (8, 3))).next_batch == 9
    assert Rescale(2, 5, 7, ((8, 5),)).next_batch == 7


@pytest.mark.parametrize(
    ("planned_with", "committed", "last"),
    [([], 0, -1), ([2], 1, 0), ([2, 2, 5], 2, 1), ([2, 2, 5], 3, 1), ([2, 2, 5, 5], 4, 3), ([2, 2, 5, 3], 4, 1)],
)
def test_micro_batches_that_repartition_are_not_of_the_job(
    planned_with: list[int], committed: int, last: int, tmp_path: Path
) -> None:
    folder = log(tmp_path, planned_with, committed)
    assert last_of_job(SparkCheckpoint(folder)) == last
    for batch in range(last):
        (folder / "offsets" / str(batch)).unlink()
    assert last_of_job(SparkCheckpoint(folder)) == last, "Spark keeps the last hundred micro-batches"


def test_what_the_user_wants() -> None:
    assert wanted_parallelism({}) is None
    assert wanted_parallelism({"parallelism.default": "5"}) == 5
    assert wanted_parallelism({"parallelism.default": "5", "spark.sql.shuffle.partitions": "7"}) == 7


def test_a_start_keeps_the_parallelism_of_the_checkpoint_unless_told_otherwise(tmp_path: Path) -> None:
    start(tmp_path / "c")
    log(tmp_path / "c" / "spark", [3, 3], 2)
    same = open_(tmp_path / "c")
    assert (same.rescale, same.settings({"a": "b"})) == (None, {"a": "b", "parallelism.default": "3"})
    other = open_(tmp_path / "c", **{"parallelism.default": "4"})
    assert other.rescale == Rescale(3, 4, None, ((2, 4),))
    assert other.settings({"parallelism.default": "4"}) == {"parallelism.default": "4"}
    job = other.fit(JOB)
    assert job.first_batch == 3, "the micro-batch 2 repartitions"


def test_a_job_without_state_has_nothing_to_rescale(tmp_path: Path) -> None:
    from tests.runtime.state_jobs import job

    start(tmp_path / "c", job_=job())
    log(tmp_path / "c" / "spark", [2, 2], 2)
    assert open_(tmp_path / "c", **{"parallelism.default": "4"}).rescale is None


def test_more_partitions_than_key_groups_are_refused(tmp_path: Path) -> None:
    start(tmp_path / "c")
    with pytest.raises(CheckpointError) as error:
        open_(tmp_path / "c", **{"parallelism.default": "5"})
    assert error.value.code == "CKPT050"
    assert error.value.expected == "at most 4, for the whole life of the state"
    with pytest.raises(CheckpointError, match="1 key group"):
        check_parallelism({"parallelism.default": "2"}, 1, is_resumed=False)
    check_parallelism({}, 1, is_resumed=False)


@pytest.mark.parametrize(
    "text", ["", "v1", "v1\n{", 'v1\n{"conf": {}}', 'v1\n{"conf": {"spark.sql.shuffle.partitions": "x"}}']
)
def test_a_damaged_log_is_named(text: str, tmp_path: Path) -> None:
    start(tmp_path / "c")
    spark = log(tmp_path / "c" / "spark", [2], 1)
    (spark / "offsets" / "0").write_text(text)
    with pytest.raises(CheckpointError) as error:
        open_(tmp_path / "c")
    assert error.value.code == "CKPT005"


def test_partitions_that_are_no_more_leave_nothing(tmp_path: Path) -> None:
    for name in ("0/_metadata", "0/0", "0/2", "0/3", "1/1", "1/10"):
        (tmp_path / "state" / name).mkdir(parents=True)
    SparkCheckpoint(tmp_path).sweep(3)
    left = sorted(str(p.relative_to(tmp_path / "state")) for p in tmp_path.glob("state/*/*"))
    assert left == ["0/0", "0/2", "0/_metadata", "1/1"]
    SparkCheckpoint(tmp_path / "nothing").sweep(3)


def open_(folder: Path, **options: str) -> Checkpoint:
    given = {"execution.checkpointing.dir": str(folder), "pipeline.max-parallelism": "4", **options}
    checkpoint = Checkpoint.open(given, "one", GRAPH, go_on)
    checkpoint.close()
    return checkpoint
