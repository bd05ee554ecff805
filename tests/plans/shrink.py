"""From a file that shows a failure to a smaller one."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any


def shrink(data: bytes, fails: Callable[[bytes], bool], tries: int = 400) -> bytes:
    """A smaller file for which ``fails`` holds too: parts of the JSON taken away while it still does."""
    for step in (_smaller_values, _smaller_text):
        going = True
        while going and tries > 0:
            going = False
            for candidate in step(data):
                tries -= 1
                if tries <= 0:
                    break
                if fails(candidate):
                    data, going = candidate, True
                    break
    return data


def _smaller_values(data: bytes) -> Iterator[bytes]:
    try:
        plan = json.loads(data)
    except (ValueError, RecursionError):
        return
    for path in sorted(_paths(plan), key=len):
        changed = copy.deepcopy(plan)
        target = changed
        for step in path[:-1]:
            target = target[step]
        del target[path[-1]]
        yield json.dumps(changed, indent=1).encode("utf-8", "surrogatepass")


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*path, key)
        yield from _paths(value[key], (*path, key))


def _smaller_text(data: bytes) -> Iterator[bytes]:
    size = len(data) // 2
    while size >= 16:
        for start in range(0, len(data), size):
            yield data[:start] + data[start + size :]
        size //= 2
