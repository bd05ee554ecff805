"""The folders of an object store, asked for by a process of its own: ``deltalake`` keeps all threads of its process
waiting while it lists, and a gateway has other sessions.

The process reads a request from standard input, so that no secret is among its arguments, and writes the answer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from stateplan.common.errors import DataError
from stateplan.common.files import safe_url
from stateplan.connectors.delta.table import Location

_SECONDS = 45
"""Longer than ``deltalake`` tries."""


def table_folders(location: Location) -> dict[str, bool]:
    """The names of the folders in a folder, and whether each is a Delta table. Raises DataError DATA452."""
    return {str(name): bool(is_table) for name, is_table in _ask_process(location)}


def _ask_process(location: Location) -> list[Any]:
    request = json.dumps({"uri": location.uri, "options": location.options})
    command = [sys.executable, "-m", __name__]
    reason = f"no answer within {_SECONDS} s"
    try:
        process = subprocess.run(command, input=request, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        process = None
    if process is not None and process.returncode == 0:
        answer = json.loads(process.stdout)
        if "error" not in answer:
            entries: list[Any] = answer["found"]
            return entries
        reason = answer["error"]
    elif process is not None:
        reason = (process.stderr.strip().splitlines() or ["the process that asks has ended"])[-1]
    plain_reason = location.error_text(OSError(reason))
    raise DataError("DATA452", name=location.name, path=safe_url(location.path), reason=plain_reason)


def _answer(uri: str, options: dict[str, str]) -> list[tuple[str, bool]]:
    from deltalake import DeltaTable
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import FileSelector, FileType, PyFileSystem

    files = PyFileSystem(DeltaStorageHandler(uri, options))
    entries = files.get_file_info(FileSelector("", allow_not_found=True))
    names = [entry.base_name for entry in entries if entry.type is FileType.Directory]
    return [(name, DeltaTable.is_deltatable(f"{uri}/{name}", options)) for name in names if name[:1] not in ("_", ".")]


def main() -> None:
    """Answers the request on standard input."""
    request = json.load(sys.stdin)
    try:
        answer: dict[str, Any] = {"found": _answer(request["uri"], request["options"])}
    except Exception as error:  # whatever the library raises; the other side makes a coded error of it
        answer = {"error": str(error) or type(error).__name__}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
