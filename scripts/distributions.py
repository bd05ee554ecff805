"""Builds the sdist and the wheel of the last commit into ``dist``, and proves that they can be rebuilt: ``make dist``.

The files are built twice, in two folders with other permissions and time zones: from an export of the commit, and from
the sdist of that. Both builds have the same bytes. Their times are those of the commit.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACES = ((0o022, "UTC"), (0o002, "Asia/Tokyo"))
"""The umask and the time zone of each build."""


class BuildError(Exception):
    """A build failed, or two builds of one file differ."""


def build(source: Path, target: Path, seconds: int, *, umask: int, zone: str) -> dict[str, str]:
    """Builds both files from a folder with the backend of this environment. Needs no network.

    Args:
        seconds: the time of the files in them, since 1970.
        zone: the time zone of the build.

    Returns:
        The SHA-256 of each file, under its name.

    Raises:
        BuildError: the backend ended with an error.
    """
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", target],
        cwd=source,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        umask=umask,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(seconds), "TZ": zone},
    )
    if built.returncode:
        raise BuildError(built.stdout)
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in sorted(target.iterdir())}


def build_twice(source: Path, target: Path, seconds: int) -> dict[str, str]:
    """Builds both files from a folder, and again from their sdist.

    Returns:
        The SHA-256 of each file in ``target``, under its name.

    Raises:
        BuildError: a build failed, or a file of the second build has other bytes.
    """
    first = build(source, target, seconds, umask=PLACES[0][0], zone=PLACES[0][1])
    with tempfile.TemporaryDirectory() as again:
        umask, zone = PLACES[1]
        (sdist,) = target.glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(again, filter="data")
        (unpacked,) = Path(again).iterdir()
        for path in unpacked.rglob("*"):
            path.chmod(path.stat().st_mode | 0o020)
            os.utime(path)
        second = build(unpacked, Path(again) / "dist", seconds, umask=umask, zone=zone)
    different = [name for name in first | second if first.get(name) != second.get(name)]
    if different:
        raise BuildError(f"two builds differ: {', '.join(different)}")
    return first


def main() -> None:
    commit = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        exported = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "--no-same-permissions", "-C", folder], input=exported, check=True, umask=0o022)
        try:
            sums = build_twice(Path(folder), ROOT / "dist", int(commit))
        except BuildError as error:
            sys.exit(str(error))
    lines = "".join(f"{digest}  {name}\n" for name, digest in sums.items())
    (ROOT / "dist" / "SHA256SUMS").write_text(lines)
    print(lines, end="")


if __name__ == "__main__":
    main()
