"""A Spark that runs before the first job needs it.

Most of the time until the first row of a job is the start of Spark: its JVM, the classes that a query loads, and the
Python workers. So a gateway can do all of that when it starts, with a job of one row, and again after its Spark has
ended.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from stateplan.common.errors import StateplanError
from stateplan.runtime.spark.session import running_context, runs_elsewhere, spark_of
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs

_SECONDS = 5.0
"""Between two looks at whether Spark runs."""

_FIRST = (
    "CREATE TABLE one_row (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')",
    "CREATE TABLE nothing (a INT, n BIGINT) WITH ('connector' = 'blackhole')",
    "INSERT INTO nothing SELECT a, COUNT(*) FROM one_row GROUP BY a",
)

_log = logging.getLogger(__name__)


class WarmSpark:
    """Keeps a Spark that is ready for jobs. It starts Spark in a thread of its own.

    Args:
        options: the options of the gateway. Those of jobs, such as a checkpoint directory or a metrics reporter, do not
            hold for the job of one row.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {
            key: text for key, text in options.items() if key.startswith("spark.") or key == "parallelism.default"
        } | {"table.exec.local.max-input-size": "0", "table.dml-sync": "true"}
        self._stop_event = threading.Event()
        threading.Thread(target=self._keep, name="warm Spark", daemon=True).start()

    def stop(self) -> None:
        """Starts no other Spark. One that runs is left to its jobs."""
        self._stop_event.set()

    def _keep(self) -> None:
        while not self._stop_event.is_set():
            if running_context() is None and not self._warm_up():
                return
            self._stop_event.wait(_SECONDS)

    def _warm_up(self) -> bool:
        """Starts Spark, and runs a job there; not on a cluster, where jobs need a checkpoint directory. Returns whether
        that was possible."""
        try:
            spark_of(self._options, lasting=True)
            if runs_elsewhere(self._options):
                return True
            environment = TableEnvironment.create(self._options, jobs=Jobs())
            for statement in _FIRST:
                environment.execute_sql(statement)
        except StateplanError as error:
            _log.warning("Spark cannot be kept ready: %s", error)
            return False
        _log.info("Spark is ready")
        return True
