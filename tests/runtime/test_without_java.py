"""What a user is told where Spark has no Java to run on, or an unusable one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stateplan.common.errors import find_encoded
from stateplan.runtime.spark.session import start_error

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


EXITED = Exception("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'openjdk version \"1.8.0_392\"' >&2", "{java} cannot run Spark: it is Java 8"),
        ("echo 'openjdk version \"11.0.2\" 2019-01-15' >&2", "{java} cannot run Spark: it is Java 11"),
        ("echo 'no space for the heap'; exit 1", "{java} cannot run Spark: no space for the heap"),
        ("exit 3", "{java} cannot run Spark: exit code 3 and no output"),
        ("echo 'openjdk version \"17.0.2\" 2022-01-18' >&2", None),
        ("echo 'openjdk version \"25-ea\" 2025-09-16' >&2", None),
    ],
)
def test_a_java_that_is_too_old_or_does_not_run(
    script: str, message: str | None, java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java.write_text(f"#!/bin/sh\n{script}\n")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    log = tmp_path / "log"
    log.write_text("Error: A JNI error has occurred\n")
    error = start_error(EXITED, "local[2]", {}, [], log)
    if message is None:
        assert error.code == "RUN011"
    else:
        assert (error.code, error.message) == ("RUN010", message.format(java=java))
        assert error.expected is not None and error.expected.startswith("Java 17 or later")


def test_a_java_of_another_machine(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java.write_bytes(b"\x7fELF\x00\x01")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (tmp_path / "log").touch()
    error = start_error(EXITED, "local[2]", {}, [], tmp_path / "log")
    assert (error.code, error.message) == ("RUN010", f"{java} cannot run Spark: Exec format error")
