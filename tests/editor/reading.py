"""Reads documents as the language server does, in this process."""

from __future__ import annotations

from pathlib import Path

from stateplan.editor.checkpoints import Checkpoints
from stateplan.editor.documents import DocumentReader, Workspace
from stateplan.editor.findings import Finding, Insight
from stateplan.editor.scratch import roots_of
from stateplan.editor.workspace import DeclarationIndex

TABLES = """\
CREATE TABLE orders (order_id BIGINT, num INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TABLE logistics (order_id BIGINT, target STRING) WITH ('connector' = 'datagen');
CREATE TABLE shipped (order_id BIGINT, target STRING) WITH ('connector' = 'print');
"""


def workspace(folder: Path, init: Path | None = None) -> Workspace:
    """A workspace of one folder."""
    folders = (folder,)
    return Workspace(folders, roots_of(folders), {}, init, Checkpoints(folders), DeclarationIndex(folders))


def insight(text: str, folder: Path, name: str = "script.sql") -> Insight:
    """What there is to see of a new document."""
    return DocumentReader(folder / name).read(text, workspace(folder), lambda: None)


def brief(finding: Finding, text: str) -> tuple[str, str, str]:
    """The code of a finding, what is underlined, and the first line of its message."""
    return finding.code, text[finding.span.start : finding.span.end], finding.message.partition("\n")[0]


def codes(text: str, folder: Path, name: str = "script.sql") -> list[tuple[str, str]]:
    """The codes of all findings with what is underlined."""
    return [brief(finding, text)[:2] for finding in insight(text, folder, name).findings]
