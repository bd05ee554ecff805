"""A client of the language server: it starts the real command and speaks the protocol over its standard input and
output."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TIMEOUT = 60.0
"""Seconds that an answer may take on a busy machine."""

CAPABILITIES: Mapping[str, Any] = {
    "general": {"positionEncodings": ["utf-16"]},
    "workspace": {"workspaceFolders": True, "workspaceEdit": {"documentChanges": True}},
    "textDocument": {
        "publishDiagnostics": {"relatedInformation": True, "versionSupport": True, "codeDescriptionSupport": True},
        "hover": {"contentFormat": ["markdown"]},
        "codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix"]}}},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
    },
}


class LanguageClient:
    """A client with its server.

    Args:
        folder: the workspace.
        options: the initialization options.
        watch: gets each message: ``->`` to the server or ``<-`` from it, and the message.
    """

    def __init__(
        self,
        folder: Path,
        options: Mapping[str, Any] | None = None,
        watch: Callable[[str, dict[str, Any]], None] = lambda direction, message: None,
    ) -> None:
        self.folder = folder
        self._watch = watch
        self._ids = 0
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._answers: dict[int, dict[str, Any]] = {}
        self.diagnostics: dict[str, tuple[int | None, list[dict[str, Any]]]] = {}
        self.logs: list[str] = []
        self._versions: dict[str, int] = {}
        command = Path(sys.executable).with_name("stateplan")
        self.process = subprocess.Popen(
            [command, "language-server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        threading.Thread(target=self._receive, daemon=True).start()
        self.capabilities = self.request(
            "initialize",
            {
                "processId": None,
                "rootUri": folder.as_uri(),
                "workspaceFolders": [{"uri": folder.as_uri(), "name": folder.name}],
                "capabilities": CAPABILITIES,
                "initializationOptions": options or {},
            },
        )["capabilities"]
        self.notify("initialized", {})

    # messages

    def _receive(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while True:
            length = 0
            while line := stream.readline().strip():
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if not length:
                self._messages.put(None)
                return
            self._messages.put(json.loads(stream.read(length)))

    def _send(self, message: dict[str, Any]) -> None:
        self._watch("->", message)
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()

    def notify(self, method: str, params: Any) -> None:
        """Sends a notification."""
        self._send({"method": method, "params": params})

    def start(self, method: str, params: Any) -> int:
        """Sends a request; returns its id."""
        self._ids += 1
        self._send({"id": self._ids, "method": method, "params": params})
        return self._ids

    def answer(self, number: int) -> Any:
        """The result of a request. Raises AssertionError for an error."""
        while number not in self._answers:
            self._take()
        answer = self._answers.pop(number)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def request(self, method: str, params: Any) -> Any:
        """Sends a request, and waits for its result."""
        return self.answer(self.start(method, params))

    def _take(self) -> None:
        """Handles the next message of the server."""
        message = self._messages.get(timeout=TIMEOUT)
        assert message is not None, f"the server ended: {self.process.stderr.read() if self.process.stderr else ''}"
        self._watch("<-", message)
        if "method" not in message:
            self._answers[message["id"]] = message
        elif message["method"] == "textDocument/publishDiagnostics":
            params = message["params"]
            self.diagnostics[params["uri"]] = (params.get("version"), params["diagnostics"])
        elif message["method"] in ("window/logMessage", "window/showMessage"):
            self.logs.append(message["params"]["message"])
        elif "id" in message:
            self._send({"id": message["id"], "result": None})

    # documents

    def uri(self, name: str) -> str:
        """The URI of a file of the workspace."""
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str, language: str = "sql") -> list[dict[str, Any]]:
        """Opens a document; returns its diagnostics."""
        self._versions[name] = 1
        self.diagnostics.pop(self.uri(name), None)
        item = {"uri": self.uri(name), "languageId": language, "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})
        return self.findings(name)

    def change(self, name: str, *changes: Mapping[str, Any]) -> int:
        """Sends changes of a document; returns the new version."""
        self._versions[name] += 1
        document = {"uri": self.uri(name), "version": self._versions[name]}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": list(changes)})
        return self._versions[name]

    def replace(self, name: str, text: str) -> list[dict[str, Any]]:
        """Gives a document another text; returns its diagnostics."""
        self.change(name, {"text": text})
        return self.findings(name)

    def close(self, name: str) -> None:
        """Closes a document."""
        self.notify("textDocument/didClose", {"textDocument": {"uri": self.uri(name)}})

    def findings(self, name: str) -> list[dict[str, Any]]:
        """The diagnostics of the newest version of a document."""
        uri, version = self.uri(name), self._versions[name]
        while self.diagnostics.get(uri, (0, []))[0] != version:
            self._take()
        return self.diagnostics[uri][1]

    def at(self, name: str, method: str, position: tuple[int, int], **more: Any) -> Any:
        """The answer to a request about a place in a document."""
        where = {"line": position[0], "character": position[1]}
        params = {"textDocument": {"uri": self.uri(name)}, "position": where, **more}
        return self.request(f"textDocument/{method}", params)

    def of(self, name: str, method: str, **more: Any) -> Any:
        """The answer to a request about a document."""
        return self.request(f"textDocument/{method}", {"textDocument": {"uri": self.uri(name)}, **more})

    def fixes(self, name: str, diagnostic: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The quick fixes of a diagnostic."""
        actions: list[dict[str, Any]] = self.of(
            name, "codeAction", range=diagnostic["range"], context={"diagnostics": [diagnostic]}
        )
        return actions

    def stop(self) -> int:
        """Ends the server as an editor does; returns its exit code."""
        self.request("shutdown", None)
        self.notify("exit", None)
        return self.process.wait(TIMEOUT)


@contextmanager
def language_client(folder: Path, options: Mapping[str, Any] | None = None, **more: Any) -> Iterator[LanguageClient]:
    """A client whose server ends with the block."""
    client = LanguageClient(folder, options, **more)
    try:
        yield client
    finally:
        if client.process.poll() is None:
            client.process.kill()
        client.process.wait()
        for stream in (client.process.stdin, client.process.stdout, client.process.stderr):
            if stream is not None:
                stream.close()


def apply_edits(text: str, edits: Sequence[Mapping[str, Any]]) -> str:
    """The text after edits, as an editor makes them."""

    def offset(position: Mapping[str, int]) -> int:
        lines = text.split("\n")
        line = lines[position["line"]]
        units = line.encode("utf-16-le")[: 2 * position["character"]]
        return sum(len(one) + 1 for one in lines[: position["line"]]) + len(units.decode("utf-16-le"))

    places = [(offset(e["range"]["start"]), offset(e["range"]["end"]), e["newText"]) for e in edits]
    for start, end, new in sorted(places, reverse=True):
        text = text[:start] + new + text[end:]
    return text
