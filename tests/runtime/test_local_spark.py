"""Files that Hadoop makes on a local disk: no process for each, and the same permissions as with one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from execnodes.runtime.local_files import CLASS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def files(spark: SparkSession) -> Any:
    jvm: Any = spark.sparkContext._jvm
    return jvm.org.apache.hadoop.fs.FileSystem.get(
        jvm.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration()
    )


def test_the_session_uses_them(spark: SparkSession) -> None:
    assert files(spark).getClass().getName() == CLASS


@pytest.mark.parametrize("mode", ["640", "755", "600", "1777"])
def test_permissions_are_those_asked_for(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    jvm: Any = spark.sparkContext._jvm
    folder = tmp_path / "folder"
    folder.mkdir()
    files(spark).setPermission(
        jvm.org.apache.hadoop.fs.Path(str(folder)), jvm.org.apache.hadoop.fs.permission.FsPermission(mode)
    )
    assert f"{folder.stat().st_mode & 0o7777:o}" == mode


def test_a_damaged_file_is_still_noticed(spark: SparkSession, tmp_path: Path) -> None:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "file"))
    out = files(spark).create(path, True)
    out.write(bytearray(b"state"))
    out.close()
    (tmp_path / "file").write_bytes(b"statf")
    with pytest.raises(Py4JJavaError, match="ChecksumException"):
        files(spark).open(path).read()
