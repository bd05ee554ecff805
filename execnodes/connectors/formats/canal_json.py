"""The ``canal-json`` format: change events as Alibaba's Canal writes them, one JSON object per line.

``{"data": [{..}], "old": [{..}], "type": "INSERT" | "UPDATE" | "DELETE"}``: rows of ``data`` are read as +I, as -D,
or as +U with the row of ``old`` before it as -U, whose missing fields are as they are in ``data``. Events of type
``CREATE`` are skipped. Rows are written as Flink writes them: +I and +U as an event INSERT, -U and -D as one DELETE.

The options are the rows of :data:`FORMAT`.
"""

from __future__ import annotations

from stateplan.execnodes.changelog import RETRACT
from stateplan.execnodes.connectors.formats.base import change_decoder, event_encoder
from stateplan.execnodes.connectors.formats.json import ENCODE_OPTIONS, IGNORE_PARSE_ERRORS, TIMESTAMP_FORMAT
from stateplan.execnodes.connectors.options import Format, Option, OptionType, Role

FORMAT = Format(
    "canal-json",
    "Change events as Canal writes them, one JSON object per line.",
    (
        Option(
            "database.include",
            OptionType.REGEX,
            "Only events whose field 'database' matches this regular expression wholly are read.",
            role=Role.SOURCE,
        ),
        Option(
            "table.include",
            OptionType.REGEX,
            "Only events whose field 'table' matches this regular expression wholly are read.",
            role=Role.SOURCE,
        ),
        IGNORE_PARSE_ERRORS,
        TIMESTAMP_FORMAT,
        *ENCODE_OPTIONS,
    ),
    source_changes=RETRACT,
    sink_changes=RETRACT,
    extension="json",
    text_keys=True,
    metadata=(
        ("database", "STRING"),
        ("table", "STRING"),
        ("sql-type", "MAP<STRING, INT>"),
        ("pk-names", "ARRAY<STRING>"),
        ("ingestion-timestamp", "TIMESTAMP_LTZ(3)"),
        ("event-timestamp", "TIMESTAMP_LTZ(3)"),
    ),
)


make_decoder = change_decoder("canal_decode")
make_encoder = event_encoder(FORMAT)
