"""Processes of a run: its tree, and the peak of its memory."""

from __future__ import annotations

import contextlib
import threading
from typing import Self

import psutil


def process_tree(root: int) -> list[psutil.Process]:
    """``root`` and its descendants that are alive."""
    try:
        process = psutil.Process(root)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def memory_of(process: psutil.Process) -> int:
    """Bytes a process holds: its proportional set size, where pages shared by n processes count 1/n; where the
    system does not tell, its resident set size. 0 for one that has ended."""
    try:
        found = process.memory_full_info()
    except psutil.Error:
        return 0
    return int(getattr(found, "pss", found.rss))


def cpu_seconds(root: int) -> dict[int, float]:
    """Processor time that each process of a tree has taken, with its children that have ended, by its id."""
    found = {}
    for process in process_tree(root):
        with contextlib.suppress(psutil.Error):
            found[process.pid] = sum(process.cpu_times()[:4])
    return found


class Sampler:
    """Takes samples at an interval while it is used as a context."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def sample(self) -> None:
        """Takes a sample."""
        raise NotImplementedError

    def _watch(self) -> None:
        self.sample()
        while not self._stop.wait(self._interval):
            self.sample()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


class PeakMemory(Sampler):
    """Samples a process tree twice a second; ``bytes`` is the largest sum seen."""

    def __init__(self, root: int) -> None:
        super().__init__(0.5)
        self.bytes = 0
        self._root = root

    def sample(self) -> None:
        self.bytes = max(self.bytes, sum(memory_of(p) for p in process_tree(self._root)))
