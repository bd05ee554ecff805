"""Files that the driver lists, for which it writes markers that each stand for some of them: those of object stores,
which Spark cannot list, and those of bounded input by event time, where a last marker says that the input has ended.

Spark records which markers a micro-batch reads, so one that runs again reads the same files. Which files are known is
in the markers alone.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from stateplan.common.errors import RunError, StateplanError
from stateplan.common.files import hadoop_lists, local_path
from stateplan.common.paths import AnyPath
from stateplan.common.roots import current_roots, hold
from stateplan.connectors.listing import FileEntry, entries_in, file_list
from stateplan.connectors.protocol import FileSource
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.markers import END, Markers

UNIT = 128 << 10
"""Length of the marker of a full task. Spark limits the bytes of a micro-batch, and counts those of the markers: their
lengths, filled up with blanks, stand for the bytes or the number of their files."""

_FILE = 2 << 10
"""Length for each file where the table limits the number of files."""

FIRST_BYTES = 4 << 20
"""Bytes of files in a first micro-batch of a job with a target for its latency, of which nothing is known."""

_MOST_BLANKS = 64 << 20
"""Bytes of markers without files that put off the end of a source."""

_VAIN_LOOKS = 100
"""Looks at the folder after which files that wait get their markers, though nothing has been read of those before."""

_NO_FILES = "0"
"""The text of a marker without files, which the name has after its number."""

_Digests = np.ndarray[Any, np.dtype[np.bytes_]]


def ends_with_files(graph: JobGraph) -> bool:
    """Whether the driver can list all input of a job by event time, and inform a micro-batch that input ends."""
    return (
        graph.event_time
        and not graph.open_ended
        and all(
            isinstance(s.reader, FileSource)
            and s.reader.bounded
            and (local_path(s.reader.path) is not None or not hadoop_lists(s.reader.path))
            for s in graph.sources
        )
    )


class FileLists:
    """The markers of one source.

    Args:
        name: the name of the table.
        source: lists the files.
        markers: their folder.
        tasks: parallel tasks of a micro-batch.
        task_bytes: bytes of files for each of them, where the table says nothing else.
        find_taken: returns the names of the markers that Spark has recorded for a micro-batch.
        is_paced: whether a micro-batch takes only as many files as :meth:`advance` says. Others wait for their markers.
    """

    def __init__(
        self,
        name: str,
        source: FileSource,
        markers: Markers,
        tasks: int,
        task_bytes: int,
        find_taken: Callable[[], Collection[str]] = tuple,
        is_paced: bool = False,
    ) -> None:
        self.name = name
        self.source = source
        self._markers = markers
        self._tasks = tasks
        self._task_bytes = task_bytes
        self._find_taken = find_taken
        self._names = markers.names()
        self._queue: list[FileEntry] = []
        self._room = sys.maxsize
        self._bytes_ahead = 0
        self._vain_looks = 0
        self._lock = threading.Lock()
        if is_paced:
            self._room = FIRST_BYTES
            self._bytes_ahead = sum(file.size for name in self._pending for file in entries_in(markers.content(name)))
        digests = [_digests(entries_in(markers.content(name))) for name in self._names]
        self._known_digests: _Digests = np.sort(np.concatenate([np.empty(0, "S16"), *digests]))

    @property
    def folder(self) -> AnyPath:
        """Of the markers."""
        return self._markers.folder

    @property
    def bytes_per_trigger(self) -> int:
        """How many bytes of markers a micro-batch may take."""
        return _FILE * self.source.max_files if self.source.max_files else UNIT * self._tasks

    def look(self) -> None:
        """Lists the files and writes markers for those that are new. Raises StateplanError."""
        self._pass_over_missing()
        files = self.source.files()
        if not files:
            return
        digests = _digests(files)
        places = np.minimum(np.searchsorted(self._known_digests, digests), max(0, len(self._known_digests) - 1))
        new = (
            np.flatnonzero(self._known_digests[places] != digests)
            if len(self._known_digests)
            else np.arange(len(files))
        )
        if not len(new):
            return
        fresh = sorted((files[i] for i in new), key=lambda file: (file.modified, file.path))
        self._known_digests = np.sort(np.concatenate([self._known_digests, digests[new]]))
        with self._lock:
            self._queue += fresh
            self._mark()

    def advance(self, bytes_read: int, room: int) -> None:
        """A micro-batch has read so many bytes of the files, and the next one may read ``room`` bytes, one file at
        least."""
        with self._lock:
            self._bytes_ahead = max(0, self._bytes_ahead - bytes_read)
            self._vain_looks = 0
            self._room = room
            self._mark()

    def _pass_over_missing(self) -> None:
        """Waits no longer for bytes that no micro-batch has read for many looks: files may be shorter than listed."""
        with self._lock:
            self._vain_looks = self._vain_looks + 1 if self._queue else 0
            if self._vain_looks > _VAIN_LOOKS:
                self._bytes_ahead = self._vain_looks = 0
                self._mark()

    def _mark(self) -> None:
        """Writes markers for the files that wait, as far as there is room."""
        count = 0
        while count < len(self._queue) and self._bytes_ahead < self._room:
            self._bytes_ahead += self._queue[count].size
            count += 1
        if not count:
            return
        packs = list(self._file_groups(self._queue[:count]))
        self._queue = self._queue[count:]
        self._names += self._markers.add(len(self._names), [str(len(p)) for p in packs], [self._text(p) for p in packs])

    @property
    def has_more(self) -> bool:
        """Whether there are markers that Spark has not recorded for a micro-batch."""
        return bool(self._pending)

    @property
    def batches(self) -> int:
        """How many micro-batches take all of these. Spark takes markers in order, up to a limit, but at least one."""
        count = room = 0
        for name in self._pending:
            length = len(self._markers.content(name))
            if length > room:
                count, room = count + 1, self.bytes_per_trigger
            room -= length
        return count

    def end(self, batches: int = 1) -> bool:
        """Says that the files known are the whole input, in the last marker or in one of its own.

        Args:
            batches: which of the micro-batches to come may receive it, at the earliest. Markers without files fill
                those before.

        Returns:
            False when these would be too large; then nothing is said.
        """
        own = self.batches
        if own and own >= batches:
            self._write_last_anew(end=True)
            return True
        blanks = max(0, batches - own - 1)
        if blanks * self.bytes_per_trigger > _MOST_BLANKS:
            return False
        texts, contents = [_NO_FILES] * blanks + [_NO_FILES + END], [self._text([])] * blanks + [self._text([], True)]
        contents = [content.ljust(self.bytes_per_trigger) for content in contents] if own or blanks else contents
        self._names += self._markers.add(len(self._names), texts, contents)
        return True

    def reopen(self) -> None:
        """Takes back what :meth:`end` said in an earlier run, unless a micro-batch has received it."""
        while self.has_more and self._names[-1].endswith((END, f"_{_NO_FILES}")):
            self._write_last_anew(end=False)

    def has_all_taken(self, taken_markers: Collection[str]) -> bool:
        """Whether these are all markers there are."""
        return len(taken_markers) >= len(self._names)

    def take_back(self, taken_markers: Collection[str]) -> bool:
        """Takes back what :meth:`end` said, though a micro-batch has received it, which has not begun.

        Args:
            taken_markers: those of this source that Spark has recorded for it and those before.

        Returns:
            False if no micro-batch has received it.
        """
        last = self._names[-1]
        if not last.endswith(END) or last not in taken_markers:
            return False
        content = self._markers.content(last)
        text = self._text(entries_in(content)).ljust(len(content))
        self._markers.add(len(self._names) - 1, [last.partition("_")[2]], [text])
        return True

    @property
    def _pending(self) -> list[str]:
        return [name for name in self._names if name not in self._taken_markers]

    @cached_property
    def _taken_markers(self) -> Collection[str]:
        return self._find_taken()

    def _write_last_anew(self, end: bool) -> None:
        """Writes the last marker with or without the end of the input; drops one that stands for no files."""
        files = entries_in(self._markers.content(self._names[-1]))
        self._markers.remove(self._names.pop())
        if files:
            text = f"{len(files)}{END if end else ''}"
            self._names += self._markers.add(len(self._names), [text], [self._text(files, end)])

    def _file_groups(self, files: Sequence[FileEntry]) -> Iterator[list[FileEntry]]:
        """Parts of the files, each for one task, of which there are at least as many as parallel tasks."""
        root = len(self.source.path)
        most = max(1, self.source.max_files // self._tasks) if self.source.max_files else len(files)
        shares = min(self._tasks, len(files))
        for share in range(shares):
            pack: list[FileEntry] = []
            size, length = 0, root + 40
            for file in files[len(files) * share // shares : len(files) * (share + 1) // shares]:
                took = len(file.path) - root + 40
                if pack and (len(pack) >= most or size + file.size > self._task_bytes or length + took > UNIT):
                    yield pack
                    pack, size, length = [], 0, root + 40
                pack.append(file)
                size += file.size
                length += took
            yield pack

    def _text(self, files: Sequence[FileEntry], end: bool = False) -> str:
        text = file_list(self.source.path, files, end)
        if self.source.max_files:
            return text.ljust(_FILE * len(files))
        tasks = sum(file.size for file in files) / self._task_bytes
        return text.ljust(int(UNIT * min(tasks, self._tasks)))


def _digests(files: Sequence[FileEntry]) -> _Digests:
    """What distinguishes paths, in 16 bytes each."""
    content = b"".join(
        hashlib.blake2b(file.path.encode("utf-8", "surrogatepass"), digest_size=16).digest() for file in files
    )
    return np.frombuffer(content, "S16")


class Watch:
    """Lists the files of sources again and again, in a thread of the driver.

    Args:
        file_lists: the sources.
        fail: receives an error, after which nothing is listed any more.
    """

    def __init__(self, file_lists: Sequence[FileLists], fail: Callable[[StateplanError], None]) -> None:
        self._fail = fail
        self._roots = current_roots()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(lists,), name="stateplan-listing", daemon=True)
            for lists in file_lists
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, lists: FileLists) -> None:
        hold(self._roots)
        interval = (lists.source.interval or 1000) / 1000
        while not self._stop.wait(interval):
            try:
                lists.look()
            except StateplanError as error:
                self._report(error.within(f"table {lists.name}"))
            except Exception as cause:
                text = f"{type(cause).__name__}: {cause}"
                self._report(RunError("RUN018", name=lists.name, cause=text))

    def _report(self, error: StateplanError) -> None:
        if not self._stop.is_set():
            self._stop.set()
            self._fail(error)

    def stop(self) -> None:
        """Ends the threads; one that waits for an answer of the store ends when it has it."""
        self._stop.set()
