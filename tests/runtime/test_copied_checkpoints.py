"""A checkpoint is copied as of its last finished micro-batch, while its job writes to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stateplan.common.errors import CheckpointError
from stateplan.common.paths import AnyPath
from stateplan.runtime import readers
from stateplan.runtime.checkpoint import savepoint
from stateplan.runtime.checkpoint.savepoint import FACTS, copy_finished
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.runtime.spark.split_source import SplitReader


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def watermarks(folder: Path, *batches: int) -> None:
    data = {str(batch): {"uid": {"at": batch}} for batch in batches}
    put(folder / "watermarks.json", json.dumps({"sum": readers._sum(data), **data}))


def plan(folder: Path, batch: int) -> None:
    """A micro-batch is planned: it reads a file."""
    entry = {"path": f"file:///data/{batch}", "timestamp": 1, "batchId": batch}
    put(folder / f"spark/sources/0/{batch}", "v1\n" + json.dumps(entry))
    put(folder / f"spark/offsets/{batch}", f'v1\n{{"conf":{{}}}}\n{{"logOffset":{batch}}}')


def finish(folder: Path, batch: int) -> None:
    put(folder / f"spark/state/0/0/{batch + 1}.delta", str(batch))
    put(folder / f"spark/commits/{batch}", "v1\n{}")
    put(folder / f"spark/commits/.{batch}.crc", "crc")
    watermarks(folder, batch, batch + 1)


@pytest.fixture
def running(tmp_path: Path) -> Path:
    """Micro-batch 1 has finished, and micro-batch 2 is in hand."""
    folder = tmp_path / "ck"
    facts = {"format": 3, "id": "abc", "created": 1, "keyGroups": 8, "layouts": [], "reached": 2, "savepoint": {}}
    put(folder / FACTS, json.dumps(facts))
    put(folder / "plan.json", "{}")
    put(folder / "progress.json", "{}")
    put(folder / "spark/metadata", '{"id":"4711"}')
    put(folder / "writer.lock", "")
    for batch in range(2):
        plan(folder, batch)
        finish(folder, batch)
    plan(folder, 2)
    watermarks(folder, 2, 3)
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_micro_batch_in_hand_is_left_out(running: Path, tmp_path: Path) -> None:
    before, copy = tree(running), tmp_path / "copy"
    assert copy_finished(str(running), copy, {}) == 1
    assert tree(running) == before
    spark = SparkCheckpoint.of(copy)
    assert (spark.last_done, spark.last_planned) == (1, 1)
    assert dict(spark.files_of(0, 1)) == {"/data/0": 1, "/data/1": 1}
    assert not (copy / "spark/sources/0/2").exists()
    assert json.loads((copy / FACTS).read_text()).keys() == {"format", "id", "created", "keyGroups", "layouts"}
    assert json.loads((copy / "watermarks.json").read_text()).keys() == {"sum", "2"}
    assert not any((copy / name).exists() for name in ("progress.json", "writer.lock", "spark/metadata"))


def on_each_copy(monkeypatch: pytest.MonkeyPatch, happens: Callable[[int], None]) -> list[int]:
    """Has something happen before Spark's part is copied. Returns the numbers of the attempts."""
    attempts: list[int] = []
    copy_tree = savepoint.copy_tree

    def copying(source: AnyPath, target: AnyPath, *more: Any) -> None:
        if source.name == "spark":
            attempts.append(len(attempts))
            happens(attempts[-1])
        copy_tree(source, target, *more)

    monkeypatch.setattr(savepoint, "copy_tree", copying)
    return attempts


def test_a_job_may_advance_meanwhile(running: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two micro-batches finish after the watermarks were copied, which then are those of neither."""

    def advance(attempt: int) -> None:
        if attempt == 0:
            finish(running, 2)
            plan(running, 3)
            finish(running, 3)

    watermarks(running, 1)
    attempts = on_each_copy(monkeypatch, advance)
    assert copy_finished(str(running), tmp_path / "copy", {}) == 3
    assert len(attempts) == 2
    assert json.loads((tmp_path / "copy/watermarks.json").read_text()).keys() == {"sum", "3", "4"}


def test_a_micro_batch_that_spark_forgets_meanwhile(
    running: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget(attempt: int) -> None:
        (running / f"spark/commits/{1 + attempt}").unlink()
        finish(running, 2 + attempt)
        plan(running, 3 + attempt)

    attempts = on_each_copy(monkeypatch, forget)
    with pytest.raises(CheckpointError, match="faster than it can be copied") as error:
        copy_finished(str(running), tmp_path / "copy", {})
    assert error.value.code == "CKPT072" and len(attempts) == 5


def test_nothing_has_finished(running: Path, tmp_path: Path) -> None:
    for path in (running / "spark/commits").iterdir():
        path.unlink()
    with pytest.raises(CheckpointError) as error:
        copy_finished(str(running), tmp_path / "copy", {})
    assert error.value.code == "CKPT041"
    with pytest.raises(CheckpointError) as error:
        copy_finished(str(tmp_path / "cK"), tmp_path / "copy", {})
    assert error.value.code == "CKPT070" and "ck" in str(error.value.hint)


@pytest.mark.parametrize("acknowledges", [True, False])
def test_a_trial_acknowledges_nothing(acknowledges: bool) -> None:
    class Source:
        ends: tuple[object, ...] = ()

        def committed(self, end: object) -> None:
            self.ends += (end,)

    source: Any = Source()
    SplitReader(source, 1, acknowledges=acknowledges).commit({"at": 1})
    assert source.ends == (({"at": 1},) if acknowledges else ())
