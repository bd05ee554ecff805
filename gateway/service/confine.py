"""What a gateway that others use lets their statements touch: files below its roots, and nothing that runs code.

Codes: GW012, GW013, GW014.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping, Sequence

from stateplan.execnodes.errors import GatewayError, Place
from stateplan.execnodes.files import UrlError, place_of, scheme_of, shown

_PATH_WORDS = frozenset({"path", "dir", "directory", "file", "folder", "location", "url", "uri"})
_OPTIONS_OF_CODE = ("spark.", "metrics.reporter", "pipeline.jars", "pipeline.classpaths", "python.", "user.")
"""Options that start programs, load code or open ports."""


class Confinement:
    """Roots, and what may be done below them.

    Args:
        roots: folders and URLs; without any, everything may be used.
    """

    def __init__(self, roots: Sequence[str] = ()) -> None:
        self.roots = tuple(map(_real, roots))

    def check_file(self, path: str, place: Place | None = None) -> None:
        """Raises GatewayError GW012 when a path or URL is not below a root."""
        if not self.roots:
            return
        try:
            real = _real(path)
        except UrlError:
            real = ""
        if not any(real == root or real.startswith(root.rstrip("/") + "/") for root in self.roots):
            raise GatewayError("GW012", path=shown(path), place=place)

    def check_option(self, key: str, text: str, place: Place | None = None) -> None:
        """Raises GatewayError GW012 or GW013 when a session must not set an option."""
        if not self.roots:
            return
        if key.startswith(_OPTIONS_OF_CODE):
            raise GatewayError("GW013", key=key, place=place)
        if _names_a_path(key):
            self.check_file(text, place)

    def check_table(self, options: Mapping[str, str], place: Place | None = None) -> None:
        """Raises GatewayError GW012 when the options of a table name a file elsewhere."""
        for key, text in options.items():
            if _names_a_path(key):
                self.check_file(text, place)

    def check_function(self, name: str, place: Place | None = None) -> None:
        """Raises GatewayError GW014: a function of Python can do anything."""
        if self.roots:
            raise GatewayError("GW014", name=name, place=place)


def _names_a_path(key: str) -> bool:
    return not _PATH_WORDS.isdisjoint(key.lower().rpartition(".")[2].split("-"))


def _real(path: str) -> str:
    """A local path without links and dots, or a URL without dots. Raises UrlError."""
    local = place_of(path)
    if local is not None:
        return os.path.realpath(local)
    rest = path.partition(":")[2]
    if "::" in path or "\\" in path or "%" in path:
        raise UrlError("unusable")
    host, _, inside = rest.lstrip("/").partition("/")
    if "@" in host:
        raise UrlError("unusable")
    return f"{scheme_of(path)}://{host}{posixpath.normpath('/' + inside)}"
