"""The action of GitHub and the template of GitLab: their steps run in a repository with a change, from a fresh clone of
this one, against a host on this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.review.ci_steps import Run, comments_api, run_action, run_job
from tests.review.jobs_of_reviews import CHANGES
from tests.support.command import Command

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "t0ken"
STORY = """-- include tracking.sql
-- test: an order waits
-- given orders
--   | order_id | num |
--   | 1        | 2   |
-- advance 10 d
-- given logistics
--   | order_id | target |
--   | 1        | Berlin |
-- expect rows
"""


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "init.defaultBranch=main")
    return subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a query and its test, and a branch in which its TTLs differ."""
    home = tmp_path / "repository"
    home.mkdir()
    (home / "tracking.sql").write_text((CHANGES / "longer_ttl" / "old.sql").read_text())
    (home / "test.sql").write_text(STORY)
    git(home, "init")
    git(home, "add", ".")
    git(home, "commit", "-m", "one")
    git(home, "branch", "origin/main")
    git(home, "checkout", "-b", "change")
    (home / "tracking.sql").write_text((CHANGES / "longer_ttl" / "new.sql").read_text())
    git(home, "commit", "-am", "two")
    return home


def of_github(tmp_path: Path, url: str) -> dict[str, str]:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7}}))
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": url,
        "GITHUB_REPOSITORY": "shop/queries",
        "GITHUB_BASE_REF": "main",
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_TOKEN": TOKEN,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }


def review_on_github(
    repository: Path, environment: Mapping[str, str], inputs: Mapping[str, str], action: Path = ROOT
) -> Run:
    scratch = repository.parent / "runner"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    return run_action(action, {"install": "false", **inputs}, environment, repository, scratch)


def test_the_action_comments_and_replaces_its_comment(repository: Path, tmp_path: Path) -> None:
    with comments_api(TOKEN) as api:
        api.texts = dict.fromkeys(range(1, 120), "a remark")
        environment = of_github(tmp_path, api.url)
        run = review_on_github(repository, environment, {"upload-sarif": "true"})
        assert run.code == 9, run.log  # a test fails: seven days have become fourteen
        assert api.requests == [("POST", "/repos/shop/queries/issues/7/comments")]
        assert api.texts[120].startswith(
            "<!-- stateplan review -->\n### 1 query changed: it keeps its state; 1 test fails"
        )
        assert run.summary == api.texts[120]
        ((action, given),) = run.uses
        assert action.startswith("github/codeql-action/upload-sarif@")
        sarif = json.loads(Path(given["sarif_file"]).read_text())
        assert {result["ruleId"] for result in sarif["runs"][0]["results"]} == {"REV012", "TTL010"}

        (repository / "test.sql").write_text(STORY + "--   | order_id | target |\n--   | 1        | Berlin |\n")
        git(repository, "commit", "-am", "three")
        run = review_on_github(repository, environment, {})
        assert run.code == 0, run.log
        assert api.requests[1:] == [("PATCH", "/repos/shop/queries/issues/comments/120")]
        assert "**Tests:** 1 passed." in api.texts[120]
        assert len(api.texts) == 120


def test_inputs_are_no_code(repository: Path, tmp_path: Path) -> None:
    hostile = "x$(touch /tmp/never)`touch pwned`; touch pwned \"'"
    environment = of_github(tmp_path, "http://127.0.0.1:1")
    inputs = {"name": hostile, "comment": "false", "paths": "tracking.sql", "fail-on": "errors"}
    inputs |= {"define": f"pipeline.name={hostile}"}
    run = review_on_github(repository, environment, inputs)
    assert run.code == 0, run.log
    assert not (repository / "pwned").exists()
    assert "x&#36;(touch /tmp/never)" in run.summary


def test_a_token_that_may_not_write_is_a_warning(repository: Path, tmp_path: Path) -> None:
    with comments_api("another") as api:
        run = review_on_github(repository, of_github(tmp_path, api.url), {"fail-on": "errors"})
    assert run.code == 0
    assert "warning: [REV004] GitHub does not accept the comment: 403 Resource not accessible" in run.log
    assert TOKEN not in run.log + run.summary


def test_the_template_of_gitlab(repository: Path) -> None:
    template = ROOT / "integrations" / "gitlab" / "stateplan-review.yml"
    with comments_api(TOKEN) as api:
        api.texts, api.foreign = {1: "<!-- stateplan review -->\nof somebody else"}, {1}
        environment = {
            "GITLAB_CI": "true",
            "GITLAB_TOKEN": TOKEN,
            "CI_API_V4_URL": f"{api.url}/api/v4",
            "CI_PROJECT_ID": "42",
            "CI_MERGE_REQUEST_IID": "7",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": git(repository, "rev-parse", "origin/main").strip(),
            "STATEPLAN_PATHS": "tracking.sql\ntest.sql",
            "STATEPLAN_FAIL_ON": "errors",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }
        run = run_job(template, "stateplan-review", environment, repository, skip=1)
        assert run.code == 0, run.log
        notes = "/api/v4/projects/42/merge_requests/7/notes"
        assert api.requests == [("PUT", f"{notes}/1"), ("POST", notes)]
        assert (repository / "review.md").read_text() == api.texts[2]


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, "[REV004] --post needs a pipeline of GitHub or GitLab"),
        ({"GITHUB_ACTIONS": "true"}, "this pipeline is not for a pull request"),
        ({"GITLAB_CI": "true"}, "this pipeline is not for a pull request"),
        (
            {"GITLAB_CI": "true", "CI_MERGE_REQUEST_IID": "1", "CI_PROJECT_ID": "1", "CI_API_V4_URL": "http://x"},
            "the environment variable GITLAB_TOKEN has no token",
        ),
    ],
)
def test_a_pipeline_without_a_change_has_no_comment(
    environment: dict[str, str], words: str, stateplan: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_ACTIONS", "GITLAB_CI"):
        monkeypatch.delenv(name, raising=False)
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    folder = CHANGES / "longer_ttl"
    code, _, err = stateplan("review", folder / "old.sql", folder / "new.sql", "--post")
    assert code == 0
    assert words in err


@pytest.mark.long
def test_the_steps_run_from_a_fresh_clone(repository: Path, tmp_path: Path) -> None:
    """With the step that installs stateplan, in an environment without it."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone))
    home = tmp_path / "environment"
    venv.create(home, with_pip=True)
    with comments_api(TOKEN) as api:
        environment = of_github(tmp_path, api.url)
        environment |= {"PATH": f"{home / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin", "PYTHONPATH": ""}
        run = review_on_github(repository, environment, {"install": "true", "fail-on": "errors"}, clone)
        assert run.code == 0, run.log
        assert len(api.texts) == 1
