"""What a user is told where there is no Java to run Spark on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stateplan.common.errors import find_encoded

START = """
from stateplan.common.errors import RunError
from stateplan.runtime.spark.session import spark_of
try:
    spark_of({})
except RunError as error:
    print(error.encoded())
"""


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """A folder with a program ``java``."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "java"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    return program


def said(**variables: str) -> tuple[str, str | None]:
    """The message and the hint at the start of Spark."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "PATH")}
    done = subprocess.run(
        [sys.executable, "-c", START], env=inherited | variables, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    error = find_encoded(done.stdout)
    assert error is not None and error.code == "RUN010"
    return error.message, error.hint


def test_no_java(tmp_path: Path) -> None:
    message, hint = said(PATH=str(tmp_path))
    assert message == "Java is not installed"
    assert hint is not None and "apt-get install" in hint


def test_java_home_without_java(tmp_path: Path, java: Path) -> None:
    message = "JAVA_HOME is /no/such/java, where there is no program bin/java"
    assert said(JAVA_HOME="/no/such/java", PATH=str(tmp_path)) == (message, None)
    assert said(JAVA_HOME="/no/such/java", PATH=str(java.parent)) == (message, f"unset JAVA_HOME to use {java}")
