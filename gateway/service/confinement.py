"""What a gateway that others use lets their statements touch: files below its roots, and nothing that runs code.

Codes: GW012, GW013, GW014, OPT125.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from stateplan.common.errors import GatewayError, OptionError, Place, one_of
from stateplan.common.files import UrlError, absolute, below, place_of, real_path, safe_url
from stateplan.common.paths import scan_folder
from stateplan.common.roots import Roots
from stateplan.common.secrets import has_reference, references
from stateplan.common.settings import current_key
from stateplan.connectors.catalogs import CatalogType
from stateplan.connectors.protocol import Connector
from stateplan.connectors.registry import find_catalog_type, known_connector

ANY_MODULE = "*"
"""Stands for every module."""
_PATH_WORDS = frozenset({"path", "keytab", "dir", "directory", "file", "folder", "location", "url", "uri", "warehouse"})
_OPTIONS_OF_CODE = (
    *("spark.", "metrics.reporter", "pipeline.jars", "pipeline.classpaths", "python.", "user."),
    *("lineage.openlineage.transport", "telemetry.opentelemetry.endpoint"),
)
"""Options that start programs, load code, open ports or send to servers."""
_COMMANDS = (".cmd", ".command", "ssl.providers")
"""Ends of the names of table options whose values are run by a shell, or name libraries that are loaded."""


class Confinement:
    """Roots, and what may be done below them.

    Args:
        roots: folders and URLs; without any, everything may be used.
        variables: environment variables that options may refer to by ``${env:NAME}``, where there are roots.
        modules: modules and packages that functions of Python may be imported from, :data:`ANY_MODULE` for all; by
            default all where there are no roots, and none where there are.

    Raises:
        GatewayError: GW017, a root is neither a folder nor a URL.
    """

    def __init__(
        self, roots: Sequence[str] = (), variables: Sequence[str] = (), modules: Sequence[str] | None = None
    ) -> None:
        self.roots = Roots(tuple(map(_root, roots))) if roots else None
        self.variables = tuple(variables)
        self.modules = tuple(modules) if modules is not None else () if self.roots else (ANY_MODULE,)

    def check_file(self, path: str, place: Place | None = None) -> str:
        """The path or URL as it is to be used from now on: where there are roots, what its links lead to. Raises
        GatewayError GW012 when it is not below a root."""
        return path if self.roots is None else below(self.roots, path, place)

    def check_option(self, key: str, text: str, place: Place | None = None) -> str:
        """The value of an option as a session has it from now on: of a path, as :meth:`check_file`. Raises GatewayError
        GW012 or GW013 when a session must not set the option."""
        if self.roots is None:
            return text
        key = current_key(key)
        if key.startswith(_OPTIONS_OF_CODE):
            raise GatewayError("GW013", key=key, place=place)
        return self.check_file(text, place) if _names_a_path(key) else text

    def check_paths(
        self, options: Mapping[str, str], keys: Sequence[str], own_options: Mapping[str, str], own_folder: Path | None
    ) -> None:
        """Checks options that name paths once more, when the paths are used: a folder may have become a link.

        Args:
            options: the options of a session or of a job.
            keys: which of them.
            own_options: the options of the gateway, whose paths may be anywhere.
            own_folder: its folder. It has checkpoints of jobs, and no session can name a path there.

        Raises:
            GatewayError: GW012.
        """
        for key in keys:
            path = options.get(key)
            if self.roots is None or not path or path == own_options.get(key):
                continue
            local = place_of(path)
            if local is None or own_folder is None or not Path(absolute(local)).is_relative_to(own_folder.absolute()):
                self.check_file(path)

    def roots_with(self, options: Mapping[str, str]) -> Roots | None:
        """The roots of what a session does, with the paths that the gateway's own options name; None without roots."""
        if self.roots is None:
            return None
        own = [real_path(text) for key, text in options.items() if _names_a_path(current_key(key))]
        return Roots((*self.roots.folders, *own))

    def check_table(self, options: Mapping[str, str], place: Place | None = None) -> None:
        """Whether a table, or a catalog, with these options may be used.

        Raises:
            GatewayError: GW012, they name a file or server elsewhere, or refer to one; GW013, they name a program.
            OptionError: OPT125, they refer to an environment variable that is not given away.
        """
        if self.roots is None:
            return
        for key, text in options.items():
            if key.lower().endswith(_COMMANDS):
                raise GatewayError("GW013", key=key, place=place)
            if _names_a_path(key):
                if has_reference(text):  # it is only known later where that leads
                    raise GatewayError("GW012", path=text, place=place)
                self.check_file(text, place)
            for kind, name in references(text):
                if kind == "file":
                    self.check_file(name, place)
                elif kind == "env" and name not in self.variables:
                    raise OptionError("OPT125", key=key, name=name, place=place, expected=self._allowed_text())
        maker = _maker(options)
        if maker is None:
            return
        for key in maker.programs(options):
            raise GatewayError("GW013", key=key, place=place)
        for location in maker.places(options):
            self._check_place(location, place)

    def _check_place(self, location: str, place: Place | None) -> None:
        """Raises GatewayError GW012 for a server that is not a root, or a file that is not below one."""
        try:
            if not has_reference(location):
                self.check_file(location, place)
                return
        except GatewayError:
            if "://" not in location:
                raise
        kind, _, server = location.partition("://")
        raise GatewayError("GW012.server", kind=kind, server=server.rstrip("/"), place=place)

    def _allowed_text(self) -> str:
        return one_of(f"${{env:{name}}}" for name in self.variables) or "no reference to an environment variable"

    def check_links(self, options: Mapping[str, str]) -> None:
        """Raises GatewayError GW012 when a link in a folder of a table leads elsewhere: its reader would follow it."""
        if self.roots is None:
            return
        for key, text in options.items():
            local = place_of(text) if _names_a_path(key) else None
            if local is not None:
                self._check_links(self.check_file(text), set())

    def _check_links(self, folder: str, real_paths: set[str]) -> None:
        real_paths.add(folder)
        try:
            with scan_folder(folder) as entries:
                for entry in entries:
                    real = os.path.join(folder, entry.name)
                    if entry.is_symlink():
                        real = self.check_file(real)
                    if entry.is_dir() and real not in real_paths:
                        self._check_links(real, real_paths)
        except OSError:  # there is none, or it is a file, or whoever reads it fails
            return

    def check_function(self, name: str, reference: str | None, place: Place | None = None) -> None:
        """Whether a function of Python may be imported: it can do anything.

        Args:
            name: the name of the function.
            reference: ``module.name``; None for one that was given from Python.
            place: the place of the name.

        Raises:
            GatewayError: GW014, it is in none of the modules.
        """
        module = (reference or "").rpartition(".")[0]
        if reference is None or ANY_MODULE in self.modules:
            return
        if not any(module == prefix or module.startswith(f"{prefix}.") for prefix in self.modules):
            functions = one_of(f"a function of '{prefix}'" for prefix in self.modules) or "no function of Python"
            raise GatewayError("GW014", name=name, module=module or reference, place=place, expected=functions)


def _maker(options: Mapping[str, str]) -> Connector | CatalogType | None:
    """What knows more of a table, or of a catalog, than the keys of its options say. Options without a connector are
    those of a statement that changes a table, which is looked at as a whole when it is used."""
    return known_connector(options) or (find_catalog_type(options["type"]) if "type" in options else None)


def _root(text: str) -> str:
    """A root in the form of :class:`Roots`. Raises GatewayError GW017; an empty text would be the current folder."""
    try:
        if text.strip():
            return real_path(text)
        reason = "it is empty"
    except UrlError as error:
        reason = error.values.get("reason") or "it is neither a folder nor a URL"
    raise GatewayError("GW017", what=f"the root '{safe_url(text)}'", reason=reason)


def _names_a_path(key: str) -> bool:
    return not _PATH_WORDS.isdisjoint(re.split("[-_]", key.lower().rpartition(".")[2]))
