"""An archive of the classes that Spark loads, which the JVM maps instead of reading, checking and linking each of them
(class data sharing, JEP 350)."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from stateplan.common.errors import RunError
from stateplan.runtime.spark.tweaks import OFF

_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""Else the JVM prints each class that an archive omits, and a warning about an archive that does not fit."""

_IN_PLACE = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
"""Else the JVM maps the archive at a random address, and so writes to nearly all of its pages: 70 MiB more memory."""

_TIMEOUT = 300
_SPACE = re.compile(r"\s")


def archive_options(environ: Mapping[str, str]) -> list[str]:
    """The JVM's options that use the archive; none where there is no whole archive. The JVM itself checks that it was
    made by the same JVM from the same libraries, and passes over it otherwise."""
    return next(
        ([f"-XX:SharedArchiveFile={path}", *_IN_PLACE, *_SILENT] for path in _archives(environ) if _usable(path)), []
    )


def archive_at_exit(environ: Mapping[str, str]) -> bool:
    """Makes the archive when this process ends, if there is none, in a process of its own with the lowest priority. It
    is tried once for each Java and Spark.

    Returns: whether it will be made.
    """
    folder, name = _place(environ)
    if _archives(environ) or _SPACE.search(str(folder)):
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.tried").touch(exist_ok=False)
    except OSError:  # it was tried, or no file can be written there
        return False
    atexit.register(_archive_apart, dict(environ), os.getpid())
    return True


def _archive_apart(environ: Mapping[str, str], owner: int) -> None:
    if os.getpid() == owner:
        subprocess.Popen(
            ["nice", "-n", "19", sys.executable, "-m", "stateplan", "archive-classes"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
            start_new_session=True,
        )


def archive_classes(command: Sequence[str], environ: Mapping[str, str]) -> Path:
    """Runs a job whose Spark archives the classes that it has loaded, and puts the archive where
    :func:`archive_options` finds it. An archive that is there is replaced.

    Args:
        command: runs the job; ``-DKEY=VALUE`` is added to it.
        environ: the environment of the job.

    Returns: the file.

    Raises:
        RunError: RUN017, no archive could be written.
    """
    folder, name = _place(environ)
    new_archive = folder / f"{name}.{os.getpid()}"
    java = " ".join([f"-XX:ArchiveClassesAtExit={new_archive}", *_SILENT])
    options = {"spark.driver.extraJavaOptions": java, OFF: "class-archive"}
    try:
        if _SPACE.search(str(folder)):
            raise RunError("RUN017", problem=f"{folder}: Spark passes no path with a space to its JVM")
        folder.mkdir(parents=True, exist_ok=True)
        output = _whole_output([*command, *(f"-D{key}={value}" for key, value in options.items())], environ)
        if not new_archive.is_file():
            raise RunError("RUN017", problem=" / ".join(output.strip().splitlines()[-3:]))
        place = folder / f"{name}-{new_archive.stat().st_size}.jsa"
        before = _archives(environ)
        new_archive.replace(place)
        for path in set(before) - {place}:
            path.unlink(missing_ok=True)
    except OSError as cause:
        raise RunError("RUN017", problem=f"{folder}: {cause.strerror}") from cause
    except subprocess.TimeoutExpired as cause:
        raise RunError("RUN017", problem=f"it took longer than {_TIMEOUT} s") from cause
    finally:
        with contextlib.suppress(OSError):
            new_archive.unlink()
    return place


def _whole_output(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """What a command prints until all of its processes have ended: the JVM writes the archive after the process that
    started it has ended."""
    job = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environ),
        text=True,
        start_new_session=True,
    )
    try:
        output = job.communicate(timeout=_TIMEOUT)[0]
        end = time.monotonic() + _TIMEOUT
        while time.monotonic() < end:
            os.killpg(job.pid, 0)
            time.sleep(0.1)
        raise subprocess.TimeoutExpired(command, _TIMEOUT)
    except ProcessLookupError:
        return output
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        raise


def _place(environ: Mapping[str, str]) -> tuple[Path, str]:
    """The folder of archives, below $XDG_CACHE_HOME or ~/.cache, and the prefix of their names for this Java and this
    Spark."""
    from pyspark import __version__ as spark
    from pyspark.find_spark_home import _find_spark_home

    home = environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java", path=environ.get("PATH")) or ""
    parts = (os.path.realpath(java), str(_find_spark_home()), spark)
    cache = environ.get("XDG_CACHE_HOME")
    folder = (Path(cache) if cache else Path.home() / ".cache") / "stateplan"
    return folder, f"spark-classes-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}"


def _archives(environ: Mapping[str, str]) -> list[Path]:
    folder, name = _place(environ)
    return sorted(folder.glob(f"{name}-*.jsa"))


def _usable(path: Path) -> bool:
    """Whether an archive has the size in its name: the JVM crashes over one that was cut off."""
    return path.stem.rsplit("-", 1)[-1] == str(path.stat().st_size) and not _SPACE.search(str(path))
