"""Any sequence of edits leaves the findings of a fresh document, and never an exception."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stateplan.editor.documents import DocumentReader
from stateplan.editor.positions import LineMap
from tests.editor.language_client import LanguageClient
from tests.editor.reading import TABLES, insight, workspace

ROOT = Path(__file__).resolve().parents[2]

EXAMPLES = {
    "replay.sql": (ROOT / "examples/replay_order_tracking.sql").read_text("utf-8"),
    "queries.sql": TABLES
    + "CREATE VIEW v AS SELECT o.order_id, target FROM orders o JOIN logistics l ON o.order_id = l.order_id;\n"
    "BEGIN STATEMENT SET;\nINSERT INTO shipped SELECT * FROM v;\nEND;\nSET 'table.exec.state.ttl' = '1 d';\n",
    "story.sql": (ROOT / "examples/tests/account_balances.sql").read_text("utf-8"),
    "plan.json": (ROOT / "tests/frozen/stream-exec-join_1/inner-ttl-hint.json").read_text("utf-8"),
}

PARTS = st.sampled_from(
    ["'", "`", "/*", "--", ";", "(", ")", "\n", "\r", "\r\n", "😀", "\0", "\ufeff", "{", '"', "x", " "]
)
NEW = st.one_of(st.just(""), PARTS, st.sampled_from(["SELECT ", "CREATE TABLE a.b.c", "-- test: x\n", "-- given y\n"]))


@st.composite
def edits(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A document, and its texts after each edit."""
    name = draw(st.sampled_from(sorted(EXAMPLES)))
    texts = [EXAMPLES[name]]
    for _ in range(draw(st.integers(1, 3))):
        text = texts[-1]
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 0, 1, 3, 40])))
        texts.append(text[:start] + draw(NEW) + text[end:])
    return name, texts


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edit=edits())
def test_edits_end_with_the_findings_of_the_final_text(edit: tuple[str, list[str]], tmp_path: Path) -> None:
    name, texts = edit
    reader, space = DocumentReader(tmp_path / name), workspace(tmp_path)
    for text in texts:
        last = reader.read(text, space, lambda: None)
        for offset in (0, len(text) // 2, len(text)):
            last.hover(offset)
            last.definitions(offset)
            last.references(offset)
            last.complete(text, offset)
    fresh = insight(texts[-1], tmp_path, name)
    assert (last.findings, last.lenses, last.symbols) == (fresh.findings, fresh.lenses, fresh.symbols)


def test_edits_over_the_protocol_end_with_the_findings_of_the_final_text(client: LanguageClient) -> None:
    text = EXAMPLES["queries.sql"]
    client.open("edited.sql", text)
    for number, new in enumerate(["'", "😀", "", "\r\n", "SELEC", "; SELECT x FROM orders;", "/*", "\u2028"]):
        start = (number * 97) % len(text)
        lines = LineMap(text)
        begin, end = (lines.position(at) for at in (start, min(start + number % 3, len(text))))
        place = SimpleNamespace(begin=begin, end=end)
        span = {
            "start": {"line": place.begin[0], "character": place.begin[1]},
            "end": {"line": place.end[0], "character": place.end[1]},
        }
        client.change("edited.sql", {"range": span, "text": new})
        text = text[:start] + new + text[lines.offset(*end) :]
    assert client.findings("edited.sql") == client.open("edited_afresh.sql", text)
