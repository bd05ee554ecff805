"""A changed plan goes on from the checkpoint of the plan before, on Spark."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stateplan.common.errors import CheckpointError, DataError, OptionError, RunError
from stateplan.evolution import evolve, history
from stateplan.plans.state.reader import CheckpointReader
from stateplan.runtime.memory import TOTAL
from stateplan.runtime.spark.tweaks import OFF
from tests.support.long_runs import LONG
from tests.support.shop import BY_ITEM, BY_PRODUCT, COUNTS, JOINED, LINES, Shop, named

pytestmark = pytest.mark.spark


LARGE = ("large", "product STRING, n BIGINT, s BIGINT")
AMOUNTS = ("amounts", "id BIGINT, product STRING, target STRING")
OLD = ((COUNTS, BY_ITEM), (LINES, JOINED))
DERIVED = ((COUNTS, BY_PRODUCT), (LINES, JOINED.replace("JOIN", "LEFT JOIN")))
SUMS = ("sums", "product STRING, s BIGINT")
TARGETS = ("targets", "id BIGINT, target STRING")
FEWER = ((SUMS, BY_ITEM.replace("COUNT(*), ", "")), (TARGETS, JOINED.replace("product, ", "")))
MADE_ANEW = (
    (LARGE, BY_PRODUCT.replace("orders", "orders WHERE amount > 3")),
    (AMOUNTS, JOINED.replace("o.id =", "amount =")),
)


def orders(*numbers: int) -> list[dict[str, object]]:
    return [{"id": n, "product": "abd"[n % 3], "amount": n % 50} for n in numbers]


def rows_of(shop: Shop, table: str, last: int) -> list[dict[str, Any]]:
    """The rows in the first files of a table."""
    files = [shop.folder / table / f"{number}.json" for number in range(1, last + 1)]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.fixture(scope="module")
def shop(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """The old plan has read one file of each table, and stopped. ``half`` are the changed plans over these files, and
    ``whole`` the changed plans over all files."""
    shop = Shop(tmp_path_factory.mktemp("shop"))
    shop.arrive("orders", "1.json", *orders(*range(40)))
    shop.arrive("shipped", "1.json", *({"id": n, "target": "xy"[n % 2]} for n in range(0, 40, 3)))
    shop.run(named("old", *OLD), "old")
    shop.run(named("half", *DERIVED, *MADE_ANEW), "half")
    shop.arrive("orders", "2.json", *orders(*range(30, 60)))
    shop.arrive("shipped", "2.json", *({"id": n, "target": "z"} for n in range(1, 60, 4)))
    shop.arrive("imported", "1.json", {"id": 1, "product": "q", "amount": 7})
    shop.run(named("whole", *DERIVED, *MADE_ANEW), "whole")
    return shop


def test_keys_join_types_and_sources_change_at_once(shop: Shop) -> None:
    kept = {path: path.read_bytes() for path in (shop.folder / "old").rglob("*") if path.is_file()}
    more = (("imports", "product STRING, n BIGINT"), "SELECT product, COUNT(*) FROM imported GROUP BY product")
    shop.run(named("new", *DERIVED, more), "derived", "old")
    for sink in ("counts", "lines"):
        assert shop.holds(f"{sink}_half", f"{sink}_new") == shop.holds(f"{sink}_whole"), sink
    assert shop.holds("imports_new") == Counter({("q", 1): 1}), "a new source is read from its beginning"
    unlocked = {path: data for path, data in kept.items() if path.suffix != ".lock"}
    assert {path: path.read_bytes() for path in unlocked} == unlocked, "the old checkpoint is as it was"


def test_the_limit_of_memory_holds_for_the_spark_that_fills_the_checkpoint(shop: Shop) -> None:
    plan = shop.plan(named("small", *DERIVED), "small", **{TOTAL: "3 gb"})
    with pytest.raises(RunError, match=r"RUN013.*'3 gb' needs a Spark with 'spark.driver.memory' = '851m'"):
        plan.evolve(shop.folder / "old")
    plan = shop.plan(named("smaller", *DERIVED), "small", **{TOTAL: "1 gb"})
    with pytest.raises(OptionError, match=r"OPT002.*a parallelism of 2, a job takes at least 1820 mb"):
        plan.evolve(shop.folder / "old")


def test_state_that_does_not_follow_is_made_from_history(shop: Shop) -> None:
    origin = str(shop.folder / "old")
    accept = {"execution.state-recovery.path": origin, "execution.state-recovery.accept": "backfill"}
    shop.run(named("new", *MADE_ANEW), "anew", **accept)
    for sink in ("large", "amounts"):
        assert shop.holds(f"{sink}_half", f"{sink}_new") == shop.holds(f"{sink}_whole"), sink
    assert not (shop.folder / "anew" / "backfill").exists()


def test_state_follows_from_the_rows_of_a_join_though_their_history_is_gone(shop: Shop) -> None:
    by_target = f"SELECT target, COUNT(product), SUM(id) FROM ({JOINED}) GROUP BY target"
    sums = ("targets", "target STRING, n BIGINT, s BIGINT"), by_target
    plan, file = named("kept", (LINES, JOINED), sums), shop.folder / "orders" / "1.json"
    time, preview = file.stat().st_mtime_ns, shop.plan(plan, "kept").preview_evolution(shop.folder / "old")[0]
    outcomes = {o.operator.title.split("[")[0]: o for o in preview.operators}
    sums_cost, join_cost = (outcomes[name].cost for name in ("group-aggregate", "join"))
    assert sums_cost is not None and join_cost is not None and outcomes["group-aggregate"].outcome == "derived"
    assert sums_cost == replace(join_cost, seconds=sums_cost.seconds), "it reads the state of the join, and no history"
    os.utime(file)
    try:
        shop.plan(plan, "kept").evolve(shop.folder / "old")
    finally:
        os.utime(file, ns=(time, time))
    assert not [path.name for path in (shop.folder / "kept").glob("backfill-*")]
    shop.plan(plan, "kept").execute().wait()
    counts: Counter[tuple[object, ...]] = Counter()
    for last, sign in ((1, -1), (2, 1)):
        ordered, shipped = rows_of(shop, "orders", last), rows_of(shop, "shipped", last)
        for target in "xyz":
            pairs = [o["id"] for o in ordered for s in shipped if (o["id"], target) == (s["id"], s["target"])]
            counts[target, len(pairs), sum(pairs)] += sign if pairs else 0
    assert shop.holds("targets_kept") == Counter({row: n for row, n in counts.items() if n})


@pytest.mark.parametrize("off", ["", "stored-state"] if LONG else [""])
def test_state_that_stays_is_carried_beside_other_state_of_its_level(off: str, shop: Shop) -> None:
    """And into other partitions, and to another level of Spark's, which counts from the last one."""
    name = f"beside_{off or 'copied'}".replace("-", "_")
    options = {OFF: off, "parallelism.default": "3"}
    deeper = "SELECT product, SUM(n), SUM(s) FROM ({}) AS t (product, n, s) GROUP BY product"
    more = (LARGE, deeper.format(BY_ITEM.replace("orders", "imported")))
    shop.run(named(name, (COUNTS, BY_PRODUCT), (LINES, JOINED), more), name, "old", **options)
    commits = {path.name for path in (shop.folder / name / "spark" / "commits").glob("[0-9]*")}
    assert commits == ({"0", "1"} if off else {"0", "1", "2"})
    assert shop.holds("counts_half", f"counts_{name}") == shop.holds("counts_whole")
    pairs = ((o, s) for o in rows_of(shop, "orders", 2) for s in rows_of(shop, "shipped", 2) if o["id"] == s["id"])
    lines = Counter((o["id"], o["product"], s["target"]) for o, s in pairs)
    assert shop.holds("lines_old", f"lines_{name}") == lines


