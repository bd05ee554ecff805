"""Projects of dbt, whose commands run in this process."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_DOTS = re.compile(r" \.{2,}")
_COLOR = re.compile(r"\x1b\[\d+m")


@dataclass
class Run:
    """A command that has ended.

    Attributes:
        success: whether all went well.
        lines: what it wrote for its user, without colours and rows of dots.
        result: what dbt returns.
        messages: by the name of a node, what its run says of it.
    """

    success: bool
    lines: list[str] = field(default_factory=list)
    result: Any = None

    @property
    def messages(self) -> Mapping[str, str]:
        return {r.node.name: str(r.message) for r in self.result.results if hasattr(r, "node")}

    @property
    def statuses(self) -> Mapping[str, str]:
        """By the name of a node, its status."""
        return {r.node.name: str(r.status) for r in self.result.results if hasattr(r, "node")}


@dataclass
class Project:
    """A folder with a project and its profile.

    Attributes:
        folder: the folder.
    """

    folder: Path

    def write(self, files: Mapping[str, str]) -> None:
        """Files by their path in the project."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")

    def dbt(self, *arguments: str) -> Run:
        """Runs a command of dbt in the folder."""
        from dbt.cli.main import dbtRunner

        run = Run(False)

        def note(event: Any) -> None:
            if event.info.level in ("info", "warn", "error"):
                run.lines += _DOTS.sub("", _COLOR.sub("", event.info.msg)).splitlines()

        with self._here():
            outcome = dbtRunner(callbacks=[note]).invoke([*arguments, "--log-level-file", "none"])
        if outcome.exception is not None and outcome.result is None:
            run.lines.append(str(outcome.exception))
        run.success, run.result = outcome.success, outcome.result
        return run

    def rows(self, query: str) -> list[dict[str, Any]]:
        """What ``dbt show`` says of a query."""
        run = self.dbt("show", "--inline", query, "--limit", "100", "--output", "json")
        assert run.success, run.lines
        text = next(line for line in run.lines if line.strip().startswith("{"))
        start = run.lines.index(text)
        shown: dict[str, Any] = json.loads("\n".join(run.lines[start:]))
        rows: list[dict[str, Any]] = shown["show"]
        return rows

    @contextlib.contextmanager
    def _here(self) -> Iterator[None]:
        before, folder = dict(os.environ), os.getcwd()
        os.environ["PWD"] = str(self.folder)
        os.chdir(self.folder)
        try:
            yield
        finally:
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(before)
