"""The files of the two sides of a review, and their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import visible_files
from stateplan.testing.reader import has_tests

_PLAN = "plan.json"
_PLAN_MARK = b'"flinkVersion"'
_HEAD = 65_536


@dataclass(frozen=True)
class Side:
    """The files of a side.

    Attributes:
        queries: SQL scripts and plans, by the name that a review has for them.
        tests: test files, by name.
        prefix: what makes a path for readers of a name.
        folder: what relative paths in statements refer to; None for the present folder.
        init: the script with tables and settings that runs before each script; None without one.
    """

    queries: Mapping[str, Path] = field(default_factory=dict)
    tests: Mapping[str, Path] = field(default_factory=dict)
    prefix: str = ""
    folder: Path | None = None
    init: Path | None = None


def is_checkpoint(path: Path) -> bool:
    """Whether a path is the checkpoint of a job."""
    return (path / _PLAN).is_file() and (path / "stateplan.json").is_file()


def two_sides(old: str, new: str, init: str | None) -> tuple[Side, Side]:
    """The sides of ``stateplan review OLD NEW``: two files, two folders, or a checkpoint and a file.

    Raises:
        StateplanError: REV001, one does not exist, or one is a file and the other a folder.
    """
    old_path, new_path = Path(old), Path(new)
    for text, path in ((old, old_path), (new, new_path)):
        if not path.exists():
            raise StateplanError("REV001", path=text, why="does not exist")
    old_path = old_path / _PLAN if is_checkpoint(old_path) else old_path
    if old_path.is_dir() and new_path.is_dir():
        return _of_folder(old_path, old, init), _of_folder(new_path, new, init)
    if old_path.is_dir() or new_path.is_dir():
        raise StateplanError("REV001.mixed", old=old, new=new)
    script = None if init is None else Path(init)
    return Side({new: old_path}, init=script), Side({new: new_path}, init=script)


def _of_folder(folder: Path, text: str, init: str | None) -> Side:
    """The files of a folder; ``init`` is in the folder if each side has its own, or else where it says."""
    files = {path.relative_to(folder).as_posix(): path for path in _files(folder)}
    script = None if init is None else folder / init if (folder / init).is_file() else Path(init)
    return _side(files, f"{text.rstrip('/')}/", None, script)


def below(paths: Sequence[str], folder: Path | None, init: str | None) -> Side:
    """The files below some paths, which are relative to ``folder``, or to the present one. A path that does not exist
    has no files: it may exist on the other side."""
    root = folder or Path()
    files = {
        (Path(text) / path.relative_to(root / text)).as_posix(): path for text in paths for path in _files(root / text)
    }
    return _side(files, "", folder, None if init is None else root / init)


def require_paths(paths: Sequence[str], folder: Path) -> None:
    """Raises StateplanError REV001, for a path that neither the present folder nor ``folder`` has."""
    for text in paths:
        if not Path(text).exists() and not (folder / text).exists():
            raise StateplanError("REV001", path=text, why="does not exist on either side")


def _side(files: Mapping[str, Path], prefix: str, folder: Path | None, init: Path | None) -> Side:
    tests = {name: path for name, path in files.items() if has_tests(path)}
    queries = {name: path for name, path in files.items() if name not in tests}
    return Side(queries, tests, prefix, folder, init)


def _files(place: Path) -> Iterator[Path]:
    """The SQL scripts and plans at a path, in the order of their names; hidden ones are omitted."""
    if place.is_file():
        yield place
        return
    for path in visible_files(place):
        if path.suffix == ".sql" or (path.suffix == ".json" and _is_plan(path)):
            yield path


def _is_plan(path: Path) -> bool:
    """Whether a file is a plan, by its beginning."""
    try:
        with path.open("rb") as stream:
            return _PLAN_MARK in stream.read(_HEAD)
    except OSError:
        return False
