"""Files of a micro-batch that become visible all at once and exactly once.

A batch is written in three steps: its files are staged in a hidden folder; a marker that lists them is written there,
which decides that the batch counts; they are moved to their places. Whatever stops in between, the next :func:`clean`
of the batch either takes everything back or finishes it; a batch that counts is not written again.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stateplan.execnodes.connectors.files import filesystem_of, local_path
from stateplan.execnodes.errors import Place, RunError

_STAGED = ".staged-"


def part_name(uid: str, batch_id: int, part: int | str, extension: str) -> str:
    """Name of a file of a micro-batch of the sink ``uid``: ``part-<uid>-<batch>-<part>.<extension>``."""
    return f"part-{uid}-{batch_id}-{part}" + (f".{extension}" if extension else "")


@dataclass(frozen=True)
class _Sink:
    """The places of one sink: its folder, and in it the hidden folder of what is not committed."""

    fs: Any
    folder: str
    local: bool
    uid: str

    @classmethod
    def at(cls, path: str, uid: str) -> _Sink:
        fs, inner = filesystem_of(path)
        return cls(fs, inner.rstrip("/") or "/", local_path(path) is not None, uid)

    @property
    def hidden(self) -> str:
        return f"{self.folder}/{_STAGED}{self.uid}"

    def batch(self, batch_id: int) -> str:
        return f"{self.hidden}/{batch_id}"

    def marker(self, batch_id: int) -> str:
        return f"{self.hidden}/{batch_id}.committed"

    def write(self, target: str, data: bytes) -> None:
        if not self.local:
            with self.fs.open(target, "wb") as out:
                out.write(data)
            return
        with open(target, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())

    def move(self, source: str, target: str) -> None:
        if self.local:
            os.replace(source, target)
        else:
            self.fs.mv(source, target)

    def finish(self, batch_id: int) -> None:
        """Moves what is still staged of a batch that counts."""
        with self.fs.open(self.marker(batch_id), "rb") as source:
            names = json.loads(source.read())
        for name in names:
            staged = f"{self.batch(batch_id)}/{name}"
            if self.fs.exists(staged):
                if "/" in name:
                    self.fs.makedirs(posixpath.dirname(f"{self.folder}/{name}"), exist_ok=True)
                self.move(staged, f"{self.folder}/{name}")
        self.remove(self.batch(batch_id))

    def forget(self, batch_id: int) -> None:
        """Removes what earlier batches left in the hidden folder: nobody asks for them any more."""
        for path in self.fs.ls(self.hidden, detail=False):
            if int(posixpath.basename(path.rstrip("/")).partition(".")[0]) < batch_id:
                self.remove(path)

    def remove(self, path: str) -> None:
        if self.fs.exists(path):
            self.fs.rm(path, recursive=True)


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError("RUN151", path=path, strerror=error.strerror or error, place=Place(file=path)) from error


def stage(path: str, uid: str, batch_id: int, part: int | str, extension: str, data: bytes, partition: str = "") -> str:
    """Writes a file of a micro-batch where readers do not see it. The same part again replaces the file.

    Args:
        path: folder of the table; made when it does not exist.
        uid: of the sink in this run's checkpoint: another checkpoint must have another one.
        batch_id: of the micro-batch.
        part: tells the files of the micro-batch apart.
        extension: of the file, without the dot.
        data: the whole file.
        partition: folder of its partition within the table's.

    Returns:
        What :func:`commit` wants of it: its place within the folder.

    Raises:
        RunError: RUN151, when it cannot be written.
    """
    sink = _Sink.at(path, uid)
    name = posixpath.join(partition, part_name(uid, batch_id, part, extension))
    with _writing(path):
        if not sink.fs.exists(sink.marker(batch_id)):
            sink.fs.makedirs(posixpath.join(sink.batch(batch_id), partition), exist_ok=True)
            sink.write(f"{sink.batch(batch_id)}/{name}", data)
    return f"{_STAGED}{uid}/{batch_id}/{name}"


def commit(path: str, staged: Sequence[str]) -> None:
    """Makes the staged files of a micro-batch visible: all of them or, after a failure and :func:`clean`, none.

    Args:
        path: folder of the table.
        staged: what :func:`stage` gave for each file of one micro-batch; nothing for one without rows.

    Raises:
        RunError: RUN151, when the folder cannot be written.
    """
    if not staged:
        return
    hidden, batch, _ = staged[0].split("/", 2)
    sink, batch_id = _Sink.at(path, hidden.removeprefix(_STAGED)), int(batch)
    with _writing(path):
        marker = sink.marker(batch_id)
        if not sink.fs.exists(marker):
            sink.write(marker + ".tmp", json.dumps([s.split("/", 2)[2] for s in staged]).encode())
            sink.move(marker + ".tmp", marker)
        sink.finish(batch_id)
        sink.forget(batch_id)


def clean(path: str, uid: str, batch_id: int) -> bool:
    """Brings the folder into order before a micro-batch is written, for the first time or again.

    Returns:
        Whether the batch has already been committed: its files are all visible then, and what is staged for it from
        now on is ignored. Otherwise nothing of it, nor of a later batch, is left.

    Raises:
        RunError: RUN151, when the folder cannot be written.
    """
    sink = _Sink.at(path, uid)
    with _writing(path):
        sink.fs.invalidate_cache()
        if not sink.fs.exists(sink.hidden):
            return False
        if sink.fs.exists(sink.marker(batch_id)):
            sink.finish(batch_id)
            return True
        for leftover in sink.fs.ls(sink.hidden, detail=False):
            name = posixpath.basename(leftover.rstrip("/"))
            if not name.endswith(".committed") and int(name.partition(".")[0]) >= batch_id:
                sink.remove(leftover)
        return False
