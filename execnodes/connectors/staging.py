"""Files of a micro-batch that become visible all at once and exactly once.

A batch is written in three steps: its files are staged in a hidden folder; a marker that lists them is written there,
which decides that the batch counts; they are moved to their places. Whatever stops in between, the next
:meth:`Staging.clean` of the batch either takes everything back or finishes it; a batch that counts is not written
again.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stateplan.execnodes.errors import Place, RunError
from stateplan.execnodes.files import filesystem_of, local_path


def part_name(uid: str, batch_id: int, part: int | str, extension: str) -> str:
    """Name of a file of a micro-batch of the sink ``uid``: ``part-<uid>-<batch>-<part>.<extension>``."""
    return f"part-{uid}-{batch_id}-{part}" + (f".{extension}" if extension else "")


@dataclass(frozen=True)
class Staging:
    """The files of one sink: visible ones in a folder, and in it the hidden folder of what is not committed.

    Attributes:
        path: folder of the table; made when it does not exist.
        uid: of the sink in this run's checkpoint: another checkpoint must have another one.

    Methods raise RunError RUN151, when the folder cannot be written.
    """

    path: str
    uid: str
    _fs: Any
    _folder: str
    _local: bool

    @classmethod
    def at(cls, path: str, uid: str) -> Staging:
        fs, inner = filesystem_of(path)
        return cls(path, uid, fs, inner.rstrip("/") or "/", local_path(path) is not None)

    def stage(self, batch_id: int, part: int | str, extension: str, data: bytes, partition: str = "") -> str:
        """Writes a file of a micro-batch where readers do not see it. The same part again replaces the file.

        Args:
            batch_id: of the micro-batch.
            part: tells the files of the micro-batch apart.
            extension: of the file, without the dot.
            data: the whole file.
            partition: folder of its partition within the table's.

        Returns:
            What :meth:`commit` wants of it: its place within the folder.
        """
        name = posixpath.join(partition, part_name(self.uid, batch_id, part, extension))
        with self._writing():
            if not self._fs.exists(self._marker(batch_id)):
                self._fs.makedirs(posixpath.join(self._batch(batch_id), partition), exist_ok=True)
                self._write(f"{self._batch(batch_id)}/{name}", data)
        return name

    def commit(self, batch_id: int, names: Sequence[str]) -> None:
        """Makes the staged files of a micro-batch visible: all of them or, after a failure and :meth:`clean`, none.

        Args:
            batch_id: of the micro-batch.
            names: what :meth:`stage` gave for each of its files; nothing for one without rows.
        """
        if not names:
            return
        with self._writing():
            marker = self._marker(batch_id)
            if not self._fs.exists(marker):
                self._write(marker + ".tmp", json.dumps(names).encode())
                self._move(marker + ".tmp", marker)
            self._finish(batch_id)
            for path in self._fs.ls(self._hidden, detail=False):
                if _number(path) < batch_id:  # nobody asks for earlier batches any more
                    self._remove(path)

    def clean(self, batch_id: int) -> bool:
        """Brings the folder into order before a micro-batch is written, for the first time or again.

        Returns:
            Whether the batch has already been committed: its files are all visible then, and what is staged for it
            from now on is ignored. Otherwise nothing of it, nor of a later batch, is left.
        """
        with self._writing():
            self._fs.invalidate_cache()
            if not self._fs.exists(self._hidden):
                return False
            if self._fs.exists(self._marker(batch_id)):
                self._finish(batch_id)
                return True
            for leftover in self._fs.ls(self._hidden, detail=False):
                if not leftover.rstrip("/").endswith(".committed") and _number(leftover) >= batch_id:
                    self._remove(leftover)
            return False

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            place = Place(file=self.path)
            raise RunError("RUN151", path=self.path, strerror=error.strerror or error, place=place) from error

    @property
    def _hidden(self) -> str:
        return f"{self._folder}/.staged-{self.uid}"

    def _batch(self, batch_id: int) -> str:
        return f"{self._hidden}/{batch_id}"

    def _marker(self, batch_id: int) -> str:
        return f"{self._hidden}/{batch_id}.committed"

    def _write(self, target: str, data: bytes) -> None:
        with open(target, "wb") if self._local else self._fs.open(target, "wb") as out:
            out.write(data)
            if self._local:
                out.flush()
                os.fsync(out.fileno())

    def _move(self, source: str, target: str) -> None:
        if self._local:
            os.replace(source, target)
        else:
            self._fs.mv(source, target)

    def _finish(self, batch_id: int) -> None:
        """Moves what is still staged of a batch that counts."""
        with self._fs.open(self._marker(batch_id), "rb") as source:
            names = json.loads(source.read())
        for name in names:
            staged = f"{self._batch(batch_id)}/{name}"
            if self._fs.exists(staged):
                if "/" in name:
                    self._fs.makedirs(posixpath.dirname(f"{self._folder}/{name}"), exist_ok=True)
                self._move(staged, f"{self._folder}/{name}")
        self._remove(self._batch(batch_id))

    def _remove(self, path: str) -> None:
        if self._fs.exists(path):
            self._fs.rm(path, recursive=True)


def _number(path: str) -> int:
    """Of an entry of the hidden folder, the number of its batch."""
    return int(posixpath.basename(path.rstrip("/")).partition(".")[0])
