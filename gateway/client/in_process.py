"""A session at a gateway of this process, with rows as values.

>>> from stateplan.gateway.service.service import SqlGatewayService
>>> open_session(SqlGatewayService(), {}).properties()
{}
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from stateplan.common.changelog import RowKind
from stateplan.gateway.protocol import PageKind, ResultPage
from stateplan.gateway.rest.wire import RowFormat, rows_json
from stateplan.gateway.service.service import InProcessSession, SqlGatewayService

_KINDS = {kind.name: kind for kind in RowKind}


class LocalSession(InProcessSession):
    """A :class:`gateway.protocol.ValueSession` of a gateway in this process."""

    def fetch_values(self, operation: str, token: int) -> ResultPage:
        entry, page = self.fetch_page(operation, token)
        fetcher = entry.fetcher
        if page.kind is PageKind.NOT_READY or fetcher is None:
            return ResultPage(PageKind.NOT_READY, next_token=page.next_token)
        rows = json.loads(rows_json(page.rows, RowFormat.JSON), parse_float=str)
        return ResultPage(
            page.kind,
            fetcher.columns,
            (),
            page.next_token,
            fetcher.is_query,
            fetcher.has_content,
            fetcher.job_id,
            fetcher.notes_for(page),
            fetcher.insert_only,
            [(_KINDS[row["kind"]], row["fields"]) for row in rows],
        )


def open_session(service: SqlGatewayService, options: Mapping[str, str], name: str | None = None) -> LocalSession:
    """A new session with these options. Raises GatewayError, OptionError as :meth:`SqlGatewayService.open_session`."""
    return LocalSession(service, service.open(name, options).handle)
