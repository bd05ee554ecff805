"""Files to deploy with: they name files, images, versions and options that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer
import yaml

from stateplan import TableEnvironment
from stateplan.cli.app import app
from stateplan.common.release import installed_version

ROOT = Path(__file__).resolve().parent.parent.parent
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "stateplan"
UNIT = DEPLOY / "systemd" / "stateplan-gateway.service"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
KUBERNETES = [d for d in yaml.safe_load_all((DEPLOY / "kubernetes" / "stateplan.yaml").read_text()) if d]


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = (document for document in KUBERNETES if document["kind"] == kind)
    return dict(found)


def gateway_arguments() -> dict[str, list[str]]:
    """By file, the words behind ``stateplan``."""
    (line,) = (line for line in UNIT.read_text().splitlines() if line.startswith("ExecStart="))
    (container,) = of_kind("StatefulSet")["spec"]["template"]["spec"]["containers"]
    return {
        "compose": COMPOSE["services"]["gateway"]["command"],
        "kubernetes": container["args"],
        "systemd": [word for word in line.split()[1:] if not word.startswith("$")],
    }


@pytest.mark.parametrize(("file", "words"), gateway_arguments().items())
def test_the_gateway_has_these_options(file: str, words: list[str]) -> None:
    assert words[0] == "gateway"
    command: Any = typer.main.get_command(app)
    options = {name for p in command.commands["gateway"].params for name in p.opts}
    names = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
    assert names <= options and "--token-file" in names


def test_versions_are_those_of_the_project() -> None:
    version = installed_version()
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)
    assert COMPOSE["services"]["gateway"]["image"] == f"stateplan:{version}"
    assert f'"stateplan:{version}"' in (DEPLOY / "kubernetes" / "stateplan.yaml").read_text()


def test_images_have_a_version() -> None:
    pods = [of_kind(kind)["spec"]["template"]["spec"] for kind in ("StatefulSet", "Job")]
    containers = [c for pod in pods for c in (*pod.get("initContainers", ()), *pod["containers"])]
    images = [service["image"] for service in COMPOSE["services"].values()] + [c["image"] for c in containers]
    for image in images:
        assert re.search(r":v?\d+(\.\d+)*$", image), image


def test_compose_mounts_files_and_volumes_that_exist() -> None:
    for name, service in COMPOSE["services"].items():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            there = (DEPLOY / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]
            assert there, f"{name}: {source}"
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), f"{name} is open to other machines"
        assert set(service.get("depends_on", ())) <= COMPOSE["services"].keys()


def test_prometheus_and_grafana_read_each_other() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    assert all((DEPLOY / "prometheus" / name).exists() for name in config["rule_files"])
    (scrape,) = config["scrape_configs"]
    (secret,) = COMPOSE["services"]["prometheus"]["secrets"]
    assert scrape["authorization"]["credentials_file"] == f"/run/secrets/{secret['target']}"
    assert scrape["static_configs"] == [{"targets": ["gateway:8083"]}]
    assert f'up{{job="{scrape["job_name"]}"}}' in (DEPLOY / "prometheus" / "alerts.yml").read_text()
    provisioning = DEPLOY / "grafana" / "provisioning"
    for source in yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"]:
        assert source["url"].split("//")[1].split(":")[0] in COMPOSE["services"]
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "stateplan.yml").read_text())["providers"]
    targets = [volume.split(":")[1] for volume in COMPOSE["services"]["grafana"]["volumes"]]
    assert any(target.startswith(provider["options"]["path"] + "/") for target in targets)


def test_the_job_of_the_tutorial_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGUSER", "PGPASSWORD"):
        monkeypatch.setenv(name, "shop")
        assert f"--allow-env={name}" in COMPOSE["services"]["gateway"]["command"]
    page = (ROOT / "docs" / "operate" / "deploying.md").read_text()
    (script,) = re.findall(r"```sql\n(.*?)```", page, re.S)
    tables = TableEnvironment.create()
    *statements, insert = script.strip().removesuffix(";").split(";")
    for statement in statements:
        tables.execute_sql(statement)
    assert "Join" in tables.explain_sql(insert)


def test_the_values_of_the_chart_fit_their_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    own = yaml.safe_load((DEPLOY / "kubernetes" / "values.yaml").read_text())
    for values in (defaults, {**defaults, **own, "gateway": {**defaults["gateway"], **own["gateway"]}}):
        validator.validate(values)
    with pytest.raises(jsonschema.ValidationError, match="portt"):
        validator.validate({"gateway": {**defaults["gateway"], "portt": 1}})


def test_pods_run_without_privileges() -> None:
    for kind in ("StatefulSet", "Job"):
        pod = of_kind(kind)["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"]
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]
            mounts = {mount["name"] for mount in container.get("volumeMounts", ())}
            claims = {c["metadata"]["name"] for c in of_kind(kind)["spec"].get("volumeClaimTemplates", ())}
            assert mounts <= {volume["name"] for volume in pod.get("volumes", ())} | claims


def test_the_job_is_submitted_in_cluster_mode_with_its_volume() -> None:
    (container,) = of_kind("Job")["spec"]["template"]["spec"]["containers"]
    claim = of_kind("PersistentVolumeClaim")["metadata"]["name"]
    assert "--deploy-mode=cluster" in container["args"]
    for who in ("driver", "executor"):
        prefix = f"--conf=spark.kubernetes.{who}.volumes.persistentVolumeClaim.state"
        assert {f"{prefix}.options.claimName={claim}", f"{prefix}.mount.path=/state"} <= set(container["args"])
    account = of_kind("ServiceAccount")["metadata"]["name"]
    assert f"--conf=spark.kubernetes.authenticate.driver.serviceAccountName={account}" in container["args"]
    assert of_kind("RoleBinding")["subjects"][0]["name"] == account


def test_the_manifests_are_those_of_the_chart() -> None:
    if shutil.which("helm") is None:
        pytest.skip("needs helm")
    command = ["helm", "template", "stateplan", str(CHART), "-f", str(DEPLOY / "kubernetes" / "values.yaml")]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rendered = [document for document in yaml.safe_load_all(text) if document]
    assert sorted(map(json.dumps, rendered)) == sorted(map(json.dumps, KUBERNETES))


def test_the_unit_of_systemd(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze, of systemd")
    unit = tmp_path / UNIT.name
    program = str(Path(sys.executable).with_name("stateplan"))
    unit.write_text(UNIT.read_text().replace("/opt/stateplan/bin/stateplan", program))
    ended = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")
