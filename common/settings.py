"""The options of a session: Flink's keys, one row of a table each, and the values a session has set.

A row says how a value is read, what holds without one, and what the option means. An option of Flink that changes
nothing here says why in ``no_effect``: values other than the default are accepted with a note. One that must not be
ignored says why in ``only_default``: every value but the default is an error. A key without a row is an error that
names the nearest one.
``spark.*`` goes to Spark unchanged.

Codes: OPT001 to OPT019; OPT105 for a malformed value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from stateplan.common.errors import OptionError, Place, nearest
from stateplan.common.flink_options import NO_EFFECT, NO_EFFECT_PREFIXES
from stateplan.common.options import Option, OptionType, option_text, parse_value
from stateplan.common.redaction import redacted_options
from stateplan.common.zone import session_zone, zone_id

_BOOLEAN, _INTEGER, _LONG = OptionType.BOOLEAN, OptionType.INTEGER, OptionType.LONG
_MEMORY = OptionType.MEMORY_SIZE
_DURATION, _ENUM, _FLOAT, _STRING = OptionType.DURATION, OptionType.ENUM, OptionType.FLOAT, OptionType.STRING

_ONE_SHAPE = "plans have the shape of the default; their rows are the same"
_NO_CLUSTER = "there is no Flink cluster"
_CLIENT = "a job runs in the process that starts it"
_UIDS = "uids of operators are always hashes of their meaning"
_MINI_BATCH = "every micro-batch is a mini-batch"
_BATCH = "it applies to batch queries"
_OWN = "it applies to Flink's own operators"

TRACED = "telemetry.opentelemetry.enabled"
"""The option that sends traces, metrics and logs of jobs."""

# fmt: off
_ROWS: tuple[Option, ...] = (
    # state and plans
    Option("table.exec.state.ttl", _DURATION, "Default TTL of state, from its last write. 0 never expires. The "
           "compiler writes it into the plan, where each state can have its own TTL.", default=0),
    Option("table.exec.time-bound-state.ttl", _DURATION, "TTL of state that operators drop by event time or by the "
           "clock: windows, interval joins, sorts. For input that becomes idle. Flink has no such TTL.", default=0),
    Option("table.exec.state.audit", _ENUM, "Whether the job remembers expired rows and records which of them later "
           "rows need. SAMPLE: for some of the keys. ALL: for all, with as much state as if TTLs were longer by the "
           "retention. See [expired rows that were needed](lost-rows.md). Flink has no such option.",
           default="OFF", values=("OFF", "SAMPLE", "ALL")),
    Option("table.exec.state.audit.one-in", _INTEGER, "SAMPLE follows one in this number of keys.", default=200,
           minimum=1),
    Option("table.exec.state.audit.retention", _DURATION, "How long the audit remembers a row after it expired, and "
           "keeps a record of one that was needed. 0 is without limit.", default=604_800_000),
    Option("table.exec.state.budget", _STRING, "How much state a job may keep: rows or bytes of the whole job, of "
           "states by selector, or both, such as '20 gb; join.left=2000000 rows'. See "
           "[state budgets](choosing-ttls.md#state-budgets)."),
    Option("table.exec.state.budget.policy", _ENUM, "What happens over the budget. WARN: a note. STOP: the job stops "
           "after the micro-batch. SHORTEN: TTLs get shorter, not below the minTtl of the state in the plan.",
           default="WARN", values=("WARN", "STOP", "SHORTEN")),
    Option("table.plan.force-recompile", _BOOLEAN, "Whether COMPILE PLAN overwrites an existing file.", default=False),
    Option("table.plan.compile.catalog-objects", _ENUM, "What a plan stores of its tables: everything (ALL), "
           "everything except the options (SCHEMA), or only the name (IDENTIFIER).",
           default="ALL", values=("ALL", "SCHEMA", "IDENTIFIER")),
    Option("table.plan.restore.catalog-objects", _ENUM, "Where the tables of a plan come from: the catalog, or the "
           "plan if the catalog does not have the table (ALL); only the plan (ALL_ENFORCED); only the catalog "
           "(IDENTIFIER).", default="ALL",
           values=("ALL", "ALL_ENFORCED", "IDENTIFIER")),
    Option("table.catalog-store.kind", _STRING, "Where definitions of catalogs are kept: in memory until the "
           "session ends (generic_in_memory), or in files for later sessions (file). See [catalogs](catalogs.md).",
           default="generic_in_memory"),
    Option("table.catalog-store.file.path", _STRING, "Folder of the definitions of catalogs. Default: "
           "`stateplan/catalogs` in the user's folder for data."),
    Option("table.exec.uid.generation", _ENUM, "When operators get stable uids.", default="PLAN_ONLY",
           values=("PLAN_ONLY", "ALWAYS", "DISABLED"), no_effect=_UIDS),
    Option("table.exec.uid.format", _STRING, "Format of the uids of operators.", default="<id>_<transformation>",
           no_effect=_UIDS),
    # running
    Option("execution.runtime-mode", _ENUM, "Whether a query emits changes while it runs (STREAMING), or its final "
           "rows when its bounded input ends (BATCH). See [batch mode](sql.md#batch-mode).", default="STREAMING",
           values=("STREAMING", "BATCH")),
    Option("execution.checkpointing.dir", _STRING, "Checkpoint directory of the job. The job continues from a "
           "checkpoint in this directory if the plan is compatible."),
    Option("execution.checkpointing.savepoint-dir", _STRING, "Directory for savepoints: copies of the checkpoints of "
           "jobs that STOP JOB ... WITH SAVEPOINT ends. See [savepoints](savepoints.md)."),
    Option("execution.state-recovery.path", _STRING, "Savepoint to start the job from. It is copied into the "
           "checkpoint directory, unless the directory began as a copy of it before. See "
           "[savepoints](savepoints.md)."),
    Option("execution.state-recovery.claim-mode", _ENUM, "Who owns the savepoint that a job starts from. NO_CLAIM: the "
           "user. The job never changes it.", default="NO_CLAIM", values=("NO_CLAIM", "CLAIM"),
           no_effect="a job copies its savepoint, and never removes it"),
    Option("execution.state-recovery.accept", _ENUM, "How to treat state in the checkpoint that does not match the "
           "plan. none: refuse to run. rewrite: convert it. derive: also compute it from existing state. backfill: "
           "also make it from the history of the inputs. reset: also discard it, so that its operators start empty. "
           "unknown: also discard it where a match cannot be determined. derive and backfill need a new checkpoint "
           "directory: see `stateplan plan evolve`.",
           default="none", values=("none", "rewrite", "derive", "backfill", "reset", "unknown")),
    Option("execution.state-recovery.output", _ENUM, "What sinks get when a changed plan takes over the state of "
           "another one in a new checkpoint directory. changes: the changes that the new plan makes from then on. "
           "corrections: before that, the changes that turn the rows of the old plan into those of the new one. See "
           "[changing a plan](plan-diff.md#corrections).", default="changes", values=("changes", "corrections")),
    Option("execution.checkpointing.interval", _DURATION, "Minimum time between the starts of two micro-batches of an "
           "unbounded query.",
           minimum=1),
    Option("execution.micro-batch.target-latency", _DURATION, "How long a micro-batch should take. While there is a "
           "backlog, a micro-batch reads as many rows as the last ones have processed in this time. Default: only the "
           "limits of the tables apply. See [micro-batches](sql.md#micro-batches). Flink has no such option.",
           minimum=1),
    Option("parallelism.default", _INTEGER, "Number of partitions of operators. A new value on an existing checkpoint "
           "rescales its state. Default: the parallelism of the checkpoint; for a new one the cores of the cluster, "
           "or 2 on one machine. See [rescaling](rescaling.md).",
           minimum=1),
    Option("pipeline.max-parallelism", _INTEGER, "Number of key groups of keyed state, and the maximum parallelism. "
           "It is fixed for the life of a checkpoint.", minimum=1),
    Option("execution.memory.total", _MEMORY, "How much memory a job takes on this machine, in all its processes. "
           "Spark's heap, the memory for state and the size of micro-batches follow from it. Default: no limit. See "
           "[memory of a job](state-size.md#memory-of-a-job). Flink has no such option."),
    Option("taskmanager.memory.managed.size", _MEMORY, "Memory for state, besides memory-mapped files. Half is for "
           "RocksDB, and half for runs of state that do not fit on local disk. Default: 512 mb."),
    Option("state.backend.forst.cache.dir", _STRING, "Local folder for copies of runs of state. Default: the folder "
           "for temporary files."),
    Option("state.backend.forst.cache.size-based-limit", _MEMORY, "Maximum size of these copies. The least recently "
           "opened ones are evicted first. Default: no limit."),
    Option("state.backend.forst.cache.reserve-size", _MEMORY, "Disk space that these copies leave free. Default: 256 "
           "mb."),
    Option("pipeline.name", _STRING, "Name of the job."),
    Option("spark.stateplan.tweaks.off", _STRING, "Tweaks of Spark to turn off: names from the "
           "[table below](#tweaks-of-spark), comma-separated, or all."),
    Option("metrics.reporters", _STRING, "Names of metrics reporters, comma-separated. For each, set "
           "metrics.reporter.<name>.factory.class to Flink's Prometheus reporter, and metrics.reporter.<name>.port "
           "to a port or a range such as 9250-9260. See [metrics](metrics.md#prometheus)."),
    Option("lineage.openlineage.enabled", _BOOLEAN, "Whether jobs send OpenLineage events, with datasets, schemas and "
           "column lineage. Needs the extra `openlineage`. See [lineage](lineage.md).", default=False),
    Option("lineage.openlineage.namespace", _STRING, "Namespace of the jobs in OpenLineage events.",
           default="stateplan"),
    Option("lineage.openlineage.interval", _DURATION, "Time between the running events of a job.", default=60_000,
           minimum=1),
    Option(TRACED, _BOOLEAN, "Whether jobs send traces, metrics and logs over OTLP. Needs the extra `opentelemetry`. "
           "See [OpenTelemetry](opentelemetry.md).", default=False),
    Option("telemetry.opentelemetry.endpoint", _STRING, "Address of the receiver of OTLP over HTTP, such as "
           "`http://collector:4318`. Default: the variables of OpenTelemetry, or port 4318 of this machine."),
    Option("telemetry.opentelemetry.signals", _STRING, "What jobs send, comma-separated.",
           default="traces,metrics,logs"),
    Option("slot.request.timeout", _DURATION, "How long a job waits for an executor of a Spark cluster before it "
           "fails.", default=300_000, minimum=1),
    Option("heartbeat.interval", _DURATION, "How often the driver connects to the hosts of a cluster to check that "
           "they are alive. See [clusters](cluster.md#when-a-host-dies). Flink's default is 10 s.",
           default=2000, minimum=100),
    Option("heartbeat.rpc-failure-threshold", _INTEGER, "How often in a row a host does not answer before its "
           "executors count as lost. -1: Spark decides alone. Flink's default is 2.",
           default=5, minimum=-1),
    Option("restart-strategy.type", _ENUM, "When a gateway restarts a job that failed because a process, a machine, "
           "a server or space was missing. See [gateway](gateway.md#jobs-that-fail). Other jobs are not restarted.",
           default="exponential-delay",
           values=("none", "off", "disable", "fixed-delay", "fixeddelay", "failure-rate", "failurerate",
                   "exponential-delay", "exponentialdelay")),
    Option("restart-strategy.fixed-delay.attempts", _INTEGER, "With `fixed-delay`: number of restarts.", default=1,
           minimum=0),
    Option("restart-strategy.fixed-delay.delay", _DURATION, "With `fixed-delay`: wait before each restart.",
           default=1000),
    Option("restart-strategy.failure-rate.max-failures-per-interval", _INTEGER, "With `failure-rate`: number of "
           "restarts within the interval.", default=1, minimum=1),
    Option("restart-strategy.failure-rate.failure-rate-interval", _DURATION, "With `failure-rate`: the interval.",
           default=60_000, minimum=1),
    Option("restart-strategy.failure-rate.delay", _DURATION, "With `failure-rate`: wait before each restart.",
           default=1000),
    Option("restart-strategy.exponential-delay.initial-backoff", _DURATION, "With `exponential-delay`: wait before the "
           "first restart.", default=1000, minimum=1),
    Option("restart-strategy.exponential-delay.max-backoff", _DURATION, "With `exponential-delay`: longest wait.",
           default=60_000, minimum=1),
    Option("restart-strategy.exponential-delay.backoff-multiplier", _FLOAT, "With `exponential-delay`: how much longer "
           "each wait is than the one before.", default=1.5, minimum=1),
    Option("restart-strategy.exponential-delay.reset-backoff-threshold", _DURATION, "With `exponential-delay`: after "
           "this time without a failure, the delays and the attempts start from the beginning.",
           default=3_600_000, minimum=1),
    Option("restart-strategy.exponential-delay.jitter-factor", _FLOAT, "With `exponential-delay`: share of a wait by "
           "which it is longer or shorter at random.", default=0.1, minimum=0),
    Option("restart-strategy.exponential-delay.attempts-before-reset-backoff", _INTEGER, "With `exponential-delay`: "
           "number of restarts before the delays start from the beginning. Flink has no limit by default.",
           default=20, minimum=0),
    Option("table.exec.local.max-input-size", _MEMORY, "Maximum size of the tables of a job that runs "
           "without Spark, in the process of the session. 0: every job runs in Spark. See [where queries "
           "run](sql.md#where-queries-run).",
           default=512 << 20),
    Option("table.exec.local.streams", _BOOLEAN, "Whether a job over unbounded tables can run without Spark. Its "
           "results must not be stored, so it is a SELECT, or writes to `print` or `blackhole` tables. See [where "
           "queries run](sql.md#where-queries-run). A gateway has another default, `false`.", default=True),
    Option("table.dml-sync", _BOOLEAN, "Whether INSERT and EXECUTE PLAN wait until the job ends.", default=False),
    # planning
    Option("table.local-time-zone", _STRING, "Session time zone for TIMESTAMP_LTZ: an id such as Europe/Berlin, an "
           "offset such as GMT-08:00, or default.", default="default"),
    Option("table.exec.mini-batch.enabled", _BOOLEAN, "Whether plans use mini-batches. Aggregates then run in two "
           "phases. A mini-batch is one micro-batch.", default=False),
    Option("table.exec.mini-batch.allow-latency", _DURATION, "Maximum time to wait for a mini-batch. The compiler "
           "writes it into the plan.", default=0),
    Option("table.exec.mini-batch.size", _LONG, "Maximum number of rows of a mini-batch.",
           default=-1, no_effect=_MINI_BATCH),
    Option("table.exec.deduplicate.mini-batch.compact-changes-enabled", _BOOLEAN, "Whether keep-last deduplication "
           "merges the changes of a mini-batch.", default=False, no_effect=_MINI_BATCH),
    Option("table.exec.deduplicate.insert-update-after-sensitive-enabled", _BOOLEAN, "Whether deduplication must "
           "distinguish a first row from an update.",
           default=True, no_effect="deduplication always distinguishes them"),
    Option("__table.exec.sort.non-temporal.enabled__", _BOOLEAN, "Whether ORDER BY without LIMIT can sort by other "
           "columns than a time attribute. Rows are emitted when bounded input ends. This is a hidden option of "
           "Flink.", default=False),
    Option("table.exec.rank.topn-cache-size", _LONG, "Number of rows in the cache of top-N.", default=10000,
           no_effect="the state cache determines its own size"),
    Option("table.exec.source.cdc-events-duplicate", _BOOLEAN, "Whether change events can be duplicated. They are "
           "then normalized by primary key.", default=False),
    Option("table.exec.emit.early-fire.enabled", _BOOLEAN, "Whether windows of GROUP BY TUMBLE and HOP are emitted "
           "before they end, and then updated. See [windows in GROUP BY](sql.md#windows-in-group-by).", default=False),
    Option("table.exec.emit.early-fire.delay", _DURATION, "Time between two results of a window before its end. 0 is "
           "one per micro-batch that changes it."),
    Option("table.exec.emit.late-fire.enabled", _BOOLEAN, "Whether windows of GROUP BY TUMBLE and HOP are emitted "
           "again for late rows. Needs windows that are kept: see `table.exec.emit.allow-lateness`.", default=False),
    Option("table.exec.emit.late-fire.delay", _DURATION, "Time between two results of a window after its end. 0 is "
           "one per micro-batch that changes it."),
    Option("table.exec.emit.allow-lateness", _DURATION, "How long in event time a window is kept after its end, with "
           "`table.exec.emit.late-fire.enabled`. Default: `table.exec.state.ttl`."),
    Option("late-rows.table", _STRING, "Table for late rows, which operators drop because they are behind the "
           "watermark. See [late rows](sql.md#late-rows-as-data). Flink has no such option."),
    Option("table.exec.source.idle-timeout", _DURATION, "A source without rows for this long does not hold back the "
           "watermark. 0 disables this.", default=0),
    Option("table.exec.sink.not-null-enforcer", _ENUM, "How a sink treats NULL in a NOT NULL column: fail the job "
           "(ERROR) or drop the row (DROP).",
           default="ERROR", values=("ERROR", "DROP")),
    Option("table.exec.sink.type-length-enforcer", _ENUM, "How a sink treats a value whose length does not match its "
           "CHAR, VARCHAR or BINARY column.", default="IGNORE", values=("IGNORE", "TRIM_PAD", "ERROR")),
    Option("table.exec.sink.nested-constraint-enforcer", _ENUM, "Whether the two options above also check nested rows "
           "and collections.", default="IGNORE", values=("IGNORE", "ROWS", "ROWS_AND_COLLECTIONS")),
    Option("table.exec.sink.upsert-materialize", _ENUM, "Whether a sink keeps state to order updates by its primary "
           "key.",
           default="AUTO", values=("NONE", "AUTO", "FORCE")),
    Option("table.exec.sink.keyed-shuffle", _ENUM, "Whether rows are distributed to a sink by its primary key.",
           default="AUTO",
           values=("NONE", "AUTO", "FORCE"), no_effect="changes of a key always keep their order"),
    Option("table.exec.sink.rowtime-inserter", _ENUM, "Whether sink rows carry their event time.",
           default="ENABLED", values=("ENABLED", "DISABLED"), no_effect="no sink uses a separate event time"),
    Option("table.exec.sink.require-on-conflict", _BOOLEAN, "Whether INSERT requires ON CONFLICT if the key of the "
           "query is not the primary key of the sink.", default=True),
    Option("table.exec.sink.upsert-materialize-strategy.type", _ENUM, "Layout of the state that a sink keeps to order "
           "updates.",
           default="LEGACY", values=("LEGACY", "MAP", "VALUE", "ADAPTIVE"), no_effect="stateplan has one layout, "
           "which gives the same changes"),
    Option("table.exec.legacy-cast-behaviour", _ENUM, "Whether CAST returns NULL for a text that it cannot cast, and "
           "keeps a text that is longer than its type, as before Flink 1.15. A plan does not contain this option.",
           default="DISABLED",
           values=("ENABLED", "DISABLED")),
    Option("table.optimizer.agg-phase-strategy", _ENUM, "Whether aggregates run in a local and a global phase when "
           "mini-batches are enabled.", default="AUTO", values=("AUTO", "ONE_PHASE", "TWO_PHASE")),
    Option("table.optimizer.distinct-agg.split.enabled", _BOOLEAN, "Whether DISTINCT aggregates are split into two "
           "levels, by buckets of their values.", default=False),
    Option("table.optimizer.distinct-agg.split.bucket-num", _INTEGER, "Number of buckets of a split DISTINCT "
           "aggregate.",
           default=1024),
    Option("table.optimizer.incremental-agg-enabled", _BOOLEAN, "Whether a split DISTINCT aggregate in two phases "
           "uses an incremental aggregate.", default=True),
    Option("table.optimizer.join-reorder-enabled", _BOOLEAN, "Whether joins can be reordered.",
           default=False, no_effect="joins run in the order in which they are written"),
    Option("table.optimizer.multi-join.enabled", _BOOLEAN, "Whether chains of joins become one operator.",
           default=False),
    Option("table.optimizer.delta-join.strategy", _ENUM, "Whether joins look up the other side in its source table.",
           default="AUTO", values=("AUTO", "FORCE", "NONE"), no_effect="there are no delta joins"),
    Option("table.optimizer.multiple-input-enabled", _BOOLEAN, "Whether operators are fused.", default=True,
           no_effect="stateless operators are always fused"),
    Option("table.optimizer.non-deterministic-update.strategy", _ENUM, "Whether the planner makes non-deterministic "
           "updates deterministic. With TRY_RESOLVE, a lookup join over updates keeps its results in state.",
           default="IGNORE", values=("IGNORE", "TRY_RESOLVE")),
    Option("table.optimizer.flink-faults", _ENUM, "Whether stateplan corrects known faults of Flink that make rows "
           "wrong, in plans and at runtime (CORRECTED), or returns Flink's rows (AS-FLINK). Flink has no "
           "such option. See [faults of Flink](sql.md#faults-of-flink-that-are-corrected).",
           default="CORRECTED", values=("CORRECTED", "AS-FLINK")),
    Option("table.optimizer.reuse-sub-plan-enabled", _BOOLEAN, "Whether equal parts of a plan run only once.",
           default=True),
    Option("table.optimizer.reuse-source-enabled", _BOOLEAN, "Whether a table that a plan uses several times is read "
           "only once.", default=True),
    Option("table.optimizer.reuse-sink-enabled", _BOOLEAN, "Whether INSERTs into the same table share a sink.",
           default=True,
           no_effect=_ONE_SHAPE),
    Option("table.optimizer.union-all-as-breakpoint-enabled", _BOOLEAN, "Whether a UNION ALL that several INSERTs "
           "read is planned only once.", default=True, no_effect=_ONE_SHAPE),
    Option("table.optimizer.sql2rel.project-merge.enabled", _BOOLEAN, "Whether projections are merged while SQL is "
           "parsed.",
           default=False, no_effect=_ONE_SHAPE),
    # asynchronous functions
    Option("table.exec.async-scalar.max-concurrent-operations", _INTEGER, "Maximum number of concurrent calls of an "
           "asynchronous function per task.", default=10, minimum=1),
    Option("table.exec.async-scalar.timeout", _DURATION, "Timeout of a call of an asynchronous function, including "
           "retries.", default=180_000),
    Option("table.exec.async-scalar.retry-strategy", _ENUM, "Whether failed calls of an asynchronous function are "
           "retried.", default="FIXED_DELAY", values=("NO_RETRY", "FIXED_DELAY")),
    Option("table.exec.async-scalar.retry-delay", _DURATION, "Delay before a retry.",
           default=100),
    Option("table.exec.async-scalar.max-attempts", _INTEGER, "Maximum number of retries.", default=3,
           minimum=0),
    # the SQL client
    Option("sql-client.execution.result-mode", _ENUM, "How the SQL client shows the rows of a query in its shell: as a "
           "table that is kept up to date, as the last changes, or line by line. Scripts show them line by line.",
           default="TABLE", values=("TABLE", "CHANGELOG", "TABLEAU")),
    Option("sql-client.execution.max-table-result.rows", _INTEGER, "Maximum number of rows of the mode TABLE. The "
           "oldest go first.", default=1000000, minimum=1),
    Option("sql-client.verbose", _BOOLEAN, "Whether errors are printed with their causes.", default=False),
    Option("sql-client.display.max-column-width", _INTEGER, "Maximum width of a column of variable length. Default: "
           "that of table.display.max-column-width.", minimum=1),
    Option("table.display.max-column-width", _INTEGER, "Maximum width of a column of variable length in the rows of a "
           "query.", default=30, minimum=1),
    Option("sql-client.display.print-time-cost", _BOOLEAN, "Whether the shell prints how long a query took, in the "
           "mode TABLEAU.", default=True),
    Option("sql-client.display.color-schema", _ENUM, "Colours of SQL in the shell.", default="DEFAULT",
           values=("DEFAULT", "DARK", "LIGHT", "CHESTER", "VS2010", "SOLARIZED", "OBSIDIAN", "GESHI")),
    Option("sql-client.display.show-line-numbers", _BOOLEAN, "Whether the shell numbers the lines of a statement.",
           default=False),
    # known in Flink, nothing here
    Option("table.sql-dialect", _ENUM, "SQL dialect.", default="default", values=("default", "hive"),
           only_default="only Flink's dialect is available"),
    Option("table.dynamic-table-options.enabled", _BOOLEAN, "Whether OPTIONS hints can set table options.",
           default=True,
           no_effect="OPTIONS hints are always enabled"),
    Option("table.exec.resource.default-parallelism", _INTEGER, "Parallelism of all operators.", default=-1,
           no_effect="use 'parallelism.default' instead"),
    Option("table.column-expansion-strategy", _STRING, "Which columns SELECT * omits.", default="",
           only_default="SELECT * has all columns"),
    Option("table.legacy-nested-row-nullability", _BOOLEAN, "Whether a NULL row makes its fields nullable.",
           default=False, only_default="fields of a row that can be NULL can be NULL"),
    Option("execution.checkpointing.mode", _ENUM, "Consistency guarantee of checkpoints.", default="EXACTLY_ONCE",
           values=("EXACTLY_ONCE", "AT_LEAST_ONCE"), no_effect="state is always exactly once"),
    Option("execution.checkpointing.incremental", _BOOLEAN, "Whether checkpoints are incremental.", default=False,
           no_effect="checkpoints are always incremental"),
    Option("state.backend.type", _STRING, "State backend.", no_effect="state is kept in Spark's state store"),
    Option("execution.attached", _BOOLEAN, "Whether the client waits for the job.", default=False, no_effect=_CLIENT),
    Option("execution.target", _STRING, "Deployment target of the job.", no_effect=_CLIENT),
)

# fmt: on
OPTIONS: dict[str, Option] = {row.key: row for row in _ROWS}
"""Key to row, in the order of the documentation."""

#: Families of options that are read where they are used.
PASSED_PREFIXES = ("spark.", "metrics.reporter.", "lineage.openlineage.transport.")

#: Keys of older releases of Flink that set an option above, as in Flink 2.3.
DEPRECATED = {
    "execution.savepoint-restore-mode": "execution.state-recovery.claim-mode",
    "execution.savepoint.path": "execution.state-recovery.path",
    "restart-strategy": "restart-strategy.type",
    "savepoints.state.backend.fs.dir": "execution.checkpointing.savepoint-dir",
    "state.backend": "state.backend.type",
    "state.backend.fs.checkpointdir": "execution.checkpointing.dir",
    "state.backend.incremental": "execution.checkpointing.incremental",
    "state.checkpoints.dir": "execution.checkpointing.dir",
    "taskmanager.memory.size": "taskmanager.memory.managed.size",
    "state.savepoints.dir": "execution.checkpointing.savepoint-dir",
    "table.exec.async-scalar.buffer-capacity": "table.exec.async-scalar.max-concurrent-operations",
}

#: Keys that are written from habit, and what to write instead.
_HABITS = {
    "table.exec.state-ttl": "table.exec.state.ttl",
    "plan.force-recompile": "table.plan.force-recompile",
    "plan.compile.catalog-objects": "table.plan.compile.catalog-objects",
    "plan.restore.catalog-objects": "table.plan.restore.catalog-objects",
}


def current_key(key: str) -> str:
    """The key in Flink 2.3 of the option that ``key`` names."""
    return DEPRECATED.get(key, key)


def find_option(key: str, place: Place | None = None) -> Option | None:
    """The row of a key, or of the option that an older key sets; None for a key that is accepted without one
    (``spark.*`` and other families).

    Raises:
        OptionError: OPT001, for an unknown key, with the nearest one.
    """
    row = OPTIONS.get(current_key(key))
    if row is not None or key.startswith(PASSED_PREFIXES) or _no_effect(key) is not None:
        return row
    new_key = _HABITS.get(key)
    hint = f"did you mean '{new_key}'?" if new_key else nearest(key, (*OPTIONS, *NO_EFFECT))
    raise OptionError("OPT001", key=key, place=place, hint=hint)


def text_of_option(key: str, setting: Any) -> str:
    """The text of a value that Python code gives for a key. Raises OptionError OPT105, as :func:`option_text`."""
    return option_text(OPTIONS.get(current_key(key)), setting, key)


def _no_effect(key: str) -> str | None:
    """Why an option of Flink has no effect; None for any other key."""
    of_cluster = next((why for prefix, why in NO_EFFECT_PREFIXES.items() if key.startswith(prefix)), None)
    return NO_EFFECT.get(key, of_cluster)


def value(options: Mapping[str, str], key: str) -> Any:
    """The value of an option: as set in ``options``, else its default; durations in milliseconds.

    Raises:
        KeyError: the key is not in the table.
        OptionError: OPT105, when the text is not a value of it.
    """
    row = OPTIONS[key]
    return parse_value(row, options[key]) if key in options else row.default


def is_batch(options: Mapping[str, str]) -> bool:
    """Whether queries run in batch mode."""
    return bool(value(options, "execution.runtime-mode") == "BATCH")


def corrects_flink(options: Mapping[str, str]) -> bool:
    """Whether plans and operators differ from Flink's where these are known to give wrong rows."""
    return bool(value(options, "table.optimizer.flink-faults") == "CORRECTED")


