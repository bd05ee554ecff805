"""The ``ogg-json`` format: change events as Oracle GoldenGate writes them, one JSON object per line.

``{"before": {..}, "after": {..}, "op_type": "I" | "U" | "D"}``: ``I`` is read as +I, ``U`` as -U and +U, ``D`` as -D.
Rows are written as Flink writes them: +I and +U as an event I, -U and -D as one D.

The options are the rows of :data:`FORMAT`.
"""

from __future__ import annotations

from stateplan.execnodes.changelog import RETRACT
from stateplan.execnodes.connectors.formats.base import change_decoder, event_encoder
from stateplan.execnodes.connectors.formats.json import ENCODE_OPTIONS, IGNORE_PARSE_ERRORS, TIMESTAMP_FORMAT
from stateplan.execnodes.connectors.options import Format

FORMAT = Format(
    "ogg-json",
    "Change events as Oracle GoldenGate writes them, one JSON object per line.",
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
        ("table", "STRING"),
        ("primary-keys", "ARRAY<STRING>"),
        ("ingestion-timestamp", "TIMESTAMP_LTZ(6)"),
        ("event-timestamp", "TIMESTAMP_LTZ(6)"),
    ),
)


make_decoder = change_decoder("ogg_decode")
make_encoder = event_encoder(FORMAT)
