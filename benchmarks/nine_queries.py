"""The nine queries of the benchmark, the machine in words, and reports."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from scripts.pages import page_path

HERE = Path(__file__).parent
REPORT = page_path("benchmarks")
MARKERS = ("<!-- measured: begin -->", "<!-- measured: end -->")


@dataclass(frozen=True)
class Query:
    """A query, and the tables it reads."""

    name: str
    title: str
    reads: tuple[str, ...]


QUERIES = (
    Query("filter", "stateless filter", ("orders",)),
    Query("dedup", "keep-first deduplication", ("orders",)),
    Query("product_stats", "FLIP-292 example 1: deduplication, then aggregation", ("orders",)),
    Query("order_tracking", "FLIP-292 example 2: inner join of orders and logistics", ("orders", "logistics")),
    Query("left_join", "the same as a left join", ("orders", "logistics")),
    Query("top3", "top 3 orders of each product, append input", ("orders",)),
    Query("top3_buyers", "top 3 buyers of each product, update input", ("orders",)),
    Query("distinct_buyers", "COUNT DISTINCT in two phases, split", ("orders",)),
    Query("normalize", "changelog normalize of change events", ("order_changes",)),
)


def script(query: Query, data: Path, source_options: str, folder: Path) -> Path:
    """The query's statements with the input folder filled in, as a file."""
    text = "\n----\n".join((HERE / "queries" / f"{n}.sql").read_text().strip() for n in ("tables", query.name))
    path = folder / f"{query.name}-{data.name}.sql"
    path.write_text(text.replace("${DATA}", str(data)).replace("${SOURCE_OPTIONS}", source_options))
    return path


def machine() -> str:
    """The machine in one sentence."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB memory, "
        f"Python {platform.python_version()}"
    )


def write_report(text: str, markers: tuple[str, str] = MARKERS, report: Path = REPORT) -> None:
    """Puts ``text`` between the markers of a report and leaves the rest of it alone."""
    begin, end = (re.escape(m) for m in markers)
    body = f"{markers[0]}\n{text}\n{markers[1]}"
    before = report.read_text(encoding="utf-8")
    report.write_text(re.sub(f"{begin}.*?{end}", lambda _: body, before, flags=re.S), encoding="utf-8")
