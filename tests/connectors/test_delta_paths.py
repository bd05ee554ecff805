"""Where the files are that a Delta log names."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stateplan.common.errors import DataError, GatewayError
from stateplan.common.files import real_path
from stateplan.common.roots import Roots, holding
from tests.connectors.delta_vectors import GONE, with_vector
from tests.support.delta import append, drained, log, source_of


def add(table: Path, version: int, written: str, size: int = 500, **more: object) -> None:
    """A commit that adds a file."""
    action = {"path": written, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True, **more}
    (table / "_delta_log" / f"{version:020d}.json").write_text(json.dumps({"add": action}))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "root" / "t"
    append(path, (1, "a"))
    for name in ("elsewhere", "root/other"):
        (tmp_path / name).mkdir()
        rows = {"k": pa.array([7], pa.int64()), "v": ["S3CRET"]}
        pq.write_table(pa.table(rows), tmp_path / name / "s p.parquet")
    return path


@pytest.mark.parametrize("up", ["..", "%2e%2e", ".%2E", "a/../..", "a%2f..%2f.."])
def test_a_path_below_the_table_stays_there(table: Path, up: str) -> None:
    add(table, 1, f"{up}/other/s%20p.parquet")
    for source in (source_of(table), source_of(table, mode="streaming", startingVersion="1")):
        with pytest.raises(DataError, match="names a file outside") as raised:
            drained(source)
        assert raised.value.code == "DATA457"


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_an_absolute_path_as_of_a_shallow_clone(table: Path, scheme: str, tmp_path: Path) -> None:
    """It may be anywhere; where roots are held, below one of them."""
    roots = Roots((real_path(str(tmp_path / "root")),))
    add(table, 1, scheme + quote(str(tmp_path / "root" / "other" / "s p.parquet")))
    assert sorted(drained(source_of(table))[0]) == [(1, "a"), (7, "S3CRET")]
    with holding(roots):
        assert sorted(drained(source_of(table))[0]) == [(1, "a"), (7, "S3CRET")]
    add(table, 2, scheme + quote(str(tmp_path / "elsewhere" / "s p.parquet")))
    assert len(drained(source_of(table))[0]) == 3
    with holding(roots), pytest.raises(GatewayError, match="GW012"):
        drained(source_of(table))


def test_a_deletion_vector_elsewhere_is_not_opened(table: Path, tmp_path: Path) -> None:
    """The library says what byte a file begins with that is none."""
    vector = {"storageType": "p", "pathOrInlineDv": "file:///etc/passwd", "offset": 1, "sizeInBytes": 9}
    add(table, 1, "part.parquet", deletionVector={**vector, "cardinality": 1})
    with holding(Roots((real_path(str(tmp_path / "root")),))), pytest.raises(GatewayError, match="/etc/passwd"):
        drained(source_of(table))


def test_deletion_vectors_of_files_whose_names_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_vector(path)
    actions = log(path, 1)
    (added,) = [action["add"] for action in actions if "add" in action]
    for name in ("a b.parquet", "a%20b.parquet", "x[1].parquet"):
        (path / name).write_bytes((path / added["path"]).read_bytes())
        actions.append({"add": {**added, "path": quote(name)}})
    file = path / "_delta_log" / f"{1:020d}.json"
    file.write_text("\n".join(map(json.dumps, actions)))
    rows, _ = drained(source_of(path))
    assert sorted(k for k, _ in rows) == sorted(4 * [k for k in range(40) if k not in GONE])
