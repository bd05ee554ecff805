"""Delta tables on an object store: moto, in a process of its own."""

from __future__ import annotations

import logging
import pickle
import random
import time
from pathlib import Path
from typing import Any

import pytest

from stateplan.common.errors import DataError, StateplanError
from stateplan.connectors.delta.table import Location
from tests.support.delta import drained, frame, race, sink_of, source_of, write

SECRET = "s3cr3t-that-nobody-sees"


@pytest.fixture
def store(object_server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Options of a store that is running."""
    monkeypatch.setenv("STORE_SECRET", object_server["AWS_SECRET_ACCESS_KEY"])
    return {
        "storage.aws_endpoint_url": object_server["AWS_ENDPOINT_URL"],
        "storage.aws_allow_http": "true",
        "storage.aws_access_key_id": object_server["AWS_ACCESS_KEY_ID"],
        "storage.aws_secret_access_key": "${env:STORE_SECRET}",
        "storage.aws_region": "us-east-1",
    }


def test_a_table_is_written_and_read(store: dict[str, str]) -> None:
    for scheme in ("s3", "s3a"):
        path, columns = f"{scheme}://bkt/written-{scheme}/t", "k BIGINT, p STRING"
        sink = sink_of(path, columns, partitions=["p"], **store)
        for _ in range(2):
            write(sink, 0, frame((1, "a b"), (2, None)))
        write(sink, 1, frame((3, "a b")))
        source = source_of(path, columns, mode="streaming", **store)
        rows, end = drained(source)
        assert sorted(rows, key=repr) == [(1, "a b"), (2, None), (3, "a b")]
        write(sink, 2, frame((4, "c")))
        assert drained(source, end)[0] == [(4, "c")]


def test_files_of_many_megabytes(store: dict[str, str], tmp_path: Path) -> None:
    dice = random.Random(1)
    rows = frame(*((k, dice.randbytes(30_000).hex()) for k in range(300)))
    for path, given in (("s3://bkt/big", store), (str(tmp_path / "big"), {})):
        write(sink_of(path, **given), 0, rows)
        assert drained(source_of(path, **given))[0] == rows.rows()


def test_changes_are_merged(store: dict[str, str]) -> None:
    path, columns = "s3://bkt/merged", "k BIGINT NOT NULL, v STRING"
    sink = sink_of(path, columns, ["k"], **store)
    write(sink, 0, frame((1, "a"), (2, "b")))
    for _ in range(2):
        write(sink, 1, frame((1, "A"), (2, "b"), kinds=[2, 3]))
    assert drained(source_of(path, columns, **store))[0] == [(1, "A")]


def test_of_writers_of_an_epoch_one_commits(store: dict[str, str]) -> None:
    path = "s3://bkt/raced"
    sink_of(path, **store).prepare(0)
    failures = race(lambda uid: sink_of(path, uid=uid, **store))
    # A writer that is behind finds a later micro-batch of the job.
    assert {getattr(error, "code", repr(error)) for error in failures} <= {"RUN176"}
    rows = sorted(drained(source_of(path, **store))[0], key=repr)
    assert [row for row in rows if row[1] == "same"] == [(0, "same"), (1, "same")]
    assert len(rows) == len(set(rows))


def test_a_store_that_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    given: dict[str, Any] = {
        "storage.aws_endpoint_url": "http://127.0.0.1:1",
        "storage.aws_allow_http": "true",
        "storage.aws_access_key_id": "key",
        "storage.aws_secret_access_key": SECRET,
        "storage.aws_region": "us-east-1",
    }
    source, sink = source_of("s3://bkt/none", **given), sink_of("s3://bkt/none", **given)
    with caplog.at_level(logging.DEBUG):
        for call in (lambda: source.check("t"), source.initial_offset, lambda: sink.prepare(0)):
            started = time.monotonic()
            with pytest.raises(DataError) as raised:
                call()
            assert raised.value.code == "DATA452"
            assert "\x1b" not in raised.value.message
            assert SECRET not in str(raised.value)
            assert time.monotonic() - started < 30
    assert SECRET not in caplog.text
    assert SECRET not in repr(source.location)
    assert SECRET not in repr(pickle.loads(pickle.dumps(sink)).target)


def test_a_wrong_secret_is_not_shown() -> None:
    place = Location("t", "s3://bkt/t", {"aws_secret_access_key": SECRET, "aws_region": "x"})
    assert (
        place.error_text(OSError(f"the signature of {SECRET}\n  does not match"))
        == "the signature of ****** does not match"
    )


def test_a_bucket_that_there_is_not(store: dict[str, str]) -> None:
    for call in (
        source_of("s3://nobody/t", **store).initial_offset,
        lambda: sink_of("s3://nobody/t", **store).prepare(0),
    ):
        with pytest.raises(StateplanError) as raised:
            call()
        assert raised.value.code in ("DATA450", "DATA452")
