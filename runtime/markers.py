"""Marker files: what Spark's file source lists and records where there are no files for it.

A marker is a small file whose name is its number and a text. Spark takes markers in the order of their modification
times, which is that of their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.common.paths import AnyPath, rename, set_time

END = "_end"
"""How the name of a marker ends that stands for the last files of the input."""


class Markers:
    """A folder of markers. All access to it is here.

    Args:
        folder: made when the first marker is written.
    """

    def __init__(self, folder: AnyPath) -> None:
        self.folder = folder

    def make(self) -> None:
        """Makes the folder, which Spark has to find."""
        self.folder.mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        """The names of the markers, in order."""
        if not self.folder.is_dir():
            return []
        return sorted(p.name for p in self.folder.iterdir() if not p.name.startswith("."))

    def texts(self) -> list[str]:
        """The texts in their names, in order."""
        return [name.split("_", 1)[1] for name in self.names()]

    def remove(self, name: str) -> None:
        """Removes a marker that Spark has not taken yet."""
        (self.folder / name).unlink(missing_ok=True)

    def content(self, name: str) -> bytes:
        """What is in a marker."""
        return (self.folder / name).read_bytes()

    def add(self, first: int, texts: Sequence[str], contents: Sequence[str] | None = None) -> list[str]:
        """Adds markers, each whole or not at all, and gives their names.

        Args:
            first: number of the first.
            texts: for their names.
            contents: the contents of the files; the texts when there are none, because Spark passes over files of no
                length.
        """
        self.make()
        names = []
        for n, (text, content) in enumerate(zip(texts, contents or texts, strict=True), start=first):
            path = self.folder / f"{n:010d}_{text}"
            hidden_file = self.folder / f".{path.name}"
            hidden_file.write_text(content)
            set_time(hidden_file, 1_000_000_000 + n)
            rename(hidden_file, path.name)
            names.append(path.name)
        return names
