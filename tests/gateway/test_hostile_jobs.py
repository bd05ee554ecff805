"""Streaming jobs on Spark that want out of a gateway's root, submitted over REST: what they read and write is below the
root, and no answer, log or file has the text or the names of files elsewhere."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from tests.gateway.gateway_server import GatewayServer
from tests.gateway.hostile_jobs import CANARY, INSIDE, WATCHED, Attempt, Place, Requests, code_of, exchange, fill
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("jobs")
    for name in ("in1", "in2", "in[12]", "deep/er", "x{a,b}", "p%20q", "st*r"):
        fill(folder / "root" / name, f"{INSIDE} {name}")
    for name in ("outside", "outside/sub", "root-evil"):
        fill(folder / name, CANARY)
    (folder / "root" / "link").symlink_to(folder / "outside")
    (folder / "root" / "up").symlink_to("..")
    elsewhere = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Requests)
    threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
    server = GatewayServer(folder / "gateway", "--root", str(folder / "root"), "--warm-spark")
    try:
        yield Place(folder, server, elsewhere.server_address[1])
    finally:
        server.stop()
        elsewhere.shutdown()
        elsewhere.server_close()


def watching(path: str, fmt: str = "json") -> Callable[[Attempt], str]:
    """A job that watches a path."""

    def run(attempt: Attempt) -> str:
        outside, root = str(attempt.outside), str(attempt.root)
        filled = path.format(root=root, outside=outside, up=os.path.relpath(outside), port=attempt.place.port)
        return attempt.watch(filled, fmt)

    return run


def link_in_folder(attempt: Attempt) -> str:
    (attempt.mine / "in").mkdir()
    (attempt.mine / "in" / "x.json").symlink_to(attempt.outside / "known.json")
    return attempt.watch(attempt.mine / "in")


def link_that_comes_later(attempt: Attempt, target: str = "known.json", name: str = "later.json") -> str:
    """The job runs already when a link appears in its folder."""
    fill(attempt.mine / "in", INSIDE)
    said = attempt.watch(attempt.mine / "in")
    attempt.settle()
    (attempt.mine / "in" / name).symlink_to(attempt.outside / target)
    with contextlib.suppress(AssertionError):
        until(lambda: attempt.status() != "RUNNING", 8)
    return said


def folder_that_becomes_a_link(attempt: Attempt) -> str:
    """The folder of a running job becomes a link to a folder elsewhere."""
    fill(attempt.mine / "in", INSIDE)
    said = attempt.watch(attempt.mine / "in")
    attempt.settle()
    (attempt.mine / "in").rename(attempt.mine / "was")
    (attempt.mine / "in").symlink_to(attempt.outside)
    with contextlib.suppress(AssertionError):
        until(lambda: attempt.status() != "RUNNING", 8)
    return said


def exchanged_all_the_time(attempt: Attempt) -> str:
    """A thread exchanges the folder and a link, from before the check until the job has ended."""
    fill(attempt.mine / "in", INSIDE)
    (attempt.mine / "evil").symlink_to(attempt.outside)
    over = threading.Event()

    def exchange_again() -> None:
        while not over.is_set():
            exchange(attempt.mine / "in", attempt.mine / "evil")
            time.sleep(0.0003)

    thread = threading.Thread(target=exchange_again)
    thread.start()
    try:
        said, tries, deadline = "", 0, time.monotonic() + 20
        attempt.sink()
        while time.monotonic() < deadline:
            if attempt.job is not None and attempt.status() == "RUNNING":
                time.sleep(0.05)
                continue
            tries += 1
            attempt.job = None  # it is refused at once where the check meets the link
            attempt.run("DROP TABLE IF EXISTS src")
            if not code_of(attempt.table("src", attempt.mine / "in", WATCHED)):
                said = attempt.start()
                attempt.job = None if code_of(said) else attempt.job
        assert tries > 1
        return said
    finally:
        over.set()
        thread.join()


def files_exchanged(attempt: Attempt) -> str:
    """Files of a running job become links to a file elsewhere between their listing and their reading."""
    folder, evil = attempt.mine / "in", attempt.outside / "known.json"
    fill(folder, INSIDE)
    said = attempt.watch(folder)
    attempt.settle()
    number, deadline = 0, time.monotonic() + 40
    while attempt.status() == "RUNNING" and time.monotonic() < deadline:
        numbers = range(number, number := number + 30)
        for n in numbers:
            (folder / f"{n}.json").write_text(json.dumps({"a": INSIDE}) + "\n")
        time.sleep(0.4)  # they are listed
        for n in numbers:
            (attempt.mine / "new").symlink_to(evil)
            (attempt.mine / "new").rename(folder / f"{n}.json")
    return said


def hive_folder(attempt: Attempt) -> str:
    (attempt.mine / "in").mkdir()
    fill(attempt.mine / "in" / "p=good", INSIDE)
    (attempt.mine / "in" / "p=evil").symlink_to(attempt.outside)
    attempt.sink()
    attempt.table("src", attempt.mine / "in", WATCHED, "a STRING, p STRING", clause="PARTITIONED BY (p)")
    return attempt.start()


def columns_of_files(attempt: Attempt) -> str:
    """Metadata of files: their names."""
    attempt.sink()
    more = "a STRING METADATA FROM 'file.path'"
    return attempt.table("src", attempt.root / "up/outside", WATCHED, more) + attempt.start()


def hint(attempt: Attempt) -> str:
    attempt.sink()
    attempt.table("src", attempt.root / "in1", WATCHED)
    return attempt.start(f"INSERT INTO snk SELECT a FROM src /*+ OPTIONS('path' = '{attempt.root}/up/outside') */")


def altered(attempt: Attempt) -> str:
    attempt.sink()
    attempt.table("src", attempt.root / "in1", WATCHED)
    said = attempt.run(f"ALTER TABLE src SET ('path' = '{attempt.outside}')")
    return said + attempt.start()


def without_tables(attempt: Attempt) -> None:
    """The tables of a plan are those of its text where the session has none of their names."""
    for name in ("src", "snk"):
        attempt.run(f"DROP TABLE {name}")


def plan_of_another(attempt: Attempt) -> str:
    """A plan whose text names files elsewhere, in escapes of JSON."""
    attempt.sink()
    attempt.table("src", attempt.root / "in1", WATCHED)
    path = attempt.mine / "plan.json"
    attempt.run(f"COMPILE PLAN '{path}' FOR INSERT INTO snk SELECT a FROM src")
    inside = str(attempt.root / "in1")
    outside = str(attempt.outside).replace("outside", "\\u006futside")
    text = path.read_text()
    assert inside in text
    path.write_text(text.replace(inside, outside))
    without_tables(attempt)
    return attempt.start(f"EXECUTE PLAN '{path}'")


def plan_over_rest(attempt: Attempt) -> str:
    attempt.sink()
    attempt.table("src", attempt.root / "in1", WATCHED)
    attempt.run("COMPILE PLAN 'plan://evil' FOR INSERT INTO snk SELECT a FROM src")
    http = attempt.place.server.http
    text = http.get("/v4/plans/evil").text.replace(str(attempt.out), f"{attempt.root}/link/new")
    assert http.put("/v4/plans/evil", content=text.encode()).status_code < 300
    without_tables(attempt)
    return attempt.start("EXECUTE PLAN 'plan://evil'")


def sink_elsewhere(path: str) -> Callable[[Attempt], str]:
    """A job that writes to a path."""

    def run(attempt: Attempt) -> str:
        attempt.table("src", attempt.root / "in1", WATCHED)
        said = attempt.table("snk", path.format(root=attempt.root, outside=attempt.outside, port=attempt.place.port))
        return said if code_of(said) else attempt.start()

    return run


def partitions_of_data(attempt: Attempt) -> str:
    """Values of the data name the folders of partitions."""
    (attempt.mine / "in").mkdir()
    values = ("../../../outside/x", "..", ".", "/etc/x", "a/../../../../outside", "%2e%2e%2f", "..\\..", "", "a\u0000b")
    (attempt.mine / "in" / "f.json").write_text(
        "".join(json.dumps({"a": INSIDE, "p": value}) + "\n" for value in values)
    )
    attempt.table("snk", attempt.out, columns="a STRING, p STRING", clause="PARTITIONED BY (p)")
    attempt.table("src", attempt.mine / "in", WATCHED, "a STRING, p STRING")
    return attempt.start("INSERT INTO snk SELECT a, p FROM src")


def success_file(attempt: Attempt) -> str:
    more = ", 'sink.partition-commit.policy.kind' = 'success-file', "
    more += "'sink.partition-commit.success-file.name' = '../../../../../outside/pwned'"
    attempt.table("src", attempt.root / "in1", WATCHED)
    attempt.table("snk", attempt.out, more, "a STRING, p STRING", clause="PARTITIONED BY (p)")
    return attempt.start("INSERT INTO snk SELECT a, 'x' FROM src")


def sink_that_becomes_a_link(attempt: Attempt) -> str:
    """The folder of the sink of a running job becomes a link to a folder elsewhere."""
    fill(attempt.mine / "in", INSIDE)
    said = attempt.watch(attempt.mine / "in")
    attempt.settle()
    shutil.copytree(attempt.out, attempt.mine / "was")
    shutil.rmtree(attempt.out)
    attempt.out.symlink_to(attempt.outside)
    (attempt.mine / "in" / "2.json").write_text(json.dumps({"a": INSIDE}) + "\n")
    until(lambda: attempt.status() != "RUNNING", 30)
    attempt.out.unlink()
    return said


def checkpoint_elsewhere(path: str, option: str = "execution.checkpointing.dir") -> Callable[[Attempt], str]:
    def run(attempt: Attempt) -> str:
        said = attempt.run(f"SET '{option}' = '{path.format(root=attempt.root, outside=attempt.outside)}'")
        return said if code_of(said) else attempt.watch(attempt.root / "in1")

    return run


def stopped(attempt: Attempt) -> Path:
    """The checkpoint of a job that has read one file."""
    checkpoint = attempt.mine / "checkpoint"
    attempt.run(f"SET 'execution.checkpointing.dir' = '{checkpoint}'")
    fill(attempt.mine / "in", INSIDE)
    attempt.watch(attempt.mine / "in")
    attempt.settle()
    attempt.run(f"STOP JOB '{attempt.job}'")
    attempt.job = None
    return checkpoint


def list_in_a_checkpoint(attempt: Attempt) -> str:
    """A further list of files, which names one elsewhere."""
    (folder,) = (stopped(attempt) / "splits").glob("filesystem-*")
    files = [[f"{attempt.outside}/known.json", 16, 0], ["../../../../outside/known.json", 16, 0]]
    (folder / "0000000001_1").write_text(json.dumps({"root": "", "files": files}))
    said = attempt.start()
    until(lambda: attempt.status() != "RUNNING", 30)
    return said


def log_in_a_checkpoint(attempt: Attempt) -> str:
    """The log of Spark names a file elsewhere as a list of files, in a micro-batch that is not done."""
    checkpoint = stopped(attempt)
    (log,) = (checkpoint / "spark" / "sources" / "0").glob("[0-9]*")
    text, n = re.subn(r'"file:[^"]*"', json.dumps(f"file://{attempt.outside}/known.json"), log.read_text())
    assert n == 1
    log.write_text(text)
    for name in ("spark/commits/0", "progress.json", "sinks.json"):
        (checkpoint / name).unlink(missing_ok=True)
    for path in checkpoint.rglob(".*.crc"):
        path.unlink()
    said = attempt.start()
    with contextlib.suppress(AssertionError):
        until(lambda: attempt.status() != "RUNNING", 10)
    return said


def checkpoint_that_becomes_a_link(attempt: Attempt) -> str:
    """The folder of the checkpoint becomes a link after its check."""
    attempt.run(f"SET 'execution.checkpointing.dir' = '{attempt.mine}/checkpoint'")
    (attempt.mine / "checkpoint").symlink_to(attempt.outside)
    return attempt.watch(attempt.root / "in1")


def savepoint_elsewhere(attempt: Attempt) -> str:
    """The folder for savepoints becomes a link after its check."""
    (attempt.mine / "savepoints").mkdir()
    attempt.run(f"SET 'execution.checkpointing.savepoint-dir' = '{attempt.mine}/savepoints'")
    attempt.watch(attempt.root / "in1")
    attempt.settle()
    (attempt.mine / "savepoints").rmdir()
    (attempt.mine / "savepoints").symlink_to(attempt.outside)
    return attempt.run(f"STOP JOB '{attempt.job}' WITH SAVEPOINT")


def state_elsewhere(attempt: Attempt) -> str:
    """The folder of Spark within a checkpoint is a link to a folder elsewhere."""
    checkpoint = attempt.mine / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "spark").symlink_to(attempt.outside)
    attempt.run(f"SET 'execution.checkpointing.dir' = '{checkpoint}'")
    return attempt.watch(attempt.root / "in1")


def delta(change: Callable[[Attempt, Path], None]) -> Callable[[Attempt], str]:
    """A Delta table whose log was changed."""

    def run(attempt: Attempt) -> str:
        folder = attempt.mine / "delta"
        write_deltalake(str(folder), pa.table({"a": [INSIDE]}))
        change(attempt, folder)
        attempt.sink()
        said = attempt.run(
            f"CREATE TABLE src (a STRING) WITH ('connector' = 'delta', 'mode' = 'streaming', 'table-path' = '{folder}')"
        )
        return said + attempt.start()

    return run


def in_log(path: str) -> Callable[[Attempt, Path], None]:
    def change(attempt: Attempt, folder: Path) -> None:
        log = folder / "_delta_log" / f"{0:020}.json"
        text = log.read_text()
        name = next(folder.glob("part-*.parquet")).name
        filled = path.format(outside=attempt.outside, file="known.parquet")
        log.write_text(text.replace(f'"{name}"', json.dumps(filled)))

    return change


def log_elsewhere(attempt: Attempt, folder: Path) -> None:
    shutil.rmtree(folder / "_delta_log")
    write_deltalake(str(attempt.place.folder / f"delta-{attempt.name}"), pa.table({"a": [CANARY]}))
    (folder / "_delta_log").symlink_to(attempt.place.folder / f"delta-{attempt.name}" / "_delta_log")


def linked_file_of_delta(attempt: Attempt, folder: Path) -> None:
    file = next(folder.glob("part-*.parquet"))
    file.unlink()
    file.symlink_to(attempt.outside / "known.parquet")


def parquet_with_columns_elsewhere(attempt: Attempt) -> str:
    """The footer of a file of Parquet may say that a column is in another file."""
    folder = attempt.mine / "in"
    folder.mkdir()
    metadata = pq.read_metadata(attempt.outside / "known.parquet")
    metadata.set_file_path("../../../../outside/known.parquet")
    metadata.write_metadata_file(folder / "f.parquet")
    return attempt.watch(folder, "parquet")


def catalog_of_files(attempt: Attempt) -> str:
    """The file of a catalog names a table elsewhere."""
    folder = attempt.mine / "catalog"
    folder.mkdir()
    said = attempt.run(f"CREATE CATALOG c WITH ('type' = 'file', 'path' = '{folder}')")
    attempt.sink()
    said += attempt.run("CREATE DATABASE IF NOT EXISTS c.d")
    said += attempt.run(
        "CREATE TABLE c.d.src (a STRING) WITH ('connector' = 'filesystem', 'format' = 'json', "
        f"'path' = '{attempt.root}/in1', 'source.monitor-interval' = '200 ms')"
    )
    files = [path for path in folder.rglob("*") if path.is_file() and f"{attempt.root}/in1" in path.read_text()]
    assert files, said
    for path in files:
        path.write_text(path.read_text().replace(f"{attempt.root}/in1", str(attempt.outside)))
    return attempt.start("INSERT INTO snk SELECT a FROM c.d.src")


def catalog_of_delta(attempt: Attempt) -> str:
    """A table of a catalog is a link to a table elsewhere."""
    elsewhere = attempt.place.folder / f"delta-{attempt.name}"
    write_deltalake(str(elsewhere), pa.table({"a": [CANARY]}))
    (attempt.mine / "lake" / "d").mkdir(parents=True)
    (attempt.mine / "lake" / "d" / "t").symlink_to(elsewhere)
    said = attempt.run(f"CREATE CATALOG l WITH ('type' = 'delta', 'warehouse' = '{attempt.mine}/lake')")
    attempt.sink()
    return said + attempt.start("INSERT INTO snk SELECT a FROM l.d.t /*+ OPTIONS('mode' = 'streaming') */")


def removal(statement: str) -> Callable[[Attempt], str]:
    """Statements that remove rows of a table, over a folder with links to files and folders elsewhere."""

    def run(attempt: Attempt) -> str:
        fill(attempt.out, INSIDE)
        attempt.sink()
        attempt.table("src", attempt.root / "in1")
        (attempt.out / "x.json").symlink_to(attempt.outside / "known.json")
        (attempt.out / "sub").symlink_to(attempt.outside / "sub")
        said = attempt.start(statement) if "INSERT" in statement else attempt.run(statement)
        if attempt.job is not None and not code_of(said):
            with contextlib.suppress(AssertionError):
                until(lambda: attempt.status() != "RUNNING", 30)
        for name in ("x.json", "sub"):
            (attempt.out / name).unlink(missing_ok=True)
        return said

    return run


def registry(attempt: Attempt) -> str:
    """A format that asks a server."""
    attempt.sink()
    said = attempt.run(
        "CREATE TABLE src (a STRING) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'avro-confluent', "
        f"'avro-confluent.url' = 'http://127.0.0.1:{attempt.place.port}', "
        f"'properties.bootstrap.servers' = '127.0.0.1:{attempt.place.port}')"
    )
    return said + attempt.start()


def certificate(attempt: Attempt) -> str:
    attempt.sink()
    said = attempt.run(
        "CREATE TABLE src (a STRING) WITH ('connector' = 'filesystem', 'format' = 'avro-confluent', "
        f"'path' = '{attempt.root}/in1', 'avro-confluent.url' = 'http://127.0.0.1:{attempt.place.port}', "
        f"'avro-confluent.ssl.keystore.location' = '{attempt.outside}/known.json')"
    )
    return said + attempt.start()


def secret(attempt: Attempt) -> str:
    attempt.table("src", attempt.root / "in1", WATCHED)
    said = attempt.run(
        "CREATE TABLE snk (a STRING) WITH ('connector' = 'print', "
        f"'print-identifier' = '${{file:{attempt.root}/link/known.json}}')"
    )
    return said + attempt.start()


def replayed(attempt: Attempt) -> str:
    attempt.sink()
    said = attempt.run(
        "CREATE TABLE src (a STRING) WITH ('connector' = 'replay', 'format' = 'json', "
        f"'path' = '{attempt.root}/link/known.json')"
    )
    return said + attempt.start()


def looked_up(attempt: Attempt) -> str:
    """The table of a lookup join is elsewhere."""
    attempt.sink()
    attempt.table("src", attempt.root / "in1", WATCHED, "a STRING, p AS PROCTIME()")
    said = attempt.table("dim", f"{attempt.root}/[l]ink")
    said += attempt.table("dim2", f"{attempt.root}/link")
    return said + attempt.start(
        "INSERT INTO snk SELECT d.a FROM src LEFT JOIN dim2 FOR SYSTEM_TIME AS OF src.p AS d ON src.a = d.a"
    )


ATTEMPTS: dict[str, tuple[Callable[[Attempt], str], str]] = {
    "own folder with brackets": (watching("{root}/in[12]"), "inside in[12]"),
    "own folder with braces": (watching("{root}/x{{a,b}}"), "inside x{a,b}"),
    "own folder with a star": (watching("{root}/st*r"), "inside st*r"),
    "own folder with an escape": (watching("{root}/p%20q"), "inside p%20q"),
    "own folder as a url": (watching("FILE://localhost{root}/in[12]"), "inside in[12]"),
    "own folder through dots": (watching("{root}/up/root/deep/../in1"), "inside in1"),
    "braces": (watching("{root}/{{../{{../outside,a}},b}}"), "OPT040"),
    "braces of the report": (watching("{root}/{{../{{../{{../{{../{outside},a}},b}},c}},d}}"), "OPT040"),
    "star": (watching("{root}/*"), "OPT040"),
    "brackets of dots": (watching("{root}/[.][.]/outside"), "OPT040"),
    "question marks": (watching("{root}/??/outside"), "OPT040"),
    "link": (watching("{root}/link"), "GW012"),
    "link to a folder above": (watching("{root}/up/outside"), "GW012"),
    "dots": (watching("{root}/../outside"), "GW012"),
    "relative": (watching("{up}"), "GW012"),
    "name that begins like the root": (watching("{root}-evil"), "GW012"),
    "escaped dots": (watching("{root}/%2e%2e/outside"), "OPT040"),
    "escaped twice": (watching("file:{root}/%252e%252e%252foutside"), "OPT040"),
    "file url": (watching("file:///{root}/../outside"), "GW012"),
    "local url": (watching("local:{outside}"), "GW012"),
    "other host": (watching("file://elsewhere{outside}"), "GW012"),
    "http": (watching("http://127.0.0.1:{port}/x.json"), "GW012"),
    "hdfs": (watching("hdfs://127.0.0.1:{port}/x"), "GW012"),
    "s3": (watching("s3://bucket/x"), "GW012"),
    "url in a url": (watching("simplecache::file://{outside}"), "GW012"),
    "archive": (watching("zip://x.json::file://{outside}/x.zip"), "GW012"),
    "parquet through a link": (watching("{root}/link/known.parquet", "parquet"), "GW012"),
    "link in a folder": (link_in_folder, "GW012"),
    "link that comes later": (link_that_comes_later, "GW012"),
    "folder that comes later": (partial(link_that_comes_later, target="sub", name="later"), "GW012"),
    "folder that becomes a link": (folder_that_becomes_a_link, "GW012"),
    "folder exchanged all the time": (exchanged_all_the_time, INSIDE),
    "files exchanged all the time": (files_exchanged, "GW012"),
    "folder of a partition": (hive_folder, "GW012"),
    "columns of files": (columns_of_files, "GW012"),
    "hint": (hint, "GW012"),
    "altered": (altered, "GW012"),
    "plan of another": (plan_of_another, "GW012"),
    "plan over rest": (plan_over_rest, "GW012"),
    "sink through a link": (sink_elsewhere("{root}/link/new"), "GW012"),
    "sink through dots": (sink_elsewhere("{root}/deep/../../outside/new"), "GW012"),
    "sink of a server": (sink_elsewhere("http://127.0.0.1:{port}/new"), "GW012"),
    "partitions of data": (partitions_of_data, INSIDE),
    "success file": (success_file, "inside in1"),
    "sink that becomes a link": (sink_that_becomes_a_link, "GW012"),
    "checkpoint through a link": (checkpoint_elsewhere("{root}/link/c"), "GW012"),
    "checkpoint through braces": (checkpoint_elsewhere("{root}/{{../outside,a}}/c"), "CKPT015"),
    "checkpoint that becomes a link": (checkpoint_that_becomes_a_link, "GW012"),
    "recovery elsewhere": (checkpoint_elsewhere("{root}/link", "execution.state-recovery.path"), "GW012"),
    "list in a checkpoint": (list_in_a_checkpoint, "GW012"),
    "log in a checkpoint": (log_in_a_checkpoint, "CKPT016"),
    "state elsewhere": (state_elsewhere, "CKPT002"),
    "savepoint elsewhere": (savepoint_elsewhere, "GW012"),
    "delta up": (delta(in_log("../../../../outside/{file}")), "GW012"),
    "delta escaped": (delta(in_log("%2e%2e/%2e%2e/%2e%2e/%2e%2e/outside/{file}")), "GW012"),
    "delta absolute": (delta(in_log("file://{outside}/{file}")), "GW012"),
    "delta log elsewhere": (delta(log_elsewhere), "GW012"),
    "delta file elsewhere": (delta(linked_file_of_delta), "GW012"),
    "columns of parquet elsewhere": (parquet_with_columns_elsewhere, "DATA131"),
    "catalog of files": (catalog_of_files, "GW012"),
    "catalog of delta": (catalog_of_delta, "GW012"),
    "overwrite": (removal("INSERT OVERWRITE snk SELECT a FROM src"), "GW012"),
    "registry": (registry, "GW012"),
    "certificate": (certificate, "GW012"),
    "secret": (secret, "GW012"),
    "replay": (replayed, "GW012"),
    "lookup": (looked_up, "GW012"),
}
"""The name of an attempt to what it does, and what becomes of it: the rows of its sink, or the code of its refusal."""


@pytest.mark.parametrize("name", ATTEMPTS)
def test_a_job_reads_and_writes_below_its_root(place: Place, name: str) -> None:
    run, expected = ATTEMPTS[name]
    before, requests = place.elsewhere(), Requests.count
    attempt = Attempt(place, name)
    said = run(attempt)
    attempt.settle()
    rows = attempt.rows() if attempt.out.is_dir() else []
    code = code_of(attempt.end() + said)
    assert all(row.startswith(INSIDE) for row in rows)
    assert expected in {code, *rows}, (code, rows)
    assert code in ("", "GW012", expected)
    assert list(place.leaks()) == []
    assert place.elsewhere() == before
    assert Requests.count == requests
