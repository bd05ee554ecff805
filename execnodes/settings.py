"""The options of a session: Flink's keys, one row of a table each, and the values a session has set.

A row says how a value is read, what holds without one, and what the option means. An option of Flink that changes
nothing here says why in ``no_effect``: it is accepted with a note. One that must not be ignored says why in
``refused``: every value but the default is an error. A key without a row is an error that names the nearest one.
``spark.*`` goes to Spark unchanged.

Codes: OPT001 to OPT019; OPT105 for a malformed value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stateplan.execnodes.connectors.options import Option, OptionType, parse_value
from stateplan.execnodes.errors import OptionError, Place, nearest

_BOOLEAN, _INTEGER, _LONG = OptionType.BOOLEAN, OptionType.INTEGER, OptionType.LONG
_MEMORY = OptionType.MEMORY_SIZE
_DURATION, _ENUM, _STRING = OptionType.DURATION, OptionType.ENUM, OptionType.STRING

_LATER = "it is not supported yet"
_NO_CLUSTER = "there is no Flink cluster"
_HERE = "the process that starts a job runs it"
_UIDS = "every plan names its operators by what they mean"
_MINI_BATCH = "every micro-batch is a mini-batch"
_BATCH = "it is about batch queries"
_OWN = "it is about Flink's own operators"

# fmt: off
_ROWS: tuple[Option, ...] = (
    # state and plans
    Option("table.exec.state.ttl", _DURATION, "How long state lives after it was last written, where the plan says "
           "nothing else; 0 is for ever. Written into the plan when it is compiled.", default=0),
    Option("table.plan.force-recompile", _BOOLEAN, "COMPILE PLAN overwrites an existing file.", default=False),
    Option("table.plan.compile.catalog-objects", _ENUM, "What a plan holds of its tables: everything, all but the "
           "options, or only the name.", default="ALL", values=("ALL", "SCHEMA", "IDENTIFIER")),
    Option("table.plan.restore.catalog-objects", _ENUM, "Where a plan's tables come from: the catalog if it has them, "
           "else the plan (ALL); only the plan (ALL_ENFORCED); only the catalog (IDENTIFIER).", default="ALL",
           values=("ALL", "ALL_ENFORCED", "IDENTIFIER")),
    Option("table.exec.uid.generation", _ENUM, "When operators get stable names.", default="PLAN_ONLY",
           values=("PLAN_ONLY", "ALWAYS", "DISABLED"), no_effect=_UIDS),
    Option("table.exec.uid.format", _STRING, "The form of operators' names.", default="<id>_<transformation>",
           no_effect=_UIDS),
    # running
    Option("execution.runtime-mode", _ENUM, "How queries run.", default="STREAMING",
           values=("STREAMING", "BATCH", "AUTOMATIC"),
           refused="queries run as streams; bounded input ends by itself"),
    Option("execution.checkpointing.dir", _STRING, "The query's checkpoint directory. Where it holds a checkpoint, "
           "the run goes on from it, if the plan fits."),
    Option("execution.state-recovery.accept", _ENUM, "What a plan may do to state of the checkpoint that does not fit "
           "it: rewrite it; reset it, so that operators start empty; reset it too where it cannot be told whether it "
           "fits. Each one includes those before it.", default="none", values=("none", "rewrite", "reset", "unknown")),
    Option("execution.checkpointing.interval", _DURATION, "Time between two micro-batches of an unbounded query.",
           minimum=1),
    Option("parallelism.default", _INTEGER, "Number of partitions that operators run in. On a checkpoint another "
           "number rescales its state; without one it keeps the number it has.", minimum=1),
    Option("pipeline.max-parallelism", _INTEGER, "Number of key groups that keyed state is split into; fixed for the "
           "life of a checkpoint.", minimum=1),
    Option("taskmanager.memory.managed.size", _MEMORY, "Memory for state beside what is mapped from files: one half "
           "for RocksDB, one for runs of state that local disk does not take. 512 mb where it is not set."),
    Option("state.backend.forst.cache.dir", _STRING, "Folder on local disk for copies of the runs of state that a job "
           "reads; by default that for temporary files."),
    Option("state.backend.forst.cache.size-based-limit", _MEMORY, "How much of the disk these copies may take; those "
           "not opened for longest go first. Without it, as much as the state."),
    Option("state.backend.forst.cache.reserve-size", _MEMORY, "How much of the disk these copies leave free: 256 mb "
           "where it is not set."),
    Option("pipeline.name", _STRING, "The name of the query."),
    Option("metrics.reporters", _STRING, "Names of metrics reporters, with commas. Of each, "
           "metrics.reporter.<name>.factory.class is that of Flink's Prometheus reporter, and "
           "metrics.reporter.<name>.port says where it listens: a port or a range such as 9250-9260. "
           "See [metrics](metrics.md)."),
    Option("table.dml-sync", _BOOLEAN, "INSERT and EXECUTE PLAN return when the job is done.", default=False),
    # planning
    Option("table.local-time-zone", _STRING, "The session's time zone, for TIMESTAMP_LTZ: an id such as "
           "Europe/Berlin, an offset such as GMT-08:00, or default.", default="default"),
    Option("table.exec.mini-batch.enabled", _BOOLEAN, "Plans are made for mini-batches, which here are the "
           "micro-batches: aggregates work in two phases.", default=False),
    Option("table.exec.mini-batch.allow-latency", _DURATION, "The longest time to wait for a mini-batch; written into "
           "the plan.", default=0),
    Option("table.exec.mini-batch.size", _LONG, "The most rows of a mini-batch.", default=-1, no_effect=_MINI_BATCH),
    Option("table.exec.deduplicate.mini-batch.compact-changes-enabled", _BOOLEAN, "Keep-last deduplication nets the "
           "changes of a mini-batch.", default=False, no_effect=_MINI_BATCH),
    Option("table.exec.deduplicate.insert-update-after-sensitive-enabled", _BOOLEAN, "Deduplication must tell a first "
           "row from an update.", default=True, no_effect="it always tells them apart"),
    Option("__table.exec.sort.non-temporal.enabled__", _BOOLEAN, "ORDER BY without LIMIT may go by other fields than a "
           "time attribute: rows come out when bounded input ends. Flink hides this option.", default=False),
    Option("table.exec.rank.topn-cache-size", _LONG, "Rows that top-N keeps in a cache.", default=10000,
           no_effect="the state cache sets its own size"),
    Option("table.exec.source.cdc-events-duplicate", _BOOLEAN, "Change events may come twice: they are normalized by "
           "primary key.", default=False),
    Option("table.exec.source.idle-timeout", _DURATION, "A source without rows for this long does not hold back "
           "watermarks.", default=0),
    Option("table.exec.sink.not-null-enforcer", _ENUM, "What happens to a NULL for a NOT NULL column of a sink.",
           default="ERROR", values=("ERROR", "DROP")),
    Option("table.exec.sink.type-length-enforcer", _ENUM, "What happens to a value too long for its CHAR, VARCHAR or "
           "BINARY column of a sink.", default="IGNORE", values=("IGNORE", "TRIM_PAD", "ERROR")),
    Option("table.exec.sink.nested-constraint-enforcer", _ENUM, "Whether the two above look into rows and "
           "collections.", default="IGNORE", values=("IGNORE", "ROWS", "ROWS_AND_COLLECTIONS")),
    Option("table.exec.sink.upsert-materialize", _ENUM, "Whether a sink keeps state to order updates by its key.",
           default="AUTO", values=("NONE", "AUTO", "FORCE")),
    Option("table.exec.sink.keyed-shuffle", _ENUM, "Whether rows are sent to a sink by its key.", default="AUTO",
           values=("NONE", "AUTO", "FORCE"), no_effect="changes of one key always keep their order"),
    Option("table.exec.sink.rowtime-inserter", _ENUM, "Whether a sink's rows carry their event time.",
           default="ENABLED", values=("ENABLED", "DISABLED"), no_effect="no sink takes an event time beside the row"),
    Option("table.exec.sink.require-on-conflict", _BOOLEAN, "INSERT must say ON CONFLICT where the query's key is not "
           "the sink's.", default=True),
    Option("table.exec.sink.upsert-materialize-strategy.type", _ENUM, "How a sink keeps state to order updates.",
           default="LEGACY", values=("LEGACY", "MAP", "VALUE", "ADAPTIVE"), no_effect="all give the same changes, and "
           "there is one here"),
    Option("table.exec.legacy-cast-behaviour", _ENUM, "How a CAST that fails behaves.", default="DISABLED",
           values=("ENABLED", "DISABLED"), refused="a failing CAST is an error; TRY_CAST gives NULL"),
    Option("table.optimizer.agg-phase-strategy", _ENUM, "Whether aggregates are computed in two phases, a local one "
           "and a global one, where mini-batches are on.", default="AUTO", values=("AUTO", "ONE_PHASE", "TWO_PHASE")),
    Option("table.optimizer.distinct-agg.split.enabled", _BOOLEAN, "DISTINCT aggregates are split into two levels, by "
           "buckets of their values.", default=False),
    Option("table.optimizer.distinct-agg.split.bucket-num", _INTEGER, "Buckets of a split DISTINCT aggregate.",
           default=1024),
    Option("table.optimizer.incremental-agg-enabled", _BOOLEAN, "Split DISTINCT aggregates in two phases are joined by "
           "an incremental one.", default=True),
    Option("table.optimizer.join-reorder-enabled", _BOOLEAN, "Joins may be reordered.", default=False, refused=_LATER),
    Option("table.optimizer.multi-join.enabled", _BOOLEAN, "Chains of joins become one operator.", default=False),
    Option("table.optimizer.delta-join.strategy", _ENUM, "Whether joins look up their other side in a table.",
           default="AUTO", values=("AUTO", "FORCE", "NONE"), refused=_LATER),
    Option("table.optimizer.multiple-input-enabled", _BOOLEAN, "Operators are fused.", default=True,
           no_effect="stateless operators are always fused"),
    Option("table.optimizer.non-deterministic-update.strategy", _ENUM, "Whether updates that depend on what is not "
           "deterministic are made to: with TRY_RESOLVE, a lookup join of updates keeps what it found.",
           default="IGNORE", values=("IGNORE", "TRY_RESOLVE")),
    Option("table.optimizer.reuse-sub-plan-enabled", _BOOLEAN, "Equal parts of a plan are run once.", default=True),
    Option("table.optimizer.reuse-source-enabled", _BOOLEAN, "A table that is read twice is read once.", default=True),
    Option("table.optimizer.reuse-sink-enabled", _BOOLEAN, "INSERTs into one table share its sink.", default=True,
           refused=_LATER),
    Option("table.optimizer.union-all-as-breakpoint-enabled", _BOOLEAN, "A UNION ALL that several INSERTs read is "
           "planned once.", default=True, refused=_LATER),
    Option("table.optimizer.sql2rel.project-merge.enabled", _BOOLEAN, "Projections are merged while SQL is read.",
           default=False, refused=_LATER),
    # asynchronous functions
    Option("table.exec.async-scalar.max-concurrent-operations", _INTEGER, "How many calls of an asynchronous function "
           "are awaited at the same time, in each task.", default=10, minimum=1),
    Option("table.exec.async-scalar.timeout", _DURATION, "How long a call of an asynchronous function may take, with "
           "all attempts.", default=180_000),
    Option("table.exec.async-scalar.retry-strategy", _ENUM, "Whether a call of an asynchronous function that failed is "
           "made again.", default="FIXED_DELAY", values=("NO_RETRY", "FIXED_DELAY")),
    Option("table.exec.async-scalar.retry-delay", _DURATION, "How long after a failed call the next attempt is made.",
           default=100),
    Option("table.exec.async-scalar.max-attempts", _INTEGER, "How often a failed call is made again.", default=3,
           minimum=0),
    # the SQL client
    Option("sql-client.execution.result-mode", _ENUM, "How rows of a query are shown.", default="TABLE",
           values=("TABLE", "CHANGELOG", "TABLEAU"), no_effect="a query's changes are printed, a line each"),
    Option("sql-client.execution.max-table-result.rows", _INTEGER, "The most rows kept for showing.", default=1000000,
           no_effect="a query's changes are printed, a line each"),
    Option("sql-client.verbose", _BOOLEAN, "Errors are shown with what caused them.", default=False,
           no_effect="the command line has --debug"),
    Option("table.display.max-column-width", _INTEGER, "The widest column shown.", default=30,
           no_effect="columns are as wide as their content, up to 100 characters"),
    # known in Flink, nothing here
    Option("table.sql-dialect", _ENUM, "The SQL dialect.", default="default", values=("default", "hive"),
           refused="there is only Flink's"),
    Option("table.dynamic-table-options.enabled", _BOOLEAN, "Hints may set options of tables.", default=True,
           refused="OPTIONS hints are always on"),
    Option("table.exec.resource.default-parallelism", _INTEGER, "The parallelism of all operators.", default=-1,
           refused="set 'parallelism.default' instead"),
    Option("execution.checkpointing.mode", _ENUM, "The guarantee of checkpoints.", default="EXACTLY_ONCE",
           values=("EXACTLY_ONCE", "AT_LEAST_ONCE"), refused="state is always exactly once"),
    Option("execution.checkpointing.incremental", _BOOLEAN, "Checkpoints hold only what changed.", default=False,
           no_effect="checkpoints always hold only what changed"),
    Option("state.backend.type", _STRING, "The state backend.", no_effect="state is kept in Spark's state store"),
    Option("execution.attached", _BOOLEAN, "The client waits for the job.", default=False, no_effect=_HERE),
    Option("execution.target", _STRING, "Where the job is sent.", no_effect=_HERE),
)

# fmt: on
OPTIONS: dict[str, Option] = {row.key: row for row in _ROWS}
"""Key to row, in the order of the documentation."""

#: Families of Flink's options that are accepted without effect, each with its reason.
NO_EFFECT_PREFIXES: dict[str, str] = {
    "jobmanager.": _NO_CLUSTER,
    "taskmanager.": _NO_CLUSTER,
    "rest.": _NO_CLUSTER,
    "web.": _NO_CLUSTER,
    "high-availability.": _NO_CLUSTER,
    "kubernetes.": _NO_CLUSTER,
    "yarn.": _NO_CLUSTER,
    "metrics.fetcher.": _NO_CLUSTER,
    "metrics.internal.": _NO_CLUSTER,
    "metrics.job.": _NO_CLUSTER,
    "metrics.latency.": _NO_CLUSTER,
    "metrics.scope.": _NO_CLUSTER,
    "metrics.system-resource": _NO_CLUSTER,
    "restart-strategy.": "a job that fails is started again by whoever runs it",
    "state.backend.rocksdb.": "state is kept in Spark's state store",
    "table.exec.async-table.": "there are no asynchronous table functions",
    "table.exec.async-lookup.": "there are no asynchronous lookups",
    "table.exec.async-state.": _OWN,
    "table.exec.async-ml-predict.": _OWN,
    "table.exec.async-vector-search.": _OWN,
    "table.exec.delta-join.": "there are no delta joins",
    "table.exec.interval-join.": "rows of an interval join leave as soon as nothing can meet them",
    "table.exec.sort.": _BATCH,
    "table.exec.spill-compression.": _BATCH,
    "table.exec.local-hash-agg.": _BATCH,
    "table.exec.resource.": _BATCH,
    "table.exec.window-agg.": _BATCH,
    "table.exec.operator-fusion-codegen.": _OWN,
    "table.exec.simplify-operator-name-enabled": _OWN,
    "table.exec.unbounded-over.version": _OWN,
    "table.generated-code.": "no Java code is generated",
    "table.optimizer.join.broadcast-threshold": _BATCH,
    "table.optimizer.bushy-join-reorder-threshold": _BATCH,
    "table.optimizer.dynamic-filtering.": _BATCH,
    "table.optimizer.runtime-filter.": _BATCH,
    "table.optimizer.adaptive-broadcast-join.": _BATCH,
    "table.optimizer.skewed-join-optimization.": _BATCH,
    "table.optimizer.source.report-statistics-enabled": _BATCH,
    "table.optimizer.reuse-optimize-block-with-digest-enabled": _OWN,
}

#: Families of options that are read where they are used.
PASSED_PREFIXES = ("spark.", "metrics.reporter.")

#: Keys that are written from habit, and what to write instead.
_RENAMED = {
    "state.checkpoints.dir": "execution.checkpointing.dir",
    "state.backend": "state.backend.type",
    "table.exec.state-ttl": "table.exec.state.ttl",
    "table.exec.async-scalar.buffer-capacity": "table.exec.async-scalar.max-concurrent-operations",
    "plan.force-recompile": "table.plan.force-recompile",
    "plan.compile.catalog-objects": "table.plan.compile.catalog-objects",
    "plan.restore.catalog-objects": "table.plan.restore.catalog-objects",
}


def find_option(key: str, place: Place | None = None) -> Option | None:
    """The row of a key; None for a key that is accepted without one (``spark.*`` and other families).

    Raises:
        OptionError: OPT001, for an unknown key, with the nearest one.
    """
    row = OPTIONS.get(key)
    if row is not None or key.startswith((*PASSED_PREFIXES, *NO_EFFECT_PREFIXES)):
        return row
    renamed = _RENAMED.get(key)
    hint = f"did you mean '{renamed}'?" if renamed else nearest(key, OPTIONS)
    raise OptionError("OPT001", key=key, place=place, hint=hint)


def value(options: Mapping[str, str], key: str) -> Any:
    """The value of an option: as set in ``options``, else its default; durations in milliseconds.

    Raises:
        KeyError: the key is not in the table.
        OptionError: OPT105, when the text is not a value of it.
    """
    row = OPTIONS[key]
    return parse_value(row, options[key]) if key in options else row.default


def default_text(row: Option) -> str | None:
    """The default of an option as it would be written; None where there is none."""
    if row.default is None:
        return None
    if row.type is _DURATION:
        from stateplan.execnodes.ttl import format_ttl

        return format_ttl(row.default)
    return str(row.default).lower() if row.type is _BOOLEAN else str(row.default)


class Configuration:
    """What a session has set. Values are texts, checked when they are set."""

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        self._values: dict[str, str] = {}
        for key, text in (options or {}).items():
            self.set(key, text)

    def set(self, key: str, text: str, place: Place | None = None) -> str | None:
        """Sets an option; returns a note when it changes nothing here.

        Raises:
            OptionError: OPT001 unknown key, OPT105 malformed value, OPT002 a value that cannot be honoured.
        """
        row = find_option(key, place)
        if row is None:
            self._values[key] = text
            reason = next((why for prefix, why in NO_EFFECT_PREFIXES.items() if key.startswith(prefix)), None)
            return None if reason is None else f"the option '{key}' changes nothing here: {reason}"
        parsed = parse_value(row, text, key, place)
        if row.refused and parsed != row.default:
            raise OptionError(
                "OPT002", key=key, text=text, refused=row.refused, default_text=default_text(row), place=place
            )
        if key == "table.local-time-zone":
            _check_time_zone(text, place)
        self._values[key] = text
        return f"the option '{key}' changes nothing here: {row.no_effect}" if row.no_effect else None

    def get(self, key: str, default: str | None = None) -> str | None:
        """The text of an option: as set, else ``default``, else the option's own default. Raises OptionError OPT001."""
        if key in self._values:
            return self._values[key]
        row = find_option(key)
        return default if default is not None or row is None else default_text(row)

    def value(self, key: str) -> Any:
        """The parsed value of an option of the table, or its default."""
        return value(self._values, key)

    def reset(self, key: str | None = None, place: Place | None = None) -> None:
        """Forgets one option, or all. Raises OptionError OPT001."""
        if key is None:
            self._values.clear()
            return
        find_option(key, place)
        self._values.pop(key, None)

    def to_dict(self) -> dict[str, str]:
        """What has been set, by key."""
        return dict(sorted(self._values.items()))

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._values))


def _check_time_zone(text: str, place: Place | None) -> None:
    import re
    import zoneinfo

    if text == "default" or re.fullmatch(r"(GMT|UTC)?([+-]\d{1,2}:\d{2})?", text):
        return
    try:
        zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise OptionError(
            "OPT105.check_time_zone", text=text, place=place, hint=nearest(text, zoneinfo.available_timezones())
        ) from None
