"""The ``filesystem`` connector: the files of a folder.

A source reads every file below ``path`` (a file, a folder, or a URL such as ``s3://bucket/folder``) once. Without
``source.monitor-interval`` it is bounded: the files that are there when the job starts. With it the folder is watched
for new files. Files and folders whose names start with ``.`` or ``_`` are invisible.

A sink appends files to the folder ``path``, exactly once: each micro-batch stages hidden files and renames them when
it commits.

The options are the rows of :data:`CONNECTOR`.
"""

from __future__ import annotations

from execnodes.connectors.options import Connector, Option, OptionType, Role

__all__ = ["CONNECTOR"]

_ONE_COMMIT = "files are committed once per micro-batch"
_NO_PARTITIONS = "tables are not partitioned here"

CONNECTOR = Connector(
    "filesystem", "The files of a folder, local or on an object store.",
    (
        Option("path", OptionType.STRING, "Folder or file; a plain path or a URL.", required=True),
        Option("source.monitor-interval", OptionType.DURATION,
               "How often to look for new files. Not set: the files present at the start are read, and the source ends.",
               role=Role.SOURCE, minimum=1),
        Option("source.path.regex-pattern", OptionType.REGEX,
               "Only files whose absolute path matches are read.", role=Role.SOURCE),
        Option("source.max-files-per-trigger", OptionType.INTEGER,
               "How many new files a micro-batch reads at most. Not set: all of them.", role=Role.SOURCE, minimum=1),
        Option("source.report-statistics", OptionType.ENUM, "Which statistics the source gives to the planner.",
               default="ALL", values=("NONE", "ALL"), role=Role.SOURCE,
               no_effect="the planner uses no statistics"),
        Option("sink.parallelism", OptionType.INTEGER, "Number of parallel writers.", role=Role.SINK, minimum=1,
               no_effect="the number of files follows the partitions of the micro-batch"),
        Option("sink.rolling-policy.file-size", OptionType.MEMORY_SIZE, "Size at which a file is closed.",
               default=134217728, role=Role.SINK, no_effect=_ONE_COMMIT),
        Option("sink.rolling-policy.rollover-interval", OptionType.DURATION, "Longest time a file stays open.",
               default=1800000, role=Role.SINK, no_effect=_ONE_COMMIT),
        Option("sink.rolling-policy.inactivity-interval", OptionType.DURATION, "Longest time a file stays inactive.",
               default=1800000, role=Role.SINK, no_effect=_ONE_COMMIT),
        Option("sink.rolling-policy.check-interval", OptionType.DURATION, "How often the rolling policy is checked.",
               default=60000, role=Role.SINK, no_effect=_ONE_COMMIT),
        Option("auto-compaction", OptionType.BOOLEAN, "Whether files are merged after a checkpoint.", default=False,
               role=Role.SINK, refused="files are not merged after they are written"),
        Option("compaction.file-size", OptionType.MEMORY_SIZE, "Target size of merged files.", role=Role.SINK,
               no_effect="files are not merged after they are written"),
        Option("partition.default-name", OptionType.STRING, "Partition name for NULL.",
               default="__DEFAULT_PARTITION__", no_effect=_NO_PARTITIONS),
        Option("partition.time-extractor.kind", OptionType.STRING, "How partition times are found.",
               default="default", no_effect=_NO_PARTITIONS),
        Option("partition.time-extractor.class", OptionType.STRING, "Class that finds partition times.",
               no_effect=_NO_PARTITIONS),
        Option("partition.time-extractor.timestamp-pattern", OptionType.STRING, "Pattern of partition times.",
               no_effect=_NO_PARTITIONS),
        Option("partition.time-extractor.timestamp-formatter", OptionType.STRING, "Formatter of partition times.",
               no_effect=_NO_PARTITIONS),
        Option("sink.shuffle-by-partition.enable", OptionType.BOOLEAN, "Shuffle rows by partition before writing.",
               default=False, role=Role.SINK, no_effect=_NO_PARTITIONS),
        Option("sink.partition-commit.trigger", OptionType.ENUM, "When a partition is complete.",
               default="process-time", values=("partition-time", "process-time"), role=Role.SINK,
               no_effect=_NO_PARTITIONS),
        Option("sink.partition-commit.delay", OptionType.DURATION, "How long to wait before a partition is complete.",
               default=0, role=Role.SINK, no_effect=_NO_PARTITIONS),
        Option("sink.partition-commit.watermark-time-zone", OptionType.STRING, "Zone of the watermark.",
               default="UTC", role=Role.SINK, no_effect=_NO_PARTITIONS),
        Option("sink.partition-commit.policy.kind", OptionType.STRING, "How readers learn of a complete partition.",
               role=Role.SINK, no_effect=_NO_PARTITIONS),
        Option("sink.partition-commit.policy.class", OptionType.STRING, "Class of a custom commit policy.",
               role=Role.SINK, no_effect=_NO_PARTITIONS),
        Option("sink.partition-commit.policy.class.parameters", OptionType.STRING, "Parameters of that class.",
               role=Role.SINK, no_effect=_NO_PARTITIONS),
        Option("sink.partition-commit.success-file.name", OptionType.STRING, "Name of the success file.",
               default="_SUCCESS", role=Role.SINK, no_effect=_NO_PARTITIONS),
    ),
    roles=(Role.SOURCE, Role.SINK),
    source_formats=("json", "csv", "parquet", "debezium-json"),
    sink_formats=("json", "csv", "parquet", "debezium-json"),
    abilities=frozenset({"ProjectPushDown", "FilterPushDown", "LimitPushDown", "ReadingMetadata"}),
    metadata=(("file.path", "STRING NOT NULL"), ("file.name", "STRING NOT NULL"), ("file.size", "BIGINT NOT NULL"),
              ("file.modification-time", "TIMESTAMP_LTZ(3) NOT NULL")))
