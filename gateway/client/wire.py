"""What a SQL gateway answers, read: types, pages and errors.

Source of the forms: Flink's ``LogicalTypeJsonSerializer``, ``ResultInfoSerializer`` and ``SqlExecutionException``, as
version 2.3 writes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from stateplan.common import errors
from stateplan.common.changelog import RowKind
from stateplan.common.errors import RunError, StateplanError
from stateplan.common.types import LogicalType, RowField
from stateplan.gateway.protocol import PageKind, ResultColumn, ResultPage

_KINDS = {kind.name: kind for kind in RowKind}
_CAUSE = "Caused by: "
_FRAMES = re.compile(r"\n\tat |\n\t\.\.\. \d+ more|\nEnd of exception on server side>")
_CODE = re.compile(r"\[([A-Z]+)(\d{3})\] (.*)", re.S)
_FAMILIES: dict[str, type[StateplanError]] = {
    "SQL": errors.SqlError,
    "PLAN": errors.PlanError,
    "CAT": errors.CatalogError,
    "OPT": errors.OptionError,
    "DATA": errors.DataError,
    "RUN": errors.RunError,
    "CKPT": errors.CheckpointError,
    "GW": errors.GatewayError,
    "TYPE": StateplanError,
    "BUG": StateplanError,
}
_PARTS = {"length", "precision", "scale"}


def type_of(value: Any) -> LogicalType:
    """A type from ``{"type": "BIGINT", "nullable": true, ...}``. One that is not known keeps its name.

    Raises:
        TypeError, KeyError: it has another form.
    """
    root, nullable = str(value["type"]), bool(value.get("nullable", True))
    if root == "ROW":
        fields = (RowField(str(f["name"]), type_of(f["fieldType"]), f.get("description")) for f in value["fields"])
        return LogicalType(root, nullable, fields=tuple(fields))
    if root in ("ARRAY", "MULTISET"):
        return LogicalType(root, nullable, children=(type_of(value["elementType"]),))
    if root == "MAP":
        return LogicalType(root, nullable, children=(type_of(value["keyType"]), type_of(value["valueType"])))
    parts: dict[str, Any] = {key: int(value[key]) for key in _PARTS & value.keys()}
    if root.startswith("INTERVAL_"):
        parts["resolution"] = str(value.get("resolution", "")).replace("_", " ")
    return LogicalType(root, nullable, **parts)


def page_of(answer: Mapping[str, Any], token: int, as_values: bool = False) -> ResultPage:
    """The page that a fetch of ``token`` gave; ``as_values`` where rows are JSON, and not texts.

    Raises:
        TypeError, KeyError, ValueError, AttributeError: it has another form.
    """
    kind = PageKind[answer["resultType"]]
    uri = answer.get("nextResultUri")
    following = None if uri is None else int(uri.partition("?")[0].rpartition("/")[2])
    if kind is PageKind.NOT_READY:
        return ResultPage(kind, next_token=token if following is None else following)
    results = answer["results"]
    columns = tuple(ResultColumn(c["name"], type_of(c["logicalType"]), c.get("comment")) for c in results["columns"])
    data = [(_KINDS[row["kind"]], row["fields"]) for row in results["data"]]
    return ResultPage(
        kind,
        columns,
        () if as_values else [(change, [_text(cell) for cell in fields]) for change, fields in data],
        None if kind is PageKind.EOS else following,
        bool(answer.get("isQueryResult")),
        answer.get("resultKind") != "SUCCESS",
        answer.get("jobID"),
        tuple(map(str, answer.get("notes", ()))),
        values=data if as_values else (),
    )


def _text(cell: Any) -> str | None:
    """A value as text: a gateway of version 1 knows no other format than JSON."""
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    return json.dumps(cell, ensure_ascii=False)


def error_of(answer: Any) -> StateplanError:
    """What went wrong, from the body of an answer that is not 200: the innermost cause. An error of ours has its code,
    an error of Flink's RUN164."""
    error_texts = answer.get("errors") if isinstance(answer, dict) else None
    texts = [str(text) for text in error_texts or () if text]
    return error_of_text(innermost(texts[-1]) if texts else "it gives no reason")


def error_of_text(message: str) -> StateplanError:
    """An error from the text that it was shown as."""
    ours = _CODE.fullmatch(message)
    if ours is not None and ours[1] in _FAMILIES:
        return _FAMILIES[ours[1]].with_text(ours[1] + ours[2], ours[3])
    return RunError("RUN164", message=message)


def innermost(trace: str) -> str:
    """The message of the last cause in a stack trace of Java's."""
    text = trace.rpartition(_CAUSE)[2] if _CAUSE in trace else trace.removeprefix("<Exception on server side:\n")
    return _FRAMES.split(text, maxsplit=1)[0].strip()
