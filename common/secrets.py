"""Secrets in the options of tables and catalogs: references that stand for their values.

A plan, a checkpoint and a log have the reference, for example ``${env:PGPASSWORD}``. Whoever opens a connection
resolves it, and nobody keeps the value of a reference longer than the connection lasts. For a secret that somebody
wrote as it is, the session makes up a reference, ``${session:...}``, and keeps the value in memory: :class:`Secrets`.
Importing this module loads no engine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from urllib.parse import quote

from stateplan.common.errors import OptionError, Place, nearest
from stateplan.common.files import below_roots
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.redaction import SHORT, is_secret, replace_spans, secret_parts

_SESSION = "session"
_REFERENCE = re.compile(r"\$\{(\w+):([^}]*)\}")


def has_reference(text: str) -> bool:
    """Whether a value contains a reference."""
    return _REFERENCE.search(text) is not None


def references(text: str) -> Iterator[tuple[str, str]]:
    """Kind and name of every reference in a value."""
    return ((match[1], match[2]) for match in _REFERENCE.finditer(text))


def has_secrets(options: Mapping[str, str]) -> bool:
    """Whether there is a secret among options, as it is or as a reference to a session."""
    return any(
        secret_parts(key, text) or any(kind == _SESSION for kind, _ in references(text))
        for key, text in options.items()
    )


def resolve_references(text: str, key: str, place: Place | None = None) -> str:
    """The value of an option with what its references stand for: ``${env:NAME}`` for an environment variable,
    ``${file:PATH}`` for the content of a file without the line break at its end.

    Args:
        text: the value as written.
        key: the option, for messages.
        place: where it is written.

    Raises:
        GatewayError: GW012, the file is not below a root.
        OptionError: OPT120, there is no such variable or file; OPT121, a reference of another kind; OPT123, one of a
            session that this is not.
    """

    def failure(kind: str, name: str, problem: str, hint: str | None = None) -> OptionError:
        return OptionError("OPT120", key=key, kind=kind, name=name, problem=problem, place=place, hint=hint)

    def value(match: re.Match[str]) -> str:
        kind, name = match[1], match[2]
        if kind == "env":
            if name not in os.environ:
                raise failure("environment variable", name, "is not set", nearest(name, os.environ))
            return os.environ[name]
        if kind == "file":
            try:
                with open(name, encoding="utf-8", opener=below_roots) as file:
                    return file.read().rstrip("\r\n")
            except (OSError, ValueError) as error:
                reason = (error.strerror if isinstance(error, OSError) else None) or "it is no text in UTF-8"
                raise failure("file", name, f"cannot be read: {reason}") from error
        if kind == _SESSION:
            raise OptionError("OPT123", key=key, variable=_variable(key), what=f"the option '{key}'", place=place)
        raise OptionError("OPT121", key=key, kind=kind, place=place, hint=nearest(kind, ("env", "file")))

    return _REFERENCE.sub(value, text)


def unresolved(text: str, options: Mapping[str, str]) -> str:
    """A text of a library or a server, with the references of options that are not secrets as they are written in place
    of what they stand for.

    Args:
        text: what is shown.
        options: with references. Raises the same errors as :func:`resolve_references`.
    """
    plain_options = {key: value for key, value in options.items() if not is_secret(key)}
    pairs = ((key, match[0]) for key, value in plain_options.items() for match in _REFERENCE.finditer(value))
    references_by_value = {resolve_references(reference, key): reference for key, reference in pairs}
    for value in sorted(references_by_value, key=len, reverse=True):
        text = text.replace(value, references_by_value[value]) if len(value) > SHORT else text
    return text


class Environment:
    """The environment variables that references stand for, on their way to workers of this machine: their processes may
    be older than a variable, or than its value. They have it as soon as this is unpickled there.

    Args:
        tables: the options of each table.
    """

    def __init__(self, tables: Iterable[Mapping[str, str]]) -> None:
        texts = (text for options in tables for text in options.values())
        names = {name for text in texts for kind, name in references(text) if kind == "env"}
        self._values = {name: os.environ[name] for name in sorted(names) if name in os.environ}

    def __bool__(self) -> bool:
        return bool(self._values)

    def __setstate__(self, state: dict[str, dict[str, str]]) -> None:
        self.__dict__.update(state)
        os.environ.update(self._values)


@dataclass(frozen=True)
class Secrets:
    """The secrets of a job that are written as they are in the options of its tables, in memory only.

    Attributes:
        values: maps the name of a reference ``${session:NAME}`` to its value.
    """

    values: dict[str, str] = field(default_factory=dict, repr=False)

    def hide(self, table: str, options: Mapping[str, str]) -> dict[str, str]:
        """Options with references in place of secrets, which are kept here.

        Args:
            table: name of the table: part of the references.
            options: of it. References that stand there already stay.
        """

        def hide(key: str, text: str) -> str:
            def reference(secret: str) -> str:
                return f"${{{_SESSION}:{self._name(f'{table}/{key}', secret)}}}"

            return replace_spans(text, secret_parts(key, text), reference)

        return {key: hide(key, text) for key, text in options.items()}

    def _name(self, base: str, secret: str) -> str:
        """The name of a secret: that of the option, with a number behind those that are taken."""
        base = base.replace("%", "%25").replace("}", "%7D")
        name, count = base, 1
        while self.values.setdefault(name, secret) != secret:
            count += 1
            name = f"{base}#{count}"
        return name

    def reveal(self, table: str, options: Mapping[str, str]) -> dict[str, str]:
        """Options with secrets in place of references to this session.

        Args:
            table: name of the table, for messages.
            options: of it.

        Raises:
            OptionError: OPT123, a value that is not known here.
        """

        def with_values(key: str, text: str) -> str:
            def value(match: re.Match[str]) -> str:
                if match[1] != _SESSION:
                    return match[0]
                if match[2] not in self.values:
                    raise OptionError(
                        "OPT123", key=key, variable=_variable(key), what=f"the option '{key}' of the table '{table}'"
                    )
                return self.values[match[2]]

            return _REFERENCE.sub(value, text)

        return {key: with_values(key, text) if _REFERENCE.search(text) else text for key, text in options.items()}


def _variable(key: str) -> str:
    """A name for the environment variable of an option."""
    return re.sub(r"\W+", "_", key).upper()


def server_url(kind: str, server: str) -> str:
    """A server, ``host:port``, as a URL below which no other server is."""
    return f"{kind}://{server if has_reference(server) else quote(server, safe=':[]')}"
