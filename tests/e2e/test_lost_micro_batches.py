"""Jobs whose sinks have lost micro-batches while they were down, and jobs that must not be taken for such."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.session.environment import TableEnvironment
from tests.support.postgres import PASSWORD, Database

PLAIN = {"table.exec.sink.upsert-materialize": "NONE"}
SINKS = {
    "added": "(k BIGINT) WITH ({database}, 'table-name' = '{table}')",
    "merged": "(k BIGINT PRIMARY KEY NOT ENFORCED) WITH ('connector' = 'delta', 'table-path' = '{folder}/merged')",
    "grown": "(k BIGINT) WITH ('connector' = 'delta', 'table-path' = '{folder}/grown')",
}


class Job:
    """Copies numbers from files to a table of a database and two Delta tables."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database, self.folder, self.checkpoint, self.table = database, folder, "checkpoint", "added"
        self.options = PLAIN
        (folder / "numbers").mkdir()
        database.execute("CREATE TABLE added (k bigint)", "CREATE TABLE another (k bigint)")

    def give(self, *numbers: int) -> None:
        (self.folder / "numbers" / f"{numbers[0]}.json").write_text("".join(f'{{"k": {n}}}\n' for n in numbers))

    def run(self) -> None:
        """Copies what has come since the last run, into the sinks that get it."""
        where = {"execution.checkpointing.dir": str(self.folder / self.checkpoint), "parallelism.default": "1"}
        env = TableEnvironment.create({**where, "pipeline.max-parallelism": "1", **self.options})
        env.execute_sql(
            f"CREATE TABLE numbers (k BIGINT) WITH ('connector' = 'filesystem', 'path' = '{self.folder}/numbers', "
            "'format' = 'json')"
        )
        given = {**self.database.options, "password": "${env:LOST_PASSWORD}"}
        database = ", ".join(f"'{key}' = '{text}'" for key, text in given.items())
        inserts = env.create_statement_set()
        for name, text in SINKS.items():
            text = text.format(database=database, folder=self.folder, table=self.table)
            env.execute_sql(f"CREATE TABLE {name} {text}")
            inserts.add_insert_sql(f"INSERT INTO {name} SELECT k FROM numbers WHERE k < 100 OR k % 2 = 0")
        inserts.execute().wait()

    def refused(self, code: str) -> StateplanError:
        with pytest.raises(StateplanError) as caught:
            self.run()
        assert caught.value.code == code, caught.value
        assert PASSWORD not in str(caught.value)
        return caught.value


@pytest.fixture
def job(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setenv("LOST_PASSWORD", PASSWORD)
    made = Job(database, tmp_path)
    made.give(1, 2)
    made.run()
    return made


def rows(job: Job, table: str = "added") -> list[int]:
    return sorted(row[0] for row in job.database.rows(f"SELECT k FROM {table}"))


def test_sinks_that_have_lost_micro_batches(job: Job) -> None:
    record = job.folder / "checkpoint" / "sinks.json"
    assert PASSWORD not in record.read_text()
    job.give(101, 103)  # no rows for the sinks
    job.run()
    kept = job.database.rows("SELECT uid, epoch, owner FROM stateplan_epochs")
    job.database.execute("DELETE FROM stateplan_epochs")
    job.give(3)
    assert "'sinks.json'" in (job.refused("RUN150").hint or "")
    assert job.database.rows("SELECT * FROM stateplan_epochs") == []
    values = ", ".join(f"('{uid}', {epoch}, '{owner}')" for uid, epoch, owner in kept)
    job.database.execute(f"INSERT INTO stateplan_epochs (uid, epoch, owner) VALUES {values}")
    job.run()
    assert rows(job) == [1, 2, 3]
    for name in ("merged", "grown"):
        job.give(4 if name == "merged" else 5)
        (job.folder / name).rename(job.folder / "away")
        job.refused("RUN176")
        shutil.rmtree(job.folder / name, ignore_errors=True)
        (job.folder / "away").rename(job.folder / name)
        job.run()
    assert rows(job) == [1, 2, 3, 4, 5]
    job.database.execute("DELETE FROM stateplan_epochs", "DELETE FROM added")
    job.give(6)
    job.refused("RUN150")
    record.unlink()
    job.run()
    assert rows(job) == [6]


def test_jobs_that_have_lost_nothing(job: Job) -> None:
    job.options = {**PLAIN, "execution.state-recovery.path": str(job.folder / "checkpoint")}
    job.checkpoint = "copy"
    job.give(3)
    job.run()  # a new job, whose sinks have noted nothing
    assert rows(job) == [1, 2, 3]
    job.options = PLAIN
    job.table = "another"
    job.database.execute("DELETE FROM stateplan_epochs")
    job.give(4)
    job.run()  # another table
    assert rows(job, "another") == [4]
    (job.folder / "copy" / "sinks.json").unlink()  # as an older version left it
    job.give(5)
    job.run()
    assert rows(job, "another") == [4, 5]
