"""Properties that a Delta table can be created with, as options ``delta.*`` of the table.

Source: the table properties of Delta Lake and its protocol. Those that ask too much of its writers are refused, so that
a job can write to each table that it creates.
"""

from __future__ import annotations

from collections.abc import Mapping

from stateplan.common.errors import OptionError, nearest, one_of
from stateplan.common.options import Option, OptionType, accepted_value, alike, flag

_FOLLOWS = "it follows from the other properties"
_NOT_MADE = "stateplan does not create such tables"

PROPERTIES = (
    flag("delta.appendOnly", "Whether rows can only be added to the table."),
    flag("delta.autoOptimize.autoCompact", "Whether Spark merges small files after it writes."),
    flag("delta.autoOptimize.optimizeWrite", "Whether Spark writes fewer and larger files."),
    flag("delta.checkpoint.writeStatsAsJson", "Whether checkpoints of the log have statistics as JSON.", default=True),
    flag("delta.checkpoint.writeStatsAsStruct", "Whether checkpoints of the log have statistics as columns."),
    Option(
        "delta.checkpointInterval",
        OptionType.INTEGER,
        "After how many versions a checkpoint of the log is written.",
        default=100,
        minimum=1,
    ),
    Option(
        "delta.columnMapping.mode",
        OptionType.ENUM,
        "How columns of files are found.",
        default="none",
        values=("none", "name", "id"),
        only_default=_NOT_MADE,
    ),
    Option(
        "delta.dataSkippingNumIndexedCols",
        OptionType.INTEGER,
        "How many columns, from the first on, have statistics in the log. `-1` is all.",
        default=32,
        minimum=-1,
    ),
    Option(
        "delta.dataSkippingStatsColumns",
        OptionType.STRING,
        "Columns that have statistics in the log, in place of `delta.dataSkippingNumIndexedCols`.",
    ),
    Option(
        "delta.deletedFileRetentionDuration",
        OptionType.INTERVAL,
        "How long VACUUM keeps a file that was deleted from the table.",
        default="interval 1 week",
    ),
    flag("delta.enableChangeDataFeed", "Whether commits note the changes of rows, for `readChangeFeed`."),
    flag("delta.enableExpiredLogCleanup", "Whether old versions are removed from the log.", default=True),
    *alike(
        flag("delta.enableDeletionVectors", "Whether writers may mark rows as deleted instead of writing files again."),
        flag("delta.enableIcebergCompatV1", "Whether Iceberg can read the table."),
        flag("delta.enableIcebergCompatV2", "Whether Iceberg can read the table."),
        flag("delta.enableInCommitTimestamps", "Whether commits note their time."),
        flag("delta.enableRowTracking", "Whether rows have identifiers."),
        flag("delta.enableTypeWidening", "Whether types of columns can be widened."),
        only_default=_NOT_MADE,
    ),
    Option(
        "delta.isolationLevel",
        OptionType.ENUM,
        "Which transactions count as conflicts.",
        default="WriteSerializable",
        values=("Serializable", "WriteSerializable"),
    ),
    Option(
        "delta.logRetentionDuration",
        OptionType.INTERVAL,
        "How long the log of a version is kept.",
        default="interval 30 days",
    ),
    *alike(
        Option("delta.minReaderVersion", OptionType.INTEGER, "Protocol that readers must know."),
        Option("delta.minWriterVersion", OptionType.INTEGER, "Protocol that writers must know."),
        only_default=_FOLLOWS,
    ),
    flag("delta.randomizeFilePrefixes", "Whether Spark puts files into folders of random names."),
    Option("delta.randomPrefixLength", OptionType.INTEGER, "Characters of such a random name.", default=2, minimum=1),
    Option(
        "delta.setTransactionRetentionDuration",
        OptionType.INTERVAL,
        "How long the log keeps the number of the last micro-batch of a job. A job that is stopped for longer may "
        "write a micro-batch again. Default: forever.",
    ),
    Option("delta.targetFileSize", OptionType.LONG, "Size of files that are written, in bytes.", minimum=1),
    flag("delta.tuneFileSizesForRewrites", "Whether Databricks chooses the size of files for MERGE."),
)

_TABLE = {option.key: option for option in PROPERTIES}


def properties_of(options: Mapping[str, str]) -> dict[str, str]:
    """The properties among the options of a table, in the spelling of Delta's protocol.

    Raises:
        OptionError: OPT104, there is no such property; OPT105, its value is malformed; OPT107, sinks cannot honour it.
    """
    return {key: _text(key, text) for key, text in options.items() if key.startswith("delta.")}


def _text(key: str, text: str) -> str:
    option = _TABLE.get(key)
    if option is None:
        near = nearest(key, _TABLE)
        raise OptionError(
            "OPT104", key=key, owner="a Delta table", hint=near, expected=None if near else one_of(_TABLE)
        )
    value = accepted_value(option, text, key)
    return str(value).lower() if option.type is OptionType.BOOLEAN else str(value)
