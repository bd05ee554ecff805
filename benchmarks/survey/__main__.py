"""What users get, next to Flink, Spark's own operators and Pathway, on one page with plots.

    python -m benchmarks.survey [--folder DIR] [--only "PART;..."] [--peers "NAME;..."] [--cases "NAME;..."]
        [--sizes "SIZE;..."] [--rounds 1] [--orders 2000000] [--long 10000000] [--nexmark FOLDER] [--events 1000000]
        [--patience 600] [--minutes 600] [--seconds 60]

Parts: commands, first row, idle memory, latency, topics, three levels, growth, queries, shapes, nexmark, sustained.
Every measurement is a line in ``DIR/records.jsonl``. What is there is not measured again, so the same command goes on
where it ended. Before each, the survey waits until the machine is quiet, at most ``--patience`` seconds, and notes its
load. Engines run one after another, all of them on one case before the next. After ``--minutes``, it begins nothing
more. ``--seconds`` is how long rows arrive in a topic.

``--nexmark`` names a folder with Nexmark's queries (``sql/q*.sql``, ``sql/tables_nested.sql``) and a generator of its
events (``gen.py``); without it, that part is left out. Flink and Pathway are installed at their first use. The page is
written at the end: ``docs/background/benchmarks.md``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import typer

from benchmarks.harness import run, work_folder
from benchmarks.nine_queries import QUERIES, write_report
from benchmarks.survey import growth, scripts, streams, three_levels, topics
from benchmarks.survey.commands import COMMANDS, command_time
from benchmarks.survey.ledger import Cell, Ledger, wait_until_quiet
from benchmarks.survey.page import plots, sections
from benchmarks.survey.peers import PEERS
from benchmarks.survey.scripts import CONTENDERS, Contender
from benchmarks.survey.shapes import SHAPES
from tests.conftest import ROOT

Measure = Callable[[Path], dict[str, float]]
Setup = Callable[[], str | None]
PARTS = (
    "commands",
    "first row",
    "idle memory",
    "latency",
    "topics",
    "three levels",
    "queries",
    "shapes",
    "nexmark",
    "sustained",
    "growth",
)
MARKERS = ("<!-- survey: begin -->", "<!-- survey: end -->")


def _no_setup() -> None:
    """Nothing has to be installed."""


def stream_cells() -> Iterator[tuple[Cell, Measure, Setup]]:
    """The commands, and the parts about one streaming query."""
    for case in COMMANDS:
        yield Cell("commands", case, "stateplan"), partial(command_time, case), _no_setup
    for part, measure in (("first row", streams.first_row), ("idle memory", streams.idle_memory)):
        for peer in PEERS:
            yield Cell(part, "deduplication", peer.name), partial(measure, peer), peer.setup
    yield Cell("first row", "deduplication, warm", "stateplan"), streams.warm_first_row, _no_setup
    for rate in streams.RATES:
        for peer in PEERS:
            cell = Cell("latency", "deduplication", peer.name, f"{rate:,}")
            yield cell, partial(streams.latency, peer, rate=rate), peer.setup


def topic_cells(seconds: float) -> Iterator[tuple[Cell, Measure, Setup]]:
    """The parts about Kafka; the latency of ``seconds`` of rows."""
    for name, in_spark in (("stateplan", True), ("stateplan, without Spark", False)):
        for number in topics.PARTITIONS:
            cell = Cell("topics", f"{seconds:,.0f} s", name, f"{number:,} partitions")
            yield cell, partial(topics.latency, in_spark, number, seconds), _no_setup
            cell = Cell("topics", "rows/s", name, f"{number:,} partitions")
            yield cell, partial(topics.of_partitions, in_spark, number), _no_setup


def growth_cells() -> Iterator[tuple[Cell, Measure, Setup]]:
    """The parts about the fixed cost of levels, and about what grows."""
    for name in three_levels.PEERS:
        yield Cell("three levels", "ten rows", name), partial(three_levels.of_peer, name), _no_setup
    for keys in growth.KEYS:
        yield Cell("growth", "keys", "stateplan", f"{keys:,} keys"), partial(growth.of_keys, keys), _no_setup
    for number in growth.PARTITIONS:
        cell = Cell("growth", "partitions", "stateplan", f"{number} partitions")
        yield cell, partial(growth.of_partitions, number), _no_setup
        cell = Cell("growth", "hosts", "stateplan", f"{number} partitions")
        yield cell, partial(growth.of_hosts, number), _no_setup
    for peer in PEERS:
        yield Cell("growth", "files", peer.name, f"{growth.FILES:,} files"), partial(growth.of_files, peer), peer.setup


def script_cells(orders: int, long: int, nexmark: Path | None, events: int) -> Iterator[tuple[Cell, Measure, Setup]]:
    """The parts about throughput."""

    def of_query(contender: Contender, number: int, work: Path) -> dict[str, float]:
        warm, whole = (scripts.query_input(QUERIES[number], count, work) for count in (orders // 4, orders))
        return scripts.throughput(contender, warm, whole, work)

    def of_shape(contender: Contender, name: str, work: Path) -> dict[str, float]:
        warm, whole = (scripts.shape_input(name, count) for count in (orders // 20, orders // 2))
        return scripts.throughput(contender, warm, whole, work)

    def of_nexmark(contender: Contender, name: str, work: Path) -> dict[str, float]:
        assert nexmark is not None
        warm, whole = (scripts.nexmark_input(nexmark, name, count, contender) for count in (events // 10, events))
        return scripts.throughput(contender, warm, whole, work)

    def of_long_run(contender: Contender, name: str, work: Path) -> dict[str, float]:
        warm, whole = (scripts.sustained_input(name, count, work, contender) for count in (long // 20, long))
        return scripts.throughput(contender, warm, whole, work)

    for number, query in enumerate(QUERIES):
        for contender in _able(query.name):
            cell = Cell("queries", query.name, contender.name, f"{orders:,} orders")
            yield cell, partial(of_query, contender, number), contender.setup
    for name in SHAPES:
        for contender in _able(name):
            cell = Cell("shapes", name, contender.name, f"{orders // 2:,} rows")
            yield cell, partial(of_shape, contender, name), contender.setup
    for name in scripts.NEXMARK if nexmark is not None else ():
        for contender in _able(name):
            cell = Cell("nexmark", name, contender.name, f"{events:,} events")
            yield cell, partial(of_nexmark, contender, name), contender.setup
    for name in scripts.SUSTAINED:
        for contender in (one for one in _able(name) if one.writes_checkpoints):
            cell = Cell("sustained", name, contender.name, f"{long:,} orders")
            yield cell, partial(of_long_run, contender, name), contender.setup


def _able(case: str) -> Iterator[Contender]:
    return (one for one in CONTENDERS if one.queries is None or case in one.queries)


def _names(text: str, known: set[str], what: str) -> set[str]:
    names = {name.strip() for name in text.split(";")} if text else known
    if names - known:
        raise typer.BadParameter(f"unknown {what} '{min(names - known)}'; one of {', '.join(sorted(known))}")
    return names


def main(
    folder: Path = Path("benchmarks/survey/ledger"),
    only: str = "",
    peers: str = "",
    cases: str = "",
    sizes: str = "",
    rounds: int = 1,
    orders: int = 2_000_000,
    long: int = 10_000_000,
    nexmark: Path | None = None,
    events: int = 1_000_000,
    patience: float = 600.0,
    minutes: float = 600.0,
    seconds: float = 60.0,
) -> int:
    """Measures what is not there yet, and writes the page; 1 where something failed."""
    cells = [*stream_cells(), *topic_cells(seconds), *growth_cells(), *script_cells(orders, long, nexmark, events)]
    parts = _names(only, set(PARTS), "part")
    chosen_peers = _names(peers, {cell.peer for cell, _, _ in cells}, "peer")
    chosen_cases = _names(cases, {cell.case for cell, _, _ in cells}, "case")
    chosen_sizes = _names(sizes, {cell.size for cell, _, _ in cells}, "size")
    ledger = Ledger(folder)
    until = time.monotonic() + 60 * minutes
    failed = 0
    for _ in range(rounds):
        for cell, measure, setup in cells:
            if cell.part not in parts or cell.peer not in chosen_peers:
                continue
            if cell.case not in chosen_cases or cell.size not in chosen_sizes:
                continue
            if ledger.rounds(cell) < rounds and time.monotonic() < until:
                failed += _measure(ledger, cell, measure, setup, patience)
    write_report(sections(ledger), MARKERS)
    for path, svg in plots(ledger):
        path.write_text(svg)
    return int(failed > 0)


def _measure(ledger: Ledger, cell: Cell, measure: Measure, setup: Setup, patience: float) -> bool:
    """Measures a cell once; whether that failed."""
    load = wait_until_quiet(patience)
    figures: dict[str, float] = {}
    failure = setup() or ""
    if not failure:
        try:
            with work_folder("survey") as work:
                figures = measure(Path(work))
        except Exception as error:  # one engine's failure is a result
            failure = f"{type(error).__name__}: {error}"[:300]
    failure = failure.replace(f"{ROOT}/", "")
    ledger.add(cell, figures, failure, load)
    shown = failure or ", ".join(f"{name} {value:,.2f}" for name, value in figures.items())
    print(f"{cell.part:12} {cell.case:28} {cell.size:16} {cell.peer:28} {shown} (load {load:.1f})", flush=True)
    return bool(failure)


if __name__ == "__main__":
    run(main, __doc__)
