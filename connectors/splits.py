"""Splits: what a worker reads in one go. Each kind of source has its own record; :meth:`Split.to_json` and
:meth:`Split.from_json` are how a split travels from where it is planned to the worker."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, Self, TypeVar

from stateplan.common.files import local_path, plain_path
from stateplan.common.lazy_dataclass import dataclass


@dataclass(frozen=True, kw_only=True)
class Split:
    """What a worker reads in one go. A source that plans its own splits adds its fields, which are JSON-ready.

    Attributes:
        part: name of the stream that the rows are of, in a source whose rows come in several streams, each with a
            watermark of its own. The watermark of the source is the least of its parts. Such a source plans a split
            for every part in each micro-batch, also for parts that have no rows in it: parts that a micro-batch does
            not name are gone. Empty for a source without parts.
        waits: whether a part without rows has some to read later, and so is not idle.
    """

    part: str = ""
    waits: bool = False

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data; what :meth:`from_json` reads."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` was made of."""
        return cls(**data)

    @property
    def origin(self) -> str | None:
        """Path of the file whose rows these are, for errors; None if they are of no file."""
        return None

    @property
    def byte_count(self) -> int:
        """Bytes of the file that it is; 0 for one that is none, or whose size is not known here."""
        return 0


S = TypeVar("S", bound=Split)


@dataclass(frozen=True)
class AssignedSplit(Generic[S]):
    """A split in a micro-batch.

    Attributes:
        split: what is read.
        seq: orders the splits of the micro-batch.
        now: time of the micro-batch, ms.
    """

    split: S
    seq: str
    now: int


@dataclass(frozen=True)
class EndOfInput:
    """Says in place of a split that the input of the job has ended.

    Attributes:
        now: time of the micro-batch, ms.
    """

    now: int


@dataclass(frozen=True)
class FileSplit(Split):
    """A file.

    Attributes:
        path: the path of the file, a plain path or URL.
        size: in bytes; None if it was not listed.
        data: its content, where only Spark reaches it.
        modified: when, with ``data``.
    """

    path: str
    size: int | None = None
    data: bytes | None = None
    modified: datetime | None = None

    @property
    def origin(self) -> str:
        return plain_path(self.path)

    @property
    def byte_count(self) -> int:
        if self.size is not None:
            return self.size
        if self.data is not None:
            return len(self.data)
        path = plain_path(self.path)
        with contextlib.suppress(OSError):
            return os.path.getsize(path) if local_path(path) else 0
        return 0


@dataclass(frozen=True)
class RangeSplit(Split):
    """Numbered rows, from ``start`` to before ``stop``."""

    start: int
    stop: int


@dataclass(frozen=True)
class InstantSplit(Split):
    """The rows of an instant.

    Attributes:
        at: the instant, ms.
    """

    at: int