def has_legacy_casts(options: Mapping[str, str]) -> bool:
    """Whether casts run as before Flink 1.15."""
    return bool(value(options, "table.exec.legacy-cast-behaviour") == "ENABLED")


_NOT_IN_BATCH = (
    "table.exec.state.ttl",
    "table.exec.mini-batch.enabled",
    "table.exec.source.idle-timeout",
    "table.exec.emit.early-fire.enabled",
    "table.exec.emit.late-fire.enabled",
)
"""Options that batch mode does without: no state expires before the input ends, and nothing is emitted before."""


def of_mode(options: Mapping[str, str]) -> dict[str, str]:
    """The options that count in the mode that queries run in."""
    return {k: v for k, v in options.items() if k not in _NOT_IN_BATCH} if is_batch(options) else dict(options)


def parallelism(options: Mapping[str, str]) -> int:
    """The parallelism of a job that has no checkpoint: ``parallelism.default``, or 2."""
    return int(options.get("parallelism.default", 2))


def default_text(row: Option) -> str | None:
    """The default of an option as it would be written; None if there is none."""
    if row.default is None:
        return None
    if row.type is _DURATION:
        from stateplan.common.ttl import format_ttl

        return format_ttl(row.default)
    if row.type is _MEMORY:
        return f"{row.default >> 20} mb"
    return str(row.default).lower() if row.type is _BOOLEAN else str(row.default)


