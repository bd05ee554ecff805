"""The last micro-batch that a system has of a sink, and whether the job may continue from there.

A system that takes a micro-batch whole notes it, together with the rows: its number, and a digest of what it reads. The
number alone does not identify a micro-batch. A job that starts from an older copy of its checkpoint counts the same
numbers again, and cuts its input otherwise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from enum import Enum

from stateplan.common.errors import RunError, StateplanError
from stateplan.common.lazy_dataclass import dataclass

_DIGITS = 15
"""Hexadecimal digits of a digest, so that it is a positive 64-bit integer too."""


@dataclass(frozen=True)
class Mark:
    """A micro-batch.

    Attributes:
        epoch: its number.
        input: digest of what it reads, the same when it runs again; empty if nobody has recorded it.
    """

    epoch: int
    input: str = ""

    @property
    def number(self) -> int:
        """The digest as a number for systems that note numbers; -1 for none."""
        return int(self.input, 16) if self.input else -1

    @staticmethod
    def of(epoch: int, number: int | None) -> Mark:
        """A micro-batch, from its number and that of its digest."""
        return Mark(epoch, f"{number:0{_DIGITS}x}" if number is not None and number >= 0 else "")


def input_digest(data: bytes) -> str:
    """The digest of what a micro-batch reads."""
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


@dataclass(frozen=True)
class SinkEpoch:
    """A micro-batch that the system that a sink writes to says that it has.

    Attributes:
        digest: the digest of the place of the table, which may have secrets.
        epoch: the epoch of the micro-batch.
    """

    digest: str
    epoch: int

    @staticmethod
    def at(place: str, epoch: int) -> SinkEpoch:
        """A micro-batch of the table at a place, such as its path."""
        return SinkEpoch(_digest(place), epoch)

    def epoch_at(self, place: str) -> int | None:
        """The number of the micro-batch, if the table is still at this place."""
        return self.epoch if self.digest == _digest(place) else None


class EpochOrder(Enum):
    """How the last micro-batch of a system compares with the one that a job is about to write."""

    NEW = "new"
    SAME = "same"
    AHEAD = "ahead"
    """It has a later one."""
    OTHER = "other"
    """It has one of this number, which read something else."""
    BEHIND = "behind"
    """It has not the last one that the job has written."""
    NO_EPOCHS = "no-epochs"
    """It has none, and the job has written some."""


def compare_epochs(last_mark: Mark | None, hand: Mark, expected_epoch: int | None) -> EpochOrder:
    """Compares the last micro-batch of a system with the next one.

    Args:
        last_mark: the last micro-batch that the system has; None for none.
        hand: the one that is about to be written.
        expected_epoch: number of the last one that the checkpoint knows the system to have had; None for none.
    """
    if last_mark is None:
        return EpochOrder.NEW if expected_epoch is None or expected_epoch < 0 else EpochOrder.NO_EPOCHS
    if last_mark.epoch > hand.epoch:
        return EpochOrder.AHEAD
    if last_mark.epoch < hand.epoch:
        return EpochOrder.BEHIND if expected_epoch is not None and last_mark.epoch < expected_epoch else EpochOrder.NEW
    return EpochOrder.OTHER if last_mark.input and hand.input and last_mark.input != hand.input else EpochOrder.SAME


class Ledger:
    """The driver's record of a sink: the current micro-batch, and the last one that the system has recorded.

    Attributes:
        input: digest of what the micro-batch in hand reads; empty if that is not known.
        last_epoch: the last micro-batch that the system says that it has; None before the first, and of a sink that
            does not ask. The checkpoint keeps it, and it is set before the next job on it starts.
        has_asked: whether the system has been asked since the start.
    """

    def __init__(self) -> None:
        self.input = ""
        self.last_epoch: SinkEpoch | None = None
        self.has_asked = False
        self._sentences: list[str] = []

    def expected(self, place: str) -> int | None:
        """The last micro-batch that the table at a place must have; None for none."""
        return None if self.last_epoch is None else self.last_epoch.epoch_at(place)

    def hand(self, epoch: int) -> Mark:
        """The current micro-batch."""
        return Mark(epoch, self.input)

    def note(self, place: str, epoch: int) -> None:
        """Records that the table at a place has a micro-batch."""
        self.last_epoch = SinkEpoch.at(place, epoch)

    def tell(self, sentence: str) -> None:
        """Keeps a sentence for the user."""
        self._sentences.append(sentence)

    def take_sentences(self) -> list[str]:
        """The sentences for the user since the last call."""
        sentences, self._sentences = self._sentences, []
        return sentences

    def is_done(
        self,
        epoch: int,
        last_mark: Mark | None,
        place: str,
        refuse: Callable[[EpochOrder], StateplanError | None],
        others: Callable[[], str | None] = lambda: None,
    ) -> bool:
        """Whether a system already has the current micro-batch.

        Args:
            epoch: the epoch of the micro-batch.
            last_mark: the last one that the system has; None for none.
            place: the place of its table.
            refuse: the error for a standing other than NEW and SAME; None for one that is not an error here, which
                counts as NEW.
            others: asks the system, when a checkpoint without micro-batches begins to write, whether the same statement
                has written with another one. Returns the note for the user, as :func:`written_before` does.

        Raises:
            StateplanError: what ``refuse`` gives.
        """
        order = compare_epochs(last_mark, self.hand(epoch), self.expected(place))
        error = None if order in (EpochOrder.NEW, EpochOrder.SAME) else refuse(order)
        if error is not None:
            raise error
        if epoch == 0 and last_mark is None and self.input and not self.has_asked:
            sentence = others()
            if sentence is not None:
                self.tell(sentence)
        self.has_asked = True
        if last_mark is not None:
            self.note(place, last_mark.epoch)
        return order is EpochOrder.SAME


class LedgerOwner:
    """Base of the sinks, which have a ledger."""

    @property
    def ledger(self) -> Ledger:
        """On the driver: which micro-batch is in hand, and which one the system must have. A sink whose system notes
        micro-batches asks it in :meth:`prepare` or :meth:`commit`, and so refuses one that has other micro-batches than
        the checkpoint."""
        ledger = self.__dict__.get("_ledger")
        if not isinstance(ledger, Ledger):
            ledger = Ledger()
            object.__setattr__(self, "_ledger", ledger)  # sinks may be frozen
        return ledger


def statement_of(uid: str) -> str:
    """What the ids of a sink have in common whatever the checkpoint; empty for an id that has nothing of one."""
    return uid.rpartition("-")[0]


def is_of_other_checkpoint(other_uid: str, uid: str) -> bool:
    """Whether an id is that of the sink ``uid`` with another checkpoint."""
    return other_uid != uid and statement_of(other_uid) == statement_of(uid) != ""


def written_before(subject: str, has_key: bool) -> str:
    """The note for the user if a statement has written with another checkpoint, such as one that was removed.

    Args:
        subject: it has written to, such as "the folder /data/out".
        has_key: whether a row replaces the one with its key.
    """
    remedy = (
        "A row replaces the one with its key, and rows whose keys do not come again stay"
        if has_key
        else "Rows of the same input are there twice from now on, unless the earlier ones were removed"
    )
    return f"this statement has written to {subject} with another checkpoint before. {remedy}"


_REFUSALS = {
    EpochOrder.AHEAD: "RUN002.ahead",
    EpochOrder.OTHER: "RUN002.other",
    EpochOrder.BEHIND: "RUN002.behind",
    EpochOrder.NO_EPOCHS: "RUN002.behind",
}


def refusal(
    order: EpochOrder, subject: str, last_mark: Mark | None, epoch: int, expected: int | None, code: str = "RUN002"
) -> RunError:
    """The error for a standing other than NEW and SAME.

    Args:
        order: the standing.
        subject: is written to, such as "the folder /data/out".
        last_mark: the last micro-batch that it has; None for none.
        epoch: the epoch of the micro-batch in hand.
        expected: the last one that it must have.
        code: the code of the system, which shares the variants of RUN002.
    """
    variant = _REFUSALS[order].partition(".")[2]
    last = "none" if last_mark is None else last_mark.epoch
    return RunError(f"{code}.{variant}", what=subject, found=last, epoch=epoch, noted=expected)


def _digest(place: str) -> str:
    return hashlib.sha256(place.encode()).hexdigest()[:16]
