"""Sinks get corrections of what the old plan has written: they end as if the new plan had always run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from stateplan.common.errors import CheckpointError
from stateplan.evolution import evolve
from tests.support.shop import BY_PRODUCT, JOINED, arrive_later, shop_after

pytestmark = pytest.mark.spark

CORRECTIONS = {"execution.state-recovery.output": "corrections"}
COUNTS = ("counts", "product STRING, n BIGINT, s BIGINT", BY_PRODUCT)
KEYED = ("keyed", "product STRING, n BIGINT, PRIMARY KEY (product) NOT ENFORCED")
LINES = ("lines", "id BIGINT, product STRING, target STRING")
IDS = ("ids", "id BIGINT")
OLD = [
    COUNTS,
    (*KEYED, "SELECT product, COUNT(*) FROM orders GROUP BY product"),
    (*LINES, JOINED),
    (*IDS, "SELECT id FROM orders WHERE amount > 3"),
]
NEW = [
    COUNTS,
    (*KEYED, "SELECT product, COUNT(*) FROM orders WHERE amount > 3 AND product <> 'b' GROUP BY product"),
    (*LINES, JOINED.replace("JOIN", "LEFT JOIN")),
    (*IDS, "SELECT id FROM orders WHERE amount > 7"),
    ("added", "target STRING, n BIGINT", "SELECT target, COUNT(*) FROM shipped GROUP BY target"),
]


def test_sinks_end_as_if_the_new_plan_had_always_run(
    spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shop_after(tmp_path / "whole", NEW, 40)
    shop = shop_after(tmp_path / "shop", OLD, 40)
    plan = shop.plan(NEW, "second", **CORRECTIONS)

    def fail(*args: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:  # the corrections are written then
        patch.setattr(evolve._Evolution, "_go_on", fail)
        with pytest.raises(CheckpointError, match="no space left"):
            plan.evolve(shop.folder / "first")
    shop.told.clear()
    evolved, _ = plan.evolve(shop.folder / "first")
    parts = [note for note in shop.told if note.startswith(("making", "computing", "writing"))]
    operators = [", ".join(o for o in evolved.operators if o in part) for part in parts[:2]]
    assert parts == [
        f"making the state of {operators[0]} from history",
        f"making the state of {operators[1]} from rows that others have kept",
        "writing the state into the new checkpoint",
        "computing the results of the old plan from history, for corrections",
        "computing the results of the new plan from history, for corrections",
        "writing corrections",
    ]
    assert "".join(parts[:2]).count("group-aggregate") == 2, "of keyed and added"
    for sink in ("counts", "keyed", "lines", "ids", "added"):
        assert shop.holds(sink) == whole.holds(sink), sink
    tables = {name.removeprefix("default_catalog.default_database.") for name in evolved.corrected}
    assert tables == {"keyed", "lines", "ids", "added"}, "counts is as it was"
    assert all(evolved.corrected.values())
    with pytest.raises(CheckpointError, match="has been made from"):
        plan.evolve(shop.folder / "first")
    for one in (whole, shop):
        arrive_later(one, 40)
    whole.run(NEW, "first")
    plan.execute().wait()
    for sink in ("counts", "keyed", "lines", "ids", "added"):
        assert shop.holds(sink) == whole.holds(sink), sink


def test_a_plan_that_starts_from_a_checkpoint_corrects_what_only_its_output_changes(
    spark: object, tmp_path: Path
) -> None:
    shop = shop_after(tmp_path / "shop", [COUNTS], 40)
    large = [(*COUNTS[:2], f"{BY_PRODUCT} HAVING COUNT(*) > 13")]
    origin = {"execution.state-recovery.path": str(shop.folder / "first")}
    shop.run(large, "second", **origin, **CORRECTIONS)
    assert {row[:2] for row in shop.holds("counts")} == {("a", 14)}


def test_corrections_that_have_begun_are_not_made_otherwise(spark: object, tmp_path: Path) -> None:
    shop = shop_after(tmp_path / "shop", OLD, 40)
    (tmp_path / "shop" / "second" / "corrections-0" / "written").mkdir(parents=True)
    (tmp_path / "shop" / "second" / "recovering").write_text("first")
    for options in (CORRECTIONS, {}):
        with pytest.raises(CheckpointError) as error:
            shop.plan(NEW, "second", **options).evolve(shop.folder / "first")
        assert error.value.code == "CKPT055"
    assert shop.holds("keyed") == Counter({("a", 14): 1, ("b", 13): 1, ("c", 13): 1})
