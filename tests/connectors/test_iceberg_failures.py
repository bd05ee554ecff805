"""What goes wrong with Iceberg tables, and what other engines do to them."""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.types import LongType
from pyroaring import BitMap

from stateplan.common.errors import StateplanError
from stateplan.connectors.iceberg.access import CatalogAccess
from stateplan.connectors.iceberg.files import IcebergSplit, ScanFile, TableFile
from stateplan.session.environment import TableEnvironment
from tests.connectors.catalog_queries import collected, fails, rows
from tests.connectors.iceberg_tables import append, catalog, drained, opened, sink_of, source_of
from tests.support.delta import frame, write


def refused(action: object, code: str, *words: str) -> StateplanError:
    with pytest.raises(StateplanError) as raised:
        action()  # type: ignore[operator]
    assert raised.value.code == code, raised.value
    assert all(word in str(raised.value) for word in words), raised.value
    return raised.value


def test_there_is_no_table_of_iceberg(tmp_path: Path) -> None:
    append(tmp_path / "lake", (1, "a"))
    (tmp_path / "file").write_text("")
    for given_ in ({"catalog_table": "u"}, {"catalog_database": "d"}, {"catalog_name": "other"}):
        refused(lambda given_=given_: source_of(tmp_path / "lake", **given_).check("t"), "DATA474")
    refused(lambda: source_of(tmp_path / "nothing").check("t"), "DATA474", str(tmp_path / "nothing"))
    refused(lambda: source_of(tmp_path / "file").check("t"), "DATA474", str(tmp_path / "file"))
    assert not (tmp_path / "nothing").exists()
    for path in (tmp_path / "file", tmp_path / "file" / "lake"):
        refused(lambda path=path: sink_of(path).prepare(0), "DATA475", "file")


@pytest.mark.parametrize("name", ["with space", "ha#sh", "qu?estion", "ünï", "a%20b", "semi;colon"])
def test_warehouses_of_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    for epoch in range(2):
        write(sink_of(folder, "k BIGINT, v STRING", partitioning="v"), epoch, frame((epoch, f"{name}/{epoch}")))
    assert sorted(drained(source_of(folder))[0]) == [(0, f"{name}/0"), (1, f"{name}/1")]
    assert os.listdir(tmp_path) == [name] and sorted(os.listdir(folder)) == ["catalog.db", "default"]
    env = TableEnvironment.create()
    env.execute_sql(f"CREATE CATALOG lake WITH ('type' = 'iceberg', 'warehouse' = '{folder}')")
    assert len(collected(env, "SELECT * FROM lake.`default`.t")) == 2


@pytest.mark.parametrize(
    ("columns", "hint"),
    [
        ("kk BIGINT", "did you mean 'k'?"),
        ("k INT", "declare it as BIGINT"),
        ("k DECIMAL(10, 0)", "declare it as BIGINT"),
        ("v BYTES", "declare it as STRING"),
    ],
)
def test_a_declaration_that_does_not_fit_an_iceberg_table(tmp_path: Path, columns: str, hint: str) -> None:
    append(tmp_path, (1, "a"))
    source = source_of(tmp_path, columns)
    for call in (source.initial_offset, lambda: source.check("t")):
        assert refused(call, "DATA478").hint == hint


def files_of(folder: Path) -> dict[str, Path]:
    """The files of the metadata of the only snapshot of the table ``t``."""
    table = opened(folder)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    (manifest,) = snapshot.manifests(table.io)
    (task,) = table.scan().plan_files()
    paths = {
        "metadata": table.metadata_location,
        "list of manifests": snapshot.manifest_list,
        "manifest": manifest.manifest_path,
        "rows": task.file.file_path,
    }
    return {kind: Path(path) for kind, path in paths.items()}


