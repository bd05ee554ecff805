"""Jobs on separate hosts: each has an address, a /tmp and a Python of its own, and no stateplan."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.hosts import DRIVER, OPTIONS, PYTHON, Hosts, lacking
from tests.cluster.cluster_jobs import ROOT, changes, compiled, kill_tree, record, two_at_once
from tests.cluster.host_jobs import in_more_steps, refusals_on_hosts, submitted, unreachable_driver, with_kills

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def network(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    reason = lacking()
    if reason is not None:
        pytest.skip(reason)
    with Hosts(tmp_path_factory.mktemp("hosts"), [shared]) as found:
        yield found


@pytest.fixture
def hosts(network: Hosts) -> Hosts:
    for host in network.down():
        network.start_worker(host)
    network.await_workers()
    return network


def program(work: Callable[..., None]) -> str:
    """Python that runs a function of a module, with texts as arguments."""
    return (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        f"from {work.__module__} import {work.__name__} as work\nwork(*sys.argv[1:])"
    )


def on_driver(hosts: Hosts, *command: str) -> subprocess.Popen[str]:
    return hosts.on(
        DRIVER, *command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def until(job: subprocess.Popen[str], folder: Path, batches: int) -> None:
    """Waits until a job has so many micro-batches."""
    while len(list((folder / "checkpoint-stats" / "spark" / "commits").glob("[0-9]*"))) < batches:
        assert job.poll() is None, job.communicate()[0]
        time.sleep(0.05)


def caches(hosts: Hosts, host: str) -> list[Path]:
    """The folders for copies of state on a host."""
    return list((hosts.folder / host / "tmp").rglob("stateplan-runs-*"))


@pytest.mark.long
def test_two_jobs_outlive_a_host_and_a_driver(spark: object, hosts: Hosts, shared: Path, tmp_path: Path) -> None:
    there, here = shared / "jobs", tmp_path
    for place in (there, here):
        record(place, 0, 6)
        compiled(place)
    job = on_driver(hosts, sys.executable, "-c", program(with_kills), str(there))
    until(job, there, 1)
    hosts.kill("h2")
    until(job, there, 3)
    hosts.start_worker("h2")
    until(job, there, 4)
    kill_tree(job)
    script = tmp_path / "job.py"
    script.write_text(program(submitted))
    settings = [word for key, text in OPTIONS.items() for word in ("--conf", f"{key}={text}")]
    job = on_driver(hosts, "spark-submit", *settings, str(script), str(there))
    said, _ = job.communicate(timeout=400)
    assert job.returncode == 0, said
    deadline = time.monotonic() + 60
    while caches(hosts, "h1"):  # on h2 a host was killed, and all its processes with it
        assert time.monotonic() < deadline
        time.sleep(0.2)
    two_at_once(here, {"parallelism.default": "2"}, None)
    in_more_steps(here, {})
    for name in ("stats", "pairs"):
        assert changes(here, name), name
        assert changes(there, name) == changes(here, name)


@pytest.mark.long
def test_what_cannot_run(hosts: Hosts, shared: Path) -> None:
    there = shared / "refused"
    there.mkdir()
    bare = there / "bare"
    bare.write_text('#!/bin/sh\nexec python -S "$@"\n')
    bare.chmod(0o755)
    found: dict[str, list[str]] = {}
    said = ""
    with on_driver(hosts, sys.executable, "-c", program(refusals_on_hosts), str(there), "/tmp/private") as job:
        assert job.stdin is not None and job.stdout is not None
        for line in job.stdout:
            said += line
            name, _, text = line.partition(" ")
            if text.startswith("["):
                found[name] = json.loads(text)
            if name == "again":
                for host in hosts.names:
                    assert caches(hosts, host), host
                    hosts.kill(host)
                job.stdin.write("\n")
                job.stdin.flush()
    expected = {
        "sink": ("RUN016", "does not reach the folder of table default_catalog.default_database.stats"),
        "source": ("RUN016", "the path of table default_catalog.default_database.orders does not exist: /tmp/private"),
        "checkpoint": ("RUN016", "the checkpoint /tmp/private/checkpoint is not there"),
        "none": ("CKPT007", "needs 'execution.checkpointing.dir'"),
        "static": ("RUN013", "Spark runs already with 'spark.executor.memory' = '800m', which cannot become '1g'"),
        "program": ("RUN015", "the executors have no program /nowhere/python"),
        "driver": ("RUN015", f"the driver's machine has no program {PYTHON}"),
        "bare": ("RUN015", "cannot import numpy"),
        "well": ("well", ""),
        "again": ("well", ""),
        "gone": ("RUN014", "took a task within 20 seconds (", "xecutor "),
    }
    assert {name: facts[0] for name, facts in found.items()} == {n: code for n, (code, *_) in expected.items()}, said
    for name, (_, *parts) in expected.items():
        assert all(words in found[name][1] for words in parts), (name, found[name][1])
    for name in ("well", "again"):  # nothing to say about a cache that does not work
        assert [line for line in found[name][3] if not line.startswith("continuing from")] == []
    rows = sorted(tuple(json.loads(line).values()) for line in changes(there, "stats"))
    assert rows == [("+I", 0, 2, 4), ("+I", 1, 2, 2), ("+I", 2, 2, 6), ("+I", 3, 1, 0), ("+I", 4, 1, 2)]


@pytest.mark.long
def test_a_driver_that_executors_do_not_reach(hosts: Hosts, shared: Path) -> None:
    there = shared / "unreachable"
    record(there, 0, 1)
    job = on_driver(hosts, sys.executable, "-c", program(unreachable_driver), str(there))
    said, _ = job.communicate(timeout=200)
    code, message, hint = json.loads(said.splitlines()[-1])
    assert code == "RUN014"
    assert re.search(r"; executor \d on 10\.91\.7\.1\d: java\..*Connection refused", message), message
    assert "'spark.driver.host'" in hint
