"""One open document: which kind it is, and what there is to see of its versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.roots import Roots, holding
from stateplan.editor.checkpoints import Checkpoints
from stateplan.editor.findings import Finding, Insight, Level, OtherPlace, Target
from stateplan.editor.plan_files import is_plan, read_plan
from stateplan.editor.scratch import is_below
from stateplan.editor.scripts import ScriptReader, Settings
from stateplan.editor.sql_insight import SqlInsight
from stateplan.editor.workspace import DeclarationIndex

if TYPE_CHECKING:
    from stateplan.editor.stories import StoryReader

MOST_CHARACTERS = 2_000_000
"""A longer document is not looked at."""


@dataclass(frozen=True)
class Workspace:
    """What documents are read with.

    Attributes:
        folders: the folders of the workspace.
        roots: the folders that may be read.
        options: the options of the session.
        init: a script that runs before each one; None for none.
        checkpoints: finds checkpoints of plans.
        index: finds declarations in other files.
    """

    folders: tuple[Path, ...]
    roots: Roots
    options: Mapping[str, str] = field(default_factory=dict)
    init: Path | None = None
    checkpoints: Checkpoints = field(default_factory=lambda: Checkpoints(()))
    index: DeclarationIndex = field(default_factory=lambda: DeclarationIndex(()))


class DocumentReader:
    """Reads the versions of one document.

    Args:
        path: the file.
        language: what the editor takes it for: ``json``, ``sql`` or another word.
    """

    def __init__(self, path: Path, language: str = "") -> None:
        self.path = path
        self.language = language
        self._scripts = ScriptReader()
        self._stories: StoryReader | None = None

    def read(self, text: str, workspace: Workspace, check: Callable[[], None]) -> Insight:
        """What there is to see of a version. It raises what ``check`` raises."""
        if len(text) > MOST_CHARACTERS:
            return Insight()
        name = self.path.name
        if name.endswith(".json") or "json" in self.language:
            if not is_plan(text, name):
                return Insight()
            with holding(workspace.roots):
                return read_plan(text, workspace.options, workspace.checkpoints, check)
        settings = Settings(
            self.path.parent, workspace.roots, workspace.options, _before(workspace, self.path), check=check
        )

        def declared_elsewhere(name: str) -> tuple[Target, ...]:
            return workspace.index.find(name, self.path)

        if is_story(text):
            from stateplan.editor.stories import StoryReader  # loads an engine

            self._stories = self._stories or StoryReader()
            story = self._stories.read(text, str(self.path), settings)
            lenses = {lens.span: lens for script in story.readings for lens in script.lenses()}
            symbols = {s.span: s for script in story.readings for s in script.symbols()}
            symbols |= {s.span: s for s in story.symbols}
            return SqlInsight(
                story.findings,
                tuple(lenses.values()),
                tuple(sorted(symbols.values(), key=lambda s: s.span)),
                text=text,
                readings=story.readings,
                declared_elsewhere=declared_elsewhere,
            )
        script = self._scripts.read(text, settings)
        findings = tuple(_with_other_files(f, text, workspace, self.path) for f in script.findings())
        return SqlInsight(
            findings,
            tuple(script.lenses()),
            tuple(script.symbols()),
            text=text,
            readings=(script,),
            declared_elsewhere=declared_elsewhere,
        )


def is_story(text: str) -> bool:
    """Whether a script is a test file."""
    return "-- test:" in text and any(line.startswith("-- test:") for line in text.split("\n"))


def _before(workspace: Workspace, path: Path) -> str:
    """The script that runs before the others."""
    init = workspace.init
    if init is None or init == path or not is_below(init, workspace.roots):
        return ""
    try:
        return init.read_text("utf-8")
    except (OSError, ValueError):
        return ""


def _with_other_files(finding: Finding, text: str, workspace: Workspace, path: Path) -> Finding:
    """The finding of a missing table, with the files that declare one of this name: one of them may run first."""
    if finding.code != "CAT002":
        return finding
    name = text[finding.span.start : finding.span.end].rpartition(".")[2].strip("`")
    targets = workspace.index.find(name, path)
    others = tuple(OtherPlace(t.span, f"'{name}' is declared here; it is not in this script", t.file) for t in targets)
    if not others:
        return finding
    message = f"{finding.message}\nhint: the setting 'init' names a script that runs before this one"
    return replace(finding, level=Level.WARNING, message=message, other_places=(*finding.other_places, *others))
