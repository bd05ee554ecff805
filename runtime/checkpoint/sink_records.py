"""The last micro-batch that the system behind each sink has recorded: ``sinks.json`` of a checkpoint.

A system that has lost it, because it was set back or its table created again, is found out when the job starts again. A
sink without rows records no micro-batch, and a sink whose table has changed is a new one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field

from stateplan.common.disk import full_disk
from stateplan.common.errors import CheckpointError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath, write_whole
from stateplan.connectors.protocol import Sink
from stateplan.connectors.sink_epochs import SinkEpoch

_FILE = "sinks.json"


@dataclass
class SinkRecords:
    """The file of a checkpoint.

    Attributes:
        folder: the folder of the checkpoint.
        job: id of the checkpoint. A copy that is a new job has another one, and its sinks have recorded nothing.
    """

    folder: AnyPath
    job: str
    _written_records: dict[str, list[object]] = field(default_factory=dict, init=False)

    def recall(self, sinks: Mapping[str, Sink]) -> None:
        """Passes to each sink the number of its last micro-batch. Raises CheckpointError CKPT005, the file is
        damaged."""
        path = self.folder / _FILE
        try:
            content = json.loads(path.read_text()) if path.exists() else {}
            epochs = {uid: (str(digest), int(epoch)) for uid, (digest, epoch) in content.get(self.job, {}).items()}
        except (OSError, ValueError, TypeError, AttributeError) as cause:
            raise CheckpointError("CKPT005.damaged_file", file=path, why=str(cause)) from cause
        for uid, sink in sinks.items():
            if uid in epochs:
                sink.ledger.last_epoch = SinkEpoch(*epochs[uid])
                self._written_records[uid] = [*epochs[uid]]

    def keep(self, sinks: Mapping[str, Sink]) -> None:
        """Writes the last micro-batches of the sinks. Raises RunError RUN031, the disk is full; OSError."""
        sink_epochs = {uid: sink.ledger.last_epoch for uid, sink in sinks.items()}
        records: dict[str, list[object]] = {uid: [n.digest, n.epoch] for uid, n in sink_epochs.items() if n is not None}
        if records == self._written_records:
            return
        path = self.folder / _FILE
        try:
            write_whole(path, json.dumps({self.job: records}) + "\n")
        except OSError as error:
            raise full_disk(error, path) or error from None
        self._written_records = records
