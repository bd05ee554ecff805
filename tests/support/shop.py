"""Tables of orders in a folder, and plans over them that run on Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from stateplan.session.compiled_plan import CompiledPlan
from stateplan.session.environment import TableEnvironment

Row = tuple[object, ...]

COUNTS = ("counts", "product STRING, n BIGINT, s BIGINT")
LINES = ("lines", "id BIGINT, product STRING, target STRING")
BY_ITEM = "SELECT product, COUNT(*), SUM(amount) FROM orders GROUP BY product, id"
BY_PRODUCT = "SELECT product, COUNT(*), SUM(amount) FROM orders GROUP BY product"
JOINED = "SELECT o.id, product, target FROM orders AS o JOIN shipped AS s ON o.id = s.id"


class Shop:
    """Tables in a folder, and plans that read them.

    Args:
        folder: for the files of tables, and checkpoints.

    Attributes:
        told: notes for the user, while jobs run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told: list[str] = []

    def session(self, **options: str) -> TableEnvironment:
        env = TableEnvironment.create({"parallelism.default": "2", **options}, console=self.told.append)
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
        plan = self.plan(sinks, checkpoint, **options)
        if origin is not None:
            evolved, _ = plan.evolve(self.folder / origin)
            assert str(evolved.folder) == str(self.folder / checkpoint)
        plan.execute().wait()

    def plan(self, sinks: Sequence[tuple[str, str, str]], checkpoint: str, **options: str) -> CompiledPlan:
        """The plan that :meth:`run` runs."""
        env = self.session(**{"execution.checkpointing.dir": str(self.folder / checkpoint), **options})
        for name, columns, _ in sinks:
            env.execute_sql(
                f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', "
                f"'path' = '{self.folder / name}', 'format' = 'debezium-json')"
            )
        inserts = "; ".join(f"INSERT INTO {name} {query}" for name, _, query in sinks)
        return env.compile_plan_sql(f"EXECUTE STATEMENT SET BEGIN {inserts}; END")

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


def named(suffix: str, *sinks: tuple[tuple[str, str], str]) -> list[tuple[str, str, str]]:
    """Sinks whose names end in ``suffix``."""
    return [(f"{name}_{suffix}", columns, query) for (name, columns), query in sinks]


def shop_after(folder: Path, plan: Sequence[tuple[str, str, str]], count: int) -> Shop:
    """A shop whose plan has read one file of each table, with ``count`` orders. Its checkpoint is ``first``."""
    folder.mkdir()
    shop = Shop(folder)
    shop.arrive("orders", "1.json", *({"id": n, "product": "abc"[n % 3], "amount": n % 9} for n in range(count)))
    shop.arrive("shipped", "1.json", *({"id": n, "target": "xy"[n % 2]} for n in range(0, count, 3)))
    shop.run(plan, "first")
    return shop


def arrive_later(shop: Shop, count: int) -> None:
    """Another file of each table, after ``count`` orders: some are of the same ids."""
    ids = range(count * 3 // 4, count * 3 // 2)
    shop.arrive("orders", "2.json", *({"id": n, "product": "acd"[n % 3], "amount": n % 9} for n in ids))
    shop.arrive("shipped", "2.json", *({"id": n, "target": "z"} for n in range(1, count * 3 // 2, 4)))
