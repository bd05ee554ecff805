"""Where statements are typed: several lines, colours, completion, a history, and the jobs in the background below."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import completion_is_selected, has_completions, is_searching
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output
from prompt_toolkit.styles import BaseStyle, Style, merge_styles
from prompt_toolkit.styles.pygments import style_from_pygments_dict

from stateplan.cli.sql_client.commands import COMMANDS
from stateplan.cli.sql_client.highlighting import SCHEMES, FlinkLexer
from stateplan.cli.sql_client.statements import pieces
from stateplan.common.errors import StateplanError
from stateplan.common.readable import amount
from stateplan.common.settings import value

PROMPT = "Stateplan SQL> "

_OUR_STYLE = Style.from_dict({"prompt": "ansigreen bold", "continuation": "ansibrightblack"})
_PARTS = re.compile(r"`[^`]+`|\w+")

_ENDS_WORD = " \t\n'`,(=;"


def _prompt(inserts: int | None) -> str:
    return PROMPT if inserts is None else f"Stateplan SQL ({amount(inserts, 'INSERT')})> "


def is_to_run(text: str) -> bool:
    """Whether Enter runs ``text``: every statement in it has ended, or there is none."""
    return all(piece.is_ended for piece in pieces(text))


class StatementCompleter(Completer):
    """Candidates of the gateway, commands of the client, and files for SOURCE.

    Args:
        candidates: asks the gateway: a statement, and a position in it.
    """

    def __init__(self, candidates: Callable[[str, int], list[str]]) -> None:
        self._candidates = candidates
        self._paths = PathCompleter(expanduser=False)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """What may appear at the cursor."""
        before = document.text_before_cursor
        statements = list(pieces(before))
        last = statements[-1] if statements else None
        goes_on = last is not None and (not last.is_ended or (last.text.startswith("!") and not before.endswith("\n")))
        typed_text = before[last.start :] if last is not None and goes_on else ""
        command = typed_text.upper()
        if command.startswith(("SOURCE '", "!")):
            path = (
                typed_text[typed_text.index("'") + 1 :] if "'" in typed_text else typed_text.split(" ")[-1].lstrip("!")
            )
            yield from self._paths.get_completions(Document(path), complete_event)
            return
        if command.startswith("HELP "):
            yield from _names(command.removeprefix("HELP ").lstrip())
            return
        if typed_text.strip().isalpha() or not typed_text.strip():
            for own in COMMANDS:
                if own.word.isalpha() and own.word.startswith(typed_text.strip().upper()):
                    yield Completion(own.word, -len(typed_text.strip()))
        word = typed_text[1 + max(typed_text.rfind(c) for c in _ENDS_WORD) :]
        try:
            candidates = self._candidates(_statement_at(typed_text, document.text_after_cursor), len(typed_text))
        except StateplanError:
            return
        for candidate in candidates:
            name = candidate if command.startswith(("SET", "RESET")) else _shortened(candidate, word)
            yield Completion(name, -len(word))


def _statement_at(typed_text: str, after: str) -> str:
    """The statement that the cursor is in: tables after the cursor determine which columns exist before it."""
    first = next(pieces(typed_text + after), None)
    end = len(typed_text) if first is None else first.start + len(first.text)
    return (typed_text + after)[: max(len(typed_text), end)]


def _shortened(candidate: str, word: str) -> str:
    """A table of the current database by its name alone, which is what a gateway offers for a name without a dot."""
    parts = _PARTS.findall(candidate)
    shorter = len(parts) == 3 and ".".join(parts) == candidate and "." not in word
    return parts[-1] if shorter and parts[-1].strip("`").lower().startswith(word.strip("`").lower()) else candidate


def _names(prefix: str) -> Iterable[Completion]:
    from stateplan.planner.dialect.grammar import STATEMENTS

    for name in [*(s.name for s in STATEMENTS), *(c.word for c in COMMANDS)]:
        if name.startswith(prefix):
            yield Completion(name, -len(prefix))


class Prompt:
    """Asks for statements.

    Args:
        options: the options of the session, each time that it asks.
        candidates: see :class:`StatementCompleter`.
        history: the history of statements.
        toolbar: what is below, and is asked again and again; nothing if it is empty.
        output, input: of the terminal; those of the process by default.
        inserts: how many INSERTs the open statement set has; None while none is open.
    """

    def __init__(
        self,
        options: Callable[[], Mapping[str, str]],
        candidates: Callable[[str, int], list[str]],
        history: History,
        toolbar: Callable[[], str],
        output: Output | None = None,
        input: Input | None = None,  # noqa: A002 - prompt_toolkit's name
        inserts: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._options = options
        self._numbers = False
        self._session: PromptSession[str] = PromptSession(
            lambda: [("class:prompt", _prompt(inserts()))],
            multiline=True,
            lexer=PygmentsLexer(FlinkLexer),
            completer=StatementCompleter(candidates),
            complete_while_typing=False,
            complete_in_thread=True,
            auto_suggest=AutoSuggestFromHistory(),
            history=history,
            search_ignore_case=True,
            enable_open_in_editor=True,
            tempfile_suffix=".sql",
            prompt_continuation=self._continuation,
            key_bindings=_keys(),
            output=output,
            input=input,
        )
        self._toolbar = toolbar
        self._session.app.before_render += lambda _: self._show_toolbar()

    def ask(self) -> str:
        """One or more statements, each ended.

        Raises:
            KeyboardInterrupt: what was typed is to be dropped.
            EOFError: the user leaves.
        """
        options = self._options()
        self._numbers = bool(value(options, "sql-client.display.show-line-numbers"))
        self._session.style = style(str(value(options, "sql-client.display.color-schema")))
        self._show_toolbar()
        self._session.refresh_interval = 1.0 if self._session.bottom_toolbar else 0
        return self._session.prompt()

    def _show_toolbar(self) -> None:
        self._session.bottom_toolbar = self._toolbar() or None

    def confirm(self, question: str) -> bool:
        """Whether the user says yes; no is what Enter says."""
        session: PromptSession[str] = PromptSession(output=self._session.output, input=self._session.input)
        try:
            return session.prompt(f"{question} [y/N] ").strip().lower() in ("y", "yes")
        except EOFError:
            return True
        except KeyboardInterrupt:
            return False

    def _continuation(self, width: int, line: int, is_wrapped: int) -> AnyFormattedText:
        text = "" if is_wrapped else f"{line + 1}> " if self._numbers else "> "
        return [("class:continuation", text.rjust(width))]


def style(scheme: str) -> BaseStyle:
    """The colours of a scheme."""
    return merge_styles([style_from_pygments_dict(SCHEMES[scheme]), _OUR_STYLE])


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~is_searching & ~completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.complete_state = None
        if is_to_run(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("enter", filter=completion_is_selected & ~is_searching)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None  # the candidate stays

    @keys.add("escape", filter=has_completions, eager=True)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.cancel_completion()

    return keys
