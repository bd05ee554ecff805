"""The language server: open documents, their analysis in a thread of its own, and the messages of the protocol."""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls import uris
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.release import installed_version
from stateplan.editor.findings import SHOW_PLAN, Insight
from stateplan.editor.messages import (
    as_actions,
    as_completions,
    as_diagnostics,
    as_hover,
    as_lenses,
    as_locations,
    as_symbols,
)
from stateplan.editor.positions import LineMap

DEBOUNCE = 0.15
"""Seconds without a change after which a document is read."""

_TRIGGERS = (".", "'", "`", "=")


class _Superseded(Exception):  # noqa: N818 - a signal
    """The version that is being read is no longer the newest one."""


@dataclass(eq=False)
class OpenDocument:
    """A document that is open in the editor.

    Attributes:
        uri, path, language: the file, and what the editor takes it for.
        text, version: the newest version.
        insight: of the last version that was read; None before the first one.
        insight_text: the text of that version.
        task: reads the newest version.
    """

    uri: str
    path: Path
    language: str
    text: str
    version: int
    reader: Any = None
    insight: Any = None
    insight_text: str = ""
    task: asyncio.Task[None] | None = None
    is_open: bool = True


@dataclass
class Configuration:
    """What the editor has set.

    Attributes:
        options: the options of the session.
        init: a script that runs before each one.
        docs: the URL of the documentation, which codes are linked to.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    init: str = ""
    docs: str = ""

    @classmethod
    def read(cls, settings: Any) -> Configuration:
        """From the initialization options, or from the section ``stateplan`` of the settings."""
        if isinstance(settings, Mapping) and isinstance(settings.get("stateplan"), Mapping):
            settings = settings["stateplan"]
        if not isinstance(settings, Mapping):
            return cls()
        options = settings.get("options")
        pairs = options.items() if isinstance(options, Mapping) else ()
        texts = {key: text for key in ("init", "docs") if isinstance(text := settings.get(key), str)}
        return cls({str(key): str(value) for key, value in pairs}, **texts)


class _Protocol(LanguageServerProtocol):
    """pygls without documents of its own: it takes more characters than the protocol for the end of a line, and moves
    the positions of a change that is behind such an end."""

    @lsp_method(lsp.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: Any) -> Iterator[Any]:
        yield from self._ours(lsp.TEXT_DOCUMENT_DID_OPEN, params)

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: Any) -> Iterator[Any]:
        yield from self._ours(lsp.TEXT_DOCUMENT_DID_CHANGE, params)

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: Any) -> Iterator[Any]:
        yield from self._ours(lsp.TEXT_DOCUMENT_DID_CLOSE, params)

    def _ours(self, method: str, params: Any) -> Iterator[Any]:
        yield self.fm.features[method], (params,), None


class StateplanServer(LanguageServer):
    """The server with its documents."""

    def __init__(self) -> None:
        super().__init__("stateplan", installed_version(), protocol_cls=_Protocol)
        self.documents: dict[str, OpenDocument] = {}
        self.configuration = Configuration()
        self._pool = ThreadPoolExecutor(1, "stateplan-analysis")
        self._answers = ThreadPoolExecutor(1, "stateplan-answers")
        self._workspace: Any = None

    @cached_property
    def _own_docs(self) -> str:
        """The documentation of a checkout; none of an installed package."""
        folder = Path(__file__).resolve().parents[1] / "docs"
        return folder.as_uri() if (folder / "operate" / "errors.md").is_file() else ""

    @property
    def docs(self) -> str:
        """The URL of the documentation; empty if there is none."""
        return self.configuration.docs or self._own_docs

    # documents

    def open(self, item: lsp.TextDocumentItem) -> None:
        """A document was opened."""
        path = Path(uris.to_fs_path(item.uri) or item.uri.rpartition("/")[2] or "untitled.sql")
        document = OpenDocument(item.uri, path, item.language_id, item.text, item.version)
        self.close(item.uri)
        self.documents[item.uri] = document
        self._start(document, 0)

    def change(self, uri: str, version: int, changes: list[Any]) -> None:
        """A document was changed."""
        document = self.documents.get(uri)
        if document is None:
            return
        for change in changes:
            document.text = self._apply_change(document.text, change)
        document.version = version
        self._start(document, DEBOUNCE)

    def _apply_change(self, text: str, change: Any) -> str:
        if not isinstance(change, lsp.TextDocumentContentChangePartial):
            return str(change.text)
        part = change.range
        lines = self.lines(text)
        start = lines.offset(part.start.line, part.start.character)
        end = max(start, lines.offset(part.end.line, part.end.character))
        return text[:start] + str(change.text) + text[end:]

    def close(self, uri: str) -> None:
        """A document was closed."""
        document = self.documents.pop(uri, None)
        if document is not None:
            document.is_open = False

    def lines(self, text: str) -> LineMap:
        """The lines of a text, in the code units of the editor."""
        encoding = self.workspace.position_encoding
        name = encoding.value if isinstance(encoding, lsp.PositionEncodingKind) else encoding
        return LineMap(text, name or "utf-16")

    # analysis

    def configure(self, configuration: Configuration) -> None:
        """The editor has other settings, or other files: all documents are read again."""
        self.configuration = configuration
        self._workspace = None
        for document in self.documents.values():
            self._start(document, DEBOUNCE)

    def _start(self, document: OpenDocument, delay: float) -> None:
        document.task = asyncio.get_running_loop().create_task(self._read(document, document.version, delay))

    async def _read(self, document: OpenDocument, version: int, delay: float) -> None:
        """Reads a version, unless there is a newer one, and publishes its findings."""
        await asyncio.sleep(delay)
        task = document.task

        def check() -> None:
            if not document.is_open or document.task is not task:
                raise _Superseded

        text = document.text
        if document.task is not task:
            return
        try:
            insight = await asyncio.get_running_loop().run_in_executor(
                self._pool, partial(self._analyse, document, text, check)
            )
        except _Superseded:
            return
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit, asyncio.CancelledError)):
                raise
            insight = self._failed(document, error)
        if document.is_open and document.task is task:
            document.insight, document.insight_text = insight, text
            diagnostics = as_diagnostics(insight.findings, self.lines(text), document.uri, self.docs)
            self.text_document_publish_diagnostics(
                lsp.PublishDiagnosticsParams(document.uri, diagnostics, version=version)
            )

    def _analyse(self, document: OpenDocument, text: str, check: Callable[[], None]) -> Any:
        """Reads a text, in the thread for it. The planner is loaded here, when the editor has its first answer."""
        from stateplan.editor.documents import DocumentReader

        check()
        if document.reader is None:
            document.reader = DocumentReader(document.path, document.language)
        return document.reader.read(text, self._read_with(document), check)

    def _read_with(self, document: OpenDocument) -> Any:
        from stateplan.editor.checkpoints import Checkpoints
        from stateplan.editor.documents import Workspace
        from stateplan.editor.scratch import roots_of
        from stateplan.editor.workspace import DeclarationIndex

        if self._workspace is None:
            folders = tuple(self._folders())
            init = (folders[0] if folders else Path()) / self.configuration.init if self.configuration.init else None
            options = self._accepted_options()
            self._workspace = Workspace(
                folders, roots_of(folders), options, init, Checkpoints(folders), DeclarationIndex(folders)
            )
        if self._workspace.folders:
            return self._workspace
        return Workspace((), roots_of([document.path.parent]), self._workspace.options)

    def _accepted_options(self) -> Mapping[str, str]:
        """The options that a session takes; of others, a message says what is wrong."""
        from stateplan.common.settings import Configuration as SessionOptions

        accepted = {}
        for key, value in self.configuration.options.items():
            try:
                SessionOptions({key: value})
                accepted[key] = value
            except StateplanError as error:
                self._log(lsp.MessageType.Warning, f"setting 'options': {error}")
        return accepted

    def _folders(self) -> list[Path]:
        paths = [uris.to_fs_path(uri) for uri in self.workspace.folders]
        return [Path(path).resolve() for path in paths if path is not None]

    def _failed(self, document: OpenDocument, error: BaseException) -> Any:
        """An internal error: the log has it, and the server goes on."""
        self._log_bug(error, f"in {document.path.name}\n")
        return Insight()

    def _log_bug(self, error: BaseException, prefix: str = "") -> None:
        bug = StateplanError("BUG000", what=f"{type(error).__name__}: {error}"[:300])
        trace = "".join(traceback.format_exception(error))
        self._log(lsp.MessageType.Error, f"[{bug.code}] {bug.message}\n{prefix}{trace}")

    def _log(self, kind: lsp.MessageType, text: str) -> None:
        self.window_log_message(lsp.LogMessageParams(kind, text))

    async def current(self, uri: str) -> OpenDocument | None:
        """A document whose newest version has been read; None if it is not open."""
        while True:
            document = self.documents.get(uri)
            if document is None:
                return None
            task = document.task
            if task is not None:
                await asyncio.wait({task})
            if document is self.documents.get(uri) and document.task is task:
                return document if document.insight is not None else None

    async def in_thread(self, work: Callable[[], Any]) -> Any:
        """What some work over a finished analysis returns, while another one may run; None if it fails, with a message
        in the log."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._answers, work)
        except (StateplanError, KeyError):
            return None
        except Exception as error:
            self._log_bug(error)
            return None


