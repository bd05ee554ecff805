"""Requests a fork server to run a module of Spark. If no server answers, this process runs the module itself.

It is run as ``fork_client.py SOCKET -m MODULE ARGUMENTS``, started without ``site`` because it lives for milliseconds.
"""

import contextlib
import marshal
import os
import socket
import struct
import sys


def main(path: str, arguments: list[str]) -> int:
    """Runs the module. Returns its exit code."""
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(path)
        except OSError:
            os.execv(sys.executable, [sys.executable, *arguments])
        text = marshal.dumps((arguments, os.getcwd(), dict(os.environ), os.getpriority(os.PRIO_PROCESS, 0)))
        socket.send_fds(server, [struct.pack("<I", len(text))], [0, 1, 2])
        server.sendall(text)
        with contextlib.suppress(OSError):
            return (server.recv(1) or b"\1")[0]
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
