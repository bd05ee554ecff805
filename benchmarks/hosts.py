"""Separate hosts on one Linux machine, with a Spark standalone cluster over them. Needs root.

Each host has a name, a network address, a /tmp and a Python environment of its own: namespaces of the kernel keep them
apart. The driver's host runs the master. The Python of the other hosts is at another path, and has no stateplan.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

_ROOT = Path(__file__).resolve().parents[1]
_NETWORK = "10.91.7"
_HOME = Path("/mnt")
"""Where the environment of the workers is."""

PYTHON = str(_HOME / "bin" / "python")
"""Their Python; the driver's host does not have it there."""
DRIVER = "driver"
ADDRESS = f"{_NETWORK}.1"
MASTER = f"spark://{ADDRESS}:7077"
OPTIONS = {
    "spark.master": MASTER,
    "spark.driver.host": ADDRESS,
    "spark.pyspark.python": "python",
    "spark.executor.memory": "800m",
    "spark.network.timeout": "15s",
    "spark.network.timeoutInterval": "5s",
    "spark.executor.heartbeatInterval": "2s",
}
"""What a job on these hosts is started with: a host that is gone is noticed within 15 seconds."""


def lacking() -> str | None:
    """Why there can be no hosts on this machine, or None."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "separate hosts need Linux and root"
    for name in ("unshare", "nsenter", "ip", "mount"):
        if shutil.which(name) is None:
            return f"separate hosts need the command {name}"
    tried = subprocess.run(["unshare", "-n", "-m", "-u", "ip", "link", "add", "type", "veth"], capture_output=True)
    return f"this machine allows no namespaces: {tried.stderr.decode().strip()}" if tried.returncode else None


class Hosts:
    """The driver's host, and others with a Spark worker each: ``h1``, ``h2`` and so on.

    Args:
        folder: for the files of the hosts.
        shared: folders that every host sees at the same path. Everything else under /tmp is a host's own.
        count: how many hosts there are beside the driver's.
        cores: how many tasks each of them runs at once.
        worker_timeout: seconds after which the master gives a worker up that says nothing.
    """

    def __init__(
        self, folder: Path, shared: Sequence[Path], count: int = 2, cores: int = 1, worker_timeout: int = 15
    ) -> None:
        self.folder = folder
        self.names = [f"h{n + 1}" for n in range(count)]
        self._cores = cores
        self._worker_timeout = worker_timeout
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._down: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True)
        self._book = folder / "hosts"
        self._book.write_text(
            "".join(f"{self.address(n)} {n}\n" for n in (DRIVER, *self.names)) + "127.0.0.1 localhost\n"
        )
        try:
            self._connect()
            for name in self.names:
                self._separate(name, shared)
            self._master()
            for name in self.names:
                self.start_worker(name)
            self.await_workers()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every process of every host."""
        for name in self._holders:
            for process in self.processes(name):
                _kill(process)
        for holder in self._holders.values():
            holder.kill()
        for process in [*self._holders.values(), *self._daemons]:
            process.wait()
        self._holders.clear()
        self._daemons.clear()

    def on(self, host: str, *command: str, **how: Any) -> subprocess.Popen[Any]:
        """A process on a host, which leads a session of its own. Its PATH begins with the host's environment."""
        driver = host == DRIVER
        enter = ["nsenter", "-t", str(self._holders[host].pid), "-n", "-m", "-u", f"--wd={_ROOT if driver else '/'}"]
        path = f"{sys.prefix if driver else _HOME}/bin:{os.environ['PATH']}"
        how["env"] = {**os.environ, "PATH": path, **how.get("env", {})}
        return subprocess.Popen([*enter, *command], start_new_session=True, **how)

    def processes(self, host: str) -> Iterator[psutil.Process]:
        """What runs on a host."""
        holder = self._holders[host]
        with contextlib.suppress(OSError):
            namespace = os.readlink(f"/proc/{holder.pid}/ns/net")
            for process in psutil.process_iter():
                with contextlib.suppress(OSError):
                    if process.pid != holder.pid and os.readlink(f"/proc/{process.pid}/ns/net") == namespace:
                        yield process

    def start_worker(self, host: str) -> None:
        """Starts the Spark worker of a host, and connects the host if it was cut off."""
        self._down.discard(host)
        self._run(DRIVER, "ip", "link", "set", f"v-{host}", "up")
        home = _HOME / _packages().relative_to(_packages().parents[2]) / "pyspark"
        command = ("--host", self.address(host), "-c", str(self._cores), "-m", "900m", "-d", "/tmp/work", MASTER)
        self._spark(host, home, "worker.Worker", *command)

    def kill(self, host: str) -> None:
        """Cuts a host off the network, as if its power had failed, and kills all that runs there."""
        self._down.add(host)
        self._run(DRIVER, "ip", "link", "set", f"v-{host}", "down")
        for process in self.processes(host):
            _kill(process)

    def down(self) -> list[str]:
        """The hosts that were killed and not started again."""
        return sorted(self._down)

    def await_workers(self, seconds: float = 60) -> None:
        """Waits until the master knows the worker of every host."""
        deadline = time.monotonic() + seconds
        while self._alive() < len(self.names):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no worker on each host; see the logs in {self.folder}")
            time.sleep(0.2)

    def address(self, host: str) -> str:
        """The network address of a host."""
        return ADDRESS if host == DRIVER else f"{_NETWORK}.{11 + self.names.index(host)}"

    def _alive(self) -> int:
        asked = self.on(
            DRIVER, sys.executable, "-c", _ASK, f"http://{ADDRESS}:8080/json/", stdout=subprocess.PIPE, text=True
        )
        answer, _ = asked.communicate(timeout=60)
        return int(answer or 0)

    def _connect(self) -> None:
        self._hold(DRIVER)
        self._run(DRIVER, "ip", "link", "set", "lo", "up")
        self._run(DRIVER, "ip", "link", "add", "bridge", "type", "bridge")
        self._run(DRIVER, "ip", "addr", "add", f"{ADDRESS}/24", "dev", "bridge")
        self._run(DRIVER, "ip", "link", "set", "bridge", "up")

    def _separate(self, host: str, shared: Sequence[Path]) -> None:
        self._hold(host)
        self._run(DRIVER, "ip", "link", "add", f"v-{host}", "type", "veth", "peer", "name", f"e-{host}")
        self._run(DRIVER, "ip", "link", "set", f"v-{host}", "master", "bridge", "up")
        self._run(DRIVER, "ip", "link", "set", f"e-{host}", "netns", str(self._holders[host].pid))
        self._run(host, "ip", "link", "set", "lo", "up")
        self._run(host, "ip", "addr", "add", f"{self.address(host)}/24", "dev", f"e-{host}")
        self._run(host, "ip", "link", "set", f"e-{host}", "up")
        self._run(host, "mount", "--bind", str(_packages().parents[2]), str(_HOME))
        self._run(host, "mount", "-t", "tmpfs", "none", str(_ROOT))
        private = self.folder / host / "tmp"
        private.mkdir(parents=True)
        for folder in shared:
            inside = folder.resolve()
            if inside.is_relative_to("/tmp"):
                target = private / inside.relative_to("/tmp")
                target.mkdir(parents=True)
                self._run(host, "mount", "--bind", str(inside), str(target))
        self._run(host, "mount", "--rbind", str(private), "/tmp")

    def _hold(self, host: str) -> None:
        """Makes the namespaces of a host, which last as long as a process in them."""
        flags = ("-n", "-m", "-u", "--propagation", "private")
        holder = subprocess.Popen(
            ["unshare", *flags, "sh", "-c", f"hostname {host} && echo ready && exec sleep 100000"],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._holders[host] = holder
        assert holder.stdout is not None
        with holder.stdout as said:
            made = said.readline() == b"ready\n"
        if not made:
            raise OSError(f"no namespaces for {host}")
        self._run(host, "mount", "--bind", str(self._book), "/etc/hosts")

    def _run(self, host: str, *command: str) -> None:
        process = self.on(host, *command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said, _ = process.communicate()
        if process.returncode:
            raise OSError(f"{' '.join(command)}: {said.decode().strip()}")

    def _master(self) -> None:
        self._spark(DRIVER, _packages() / "pyspark", "master.Master", "--host", ADDRESS, "--port", "7077")

    def _spark(self, host: str, home: Path, what: str, *arguments: str) -> None:
        patience = f"-Dspark.worker.timeout={self._worker_timeout}"
        env = {"SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "200m", "SPARK_MASTER_OPTS": patience}
        with (self.folder / f"{host}.log").open("ab") as log:
            command = (str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *arguments)
            self._daemons.append(self.on(host, *command, env=env, stdout=log, stderr=log))


_ASK = """
import json, sys, urllib.request
try:
    workers = json.load(urllib.request.urlopen(sys.argv[1], timeout=5))["workers"]
    print(sum(worker["state"] == "ALIVE" for worker in workers))
except OSError:
    print(0)
"""


def _packages() -> Path:
    """The folder of packages in an environment: lib/python3.x/site-packages."""
    import pyspark

    return Path(pyspark.__file__).resolve().parents[1]


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.Error):
        process.send_signal(signal.SIGKILL)
