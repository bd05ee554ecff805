"""Peak memory of a process and everything it started."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

PROC = Path("/proc")


def process_tree(root: int) -> list[int]:
    """``root`` and its descendants that are alive."""
    parents: dict[int, int] = {}
    if PROC.is_dir():
        for stat in PROC.glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:  # it ended in between
                continue
            parents[int(stat.parent.name)] = int(fields[1])
    else:
        lines = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
        parents = {int(p): int(pp) for p, pp in (line.split() for line in lines.splitlines())}
    tree = [root]
    for pid in tree:
        tree += [child for child, parent in parents.items() if parent == pid]
    return tree


def memory_of(pid: int) -> int:
    """Bytes a process holds: its proportional set size, where pages shared by n processes count 1/n; where the
    system does not tell, its resident set size. 0 for one that has ended."""
    try:
        if (PROC / str(pid) / "smaps_rollup").exists():
            for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
            return 0
        done = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return int(done.stdout.strip() or 0) * 1024
    except OSError:
        return 0


class PeakMemory:
    """Samples a process tree twice a second while it is used as a context; ``bytes`` is the largest sum seen."""

    def __init__(self, root: int, interval: float = 0.5) -> None:
        self.bytes = 0
        self._root = root
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while True:
            self.bytes = max(self.bytes, sum(memory_of(p) for p in process_tree(self._root)))
            if self._stop.wait(self._interval):
                return

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
