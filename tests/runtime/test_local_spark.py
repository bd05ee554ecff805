"""A Spark that was started for the job: what it does another way, and that it does it as well."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from pyspark.serializers import CPickleSerializer

from stateplan.runtime.spark.local_spark import adapt_query
from stateplan.runtime.spark.tweaks import Tweaks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def files(spark: SparkSession) -> Any:
    jvm: Any = spark.sparkContext._jvm
    return jvm.org.apache.hadoop.fs.FileSystem.get(
        jvm.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration()
    )


def paths(spark: SparkSession, *of: Path) -> list[Any]:
    jvm: Any = spark.sparkContext._jvm
    return [jvm.org.apache.hadoop.fs.Path(str(path)) for path in of]


def test_the_session_uses_them(spark: SparkSession) -> None:
    assert files(spark).getClass().getName() == "stateplan.LocalFiles"


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
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "file"))
    out = files(spark).create(path, True)
    out.write(bytearray(b"state"))
    out.close()
    (tmp_path / "file").write_bytes(b"statf")
    with pytest.raises(Py4JJavaError, match="ChecksumException"):
        files(spark).open(path).read()


@pytest.mark.parametrize(("name", "is_linked"), [("000008-1.sst", True), ("1_a.zip", False)])
def test_tables_of_a_state_store_are_linked(spark: SparkSession, tmp_path: Path, name: str, is_linked: bool) -> None:
    source, target = tmp_path / name, tmp_path / "new folder" / name
    source.write_bytes(b"state")
    files(spark).copyToLocalFile(*paths(spark, source, target))
    assert target.read_bytes() == b"state"
    assert target.samefile(source) == is_linked


def test_tables_get_checksums_in_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "000008.sst", tmp_path / "SSTs" / "000008-1.sst"
    source.write_bytes(b"state")
    files(spark).copyFromLocalFile(*paths(spark, source, target))
    assert target.read_bytes() == b"state"
    assert not target.samefile(source)
    assert target.with_name(".000008-1.sst.crc").exists()


def test_a_link_to_another_table_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    source, target, other = tmp_path / "000008-1.sst", tmp_path / "target.sst", tmp_path / "000007-1.sst"
    source.write_bytes(b"state")
    other.write_bytes(b"of before")
    target.hardlink_to(other)
    files(spark).copyToLocalFile(*paths(spark, source, target))
    assert target.read_bytes() == b"state"
    assert other.read_bytes() == b"of before"


def test_tables_are_copied_where_they_cannot_be_linked(spark: SparkSession, tmp_path: Path) -> None:
    folders = [folder for folder in map(Path, ("/dev/shm", "/tmp", "/var/tmp")) if folder.is_dir()]
    other_disk = next((folder for folder in folders if folder.stat().st_dev != tmp_path.stat().st_dev), None)
    if other_disk is None:
        pytest.skip("there is no second file system to copy to")
    source = tmp_path / "000008-1.sst"
    source.write_bytes(b"state")
    with tempfile.TemporaryDirectory(dir=other_disk) as folder:
        target = Path(folder) / source.name
        files(spark).copyToLocalFile(*paths(spark, source, target))
        assert target.read_bytes() == b"state"


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000])
def test_bytes_of_state_reach_python_as_they_are(spark: SparkSession, size: int) -> None:
    jvm: Any = spark.sparkContext._jvm
    data = bytes(number % 256 for number in range(size))
    wrapper = getattr(jvm.org.apache.spark.sql.execution.python, "EvaluatePython$BytesWrapper")
    pair = jvm.java.util.ArrayList([wrapper(data), wrapper(data[::-1])])
    pickled = bytes(jvm.net.razorvine.pickle.Pickler().dumps(pair))
    assert CPickleSerializer().loads(pickled) == [data, data[::-1]]
    assert pickled.count(b"bytes") == 0


def test_tasks_are_not_sent_the_defaults_of_yarn_and_mapreduce(spark: SparkSession) -> None:
    options: Any = spark.sparkContext._jsc.hadoopConfiguration()
    adapt_query(spark, Tweaks({}))
    assert options.get("yarn.resourcemanager.address") is None
    assert options.get("mapreduce.map.memory.mb") is None
    assert options.get("fs.s3a.connection.maximum") is not None
    options.set("mapreduce.job.name", "mine")
    assert options.get("mapreduce.job.name") == "mine"
    options.unset("mapreduce.job.name")


def test_threads_without_a_session_have_its_options(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    conf = jvm.org.apache.spark.sql.internal.SQLConf
    key = "spark.sql.codegen.factoryMode"
    active = jvm.org.apache.spark.sql.classic.SparkSession
    adapt_query(spark, Tweaks({}))
    active.clearActiveSession()
    try:
        assert conf.get().getConfString(key) == "NO_CODEGEN"
    finally:
        active.setActiveSession(spark._jsparkSession)


def test_the_planners_rules_are_not_counted(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    assert spark.range(3).selectExpr("id + 1 AS next").filter("next > 1").count() == 2
    assert "Total number of runs: 0\n" in jvm.org.apache.spark.sql.catalyst.rules.RuleExecutor.dumpTimeSpent()


def test_nothing_is_kept_for_pages_that_nobody_serves(spark: SparkSession) -> None:
    assert spark.conf.get("spark.ui.enabled") == "false"
    listeners: Any = spark.sparkContext._jsc.sc().listenerBus().listeners()
    names = [listeners.get(i).getClass().getSimpleName() for i in range(listeners.size())]
    assert names
    assert not {"AppStatusListener", "SQLAppStatusListener"} & set(names)


def test_a_spark_of_someone_else_is_left_alone() -> None:
    adapt_query(
        cast("SparkSession", SimpleNamespace(sparkContext=SimpleNamespace(applicationId="another"))), Tweaks({})
    )
