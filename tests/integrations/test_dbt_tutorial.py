"""The tutorial of docs/operate/dbt.md, from an empty folder: its commands, and what it says that they print."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import stateplan.gateway.dbapi as dbapi
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
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the project, whose parent is empty before the tutorial."""
    return tmp_path_factory.mktemp("home") / "shop"


@pytest.fixture(scope="module")
def port(dbt_packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a gateway in this process."""
    service = SqlGatewayService(
        folder=tmp_path_factory.mktemp("gateway"), options={"parallelism.default": "1", "pipeline.max-parallelism": "1"}
    )
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


def test_the_tutorial(port: int, shop: Path) -> None:
    folder, project = Project(shop.parent), Project(shop)
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


def jobs(port: int, name: str) -> dict[str, str]:
    """By id, the status of the jobs of a streaming table, the newest first."""
    with dbapi.connect(f"http://127.0.0.1:{port}") as connection, connection.cursor() as cursor:
        rows = cursor.execute("SHOW JOBS").fetchall()
    return {row[0]: row[2] for row in rows if row[1] == f"dbt.lake.dev.{name}"}


def test_jobs_follow_their_models(port: int, shop: Path) -> None:
    """In the project of the tutorial: after a job is stopped, a model is built again, and a model becomes a view."""
    project = Project(shop)
    rows = project.rows("select * from {{ ref('product_sales') }} order by product")
    (running,) = [job for job, status in jobs(port, "product_sales").items() if status == "RUNNING"]
    with dbapi.connect(f"http://127.0.0.1:{port}") as connection, connection.cursor() as cursor:
        cursor.execute(f"STOP JOB '{running}'")
    assert jobs(port, "product_sales")[running] != "RUNNING"
    assert project.dbt("run", "--select", "product_sales").messages["product_sales"].startswith("STARTED")
    assert jobs(port, "product_sales")[running] == "RUNNING"
    with dbapi.connect(f"http://127.0.0.1:{port}") as connection, connection.cursor() as cursor:
        columns = [column[0] for column in cursor.execute(f"DESCRIBE JOB EXTENDED '{running}'").description or ()]
        described = dict(zip(columns, cursor.fetchall()[0], strict=True))
    assert (described["micro-batch"], described["idle"]) == (None, True), "without input, dbt does not wait for it"
    assert project.rows("select * from {{ ref('product_sales') }} order by product") == rows, "it continues"
    (first,) = jobs(port, "deliveries")
    assert project.dbt("run", "--select", "deliveries", "--full-refresh").success
    statuses = jobs(port, "deliveries")
    assert next(iter(statuses.values())) == "RUNNING" and statuses[first] != "RUNNING"
    model = shop / "models/deliveries.sql"
    model.write_text(model.read_text().replace("streaming_table", "view").replace("ttl=", "meta="))
    assert project.dbt("run", "--select", "deliveries").success
    assert "RUNNING" not in jobs(port, "deliveries").values()
