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
LARGE = ("large", "product STRING, n BIGINT, s BIGINT")
LINES = ("lines", "id BIGINT, product STRING, target STRING")
AMOUNTS = ("amounts", "id BIGINT, product STRING, target STRING")
BY_ITEM = "SELECT product, COUNT(*), SUM(amount) FROM orders GROUP BY product, id"
BY_PRODUCT = "SELECT product, COUNT(*), SUM(amount) FROM orders GROUP BY product"
JOINED = "SELECT o.id, product, target FROM orders AS o JOIN shipped AS s ON o.id = s.id"
OLD = ((COUNTS, BY_ITEM), (LINES, JOINED))
DERIVED = ((COUNTS, BY_PRODUCT), (LINES, JOINED.replace("JOIN", "LEFT JOIN")))
MADE_ANEW = (
    (LARGE, BY_PRODUCT.replace("orders", "orders WHERE amount > 3")),
    (AMOUNTS, JOINED.replace("o.id =", "amount =")),
)


def named(suffix: str, *sinks: tuple[tuple[str, str], str]) -> list[tuple[str, str, str]]:
    """Sinks whose names end in ``suffix``."""
    return [(f"{name}_{suffix}", columns, query) for (name, columns), query in sinks]


def orders(*numbers: int) -> list[dict[str, object]]:
    return [{"id": n, "product": "abd"[n % 3], "amount": n % 50} for n in numbers]


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


def test_state_that_does_not_follow_is_made_from_history(shop: Shop) -> None:
    origin = str(shop.folder / "old")
    accept = {"execution.state-recovery.path": origin, "execution.state-recovery.accept": "backfill"}
    shop.run(named("new", *MADE_ANEW), "anew", **accept)
    for sink in ("large", "amounts"):
        assert shop.holds(f"{sink}_half", f"{sink}_new") == shop.holds(f"{sink}_whole"), sink
    assert not (shop.folder / "anew" / "backfill").exists()


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
    finally:
        if change == "removed":
            (shop.folder / "1.json").rename(file)
        os.utime(file, ns=times)
    assert error.value.code == "CKPT054"
    assert "1.json" in error.value.message


def test_an_evolution_that_was_killed_is_refused_and_begins_anew(shop: Shop) -> None:
    shutil.copytree(shop.folder / "old" / "spark", shop.folder / "killed" / "spark")
    (shop.folder / "killed" / "recovering").write_text(f"{shop.folder / 'old'}\n")
    with pytest.raises(CheckpointError) as error:
        shop.run(named("killed", (COUNTS, BY_PRODUCT)), "killed")
    assert error.value.code == "CKPT075"
    shop.run(named("killed", (COUNTS, BY_PRODUCT)), "killed", "old")
    assert shop.holds("counts_half", "counts_killed") == shop.holds("counts_whole")
