"""Comments: texts from SQL stay texts, and the comment stays below the limit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stateplan.review.escaping import code, fenced, plain
from stateplan.review.markdown import LIMIT, marker, to_markdown
from stateplan.review.review import review
from stateplan.review.sides import two_sides
from tests.review.jobs_of_reviews import CHANGES
from tests.support.command import Command


@pytest.mark.parametrize("text", ["@everyone", "a|b", "<img src=x onerror=alert(1)>", "see #12", "![x](http://evil)"])
def test_nothing_in_a_text_has_a_meaning(text: str) -> None:
    for written in (plain(text), code(text)):
        inner = written.removeprefix("<code>").removesuffix("</code>")
        assert not re.search(r"[|<>\[\]*`]", inner)
        assert not re.search(r"\w://", plain(text))
    assert not re.search(r"@\w", plain(text))


def test_secrets_are_hidden() -> None:
    assert "hunter2" not in plain("'password' = 'hunter2'")
    assert "hunter2" not in fenced("'password' = 'hunter2'")


def test_a_fence_is_longer_than_those_inside() -> None:
    assert fenced("a\n````\nb").startswith("`````\n")


def test_a_name_cannot_end_the_hidden_marker() -> None:
    assert marker("a --> <b>") == "<!-- stateplan review a--b -->"


def test_a_hostile_query_stays_in_its_cells(stateplan: Command, tmp_path: Path) -> None:
    tables = "CREATE TABLE t (`@ada | <b>` INT, v INT) WITH ('connector' = 'kafka', 'topic' = 't', "
    tables += "'properties.bootstrap.servers' = 'k:9', 'format' = 'json', 'properties.security.protocol' = 'SASL_SSL', "
    tables += "'properties.sasl.username' = 'ada', 'properties.sasl.password' = 'hunter2');\n"
    tables += "CREATE TABLE r (k INT, n BIGINT) WITH ('connector' = 'print');\n"
    query = "INSERT INTO r SELECT `@ada | <b>`, COUNT(*) FROM t WHERE v < {} GROUP BY `@ada | <b>`;\n"
    for name, number in (("old.sql", 1), ("new.sql", 2)):
        (tmp_path / name).write_text(tables + query.format(number))
    code_, out, _ = stateplan("review", tmp_path / "old.sql", tmp_path / "new.sql")
    assert code_ == 0
    assert "hunter2" not in out and "<b>" not in out
    prose = re.sub(r"```.*?```", "", out, flags=re.S)
    assert not re.search(r"@\w", re.sub(r"<code>.*?</code>", "", prose))
    rows = [line for line in prose.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {4}


def test_a_long_comment_loses_whole_sections_and_says_so() -> None:
    folder = CHANGES / "another_aggregate"
    found = review(*two_sides(str(folder / "old.sql"), str(folder / "new.sql"), None), {})
    whole = to_markdown(found)
    assert len(whole) < LIMIT
    shorter = to_markdown(found, limit=len(whole) - 100)
    assert to_markdown(found, limit=len(whole)) == whole
    assert "```mermaid" in whole and "```mermaid" not in shorter
    assert "1 of the drawings" in shorter and len(shorter) <= len(whole) - 100
    assert shorter.count("<details>") == shorter.count("</details>") == whole.count("<details>") - 1


def test_very_many_queries_stay_below_the_limit(tmp_path: Path) -> None:
    head = (CHANGES / "another_key" / "old.sql").read_text()
    tables, query = head.split("\n\n")
    for side, condition in (("old", "o.customer_id = c.customer_id"), ("new", "o.customer_id = c.account_id")):
        (tmp_path / side).mkdir()
        sets = "".join(query.replace("o.customer_id = c.customer_id", condition) for _ in range(3))
        (tmp_path / side / "q.sql").write_text(f"{tables}\n{sets}")
    found = review(*two_sides(str(tmp_path / "old"), str(tmp_path / "new"), None), {})
    assert len(found.queries) == 3
    many = type(found)(found.queries * 60)
    text = to_markdown(many)
    assert len(text) <= LIMIT
    assert "180 queries changed: 180 lose state" in text and "Omitted, as a comment has a limit" in text
