"""The extension for VS Code fits the server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from scripts.pages import page_path
from stateplan.editor.findings import SHOW_PLAN
from stateplan.editor.server import Configuration

FOLDER = Path(__file__).resolve().parents[2] / "integrations" / "vscode"
PACKAGE = json.loads((FOLDER / "package.json").read_text("utf-8"))
CODE = (FOLDER / "extension.js").read_text("utf-8")
README = (FOLDER / "README.md").read_text("utf-8")
SETTINGS = PACKAGE["contributes"]["configuration"]["properties"]


def test_the_manifest_has_what_vs_code_needs() -> None:
    assert {"name", "publisher", "version", "engines", "main", "contributes", "license"} <= set(PACKAGE)
    assert re.fullmatch(r"\^\d+\.\d+\.\d+", PACKAGE["engines"]["vscode"])
    assert re.fullmatch(r"[a-z0-9-]+", PACKAGE["name"]) and re.fullmatch(r"\d+\.\d+\.\d+", PACKAGE["version"])
    for setting in SETTINGS.values():
        assert setting["type"] in ("string", "object") and "default" in setting and setting["description"].endswith(".")
    for command in PACKAGE["contributes"]["commands"]:
        assert f'registerCommand("{command["command"]}"' in CODE


def test_all_files_of_the_package_are_here() -> None:
    packed = [line[1:] for line in (FOLDER / ".vscodeignore").read_text("utf-8").split() if line.startswith("!")]
    assert [name for name in packed if not (FOLDER / name).is_file()] == ["dist/extension.js"]
    contributes = PACKAGE["contributes"]
    named = [one["configuration"] for one in contributes["languages"]] + [
        one["path"] for one in contributes["grammars"]
    ]
    assert {name.removeprefix("./") for name in named} | {PACKAGE["main"].removeprefix("./")} <= set(packed)
    assert not (FOLDER / "node_modules").exists()


def test_the_server_reads_the_settings_that_it_gets() -> None:
    keys = {field.name for field in fields(Configuration)}
    body = CODE.partition("function serverSettings")[2].partition("}")[0]
    assert set(re.findall(r'(\w+): settings\.get\("\1"\)', body)) == keys
    assert {f"stateplan.{key}" for key in keys} <= set(SETTINGS)


def test_every_setting_is_used_and_described() -> None:
    for name in SETTINGS:
        key = name.removeprefix("stateplan.")
        assert f'settings.get("{key}")' in CODE
        assert f"`{name}`" in README
    table = page_path("editor").read_text("utf-8")
    assert all(f"| `{field.name}` |" in table for field in fields(Configuration))


def test_the_command_of_lenses_is_that_of_the_server() -> None:
    assert f'SHOW_PLAN = "{SHOW_PLAN}"' in CODE


def test_packages_are_pinned() -> None:
    lock = json.loads((FOLDER / "package-lock.json").read_text("utf-8"))
    own = lock["packages"][""]
    for kind in ("dependencies", "devDependencies"):
        assert own[kind] == PACKAGE[kind]
        assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in PACKAGE[kind].values())
    assert all("integrity" in package for name, package in lock["packages"].items() if name)


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_the_code_can_be_read() -> None:
    subprocess.run(["node", "--check", FOLDER / "extension.js"], check=True)
