"""A path is a name: no character of it stands for other files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.common.errors import CheckpointError
from stateplan.common.files import move, remove
from stateplan.runtime.sources import folder_for_spark
from stateplan.session.environment import TableEnvironment

NAMES = ("in[12]", "in1", "in2", "x{a,b}", "xa", "st*r", "star", "q?", "b\\s", "bs", "p%20q", "p q", "c:d")


def filled(folder: Path) -> None:
    for name in NAMES:
        (folder / name).mkdir(parents=True)
        for file in ("f.json", "g[1].json", "g1.json", "{u,v}.json"):
            (folder / name / file).write_text(json.dumps({"n": name, "f": file}) + "\n")


def rows_of(folder: Path, name: str, **options: str) -> list[tuple[str, str]]:
    env = TableEnvironment.create(options)
    path = f"file://{folder}/{name}" if name < "p" else f"{folder}/{name}"
    env.execute_sql(
        "CREATE TABLE t (n STRING, f STRING, p STRING METADATA FROM 'file.name') "
        f"WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{path}')"
    )
    rows = [tuple(row) for row in env.execute_sql("SELECT * FROM t").collect()]
    assert all(row[1] == row[2] for row in rows)
    return sorted((row[0], row[1]) for row in rows)


@pytest.mark.parametrize("name", NAMES)
def test_a_table_reads_its_own_files(tmp_path: Path, name: str) -> None:
    filled(tmp_path)
    assert rows_of(tmp_path, name) == sorted((name, f) for f in ("f.json", "g[1].json", "g1.json", "{u,v}.json"))


@pytest.mark.spark
@pytest.mark.parametrize("name", ["in[12]", "x{a,b}", "b\\s"])
def test_a_table_reads_its_own_files_in_spark(tmp_path: Path, name: str) -> None:
    filled(tmp_path)
    wanted = sorted((name, f) for f in ("f.json", "g[1].json", "g1.json", "{u,v}.json"))
    assert rows_of(tmp_path, name, **{"execution.checkpointing.dir": str(tmp_path / "cp")}) == wanted


def test_a_checkpoint_that_spark_cannot_look_up() -> None:
    assert folder_for_spark(Path("/a:b/c d")) == "file:/a:b/c d"
    with pytest.raises(CheckpointError) as raised:
        folder_for_spark(Path("/a/c[1]"))
    assert raised.value.code == "CKPT015"


def test_files_of_drivers_that_take_patterns() -> None:
    from fsspec.implementations.memory import MemoryFileSystem
    from fsspec.spec import AbstractFileSystem

    class Patterned(MemoryFileSystem):  # type: ignore[misc]
        store: dict[str, object] = {}  # noqa: RUF012
        pseudo_dirs = [""]  # noqa: RUF012
        rm = AbstractFileSystem.rm
        mv = AbstractFileSystem.mv

    fs = Patterned()
    for name in ("/t[12]/a/f", "/t1/a/f", "/t2/a/f", "/x*", "/xy"):
        fs.pipe_file(name, name.encode())
    remove(fs, "/t[12]/a")
    move(fs, "/x*", "/z")
    assert sorted(fs.find("/")) == ["/t1/a/f", "/t2/a/f", "/xy", "/z"]
    assert fs.cat_file("/z") == b"/x*"
