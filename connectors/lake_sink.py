"""A sink whose table is a log of versions: each commit notes its micro-batch, and follows the version that it has
read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

from stateplan.common.errors import DataError, RunError, StateplanError
from stateplan.common.files import safe_url
from stateplan.connectors.commits import commit_once
from stateplan.connectors.protocol import Sink
from stateplan.connectors.sink_epochs import EpochOrder, Mark, refusal
from stateplan.connectors.staging import Staging

T = TypeVar("T")


class LakeSink(Sink, Generic[T]):
    """What the sinks of such tables have in common. ``T`` is a table as its library opens it.

    Attributes:
        missing_code: the code of the error that there is no table.
        epochs_code: the code of the error that the table and the checkpoint have other micro-batches.
    """

    missing_code: ClassVar[str]
    epochs_code: ClassVar[str]

    def __init__(self) -> None:
        self._released = False

    @property
    @abstractmethod
    def place(self) -> str:
        """What identifies the table for the ledger."""

    @property
    @abstractmethod
    def subject(self) -> str:
        """The table, for messages."""

    @abstractmethod
    def local_folder(self) -> tuple[str, str] | None:
        """The folder on local disk into which workers write, and the uid of the sink; None for a store that every
        machine reaches."""

    @abstractmethod
    def open_target(self, create: bool) -> T:
        """The table as it is. Raises StateplanError: it cannot be written.

        Args:
            create: whether it is created where it does not exist.
        """

    @abstractmethod
    def last_mark(self, table: T, epoch: int) -> Mark | None:
        """The last micro-batch that the table has of this sink; None for none."""

    @abstractmethod
    def other_writers(self, table: T) -> str | None:
        """The note for the user if the statement has written with another checkpoint."""

    def forgets_epochs(self, table: T) -> bool:
        """Whether the table may have forgotten the last micro-batch of a job."""
        return False

    # ---- a mark for workers of a cluster -----------------------------------------------------------------------

    def _staging(self) -> Staging | None:
        folder = self.local_folder()
        return None if folder is None else Staging.at(*folder)

    def announce(self, token: str) -> None:
        staging = self._staging()
        if staging is not None:
            staging.announce(token)

    def check(self, name: str, token: str) -> None:
        staging = self._staging()
        if staging is not None and not staging.sees(token):
            raise RunError("RUN153", name=name, path=safe_url(staging.path))

    # ---- micro-batches -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.open_for(0)

    def prepare(self, epoch: int) -> None:
        staging = self._staging()
        if staging is not None:
            staging.clean(epoch)
        self._has_epoch(self.open_for(epoch), epoch)

    def release(self) -> None:
        self._released = True

    @property
    def _expected(self) -> int | None:
        """The last micro-batch that the table must have."""
        return self.ledger.expected(self.place)

    def open_for(self, epoch: int) -> T:
        """The table, which is created unless it must have micro-batches. Raises as :meth:`open_target`; RunError: it is
        gone."""
        try:
            return self.open_target(create=self._expected is None)
        except DataError as error:
            if error.code != self.missing_code or self._expected is None:
                raise
            raise self._refusal(EpochOrder.NO_EPOCHS, None, epoch) from None

    def _refusal(self, order: EpochOrder, mark: Mark | None, epoch: int) -> RunError:
        """The table has other micro-batches than the checkpoint."""
        return refusal(order, self.subject, mark, epoch, self._expected, self.epochs_code)

    def _has_epoch(self, table: T, epoch: int) -> bool:
        """Whether the micro-batch is in the table.

        Raises:
            RunError: a later one is, or one is missing that the job has written.
        """
        mark = self.last_mark(table, epoch)

        def refuse(order: EpochOrder) -> RunError | None:
            is_behind = order in (EpochOrder.BEHIND, EpochOrder.NO_EPOCHS)
            return None if is_behind and self.forgets_epochs(table) else self._refusal(order, mark, epoch)

        return self.ledger.is_done(epoch, mark, self.place, refuse, lambda: self.other_writers(table))

    def commit_change(
        self,
        epoch: int,
        change: Callable[[T], bool],
        overtaken: tuple[type[Exception], ...],
        failure: Callable[[Exception], StateplanError],
    ) -> bool:
        """Makes a change in one commit with the number of the micro-batch; see :func:`commit_once`.

        Args:
            epoch: number of the micro-batch.
            change: makes it, and returns whether there was one.
            overtaken: the errors of a commit that another writer overtook.
            failure: the error when others are always faster.

        Returns:
            False if the micro-batch was there before.
        """

        def make(table: T) -> None:
            if change(table):
                self.ledger.note(self.place, epoch)

        return commit_once(
            lambda: self.open_for(epoch),
            lambda table: self._has_epoch(table, epoch),
            make,
            overtaken,
            failure,
            lambda: self._released,
        )
