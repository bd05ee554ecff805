"""A job of Flink that a test takes from step to step: its rows arrive in files, and its changes are read from files."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from stateplan.common.errors import StateplanError
from stateplan.testing.flink_clock import free_port
from stateplan.testing.flink_files import ENGINE

_SECONDS = 60.0
"""A step that takes longer fails."""
_POLL = 0.05


class FlinkJob:
    """A plan that Flink executes.

    Args:
        plan: the file of the plan.
        options: of the session.
        savepoint: from which it continues; None for a new job.

    Raises:
        StateplanError: TEST009, Flink refuses the plan.
    """

    def __init__(self, plan: Path, options: Mapping[str, str], savepoint: str | None = None) -> None:
        from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found] # not required

        environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        port = free_port()
        settings = {
            **options,
            "parallelism.default": "1",
            "execution.checkpointing.interval": "50 ms",
            "pipeline.auto-watermark-interval": "5 ms",
            "metrics.reporters": "rows",
            "metrics.reporter.rows.factory.class": "org.apache.flink.metrics.prometheus.PrometheusReporterFactory",
            "metrics.reporter.rows.port": f"{port}",
            **({} if savepoint is None else {"execution.state-recovery.path": savepoint}),
        }
        for key, text in settings.items():
            environment.get_config().set(key, text)
        self._rest = httpx.Client(base_url=f"http://127.0.0.1:{port}/metrics", timeout=10)
        with of_flink(f"EXECUTE PLAN '{plan}'"):
            self._client = environment.execute_sql(f"EXECUTE PLAN '{plan}'").get_job_client()
        self._id = str(self._client.get_job_id())

    def settle(self, rows: int) -> None:
        """Waits until so many rows have come from the sources since the job started, and what follows from them is in
        the files of the sinks. Raises StateplanError TEST009."""
        self._until(lambda: self._rows_of_sources() >= rows)
        # A checkpoint that begins from here on follows these rows through all operators. One may have begun before.
        count = self._checkpoints() + 3
        self._until(lambda: self._checkpoints() >= count)

    def stop(self, folder: Path, drain: bool = False) -> str:
        """Stops the job; with ``drain``, its input has ended. Returns the place of its savepoint. Raises StateplanError
        TEST009."""
        from pyflink.common.completable_future import CompletableFuture  # type: ignore[import-not-found] # not required
        from pyflink.java_gateway import get_gateway  # type: ignore[import-not-found] # not required

        form = get_gateway().jvm.org.apache.flink.core.execution.SavepointFormatType.CANONICAL
        job = self._client._j_job_client  # noqa: SLF001 # PyFlink's own method is that of an older Flink
        with of_flink("STOP JOB"):
            return str(CompletableFuture(job.stopWithSavepoint(drain, str(folder), form), str).result())

    def cancel(self) -> None:
        """Ends the job."""
        with of_flink("STOP JOB"):
            self._client.cancel().result()

    def _figures(self, name: str) -> dict[str, float]:
        """A metric of the job, by the name of its operator: from Flink's reporter, as its REST API caches by the clock
        that stands still. Raises StateplanError TEST009, the job has failed."""
        if self._client.get_job_status().result().name in ("FAILED", "FAILING", "RESTARTING"):
            with of_flink("EXECUTE PLAN"):
                self._client.get_job_execution_result().result()
        try:
            text = self._rest.get("").text
        except httpx.TransportError:
            return {}
        figures: dict[str, float] = {}
        for labels, number in re.findall(rf"(?m)^{name}{{(.*)}} (\S+)$", text):
            label = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            if label.get("job_id") == self._id:
                operator = label.get("operator_name", "")
                figures[operator] = figures.get(operator, 0) + float(number)
        return figures

    def _rows_of_sources(self) -> float:
        figures = self._figures("flink_taskmanager_job_task_operator_numRecordsOut")
        return sum(count for name, count in figures.items() if name.startswith("Source"))

    def _checkpoints(self) -> float:
        return sum(self._figures("flink_jobmanager_job_numberOfCompletedCheckpoints").values())

    def _until(self, is_done: Callable[[], bool]) -> None:
        end = time.monotonic() + _SECONDS
        while not is_done():
            if time.monotonic() > end:
                why = f"the job does not go on for {_SECONDS:.0f} seconds"
                raise StateplanError("TEST009", engine=ENGINE, statement="EXECUTE PLAN", why=why)
            time.sleep(_POLL)


@contextmanager
def of_flink(statement: str) -> Iterator[None]:
    """Errors of Flink within become StateplanError TEST009."""
    try:
        yield
    except Exception as error:  # of Flink's JVM, through Py4J
        lines = [line for line in str(error).splitlines() if line.strip()]
        reason = next((line for line in reversed(lines) if "Exception:" in line), lines[0] if lines else "")
        raise StateplanError("TEST009", engine=ENGINE, statement=statement, why=reason.strip()) from None
