"""What a user is told when Spark says that a query failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.runtime.spark.damage import explain, explain_full_disk

NOWHERE = SparkCheckpoint(Path("nowhere"))


@pytest.mark.parametrize(
    "cause",
    [
        "java.io.IOException: Broken pipe",
        "java.net.SocketException: Connection reset",
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        "java.io.IOException: Stream closed\n\tat org.apache.spark.api.python.PythonWorkerFactory.stopWorker(A)",
    ],
)
def test_a_python_worker_that_was_killed(cause: str) -> None:
    text = f"Job aborted due to stage failure: Task 0 in stage 3.0 failed 2 times\nCaused by: {cause}"
    error = explain(Exception(text), NOWHERE, ())
    assert error.code == "RUN001"
    assert error.message.startswith("the job failed: a Python worker died (")
    assert "continue from its checkpoint" in str(error.hint)


@pytest.mark.parametrize(
    "text",
    [
        "OSError: [Errno 28] No space left on device: '{}/part-0.json'",
        "Caused by: java.io.FileNotFoundException: {}/part-0.json (No space left on device)",
        "Caused by: java.io.IOException: Disk quota exceeded",
    ],
)
def test_a_full_disk(tmp_path: Path, text: str) -> None:
    error = explain(Exception(f"Job aborted\n{text.format(tmp_path / 'out')}"), SparkCheckpoint(tmp_path), ())
    assert error.code == "RUN031"
    assert f"the disk of {tmp_path} is full" in error.message
    assert "continues from its checkpoint" in str(error.hint)


def test_a_full_disk_of_an_earlier_job_explains_nothing(tmp_path: Path) -> None:
    printed = "26/11/24 08:00:00 ERROR java.io.IOException: No space left on device"
    assert explain_full_disk("EOFError", SparkCheckpoint(tmp_path), printed) is None


def test_a_stream_of_something_else_that_is_closed() -> None:
    error = explain(Exception("Caused by: java.io.IOException: Stream closed\n\tat org.apache.hadoop.X"), NOWHERE, ())
    assert error.message == "the job failed: Caused by: java.io.IOException: Stream closed"


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("java.net.ConnectException: Connection refused", "nothing listens there"),
        ("java.net.UnknownHostException: namenode", "the name of the host has no address"),
        ("java.net.SocketTimeoutException: Read timed out", "it does not answer"),
    ],
)
def test_a_server_that_a_library_of_spark_loses(cause: str, words: str) -> None:
    error = explain(Exception(f"Stream terminated\nCaused by: {cause}"), NOWHERE, ())
    assert error.code == "RUN094" and words in error.message and cause in error.message


def test_a_time_out_in_python_is_no_server() -> None:
    assert explain(Exception("Traceback\nTimeoutError: of a function\nCaused by: x"), NOWHERE, ()).code == "RUN001"


def test_an_error_in_python_is_its_own_explanation() -> None:
    text = "Traceback\nZeroDivisionError: division by zero\nCaused by: x"
    error = explain(Exception(text), NOWHERE, ())
    assert error.message == "the job failed: ZeroDivisionError: division by zero"
