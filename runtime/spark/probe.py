"""Checks that a Python worker of another machine runs before it may run a job.

The worker may lack stateplan. Spark therefore sends these functions by value, and they import only the standard
library.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

LIBRARIES = ("numpy", "pandas", "polars", "pyarrow", "pydantic", "fsspec")
"""What the runtime imports in workers."""


def package_files(root: str) -> Iterator[tuple[str, str]]:
    """The files of a package, as (name in it, path), sorted; folders that are links belong to it."""
    for folder, folders, names in os.walk(root, followlinks=True):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        for name in sorted(names):
            if not name.endswith((".pyc", ".pyo")):
                path = os.path.join(folder, name)
                yield os.path.relpath(path, root).replace(os.sep, "/"), path


def digest(package: str) -> str | None:
    """A hash of all files of an installed package; None if there is none in a folder."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    roots = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not roots or not os.path.isdir(roots[0]):
        return None
    total = hashlib.sha1(usedforsecurity=False)
    for name, path in package_files(roots[0]):
        with open(path, "rb") as file:
            total.update(name.encode() + b"\0" + file.read())
    return total.hexdigest()


def executor() -> tuple[str, int]:
    """The host, and the process that Spark forks the workers of one executor from."""
    return socket.gethostname(), os.getppid()


def describe(package: str, seconds: float) -> dict[str, Any]:
    """This worker: its ``executor``, its ``python``, which :data:`LIBRARIES` it lacks with the reason, and the
    ``digest`` of ``package``. Takes ``seconds``, so that other tasks go elsewhere."""
    failures = {}
    for name in LIBRARIES:
        try:
            importlib.import_module(name)
        except Exception as cause:
            failures[name] = f"{type(cause).__name__}: {cause}"
    own_digest = digest(package)
    time.sleep(seconds)
    return {"executor": executor(), "python": sys.executable, "missing": failures, "digest": own_digest}
