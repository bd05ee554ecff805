"""Options of Flink 2.3 that have no meaning here, each with its replacement or the reason.

The keys are those of the classes ``CheckpointingOptions``, ``ExecutionOptions``, ``PipelineOptions``,
``StateBackendOptions``, ``TableConfigOptions``, ``ExecutionConfigOptions`` and their kin, with the older keys that
Flink reads as well, those of ``PythonOptions``, and some that only releases before 2.0 knew. A script that sets them
still runs.
"""

from __future__ import annotations

_STATE_STORE = "state is kept in Spark's state store"

_KEYS: dict[str, str] = {
    _STATE_STORE: """
        state.backend.async
    """,
    "a job runs in the process that starts it": """
        execution.allow-client-job-configurations execution.job-listeners execution.job-status-changed-listeners
        execution.program-config.enabled execution.program-config.wildcards execution.shutdown-on-application-finish
        execution.shutdown-on-attached-exit execution.submit-failed-job-on-application-error
        execution.terminate-application-on-any-job-terminated-exceptionally pipeline.cached-files
        pipeline.global-job-parameters pipeline.vertex-description-mode pipeline.vertex-name-include-index-prefix
    """,
    "there is no asynchronous state": """
        execution.async-state.active-buffer-size execution.async-state.active-buffer-timeout
        execution.async-state.total-buffer-size
    """,
    "it applies to batch queries": """
        execution.batch-shuffle-mode execution.batch-state-backend.enabled
        execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task
        execution.batch.adaptive.auto-parallelism.default-source-parallelism
        execution.batch.adaptive.auto-parallelism.enabled execution.batch.adaptive.auto-parallelism.max-parallelism
        execution.batch.adaptive.auto-parallelism.min-parallelism execution.batch.job-recovery.enabled
        execution.batch.job-recovery.previous-worker.recovery.timeout
        execution.batch.job-recovery.snapshot.min-pause execution.batch.speculative.block-slow-node-duration
        execution.batch.speculative.enabled execution.batch.speculative.max-concurrent-executions
        execution.sort-keyed-partition.memory execution.sort-partition.memory execution.sorted-inputs.enabled
        execution.sorted-inputs.memory table.exec.disabled-operators
        table.exec.local-hash-agg.adaptive.distinct-value-rate-threshold table.exec.local-hash-agg.adaptive.enabled
        table.exec.local-hash-agg.adaptive.sampling-threshold table.exec.resource.external-buffer-memory
        table.exec.resource.hash-agg.memory table.exec.resource.hash-join.memory table.exec.resource.sort.memory
        table.exec.sort.async-merge-enabled table.exec.sort.default-limit table.exec.sort.max-num-file-handles
        table.exec.spill-compression.block-size table.exec.spill-compression.enabled
        table.exec.shuffle-mode table.exec.window-agg.buffer-size-limit table.optimizer.adaptive-broadcast-join.strategy
        table.optimizer.bushy-join-reorder-threshold table.optimizer.dynamic-filtering.enabled
        table.optimizer.join.broadcast-threshold table.optimizer.runtime-filter.enabled
        table.optimizer.runtime-filter.max-build-data-size table.optimizer.runtime-filter.min-filter-ratio
        table.optimizer.runtime-filter.min-probe-data-size table.optimizer.skewed-join-optimization.skewed-factor
        table.optimizer.skewed-join-optimization.skewed-threshold table.optimizer.skewed-join-optimization.strategy
        table.optimizer.source.report-statistics-enabled
    """,
    "rows move in micro-batches; 'execution.checkpointing.interval' sets the time between their starts": """
        execution.buffer-timeout execution.buffer-timeout.enabled execution.buffer-timeout.interval
    """,
    "there are no barriers to align": """
        execution.checkpointing.aligned-checkpoint-timeout execution.checkpointing.alignment-timeout
        execution.checkpointing.unaligned execution.checkpointing.unaligned.enabled
        execution.checkpointing.unaligned.forced execution.checkpointing.unaligned.interruptible-timers.enabled
        execution.checkpointing.unaligned.max-subtasks-per-channel-state-file
        execution.checkpointing.unaligned.recover-output-on-downstream.enabled
    """,
    "checkpoints are micro-batches of Spark": """
        execution.checkpointing.approximate-local-recovery execution.checkpointing.cleaner.parallel-mode
        execution.checkpointing.create-subdir execution.checkpointing.data-inline-threshold
        execution.checkpointing.during-recovery.enabled execution.checkpointing.local-backup.dirs
        execution.checkpointing.local-backup.enabled
        execution.checkpointing.recover-without-channel-state.checkpoint-id
        execution.checkpointing.snapshot-compression execution.checkpointing.write-buffer-size
        execution.state-recovery.approximate-local-recovery execution.state-recovery.from-local
        execution.state-recovery.without-channel-state.checkpoint-id pipeline.sources.pause-until-first-checkpoint
        state.backend.fs.memory-threshold state.backend.fs.write-buffer-size state.backend.local-recovery
        state.checkpoint.cleaner.parallel-mode state.checkpoints.create-subdir state.storage.fs.memory-threshold
        state.storage.fs.write-buffer-size
    """,
    "the last micro-batch of bounded input is a checkpoint too": """
        execution.checkpointing.checkpoints-after-tasks-finish
        execution.checkpointing.checkpoints-after-tasks-finish.enabled
    """,
    "a job always continues from its last checkpoint": """
        execution.checkpointing.prefer-checkpoint-for-recovery
    """,
    "filters always go into sources that take them": """
        table.optimizer.source.aggregate-pushdown-enabled table.optimizer.source.predicate-pushdown-enabled
    """,
    "checkpoints are always kept": """
        execution.checkpointing.externalized-checkpoint-retention
    """,
    "checkpoints are micro-batches of Spark, and upload only changes": """
        execution.checkpointing.file-merging.across-checkpoint-boundary execution.checkpointing.file-merging.enabled
        execution.checkpointing.file-merging.max-file-size
        execution.checkpointing.file-merging.max-space-amplification
        execution.checkpointing.file-merging.max-subtasks-per-file
        execution.checkpointing.file-merging.pool-blocking
    """,
    "'execution.checkpointing.interval' holds at all times": """
        execution.checkpointing.interval-during-backlog
    """,
    "checkpoints come one after the other": """
        execution.checkpointing.max-concurrent-checkpoints
    """,
    "micro-batches follow each other; 'execution.checkpointing.interval' sets the time between their starts": """
        execution.checkpointing.min-pause
    """,
    "the checkpoint directory has the last micro-batches; 'spark.sql.streaming.minBatchesToRetain' sets how many": """
        execution.checkpointing.num-retained state.checkpoints.num-retained
    """,
    "checkpoints are files in 'execution.checkpointing.dir'": """
        execution.checkpointing.storage state.checkpoint-storage
    """,
    "a checkpoint is a micro-batch, which takes as long as it needs": """
        execution.checkpointing.timeout
    """,
    "a micro-batch that fails ends the job, which continues from the one before": """
        execution.checkpointing.tolerable-failed-checkpoints
    """,
    "use USE CATALOG instead": """
        execution.current-catalog
    """,
    "use USE instead": """
        execution.current-database
    """,
    "use 'table.exec.state.ttl' instead": """
        execution.max-idle-state-retention execution.min-idle-state-retention
    """,
    "use 'pipeline.max-parallelism' instead": """
        execution.max-parallelism
    """,
    "use 'sql-client.execution.max-table-result.rows' instead": """
        execution.max-table-result-rows
    """,
    "use 'parallelism.default' instead": """
        execution.parallelism
    """,
    "watermarks advance with each micro-batch": """
        execution.periodic-watermarks-interval pipeline.auto-watermark-interval
    """,
    "there is one planner": """
        execution.planner table.planner
    """,
    "use 'sql-client.execution.result-mode' instead": """
        execution.result-mode
    """,
    "'execution.state-recovery.accept' = 'reset' discards state that the plan does not use": """
        execution.savepoint.ignore-unclaimed-state execution.state-recovery.ignore-unclaimed-state
    """,
    "time is that of the columns that a query names": """
        execution.time-characteristic pipeline.time-characteristic
    """,
    "use 'execution.runtime-mode' instead": """
        execution.type
    """,
    "uids of operators are always hashes of their meaning": """
        pipeline.auto-generate-uids
    """,
    "patterns keep their rows in the state of the operator": """
        pipeline.cep.sharedbuffer.cache.entry-slots pipeline.cep.sharedbuffer.cache.event-slots
        pipeline.cep.sharedbuffer.cache.statistics-interval
    """,
    "functions and connectors are Python; 'spark.jars' takes jars for Spark": """
        pipeline.classpaths pipeline.jars
    """,
    "rows are not Java objects": """
        pipeline.closure-cleaner-level pipeline.force-avro pipeline.force-kryo pipeline.force-kryo-avro
        pipeline.default-kryo-serializers pipeline.generic-types pipeline.registered-kryo-types
        pipeline.registered-pojo-types pipeline.serialization-config
    """,
    "all operators have the parallelism 'parallelism.default'": """
        pipeline.jobvertex-parallelism-overrides
    """,
    "operators process batches of rows, not objects": """
        pipeline.object-reuse
    """,
    "stateless operators always run in one chain": """
        pipeline.operator-chaining pipeline.operator-chaining.chain-operators-with-different-max-parallelism
        pipeline.operator-chaining.enabled
    """,
    "watermarks are aligned in the options of the source table ('scan.watermark.alignment.group')": """
        pipeline.watermark-alignment.allow-unaligned-source-splits pipeline.watermark-alignment.buffer-size
    """,
    "modules are found on the Python path of stateplan": """
        python.archives python.files python.pythonpath
    """,
    "Python functions run in the Python that runs stateplan": """
        python.client.executable python.executable python.execution-mode python.systemenv.enabled
    """,
    "Python functions get the rows of a micro-batch as they come, and run in the workers of Spark": """
        python.fn-execution.arrow.batch.size python.fn-execution.buffer.memory.size python.fn-execution.bundle.size
        python.fn-execution.bundle.time python.fn-execution.framework.memory.size python.fn-execution.memory.managed
        python.fn-execution.streaming.enabled python.job-options python.map-state.iterate-response-batch-size
        python.map-state.read-cache-size python.map-state.write-cache-size python.metric.enabled
        python.operator-chaining.enabled python.profile.enabled python.state.cache-size
    """,
    "packages are those of the Python environment of stateplan": """
        python.requirements
    """,
    "the built-in catalog and database are default_catalog and default_database": """
        table.builtin-catalog-name table.builtin-database-name
    """,
    "there are no listeners": """
        table.catalog-modification.listeners
    """,
    "there are no asynchronous lookups": """
        table.exec.async-lookup.buffer-capacity table.exec.async-lookup.key-ordered-enabled
        table.exec.async-lookup.output-mode table.exec.async-lookup.timeout
    """,
    "it applies to Flink's own operators": """
        table.exec.async-ml-predict.max-concurrent-operations table.exec.async-ml-predict.output-mode
        table.exec.async-ml-predict.timeout table.exec.async-state.enabled
        table.exec.async-vector-search.max-concurrent-operations table.exec.async-vector-search.output-mode
        table.exec.async-vector-search.timeout table.exec.operator-fusion-codegen.enabled
        table.exec.simplify-operator-name-enabled table.exec.unbounded-over.version
        table.optimizer.reuse-optimize-block-with-digest-enabled
    """,
    "there are no asynchronous table functions": """
        table.exec.async-table.max-concurrent-operations table.exec.async-table.max-retries
        table.exec.async-table.retry-delay table.exec.async-table.retry-strategy table.exec.async-table.timeout
    """,
    "there are no delta joins": """
        table.exec.delta-join.cache-enabled table.exec.delta-join.left.cache-size
        table.exec.delta-join.right.cache-size
    """,
    "an interval join removes rows as soon as nothing can match them": """
        table.exec.interval-join.min-cleanup-interval
    """,
    "the state of the sink has one form": """
        table.exec.sink.upsert-materialize-strategy.adaptive.threshold.high
        table.exec.sink.upsert-materialize-strategy.adaptive.threshold.low
    """,
    "no Java code is generated": """
        table.generated-code.max-length table.generated-code.max-members
    """,
    "process table functions take any number of tables": """
        table.optimizer.ptf.max-tables
    """,
    "functions are Python modules, not jars": """
        table.resources.download-dir
    """,
    "no table is created if the INSERT cannot be started": """
        table.rtas-ctas.atomicity-enabled
    """,
    "'stateplan' finds secrets in files and in the environment": """
        table.secret-store.kind
    """,
}

