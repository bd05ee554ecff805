"""``plan evolve --dry-run``: what would become of state, and at what cost, on checkpoints of Spark."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stateplan.cli.app import app
from tests.support.shop import BY_ITEM, BY_PRODUCT, COUNTS, JOINED, LINES, Shop, named

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A shop whose job has ended, with a count per item, a sum per product and a join."""
    shop = Shop(tmp_path_factory.mktemp("shop"))
    shop.arrive("orders", "1.json", *({"id": n, "product": "abc"[n % 3], "amount": n} for n in range(40)))
    shop.arrive("shipped", "1.json", *({"id": n, "target": "xy"[n % 2]} for n in range(0, 40, 3)))
    sums = ("sums", "product STRING, n BIGINT, s BIGINT")
    shop.run(named("old", (COUNTS, BY_ITEM), (LINES, JOINED), (sums, BY_PRODUCT)), "old")
    filtered = BY_PRODUCT.replace("orders", "orders WHERE amount > 3")
    env = shop.session()
    for name, columns, _ in named("new", (COUNTS, ""), (LINES, ""), (sums, "")):
        env.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'blackhole')")
    inserts = "; ".join(
        f"INSERT INTO {name}_new {query}"
        for name, query in (("counts", BY_ITEM), ("lines", JOINED.replace("JOIN", "LEFT JOIN")), ("sums", filtered))
    )
    plan = env.compile_plan_sql(f"EXECUTE STATEMENT SET BEGIN {inserts}; END")
    plan.write_to_file(shop.folder / "new.json")
    return shop


def preview(shop: Shop, checkpoint: str, *args: str) -> tuple[int, dict[str, Any], str]:
    """The exit code, the report, and what is on standard error."""
    place = str(shop.folder / checkpoint)
    command = ["plan", "evolve", str(shop.folder / "new.json"), "--checkpoint", place, "--dry-run", "--format", "json"]
    result = CliRunner().invoke(app, [*command, *args])
    return result.exit_code, json.loads(result.stdout.splitlines()[0]) if result.stdout else {}, result.stderr


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_each_operator_has_its_outcome_its_reason_and_its_cost(spark: object, shop: Shop) -> None:
    before = content(shop.folder)
    code, report, _ = preview(shop, "old")
    assert code == 0 and report["accepted"]
    operators = {o["new"]["name"] + "/" + o["outcome"]: o for o in report["operators"]}
    assert set(operators) == {"group-aggregate/carried", "join/derived", "group-aggregate/backfilled"}
    assert all(o["reasons"] for o in operators.values())
    carried = operators["group-aggregate/carried"]["cost"]
    derived = operators["join/derived"]["cost"]
    backfilled = operators["group-aggregate/backfilled"]["cost"]
    assert carried["stateRows"] == 40 and carried["stateBytes"] > 0
    assert derived["stateRows"] == 40 + 14
    size = (shop.folder / "orders" / "1.json").stat().st_size
    seconds = [each["seconds"] for each in (carried, derived, backfilled, report["cost"])]
    assert all(each > 0 for each in seconds) and seconds[-1] == pytest.approx(sum(seconds[:-1]), abs=0.01)
    history = {"historyFiles": 1, "historyParts": 0, "historyBytes": size}
    history |= {"historyTableRows": 0, "historyTableBytes": 0}
    assert backfilled == {"stateRows": 0, "stateBytes": 0, **history, "seconds": seconds[2]}
    assert report["cost"]["stateRows"] == 94 and report["cost"]["historyBytes"] == size
    assert content(shop.folder) == before, "nothing was written"
    assert not (shop.folder / "new").exists()


def test_without_metrics_the_lists_of_runs_give_the_sizes(spark: object, shop: Shop) -> None:
    shutil.copytree(shop.folder / "old", shop.folder / "copy", ignore=shutil.ignore_patterns("metrics"))
    logged, listed = preview(shop, "old")[1], preview(shop, "copy")[1]
    for report in (logged, listed):
        seconds = [operator["cost"].pop("seconds") for operator in report["operators"]]
        assert (None in seconds) == (report is listed), "only metrics say how long it takes"
    assert listed["operators"] == logged["operators"]


def test_state_that_would_be_lost_is_shown_and_refused(spark: object, shop: Shop) -> None:
    code, report, errors = preview(shop, "old", "--accept", "derive")
    assert code != 0 and "CKPT003" in errors
    assert not report["accepted"]
    assert {o["outcome"] for o in report["operators"]} == {"carried", "derived", "backfilled"}


def test_without_a_target_there_must_be_a_dry_run(shop: Shop) -> None:
    command = ["plan", "evolve", str(shop.folder / "new.json"), "--checkpoint", str(shop.folder / "old")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2 and "--dry-run" in result.stderr
    text = CliRunner().invoke(app, [*command, "--dry-run"]).stdout
    assert "1 file of history" in text and "rows of state" in text
