"""The ``debezium-json`` format: one change event per line, ``{"before": .., "after": .., "op": "c"|"r"|"u"|"d"}``.

``c`` and ``r`` are read as +I, ``u`` as -U and +U, ``d`` as -D. With ``debezium-json.schema-include`` the event is
found under ``payload``. Rows are written as Flink writes them: +I and +U as an event with op ``c``, -U and -D as one
with op ``d``.

The options are the rows of :data:`FORMAT`.
"""

from __future__ import annotations

from stateplan.execnodes.changelog import RETRACT
from stateplan.execnodes.connectors.formats.base import change_decoder, event_encoder
from stateplan.execnodes.connectors.formats.json import ENCODE_OPTIONS, IGNORE_PARSE_ERRORS, TIMESTAMP_FORMAT
from stateplan.execnodes.connectors.options import Format, Option, OptionType, Role

FORMAT = Format(
    "debezium-json",
    "Change events as Debezium writes them, one JSON object per line.",
    (
        Option(
            "schema-include",
            OptionType.BOOLEAN,
            "Whether events come with their schema, under 'payload'.",
            default=False,
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
)


make_decoder = change_decoder("debezium_decode")
make_encoder = event_encoder(FORMAT)
