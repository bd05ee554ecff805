"""What the REST API says: types, rows, pages and errors as JSON, as Flink's gateway writes them.

Sources: Flink's ``LogicalTypeJsonSerializer``, ``ResultInfoSerializer`` and ``FetchResultResponseBodySerializer``.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from stateplan.common.changelog import column
from stateplan.common.types import LogicalType
from stateplan.common.zone import tz_of
from stateplan.gateway.protocol import PageKind, ResultColumn
from stateplan.gateway.service.fetcher import Page, ResultFetcher, Rows


class RowFormat(enum.Enum):
    """How the values of rows are written. Source: Flink's ``RowFormat``."""

    JSON = "JSON"
    PLAIN_TEXT = "PLAIN_TEXT"


JSON = "application/json; charset=UTF-8"
"""The content type of every answer."""


def dumps(value: object) -> str:
    """JSON without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


_INTERVALS: dict[str, dict[str, Any]] = {
    "INTERVAL_DAY_TIME": {"precision": 2, "fractionalPrecision": 3, "resolution": "SECOND"},
    "INTERVAL_YEAR_MONTH": {"precision": 2, "resolution": "MONTH"},
}
"""To Flink's planner, all intervals of a kind are alike in the result of a query."""


def type_json(kind: LogicalType) -> dict[str, Any]:
    """A logical type, with all that belongs to it."""
    if kind.root == "NULL":
        return {"type": "NULL"}
    out: dict[str, Any] = {"type": kind.root, "nullable": kind.nullable}
    if kind.root in _INTERVALS:
        return out | _INTERVALS[kind.root]
    if kind.root in ("ARRAY", "MULTISET"):
        return out | {"elementType": type_json(kind.children[0])}
    if kind.root == "MAP":
        return out | {"keyType": type_json(kind.children[0]), "valueType": type_json(kind.children[1])}
    if kind.root == "ROW":
        return out | {"fields": [_field(f.name, f.type, f.description) for f in kind.fields]}
    facts = {"length": kind.length, "precision": kind.precision, "scale": kind.scale}
    if kind.root == "DECIMAL":
        facts["scale"] = kind.scale or 0
    return out | {name: fact for name, fact in facts.items() if fact is not None}


def _field(name: str, kind: LogicalType, description: str | None) -> dict[str, Any]:
    comment = {} if description is None else {"description": description}
    return {"name": name, "fieldType": type_json(kind)} | comment


def columns_json(columns: Sequence[ResultColumn]) -> str:
    """The columns of a result."""
    return dumps([{"name": c.name, "logicalType": type_json(c.type), "comment": c.comment} for c in columns])


def page_json(fetcher: ResultFetcher, columns: str, page: Page, row_format: RowFormat, next_uri: str | None) -> str:
    """The answer to a fetch.

    Args:
        fetcher: the fetcher of the result.
        columns: the columns of the result, as :func:`columns_json` writes them.
        page: what was fetched.
        row_format: how rows are written.
        next_uri: the URI of the page after this.
    """
    kind = "SUCCESS_WITH_CONTENT" if fetcher.has_content else "SUCCESS"
    parts = [
        f'"resultType":"{page.kind.value}"',
        f'"isQueryResult":{"true" if fetcher.is_query else "false"}',
        *([f'"jobID":"{fetcher.job_id}"'] if fetcher.job_id else []),
        f'"resultKind":"{kind}"',
        f'"results":{{"columns":{columns},"rowFormat":"{row_format.value}","data":{rows_json(page.rows, row_format)}}}',
        *([f'"notes":{dumps(notes)}'] if (notes := fetcher.notes_for(page)) else []),
        *([f'"nextResultUri":{dumps(next_uri)}'] if next_uri is not None else []),
    ]
    return "{" + ",".join(parts) + "}"


def not_ready_json(next_uri: str) -> str:
    """The answer to a fetch before the statement has done its work."""
    return dumps({"resultType": PageKind.NOT_READY.value, "nextResultUri": next_uri})


def rows_json(rows: Rows, row_format: RowFormat) -> str:
    """The rows of a page."""
    if row_format is RowFormat.PLAIN_TEXT:
        cells = [dumps(row) for row in rows.texts()]
    elif rows.frame is None:
        types = [c.type for c in rows.columns]
        cells = [dumps([_value(v, t, rows.zone) for v, t in zip(row, types, strict=True)]) for row in rows.values]
    else:
        cells = _cells(rows)
    data = (f'{{"kind":"{kind.name}","fields":{row}}}' for kind, row in zip(rows.kinds(), cells, strict=True))
    return f"[{','.join(data)}]"


def _cells(rows: Rows) -> list[str]:
    """The rows of a frame, each a JSON list: values as Flink's JSON format writes them."""
    import polars as pl

    from stateplan.common.values.atomic import FieldStyle
    from stateplan.common.values.codecs import codec, json_items

    assert rows.frame is not None
    if not rows.columns:
        return ["[]"] * rows.frame.height
    style = FieldStyle(standard="ISO-8601", null_key="LITERAL", null_literal="null")
    values = [codec(c.type).json(pl.col(column(i)), style) for i, c in enumerate(rows.columns)]
    return rows.frame.select(json_items(values, skip_nulls=False)).to_series().to_list()


def _value(value: object, kind: LogicalType, zone: str) -> object:
    """A value of a statement's own result; points in time are texts in the zone of the session."""
    if kind.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" and isinstance(value, str):
        instant = datetime.fromisoformat(value).replace(tzinfo=tz_of(zone)).astimezone(UTC)
        return instant.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    return value


# errors

FAILED = "Internal server error."


def failure(message: str) -> dict[str, list[str]]:
    """What a statement failed of. Flink's client shows what is between ``Caused by:`` and the first line of a stack
    trace."""
    trace = f"Caused by: {message}\n\tat stateplan\n\n"
    return {"errors": [FAILED, f"<Exception on server side:\n{trace}End of exception on server side>"]}


def refusal(name: str, message: str) -> dict[str, list[str]]:
    """What a request about a session or an operation failed of; ``name`` is the method of Flink's service."""
    return {"errors": [f"Failed to {name}.\nCaused by: {message}\n\tat stateplan"]}


def problem(message: str) -> dict[str, list[str]]:
    """What is wrong with a request."""
    return {"errors": [message]}
