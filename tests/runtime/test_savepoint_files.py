"""Savepoints as files: what is copied, what a copy that was cut off leaves, and places that are brought up to date."""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from stateplan.common.errors import CheckpointError, RunError
from stateplan.common.settings import Configuration
from stateplan.runtime.checkpoint import savepoint
from stateplan.runtime.checkpoint.savepoint import (
    FACTS,
    RECOVERING,
    SAVEPOINT_DIR,
    new_savepoint,
    recover,
    write_savepoint,
)
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint

JOB = "49269d53e125c499faca2963c4533c12"
MARKER = "datagen-1/0000000000_0-5"
SCHEMA = "0/_stateSchema/default/0_1"


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def with_sums(path: Path) -> None:
    """Adds the file with checksums that Spark writes."""
    content = path.read_bytes()
    sums = b"crc\0" + (512).to_bytes(4, "big") + zlib.crc32(content).to_bytes(4, "big")
    path.with_name(f".{path.name}.crc").write_bytes(sums)


def checkpoint(folder: Path) -> Path:
    """What a job leaves after its second micro-batch."""
    put(folder / FACTS, json.dumps({"format": 2, "id": "abc", "created": 1, "keyGroups": 8, "layouts": []}))
    put(folder / "plan.json", "{}")
    put(folder / "ttl.json", '{"format":1,"states":[]}')
    for other in ("ttl.lock", "writer.lock", "metrics/job.json", "metrics/0.jsonl"):
        put(folder / other, "")
    put(folder / "spark/metadata", '{"id":"4711"}')
    for n in range(2):
        put(folder / f"spark/offsets/{n}", 'v1\n{"conf":{}}\n{"logOffset":0}')
        put(folder / f"spark/commits/{n}", "v1\n{}")
    put(folder / "splits" / MARKER, "0-5")
    os.utime(folder / "splits" / MARKER, (1_000_000_000, 1_000_000_000))
    entries = [
        {"path": f"file://{folder}/splits/{MARKER}", "timestamp": 1, "batchId": 0},
        {"path": "file:///data/splits/datagen-1/0000000000_0-5x", "timestamp": 1, "batchId": 0},
    ]
    put(folder / "spark/sources/0/0", "\n".join(("v1", *(json.dumps(e, separators=(",", ":")) for e in entries))))
    store = {"storeName": "default", "stateSchemaFilePaths": [f"file:{folder}/spark/state/{SCHEMA}"]}
    put(folder / "spark/state/0/_metadata/v2/0", "v2\n" + json.dumps({"stateStoreInfo": [store]}))
    put(folder / f"spark/state/{SCHEMA}", "a schema")
    for path in ("spark/sources/0/0", "spark/state/0/_metadata/v2/0"):
        with_sums(folder / path)
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def begun(folder: Path) -> Path:
    """A new checkpoint directory, with its lock."""
    put(folder / "writer.lock", "")
    return folder


def told() -> tuple[list[str], Callable[[str], None]]:
    lines: list[str] = []
    return lines, lines.append


def test_the_name_is_as_flinks(tmp_path: Path) -> None:
    folder = new_savepoint({SAVEPOINT_DIR: str(tmp_path)}, JOB)
    assert folder.parent == tmp_path and folder.name.startswith("savepoint-49269d-")
    assert len(folder.name) == len("savepoint-49269d-24f72b013cb4")
    assert not folder.exists()
    with pytest.raises(RunError) as error:
        new_savepoint({}, JOB)
    assert error.value.code == "RUN058"


