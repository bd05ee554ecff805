"""Applies unified diffs."""

from __future__ import annotations

import re


def patched(text: str, diff: str) -> str:
    """``text`` after a unified diff, which has to fit it."""
    lines, out, at = re.findall(r"[^\n]*\n|[^\n]+", text), [], 0
    hunks = re.split(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n", diff, flags=re.M)[1:]
    for start, count, new_start, new_count, body in zip(*(hunks[i::5] for i in range(5)), strict=True):
        begin = int(start) - (count != "0")
        out += lines[at:begin]
        at = begin
        assert len(out) == int(new_start) - (new_count != "0")
        body = body.replace("\n\\ No newline at end of file\n", "\0")
        marked = [line.replace("\0", "") for line in re.findall(r"[^\n]*?\0|[^\n]*\n", body)]
        old = [line[1:] for line in marked if line[0] in " -"]
        new = [line[1:] for line in marked if line[0] in " +"]
        assert (len(old), len(new)) == (int(count or 1), int(new_count or 1))
        assert lines[at : at + len(old)] == old
        out += new
        at += len(old)
    return "".join([*out, *lines[at:]])
