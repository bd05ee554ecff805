"""The two engines as warm processes: a script goes in by its path, a line ``RESULT net wall`` comes back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
FLINK = HERE / "flink"
_UTIL = ("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks")
_OTHERS = ("java.lang", "java.lang.reflect", "java.net", "java.io", "java.nio", "java.text", "java.time")
FLINK_OPENS = [f"java.base/{p}" for p in (*_UTIL, *_OTHERS, "sun.nio.ch", "sun.net.util")]


class EngineError(Exception):
    """An engine could not be started, or a run of it failed."""


@dataclass(frozen=True)
class Run:
    """One run: the time of the job itself and the time of the statement until the job ended, in seconds, and
    what else the engine says about it."""

    net: float
    wall: float
    note: str


class Engine:
    """A process that runs scripts, one at a time, and stays warm between them."""

    def __init__(self, name: str, source_options: str, command: list[str]) -> None:
        self.name = name
        self.source_options = source_options
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE.parent
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, script: Path) -> Run:
        """Runs a script.

        Raises:
            EngineError: with the engine's message.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{script}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "RESULT":
                net, wall, *note = rest.split(" ", 2)
                return Run(int(net) / 1000, int(wall) / 1000, "".join(note))
            if word == "FAILED":
                raise EngineError(f"{self.name}: {rest}")
        raise EngineError(f"{self.name}: the process ended with {self._process.wait()}")

    def stop(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def stateplan() -> Engine:
    """stateplan with two cores; four micro-batches of two files each."""
    return Engine("stateplan", "", [sys.executable, "-m", "benchmarks.worker"])


def without_spark() -> Engine:
    """stateplan in one process. Input that is too large for it is an error."""
    return Engine("stateplan, without Spark", "", [sys.executable, "-m", "benchmarks.worker", "--without-spark"])


def flink_setup() -> str | None:
    """Installs Flink where that has not been done. The reason when it cannot be."""
    done = subprocess.run(
        ["sh", str(FLINK / "setup.sh")],
        env={**os.environ, "PYTHON": sys.executable},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return None
    last = done.stderr.strip().splitlines()[-1:] or ["setup.sh failed"]
    return f"Flink 2.3 could not be installed: {last[0]}"


def flink(backend: str, mini_batch: bool, parallelism: int = 2, heap: str = "6g") -> Engine:
    """Flink 2.3 in one process. ``backend`` is ``hashmap`` or ``rocksdb``."""
    name = f"Flink, {'heap' if backend == 'hashmap' else 'RocksDB'}{', mini-batch' if mini_batch else ''}"
    return Engine(name, "", flink_command(backend, mini_batch, parallelism, heap))


def flink_command(backend: str, mini_batch: bool, parallelism: int = 2, heap: str = "6g") -> list[str]:
    """The command of a Flink process, which reads paths of scripts from its standard input."""
    configuration = {
        "execution.target": "local",
        "execution.attached": "true",
        "rest.bind-port": "0",
        "parallelism.default": str(parallelism),
        "taskmanager.numberOfTaskSlots": str(parallelism),
        "table.exec.resource.default-parallelism": str(parallelism),
        "table.local-time-zone": "UTC",
        "state.backend.type": backend,
        "taskmanager.memory.managed.size": "1g",
        "table.exec.state.ttl": "1 h",
    }
    if mini_batch:
        configuration |= {
            "table.exec.mini-batch.enabled": "true",
            "table.exec.mini-batch.size": "5000",
            "table.exec.mini-batch.allow-latency": "1 s",
        }
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"
    command = [java, f"-Xmx{heap}", "-XX:+UseG1GC", f"-Dlog4j.configurationFile={FLINK / 'log4j2.properties'}"]
    for package in FLINK_OPENS:
        command += ["--add-opens", f"{package}=ALL-UNNAMED"]
    command += ["-cp", f"{FLINK / 'classes'}{os.pathsep}{FLINK / 'dist' / 'lib'}/*", "Harness"]
    return command + [f"{key}={value}" for key, value in configuration.items()]
