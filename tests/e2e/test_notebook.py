"""Results in a real IPython kernel: a query's rows change on the screen while its job runs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
ROWS = re.compile(r"<p>(?:the last 20 of )?(\d+) rows?; job (\w+)</p>")


class Kernel:
    """A kernel, and what its cells show."""

    def __init__(self) -> None:
        from jupyter_client.blocking.client import BlockingKernelClient
        from jupyter_client.manager import KernelManager

        self.manager = KernelManager()
        self.manager.start_kernel(cwd=str(ROOT))
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=120)

    def messages(self, seconds: float) -> Iterator[dict[str, Any]]:
        """What cells give, for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                yield self.client.get_iopub_msg(timeout=left)
            except Empty:
                return

    def run(self, code: str) -> list[dict[str, Any]]:
        """The outputs of a cell, to its end."""
        sent, out = self.client.execute(code), []
        for message in self.messages(240):
            content = message["content"]
            if message["msg_type"] == "error":
                raise AssertionError("\n".join(content["traceback"]))
            if message["parent_header"].get("msg_id") == sent and content.get("execution_state") == "idle":
                return out
            if message["msg_type"] in ("display_data", "execute_result", "update_display_data"):
                out.append({"kind": message["msg_type"], **content})
        raise AssertionError("the cell did not end")

    def pages(self, code: str, last: str) -> list[str]:
        """What a display shows from a cell on, until it shows ``last``."""
        pages = [output["data"]["text/html"] for output in self.run(code)]
        for message in self.messages(0 if pages and last in pages[-1] else 120):
            if message["msg_type"] == "update_display_data":
                pages.append(message["content"]["data"]["text/html"])
                if last in pages[-1]:
                    return pages
        assert last in pages[-1]
        return pages

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    kernel = Kernel()
    kernel.run("from stateplan import TableEnvironment; env = TableEnvironment.create()")
    yield kernel
    kernel.close()


def test_tables_plans_and_results_are_drawn(kernel: Kernel) -> None:
    (table,) = kernel.run("env.sql_query('SELECT 1 AS a')")
    assert table["data"]["text/plain"] == "Table(a INT NOT NULL)"
    assert ">INT</td>" in table["data"]["text/html"]
    kernel.run("env.execute_sql(\"CREATE TABLE s (a INT) WITH ('connector' = 'blackhole')\")")
    (plan,) = kernel.run("env.compile_plan_sql('INSERT INTO s SELECT 1')")
    assert "<svg " in plan["data"]["text/html"]
    (shown,) = kernel.run("env.execute_sql('SHOW TABLES')")
    assert shown["kind"] == "display_data"
    assert ">s</td>" in shown["data"]["text/html"]


@pytest.mark.spark
def test_the_rows_of_a_running_query_change(kernel: Kernel) -> None:
    kernel.run("env.execute_sql(\"CREATE TABLE t (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '50')\")")
    first, *_ = kernel.run("result = env.execute_sql('SELECT n, n * 2 AS m FROM t'); result")
    display, counts = first["transient"]["display_id"], []
    for message in kernel.messages(120):
        if message["msg_type"] == "update_display_data" and message["content"]["transient"]["display_id"] == display:
            found = ROWS.search(message["content"]["data"]["text/html"])
            assert found is not None
            assert found[2] == "RUNNING"
            counts.append(int(found[1]))
            if len(counts) == 3:
                break
    assert counts == sorted(set(counts))
    assert counts[0] > 0
    pages = kernel.pages("result.close()", "job CANCELED")
    assert pages[-1].count("<tr>") == 21


@pytest.mark.spark
def test_a_bounded_query_ends_on_the_screen(kernel: Kernel) -> None:
    kernel.run("rows = env.from_elements([(i % 3, i) for i in range(30)], ['k', 'v'])")
    query = "q = env.sql_query(f'SELECT k, SUM(v) AS s FROM {rows} GROUP BY k').execute(); q"
    assert "<p>3 rows; job FINISHED</p>" in kernel.pages(query, "job FINISHED")[-1]
    (shown,) = kernel.run("display(sorted(q.to_polars().rows()))")
    assert shown["data"]["text/plain"] == "[(0, 135), (1, 145), (2, 155)]"
    assert "<p>3 rows; job FINISHED</p>" in kernel.run("q")[0]["data"]["text/html"]
