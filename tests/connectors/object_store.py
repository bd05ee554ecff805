"""An S3 server for tests: moto in this process, or as a process of its own that outlives killed jobs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.request import Request, urlopen

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


def make_bucket(server: Mapping[str, str], name: str = "bkt") -> None:
    """Makes a bucket, once a server that starts answers."""
    until = time.monotonic() + 60
    while True:
        try:
            with urlopen(Request(f"{server['AWS_ENDPOINT_URL']}/{name}", method="PUT")):
                return
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.1)


def client(service: str, server: Mapping[str, str]) -> Any:
    """A client of a service of the server, by Amazon's own library."""
    import boto3

    return boto3.client(
        service,
        endpoint_url=server["AWS_ENDPOINT_URL"],
        aws_access_key_id=server["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=server["AWS_SECRET_ACCESS_KEY"],
        region_name=server["AWS_DEFAULT_REGION"],
    )


@contextmanager
def credentials_demanded(server: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Meanwhile the server checks signatures; yields the key and the secret of its only user."""
    users = client("iam", server)
    users.create_user(UserName="user")
    key = users.create_access_key(UserName="user")["AccessKey"]
    policy = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}'
    users.put_user_policy(UserName="user", PolicyName="all", PolicyDocument=policy)
    _check_requests_after(server, 0)
    try:
        yield key["AccessKeyId"], key["SecretAccessKey"]
    finally:
        _check_requests_after(server, 1 << 60)


def _check_requests_after(server: Mapping[str, str], count: int) -> None:
    url, kind = f"{server['AWS_ENDPOINT_URL']}/moto-api/reset-auth", {"Content-Type": "text/plain"}
    with urlopen(Request(url, data=str(count).encode(), method="POST", headers=kind)):
        pass