def make_server() -> StateplanServer:
    """A server that has its features, and has not started."""
    server = StateplanServer()
    for register in (_documents, _requests, _actions, _workspace_events):
        register(server)
    return server


def _documents(server: StateplanServer) -> None:
    """Opening, changing and closing."""

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: lsp.DidOpenTextDocumentParams) -> None:
        server.open(params.text_document)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: lsp.DidChangeTextDocumentParams) -> None:
        server.change(params.text_document.uri, params.text_document.version, list(params.content_changes))

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.close(uri)
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def did_save(params: lsp.DidSaveTextDocumentParams) -> None:
        init = server.configuration.init
        if init and params.text_document.uri.endswith(init.rpartition("/")[2]):
            server.configure(server.configuration)


def _requests(server: StateplanServer) -> None:
    """What an editor requests of a place in a document."""

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        document = await server.current(params.text_document.uri)
        if document is None:
            return None
        lines = server.lines(document.insight_text)
        offset = lines.offset(params.position.line, params.position.character)
        return as_hover(await server.in_thread(lambda: document.insight.hover(offset)), lines)

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    async def definition(params: lsp.DefinitionParams) -> list[lsp.Location]:
        return await _targets(server, params, lambda insight, offset: insight.definitions(offset))

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    async def references(params: lsp.ReferenceParams) -> list[lsp.Location]:
        return await _targets(server, params, lambda insight, offset: insight.references(offset))

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=list(_TRIGGERS)))
    async def completion(params: lsp.CompletionParams) -> lsp.CompletionList | None:
        document = server.documents.get(params.text_document.uri)
        if document is not None and document.insight is None:
            document = await server.current(params.text_document.uri)
        if document is None or document.insight is None:
            return None
        text = document.text
        lines = server.lines(text)
        offset = lines.offset(params.position.line, params.position.character)
        insight = document.insight
        answer = await server.in_thread(lambda: insight.complete(text, offset))
        if answer is None:
            return None
        span, candidates = answer
        return as_completions(span, candidates, lines)


