"""Partitioned tables of the filesystem: folders, reading, writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from connector_tables import make_decoder, make_encoder
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import DataError
from stateplan.common.types import parse_type
from stateplan.connectors.partitions import Partitioner, folder_of, list_partitions, partition_of
from stateplan.connectors.protocol import Partition
from stateplan.connectors.staging import Staging

DEFAULT = "__DEFAULT_PARTITION__"
FIELDS = [(n, parse_type(t)) for n, t in (("a", "INT"), ("day", "DATE"), ("c", "STRING"), ("n", "BIGINT"))]
KEYS = ("day", "n")


def options(path: Path, fmt: str = "json") -> dict[str, str]:
    return {"connector": "filesystem", "format": fmt, "path": str(path)}


def read(path: Path, projection: list[int], only: list[Partition] | None = None, **more: Any) -> list[tuple[Any, ...]]:
    decoder = make_decoder(options(path, **more), FIELDS, projection, (), KEYS, only)
    frames = [f for file in sorted(path.rglob("part-*")) for f in decoder.read(str(file))]
    assert all(f.schema == {f"c{i}": FIELDS[p][1].polars() for i, p in enumerate(projection)} for f in frames)
    return [row for f in frames for row in f.rows()]


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=8)


@given(st.dictionaries(TEXT, st.one_of(st.none(), TEXT.filter(lambda t: t != DEFAULT)), min_size=1, max_size=3))
def test_any_value_has_a_folder(partition: dict[str, str | None]) -> None:
    folder = folder_of(partition, DEFAULT)
    assert folder.count("/") == len(partition) - 1
    assert partition_of(f"/t/{folder}/f.json", "/t", list(partition), DEFAULT) == partition


def test_the_name_for_null_is_escaped_as_any_other() -> None:
    name = "a/../../../elsewhere\nb"
    assert (found := folder_of({"p": None}, name)) == "p=a%2F..%2F..%2F..%2Felsewhere%0Ab"
    assert partition_of(f"/t/{found}/f.json", "/t", ["p"], name) == {"p": None}


@pytest.mark.parametrize("fmt", ["json", "csv", "parquet"])
def test_what_is_written_is_read(tmp_path: Path, fmt: str) -> None:
    from datetime import date

    rows = [
        (1, date(2024, 5, 1), "x", 7),
        (2, date(2024, 5, 2), "y", None),
        (3, date(2024, 5, 1), "w", 7),
        (4, None, "z", 8),
    ]
    schema = {f"c{i}": t.polars() for i, (_, t) in enumerate(FIELDS)}
    partitioner = Partitioner(tuple(FIELDS), KEYS, DEFAULT)
    encoder = make_encoder(options(tmp_path, fmt), partitioner.in_files)
    parts = partitioner.split(pl.DataFrame(rows, schema=schema, orient="row"))
    staging = Staging.at(str(tmp_path), "s")
    staging.commit(0, staging.stage(0, 0, fmt, {where: encoder.encode(f) for where, f in parts}))
    found = sorted(p.parent.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("part-*"))
    assert found == ["day=2024-05-01/n=7", f"day=2024-05-02/n={DEFAULT}", f"day={DEFAULT}/n=8"]
    assert sorted(read(tmp_path, [0, 1, 2, 3], fmt=fmt)) == rows
    assert sorted(read(tmp_path, [3, 0], fmt=fmt), key=str) == [(7, 1), (7, 3), (8, 4), (None, 2)]
    assert sorted(read(tmp_path, [3], fmt=fmt), key=str) == [(7,), (7,), (8,), (None,)]
    assert read(tmp_path, [0, 3], [{"day": "2024-05-02", "n": None}], fmt=fmt) == [(2, None)]
    assert list_partitions(str(tmp_path), KEYS, DEFAULT) == [
        {"day": "2024-05-01", "n": "7"},
        {"day": "2024-05-02", "n": None},
        {"day": None, "n": "8"},
    ]


def test_files_outside_of_partitions(tmp_path: Path) -> None:
    for folder in ("day=2024-05-01", "day=2024-05-01/m=1", "day=2024-05-01/n=x"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        file = tmp_path / folder / "part-1.json"
        file.write_text('{"a":1}\n')
        with pytest.raises(DataError) as error:
            read(tmp_path, [0, 3])
        assert error.value.code == "DATA106" and error.value.place is not None
        assert str(file) == error.value.place.file
        file.unlink()


def test_no_folder_no_partitions(tmp_path: Path) -> None:
    assert list_partitions(str(tmp_path / "none"), KEYS, DEFAULT) is None
    assert list_partitions(str(tmp_path), KEYS, DEFAULT) == []


def test_a_folder_that_is_a_link_is_a_partition(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "t" / "day=2024-05-01").mkdir(parents=True)
    (tmp_path / "t" / "day=2024-05-01" / "n=7").symlink_to(tmp_path / "elsewhere")
    assert list_partitions(str(tmp_path / "t"), KEYS, DEFAULT) == [{"day": "2024-05-01", "n": "7"}]
