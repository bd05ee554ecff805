"""Figures for listeners of Spark: with every progress event the figures of the same micro-batch."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

from stateplan.runtime.metrics.job_metrics import metrics_of_run
from stateplan.runtime.metrics.records import BatchMetrics, JobInfo
from stateplan.runtime.spark.tweaks import OFF, Tweaks


def _from_json(listener: StreamingQueryListener, tweaks: Tweaks) -> Any:
    """The listener as the JVM sees it, which takes a progress event over as one text."""
    from pyspark import SparkContext
    from pyspark.sql.streaming.listener import JStreamingQueryListener, QueryProgressEvent

    class FromJson(JStreamingQueryListener):  # type: ignore[misc] # a base without types
        def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802
            event = tweaks.attempt("json-progress", parse, jevent)
            if event is None:
                super().onQueryProgress(jevent)
            else:
                self.pylistener.onQueryProgress(event)

    def parse(event: Any) -> QueryProgressEvent:
        return QueryProgressEvent.fromJson({"progress": json.loads(event.progress().json())})

    jvm: Any = SparkContext._jvm  # noqa: SLF001 - how PySpark's own listeners reach the JVM
    return jvm.PythonStreamingQueryListenerWrapper(FromJson(listener))


class MetricsListener(StreamingQueryListener):  # type: ignore[misc] # a base without types
    """A ``StreamingQueryListener`` that is given our figures together with Spark's progress.

    Overwrite :meth:`onBatchMetrics`, and of Spark's methods what you need; :meth:`onQueryProgress` has to call the one
    here. As Spark says of all listeners, they are called some time after the micro-batch, in another thread.
    """

    _jvm_listener: Any = None

    @property
    def _jlistener(self) -> Any:
        if self._jvm_listener is None:
            spark = SparkSession.active()
            tweaks = Tweaks({OFF: spark.sparkContext.getConf().get(OFF, "") or ""})
            self._jvm_listener = tweaks.attempt("json-progress", _from_json, self, tweaks) or super()._jlistener
        return self._jvm_listener

    def onBatchMetrics(self, progress: Any, metrics: BatchMetrics, job: JobInfo) -> None:  # noqa: N802
        """A micro-batch of a stateplan job was committed.

        Args:
            progress: Spark's ``StreamingQueryProgress``.
            metrics: our figures, with Spark's phases.
            job: what the operators of the figures are.
        """

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """See Spark."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Finds the figures of the micro-batch, and calls :meth:`onBatchMetrics` with them."""
        progress = event.progress
        job = metrics_of_run(str(progress.runId))
        record = None if job is None else job.record(progress.batchId)
        if job is not None and record is not None:
            record.spark = {name: float(ms) for name, ms in progress.durationMs.items()}
            self.onBatchMetrics(progress, record, job.info)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """See Spark."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """See Spark."""
