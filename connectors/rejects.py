"""Input that a format skips: what it was, where it was and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

from stateplan.common.errors import DataError, Place
from stateplan.common.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Reject:
    """A line, record or message that was skipped.

    Attributes:
        error: what is wrong with it.
        data: its bytes.
        file: the file that contains it; None for a message.
        line: the line of the file, from 1; of a message, its position among those that were read together, plus one.
        topic, partition, offset: of a message.
    """

    error: str
    data: bytes
    file: str | None = None
    line: int | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None

    def at(self, topic: str, partition: int, offset: int) -> Reject:
        """As a message of a topic."""
        return replace(self, file=None, line=None, topic=topic, partition=partition, offset=offset)


_reject_list: ContextVar[list[Reject] | None] = ContextVar("rejects", default=None)


@contextmanager
def collecting() -> Iterator[list[Reject]]:
    """Collects what formats skip in this context."""
    rejects: list[Reject] = []
    token = _reject_list.set(rejects)
    try:
        yield rejects
    finally:
        _reject_list.reset(token)


def is_collecting() -> bool:
    """Whether anybody asks what formats skip."""
    return _reject_list.get() is not None


def reject(error: DataError, data: bytes) -> None:
    """Notes input that is skipped because of an error, whose place says where it is."""
    rejects = _reject_list.get()
    if rejects is not None:
        place = error.place or Place()
        rejects.append(Reject(error.message, data, place.file, place.line))


def pass_on(rejects: Iterable[Reject]) -> None:
    """Notes what was collected elsewhere."""
    collection = _reject_list.get()
    if collection is not None:
        collection.extend(rejects)


ERRORS = ".errors.table"
"""How keys of options end that name the table for what a format skips."""


def without_errors_table(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a table that Flink knows."""
    return {key: text for key, text in options.items() if not key.endswith(ERRORS)}