NO_EFFECT: dict[str, str] = {key: why for why, keys in _KEYS.items() for key in keys.split()}
"""Key to reason."""

_NO_CLUSTER = "there is no Flink cluster"

_FAMILIES = """
    akka. application-result-store. blob. classloader. client. cluster. compiler. completed-application-store.
    containerized. env. external-resource events. flink. fs. heartbeat. high-availability historyserver. io. jmx.
    job-event. job-result-store. jobmanager. jobstore. kubernetes. materialized-table. metrics.fetcher.
    metrics.internal. metrics.job. metrics.latency. metrics.scope. metrics.system-resource netty. pekko. plugin.
    process. queryable-state. resourcemanager. rest. s3. scheduler-mode security. shuffle-service-factory. slot.
    slotmanager. slow-task-detector. task. taskmanager. traces. user. web. yarn. zookeeper.
"""

_STATE_BACKENDS = """
    dstl. state.backend.changelog. state.backend.forst.block. state.backend.forst.bloom-filter.
    state.backend.forst.cache.lru. state.backend.forst.compaction. state.backend.forst.compression.
    state.backend.forst.executor. state.backend.forst.files. state.backend.forst.local-dir state.backend.forst.log.
    state.backend.forst.memory. state.backend.forst.metrics. state.backend.forst.options-factory
    state.backend.forst.primary-dir state.backend.forst.rescaling.
    state.backend.forst.restore-overlap-fraction-threshold state.backend.forst.sync. state.backend.forst.thread.
    state.backend.forst.timer-service. state.backend.forst.use-bloom-filter
    state.backend.forst.use-ingest-db-restore-mode state.backend.forst.write-batch-size state.backend.forst.writebuffer.
    state.backend.latency-track. state.backend.rocksdb. state.changelog. state.latency-track. state.size-track.
"""

NO_EFFECT_PREFIXES: dict[str, str] = {
    **dict.fromkeys(_FAMILIES.split(), _NO_CLUSTER),
    **dict.fromkeys(_STATE_BACKENDS.split(), _STATE_STORE),
    "sql-gateway.": "'stateplan gateway' has these as options of its command",
    "table.exec.hive.": "there is no connector for Hive",
    "table.exec.iceberg.": "there is no connector for Iceberg",
}
"""Families of keys that configure a cluster and its processes, state backends, or connectors that do not exist here.
They include keys of users and of many releases."""
