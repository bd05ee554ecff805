"""A console that keeps what it is given."""

from __future__ import annotations

import io
from typing import Any

from stateplan.cli.console import Console
from stateplan.common.errors import StateplanError


class CaptureConsole(Console):
    """Keeps what it is given: text in ``out`` and ``err``, and the calls themselves."""

    def __init__(self, quiet: bool = False) -> None:
        super().__init__(quiet, io.StringIO(), io.StringIO(), every=0.0)
        self.results: list[Any] = []
        self.errors: list[StateplanError] = []

    @property
    def text(self) -> str:
        """What went to standard output."""
        return self.out.getvalue()  # type: ignore[attr-defined, no-any-return]

    @property
    def asides(self) -> str:
        """What went to standard error."""
        return self.err.getvalue()  # type: ignore[attr-defined, no-any-return]

    def show(self, text: str, data: Any) -> None:
        self.results.append(data)
        super().show(text, data)

    def error(self, error: StateplanError) -> None:
        self.errors.append(error)
        super().error(error)
