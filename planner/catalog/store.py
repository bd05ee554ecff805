"""The catalog store on disk: definitions of catalogs that the next session finds.

Each is a YAML file, as Flink writes them: Flink can read these files, and stateplan those of Flink. Two lines of
comment before the options say which format it is and keep the comment of the catalog.

Source: Flink's ``FileCatalogStore`` (FLIP-295).

Codes: CAT111 to CAT115, CAT119.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from stateplan.common.errors import CatalogError, OptionError, Place
from stateplan.common.paths import AnyPath
from stateplan.common.settings import Configuration
from stateplan.planner.catalog.catalogs import IN_MEMORY
from stateplan.planner.catalog.definitions import FORMAT, require_references
from stateplan.planner.catalog.file_catalog import (
    FILE,
    file_name,
    folder_at,
    names_in,
    read_file,
    remove_file,
    write_file,
    writing,
)
from stateplan.planner.catalog.manager import CatalogDescriptor, CatalogStore

STORE_KIND = "table.catalog-store.kind"
STORE_PATH = "table.catalog-store.file.path"

_ENDING = ".yaml"
_FIRST = re.compile(r"# stateplan catalog store, format (\d+)\s*$", re.M)
_COMMENT = re.compile(r"# comment: (\".*\")\s*$", re.M)


def default_folder() -> str:
    """Where the store is without ``table.catalog-store.file.path``: below the user's folder for data."""
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return str(Path(data, "stateplan", "catalogs"))


def store_of(config: Configuration) -> CatalogStore | None:
    """The catalog store that the options of a session name; None for Flink's default, which ends with the session.

    Raises:
        OptionError: OPT165, an unknown kind.
        DataError: DATA101, DATA107, DATA108: the URL cannot be opened.
    """
    kind = config.value(STORE_KIND)
    if kind == IN_MEMORY:
        return None
    if kind != FILE:
        raise OptionError("OPT165", kind=kind, key=STORE_KIND)
    return FileCatalogStore(folder_at(config.get(STORE_PATH) or default_folder()))


class FileCatalogStore:
    """Definitions of catalogs in a folder.

    Args:
        folder: the folder of the files, which need not exist yet.
    """

    def __init__(self, folder: AnyPath) -> None:
        self.folder = folder

    def _path(self, name: str) -> AnyPath:
        return self.folder / f"{file_name(name)}{_ENDING}"

    def names(self) -> list[str]:
        return names_in(self.folder, _ENDING)

    def read(self, name: str) -> CatalogDescriptor | None:
        path = self._path(name)
        text = read_file(path)
        return None if text is None else _read(text, str(path), name)

    def write(self, name: str, descriptor: CatalogDescriptor) -> bool:
        text = _text(name, descriptor)
        with writing(self.folder):
            if read_file(self._path(name)) is not None:
                return False
            write_file(self._path(name), text)
        return True

    def remove(self, name: str) -> None:
        with writing(self.folder):
            remove_file(self._path(name))


def _text(name: str, descriptor: CatalogDescriptor) -> str:
    import yaml

    require_references(descriptor.options, f"the catalog '{name}'")
    lines = f"# stateplan catalog store, format {FORMAT}\n"
    if descriptor.comment is not None:
        lines += f"# comment: {json.dumps(descriptor.comment)}\n"
    text: str = yaml.safe_dump(dict(sorted(descriptor.options.items())), allow_unicode=True, sort_keys=False)
    return lines + text


def _read(text: str, file: str, name: str) -> CatalogDescriptor:
    import yaml

    number = _FIRST.match(text)
    if number is not None and int(number[1]) > FORMAT:
        raise CatalogError("CAT112", name=name, number=int(number[1]), most=FORMAT, place=Place(file))
    reason = "it does not have the form KEY: VALUE"
    place = Place(file)
    try:
        content = yaml.load(text, Loader=yaml.BaseLoader)  # every value is a text
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file, mark.line + 1, mark.column + 1, source=text) if mark else place
        content, reason = None, error.problem or "it is not YAML"
    except yaml.YAMLError as error:
        content, reason = None, str(error).splitlines()[0]
    except RecursionError:
        content, reason = None, "it is nested too deeply"
    if not isinstance(content, dict) or not all(isinstance(part, str) for pair in content.items() for part in pair):
        raise CatalogError(
            "CAT111",
            name=f"the catalog '{name}'",
            reason=reason,
            place=place,
            expected="options as KEY: VALUE, a line each",
        )
    comment = _COMMENT.search(text)
    try:
        words = None if comment is None else str(json.loads(comment[1]))
    except ValueError:
        words = None
    return CatalogDescriptor({str(key): str(value) for key, value in content.items()}, words)
