"""Files of Spark's state store, read without Spark: RocksDB's tables, changelogs and snapshots."""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.runtime.hashing import partition_of, slot_label
from stateplan.runtime.spark.state_store import StorePartition, StoreVersion
from stateplan.runtime.spark.store_snapshot import StoreFileError, StoreSnapshot
from tests.runtime.store_files import changelog, manifest_entry, run_entry, run_key, snapshot

KEYS = st.binary(max_size=6)
CHANGES = st.dictionaries(KEYS, st.none() | st.binary(max_size=80), max_size=30)


@settings(max_examples=30)
@given(st.lists(CHANGES, max_size=3), KEYS, KEYS)
def test_a_snapshot_has_what_was_written(files: list[dict[bytes, bytes | None]], low: bytes, high: bytes) -> None:
    values: dict[bytes, bytes | None] = {}
    for changes in files:
        values |= changes
    with tempfile.TemporaryDirectory() as folder:
        snapshot(Path(folder), 1, "s", files)
        read = dict(opened(Path(folder), "1_s").scan(low, high))
        assert read == {key: value for key, value in values.items() if value is not None and low <= key < high}
        wanted = dict(opened(Path(folder), "1_s").scan(low, high, lambda key: key.startswith(b"a")))
        assert wanted == {key: value for key, value in read.items() if key.startswith(b"a")}


def opened(folder: Path, name: str) -> StoreSnapshot:
    """A snapshot that :func:`snapshot` has written."""
    with zipfile.ZipFile(folder / f"{name}.zip") as archive:
        facts = json.loads(archive.read("metadata").decode().partition("\n")[2])
        files = {f["localFileName"]: (folder / "SSTs" / f["dfsSstFileName"], f["sizeBytes"]) for f in facts["sstFiles"]}
        return StoreSnapshot(archive, files)


@settings(max_examples=60)
@given(st.data())
def test_a_damaged_snapshot_is_an_error_or_has_the_same_rows(data: st.DataObject) -> None:
    rows = {f"key {n}".encode(): b"value" * n for n in range(20)}
    with tempfile.TemporaryDirectory() as folder:
        snapshot(Path(folder), 1, "s", [rows])
        (file,) = (Path(folder) / "SSTs").iterdir()
        content = bytearray(file.read_bytes())
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
        file.write_bytes(content)
        try:
            assert dict(opened(Path(folder), "1_s").scan(b"", b"\xff")) == rows
        except StoreFileError as error:
            assert folder not in str(error)


def partition(folder: Path, version: int, writer: str) -> StorePartition:
    return StorePartition(StoreVersion(folder, version, writer))


def written(folder: Path) -> Path:
    """A partition: a snapshot with two tables, and two changelogs."""
    old = dict([manifest_entry(5, "old"), run_entry(5, "a/0", b"A"), run_entry(7, "z/0", b"Z")])
    new = dict([manifest_entry(5, "list"), (run_key(7, "z/0"), None)])
    snapshot(folder, 3, "s", [old, new])
    (folder / "4_t.changelog").write_bytes(changelog(dict([run_entry(5, "b/0", b"B")]), [(3, "s")]))
    log = changelog({run_key(5, "a/0"): None, **dict([run_entry(5, "c/0", b"C" * 99)])}, [(3, "s"), (4, "t")], True)
    (folder / "5_u.changelog").write_bytes(log)
    return folder


def test_a_version_is_a_snapshot_and_the_changelogs_behind_it(tmp_path: Path) -> None:
    folder = written(tmp_path)
    assert partition(folder, 3, "s").manifests == {5: "list"}
    assert partition(folder, 3, "s").runs(5) == {"a/0": b"A"}
    assert partition(folder, 3, "s").runs(7) == {}
    assert partition(folder, 4, "t").runs(5) == {"a/0": b"A", "b/0": b"B"}
    assert partition(folder, 5, "u").runs(5) == {"b/0": b"B", "c/0": b"C" * 99}
    assert partition(folder, 5, "u").runs(5, {"c/0"}) == {"c/0": b"C" * 99}


def test_versions_without_writers_are_found_by_number(tmp_path: Path) -> None:
    snapshot(tmp_path, 1, "", {})
    for version, name in ((2, "a/0"), (3, "b/0")):
        (tmp_path / f"{version}.changelog").write_bytes(changelog(dict([run_entry(1, name, b"x")])))
    assert partition(tmp_path, 2, "").runs(1) == {"a/0": b"x"}
    assert partition(tmp_path, 3, "").runs(1) == {"a/0": b"x", "b/0": b"x"}


@pytest.mark.parametrize(
    ("file", "data", "reason"),
    [
        ("5_u.changelog", None, "5_u.changelog is missing"),
        ("4_t.changelog", None, "4_t.changelog is missing"),
        ("3_s.zip", None, "no snapshot at or before version 5"),
        ("3_s.zip", b"x", "3_s.zip is damaged"),
        ("SSTs/*", None, "3_s.sst is missing"),
        ("SSTs/*", b"x", "3_s.sst has 1 bytes instead of"),
        ("5_u.changelog", b"x", "unknown method"),
        ("5_u.changelog", changelog({}, [])[:-30], "5_u.changelog"),
    ],
)
def test_damage_names_the_file(file: str, data: bytes | None, reason: str, tmp_path: Path) -> None:
    folder = written(tmp_path)
    for path in sorted(folder.glob(file))[:1]:
        path.unlink()
        if data is not None:
            path.write_bytes(data)
    with pytest.raises(StoreFileError, match=reason):
        partition(folder, 5, "u").runs(5)


def test_slots_are_in_the_partitions_to_which_spark_sends_them() -> None:
    assert [partition_of(slot_label(slot), 4) for slot in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]
