"""The ``op-json`` format: rows as in ``json``, with the kind of the change in a field ``"_op"``: +I, -U, +U or -D.

It is not one of Flink's: it makes files of a table's changes, upserts among them, without a broker. ``op-json.mode``
says which kinds a table has, so what it asks of a query that reads or writes it. The field may stand anywhere in the
object; a row without it is a +I. It is written first.

The options are the rows of :data:`FORMAT`.
"""

from __future__ import annotations

from collections.abc import Mapping

from stateplan.execnodes.changelog import RETRACT
from stateplan.execnodes.connectors.formats.base import Encoder, Fields, change_decoder
from stateplan.execnodes.connectors.formats.json import ENCODE_OPTIONS, IGNORE_PARSE_ERRORS, TIMESTAMP_FORMAT
from stateplan.execnodes.connectors.options import Format, Option, OptionType

FORMAT = Format(
    "op-json",
    "One JSON object per line, with the kind of the change (+I, -U, +U or -D) in its field '_op'. A format of this "
    "project: Flink has none for upserts in files.",
    (
        Option(
            "mode",
            OptionType.ENUM,
            "Which kinds there are: all (retract), no -U (upsert), likewise with only the key right in a -D "
            "(upsert-key-delete), or +I alone (append).",
            default="upsert",
            values=("upsert", "upsert-key-delete", "retract", "append"),
            exact=True,
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


make_decoder = change_decoder("op_decode")


def make_encoder(options: Mapping[str, str], fields: Fields) -> Encoder:
    """A picklable encoder of frames with or without ``kind``."""
    from stateplan.execnodes.connectors.formats.json_encode import OpEncoder

    return OpEncoder.make(options, fields)
