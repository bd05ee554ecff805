"""What the operators for Airflow send to a gateway, without Airflow. ``make airflow`` runs them in Airflow."""

from __future__ import annotations

import ast
import importlib.util
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stateplan.common.release import installed_version
from stateplan.gateway.rest.guard import Access
from stateplan.gateway.service.service import SqlGatewayService
from tests.gateway.in_process_gateway import gateway_here

FOLDER = Path(__file__).resolve().parent.parent.parent / "integrations" / "airflow"
TOKEN = "0123456789abcdef0123456789abcdef"


def load() -> ModuleType:
    """The client, which needs no Airflow."""
    path = FOLDER / "airflow_provider_stateplan" / "gateway.py"
    spec = importlib.util.spec_from_file_location("airflow_provider_gateway", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


CLIENT = load()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("gateway")
    with gateway_here(SqlGatewayService(folder=folder), Access(token=TOKEN)) as here:
        client = CLIENT.Gateway(f"http://127.0.0.1:{here.port}", TOKEN)
        yield client
        client.close()


def test_statements_return_rows_and_jobs(gateway: Any) -> None:
    with gateway.session({"pipeline.name": "copies", "table.exec.local.max-input-size": "1 mb"}) as session:
        assert session.run("CREATE TABLE t (k INT) WITH ('connector' = 'blackhole')") == [["OK"]]
        assert session.run("SHOW TABLES") == [["t"]]
        job_id = session.start("EXPLAIN SELECT 1")
        assert job_id is None


def test_errors_have_their_code(gateway: Any) -> None:
    with gateway.session() as session, pytest.raises(CLIENT.GatewayError, match=r"^\[CAT\d{3}\] "):
        session.run("SELECT * FROM nowhere")
    with pytest.raises(CLIENT.GatewayError, match="no job"):
        gateway.job("a" * 32)
    with pytest.raises(CLIENT.GatewayError, match="GW"):
        CLIENT.Gateway(str(gateway._http.base_url), "wrong").jobs()
    with pytest.raises(CLIENT.GatewayError, match="cannot be reached"):
        CLIENT.Gateway("http://127.0.0.1:9").jobs()


def test_jobs_are_found_by_their_name(gateway: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [
        CLIENT.Job("b" * 32, "a", "FAILED"),
        CLIENT.Job("c" * 32, "a", "RESTARTING"),
        CLIENT.Job("d", "b", "RUNNING"),
    ]
    monkeypatch.setattr(gateway, "jobs", lambda: jobs)
    assert gateway.active_job("a") == jobs[1]
    assert gateway.active_job("c") is None
    assert gateway.job("c" * 32).is_active


def test_scripts_are_cut_into_statements() -> None:
    script = """-- tables; of the job
    CREATE TABLE t (k INT) WITH ('a' = 'x;y'); /* none; */ ;
    SELECT CASE WHEN k = 1 THEN 2 END FROM `a;b`;
    EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1; INSERT INTO t SELECT 2; END;
    -- the end
    """
    first, second, third = CLIENT.statements_of(script)
    assert first.endswith("'x;y')") and second.startswith("SELECT CASE") and third.endswith("SELECT 2; END")
    assert CLIENT.statements_of(["SHOW TABLES", "SHOW JOBS;"]) == ["SHOW TABLES", "SHOW JOBS"]


def test_texts_are_quoted() -> None:
    assert CLIENT.quoted("it's") == "'it''s'"


def test_the_package_has_the_version_of_the_project() -> None:
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    assert project["version"] == installed_version()
    (entry,) = project["entry-points"]["apache_airflow_provider"].values()
    module, _, name = entry.partition(":")
    tree = ast.parse((FOLDER / module / "__init__.py").read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_templates_are_arguments_of_their_operators() -> None:
    tree = ast.parse((FOLDER / "airflow_provider_stateplan" / "operators.py").read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    page = (FOLDER.parent.parent / "docs" / "operate" / "airflow.md").read_text()
    assert len(classes) == 3
    for operator in classes:
        (init,) = (n for n in operator.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
        arguments = {argument.arg for argument in init.args.kwonlyargs} | {"session_options", "conn_id"}
        (fields,) = (
            ast.literal_eval(n.value)
            for n in operator.body
            if isinstance(n, ast.AnnAssign) and n.value is not None and ast.unparse(n.target) == "template_fields"
        )
        assert set(fields) <= arguments and f"`{operator.name}`" in page
