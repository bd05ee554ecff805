"""Where the sources of a job began to read that can be read again: a file in the folder of each source.

Spark records where a micro-batch ends, and not where the first one begins. It asks the source, again after a failure:
the end of a topic is another one by then.
"""

from __future__ import annotations

import json
from typing import Any

from stateplan.common.paths import AnyPath, write_whole
from stateplan.connectors.history import RepeatableSource
from stateplan.connectors.protocol import Offset, OffsetSource

_NAME = "beginning.json"


def first_offset(source: OffsetSource[Any]) -> Offset:
    """Where a source begins. For one that can be read again, it is recorded when it is first asked. Raises OSError
    when it cannot be recorded."""
    folder = source.folder
    if folder is None or not isinstance(source, RepeatableSource):
        return source.initial_offset()
    earlier_offset = beginning(folder)
    if earlier_offset is not None:
        return earlier_offset
    offset = source.initial_offset()
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / _NAME, json.dumps(offset))
    return offset


def beginning(folder: AnyPath) -> Offset | None:
    """Where the source of a folder began; None if that is not recorded, or cannot be read."""
    try:
        offset = json.loads((folder / _NAME).read_bytes())
    except (OSError, ValueError):
        return None
    return offset if isinstance(offset, dict) else None


def forget_beginning(folder: AnyPath) -> None:
    """Makes a source start from the beginning, for a job that has planned no micro-batch. Raises OSError."""
    (folder / _NAME).unlink(missing_ok=True)
