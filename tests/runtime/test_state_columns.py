"""Columns of state tables in a checkpoint: Arrow's schema, and the descriptions that older checkpoints have."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from stateplan.plans.document import PlanDocument
from stateplan.runtime.checkpoint.directory import Checkpoint, Continuation
from stateplan.runtime.checkpoint.slots import LAYOUTS
from stateplan.runtime.checkpoint.state_columns import from_description, from_text, read, to_text
from stateplan.runtime.translate import translate

FORMAT_2 = Path(__file__).parent / "frozen" / "checkpoint-format-2"
"""What a job left behind that kept joins, aggregates, lists, decimals, times and nested types; without any state."""

COLUMNS = {
    "k": pl.Int64(),
    "c0": pl.Decimal(38, 18),
    "c1": pl.List(pl.Struct({"key": pl.String(), "value": pl.Int32()})),
    "at": pl.Datetime("ms", "UTC"),
    "bytes": pl.Binary(),
}


def test_columns_are_read_as_they_were_written() -> None:
    assert from_text(to_text(COLUMNS)) == COLUMNS
    assert list(from_text(to_text(COLUMNS))) == list(COLUMNS)
    assert read(to_text({})) == {}


@pytest.mark.parametrize("value", ["", "x", "AAAA", None, 7, {"a": 7}, {"a": "Nonsense"}])
def test_what_are_no_columns(value: object) -> None:
    with pytest.raises(ValueError, match=r"schema|types?|understood"):
        read(value)


@pytest.mark.parametrize(
    "text",
    ["", "Int64(", "open('x')", "__import__('os')", "Nonsense", "7", "Int64.x", "[Int64]", "List", "Int64(1)", "{}"],
)
def test_what_describes_no_type(text: str) -> None:
    with pytest.raises(ValueError, match="type"):
        from_description(text)


def test_descriptions_of_polars_are_read() -> None:
    assert {name: from_description(str(kind)) for name, kind in COLUMNS.items()} == COLUMNS


def test_a_checkpoint_of_format_2_is_read_and_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    shutil.copytree(FORMAT_2, folder)
    # The columns of the first operator have changed since its last run, and no micro-batch has come since.
    stored_facts = json.loads((folder / "stateplan.json").read_text())
    rewrite = {"leftState": {"c0": "c2"}}
    stored_facts["layouts"][0]["operators"][0] |= {"version": 1, "rewrite": rewrite, "since": 4}
    (folder / "stateplan.json").write_text(json.dumps(stored_facts))
    text = (folder / "plan.json").read_text()
    graph = PlanDocument.parse(text).graph
    job = translate(graph, {}, 4)
    options = {"execution.checkpointing.dir": str(folder)}
    checkpoint = Checkpoint.open(options, text, graph, lambda _: Continuation.same(graph))
    try:
        (before,) = checkpoint.layouts
        assert [o.former_columns for o in before.operators[:2]] == [{0: rewrite}, {}]
        kept = {o.node: {name: table.columns for name, table in o.tables.items()} for o in before.operators}
        assert kept == {o.node: {t.name: dict(t.schema) for t in o.kernel.tables} for o in job.operators}
        checkpoint.fit(job)
        checkpoint.adopt()
    finally:
        checkpoint.close()
    facts = json.loads((folder / "stateplan.json").read_text())
    assert facts["format"] == 3
    layout, old = LAYOUTS.validate_python(facts["layouts"])
    assert layout == old
    assert all(isinstance(t["columns"], str) for o in facts["layouts"][0]["operators"] for t in o["tables"].values())
