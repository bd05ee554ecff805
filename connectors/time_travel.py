"""What a connector adds whose tables can be read as they were: ``FOR SYSTEM_TIME AS OF`` a time or a version.

Source: Flink's ``Catalog.getTable(path, timestamp)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping


class TimeTravel(ABC):
    """A connector whose tables have versions. A subclass of :class:`connectors.protocol.Connector` derives from it
    too."""

    @abstractmethod
    def as_of_version(self, options: Mapping[str, str], version: int) -> Mapping[str, str]:
        """The options with which a table is read as of a version.

        Raises:
            StateplanError: there is no such version, or it is gone.
        """

    @abstractmethod
    def as_of_time(self, options: Mapping[str, str], at: int) -> Mapping[str, str]:
        """The options with which a table is read as it was at an instant, ms since 1970.

        Raises:
            StateplanError: there is no version of that time, or it is gone.
        """

    def without_version(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """The options without the version that a catalog has chosen for the statement at hand."""
        return options