def test_a_savepoint_has_neither_locks_nor_metrics(tmp_path: Path) -> None:
    write_savepoint(checkpoint(tmp_path / "ck"), tmp_path / "deep" / "sp", is_drained=True)
    original, copied = tree(tmp_path / "ck"), tree(tmp_path / "deep" / "sp")
    facts = json.loads(copied.pop(FACTS))
    assert facts.pop("savepoint").keys() == {"micro-batch", "at", "drained"}
    assert facts == json.loads(original.pop(FACTS))
    sums = {"spark/sources/0/.0.crc", "spark/state/0/_metadata/v2/.0.crc"}
    assert original.keys() - copied.keys() - sums == {
        "ttl.lock",
        "writer.lock",
        "metrics/job.json",
        "metrics/0.jsonl",
    }
    assert {name for name, data in copied.items() if original[name] != data} == {
        "spark/sources/0/0",
        "spark/state/0/_metadata/v2/0",
    }
    assert all(str(tmp_path / "ck") not in data.decode("latin-1") for data in copied.values())
    assert (tmp_path / "deep" / "sp" / "splits" / MARKER).stat().st_mtime == 1_000_000_000


def test_nothing_is_left_of_one_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: object, *_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(savepoint, "_write_facts", full)
    with pytest.raises(CheckpointError, match="No space left on device; the job continues") as error:
        write_savepoint(checkpoint(tmp_path / "ck"), tmp_path / "sp")
    assert error.value.code == "CKPT074"
    assert not (tmp_path / "sp").exists()


@pytest.mark.parametrize("name", ["new", "a b#c%20d?é+(1)=[x]"])
def test_a_checkpoint_begins_as_a_copy(tmp_path: Path, name: str) -> None:
    write_savepoint(checkpoint(tmp_path / "ck"), tmp_path / "sp")
    before = tree(tmp_path / "sp")
    new, (lines, tell) = begun(tmp_path / name), told()
    recover(str(tmp_path / "sp"), new, {}, tell)
    recover(str(tmp_path / "sp"), new, {}, tell)
    assert lines == [f"starting from the savepoint {tmp_path / 'sp'}"]
    assert tree(tmp_path / "sp") == before
    facts = json.loads((new / FACTS).read_text())
    assert facts["id"] != "abc" and facts["recovered"] == str(tmp_path / "sp") and "savepoint" not in facts
    spark = SparkCheckpoint.of(new)
    assert spark.query_id("wanted") == "wanted"
    spark.relocate()
    spark.relocate()
    mine, foreign = [json.loads(line)["path"] for line in (new / "spark/sources/0/0").read_text().splitlines()[1:]]
    assert foreign == "file:///data/splits/datagen-1/0000000000_0-5x"
    escaped = "a%20b%23c%2520d%3Fé+(1)=%5Bx%5D" if name != "new" else name
    assert mine == f"file://{tmp_path}/{escaped}/splits/{MARKER}"
    (schema,) = json.loads((new / "spark/state/0/_metadata/v2/0").read_text()[3:])["stateStoreInfo"][0][
        "stateSchemaFilePaths"
    ]
    assert schema == f"file:{new}/spark/state/{SCHEMA}"
    assert not (new / "spark/sources/0/.0.crc").exists()


def _changed(log: Path, sums: Path) -> None:
    log.write_text(log.read_text().replace("{", "{ "))


def _cut_sums(log: Path, sums: Path) -> None:
    sums.write_bytes(sums.read_bytes()[:6])


def _empty_sums(log: Path, sums: Path) -> None:
    sums.write_bytes(b"")


@pytest.mark.parametrize("damage", [_changed, _cut_sums, _empty_sums])
@pytest.mark.parametrize("place", ["sources/0/0", "state/0/_metadata/v2/0"])
def test_a_damaged_log_with_earlier_paths_is_refused(
    tmp_path: Path, damage: Callable[[Path, Path], None], place: str
) -> None:
    folder = checkpoint(tmp_path / "ck").rename(tmp_path / "moved")
    log = folder / "spark" / place
    sums = log.with_name(f".{log.name}.crc")
    with_sums(log)
    damage(log, sums)
    before = log.read_bytes(), sums.read_bytes()
    with pytest.raises(CheckpointError, match=re.escape(str(log))) as error:
        SparkCheckpoint.of(folder).relocate()
    assert error.value.code == "CKPT014"
    assert (log.read_bytes(), sums.read_bytes()) == before


