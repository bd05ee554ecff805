"""The ``maxwell-json`` format: change events as Maxwell writes them, one JSON object per line.

``{"data": {..}, "old": {..}, "type": "insert" | "update" | "delete"}``: ``data`` is read as +I, as -D, or as +U with
``old`` before it as -U, whose missing fields are as they are in ``data``. Rows are written as Flink writes them: +I and
+U as an event insert, -U and -D as one delete.

The options are the rows of :data:`FORMAT`.
"""

from __future__ import annotations

from stateplan.execnodes.changelog import RETRACT
from stateplan.execnodes.connectors.formats.base import change_decoder, event_encoder
from stateplan.execnodes.connectors.formats.json import ENCODE_OPTIONS, IGNORE_PARSE_ERRORS, TIMESTAMP_FORMAT
from stateplan.execnodes.connectors.options import Format

FORMAT = Format(
    "maxwell-json",
    "Change events as Maxwell writes them, one JSON object per line.",
    (
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
        ("primary-key-columns", "ARRAY<STRING>"),
        ("ingestion-timestamp", "TIMESTAMP_LTZ(3)"),
    ),
)


make_decoder = change_decoder("maxwell_decode")
make_encoder = event_encoder(FORMAT)
