"""The Java that Spark is started with.

Code: RUN010.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from stateplan.common.errors import RunError
from stateplan.runtime.spark.master import SUBMITTED

_OLDEST = 17
"""The oldest release of Java that Spark runs on."""
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
"""The release in the output of ``java -version``: 17 in "17.0.2", 8 in "1.8.0_392"."""
_TIMEOUT = 10.0
"""Seconds that Java may take to print its version."""


def require_java() -> None:
    """Raises RunError RUN010 where Spark's start script would find no Java: it goes by JAVA_HOME, then by the PATH.
    ``spark-submit`` has found one."""
    if SUBMITTED in os.environ:
        return
    home = os.environ.get("JAVA_HOME")
    if home and not _program():
        other = shutil.which("java")
        raise RunError("RUN010.java_home", home=home, hint=f"unset JAVA_HOME to use {other}" if other else None)
    if not _program():
        raise RunError("RUN010")


def java_error() -> RunError | None:
    """RUN010 where Java itself keeps Spark from starting: it is too old, or does not run. Starts Java, so only a failed
    start of Spark asks for it."""
    program = None if SUBMITTED in os.environ else _program()
    if program is None:
        return None
    try:
        process = subprocess.run(
            [program, "-version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT, check=False
        )
    except OSError as cause:
        return _unusable_java(program, str(cause.strerror or cause))
    except subprocess.TimeoutExpired:
        return _unusable_java(program, f"no answer within {_TIMEOUT:.0f} s")
    output = (process.stderr + process.stdout).decode(errors="replace")
    match = _VERSION.search(output)
    if match is not None:
        return _unusable_java(program, f"it is Java {match[1]}") if int(match[1]) < _OLDEST else None
    first_line = next(iter(output.strip().splitlines()), f"exit code {process.returncode} and no output")
    return _unusable_java(program, first_line[:300])


def _unusable_java(program: str, problem: str) -> RunError:
    return RunError("RUN010.unusable", program=program, problem=problem)


def _program() -> str | None:
    """The program that Spark's start script runs."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