def state_of(checkpoint: Path) -> dict[str, list[tuple[object, ...]]]:
    """The rows of state that readers find, without the times of access and expiry."""
    reader = CheckpointReader.read(checkpoint)
    return {
        name: sorted(tuple(row)[:-2] for row in reader.read_state(name).collect())
        for name in ("group-aggregate", "join.left")
    }


def test_state_with_other_columns_is_the_same_whichever_way_it_came(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copied by Spark, its runs keep the columns of before. Sent through Python, they get those of the new plan."""
    copied, sent = shop.folder / "copied", shop.folder / "sent"
    plan = shop.plan(named("copied", *FEWER), "copied")
    with monkeypatch.context() as patch:
        patch.setattr(evolve, "keep_times", lambda *args: (copied / "gone").read_text())
        with pytest.raises(CheckpointError, match="CKPT001"):
            plan.evolve(shop.folder / "old")
    assert not (copied / "stateplan.json").exists(), "state was copied, and nothing says so"
    plan.evolve(shop.folder / "old")
    shop.plan(named("sent", *FEWER), "sent", **{OFF: "stored-state"}).evolve(shop.folder / "old")
    commits = [len(list((folder / "spark" / "commits").glob("[0-9]*"))) for folder in (copied, sent)]
    assert commits == [2, 1]
    assert state_of(copied) == state_of(sent)
    assert [len(rows) for rows in state_of(copied).values()] == [40, 40]

    shop.run(named("copied", *FEWER), "copied")
    groups = Counter((item["id"], item["product"]) for item in rows_of(shop, "orders", 2))
    sums = [(*group, n * (group[0] % 50), n) for group, n in groups.items()]
    assert state_of(copied)["group-aggregate"] == sorted(sums)
    # once more, from runs of both plans
    counts = (("counted", "product STRING, n BIGINT"), BY_ITEM.replace("COUNT(*), SUM", "COUNT"))
    shop.plan(named("again", counts, FEWER[1]), "again").evolve(copied)
    assert state_of(shop.folder / "again")["group-aggregate"] == sorted((*group, n) for group, n in groups.items())


def test_history_that_gives_other_values_than_state_is_refused(shop: Shop) -> None:
    largest = BY_ITEM.replace("COUNT(*)", "MAX(amount)")
    plan, file = shop.plan(named("largest", (COUNTS, largest)), "largest"), shop.folder / "orders" / "1.json"
    text, time = file.read_text(), file.stat().st_mtime_ns
    file.write_text(text.replace('"amount": 7', '"amount": 8'))
    os.utime(file, ns=(time, time))
    try:
        with pytest.raises(CheckpointError) as error:
            plan.evolve(shop.folder / "old")
    finally:
        file.write_text(text)
        os.utime(file, ns=(time, time))
    assert error.value.code == "CKPT056"
    assert "SUM(amount) sum: 7, SUM(amount) count: 1} became {" in error.value.message
    evolved, _ = plan.evolve(shop.folder / "old")
    assert len(evolved.operators) == 1


def test_a_backfill_continues_where_it_was_interrupted(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "TASK_BYTES", 1)  # each file has a micro-batch of its own
    plan = shop.plan(named("resumed", (LARGE, BY_PRODUCT.replace("orders", "orders WHERE amount > 5"))), "resumed")
    for broken in ("2.json", "1.json"):
        file = shop.folder / "orders" / broken
        text, time = file.read_text(), file.stat().st_mtime_ns
        file.write_text("{" * 100)
        os.utime(file, ns=(time, time))
        try:
            if broken == "2.json":
                with pytest.raises(DataError):
                    plan.evolve(shop.folder / "whole")
            else:
                plan.evolve(shop.folder / "whole")  # the first file is not read once more
        finally:
            file.write_text(text)
            os.utime(file, ns=(time, time))


@pytest.mark.parametrize("change", ["removed", "modified"])
def test_history_that_is_gone_is_refused(change: str, shop: Shop) -> None:
    file = shop.folder / "orders" / "1.json"
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    if change == "removed":
        file.rename(shop.folder / "1.json")
    else:
        os.utime(file, (1, 1))
    try:
        with pytest.raises(CheckpointError) as error:
            shop.run(named(change, *MADE_ANEW), change, "old")
        accept = {"execution.state-recovery.accept": "reset"}
        plan = shop.plan(named(change, *MADE_ANEW), change, **accept)
        preview, _ = plan.preview_evolution(shop.folder / "old")
        plan.evolve(shop.folder / "old")
    finally:
        if change == "removed":
            (shop.folder / "1.json").rename(file)
        os.utime(file, ns=times)
    assert error.value.code == "CKPT054"
    assert "1.json" in error.value.message
    assert preview.refusal is None
    outcomes = {o.operator.title.partition("[")[0]: (o.outcome, o.reasons[-1]) for o in preview.operators}
    assert {name: outcome for name, (outcome, _) in outcomes.items()} == {"group-aggregate": "reset", "join": "reset"}
    assert all("1.json" in reason for _, reason in outcomes.values())


def test_history_that_is_gone_leaves_other_state_alone(shop: Shop) -> None:
    """Of ``shipped``, which only the join reads."""
    file = shop.folder / "shipped" / "1.json"
    kept = file.rename(shop.folder / "kept.json")
    try:
        last = JOINED.replace("shipped", "(SELECT id, LAST_VALUE(target) AS target FROM shipped GROUP BY id)")
        sinks = named("part", MADE_ANEW[0], (AMOUNTS, last))
        plan = shop.plan(sinks, "part", **{"execution.state-recovery.accept": "reset"})
        plan.evolve(shop.folder / "old")
        plan.execute().wait()
    finally:
        kept.rename(file)
    assert shop.holds("large_half", "large_part") == shop.holds("large_whole")
    assert any("starts with empty state" in note for note in shop.told)


def test_a_join_by_another_key_takes_over_the_rows_of_one_side(shop: Shop) -> None:
    """The history of ``shipped`` is gone, and that of ``orders`` has the other key."""
    file = shop.folder / "shipped" / "1.json"
    kept = file.rename(shop.folder / "kept.json")
    try:
        shop.run(named("side", *MADE_ANEW), "side", "old")
    finally:
        kept.rename(file)
    for sink in ("large", "amounts"):
        assert shop.holds(f"{sink}_half", f"{sink}_side") == shop.holds(f"{sink}_whole"), sink


def test_history_is_read_once_though_the_old_job_ran_on_between_two_attempts(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = named("on", *OLD)
    shutil.copytree(shop.folder / "old", shop.folder / "on")

    def fail(*args: object) -> None:
        raise OSError("no space left on device")

    def attempt() -> list[str]:
        with monkeypatch.context() as patch:
            patch.setattr(evolve, "load_state", fail)
            with pytest.raises(CheckpointError, match="no space left"):
                shop.run(named("ran", *MADE_ANEW), "ran", "on")
        return sorted(path.name for path in (shop.folder / "ran").glob("backfill-*"))

    first = attempt()
    assert attempt() == first, "another attempt continues there"
    shop.run(old, "on")
    assert not {*attempt()} & {*first}
    shop.run(named("ran", *MADE_ANEW), "ran", "on")
    for sink in ("large", "amounts"):
        assert shop.holds(f"{sink}_ran") == Counter(), "all input has been read"
    shop.arrive("orders", "3.json", *orders(*range(50, 70)))
    shop.run(named("ran", *MADE_ANEW), "ran")
    shop.run(named("all", *MADE_ANEW), "all")
    (shop.folder / "orders" / "3.json").unlink()
    for sink in ("large", "amounts"):
        assert shop.holds(f"{sink}_whole", f"{sink}_ran") == shop.holds(f"{sink}_all"), sink


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("CKPT004", {"pipeline.max-parallelism": "11"}),
        ("CKPT050", {"parallelism.default": "1000"}),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_written(
    code: str, options: dict[str, str], shop: Shop
) -> None:
    plan = shop.plan(named(code, *DERIVED), code, **options)
    for evolving in (plan.evolve, plan.preview_evolution):
        with pytest.raises(CheckpointError) as error:
            evolving(shop.folder / "old")
        assert error.value.code == code
    assert not (shop.folder / code / "recovering").exists()


def test_an_evolution_that_was_killed_is_refused_and_begins_anew(shop: Shop) -> None:
    shutil.copytree(shop.folder / "old" / "spark", shop.folder / "killed" / "spark")
    (shop.folder / "killed" / "recovering").write_text(f"{shop.folder / 'old'}\n")
    with pytest.raises(CheckpointError) as error:
        shop.run(named("killed", (COUNTS, BY_PRODUCT)), "killed")
    assert error.value.code == "CKPT075"
    shop.run(named("killed", (COUNTS, BY_PRODUCT)), "killed", "old")
    assert shop.holds("counts_half", "counts_killed") == shop.holds("counts_whole")


def test_a_ttl_that_an_earlier_plan_had_is_remembered(shop: Shop) -> None:
    """Through a checkpoint that was made of another one, too: its own plans have no TTL."""
    shop.run(named("ttl", (COUNTS, BY_ITEM)), "ttl", **{"table.exec.state.ttl": "1 h"})
    shop.run(named("ttl", (COUNTS, BY_ITEM)), "ttl")
    shop.run(named("ttl", (COUNTS, BY_ITEM), (LINES, JOINED)), "without_ttl", "ttl")
    for origin in ("ttl", "without_ttl"):
        plan = shop.plan(named("merged", (COUNTS, BY_PRODUCT)), origin + "_merged")
        preview, _ = plan.preview_evolution(shop.folder / origin)
        outcomes = {o.operator.title.split("[")[0]: (o.outcome, o.reasons) for o in preview.operators}
        outcome, reasons = outcomes["group-aggregate"]
        assert outcome == "backfilled"
        assert "groups that have expired after 1 h are missing in larger groups" in reasons
