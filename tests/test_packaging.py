"""The wheel, in an environment without this checkout, and the Dockerfile."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
import typer

from tests.support.rooms import ROOMS

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment with the wheel; the packages that it needs are those of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    names = ["pyproject.toml", "README.md", "LICENSE", "stateplan", *ROOMS]
    for name in names:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    run = [sys.executable, "-m", "pip"]
    subprocess.run(
        [*run, "wheel", "-qq", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source)], check=True
    )
    (wheel,) = folder.glob("stateplan-*.whl")
    shutil.rmtree(source)
    home = folder / "env"
    venv.create(home)
    here = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    (here / "dependencies.pth").write_text(f"{Path(typer.__file__).parent.parent}\n")
    subprocess.run([*run, "--python", str(home), "install", "-qq", "--no-deps", str(wheel)], check=True)
    return home


def test_the_wheel_is_whole(installed: Path, tmp_path: Path) -> None:
    code = "import stateplan, stateplan.gateway, pathlib; print(pathlib.Path(stateplan.__file__).parent)"
    out = subprocess.run(
        [installed / "bin" / "python", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    there = Path(out.stdout.strip())
    assert there.is_relative_to(installed)
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    folders = tuple(f"{room}/" for room in (*ROOMS, "stateplan"))
    ours = {n.removeprefix("stateplan/") for n in tracked if n.startswith(folders) and not (ROOT / n).is_symlink()}
    missing = sorted(n for n in ours if not (there / n).exists())
    assert not missing, "[tool.setuptools.package-data] leaves these out"


def test_the_command_runs(installed: Path, tmp_path: Path) -> None:
    command = installed / "bin" / "stateplan"
    out = subprocess.run(
        [command, "sql", "-q", "-e", "CREATE TABLE t (a INT) WITH ('connector' = 'print')", "-e", "SHOW TABLES"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (out.returncode, out.stderr) == (0, "")
    assert "|          t |" in out.stdout


def test_the_dockerfile() -> None:
    text = (ROOT / "Dockerfile").read_text()
    copied = [name for line in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.M) for name in line.split()]
    assert copied and all((ROOT / name).exists() for name in copied)
    for folder in (*ROOMS, "stateplan"):
        assert folder in copied
    linted = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), ROOT / "Dockerfile"], capture_output=True, text=True
    )
    assert (linted.returncode, linted.stdout) == (0, "")
