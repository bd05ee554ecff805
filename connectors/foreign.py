"""What is known of Flink's connectors and formats that plans name and that do not run here: enough to compare and check
such plans."""

from __future__ import annotations

from collections.abc import Mapping

from stateplan.connectors.formats.base import Format
from stateplan.connectors.protocol import Connector


class _HBase14(Connector):
    name = "hbase-1.4"


class _HBase22(Connector):
    name = "hbase-2.2"


class _Values(Connector):
    """Of Flink's own tests."""

    name = "values"

    def is_bounded(self, options: Mapping[str, str]) -> bool:
        return options.get("bounded", "true") == "true"

    def identity(self, options: Mapping[str, str]) -> Mapping[str, str] | None:
        return None


class _Orc(Format):
    name = "orc"
    by_name = True


CONNECTORS: dict[str, Connector] = {c.name: c for c in (_HBase14(), _HBase22(), _Values())}
"""Connector name to what is known of it."""

FORMATS: dict[str, Format] = {"orc": _Orc()}
"""Format name to what is known of it."""
