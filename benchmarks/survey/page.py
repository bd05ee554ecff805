"""The page of the survey: tables and plots of what a ledger holds."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from benchmarks.nine_queries import QUERIES, machine
from benchmarks.survey.commands import COMMANDS
from benchmarks.survey.ledger import Cell, Ledger
from scripts.pages import page_path
from scripts.pictures import drawing

PAGE = page_path("benchmarks")
OURS, HERE = "stateplan", "stateplan, without Spark"

STREAMS = {"first row": "first row s", "idle memory": "idle MiB"}
"""Parts about one streaming query: their figure."""

TARGETS = {
    "quick start": 2.0,
    "plan compile": 0.8,
    "plan show": 0.35,
    "plan lint": 0.35,
    "plan set-ttl": 0.35,
    "Python aggregate over 3 rows": 1.0,
}
"""Seconds that a command may take."""

PUBLISHED = {
    "q0": 155.02, "q1": 157.94, "q2": 175.21, "q3": 152.12, "q4": 34.33, "q5": 22.14, "q7": 12.33, "q8": 146.14,
    "q9": 14.24, "q11": 39.7, "q12": 75.67, "q15": 72.42, "q16": 18.65, "q17": 116.8, "q18": 53.7, "q19": 44.04,
    "q20": 18.98, "q22": 129.96,
}  # fmt: skip
"""Thousands of events per core and second of Flink 1.13, from the README of github.com/nexmark/nexmark: 100 million
events that the engine generates itself, checkpoints every three minutes, RocksDB, mini-batch, eight machines."""

_SIZES = {"peak GiB": "GiB", "private GiB": "without mapped files", "checkpoint MiB": "checkpoint, MiB"}
"""What runs take, and how a column of the sustained runs calls it."""

_TITLES = {query.name: query.title for query in QUERIES}


def sections(ledger: Ledger) -> str:
    """The Markdown of everything that was measured."""
    parts = [
        _conditions(ledger),
        *_commands(ledger),
        *_streams(ledger),
        *_latency(ledger),
        *_topics(ledger),
        *_levels(ledger),
        *_throughput(ledger),
        *_per_core(ledger),
        *_growth(ledger),
    ]
    return "\n\n".join(parts)


def _conditions(ledger: Ledger) -> str:
    loads = [record.load for record in ledger.records]
    commits = ", ".join(dict.fromkeys(f"`{record.commit}`" for record in ledger.records))
    return (
        f"{machine()}. Engines ran one after another. The load of the machine right before a measurement was "
        f"{min(loads, default=0):.1f} to {max(loads, default=0):.1f}. Commits {commits}."
    )


def _commands(ledger: Ledger) -> Iterator[str]:
    rows = []
    for case in COMMANDS:
        figures = ledger.medians(Cell("commands", case, OURS))
        if figures:
            target = f"{TARGETS[case]:g}" if case in TARGETS else ""
            rows.append((case, f"{figures['wall s']:.2f}", f"{figures['cpu s']:.2f}", target))
    if rows:
        yield "### Commands\n\nSeconds that a process takes, the fastest of five runs."
        yield _table(("command", "seconds", "processor time", "target"), rows)


def _streams(ledger: Ledger) -> Iterator[str]:
    titles = {
        "first row": "### First row of a stream\n\nSeconds from the start of the process to its first row; "
        "of a warm engine, from the statement.",
        "idle memory": "### Memory of an idle stream\n\nMiB of all processes, 90 s after the last row.",
    }
    for part, title in titles.items():
        rows = [
            (f"{cell.peer}{cell.case.removeprefix('deduplication')}", ledger.medians(cell).get(STREAMS[part]))
            for cell in ledger.cells(part)
        ]
        if rows:
            yield title
            yield _table(("engine", STREAMS[part]), [(peer, _number(value)) for peer, value in rows])


def _latency(ledger: Ledger) -> Iterator[str]:
    rows = []
    for cell in sorted(ledger.cells("latency"), key=lambda cell: int(cell.size.replace(",", ""))):
        figures = ledger.medians(cell)
        values = [_number(figures[name]) for name in ("p50 ms", "p99 ms")] if figures else ["", ledger.failure(cell)]
        rows.append((cell.size, cell.peer, *values))
    if rows:
        yield (
            "### Latency\n\nMilliseconds from the moment a file with rows appears to the moment a result is printed. "
            "Files appear every 100 ms."
        )
        yield _table(("rows a second", "engine", "median", "99th percentile"), rows)


def _topics(ledger: Ledger) -> Iterator[str]:
    by_size: dict[tuple[str, str], dict[str, Cell]] = {}
    for cell in ledger.cells("topics"):
        by_size.setdefault((cell.peer, cell.size), {})[cell.case] = cell
    durations = sorted({case for cells in by_size.values() for case in cells} - {"rows/s"}, key=_seconds)
    rows = []
    for (peer, size), cells in by_size.items():
        figures = {case: ledger.medians(cell) for case, cell in cells.items()}
        latencies = [_number(figures.get(case, {}).get(name)) for case in durations for name in ("p50 ms", "p99 ms")]
        rows.append((peer, size, *latencies, _number(figures.get("rows/s", {}).get("rows/s"))))
    if rows:
        yield (
            "### Topics\n\nThe deduplication over a Kafka topic that gets a thousand rows a second, ten every 10 ms: "
            "milliseconds from the send of a message to the printed result. The last column is the speed over "
            "1,000,000 rows that are there, with the processor time of the broker on the same two cores."
        )
        names = [f"{what}, {case}" for case in durations for what in ("median", "99th percentile")]
        yield _table(("engine", "topic", *names, "rows/s"), rows)


def _seconds(case: str) -> int:
    return int(case.removesuffix(" s").replace(",", ""))


def _levels(ledger: Ledger) -> Iterator[str]:
    rows = [(cell.peer, _number(ledger.medians(cell).get("ms"))) for cell in ledger.cells("three levels")]
    if rows:
        yield (
            "### Ten rows through three levels of state\n\nMilliseconds of a micro-batch, the median of 30. stateplan "
            "runs a deduplication, an aggregate and a top 3. Spark runs `dropDuplicates` and two windowed aggregates."
        )
        yield _table(("engine", "ms"), rows)


_GROWTH = {
    "keys": (
        "### Growing state\n\nA keep-first deduplication in Spark with `execution.memory.total` of 4 GiB, in a hundred "
        "micro-batches. A fifth of the rows are of known keys. A tenth is a tenth of the run. Writing is the time that "
        "workers spend on new runs and merges in a micro-batch, all together. The start is that of a process that "
        "continues from the checkpoint, until its first micro-batch is committed.",
        {
            "first tenth, rows/s": "first tenth, rows/s",
            "last tenth, rows/s": "last tenth, rows/s",
            "first commit ms": "first writing, ms",
            "last commit ms": "last writing, ms",
            "state GiB": "state, GiB",
            "checkpoint GiB": "checkpoint, GiB",
            "start s": "start, s",
            "private GiB": "memory, GiB",
            "peak GiB": "with mapped files, GiB",
        },
    ),
    "partitions": (
        "### Partitions\n\nThe same on two cores at other parallelisms: 2,000,000 rows in four micro-batches, and a "
        "micro-batch of ten rows through three levels.",
        {"rows/s": "rows/s", "ten rows ms": "ten rows, ms", "peak GiB": "peak, GiB"},
    ),
    "hosts": (
        "### Partitions on hosts\n\nThe same on simulated hosts with a Spark worker each: two network addresses and "
        "temporary folders on the same two cores. One partition has one host.",
        {"rows/s": "rows/s", "ten rows ms": "ten rows, ms"},
    ),
    "files": (
        "### Many files\n\nSeconds from the start of a process to the first and the last row. The stream begins at a "
        "folder with files of ten rows.",
        {"first row s": "first row s", "last row s": "last row s"},
    ),
}


def _growth(ledger: Ledger) -> Iterator[str]:
    for case, (text, names) in _GROWTH.items():
        cells = [cell for cell in ledger.cells("growth") if cell.case == case]
        peers = len({cell.peer for cell in cells}) > 1
        rows = [
            (
                *((cell.peer,) if peers else ()),
                cell.size,
                *(_number(ledger.medians(cell).get(name)) for name in names),
            )
            for cell in cells
        ]
        if rows:
            yield text
            yield _table((*(("engine",) if peers else ()), "size", *names.values()), rows)


def _throughput(ledger: Ledger) -> Iterator[str]:
    titles = {
        "queries": "Nine queries",
        "shapes": "Other shapes of rows",
        "nexmark": "Nexmark",
        "sustained": "Long runs with checkpoints",
    }
    for part, title in titles.items():
        cells = list(ledger.cells(part))
        for size in dict.fromkeys(cell.size for cell in cells):
            here = [cell for cell in cells if cell.size == size]
            yield f"### {title}, {size}\n\nThousands of rows a second:"
            yield _table(*_speeds(ledger, here))
            yield (
                "How many times as fast stateplan is as the best other engine, and how much less processor time it "
                "takes than the one that takes least:"
            )
            yield _table(*_ratios(ledger, here))
            yield f"![{title}, {size}]({plot_name(part, size)})"


def _peers(cells: Sequence[Cell]) -> list[str]:
    """The engines of some cells, stateplan first."""
    return sorted(dict.fromkeys(cell.peer for cell in cells), key=lambda peer: peer not in (OURS, HERE))


def _cases(ledger: Ledger, cells: Sequence[Cell]) -> Iterator[tuple[str, dict[str, dict[str, float]]]]:
    """Each query, and its figures by engine."""
    for case in dict.fromkeys(cell.case for cell in cells):
        yield case, {cell.peer: ledger.medians(cell) for cell in cells if cell.case == case}


def _speeds(ledger: Ledger, cells: Sequence[Cell]) -> tuple[Sequence[str], list[Sequence[str]]]:
    peers = _peers(cells)
    failures = {(cell.case, cell.peer): ledger.failure(cell) for cell in cells}
    rows: list[Sequence[str]] = [
        (
            _TITLES.get(case, case),
            *(
                f"{of_peer[peer]['rows/s'] / 1000:,.0f}"
                if of_peer.get(peer)
                else ("failed" if failures.get((case, peer)) else "")
                for peer in peers
            ),
        )
        for case, of_peer in _cases(ledger, cells)
    ]
    return ("query", *peers), rows


def _ratios(ledger: Ledger, cells: Sequence[Cell]) -> tuple[Sequence[str], list[Sequence[str]]]:
    us = [peer for peer in (OURS, HERE) if peer in _peers(cells)]
    has_checkpoints = any("checkpoint MiB" in ledger.medians(cell) for cell in cells if cell.peer in us)
    sizes = _SIZES if has_checkpoints else {"peak GiB": "GiB"}
    rows: list[Sequence[str]] = []
    for case, of_peer in _cases(ledger, cells):
        ratios = [_ratio(of_peer, name, ours) for ours in us for name in ("rows/s", "cpu s")]
        memory = [
            " / ".join(f"{of_peer[ours][name]:,.1f}" for name in sizes if name in of_peer.get(ours, {})) for ours in us
        ]
        rows.append((_TITLES.get(case, case), *ratios, *memory))
    if len(rows) > 1:
        means = [_mean([row[1 + i] for row in rows]) for i in range(2 * len(us))]
        rows.append(("geometric mean", *means, *("" for _ in us)))
    names = [f"{what}{ours.removeprefix(OURS)}" for ours in us for what in ("ratio", "ratio by processor time")]
    unit = " / ".join(sizes.values())
    units = [f"{unit}{ours.removeprefix(OURS)}" for ours in us]
    return ("query", *names, *units), rows


def _per_core(ledger: Ledger) -> Iterator[str]:
    """Nexmark by processor time, next to figures of another machine."""
    rows = []
    for case, published in PUBLISHED.items():
        rates: dict[str, list[float]] = {}
        for cell in ledger.cells("nexmark"):
            figures = ledger.medians(cell)
            if cell.case == case and figures:
                rates.setdefault({OURS: "ours", HERE: "here"}.get(cell.peer, "flink"), []).append(
                    figures["rows/s"] * figures["seconds"] / figures["cpu s"] / 1000
                )
        if rates:
            rows.append(
                (
                    case,
                    *(_number(max(rates.get(name, [0.0])) or None) for name in ("ours", "here", "flink")),
                    str(published),
                )
            )
    if rows:
        yield "### Nexmark, thousands of events per core and second"
        yield (
            "Events divided by the processor time of all processes of an engine. The last column is the figure that "
            "[Nexmark's authors](https://github.com/nexmark/nexmark#nexmark-benchmark-result) publish for Flink 1.13: "
            "100 million events, on other machines, with a generator in the engine where the engines here "
            "parse JSON. So it is a point of reference and no comparison."
        )
        yield _table(("query", OURS, HERE, "the best Flink here", "Flink 1.13, published"), rows)


def _mean(ratios: Sequence[str]) -> str:
    """The geometric mean of those that there are."""
    numbers = [float(ratio) for ratio in ratios if ratio]
    return f"{statistics.geometric_mean(numbers):.2f}" if numbers else ""


def _ratio(of_peer: dict[str, dict[str, float]], name: str, us: str) -> str:
    """How many times better stateplan is than the best of the others."""
    ours = of_peer.get(us, {}).get(name)
    others = [figures[name] for peer, figures in of_peer.items() if peer not in (OURS, HERE) and name in figures]
    if not ours or not others:
        return ""
    return f"{ours / max(others) if name == 'rows/s' else min(others) / ours:.2f}"


def plot_name(part: str, size: str) -> str:
    """The file of a plot, beside the page."""
    return f"benchmarks-{part}-{size.replace(',', '').replace(' ', '-')}.svg"


def plots(ledger: Ledger) -> Iterator[tuple[Path, str]]:
    """The files of the plots, and what is in them."""
    for part in ("queries", "shapes", "nexmark", "sustained"):
        cells = list(ledger.cells(part))
        for size in dict.fromkeys(cell.size for cell in cells):
            bars = [
                (_TITLES.get(cell.case, cell.case), cell.peer, ledger.medians(cell).get("rows/s", 0.0))
                for cell in cells
                if cell.size == size
            ]
            yield PAGE.with_name(plot_name(part, size)), _bars(f"{part.capitalize()}, {size}: rows a second", bars)


_ROW, _LABEL, _WIDTH = 15, 300, 760


def _bars(title: str, bars: Sequence[tuple[str, str, float]]) -> str:
    """Horizontal bars, those of a case together."""
    largest = max((value for _, _, value in bars), default=1.0) or 1.0
    parts, y, case = [], 40, ""
    for name, peer, value in bars:
        if name != case:
            y += 24
            parts.append(f'<text x="16" y="{y - 4}" font-weight="600">{escape(name)}</text>')
            case = name
        length = (_WIDTH - _LABEL - 90) * value / largest
        kind = "s0" if peer in (OURS, HERE) else "edge"
        parts.append(f'<text x="{_LABEL - 8}" y="{y + 11}" text-anchor="end">{escape(peer)}</text>')
        parts.append(
            f'<rect class="{kind}" x="{_LABEL}" y="{y + 2}" width="{max(length, 1):.1f}" height="{_ROW - 4}"/>'
        )
        parts.append(f'<text x="{_LABEL + length + 6:.1f}" y="{y + 11}">{value:,.0f}</text>')
        y += _ROW
    return drawing(_WIDTH, y + 16, title, "Bars of rows a second for each query and engine.", parts)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    numbers = [
        all(row[i].replace(",", "").replace(".", "").isdigit() or not row[i] for row in rows) for i in range(len(head))
    ]
    rule = "|".join("--:" if number else "---" for number in numbers)
    lines = ["| " + " | ".join(head) + " |", f"|{rule}|"]
    return "\n".join([*lines, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)])
