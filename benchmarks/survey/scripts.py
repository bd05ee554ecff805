"""Throughput: the nine queries, Nexmark, and long runs, on warm engines over the same rows.

Flink's time is the net run time that its job reports; that of the others is the whole statement. Processor time is that
of all processes of the engine during the statement.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import engines, generate
from benchmarks.harness import PeakMemory, Sampler, cpu_seconds
from benchmarks.nine_queries import QUERIES, Query, script
from benchmarks.survey import shapes
from benchmarks.survey.peers import PEER_FOLDER, pathway_setup
from stateplan.session.script import read_script

DATA = Path(__file__).parent.parent / "data"
BATCHES = 20
"""Micro-batches of a long run."""

SLICES = 4
"""Micro-batches of Nexmark."""

SUSTAINED = ("dedup", "product_stats", "order_tracking")
"""The queries of long runs."""

NEXMARK = tuple(f"q{n}" for n in (*range(6), 7, 8, 9, 11, 12, *range(15, 21), 22))
"""Queries without functions of Nexmark's own and without a sink or a table of their own; q6 is refused by all."""


@dataclass(frozen=True)
class Contender:
    """An engine that runs scripts.

    Attributes:
        name: in tables.
        start: starts its process.
        queries: the queries that it can say; None for all.
        takes_sql: whether it reads a script; else it gets the name of the query and the folder of its input.
        setup: installs it; the reason when it cannot be.
        writes_checkpoints: whether it can.
    """

    name: str
    start: Callable[[], engines.Engine]
    queries: frozenset[str] | None = None
    takes_sql: bool = True
    setup: Callable[[], str | None] = lambda: None
    writes_checkpoints: bool = True

    @property
    def is_flink(self) -> bool:
        """Whether it is a configuration of Flink."""
        return self.name.startswith("Flink")


def _python(name: str, interpreter: Path | str, module: str) -> engines.Engine:
    return engines.Engine(name, "", [str(interpreter), str(Path(__file__).with_name(module))])


CONTENDERS = (
    Contender("stateplan", engines.stateplan),
    Contender("stateplan, without Spark", engines.without_spark, writes_checkpoints=False),
    *(
        Contender(f"Flink, {name}", partial(engines.flink, backend, mini_batch), setup=engines.flink_setup)
        for name, backend, mini_batch in (
            ("RocksDB", "rocksdb", False),
            ("RocksDB, mini-batch", "rocksdb", True),
            ("heap", "hashmap", False),
            ("heap, mini-batch", "hashmap", True),
        )
    ),
    Contender(
        "Spark",
        partial(_python, "Spark", sys.executable, "spark_queries.py"),
        frozenset({"filter", "dedup", "order_tracking"}),
        takes_sql=False,
    ),
    Contender(
        "Pathway",
        partial(_python, "Pathway", PEER_FOLDER / "bin" / "python", "pathway_queries.py"),
        frozenset({"filter", "dedup", "product_stats", "order_tracking"}),
        takes_sql=False,
        setup=pathway_setup,
    ),
)


@dataclass(frozen=True)
class Input:
    """A script over a folder of rows.

    Attributes:
        case: name of the query.
        rows: of the input.
        folder: of the input, for engines that read no script.
        text: makes the script from the options of its sources.
        slices: micro-batches; each reads two files.
    """

    case: str
    rows: int
    folder: Path
    text: Callable[[str], str]
    slices: int | None = None


def throughput(contender: Contender, warm: Input, whole: Input, work: Path) -> dict[str, float]:
    """One run after one over less input.

    Raises:
        EngineError: the engine fails.
    """
    engine = contender.start()
    checkpoints = work / "checkpoints"
    try:
        with PeakMemory(engine.pid) as memory, FolderSize(checkpoints) as size:
            engine.run(_command(contender, warm, work))
            before = cpu_seconds(engine.pid)
            outcome = engine.run(_command(contender, whole, work))
            after = cpu_seconds(engine.pid)
    finally:
        engine.stop()
    seconds = outcome.net if contender.is_flink else outcome.wall
    figures = {
        "rows/s": whole.rows / seconds,
        "seconds": seconds,
        "cpu s": sum(after.values()) - sum(before.get(pid, 0.0) for pid in after),
        "peak GiB": memory.bytes / 2**30,
        "private GiB": memory.private_bytes / 2**30,
    }
    return figures | ({"checkpoint MiB": size.bytes / 2**20} if size.bytes else {})


def _command(contender: Contender, given: Input, work: Path) -> Path:
    path = work / f"{given.case}-{given.rows}.sql"
    if not contender.takes_sql:
        path.write_text(f"{given.case}\n{given.folder}\n{given.slices or 1}\n{work}\n")
        return path
    options = ""
    if given.slices is not None and not contender.is_flink:
        options = ", 'source.max-files-per-trigger' = '2'"
    path.write_text(given.text(options))
    return path


class FolderSize(Sampler):
    """Samples the bytes of a folder every two seconds; ``bytes`` is the largest seen."""

    def __init__(self, folder: Path) -> None:
        super().__init__(2.0)
        self.bytes = 0
        self._folder = folder

    def sample(self) -> None:
        total = 0
        for parent, _, names in os.walk(self._folder):
            for name in names:
                with contextlib.suppress(OSError):
                    total += os.stat(os.path.join(parent, name)).st_size
        self.bytes = max(self.bytes, total)


