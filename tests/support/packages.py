"""Packages with connectors, as an installer would leave them."""

from __future__ import annotations

import os
import shutil
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "tests" / "packages"


def install(folder: Path, package: str) -> dict[str, str]:
    """Puts a package where Python finds it, with the metadata that an installer writes; the environment that does."""
    project = tomllib.loads((PACKAGES / package / "pyproject.toml").read_text())["project"]
    shutil.copy(PACKAGES / package / f"{package}.py", folder)
    info = folder / f"{package}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
