"""A changed plan goes on from the checkpoint of the plan before, on Spark."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from stateplan.common.errors import CheckpointError
from stateplan.session.environment import TableEnvironment

pytestmark = pytest.mark.spark

Row = tuple[object, ...]


class Shop:
    """Tables in a folder, and plans that read them.

    Args:
        folder: for the files of tables, and checkpoints.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def session(self, **options: str) -> TableEnvironment:
        env = TableEnvironment.create({"parallelism.default": "2", **options})
        for name, columns in (
            ("orders", "id BIGINT NOT NULL, product STRING, amount BIGINT"),
            ("shipped", "id BIGINT NOT NULL, target STRING"),
            ("imported", "id BIGINT NOT NULL, product STRING, amount BIGINT"),
        ):
            (self.folder / name).mkdir(exist_ok=True)
            env.execute_sql(
                f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = '{self.folder / name}', "
                "'format' = 'json')"
            )
        return env

    def arrive(self, table: str, name: str, *rows: Mapping[str, object]) -> None:
        (self.folder / table).mkdir(exist_ok=True)
        (self.folder / table / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(
        self, sinks: Sequence[tuple[str, str, str]], checkpoint: str, origin: str | None = None, **options: str
    ) -> None:
        """Runs a plan until its input ends.

        Args:
            sinks: name, columns and query of each.
            checkpoint: its name; the plan goes on from there.
            origin: the name of a checkpoint of another plan, from which this one is made first.
            options: more options of the session.
        """
        place = str(self.folder / checkpoint)
        env = self.session(**{"execution.checkpointing.dir": place, **options})
        for name, columns, _ in sinks:
            env.execute_sql(
                f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', "
                f"'path' = '{self.folder / name}', 'format' = 'debezium-json')"
            )
        inserts = "; ".join(f"INSERT INTO {name} {query}" for name, _, query in sinks)
        plan = env.compile_plan_sql(f"EXECUTE STATEMENT SET BEGIN {inserts}; END")
        if origin is not None:
            evolved, _ = plan.evolve(self.folder / origin)
            assert str(evolved.folder) == place
        plan.execute().wait()

    def holds(self, *sinks: str) -> Counter[Row]:
        """The rows of sinks, with all changes applied."""
        rows: Counter[Row] = Counter()
        for name in sinks:
            for path in (self.folder / name).glob("part-*"):
                for line in path.read_text().splitlines():
                    change = json.loads(line)
                    for side, sign in (("before", -1), ("after", 1)):
                        if change[side] is not None:
                            rows[tuple(change[side].values())] += sign
        return Counter({row: n for row, n in rows.items() if n})


COUNTS = ("counts", "product STRING, n BIGINT, s BIGINT")
LINES = ("lines", "id BIGINT, product STRING, target STRING")
BY_ITEM = "SELECT product, COUNT(*), SUM(amount) FROM orders GROUP BY product, id"
BY_PRODUCT = "SELECT product, COUNT(*), SUM(amount) FROM orders GROUP BY product"
JOINED = "SELECT o.id, product, target FROM orders AS o JOIN shipped AS s ON o.id = s.id"
LEFT_JOINED = JOINED.replace("JOIN", "LEFT JOIN")


def named(suffix: str, *sinks: tuple[tuple[str, str], str]) -> list[tuple[str, str, str]]:
    """Sinks whose names end in ``suffix``."""
    return [(f"{name}_{suffix}", columns, query) for (name, columns), query in sinks]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    shop.arrive("orders", "1.json", *({"id": n, "product": "abc"[n % 3], "amount": n} for n in range(40)))
    shop.arrive("shipped", "1.json", *({"id": n, "target": "xy"[n % 2]} for n in range(0, 40, 3)))
    return shop


def test_keys_join_types_and_sources_change_at_once(spark: object, shop: Shop) -> None:
    before = named("old", (COUNTS, BY_ITEM), (LINES, JOINED))
    changed = ((COUNTS, BY_PRODUCT), (LINES, LEFT_JOINED))
    shop.run(before, "old")
    shop.run(named("half", *changed), "half")
    kept = {path: path.read_bytes() for path in (shop.folder / "old").rglob("*") if path.is_file()}
    shop.arrive("orders", "2.json", *({"id": n, "product": "abd"[n % 3], "amount": -n} for n in range(30, 60)))
    shop.arrive("shipped", "2.json", *({"id": n, "target": "z"} for n in range(1, 60, 4)))
    shop.arrive("imported", "1.json", {"id": 1, "product": "q", "amount": 7})
    more = (("imports", "product STRING, n BIGINT"), "SELECT product, COUNT(*) FROM imported GROUP BY product")
    shop.run(named("new", *changed, more), "new", "old")
    shop.run(named("whole", *changed), "whole")
    for sink in ("counts", "lines"):
        assert shop.holds(f"{sink}_half", f"{sink}_new") == shop.holds(f"{sink}_whole"), sink
    assert shop.holds("imports_new") == Counter({("q", 1): 1}), "a new source is read from its beginning"
    unlocked = {path: data for path, data in kept.items() if path.suffix != ".lock"}
    assert {path: path.read_bytes() for path in unlocked} == unlocked, "the old checkpoint is as it was"


def test_state_that_does_not_follow_is_made_from_history(spark: object, shop: Shop) -> None:
    filtered = BY_PRODUCT.replace("orders", "orders WHERE amount > 3")
    changed = ((COUNTS, filtered), (LINES, JOINED.replace("o.id =", "amount =")))
    shop.run(named("old", (COUNTS, BY_PRODUCT), (LINES, JOINED)), "old")
    shop.run(named("half", *changed), "half")
    shop.arrive("orders", "2.json", *({"id": n, "product": "abd"[n % 3], "amount": n % 50} for n in range(30, 60)))
    origin = str(shop.folder / "old")
    accept = {"execution.state-recovery.path": origin, "execution.state-recovery.accept": "backfill"}
    shop.run(named("new", *changed), "new", **accept)
    shop.run(named("whole", *changed), "whole")
    for sink in ("counts", "lines"):
        assert shop.holds(f"{sink}_half", f"{sink}_new") == shop.holds(f"{sink}_whole"), sink
    assert not (shop.folder / "new" / "backfill").exists()


@pytest.mark.parametrize("change", ["removed", "modified"])
def test_history_that_is_gone_is_refused(change: str, spark: object, shop: Shop) -> None:
    shop.run(named("old", (COUNTS, BY_PRODUCT)), "old")
    file = shop.folder / "orders" / "1.json"
    if change == "removed":
        file.unlink()
    else:
        os.utime(file, (1, 1))
    with pytest.raises(CheckpointError) as error:
        shop.run(named("new", (COUNTS, BY_PRODUCT.replace("COUNT(*)", "MAX(id)"))), "new", "old")
    assert error.value.code == "CKPT054"
    assert "1.json" in error.value.message


def test_an_evolution_that_was_killed_is_refused_and_begins_anew(spark: object, shop: Shop) -> None:
    shop.run(named("old", (COUNTS, BY_ITEM)), "old")
    shutil.copytree(shop.folder / "old" / "spark", shop.folder / "new" / "spark")
    (shop.folder / "new" / "recovering").write_text(f"{shop.folder / 'old'}\n")
    with pytest.raises(CheckpointError) as error:
        shop.run(named("new", (COUNTS, BY_PRODUCT)), "new")
    assert error.value.code == "CKPT075"
    shop.run(named("new", (COUNTS, BY_PRODUCT)), "new", "old")
    assert shop.holds("counts_new") == Counter(), "the state was there, and no row has come since"
