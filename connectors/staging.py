"""Files of a micro-batch that become visible all at once and exactly once.

A batch is written in three steps: its files are staged in a hidden folder; a marker that lists them is written there,
which decides that the batch counts; they come to their places. Whatever stops in between, the next
:meth:`Staging.clean` of the batch either takes everything back or finishes it; a batch that counts is not written
again.

On object stores to move is to copy, file by file. Files that are copied to their places stay invisible there, until
one object, which is replaced at once, says that all are there: see :mod:`connectors.listing`.
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from stateplan.common.errors import Place, RunError
from stateplan.common.files import (
    below_roots,
    driver_errors,
    filesystem_of,
    find_files,
    has_whole_objects,
    is_pattern,
    local_path,
    move,
    remove,
    rooted_path,
    safe_url,
)
from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.listing import COMMITTED, epoch_of, note_of, part_name
from stateplan.connectors.sink_epochs import Mark, is_of_other_checkpoint

_MARKER = ".committed"
_MARK = "reach-"
_STAGED = ".staged-"


@dataclass(frozen=True)
class Staging(ABC):
    """The files of one sink: visible ones in a folder, and in it the hidden folder of what is not committed.

    Attributes:
        path: folder of the table; made when it does not exist.
        uid: the uid of the sink in this run's checkpoint: another checkpoint must have another one.

    Methods raise RunError RUN151, when the folder cannot be written.
    """

    path: str
    uid: str
    _fs: Any
    _folder: str

    @staticmethod
    def at(path: str, uid: str) -> Staging:
        """Raises DataError DATA101, DATA107, DATA108, when there is no file system behind the path."""
        fs, inner = filesystem_of(path)
        folder = inner.rstrip("/") or "/"
        if local_path(path) is not None:
            return _Local(path, uid, fs, folder)
        return (_CopyStaging if has_whole_objects(fs) else _MoveStaging)(path, uid, fs, folder)

    @abstractmethod
    def begin(self) -> None:
        """Makes the folder, where there are folders without files."""

    def announce(self, token: str) -> None:
        """Leaves a mark in the hidden folder."""
        with self._writing():
            self._write(f"{self._hidden_folder}/{_MARK}{token}", b"1")

    def sees(self, token: str) -> bool:
        """Whether the mark is there."""
        with self._writing():
            return self._exists(f"{self._hidden_folder}/{_MARK}{token}")

    def stage(self, batch_id: int, part: int | str, extension: str, files: Mapping[str, bytes]) -> list[str]:
        """Writes files of a micro-batch where readers do not see them. The same part again replaces them.

        Args:
            batch_id: the id of the micro-batch.
            part: distinguishes the files of the micro-batch that have the same folder.
            extension: the extension of the files, without the dot.
            files: folder of a partition within the table's, or nothing, to the whole file there.

        Returns:
            What :meth:`commit` wants of them: their places within the folder.
        """
        name = part_name(self.uid, batch_id, part, extension)
        data_by_place = {posixpath.join(folder, name): data for folder, data in files.items()}
        with self._writing():
            if not self._exists(self._marker(batch_id)):
                self._write_all({f"{self._batch(batch_id)}/{place}": data for place, data in data_by_place.items()})
        return list(data_by_place)

    def commit(self, batch_id: int, names: Sequence[str], read: str = "") -> None:
        """Makes the staged files of a micro-batch visible: all of them or, after a failure and :meth:`clean`, none.

        Args:
            batch_id: the id of the micro-batch.
            names: what :meth:`stage` gave for each of its files; nothing for one without rows.
            read: digest of what it reads.

        Raises:
            RunError: RUN152, when one of them is not there; then none is visible.
        """
        if not names:
            return
        with self._writing():
            is_repeated = self._exists(self._marker(batch_id))
            if not is_repeated:
                staged_names = self._staged(batch_id, names)
                for name in names:
                    if name not in staged_names:
                        path = safe_url(self.path)
                        folder = f"{path.rstrip('/')}/{posixpath.basename(self._hidden_folder)}/{batch_id}"
                        raise RunError("RUN152", path=path, folder=folder, file=name)
                self._decide(batch_id, json.dumps({"input": read, "files": list(names)}).encode())
            self._complete(batch_id, is_repeated)

    def others(self) -> bool:
        """Whether the same statement has written to the folder with another checkpoint."""
        with self._writing():
            return any(is_of_other_checkpoint(uid, self.uid) for uid in self._committers())

    def clean(self, batch_id: int, check: Callable[[Mark | None], object] | None = None) -> bool:
        """Brings the folder into order before a micro-batch is written, for the first time or again.

        Args:
            batch_id: the id of the micro-batch.
            check: gets the last micro-batch that the folder has, before anything is changed; what it raises is raised.

        Returns:
            Whether the batch has already been committed: its files are all visible then, and what is staged for it
            from now on is ignored. Otherwise nothing of it, nor of a later batch, is left.
        """
        with self._writing():
            entries = self._entries()
            if check is not None:
                check(self._last(entries, batch_id))
            if f"{batch_id}{_MARKER}" in entries:
                self._complete(batch_id, is_repeated=True)
                return True
            self._remove(
                e for e in entries if e.startswith(_MARK) or (not e.endswith(_MARKER) and _number(e) >= batch_id)
            )
            self._begin(batch_id)
            return False

    def _last(self, entries: Sequence[str], batch_id: int) -> Mark | None:
        """The last micro-batch that the folder has; what it read is looked up for ``batch_id`` alone."""
        last = max((_number(e) for e in entries if e.endswith(_MARKER)), default=-1)
        if last < 0:
            return None
        return Mark(last, self._decided(batch_id)[0] if last == batch_id else "")

    def _complete(self, batch_id: int, is_repeated: bool) -> None:
        self._finish(batch_id, is_repeated)
        # Earlier batches are not requested any more.
        self._remove(e for e in self._entries() if e != f"{batch_id}{_MARKER}" and _number(e) <= batch_id)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with driver_errors():
                yield
        except OSError as error:
            path = safe_url(self.path)
            raise RunError("RUN151", path=path, strerror=error.strerror or error, place=Place(file=path)) from error

    @property
    def _hidden_folder(self) -> str:
        return f"{self._folder}/{_STAGED}{self.uid}"

    def _batch(self, batch_id: int) -> str:
        return f"{self._hidden_folder}/{batch_id}"

    def _marker(self, batch_id: int) -> str:
        return f"{self._hidden_folder}/{batch_id}{_MARKER}"

    def _exists(self, path: str) -> bool:
        return bool(self._fs.exists(path))

    def _decided(self, batch_id: int) -> tuple[str, list[str]]:
        """What the marker of a batch says: the digest of what it read, and its files. Raises RunError RUN002, it is
        damaged."""
        marker = self._marker(batch_id)
        try:
            decision = json.loads(self._fs.cat_file(marker))
            if isinstance(decision, list):  # an earlier version wrote the files alone
                decision = {"input": "", "files": decision}
            return str(decision["input"]), [str(name) for name in decision["files"]]
        except (ValueError, KeyError, TypeError) as cause:
            raise RunError("RUN002.damaged", file=marker, why=cause) from cause

    @abstractmethod
    def _write(self, target: str, data: bytes) -> None:
        """Writes a file, with its folders."""

    def _write_all(self, files: Mapping[str, bytes]) -> None:
        for target, data in files.items():
            self._write(target, data)

    @abstractmethod
    def _entries(self) -> list[str]:
        """What is in the hidden folder: paths within it."""

    @abstractmethod
    def _committers(self) -> Iterator[str]:
        """The ids of all sinks that have written to the folder."""

    @abstractmethod
    def _remove(self, entries: Iterable[str]) -> None:
        """Removes some of that."""

    @abstractmethod
    def _staged(self, batch_id: int, names: Sequence[str]) -> set[str]:
        """Those of ``names`` that are staged."""

    @abstractmethod
    def _decide(self, batch_id: int, content: bytes) -> None:
        """Writes the marker of a batch, at once."""

    @abstractmethod
    def _finish(self, batch_id: int, is_repeated: bool) -> None:
        """Brings what is still staged of a batch that counts to its place; ``is_repeated``, what has been begun
        before."""

    @abstractmethod
    def _begin(self, batch_id: int) -> None:
        """Before the first file of a batch comes to its place."""


class _MoveStaging(Staging):
    """Where a file is renamed at once."""

    def begin(self) -> None:
        with self._writing():
            self._make(self._folder)

    def _make(self, folder: str) -> None:
        """Makes a folder, if it is not there."""
        self._fs.makedirs(folder, exist_ok=True)

    def _write(self, target: str, data: bytes) -> None:
        self._make(posixpath.dirname(target))
        self._fs.pipe_file(target, data)

    def _entries(self) -> list[str]:
        if not self._exists(self._hidden_folder):
            return []
        return [posixpath.basename(path.rstrip("/")) for path in self._fs.ls(self._hidden_folder, detail=False)]

    def _committers(self) -> Iterator[str]:
        paths = self._fs.ls(self._folder, detail=False) if self._exists(self._folder) else ()
        names = (posixpath.basename(path.rstrip("/")) for path in paths)
        yield from (name.removeprefix(_STAGED) for name in names if name.startswith(_STAGED))

    def _remove(self, entries: Iterable[str]) -> None:
        for entry in entries:
            remove(self._fs, f"{self._hidden_folder}/{entry}")

    def _staged(self, batch_id: int, names: Sequence[str]) -> set[str]:
        return {name for name in names if self._exists(f"{self._batch(batch_id)}/{name}")}

    def _decide(self, batch_id: int, content: bytes) -> None:
        marker = self._marker(batch_id)
        self._write(marker + ".tmp", content)
        self._move(marker + ".tmp", marker)

    def _move(self, source: str, target: str) -> None:
        move(self._fs, source, target)

    def _finish(self, batch_id: int, is_repeated: bool) -> None:
        # All files were there before the marker was: what is not has been moved.
        for name in self._decided(batch_id)[1]:
            staged_file = f"{self._batch(batch_id)}/{name}"
            if self._exists(staged_file):
                if "/" in name:
                    self._make(posixpath.dirname(f"{self._folder}/{name}"))
                self._move(staged_file, f"{self._folder}/{name}")
        if self._exists(self._batch(batch_id)):
            self._remove([str(batch_id)])

    def _begin(self, batch_id: int) -> None:
        pass


class _Local(_MoveStaging):
    def _make(self, folder: str) -> None:
        os.makedirs(rooted_path(folder), exist_ok=True)

    def _exists(self, path: str) -> bool:
        return os.path.exists(path)

    def _write(self, target: str, data: bytes) -> None:
        self._make(os.path.dirname(target))
        with open(target, "wb", opener=below_roots) as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())

    def _entries(self) -> list[str]:
        return os.listdir(rooted_path(self._hidden_folder)) if os.path.exists(self._hidden_folder) else []

    def _remove(self, entries: Iterable[str]) -> None:
        hidden_folder = rooted_path(self._hidden_folder)
        for entry in entries:
            path = f"{hidden_folder}/{entry}"
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.remove(path)

    def _move(self, source: str, target: str) -> None:
        os.replace(_in_folder(source), _in_folder(target))


def _in_folder(path: str) -> str:
    """A local path whose folder is below a root, where roots are held. Raises GatewayError GW012."""
    folder, name = os.path.split(path)
    return os.path.join(rooted_path(folder), name)


class _CopyStaging(Staging):
    """Where to rename a file is to copy it. Requests are few, whatever the number of files."""

    def begin(self) -> None:
        """There are no folders."""

    def _write(self, target: str, data: bytes) -> None:
        self._fs.pipe_file(target, data)

    def _write_all(self, files: Mapping[str, bytes]) -> None:
        self._fs.pipe(dict(files))

    def _entries(self) -> list[str]:
        return [path[len(self._hidden_folder) + 1 :] for path in find_files(self._fs, self._hidden_folder)]

    def _committers(self) -> Iterator[str]:
        markers = find_files(self._fs, f"{self._folder}/{COMMITTED}")
        yield from (posixpath.basename(path).removesuffix(".json") for path in markers)

    def _remove(self, entries: Iterable[str]) -> None:
        paths = [f"{self._hidden_folder}/{entry}" for entry in entries]
        if any(map(is_pattern, paths)):
            for path in paths:
                self._fs.rm_file(path)
        elif paths:
            self._fs.rm(paths)

    def _staged(self, batch_id: int, names: Sequence[str]) -> set[str]:
        folder = self._batch(batch_id)
        return {path[len(folder) + 1 :] for path in find_files(self._fs, folder)}

    def _decide(self, batch_id: int, content: bytes) -> None:
        self._write(self._marker(batch_id), content)

    def _finish(self, batch_id: int, is_repeated: bool) -> None:
        names = self._decided(batch_id)[1]
        if is_repeated:  # what is staged no more is in its place
            staged_names = self._staged(batch_id, names)
            names = [name for name in names if name in staged_names]
        self._fs.copy([f"{self._batch(batch_id)}/{n}" for n in names], [f"{self._folder}/{n}" for n in names])
        self._note(batch_id)

    def _begin(self, batch_id: int) -> None:
        if self._committed() is None:
            self._note(batch_id - 1)

    def _committed(self) -> int | None:
        """The last batch of which readers know that all files are in place; None if they know nothing yet."""
        try:
            return epoch_of(self._fs.cat_file(self._note_path))
        except FileNotFoundError:
            return None

    def _note(self, epoch: int) -> None:
        self._write(self._note_path, note_of(epoch))

    @property
    def _note_path(self) -> str:
        return f"{self._folder}/{COMMITTED}/{self.uid}.json"


def _number(entry: str) -> int:
    """Of an entry of the hidden folder, the number of its batch; -1 of another one."""
    number = entry.partition("/")[0].partition(".")[0]
    return int(number) if number.isdigit() else -1
