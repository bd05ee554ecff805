"""The program that a Spark on this machine starts Python with."""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from stateplan.runtime.scratch import scratch
from stateplan.runtime.spark.fork_server import MODULES

if TYPE_CHECKING:
    from stateplan.runtime.spark.tweaks import Tweaks

_SOCKET_PATH = 100
"""The longest path of a socket, in bytes."""

_OF_WORKERS = {"PYTHONHASHSEED": "0"}
"""What Spark sets for workers, and what Python reads only when it starts."""

_paths: dict[str, str] = {}
"""Programs made here -> what their Python imports from."""
_servers: dict[str, subprocess.Popen[bytes]] = {}
"""Programs made here -> their fork server."""

_TEXT = """#!/bin/sh
export PYTHONPATH={path}
case "$2" in {modules})
    [ -S {socket} ] && exec {python} -IS {client} {socket} "$@"
esac
exec {python} "$@"
"""


def worker_python(python_path: str) -> str:
    """A program that is this interpreter, with the installed pyspark.

    Args:
        python_path: what it imports from.

    Raises OSError where it cannot be run.
    """
    program = scratch("python") / "python"
    words = {
        "path": python_path, "socket": str(_socket(program)), "python": sys.executable,
        "client": str(Path(__file__).with_name("fork_client.py")),
    }  # fmt: skip
    quoted_words = {name: shlex.quote(word) for name, word in words.items()}
    program.write_text(_TEXT.format(modules=" | ".join(MODULES), **quoted_words))
    program.chmod(0o755)
    if not os.access(program, os.X_OK):
        raise PermissionError(f"{program} cannot be run")
    _paths[str(program)] = python_path
    return str(program)


def serve_forks(
    program: str, tweaks: Tweaks, modules: Iterable[str] = (), variables: Mapping[str, str] | None = None
) -> None:
    """Makes Spark fork the Python processes that it starts on this machine, if it starts them with
    :func:`worker_python`. The process that they are forked from imports what they need while Spark starts.

    Args:
        program: what Spark starts Python with.
        tweaks: the tweaks of the process.
        modules: the modules that forks will import, besides those of Spark.
        variables: the environment variables of workers: libraries read them when they are imported.
    """
    if program in _paths and program not in _servers and len(os.fsencode(_socket(Path(program)))) <= _SOCKET_PATH:
        tweaks.attempt("forked-python", _serve, program, variables)
    import_ahead(program, modules)


def import_ahead(program: str, modules: Iterable[str]) -> None:
    """Requests the fork server of a program, if there is one, to import modules."""
    server = _servers.get(program)
    if server is not None and server.stdin is not None:
        with contextlib.suppress(OSError):  # it has been killed, and Spark starts processes
            server.stdin.write("".join(f"{name}\n" for name in modules).encode())


def _serve(program: str, variables: Mapping[str, str] | None = None) -> None:
    command = [sys.executable, "-m", "stateplan.runtime.spark.fork_server", str(_socket(Path(program)))]
    server = _servers[program] = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        bufsize=0,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **_OF_WORKERS, **(variables or {}), "PYTHONPATH": _paths[program]},
        start_new_session=True,  # an interrupt from the terminal is not for it
    )
    atexit.register(_end, server, os.getpid())


def _end(server: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() == owner and server.stdin is not None:
        server.stdin.close()
        server.wait()


def _socket(program: Path) -> Path:
    return program.with_name("forks")
