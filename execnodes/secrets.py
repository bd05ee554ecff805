"""Secrets in the options of tables and catalogs: which options are secrets, and references that stand for their values.

A plan, a checkpoint and a log have the reference, for example ``${env:PGPASSWORD}``. Whoever opens a connection
resolves it, and nobody keeps what it stands for longer than the connection. Importing this module loads no engine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from stateplan.execnodes.errors import OptionError, Place, nearest

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
_REFERENCE = re.compile(r"\$\{(\w+):([^}]*)\}")


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


def has_reference(text: str) -> bool:
    """Whether a value has a reference in it."""
    return _REFERENCE.search(text) is not None


def resolved(text: str, key: str, place: Place | None = None) -> str:
    """The value of an option with what its references stand for: ``${env:NAME}`` for an environment variable,
    ``${file:PATH}`` for the content of a file without the line break at its end.

    Args:
        text: the value as written.
        key: the option, for messages.
        place: where it is written.

    Raises:
        OptionError: OPT120, there is no such variable or file; OPT121, a reference of another kind.
    """

    def value(match: re.Match[str]) -> str:
        kind, name = match[1], match[2]
        if kind == "env":
            if name not in os.environ:
                hint = nearest(name, os.environ)
                raise OptionError("OPT120.env", key=key, name=name, place=place, hint=hint)
            return os.environ[name]
        if kind == "file":
            try:
                return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
                raise OptionError("OPT120.file", key=key, name=name, reason=reason, place=place) from error
        raise OptionError("OPT121", key=key, kind=kind, place=place, hint=nearest(kind, ("env", "file")))

    return _REFERENCE.sub(value, text)


def with_values(options: Mapping[str, str]) -> dict[str, str]:
    """Options with all references resolved. Raises as :func:`resolved`."""
    return {key: resolved(text, key) for key, text in options.items()}
