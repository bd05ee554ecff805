"""What a user is told when Spark says that a query failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.execnodes.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.execnodes.runtime.spark.damage import explained

NOWHERE = SparkCheckpoint(Path("nowhere"))


@pytest.mark.parametrize(
    "cause",
    [
        "java.io.IOException: Broken pipe",
        "java.net.SocketException: Connection reset",
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
    ],
)
def test_a_python_worker_that_was_killed(cause: str) -> None:
    text = f"Job aborted due to stage failure: Task 0 in stage 3.0 failed 2 times\nCaused by: {cause}"
    error = explained(Exception(text), NOWHERE, ())
    assert error.code == "RUN001"
    assert error.message.startswith("the job failed: a Python worker died (")
    assert "continue from its checkpoint" in str(error.hint)


def test_an_error_in_python_is_its_own_explanation() -> None:
    text = "Traceback\nZeroDivisionError: division by zero\nCaused by: x"
    error = explained(Exception(text), NOWHERE, ())
    assert error.message == "the job failed: ZeroDivisionError: division by zero"