class Configuration:
    """What a session has set. Values are texts, checked when they are set.

    Args:
        options: set at once.
        keep_unknown: whether a key that is not known is kept, with a note, and is not an error: clients of a gateway
            send all that they are configured with.
    """

    def __init__(self, options: Mapping[str, Any] | None = None, keep_unknown: bool = False) -> None:
        self._values: dict[str, str] = {}
        self._older: dict[str, str] = {}
        self._keep_unknown = keep_unknown
        for key, text in (options or {}).items():
            self.set(key, text)

    def set(self, key: str, setting: Any, place: Place | None = None) -> str | None:
        """Sets an option; returns a note if it has no effect, or an older key. As in Flink, an older key has no effect
        where the option is set by its own.

        Args:
            key: Flink's, or one of ``spark.*``.
            setting: the text; or a number, a boolean, or a timedelta for a duration.
            place: where the user wrote it.

        Raises:
            OptionError: OPT001 unknown key, OPT105 malformed value, OPT002 a value that cannot be honoured.
        """
        current = current_key(key)
        text = text_of_option(key, setting)
        if current != key:
            return self._set_older(key, current, text, place)
        note = self._set(key, text, place)
        self._older.pop(key, None)
        return note

    def _set_older(self, key: str, current: str, text: str, place: Place | None) -> str:
        if current in self._values and current not in self._older:
            return f"the option '{key}' has no effect: '{current}' is set"
        note = self._set(current, text, place)
        self._older[current] = key
        return f"'{key}' is an older key of '{current}', which is set" + (f"; {note}" if note else "")

    def _set(self, key: str, text: str, place: Place | None) -> str | None:
        try:
            row = find_option(key, place)
        except OptionError as error:
            if not self._keep_unknown:
                raise
            self._values[key] = text
            return f"the option '{key}' has no effect: it is not known" + (f"; {error.hint}" if error.hint else "")
        if row is None:
            self._values[key] = text
            reason = _no_effect(key)
            return None if reason is None else f"the option '{key}' has no effect: {reason}"
        setting = parse_value(row, text, key, place)
        if row.only_default and setting != row.default:
            raise OptionError(
                "OPT002", key=key, text=text, refused=row.only_default, default_text=default_text(row), place=place
            )
        if key == "table.local-time-zone":
            _check_time_zone(text, place)
        self._values[key] = text
        idle = row.no_effect if setting != row.default else None
        return f"the option '{key}' has no effect: {idle}" if idle else None

    def get(self, key: str, default: str | None = None) -> str | None:
        """The text of an option: as set, else ``default``, else the option's own default. Raises OptionError OPT001."""
        if current_key(key) in self._values:
            return self._values[current_key(key)]
        row = self._row(key)
        return default if default is not None or row is None else default_text(row)

    def value(self, key: str) -> Any:
        """The parsed value of an option of the table, or its default."""
        return value(self._values, key)

    def reset(self, key: str | None = None, place: Place | None = None) -> None:
        """Sets one option back to its default; without a key, all. Raises OptionError OPT001."""
        if key is None:
            self._values.clear()
            self._older.clear()
            return
        self._row(key, place)
        current = current_key(key)
        if current == key or self._older.get(current) == key:
            self._values.pop(current, None)
            self._older.pop(current, None)

    def _row(self, key: str, place: Place | None = None) -> Option | None:
        return OPTIONS.get(current_key(key)) if self._keep_unknown else find_option(key, place)

    @contextmanager
    def overlaid(self, options: Mapping[str, str]) -> Iterator[None]:
        """Within, ``options`` are set too; afterwards what they hid is back, but for what was set meanwhile.

        Raises:
            OptionError: as :meth:`set`; then none of them is set.
        """
        before, older = dict(self._values), dict(self._older)
        try:
            for key, text in options.items():
                self.set(key, text)
            yield
        finally:
            for option_key, text in options.items():
                key = current_key(option_key)
                if self._values.get(key) == text:
                    self._values.pop(key)
                    self._older.pop(key, None)
                    if key in before:
                        self._values[key] = before[key]
                    if key in older:
                        self._older[key] = older[key]

    def to_dict(self) -> dict[str, str]:
        """What has been set, by key."""
        return dict(sorted(self._values.items()))

    def redacted(self) -> dict[str, str]:
        """What has been set, by key, without passwords."""
        return redacted_options(self.to_dict())

    def __repr__(self) -> str:
        return f"Configuration({self.redacted()})"

    def __contains__(self, key: str) -> bool:
        return current_key(key) in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._values))


def _check_time_zone(text: str, place: Place | None) -> None:
    if text == "default" or session_zone(text) is not None:
        return
    raise OptionError("OPT105", text=text, key="table.local-time-zone", place=place, hint=_near_zone(text))


def _near_zone(text: str) -> str | None:
    """The zone that was meant: of an offset the same one as Flink writes it."""
    import zoneinfo

    zone = zone_id(text)
    return f"did you mean '{zone}'" if zone is not None else nearest(text, zoneinfo.available_timezones())
