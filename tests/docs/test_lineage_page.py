"""The events on the page about lineage are those of the example."""

from __future__ import annotations

from pathlib import Path

from tests.session.lineage_examples import ROOT, example, run, session, short_columns, short_states
from tests.session.lineage_server import lineage_server


def test_the_page_shows_the_events_of_the_example(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operate" / "lineage.md").read_text()
    assert example("product_stats").partition("INSERT")[2] in page
    with lineage_server() as server:
        env = session(tmp_path, server.url, **{"table.exec.state.ttl": "1 d"})
        event = run(env, server, example("product_stats"))
    assert short_columns(event) in page
    assert short_states(event) in page