def query_input(query: Query, orders: int, work: Path) -> Input:
    """One of the nine queries over so many orders, and half as many records of logistics."""
    folder = (DATA / f"{orders}-{orders // 2}").resolve()
    generate.generate(folder, orders, orders // 2)
    return Input(query.name, _rows(query, orders), folder, partial(_query_text, query, folder, work))


def _rows(query: Query, orders: int) -> int:
    return sum({"orders": orders}.get(table, orders // 2) for table in query.reads)


def _query_text(query: Query, folder: Path, work: Path, options: str) -> str:
    return script(query, folder, options, work).read_text()


def shape_input(name: str, rows: int) -> Input:
    """A query over tables of another shape; see :mod:`.shapes`."""
    shape = shapes.SHAPES[name]
    folder = (DATA / f"shapes-{rows}").resolve()
    shapes.generate(folder, shape, rows)
    return Input(name, shapes.rows_read(shape, rows), folder, partial(shapes.script, shape, folder), SLICES)


def sustained_input(name: str, orders: int, work: Path, contender: Contender) -> Input:
    """A long run, with checkpoints: each micro-batch reads two files of each table."""
    query = next(query for query in QUERIES if query.name == name)
    folder = (DATA / f"long-{orders}").resolve()
    for table, make in (("orders", generate.orders), ("logistics", generate.logistics)):
        if not (folder / table).is_dir():
            _write(make(orders if table == "orders" else orders // 2), folder / table, BATCHES * 2)
    checkpoints = work / "checkpoints" / f"{name}-{orders}"
    settings = {"execution.checkpointing.dir": checkpoints.as_uri() if contender.is_flink else str(checkpoints)}
    if contender.is_flink:
        settings |= {"execution.checkpointing.interval": "10 s", "execution.checkpointing.incremental": "true"}
    head = "".join(f"SET '{key}' = '{value}'\n----\n" for key, value in settings.items())

    def text(options: str) -> str:
        return head + _query_text(query, folder, work, options)

    return Input(name, _rows(query, orders), folder, text, BATCHES)


def _write(frame: Any, folder: Path, parts: int) -> None:
    partial_folder = folder.with_name(f"_{folder.name}")
    partial_folder.mkdir(parents=True, exist_ok=True)
    bounds = [round(i * len(frame) / parts) for i in range(parts + 1)]
    for i, (low, high) in enumerate(pairwise(bounds)):
        path = partial_folder / f"part-{i:03}.json"
        frame[low:high].write_ndjson(path)
        os.utime(path, (1_700_000_000 + i,) * 2)
    partial_folder.rename(folder)


def nexmark_input(nexmark: Path, name: str, events: int, contender: Contender) -> Input:
    """A query of Nexmark.

    Args:
        nexmark: a folder with its queries in ``sql``, and with ``gen.py``, which makes events.
    """
    folder = _events(nexmark, events) / ("whole" if contender.is_flink else "slices")

    def text(options: str) -> str:
        parts = [(nexmark / "sql" / f"{file}.sql").read_text() for file in ("tables_nested", name)]
        values = {"DATA}/events${SUF": str(folder), "SINK": "blackhole", "SOURCE_OPTIONS": options}
        whole = "\n".join(parts)
        for key, value in values.items():
            whole = whole.replace(f"${{{key}}}", value)
        return "\n----\n".join(statement.text for statement in read_script(whole))

    return Input(name, events, folder, text, SLICES)


def _events(nexmark: Path, events: int) -> Path:
    """The same events twice: in two files for engines whose two readers want each file in the order of time, and in
    two files for each micro-batch."""
    folder = (DATA / f"nexmark-{events}").resolve()
    if folder.is_dir():
        return folder
    spec = importlib.util.spec_from_file_location("nexmark_gen", nexmark / "gen.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    partial_folder = folder.with_name(f"_{folder.name}")
    with contextlib.ExitStack() as files:
        names = [f"whole/part-{h}" for h in range(2)] + [f"slices/part-{s}{h}" for s in range(SLICES) for h in range(2)]
        out = {}
        for name in names:
            path = partial_folder / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            out[name] = files.enter_context(path.open("w"))
        for number, line in enumerate(_lines(module.Gen(events, 100, 7), events)):
            part = number * SLICES // events
            out[f"whole/part-{number % 2}"].write(line)
            out[f"slices/part-{part}{number % 2}"].write(line)
    for number in range(SLICES):
        for half in range(2):
            os.utime(partial_folder / f"slices/part-{number}{half}.json", (1_700_000_000 + number,) * 2)
    partial_folder.rename(folder)
    return folder


def _lines(generator: Any, events: int) -> Iterator[str]:
    for number in range(events):
        kind, row = generator.event(number)
        event = {"event_type": kind} | {name: row if i == kind else None for i, name in enumerate(_KINDS)}
        yield json.dumps(event, separators=(",", ":")) + "\n"


_KINDS = ("person", "auction", "bid")
