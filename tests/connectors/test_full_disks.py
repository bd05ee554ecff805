"""Full disks: of the checkpoint, of a table of a lake, of the database. Each is named, and the job goes on later."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stateplan.common.errors import StateplanError
from stateplan.connectors.jdbc.sink import JdbcSink
from stateplan.connectors.sink_epochs import SinkEpoch
from stateplan.runtime.checkpoint.sink_records import SinkRecords
from tests.connectors.iceberg_tables import contents as iceberg_contents
from tests.connectors.iceberg_tables import sink_of as iceberg_sink
from tests.connectors.jdbc_tables import changes, sink, source, write
from tests.connectors.postgres_changes import Job, options, source_of
from tests.support.delta import contents, frame, sink_of
from tests.support.delta import write as write_delta
from tests.support.postgres import PASSWORD, Database, owner
from tests.support.small_disk import SmallDisk, small_disk

NOISE = [os.urandom(500).hex() for _ in range(2000)]
"""Texts of 2 MB that do not compress to less than half of that."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A file system of 400 KiB."""
    with small_disk(tmp_path / "disk") as made:
        yield made


@pytest.fixture
def noisy(database: Database) -> Database:
    """A database whose table ``items`` does not fit on the disk."""
    filled = sink_for(database)
    write(filled, 0, changes("id INT, note STRING", *enumerate(NOISE)))
    filled.close()
    return database


def sink_for(database: Database, tablespace: str = "pg_default") -> JdbcSink:
    database.execute(f"CREATE TABLE items (id int PRIMARY KEY, note text) TABLESPACE {tablespace}")
    return sink(database, "items", "id INT, note STRING")


def refused(code: str, text: str, run: Any) -> None:
    with pytest.raises(StateplanError) as caught:
        run()
    assert caught.value.code == code, caught.value
    assert text in caught.value.message
    assert PASSWORD not in str(caught.value)


def test_the_copy_of_a_table(noisy: Database, disk: SmallDisk) -> None:
    found = source(noisy, "items", "id INT, note STRING")
    found.folder = disk.folder / "checkpoint" / "source"
    start = found.initial_offset()
    refused("RUN031", f"the disk of {disk.folder}", lambda: found.latest_offset(start))
    disk.grow()
    splits = found.plan(start, found.latest_offset(start))
    assert sorted(row for split in splits for part in found.read(split) for row in part.rows()) == [*enumerate(NOISE)]


def test_the_rows_and_changes_of_a_table(noisy: Database, disk: SmallDisk) -> None:
    given = options(noisy, changelog_mode="upsert")
    job = Job(source_of(given), disk.folder / "checkpoint" / "source")
    refused("RUN031", f"the disk of {disk.folder}", job.step)
    disk.grow()
    assert len(job.until_quiet()) == len(NOISE)
    other = disk.fill()
    noisy.execute("UPDATE items SET note = 'changed' WHERE id < 3")
    refused("RUN031", f"the disk of {disk.folder}", job.step)
    other.unlink()
    assert sorted(row for _, *row in job.until_quiet()) == [[i, "changed"] for i in range(3)]
    job.source.close()


def test_the_disk_of_the_database(database: Database) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="tablespace-") as above,  # that of the test is of root alone
        small_disk(Path(above, "disk"), "1m") as disk,
    ):
        os.chmod(above, 0o755)
        place = disk.folder / "space"
        place.mkdir()
        os.chown(place, *owner())
        database.execute(f"CREATE TABLESPACE small LOCATION '{place}'", autocommit=True)
        target = sink_for(database, "small")
        rows = changes("id INT, note STRING", *enumerate(NOISE))
        refused("RUN148", "No space left on device", lambda: write(target, 0, rows))
        disk.grow()
        write(target, 0, rows)
        target.close()
        assert database.rows("SELECT count(*), count(DISTINCT id) FROM items") == [(len(NOISE), len(NOISE))]
        database.execute("DROP TABLE items")
        database.execute("DROP TABLESPACE small", autocommit=True)


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_the_files_of_a_delta_table(disk: SmallDisk, keys: tuple[str, ...]) -> None:
    table = disk.folder / "table"
    rows = [*enumerate(NOISE)]
    refused("RUN031", f"the disk of {table}", lambda: write_delta(sink_of(table, keys=keys), 0, frame(*rows)))
    disk.grow()
    write_delta(sink_of(table, keys=keys), 0, frame(*rows))
    assert contents(table) == sorted(rows, key=repr)


def test_the_log_of_a_delta_table(disk: SmallDisk) -> None:
    target = sink_of(disk.folder / "table")
    target.prepare(0)
    part = pickle.loads(pickle.dumps(target)).write(frame((1, "a")), 0, "p")
    other = disk.fill()
    refused("RUN031", f"the disk of {disk.folder}", lambda: target.commit([part], 0))
    other.unlink()
    target.commit([part], 0)
    assert contents(disk.folder / "table") == [(1, "a")]


@pytest.mark.parametrize("key", [(), ("k",)])
def test_the_files_of_an_iceberg_table(disk: SmallDisk, key: tuple[str, ...]) -> None:
    lake, columns = disk.folder / "lake", "k BIGINT NOT NULL, v STRING"
    rows = [*enumerate(NOISE)]
    refused("RUN031", "the disk of", lambda: write_delta(iceberg_sink(lake, columns, key), 0, frame(*rows)))
    disk.grow()
    write_delta(iceberg_sink(lake, columns, key), 0, frame(*rows))
    assert iceberg_contents(lake) == sorted(rows, key=repr)


def test_the_metadata_of_an_iceberg_table(disk: SmallDisk) -> None:
    target = iceberg_sink(disk.folder / "lake")
    target.prepare(0)
    part = pickle.loads(pickle.dumps(target)).write(frame((1, "a")), 0, "p")
    other = disk.fill()
    refused("RUN031", f"the disk of {disk.folder}", lambda: target.commit([part], 0))
    refused("RUN031", f"the disk of {disk.folder}", lambda: iceberg_sink(disk.folder / "lake", table="new").prepare(0))
    other.unlink()
    target.commit([part], 0)
    assert iceberg_contents(disk.folder / "lake") == [(1, "a")]


def test_the_micro_batches_that_sinks_have_noted(disk: SmallDisk) -> None:
    first, second = sink_of(disk.folder / "table"), sink_of(disk.folder / "table")
    first.ledger.last_epoch = SinkEpoch.at("table", 7)
    record = SinkRecords(disk.folder, "job")
    other = disk.fill()
    refused("RUN031", f"the disk of {disk.folder}", lambda: record.keep({"sink": first}))
    other.unlink()
    record.keep({"sink": first})
    for job, kept in (("job", first.ledger.last_epoch), ("a copy that is another job", None)):
        second.ledger.last_epoch = None
        SinkRecords(disk.folder, job).recall({"sink": second})
        assert second.ledger.last_epoch == kept
    (disk.folder / "sinks.json").write_text('{"job": ')
    refused("CKPT005", "sinks.json", lambda: record.recall({"sink": second}))