def _actions(server: StateplanServer) -> None:
    """What an editor requests of a whole document, and what its user can do."""

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    async def symbols(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        document = await server.current(params.text_document.uri)
        return [] if document is None else as_symbols(document.insight.symbols, server.lines(document.insight_text))

    @server.feature(lsp.TEXT_DOCUMENT_CODE_LENS)
    async def lenses(params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        document = await server.current(params.text_document.uri)
        if document is None:
            return []
        return as_lenses(document.insight.lenses, server.lines(document.insight_text), document.uri)

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])
    )
    async def actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        document = await server.current(params.text_document.uri)
        if document is None:
            return []
        lines = server.lines(document.insight_text)
        versioned = lsp.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
        return as_actions(document.insight.findings, params.range, lines, versioned, server.docs)

    @server.command(SHOW_PLAN)
    async def show_plan(uri: str, argument: str = "") -> str | None:
        document = await server.current(uri)
        if document is None:
            return None
        text: str | None = await server.in_thread(lambda: document.insight.show(argument))
        return text


async def _targets(server: StateplanServer, params: Any, find: Callable[[Any, int], Any]) -> list[lsp.Location]:
    """The places that an analysis finds."""
    document = await server.current(params.text_document.uri)
    if document is None:
        return []
    lines = server.lines(document.insight_text)
    offset = lines.offset(params.position.line, params.position.character)
    targets = await server.in_thread(lambda: find(document.insight, offset))
    return as_locations(targets or (), lines, document.uri, server.lines)


def _workspace_events(server: StateplanServer) -> None:
    """Settings, folders and files."""

    @server.feature(lsp.INITIALIZE)
    def initialize(params: lsp.InitializeParams) -> None:
        server.configuration = Configuration.read(params.initialization_options)

    @server.feature(lsp.INITIALIZED)
    def initialized(params: lsp.InitializedParams) -> None:
        # The planner is loaded while nobody waits.
        asyncio.get_running_loop().run_in_executor(server._pool, _load)  # noqa: SLF001 - of this module

    @server.feature(lsp.SHUTDOWN)
    def shutdown(params: None) -> None:
        for uri in list(server.documents):
            server.close(uri)  # what is being read ends

    @server.feature(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def did_change_configuration(params: lsp.DidChangeConfigurationParams) -> None:
        server.configure(Configuration.read(params.settings))

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def did_change_folders(params: lsp.DidChangeWorkspaceFoldersParams) -> None:
        server.configure(server.configuration)

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def did_change_files(params: lsp.DidChangeWatchedFilesParams) -> None:
        server.configure(server.configuration)


def _load() -> None:
    import stateplan.editor.documents
    import stateplan.session.compiler  # noqa: F401 - loads the planner


def serve(address: tuple[str, int] | None = None) -> None:
    """Serves one editor: over standard input and output, or at an address. Returns when it says so."""
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    server = make_server()
    if address is not None:
        server.start_tcp(*address)
        return
    output = sys.stdout.buffer
    sys.stdout = sys.stderr  # what a library prints is no message of the protocol
    server.start_io(sys.stdin.buffer, output)
