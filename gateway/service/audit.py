"""The log of requests to a gateway: who sent each of them, and its result. Each is a line of JSON, without secrets."""

from __future__ import annotations

import json
import logging
import logging.handlers
import time
from pathlib import Path

from stateplan.common.redaction import redacted

MAX_BYTES = 16 << 20
FILES = 5
"""An audit log is cut into this number of files of at most this size."""


class AuditLog:
    """A file with a line for each request.

    Args:
        path: the path of the file; None to write nothing. Only its owner can read it.
    """

    def __init__(self, path: Path | None) -> None:
        self._handler: logging.Handler | None = None
        if path is not None:
            path.touch(mode=0o600)
            self._handler = logging.handlers.RotatingFileHandler(path, maxBytes=MAX_BYTES, backupCount=FILES - 1)

    def record(self, action: str, who: str, **facts: object) -> None:
        """Writes a line.

        Args:
            action: the kind of request: ``open session``, ``statement`` and so on.
            who: asked it: the address, and the name in a certificate.
            facts: what else is known; ``statement`` is redacted here.
        """
        if self._handler is None:
            return
        if "statement" in facts:
            facts["statement"] = redacted(str(facts["statement"]))[:10_000]
        moment = time.time()
        instant = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment * 1000) % 1000:03d}Z"
        line = json.dumps({"at": instant, "action": action, "who": who, **facts})
        self._handler.handle(logging.makeLogRecord({"msg": line}))

    def close(self) -> None:
        if self._handler is not None:
            self._handler.close()
