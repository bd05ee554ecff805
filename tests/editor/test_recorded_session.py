"""The session that is kept is what the server says today."""

from __future__ import annotations

from pathlib import Path

from scripts.pages import page_path
from tests.editor.session_steps import RECORD, SCRIPT, play, readable, to_lines


def test_the_server_answers_as_it_is_recorded(tmp_path: Path) -> None:
    messages = play(tmp_path)
    page = page_path("editor").read_text("utf-8")
    assert to_lines(messages) == RECORD.read_text("utf-8"), "run: python -m scripts.record_editor"
    assert f"```text\n{readable(messages)}```" in page
    assert f"```sql\n{SCRIPT}```" in page
