"""A sink whose workers write into a folder that the driver sees, too: on a cluster, a mark in it says whether they do
so."""

from __future__ import annotations

from abc import abstractmethod

from stateplan.common.errors import RunError
from stateplan.common.files import safe_url
from stateplan.connectors.protocol import Sink
from stateplan.connectors.staging import Staging


class MarkedSink(Sink):
    """A sink of a library that writes files itself."""

    @abstractmethod
    def local_folder(self) -> tuple[str, str] | None:
        """The folder on local disk, and the uid of the sink; None for a store that every machine reaches."""

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

    def remove_mark(self, epoch: int) -> None:
        """On the driver, before an attempt at a micro-batch."""
        staging = self._staging()
        if staging is not None:
            staging.clean(epoch)
