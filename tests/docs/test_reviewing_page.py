"""The page on reviews is typed word for word, in a shell."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scripts.pages import page_path
from tests.docs.walkthrough import Walkthrough
from tests.support.command import Command

ROOT = Path(__file__).resolve().parents[2]
PAGE = page_path("reviewing").read_text(encoding="utf-8")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Walkthrough]:
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(ROOT / "examples" / "review" / "figures.json", home)
    played = Walkthrough(PAGE, home, Path(sys.executable).parent, {"PYTHONPATH": str(ROOT)}, columns=130)
    yield played
    played.close()


def test_the_page(page: Walkthrough) -> None:
    page.play()


def test_the_inputs_of_the_action_and_the_variables_of_the_template_exist() -> None:
    blocks = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)]
    action, template, hooks = blocks
    inputs = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    (step,) = (s for s in action["jobs"]["review"]["steps"] if "stateplan" in s["uses"])
    assert set(step["with"]) <= set(inputs)
    job = yaml.safe_load((ROOT / "integrations" / "gitlab" / "stateplan-review.yml").read_text())["stateplan-review"]
    assert set(template["stateplan-review"]["variables"]) <= set(job["variables"])
    ids = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    assert {hook["id"] for hook in hooks["repos"][0]["hooks"]} <= ids


def test_the_page_has_the_keys_of_the_json(stateplan: Command) -> None:
    folder = ROOT / "tests" / "review" / "changes" / "longer_ttl"
    words = ("review", folder / "old.sql", folder / "new.sql", "--figures", folder / "figures.json", "--format", "json")
    data = json.loads(stateplan(*words).out)
    query = data["queries"][0]
    keys = {*data, *query, *query["states"][0], *query["lint"], "mostRows"}
    assert not [key for key in keys if f"`{key}`" not in PAGE]
