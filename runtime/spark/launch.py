"""Starts the JVM with its settings in a file that only its user can read.

PySpark puts them on the command line, where ``ps`` shows them to every user of the machine, including passwords.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from stateplan.common.errors import RunError
from stateplan.runtime.scratch import scratch
from stateplan.runtime.spark.master import SUBMITTED

SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
"""The variable that PySpark takes the arguments of ``spark-submit`` from."""

_SHELL = "pyspark-shell"
"""What ``spark-submit`` runs, where the variable does not say."""

_FILE = "--properties-file"

_SECRET = "PYSPARK_GATEWAY_SECRET"
"""The variable with which ``spark-submit`` lets this process into its JVM."""


def submit_arguments() -> list[str]:
    """The arguments of ``spark-submit`` that the environment names. Raises RunError RUN011."""
    try:
        return shlex.split(os.environ.get(SUBMIT_ARGS, _SHELL))
    except ValueError as cause:
        problem = f"{SUBMIT_ARGS} cannot be read: {str(cause).lower()}"
        raise RunError("RUN011", problem=problem, log=None, hint="", expected="arguments of spark-submit") from None


def check_environment() -> None:
    """Raises RunError RUN011 where only a part of what ``spark-submit`` sets is in the environment."""
    port = os.environ.get(SUBMITTED)
    if port is not None and not (port.isdecimal() and _SECRET in os.environ):
        problem = f"{SUBMITTED} is '{port}', and {_SECRET} is {'set' if _SECRET in os.environ else 'missing'}"
        expected = "both variables as spark-submit sets them, or neither of them"
        raise RunError("RUN011", problem=problem, log=None, hint="", expected=expected)


def launch(settings: Mapping[str, str]) -> None:
    """Starts the JVM that PySpark will use, unless there is one already.

    Args:
        settings: ``spark.*``, for ``spark-submit`` and the context.

    Raises:
        OSError, PySparkRuntimeError: it does not start.
    """
    from pyspark import SparkContext

    if SparkContext._gateway is not None or SUBMITTED in os.environ:  # noqa: SLF001 - see _ensure_initialized
        return
    with _settings_file(settings, submit_arguments()) as arguments, environment(SUBMIT_ARGS, arguments):
        SparkContext._ensure_initialized()  # noqa: SLF001 - only this starts a JVM without its settings as arguments


@contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """Sets an environment variable for the time of the block. Processes that are started later do not inherit it."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def _settings_file(settings: Mapping[str, str], user_arguments: list[str]) -> Iterator[str]:
    """A file with the settings while the JVM starts, and the arguments that name it. One that the user's own arguments
    name stays in force: what it says comes first."""
    words, theirs = _without_file(user_arguments)
    text = "" if theirs is None else Path(theirs).read_text(encoding="utf-8") + "\n"
    text += "".join(f"{_escaped(key, ' :=#!')}={_escaped(value, ' ')}\n" for key, value in settings.items())
    path = scratch("spark") / "settings.properties"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    try:
        defaults = ["--load-spark-defaults"] if theirs is None else []
        yield shlex.join([_FILE, str(path), *defaults, *words])
    finally:
        path.unlink(missing_ok=True)


def _without_file(words: list[str]) -> tuple[list[str], str | None]:
    """Arguments without the last file of settings that they name, and that file."""
    settings_file, out = None, list[str]()
    rest = iter(words)
    for word in rest:
        if word == _FILE:
            settings_file = next(rest, None)
        elif word.startswith(f"{_FILE}="):
            settings_file = word.partition("=")[2]
        else:
            out.append(word)
    return out, settings_file


def _escaped(text: str, first: str) -> str:
    """A key or a value as ``java.util.Properties`` reads it back.

    Args:
        first: characters that a backslash goes before: in a key all of them, in a value one that it begins with.
    """
    out = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    if "=" in first:
        return "".join(f"\\{c}" if c in first else c for c in out)
    return f"\\{out}" if out[:1] in first and out else out
