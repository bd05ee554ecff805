"""Jobs whose checkpoint lost a part of itself, or is older than what they have written to files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.session.environment import TableEnvironment


class Job:
    """Copies each number once from files, a file per micro-batch."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.said = folder, list[str]()
        self.numbers, self.out, self.checkpoint = folder / "numbers", folder / "out", folder / "checkpoint"
        self.numbers.mkdir()

    def give(self, *numbers: int) -> None:
        for number in numbers:
            (self.numbers / f"{number}.json").write_text(f'{{"k": {number}}}\n')

    def run(self) -> list[str]:
        """Returns what the job says."""
        options = {"execution.checkpointing.dir": str(self.checkpoint), "parallelism.default": "1"}
        said: list[str] = []
        env = TableEnvironment.create({**options, "pipeline.max-parallelism": "1"}, console=said.append)
        table = (
            "WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{}', 'source.max-files-per-trigger' = '1')"
        )
        env.execute_sql(f"CREATE TABLE numbers (k BIGINT, p AS PROCTIME()) {table.format(self.numbers)}")
        env.execute_sql(f"CREATE TABLE copied (k BIGINT) {table.format(self.out)}")
        first = "SELECT k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p) AS n FROM numbers"
        env.execute_sql(f"INSERT INTO copied SELECT k FROM ({first}) WHERE n = 1").wait()
        return said

    def refused(self) -> str:
        with pytest.raises(StateplanError) as caught:
            self.run()
        return caught.value.code

    def rows(self) -> list[int]:
        lines = [line for path in self.out.glob("[!._]*") for line in path.read_text().splitlines()]
        return sorted(json.loads(line)["k"] for line in lines)


@pytest.mark.spark
def test_a_checkpoint_that_lost_a_part_or_is_an_older_copy(spark: object, tmp_path: Path) -> None:
    job, older = Job(tmp_path), tmp_path / "older"
    job.give(1, 2)
    job.run()
    shutil.copytree(job.checkpoint, older)
    job.give(3, 4)
    job.run()
    job.give(5)
    (job.checkpoint / "spark").rename(tmp_path / "spark")
    assert job.refused() == "CKPT016", "Spark's part is gone"
    shutil.copytree(older / "spark", job.checkpoint / "spark")
    assert job.refused() == "CKPT016", "Spark's part is older"
    shutil.rmtree(job.checkpoint / "spark")
    (tmp_path / "spark").rename(job.checkpoint / "spark")

    job.checkpoint.rename(tmp_path / "newest")
    shutil.copytree(older, job.checkpoint)
    assert job.refused() == "RUN002", "the folder is ahead"
    shutil.rmtree(job.checkpoint)
    (tmp_path / "newest").rename(job.checkpoint)
    assert job.rows() == [1, 2, 3, 4]
    job.run()
    assert job.rows() == [1, 2, 3, 4, 5]

    # Two copies, one after another: the second one counts the same number for other input.
    shutil.copytree(job.checkpoint, tmp_path / "copy")
    job.give(6)
    job.run()
    job.checkpoint = tmp_path / "copy"
    job.give(7)
    assert job.refused() == "RUN002"
    job.checkpoint = tmp_path / "checkpoint"
    job.run()
    assert job.rows() == [1, 2, 3, 4, 5, 6, 7]

    job.out.rename(tmp_path / "away")
    job.give(8)
    assert any("has lost what this job wrote" in line for line in job.run())
    assert job.rows() == [8]
    shutil.rmtree(job.checkpoint)
    assert any("with another checkpoint" in line for line in job.run())
