"""A session of the user's that jobs run in stays as it is."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stateplan.common.errors import RunError
from stateplan.runtime.spark.cluster import warn_of_output
from stateplan.runtime.spark.session import runs_elsewhere
from tests.cluster.cluster_jobs import (
    as_a_guest,
    as_a_guest_that_fails,
    changes,
    compiled,
    connected,
    finished,
    record,
    run,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_a_session_is_the_same_afterwards(spark: object, tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    said = finished(as_a_guest, there, PATH=path)
    before, between, after, heard = json.loads(said.rpartition("FACTS ")[2].splitlines()[0])
    assert len(before["session"]) > 5
    assert len(before["hadoop"]) > 500
    for name, value in before.items():
        assert between[name] == value, name
        assert after[name] == value, name
    assert heard == ["started"] * 3 + ["terminated"] * 3
    record(here, 0, 4)
    compiled(here)
    for name in ("stats", "pairs"):
        run(here, name, {})
    record(here, 4, 6)
    run(here, "stats", {})
    for name in ("stats", "pairs"):
        assert changes(here, name)
        assert changes(there, name) == changes(here, name)


@pytest.mark.long
def test_a_failure_with_a_code_prints_no_stack_trace(tmp_path: Path) -> None:
    """Also where the ``python3`` of PATH lacks libraries, as in a notebook whose environment is not activated."""
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    other.chmod(0o755)
    said = finished(as_a_guest_that_fails, tmp_path, PATH=f"{other.parent}{os.pathsep}{os.environ['PATH']}")
    assert "ROWS [(1, 2)]\n" in said
    assert "FAILED DATA310\n" in said
    assert "\tat " not in said and "Traceback" not in said, said


@pytest.mark.long
def test_a_session_of_spark_connect_is_refused() -> None:
    said = finished(connected).splitlines()
    assert [line for line in said if line.startswith("REFUSED")] == ["REFUSED RUN012"] * 2


def test_a_session_that_prints_progress_bars_is_warned_of(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """PySpark turns them on for every session that says nothing about them."""
    warn_of_output(spark.conf.get)
    assert caplog.messages == []
    warn_of_output({"spark.ui.showConsoleProgress": "true"}.get)
    (message,) = caplog.messages
    assert "'spark.ui.showConsoleProgress', 'false'" in message and "setLogLevel('OFF')" in message


@pytest.mark.parametrize("key", ["spark.master", "spark.remote"])
def test_the_address_of_a_connect_server_is_refused(key: str) -> None:
    with pytest.raises(RunError) as error:
        runs_elsewhere({key: "sc://somewhere:15002"})
    assert error.value.code == "RUN012"
