"""What other threads see of a Spark that is just being started."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from stateplan.common.errors import RunError
from stateplan.runtime.spark import session
from stateplan.runtime.spark.hadoop import default_file_system
from stateplan.runtime.spark.session import quietly, running_context, spark_of, would_be_ours


class HalfMade:
    """PySpark's context before it has a JVM: whatever it is asked fails."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"'SparkContext' object has no attribute '{name}'")


def test_questions_while_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are answered at once, as if there were none yet: it will be one for jobs, on this machine."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    begun, go_on, made = threading.Event(), threading.Event(), []

    def started(*_: object) -> Any:
        monkeypatch.setattr(SparkContext, "_active_spark_context", HalfMade())
        begun.set()
        assert go_on.wait(20)
        return "Spark"

    monkeypatch.setattr(session, "_start", started)
    thread = threading.Thread(target=lambda: made.append(spark_of({})))
    thread.start()
    assert begun.wait(20)
    assert running_context() is None and would_be_ours({}) and default_file_system({}) == "file:///"
    go_on.set()
    thread.join(20)
    assert made == ["Spark"] and running_context() is not None


def test_output_of_the_process_is_its_own_again(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Even where several threads start processes whose output goes elsewhere."""
    inside = threading.Barrier(2)

    def start(wait: bool) -> None:
        if wait:
            inside.wait(20)
        with quietly():
            if not wait:
                inside.wait(20)
            os.write(1, b"hidden")

    threads = [threading.Thread(target=start, args=(wait,)) for wait in (False, True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    os.write(1, b"seen")
    assert capfd.readouterr().out == "seen"


def test_a_job_may_name_the_java_options_that_spark_was_started_with(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark puts its own in front of them, so they are not what it says it has; a part of them is another setting."""
    key = "spark.executor.extraJavaOptions"
    monkeypatch.setitem(session._ours, spark.sparkContext.applicationId, {key: "-Done=1 -Dtwo=2"})
    session._check_static(spark, {key: "-Done=1 -Dtwo=2"})
    for other in ("-Dtwo=2", "-Dthree=3"):
        with pytest.raises(RunError) as error:
            session._check_static(spark, {key: other})
        assert error.value.code == "RUN013"