@pytest.mark.parametrize("kind", ["metadata", "list of manifests", "manifest", "rows"])
@pytest.mark.parametrize("damage", ["other bytes", "half", "empty", "gone"])
def test_a_damaged_file_hurts_only_its_table(tmp_path: Path, kind: str, damage: str) -> None:
    append(tmp_path, (1, "a"))
    append(tmp_path, (1, "a"), table="good")
    path = files_of(tmp_path)[kind]
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes({"other bytes": b"{no such format", "half": data[: len(data) // 2], "empty": b""}[damage])
    env = TableEnvironment.create()
    env.execute_sql(f"CREATE CATALOG lake WITH ('type' = 'iceberg', 'warehouse' = '{tmp_path}')")
    env.use_catalog("lake")
    assert rows(env, "SHOW TABLES") == ["good", "t"]
    assert collected(env, "SELECT * FROM good") == [(1, "a")]
    message = fails(lambda: collected(env, "SELECT * FROM t"))
    assert message.startswith(("[DATA475]", "[DATA477]")) and "Traceback" not in message, message
    sink = sink_of(tmp_path, "k BIGINT NOT NULL, v STRING", ["k"])
    message = fails(lambda: write(sink, 0, frame((1, "b"))))
    assert message.startswith(("[DATA475]", "[DATA477]")), message


def test_a_format_version_that_is_unknown(tmp_path: Path) -> None:
    append(tmp_path, (1, "a"))
    path = files_of(tmp_path)["metadata"]
    path.write_text(json.dumps({**json.loads(path.read_text()), "format-version": 9}))
    for action in (lambda: source_of(tmp_path).check("t"), lambda: sink_of(tmp_path).prepare(0)):
        refused(action, "DATA476", "the format version of its metadata is 9")
    path.write_text(json.dumps({"format-version": 2, "location": "s3cr3t"}))
    assert "s3cr3t" not in str(refused(source_of(tmp_path).initial_offset, "DATA475", "its metadata is damaged"))


def test_a_table_of_version_3_is_read_and_not_written(tmp_path: Path) -> None:
    append(tmp_path, *((k, "v") for k in range(40)))
    path = files_of(tmp_path)["metadata"]
    path.write_text(json.dumps({**json.loads(path.read_text()), "format-version": 3, "next-row-id": 40}))
    for key in ([], ["k"]):
        sink = sink_of(tmp_path, "k BIGINT NOT NULL, v STRING" if key else "k BIGINT, v STRING", key)
        refused(lambda sink=sink: sink.begin(), "RUN184", "version 3")
    source = source_of(tmp_path, "k BIGINT")
    start = source.initial_offset()
    (split,) = source.plan(start, source.latest_offset(start))
    removed = {3, 4, 7, 11, 18, 29}
    vector = vector_file(tmp_path / "vector.puffin", split.file.data.path, removed)
    split = replace(split, file=ScanFile(split.file.data, (vector,)))
    found = [
        k
        for part in source.read(IcebergSplit.from_json(json.loads(json.dumps(split.to_json()))))
        for (k,) in part.rows()
    ]
    assert found == [k for k in range(40) if k not in removed]


def vector_file(path: Path, data_path: str, positions: set[int]) -> TableFile:
    """A file with a deletion vector. Source: the specifications of Puffin and of deletion vectors."""
    bitmap = BitMap(positions).serialize()
    vector = bytes.fromhex("d1d33964") + (1).to_bytes(8, "little") + (0).to_bytes(4, "little") + bitmap
    blob = len(vector).to_bytes(4, "big") + vector + zlib.crc32(vector).to_bytes(4, "big")
    properties = {"referenced-data-file": data_path, "cardinality": str(len(positions))}
    entry = {"type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1, "offset": 4}
    footer = json.dumps({"blobs": [{**entry, "length": len(blob), "properties": properties}]}).encode()
    end = len(footer).to_bytes(4, "little") + bytes(4) + b"PFA1"
    path.write_bytes(b"PFA1" + blob + b"PFA1" + footer + end)
    size = path.stat().st_size
    return TableFile(
        str(path), size, len(positions), 0, format="PUFFIN", content=1, offset=4, length=len(blob), target=data_path
    )


@pytest.mark.parametrize("snapshots", [1, 3])
def test_a_table_of_iceberg_that_is_made_anew_while_it_is_read(tmp_path: Path, snapshots: int) -> None:
    append(tmp_path, (1, "a"))
    source = source_of(tmp_path, streaming="true")
    _, end = drained(source)
    assert source.latest_offset(end) == end
    catalog(tmp_path).drop_table("default.t")
    for k in range(snapshots):
        append(tmp_path, (k, "another table"))
    refused(lambda: drained(source, end), "DATA477", "another one")


def test_a_type_that_becomes_wider_under_a_job(tmp_path: Path) -> None:
    write(sink_of(tmp_path, "k INT, v FLOAT"), 0, frame((1, 1.5), columns="k INT, v FLOAT"))
    source = source_of(tmp_path, "k INT", streaming="true")
    _, end = drained(source)
    with opened(tmp_path).update_schema() as update:
        update.update_column("k", LongType())
    assert drained(source, end)[0] == []
    opened(tmp_path).append(pa.table({"k": pa.array([2**40], pa.int64()), "v": pa.array([1.0], pa.float32())}))
    refused(lambda: drained(source, end), "DATA478", "'k' as long, and it is declared as INT")
    wide = source_of(tmp_path, "k BIGINT", streaming="true")
    assert drained(wide, end)[0] == [(2**40,)]


def test_a_column_that_is_younger_than_the_snapshots_to_be_read(tmp_path: Path) -> None:
    """A job that is declared anew with it continues in the snapshots before."""
    append(tmp_path, (1, "a"))
    _, end = drained(source_of(tmp_path, streaming="true"))
    append(tmp_path, (2, "b"))
    with opened(tmp_path).update_schema() as update:
        update.add_column("w", LongType())
    append(tmp_path, (3, "c", 7), columns="k v w")
    assert drained(source_of(tmp_path, "k BIGINT, w BIGINT", streaming="true"), end)[0] == [(2, None), (3, 7)]


def test_a_limit_cuts_each_file_of_iceberg(tmp_path: Path) -> None:
    append(tmp_path, *((k, "v") for k in range(10)))
    assert len(drained(source_of(tmp_path, more={"limit": 4}))[0]) == 4


def test_compactions_add_no_rows(tmp_path: Path) -> None:
    from pyiceberg.table.snapshots import Operation
    from pyiceberg.table.update.snapshot import _OverwriteFiles

    for k in range(3):
        append(tmp_path, (k, "v"))
    source = source_of(tmp_path, streaming="true")
    _, end = drained(source)
    table = opened(tmp_path)
    old = [task.file for task in table.scan().plan_files()]
    transaction = table.transaction()
    change = _OverwriteFiles(Operation.OVERWRITE, transaction, table.io)
    with change as snapshot:
        for file in old[:2]:
            snapshot.delete_data_file(file)
            snapshot.append_data_file(file)
    transaction.commit_transaction()
    as_compaction(tmp_path)
    append(tmp_path, (7, "new"))
    assert drained(source, end)[0] == [(7, "new")]


def as_compaction(folder: Path) -> None:
    """Makes the current snapshot one that replaces files, which the library does not write."""
    path = Path(opened(folder).metadata_location)
    data = json.loads(path.read_text())
    data["snapshots"][-1]["summary"]["operation"] = "replace"
    path.write_text(json.dumps(data))


def test_secrets_in_an_address_are_not_shown() -> None:
    options = {"uri": "postgresql://me:s3cr3t@h/db", "credential": "client:h1dden", "adls.account-key": "k3y=="}
    text = CatalogAccess(options).error_text(OSError("me:s3cr3t of h1dden with k3y==\n at h"))
    assert text == "me:****** of ****** with ****** at h"
