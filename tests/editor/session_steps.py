"""A session with the language server that is kept: what its user does, and how the messages are written down."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.editor.language_client import apply_edits, language_client

RECORD = Path(__file__).resolve().parent / "recorded_session.jsonl"
"""The messages, a line each: ``->`` to the server and ``<-`` from it."""

DOCS = "https://example.com/docs"

SCRIPT = """\
SET 'table.exec.state.ttl' = '7 d';
CREATE TABLE orders (order_id BIGINT, num INT) WITH ('connector' = 'datagen');
CREATE TABLE logistics (order_id BIGINT, target STRING) WITH ('connector' = 'datagen');
CREATE TABLE shipped (order_id BIGINT, num INT, target STRING) WITH ('connector' = 'print');

INSERT INTO shipped
SELECT o.order_id, num, target
FROM orders AS o
JOIN logistics AS l ON o.order_id = l.order_id;
"""

Message = tuple[str, dict[str, Any]]


def play(folder: Path) -> list[Message]:
    """What is said when somebody opens a script, types an error, mends it by the quick fix, and looks around."""
    messages: list[Message] = []

    def note(direction: str, message: dict[str, Any]) -> None:
        messages.append((direction, _without_folder(message, folder)))

    with language_client(folder, {"docs": DOCS}, watch=note) as client:
        client.open("shop.sql", SCRIPT)
        client.change("shop.sql", {"range": _span(6, 9, 17), "text": "ordr_id"})
        (found,) = client.findings("shop.sql")
        (action,) = client.fixes("shop.sql", found)
        (edit,) = action["edit"]["documentChanges"][0]["edits"]
        client.change("shop.sql", {"range": edit["range"], "text": edit["newText"]})
        assert client.findings("shop.sql") == []
        assert apply_edits(SCRIPT.replace("o.order_id, num", "o.ordr_id, num"), [edit]) == SCRIPT
        client.at("shop.sql", "hover", (8, 2))
        client.at("shop.sql", "hover", (6, 20))
        client.at("shop.sql", "definition", (6, 27))
        (lens,) = client.of("shop.sql", "codeLens")
        client.request("workspace/executeCommand", {key: lens["command"][key] for key in ("command", "arguments")})
        client.change("shop.sql", {"range": _span(9, 0, 0), "text": "SELECT o. FROM orders AS o;\n"})
        client.at("shop.sql", "completion", (9, 9))
        client.findings("shop.sql")
        client.stop()
    return messages


def _span(line: int, start: int, end: int) -> dict[str, Any]:
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}


def _without_folder(message: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    text = json.dumps(message).replace(folder.as_uri(), "file:///shop").replace(json.dumps(folder.name), '"shop"')
    data: dict[str, Any] = json.loads(text)
    info = data.get("result") if isinstance(data.get("result"), dict) else None
    if info is not None and "serverInfo" in info:
        del info["serverInfo"]["version"]
    return data


def to_lines(messages: Sequence[Message]) -> str:
    """The messages as they are kept."""
    return "".join(f"{direction} {json.dumps(message, ensure_ascii=False)}\n" for direction, message in messages)


def readable(messages: Sequence[Message]) -> str:
    """The messages for people, without the first and the last ones."""
    return "".join(f"{line}\n" for direction, message in messages for line in _readable(direction, message))


def _readable(direction: str, message: Mapping[str, Any]) -> Iterator[str]:
    method, params, result = message.get("method", ""), message.get("params") or {}, message.get("result")
    position = params.get("position")
    where = f" {_place(position)}" if position else ""
    if method == "textDocument/didOpen":
        yield "-> open shop.sql"
    elif method == "textDocument/didChange":
        (change,) = params["contentChanges"]
        version, new = params["textDocument"]["version"], change["text"].strip()
        yield f"-> version {version}: write {new!r} at {_range(change['range'])}"
    elif method == "textDocument/publishDiagnostics":
        count = len(params["diagnostics"])
        yield f"<- {count or 'no'} diagnostic{'s' * (count != 1)} of version {params['version']}"
        for one in params["diagnostics"]:
            level = ("error", "warning", "information", "hint")[one["severity"] - 1]
            yield f"   {_range(one['range'])} {level} {one['code']}"
            yield from (f"   | {line}" for line in one["message"].splitlines())
    elif method.startswith(("textDocument/", "workspace/executeCommand")):
        words = method.rpartition("/")[2] + (f" {params['command']}" if "command" in params else where)
        yield f"-> {words}"
    elif direction == "<-" and result is not None and "capabilities" not in result:
        yield from (f"   | {line}" if line else "   |" for line in _answer(result))


def _answer(result: Any) -> Iterator[str]:
    if isinstance(result, str):
        yield from result.splitlines()
    elif isinstance(result, dict) and "contents" in result:
        yield from (line for line in result["contents"]["value"].splitlines() if not line.startswith("```"))
    elif isinstance(result, dict):
        yield ", ".join(item["label"] for item in result["items"])
    else:
        for one in result:
            if "edit" in one:
                (edit,) = one["edit"]["documentChanges"][0]["edits"]
                yield f"quick fix: {one['title']}: write {edit['newText']!r} at {_range(edit['range'])}"
            elif "command" in one:
                yield f"lens at {_place(one['range']['start'])}: {one['command']['title']}"
            else:
                yield f"shop.sql {_range(one['range'])}"


def _place(position: Mapping[str, int]) -> str:
    return f"{position['line'] + 1}:{position['character'] + 1}"


def _range(span: Mapping[str, Mapping[str, int]]) -> str:
    return f"{_place(span['start'])}-{span['end']['character'] + 1}"
