"""Tables on an object store: every file is read once, and a micro-batch is seen whole or not at all."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stateplan.common.errors import DataError, StateplanError
from stateplan.common.files import find_files
from stateplan.connectors.listing import table_files
from stateplan.session.environment import TableEnvironment
from tests.connectors.object_store import give_to_workers, object_store


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    with object_store() as fs:
        yield fs


@pytest.fixture
def bucket(store: Any, spark: Any, request: pytest.FixtureRequest) -> str:
    """A folder of its own in the bucket."""
    give_to_workers(spark)
    return f"s3://bkt/{request.node.name.partition('[')[0]}"


def lines(*keys: int) -> bytes:
    return b"".join(b'{"k":%d}\n' % k for k in keys)


def source(path: str, columns: str = "k INT", more: str = "", fmt: str = "json") -> str:
    return f"CREATE TABLE src ({columns}) WITH ('connector'='filesystem', 'format'='{fmt}', 'path'='{path}'{more})"


def written(store: Any, path: str) -> list[str]:
    """The lines of the files that a sink has committed."""
    out = []
    for key in [f.path.removeprefix("s3://") for f in table_files(path)]:
        try:
            data = store.cat_file(key)
        except FileNotFoundError:  # moto misses an object now and then
            assert store.exists(key)
            data = store.cat_file(key)
        out += data.decode().splitlines()
    return sorted(out)


def job(checkpoint: Path, *tables: str, **options: str) -> TableEnvironment:
    settings = {"pipeline.max-parallelism": "2", "execution.checkpointing.dir": str(checkpoint), **options}
    session = TableEnvironment.create(settings)
    for table in tables:
        session.execute_sql(table)
    return session


@pytest.mark.spark
def test_a_bounded_source_reads_each_file_once(bucket: str, store: Any, tmp_path: Path) -> None:
    folder = bucket.removeprefix("s3://")
    store.pipe_file(f"{folder}/in/a b%[1].json", lines(1, 2))
    store.pipe_file(f"{folder}/in/deep/er/b.json.gz", gzip.compress(lines(3)))
    store.pipe_file(f"{folder}/in/_hidden/c.json", lines(99))
    store.pipe_file(f"{folder}/in/deep/.d.json", lines(99))
    store.pipe_file(f"{folder}/input/e.json", lines(99))
    sink = f"CREATE TABLE snk (k INT) WITH ('connector'='filesystem', 'format'='json', 'path'='{bucket}/out')"
    insert = "INSERT INTO snk SELECT k FROM src"
    job(tmp_path / "ck", source(f"{bucket}/in"), sink).execute_sql(insert).wait()
    assert written(store, f"{bucket}/out") == ['{"k":1}', '{"k":2}', '{"k":3}']
    store.pipe_file(f"{folder}/in/deep/new.json", lines(4))
    job(tmp_path / "ck", source(f"{bucket}/in"), sink).execute_sql(insert).wait()
    assert written(store, f"{bucket}/out") == ['{"k":1}', '{"k":2}', '{"k":3}', '{"k":4}']


@pytest.mark.spark
def test_metadata_partitions_and_patterns(
    bucket: str, store: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = bucket.removeprefix("s3://")
    for day in (1, 2):
        store.pipe_file(f"{folder}/in/dt=2024-05-0{day}/x.csv", b"%d\n" % day)
        store.pipe_file(f"{folder}/in/dt=2024-05-0{day}/y.txt", b"9\n")
    columns = (
        "k INT, dt DATE, p STRING METADATA FROM 'file.path', n STRING METADATA FROM 'file.name', "
        "s BIGINT METADATA FROM 'file.size', t TIMESTAMP_LTZ(3) METADATA FROM 'file.modification-time'"
    )
    pattern = f", 'source.path.regex-pattern'='^/{folder.partition('/')[2]}/.*csv$'"
    table = source(f"{bucket}/in/", columns, pattern, "csv").replace(" WITH", " PARTITIONED BY (dt) WITH")
    sink = "CREATE TABLE snk (k INT, dt DATE, p STRING, n STRING, s BIGINT, recent BOOLEAN) WITH ('connector'='print')"
    environment = job(tmp_path / "ck", table, sink)
    begin = "TO_TIMESTAMP_LTZ(" + str(int(time.time() - 3600) * 1000) + ", 3)"
    environment.execute_sql(f"INSERT INTO snk SELECT k, dt, p, n, s, t > {begin} FROM src").wait()
    days = [f"{bucket}/in/dt=2024-05-0{day}/x.csv" for day in (1, 2)]
    assert sorted(capsys.readouterr().out.splitlines()) == [
        f"+I[1, 2024-05-01, {days[0]}, x.csv, 2, true]",
        f"+I[2, 2024-05-02, {days[1]}, x.csv, 2, true]",
    ]
    job(tmp_path / "ck2", table, sink).execute_sql(
        f"INSERT INTO snk SELECT k, dt, p, n, s, t > {begin} FROM src WHERE dt = DATE '2024-05-02' LIMIT 5"
    ).wait()
    assert capsys.readouterr().out.splitlines() == [f"+I[2, 2024-05-02, {days[1]}, x.csv, 2, true]"]


@pytest.mark.spark
def test_a_partitioned_sink_in_parquet_is_read_back(bucket: str, store: Any, tmp_path: Path) -> None:
    folder = bucket.removeprefix("s3://")
    store.pipe_file(f"{folder}/in/x.json", lines(*range(9)))
    days = (
        "CREATE TABLE days (k INT, m INT) PARTITIONED BY (m) "
        f"WITH ('connector'='filesystem', 'format'='parquet', 'path'='{bucket}/days')"
    )
    environment = job(tmp_path / "ck", source(f"{bucket}/in"), days)
    environment.execute_sql("INSERT INTO days SELECT k, MOD(k, 2) FROM src").wait()
    assert {n.split("/")[3] for n in store.find(f"{folder}/days") if "/m=" in n} == {"m=0", "m=1"}
    sink = f"CREATE TABLE snk (k INT, m INT) WITH ('connector'='filesystem', 'format'='csv', 'path'='{bucket}/out')"
    job(tmp_path / "ck2", days, sink).execute_sql("INSERT INTO snk SELECT k, m FROM days WHERE m = 1").wait()
    assert written(store, f"{bucket}/out") == ["1,1", "3,1", "5,1", "7,1"]


def until(condition: Any, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.spark
def test_a_watched_folder_that_is_empty_at_first(bucket: str, store: Any, tmp_path: Path) -> None:
    folder = bucket.removeprefix("s3://")
    sink = f"CREATE TABLE snk (k INT) WITH ('connector'='filesystem', 'format'='json', 'path'='{bucket}/out')"
    watched = source(f"{bucket}/in", more=", 'source.monitor-interval'='200ms', 'source.max-files-per-trigger'='2'")
    for first in (0, 10):
        running = job(tmp_path / "ck", watched, sink).execute_sql("INSERT INTO snk SELECT k FROM src")
        try:
            for n in range(first, first + 5):
                store.pipe_file(f"{folder}/in/{n}.json", lines(n))
            until(lambda first=first: len(written(store, f"{bucket}/out")) == 5 + first // 2)
        finally:
            running.get_job_client().stop()
    keys = [json.loads(line)["k"] for line in written(store, f"{bucket}/out")]
    assert sorted(keys) == [*range(5), *range(10, 15)]
    epochs = [name.split("-")[-2] for name in store.find(f"{folder}/out") if "/part-" in name]
    assert len(set(epochs)) >= 5


@pytest.mark.spark
def test_a_watched_bucket_that_goes_ends_the_job(spark: Any, store: Any, tmp_path: Path) -> None:
    give_to_workers(spark)
    store.mkdir("gone")
    store.pipe_file("gone/in/1.json", lines(1))
    sink = "CREATE TABLE snk (k INT) WITH ('connector'='blackhole')"
    watched = source("s3://gone/in", more=", 'source.monitor-interval'='200ms'")
    running = job(tmp_path / "ck", watched, sink).execute_sql("INSERT INTO snk SELECT k FROM src")
    store.rm("gone", recursive=True)
    with pytest.raises(DataError) as error:
        running.wait(60_000)
    assert error.value.code == "DATA105" and "bucket does not exist" in str(error.value)
    assert not running.get_job_client().is_active


@pytest.mark.parametrize(
    ("path", "code", "text"),
    [
        ("s3://bkt/nothing-here", "OPT040", "does not exist"),
        ("s3://no-such-bucket/x", "OPT040", "does not exist"),
        ("gdrive://folder/x", "DATA107", "install the package gdrivefs"),
        ("hdsf://nn/x", "DATA101", "did you mean 'hdfs'"),
        ("file://host/x", "DATA101", "did you mean 'file:///host/x'"),
    ],
)
def test_paths_that_cannot_be_read(store: Any, tmp_path: Path, path: str, code: str, text: str) -> None:
    sink = "CREATE TABLE snk (k INT) WITH ('connector'='blackhole')"
    with pytest.raises(StateplanError) as error:
        job(tmp_path / "ck", source(path), sink).execute_sql("INSERT INTO snk SELECT k FROM src")
    assert error.value.code == code and text in str(error.value)


@pytest.mark.spark
def test_a_plan_on_the_store_with_a_replay_and_a_lookup(
    bucket: str, store: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The looked-up object changes between two micro-batches of one job."""
    folder = bucket.removeprefix("s3://")
    store.pipe_file(f"{folder}/in/1.json", lines(1))
    store.pipe_file(f"{folder}/names/x.json", b'{"k":1,"name":"one"}\n{"k":2,"name":"two"}\n')
    watched = source(f"{bucket}/in", "k INT, t AS PROCTIME()", ", 'source.monitor-interval'='200ms'")
    names = (
        "CREATE TABLE names (k INT, name STRING) "
        f"WITH ('connector'='filesystem', 'format'='json', 'path'='{bucket}/names')"
    )
    sink = f"CREATE TABLE snk (k INT, name STRING) WITH ('connector'='filesystem', 'format'='csv', 'path'='{bucket}/o')"
    tables = (watched, names, sink)
    insert = "INSERT INTO snk SELECT s.k, n.name FROM src s JOIN names FOR SYSTEM_TIME AS OF s.t AS n ON s.k = n.k"
    environment = job(tmp_path / "ck", *tables)
    environment.execute_sql(f"COMPILE PLAN '{bucket}/plan.json' FOR {insert}")
    running = environment.execute_sql(f"EXECUTE PLAN '{bucket}/plan.json'")
    try:
        until(lambda: written(store, f"{bucket}/o") == ["1,one"])
        store.pipe_file(f"{folder}/names/x.json", b'{"k":2,"name":"zwo"}\n')  # as many bytes as the line that it had
        store.pipe_file(f"{folder}/in/2.json", lines(2))
        until(lambda: written(store, f"{bucket}/o") == ["1,one", "2,zwo"])
    finally:
        running.get_job_client().stop()
    store.pipe_file(f"{folder}/replay/r.json.gz", gzip.compress(b'{"@at":5,"k":1}\n{"@at":3,"k":2}\n'))
    replay = f"CREATE TABLE src (k INT) WITH ('connector'='replay', 'format'='json', 'path'='{bucket}/replay')"
    played = job(tmp_path / "ck2", replay, "CREATE TABLE snk (k INT) WITH ('connector'='print')")
    capsys.readouterr()
    played.execute_sql("INSERT INTO snk SELECT k FROM src").wait()
    assert capsys.readouterr().out.splitlines() == ["+I[2]", "+I[1]"]


def test_a_first_object_that_appears_while_a_folder_is_listed(
    bucket: str, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{bucket}/new".removeprefix("s3://")
    look = store._lsdir

    async def too_early(*args: Any, **kwargs: Any) -> Any:
        found = await look(*args, **kwargs)
        monkeypatch.setattr(store, "_lsdir", look)
        await store._pipe_file(f"{path}/a.json", b"{}")
        return found

    monkeypatch.setattr(store, "_lsdir", too_early)
    assert find_files(store, path) == {}
    assert list(find_files(store, path)) == [f"{path}/a.json"]
