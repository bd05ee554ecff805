"""What was asked of a gateway, by whom, and what came of it: a line of JSON each, without secrets."""

from __future__ import annotations

import json
import logging
import logging.handlers
import re
import time
from pathlib import Path

SENSITIVE = (
    *("password", "secret", "token", "credential", "apikey", "api-key", "api.key", "access-key", "access.key"),
    *("private-key", "private.key", "service-key", "account.key", "auth-params", "basic-auth", "jaas.config"),
    *("http-headers", "passphrase"),
)
"""An option whose key has one of these in it has a secret as its value. Source: Flink's ``GlobalConfiguration``."""

HIDDEN = "******"

_PAIR = re.compile(r"'((?:[^']|'')*)'(\s*=\s*)'((?:[^']|'')*)'?")
_BARE = re.compile(r"\b(SET\s+)([\w.-]+)(\s*=\s*)(\S+)", re.I)
_USER = re.compile(r"(?<=://)[^/@\s']*@")

MAX_BYTES = 16 << 20
FILES = 5
"""An audit log is cut into so many files of at most this size."""


def is_secret(key: str) -> bool:
    """Whether the value of an option of this name is a secret."""
    return any(word in key.lower() for word in SENSITIVE)


def redacted(statement: str) -> str:
    """A statement without the values of secret options, and without what stands before the host of a URL."""

    def pair(match: re.Match[str]) -> str:
        return f"'{match[1]}'{match[2]}'{HIDDEN}'" if is_secret(match[1]) else match[0]

    def bare(match: re.Match[str]) -> str:
        return f"{match[1]}{match[2]}{match[3]}{HIDDEN}" if is_secret(match[2]) else match[0]

    return _USER.sub(f"{HIDDEN}@", _BARE.sub(bare, _PAIR.sub(pair, statement)))


class AuditLog:
    """A file with a line for everything that was asked.

    Args:
        path: of the file; None to write nothing. Only its owner can read it.
    """

    def __init__(self, path: Path | None) -> None:
        self._handler: logging.Handler | None = None
        if path is not None:
            path.touch(mode=0o600)
            self._handler = logging.handlers.RotatingFileHandler(path, maxBytes=MAX_BYTES, backupCount=FILES - 1)

    def record(self, action: str, who: str, **facts: object) -> None:
        """Writes a line.

        Args:
            action: what was asked: ``open session``, ``statement`` and so on.
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
