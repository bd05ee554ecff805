"""A process that imports what Spark's Python processes need, while Spark starts, and then forks to run these.

Spark starts Python on this machine for every level of state of every query, only to list its state variables, for
every source that plans in Python, and for the daemon of its workers. Nearly all of that time is spent on imports, which
a fork has already. Lines of standard input name further modules to import, such as the client library of a source.
``fork_client.py`` requests a fork.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import marshal
import os
import runpy
import select
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path

from stateplan.runtime.spark import worker_daemon

MODULES = (
    "pyspark.sql.streaming.transform_with_state_driver_worker",
    "pyspark.sql.streaming.python_streaming_source_runner",
    worker_daemon.MODULE,
)
"""The modules that Spark runs in a Python process of its own."""

NAMES = {worker_daemon.MODULE: "pyspark-worker"}
"""What Linux calls the processes of a module; others are ``stateplan-fork``."""

_AHEAD = (
    *MODULES,
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "stateplan.runtime.spark.query",
    "stateplan.runtime.spark.split_source",
    "stateplan.runtime.metrics.counters",
)


def serve(path: str) -> None:
    """Answers requests at the Unix socket ``path`` until standard input ends. The socket appears when this is ready."""
    for name in _AHEAD:
        importlib.import_module(name)
    worker_daemon.import_ahead()
    for name in MODULES:
        del sys.modules[name]  # its imports stay; runpy would warn of a module that is run a second time
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    lines = b""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{path}.new")
        server.listen()
        os.rename(f"{path}.new", path)
        while True:
            ready, _, _ = select.select([server.fileno(), 0], [], [])
            if 0 in ready:
                data = os.read(0, 1 << 16)
                if not data:
                    return
                *names, lines = (lines + data).split(b"\n")
                _import(names)
                continue
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                _answer(connection)
            connection.close()


def _import(names: Sequence[bytes]) -> None:
    """Imports modules. Who needs one that cannot be imported will say so."""
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name.decode())
    gc.freeze()


def _answer(connection: socket.socket) -> None:
    """Runs the module that the client was to run, and ends this process."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.register_at_fork(after_in_child=connection.close)  # what this process forks is not what the client waits for
        size, streams, _, _ = socket.recv_fds(connection, 4, 3)
        for stream, number in zip(streams, (0, 1, 2), strict=True):
            os.dup2(stream, number)
            os.close(stream)
        with connection.makefile("rb") as request:
            text = request.read(struct.unpack("<I", size)[0])
        arguments, folder, environment, niceness = marshal.loads(text)
        with contextlib.suppress(OSError):  # only a privileged process can raise its priority
            os.setpriority(os.PRIO_PROCESS, 0, niceness)
        threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
        status = _run(arguments, folder, environment)
    except BaseException:  # this process continues with nothing else
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
            connection.sendall(bytes([status]))
        os._exit(status)


def _end_with(connection: socket.socket) -> None:
    """Ends this process when the client has been ended, which is the process that Spark knows."""
    with contextlib.suppress(OSError):
        connection.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)


def _run(arguments: Sequence[str], folder: str, environment: dict[str, str]) -> int:
    os.chdir(folder)
    if not sys.flags.safe_path:
        sys.path[0] = folder  # of what is run with -m
    os.environ.clear()
    os.environ.update(environment)
    _, module, *sys.argv[1:] = arguments
    with contextlib.suppress(OSError):  # the command line is still that of the server
        Path("/proc/self/comm").write_text(NAMES.get(module, "stateplan-fork"))
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


if __name__ == "__main__":
    serve(sys.argv[1])
