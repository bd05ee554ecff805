"""Plays a session with the language server, and keeps it: ``python -m scripts.record_editor``.

The messages are written into ``tests/editor/recorded_session.jsonl``, and what people read of them into the page on
editors.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from benchmarks.harness import run
from scripts.pages import page_path
from tests.editor.session_steps import RECORD, SCRIPT, play, readable, to_lines


def main() -> None:
    """Plays the session, and writes its messages and its page."""
    with tempfile.TemporaryDirectory() as folder:
        messages = play(Path(folder))
    RECORD.write_text(to_lines(messages), "utf-8")
    page = page_path("editor")
    text = page.read_text("utf-8")
    for name, block in (("session_script", f"```sql\n{SCRIPT}```"), ("session", f"```text\n{readable(messages)}```")):
        marks = rf"(<!-- recorded: {name} -->\n).*?(<!-- end -->)"
        text = re.sub(marks, lambda match, block=block: f"{match[1]}{block}\n{match[2]}", text, flags=re.S)  # type: ignore[misc]
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    run(main, __doc__)