def test_a_damaged_log_without_earlier_paths_is_left_for_spark_to_find(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "ck").rename(tmp_path / "moved")
    log = folder / "spark/sources/0/0"
    log.write_text(log.read_text()[: len(log.read_text()) // 2])
    before = tree(folder / "spark" / "sources")
    SparkCheckpoint.of(folder).relocate()
    assert tree(folder / "spark" / "sources") == before


def test_a_copy_that_was_cut_off_is_made_anew(tmp_path: Path) -> None:
    write_savepoint(checkpoint(tmp_path / "ck"), tmp_path / "sp")
    new, (lines, tell) = begun(tmp_path / "new"), told()
    put(new / RECOVERING, "")
    put(new / "spark/offsets/7", "of another savepoint")
    put(new / "plan.json", "half a pl")
    recover(str(tmp_path / "sp"), new, {}, tell)
    assert lines
    assert not (new / RECOVERING).exists() and not (new / "spark/offsets/7").exists()
    assert (new / "plan.json").read_text() == "{}"


def test_a_checkpoint_of_a_job_that_has_ended(tmp_path: Path) -> None:
    old = checkpoint(tmp_path / "ck")
    lines, tell = told()
    recover(str(old), begun(tmp_path / "new"), {}, tell)
    assert lines == [f"starting from the checkpoint {old}"]
    put(old / "spark/offsets/2", "v1\n{}")
    with pytest.raises(CheckpointError, match="in the middle of micro-batch 2") as error:
        recover(str(old), begun(tmp_path / "newer"), {}, tell)
    assert error.value.code == "CKPT072"
    assert list((tmp_path / "newer").iterdir()) == [tmp_path / "newer" / "writer.lock"]


@pytest.mark.parametrize(
    ("path", "code", "text"),
    [
        ("savepoint-q", "CKPT070", "did you mean 'savepoint-p'"),
        ("", "CKPT070", "holds no savepoint(.|\n)*savepoint-p'"),
        ("plan.json", "CKPT070", "is no folder"),
        ("damaged", "CKPT005", "cannot be used"),
    ],
)
def test_what_is_no_savepoint(tmp_path: Path, path: str, code: str, text: str) -> None:
    put(tmp_path / "all" / "damaged" / FACTS, '{"format')
    write_savepoint(checkpoint(tmp_path / "ck"), tmp_path / "all" / "savepoint-p")
    put(tmp_path / "all" / "plan.json", "{}")
    if path == "":
        (tmp_path / "all" / "damaged" / FACTS).unlink()
    with pytest.raises(CheckpointError, match=text) as error:
        recover(str(tmp_path / "all" / path), begun(tmp_path / "new"), {}, print)
    assert error.value.code == code
    assert not (tmp_path / "new" / FACTS).exists()


def test_no_savepoint_is_claimed() -> None:
    note = Configuration().set("execution.state-recovery.claim-mode", "CLAIM")
    assert note is not None and "never removes it" in note


def test_what_was_not_planned_is_forgotten(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "ck")
    put(folder / "spark/offsets/2", 'v1\n{"conf":{}}\n{"logOffset":1}\n{"seed":5}\n-')
    for source in range(3):
        for n in range(1 if source == 1 else 4):
            put(folder / f"spark/sources/{source}/{n}", "v1")
            put(folder / f"spark/sources/{source}/.{n}.crc", "")
    for name in ("1.compact", ".1.compact.crc", "4.compact", ".4.compact.crc", "5.tmp"):
        put(folder / f"spark/sources/0/{name}", "v1")
    SparkCheckpoint.of(folder).forget_unplanned()
    left = {str(p.relative_to(folder / "spark/sources")) for p in (folder / "spark/sources").rglob("*") if p.is_file()}
    kept = {"0", ".0.crc", "1", ".1.crc", "1.compact", ".1.compact.crc", "5.tmp"}
    assert {name[2:] for name in left if name.startswith("0/")} == kept
    assert {"1/0", "2/3"} <= left
    SparkCheckpoint.of(tmp_path / "nowhere").forget_unplanned()
