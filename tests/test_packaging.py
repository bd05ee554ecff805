"""The wheel, in an environment without this checkout, the sdist, and the files that describe a release and an image."""

from __future__ import annotations

import email
import email.message
import email.policy
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from scripts.distributions import build_twice
from scripts.licences import extras, is_allowed, refused, runtime_packages
from stateplan.common.release import installed_version
from tests.support.rooms import ROOMS

ROOT = Path(__file__).resolve().parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = set(PROJECT["optional-dependencies"]) - {"dev"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist, which a second build in another folder repeated."""
    source = tmp_path_factory.mktemp("source")
    names = ["pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore", "stateplan", *ROOMS]
    for name in names:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    folder = tmp_path_factory.mktemp("dist")
    build_twice(source, folder, 1_700_000_000)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("stateplan-*-py3-none-any.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> email.message.EmailMessage:
    text = wheel.read(f"stateplan-{PROJECT['version']}.dist-info/METADATA")
    return email.message_from_bytes(text, policy=email.policy.default)


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment with the wheel; the packages that it needs are those of this environment."""
    home = tmp_path_factory.mktemp("wheel") / "env"
    venv.create(home)
    here = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    (here / "dependencies.pth").write_text(f"{Path(typer.__file__).parent.parent}\n")
    (path,) = built.glob("*.whl")
    run = [sys.executable, "-m", "pip", "--python", str(home), "install", "-qq", "--no-deps", str(path)]
    subprocess.run(run, check=True)
    return home


def test_the_wheel_holds_the_files_of_the_rooms(wheel: zipfile.ZipFile) -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    folders = tuple(f"{room}/" for room in (*ROOMS, "stateplan"))
    ours = {
        f"stateplan/{n.removeprefix('stateplan/')}"
        for n in tracked
        if n.startswith(folders) and (ROOT / n).is_file() and not (ROOT / n).is_symlink()
    }
    info = f"stateplan-{PROJECT['version']}.dist-info/"
    names = {n for n in wheel.namelist() if not n.startswith(info)}
    untracked = subprocess.run(
        ["git", "ls-files", "-o", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert names - {f"stateplan/{n}" for n in untracked} == ours
    recorded = {line.split(",")[0] for line in wheel.read(f"{info}RECORD").decode().splitlines()}
    assert recorded == set(wheel.namelist())
    assert "stateplan/py.typed" in names


def test_the_metadata_is_whole(metadata: email.message.EmailMessage) -> None:
    assert metadata["Version"] == PROJECT["version"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert set(metadata.get_all("Provides-Extra", [])) == EXTRAS | {"dev"}


def test_pypi_can_show_the_readme(metadata: email.message.EmailMessage) -> None:
    text = metadata.get_content() if metadata.is_multipart() else str(metadata.get_payload())
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert text.startswith("# stateplan\n") and "## Limits" in text
    assert "mermaid" not in text
    assert all(target.startswith("https://") for target in re.findall(r"\]\(([^)]*)\)", text))


def test_the_version_is_written_once() -> None:
    assert installed_version() == PROJECT["version"], "make setup installs the version of pyproject.toml"
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (\S+?),", changes, re.M)[0] == PROJECT["version"]
    (rev,) = re.findall(r"rev: v(\S+)", (ROOT / "docs/plans/lint.md").read_text())
    assert rev == PROJECT["version"]


def test_the_docs_name_the_extras() -> None:
    page = (ROOT / "docs/start/install.md").read_text()
    assert set(re.findall(r"^\| `([\w-]+)` \|", page, re.M)) == EXTRAS, "the table of extras in docs/start/install.md"
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "connectors").rglob("*.py")]
    named = {
        extra.strip()
        for page in pages
        for list_ in re.findall(r"stateplan\[([\w, -]+)\]", page.read_text())
        for extra in list_.split(",")
    }
    assert named <= EXTRAS


def test_licences_are_permissive() -> None:
    assert set(extras()) == EXTRAS
    assert {"pyspark", "polars", "deltalake"} <= set(runtime_packages())
    assert not list(refused())


@pytest.mark.parametrize(
    ("expression", "is_permissive"),
    [
        ("MIT", True),
        ("MIT AND Zlib", True),
        ("GPL-3.0-only OR MIT", True),
        ("MIT AND GPL-3.0-only", False),
        ("", False),
    ],
)
def test_a_licence_outside_of_the_list_is_refused(expression: str, is_permissive: bool) -> None:
    assert is_allowed(expression) is is_permissive


def test_the_release_workflow() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    makefile = (ROOT / "Makefile").read_text()
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    targets = {name for step in steps for name in re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))}
    assert targets >= {"audit", "sbom"}
    assert all(re.search(rf"^{name}: .*## ", makefile, re.M) for name in targets)
    assert re.search(r"^sbom: dist\b", makefile, re.M)
    assert workflow["permissions"] == {}
    writers = {name for name, job in workflow["jobs"].items() if "write" in (job.get("permissions") or {}).values()}
    assert writers == {"publish"}
    assert all("run" not in step for step in workflow["jobs"]["publish"]["steps"]), "the token runs no code of ours"


def test_the_command_runs(installed: Path, tmp_path: Path) -> None:
    command = installed / "bin" / "stateplan"
    code = "import stateplan, stateplan.gateway; print(stateplan.__file__)"
    place = subprocess.run(
        [installed / "bin" / "python", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert Path(place.stdout.strip()).is_relative_to(installed)
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
