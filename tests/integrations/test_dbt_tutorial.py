"""The tutorial of docs/operate/dbt.md, from an empty folder: its commands, and what it says that they print."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.pages import page_path
from stateplan.gateway.service.service import SqlGatewayService
from tests.gateway.in_process_gateway import gateway_here
from tests.integrations.dbt_projects import Project

pytestmark = pytest.mark.filterwarnings("ignore")

PAGE = page_path("dbt").read_text("utf-8")
TUTORIAL = PAGE[PAGE.index("### 1. A project") : PAGE.index("## Profile")]
_BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.M | re.S)
_CHANGING = re.compile(r"\b[0-9a-f]{32}\b|\bin \d+\.\d+s|^\d+ of \d+ ")


@pytest.fixture(scope="module")
def port(dbt_packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a gateway in this process."""
    service = SqlGatewayService(folder=tmp_path_factory.mktemp("gateway"), options={"parallelism.default": "2"})
    with gateway_here(service) as running:
        yield running.port


def shown(line: str) -> str:
    """A line without what differs from run to run."""
    return " ".join(_CHANGING.sub("", line.strip()).replace(" ]", "]").split())


def play(project: Project, block: str) -> list[str]:
    """Types a block, and returns the lines that its dbt commands print."""
    lines: list[str] = []
    for command in re.split(r"^(dbt .*)\n", block, flags=re.M):
        if command.startswith("dbt "):
            run = project.dbt(*shlex.split(command)[1:])
            lines += run.lines
            assert run.success, "\n".join(run.lines)
        elif command.strip():
            subprocess.run(["bash", "-e", "-c", command], cwd=project.folder, check=True)
    return lines


def test_the_tutorial(port: int, tmp_path: Path) -> None:
    folder = Project(tmp_path)
    project = Project(tmp_path / "shop")
    lines: list[str] = []
    for kind, text in _BLOCK.findall(TUTORIAL):
        if kind == "text":
            printed = [shown(line) for line in lines]
            for line in text.splitlines():
                assert shown(line) in printed, f"{line!r} is not in\n" + "\n".join(lines)
        elif "cd shop" in text:
            play(folder, text)
        else:
            lines = play(project, text.replace("localhost:8083", f"localhost:{port}"))
    assert {path.name for path in (project.folder / "plans").iterdir()} == {"deliveries.json", "product_sales.json"}
    assert len(list((project.folder / "models").glob("*.sql"))) == 6
