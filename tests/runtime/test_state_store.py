"""Files of Spark's state store, read without Spark: RocksDB's tables, changelogs and snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.runtime.hashing import partition_of, slot_label
from stateplan.runtime.spark.sorted_tables import SortedTable, StoreFileError
from stateplan.runtime.spark.state_store import StorePartition, StoreVersion
from tests.runtime.store_files import changelog, manifest_entry, run_entry, run_key, snapshot, sorted_table

KEYS = st.binary(max_size=6)
ENTRIES = st.dictionaries(KEYS, st.tuples(st.integers(0, 2**50), st.none() | st.binary(max_size=80)), max_size=30)
TABLE = sorted_table([(b"a", 1, b"one"), (b"ab", 2, None), (b"b", 3, b"three")])


def test_a_table_is_read() -> None:
    entries = list(SortedTable(TABLE).scan(b"a", b"b"))
    assert [(e.key, e.number, None if e.value is None else bytes(e.value)) for e in entries] == [
        (b"a", 1, b"one"),
        (b"ab", 2, None),
    ]


@given(ENTRIES, KEYS, KEYS, st.sampled_from([None, "lz4_raw", "zstd"]), st.integers(1, 300))
def test_a_table_has_what_was_written(
    entries: dict[bytes, tuple[int, bytes | None]], low: bytes, high: bytes, codec: str | None, block_size: int
) -> None:
    data = sorted_table([(key, number, value) for key, (number, value) in entries.items()], block_size, codec)
    read = [(e.key, (e.number, None if e.value is None else bytes(e.value))) for e in SortedTable(data).scan(low, high)]
    assert read == sorted((key, value) for key, value in entries.items() if low <= key < high)


@given(st.integers(0, len(TABLE) - 1), st.integers(0, 255))
def test_a_damaged_table_is_an_error_or_other_rows(place: int, byte: int) -> None:
    data = bytearray(TABLE)
    data[place] = byte
    try:
        list(SortedTable(bytes(data)).scan(b"", b"\xff"))
    except StoreFileError:
        return


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no table of RocksDB"),
        (b"x" * 100, "no table of RocksDB"),
        (TABLE[:-12] + b"\x09\0\0\0" + TABLE[-8:], "unknown version 9"),
    ],
)
def test_what_is_no_table_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(StoreFileError, match=reason):
        SortedTable(data)


def partition(folder: Path, version: int, writer: str) -> StorePartition:
    return StorePartition(StoreVersion(folder, version, writer))


def written(folder: Path) -> Path:
    """A partition: a snapshot with two tables, and two changelogs."""
    old = sorted_table(
        [(k, 1, v) for k, v in [manifest_entry(5, "old"), run_entry(5, "a/0", b"A"), run_entry(7, "z/0", b"Z")]]
    )
    new = sorted_table([(k, 2, v) for k, v in [manifest_entry(5, "list"), (run_key(7, "z/0"), None)]], codec=None)
    snapshot(folder, 3, "s", {"1.sst": old, "2.sst": new})
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
        ("SSTs/1.sst", None, "1.sst is missing"),
        ("SSTs/1.sst", b"x", "instead of"),
        ("5_u.changelog", b"x", "unknown method"),
        ("5_u.changelog", changelog({}, [])[:-30], "5_u.changelog"),
    ],
)
def test_damage_names_the_file(file: str, data: bytes | None, reason: str, tmp_path: Path) -> None:
    folder = written(tmp_path)
    if data is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(data)
    with pytest.raises(StoreFileError, match=reason):
        partition(folder, 5, "u").runs(5)


def test_slots_are_in_the_partitions_to_which_spark_sends_them() -> None:
    assert [partition_of(slot_label(slot), 4) for slot in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]
