"""Configuration files: options, tables, views and functions, each with the place that it comes from.

A file is YAML. Options are written as in Flink's ``config.yaml``, with the whole key on one line or nested:

    table.exec.state.ttl: 1 d
    execution:
      checkpointing:
        dir: checkpoints
    tables:
      - CREATE TABLE orders (id INT) WITH ('connector' = 'datagen')

Later files override earlier ones, key by key; their tables, views and functions are all created.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from stateplan.common.errors import OptionError, Place, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.redaction import redacted_value

SECTIONS = ("tables", "views", "functions")
"""Lists of statements, in the order in which they are run."""

PROJECT_FILE = "stateplan.yaml"
COMMAND_LINE = "-D"


@dataclass(frozen=True)
class Setting:
    """The value of an option, and where it was set."""

    key: str
    value: str
    origin: str
    place: Place | None = None

    @property
    def redacted(self) -> str:
        """The value, without secrets."""
        return redacted_value(self.key, self.value)


@dataclass(frozen=True)
class Declaration:
    """A statement of a configuration file.

    Attributes:
        statement: its text.
        section: the section of :data:`SECTIONS`.
        place: where it begins.
        lines: whether the lines of the statement are those of the file, from ``place`` on.
        indent: columns in front of each of these lines.
    """

    statement: str
    section: str
    place: Place
    lines: bool
    indent: int

    @property
    def origin(self) -> str:
        """The file and the line."""
        return f"{self.place.file}:{self.place.line}"

    def at_file(self, error: StateplanError) -> StateplanError:
        """``error``, whose place in the statement becomes the place in the file."""
        inside = error.place
        if inside is None or inside.file is not None or inside.line is None or not self.lines:
            if inside is None or inside.file is None:
                error.place = self.place
            return error
        assert self.place.line is not None
        error.place = replace(
            self.place,
            line=self.place.line + inside.line - 1,
            column=None if inside.column is None else inside.column + self.indent,
            length=inside.length,
        )
        return error


@dataclass
class Settings:
    """What files and the command line set.

    Attributes:
        options: by key.
        declarations: the declarations of all files, in their order.
        files: the files that were read.
    """

    options: dict[str, Setting] = field(default_factory=dict)
    declarations: list[Declaration] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)

    def values(self) -> dict[str, str]:
        """The options alone."""
        return {key: setting.value for key, setting in self.options.items()}

    def statements(self) -> Iterator[Declaration]:
        """The declarations: tables first, then views, then functions."""
        for section in SECTIONS:
            yield from (d for d in self.declarations if d.section == section)

    def read(self, path: Path) -> None:
        """Takes a file in.

        Raises:
            OptionError: OPT411, it cannot be read; OPT412, it is not the YAML of a configuration.
        """
        for entry in _read(path):
            if isinstance(entry, Setting):
                self.options[entry.key] = entry
            else:
                self.declarations.append(entry)
        self.files.append(path)

    def define(self, options: Mapping[str, str]) -> None:
        """Takes the options of the command line in."""
        self.options |= {key: Setting(key, value, COMMAND_LINE) for key, value in options.items()}

    def check(self) -> None:
        """Raises OptionError, with the line of the file, for an option that there is not, and for a wrong value."""
        from stateplan.common.settings import Configuration

        configuration = Configuration()
        for setting in self.options.values():
            configuration.set(setting.key, setting.value, setting.place)


def load(files: Sequence[str], options: Mapping[str, str], standard: bool = True) -> Settings:
    """The settings of a session.

    Args:
        files: configuration files of the command line, read last.
        options: the options of ``-D``, which override every file.
        standard: whether to read the files of the machine, of the user and of the working directory too.

    Raises:
        OptionError: OPT411 to OPT413.
    """
    settings = Settings()
    for path in standard_files() if standard else ():
        if path.exists():
            _check_owner(path)
            settings.read(path)
    for name in files:
        settings.read(Path(name))
    settings.define(options)
    return settings


def standard_files() -> list[Path]:
    """Of the machine, of the user and of the working directory; those that are read later override the others."""
    machine = os.environ.get("XDG_CONFIG_DIRS") or "/etc"
    user = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    folders = [*reversed(machine.split(os.pathsep)), user]
    return [*(Path(folder, "stateplan", "config.yaml") for folder in folders if folder), Path(PROJECT_FILE)]


def _check_owner(path: Path) -> None:
    """A file that somebody else has put into a shared folder must not be able to run things as this user."""
    if hasattr(os, "getuid") and (owner := path.stat().st_uid) not in (0, os.getuid()):
        raise OptionError("OPT413", owner=owner, place=Place(file=str(path)))


def _read(path: Path) -> Iterator[Setting | Declaration]:
    import yaml

    name = str(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as cause:
        raise OptionError("OPT411", reason=cause.strerror or str(cause), place=Place(file=name)) from cause
    except ValueError as cause:
        raise OptionError("OPT411", reason="it is not UTF-8 text", place=Place(file=name)) from cause
    except yaml.MarkedYAMLError as cause:
        mark = cause.problem_mark or cause.context_mark
        place = Place(name, mark.line + 1, mark.column + 1, source=text) if mark else Place(file=name)
        raise OptionError("OPT412", what=cause.problem or "it is not YAML", place=place) from cause
    except yaml.YAMLError as cause:
        raise OptionError("OPT412", what=str(cause).splitlines()[0], place=Place(file=name)) from cause
    except RecursionError:
        raise OptionError("OPT412", what="it is nested too deeply", place=Place(file=name)) from None
    if root is not None and not _is_null(root):
        yield from _File(name, text).entries(root)


def _is_null(node: Any) -> bool:
    return bool(node.tag == "tag:yaml.org,2002:null")


class _File:
    """The nodes of one file, read."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        self._lines: dict[str, int] = {}

    def _place(self, node: Any) -> Place:
        return Place(self._name, node.start_mark.line + 1, node.start_mark.column + 1, source=self._text)

    def _wrong(self, problem: str, node: Any) -> OptionError:
        return OptionError("OPT412", what=problem, place=self._place(node))

    def entries(self, root: Any) -> Iterator[Setting | Declaration]:
        """The settings and declarations of the whole file."""
        if root.id != "mapping":
            raise self._wrong("it does not have the form KEY: VALUE", root)
        for key, node in root.value:
            if key.value in SECTIONS:
                yield from self._declarations(key.value, node)
            elif key.value == "options":
                yield from self._options("", node, 0)
            else:
                yield from self._option(key, str(key.value), node, 0)

    def _options(self, prefix: str, node: Any, depth: int) -> Iterator[Setting]:
        if depth > 50:  # an alias that contains itself
            raise self._wrong("it is nested too deeply", node)
        if node.id != "mapping":
            raise self._wrong("the section 'options' does not have the form KEY: VALUE", node)
        for key, value in node.value:
            if key.id != "scalar":
                raise self._wrong("a key is not a text", key)
            yield from self._option(key, prefix + key.value, value, depth)

    def _option(self, key: Any, name: str, node: Any, depth: int) -> Iterator[Setting]:
        if node.id == "mapping":
            yield from self._options(f"{name}.", node, depth + 1)
            return
        if node.id == "sequence":
            if any(item.id != "scalar" for item in node.value):
                raise self._wrong(f"the list '{name}' holds more than texts", node)
            text = ",".join(item.value for item in node.value)
        elif _is_null(node):
            return
        else:
            text = node.value
        place = self._place(key)
        assert place.line is not None
        if name in self._lines:
            raise self._wrong(f"'{name}' is set twice, on line {self._lines[name]} too", key)
        self._lines[name] = place.line
        yield Setting(name, text, f"{self._name}:{place.line}", place)

    def _declarations(self, section: str, node: Any) -> Iterator[Declaration]:
        if _is_null(node):
            return
        if node.id != "sequence" or any(item.id != "scalar" for item in node.value):
            raise self._wrong(f"the section '{section}' is not a list of statements", node)
        for item in node.value:
            place = self._place(item)
            assert place.line is not None
            first = item.start_mark.line
            if item.style == "|":
                line = self._text.split("\n")[first + 1] if "\n" in self._text[item.start_mark.index :] else ""
                indent = len(line) - len(line.lstrip(" "))
                place = replace(place, line=place.line + 1, column=indent + 1)
                yield Declaration(item.value, section, place, True, indent)
            else:
                is_quoted = item.style in ("'", '"')
                is_verbatim = item.style in (None, "") and item.end_mark.line == first
                yield Declaration(item.value, section, place, is_verbatim, item.start_mark.column + is_quoted)
