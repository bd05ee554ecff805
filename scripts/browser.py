"""Finds the Chromium that the tests of HTML pages are run in, or unpacks one: ``python -m scripts.browser``.

One that is installed is taken: what ``STATEPLAN_BROWSER`` names, else a Chromium or Chrome on the PATH. Without any,
npm downloads the package @sparticuz/chromium, which has the browser inside, and it is unpacked into build/browser;
nothing is installed. Where that cannot be, the reason is printed, and the tests that need a browser are skipped.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
UNPACKED = ROOT / "build" / "browser"

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

PACKAGE = "@sparticuz/chromium@147.0.0"
INTEGRITY = "4ZKeAQQa8up2mt675qSitztLdbQrlf8BKdC5naeap+5Mv1OV1OlJdPoU+EJC/p5sQUJUQmN4r+q5+EhaaOUHpQ=="
"""The SHA-512 of the package, as base64."""

_UNBROTLI = """
const fs = require('fs'), {pipeline} = require('stream/promises'), zlib = require('zlib');
const [from, to] = process.argv.slice(1);
pipeline(fs.createReadStream(from), zlib.createBrotliDecompress(), fs.createWriteStream(to));
"""


class Browser(NamedTuple):
    """A browser: its program, and where the libraries are that it brings; None for those of the system."""

    program: str
    libraries: str | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variables to start it with."""
        if self.libraries is None:
            return dict(os.environ)
        paths = [self.libraries, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(paths)}


def find_browser() -> Browser | None:
    """The browser to test with, if there is one."""
    named = os.environ.get("STATEPLAN_BROWSER")
    if named:
        return Browser(named)
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return Browser(found)
    program = UNPACKED / "chromium"
    return Browser(str(program), str(UNPACKED / "lib")) if program.exists() else None


def unpack() -> str | None:
    """Puts a browser into build/browser; returns why that cannot be, or None."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"npm has none for {sys.platform} on {platform.machine()}"
    if shutil.which("npm") is None or shutil.which("node") is None:
        return "npm, which could download one, is not installed"
    shutil.rmtree(UNPACKED, ignore_errors=True)
    work = UNPACKED / "work"
    work.mkdir(parents=True)
    try:
        print(f"downloading {PACKAGE} (68 MB) for the tests of HTML pages")
        packed = subprocess.run(
            ["npm", "pack", "--silent", PACKAGE], cwd=work, capture_output=True, text=True, timeout=600, check=True
        )
        archive = work / packed.stdout.split()[-1]
        if base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() != INTEGRITY:
            return f"{PACKAGE} is not what it was: its checksum differs"
        with tarfile.open(archive) as package:
            package.extractall(work, filter="data")
        _unbrotli(work / "package" / "bin" / "al2023.tar.br", work / "libraries.tar")
        with tarfile.open(work / "libraries.tar") as libraries:
            libraries.extractall(UNPACKED, filter="data")
        _unbrotli(work / "package" / "bin" / "chromium.br", work / "chromium")
        (work / "chromium").chmod(0o755)
        (work / "chromium").rename(UNPACKED / "chromium")
    except subprocess.SubprocessError as error:
        said = str(getattr(error, "stderr", "") or error).strip().splitlines()
        return f"npm could not download {PACKAGE}: {said[-1] if said else error}"
    except (OSError, tarfile.TarError) as error:
        return f"{PACKAGE} could not be unpacked: {error}"
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return None


def _unbrotli(source: Path, target: Path) -> None:
    subprocess.run(["node", "-e", _UNBROTLI, str(source), str(target)], capture_output=True, timeout=300, check=True)


def main() -> None:
    reason = None if find_browser() else unpack()
    found = find_browser()
    if found is None:
        print(
            f"no browser: {reason}; the tests of HTML pages in a browser are skipped "
            "(Debian, Ubuntu: apt-get install chromium-headless-shell; or name one with STATEPLAN_BROWSER)"
        )


if __name__ == "__main__":
    main()
