"""What a user is told when Spark says that a query failed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stateplan.execnodes.runtime.job import _explain

RUN: Any = SimpleNamespace(checkpoint=SimpleNamespace(spark=str(Path("nowhere"))), job=SimpleNamespace(operators=()))


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
    error = _explain(text, RUN)
    assert error.code == "RUN001"
    assert error.message.startswith("the job failed: a Python worker was gone (")
    assert "goes on from its checkpoint" in str(error.hint)


def test_an_error_in_python_is_its_own_explanation() -> None:
    error = _explain("Traceback\nZeroDivisionError: division by zero\nCaused by: x", RUN)
    assert error.message == "the job failed: ZeroDivisionError: division by zero"
