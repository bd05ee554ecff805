"""Reviews of real changes, as a reviewer gets them. ``stateplan review old.sql new.sql > comment.md`` in a folder of
``changes``, with the options below, writes the comment again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.review.jobs_of_reviews import CHANGES, job_of, plan_of
from tests.support.command import Command

OPTIONS = {"longer_ttl": ["--figures", "figures.json"]}


@pytest.mark.parametrize("name", sorted(path.name for path in CHANGES.iterdir()))
def test_the_comment(name: str, stateplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHANGES / name)
    code, out, err = stateplan("review", "old.sql", "new.sql", *OPTIONS.get(name, ()))
    assert (code, err) == (0, "")
    assert out == (CHANGES / name / "comment.md").read_text()


@pytest.mark.parametrize(
    ("name", "policies", "expected"),
    [
        ("another_key", "lost-state", 9),
        ("another_key", "lint,tests,errors,shorter-ttl", 0),
        ("longer_ttl", "shorter-ttl", 9),
        ("longer_ttl", "lost-state,lint", 0),
    ],
)
def test_the_exit_code_follows_from_the_policy(
    name: str, policies: str, expected: int, stateplan: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CHANGES / name)
    assert stateplan("review", "old.sql", "new.sql", "--fail-on", policies).code == expected


def test_the_first_line_says_how_much_state_is_lost(stateplan: Command, tmp_path: Path) -> None:
    folder = CHANGES / "another_key"
    job = job_of(plan_of(folder / "old.sql"), tmp_path / "job", rows=20_000)
    code, out, _ = stateplan("review", folder / "old.sql", folder / "new.sql", "--checkpoint", job)
    assert code == 0
    assert out.splitlines()[1] == "### 1 query changed: it loses join.left, join.right (3.8 MiB)"
    assert re.search(
        r"\| <code>join.left</code> \| 7\u00a0d \| \*\*lost\*\* \| 20,000\u00a0rows, 1.9\u00a0MiB \| unknown \|", out
    )


def test_the_checkpoint_is_the_old_side(stateplan: Command, tmp_path: Path) -> None:
    folder = CHANGES / "longer_ttl"
    job = job_of(plan_of(folder / "old.sql"), tmp_path / "job")
    _, out, _ = stateplan("review", job, folder / "new.sql")
    cells = next(line for line in out.splitlines() if "join.left" in line and line.startswith("|"))
    assert cells.replace("\u00a0", " ").endswith(
        "| 7 d → **14 d** | kept | 1,000 rows, 97.7 KiB | 1,000 to 2,000 rows, 97.7 KiB to 195 KiB |"
    )
