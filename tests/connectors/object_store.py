"""An S3 server for tests: moto in this process, or as a process of its own that outlives killed jobs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


def environment(port: int) -> dict[str, str]:
    """What points s3fs to the server, in this process and its children."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


@contextmanager
def object_store() -> Iterator[Any]:
    """A running server with the bucket ``bkt``, as the filesystem of fsspec."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(server.get_host_and_port()[1]).items():
            patch.setenv(name, value)
        import s3fs

        s3fs.S3FileSystem.clear_instance_cache()
        fs = s3fs.S3FileSystem(use_listings_cache=False)
        fs.mkdir("bkt")
        try:
            yield fs
        finally:
            s3fs.S3FileSystem.clear_instance_cache()
            server.stop()


def give_to_workers(spark: Any) -> None:
    """Lets the workers of a session that may have started before see the server."""
    names = environment(0)
    spark.sparkContext.environment.update({name: os.environ[name] for name in names})


@contextmanager
def served() -> Iterator[dict[str, str]]:
    """A server as a process of its own; gives the environment of what is to use it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield {**os.environ, **environment(port)}
    finally:
        server.kill()
        server.wait()
