"""Changes of values made in the text of a plan."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from plans.document import PlanDocument
from plans.jsontext import SourceMap
from plans.rebase.edits import ABSENT
from plans.splices import applied, member_splice, removal_splice

__all__ = ["Member", "with_members"]


class Member(NamedTuple):
    """A key of the object at ``pointer`` and its new value; ABSENT takes it out.

    ``order`` are the keys of such an object as Flink writes them: a key that is not there yet is put among them.
    """

    pointer: str
    key: str
    value: Any
    order: tuple[str, ...] = ()


def with_members(document: PlanDocument, members: Iterable[Member]) -> PlanDocument:
    """The plan with other values of some keys, one after the other; every other byte stays.

    Raises:
        PlanError: when what comes out is not a valid plan.
    """
    text = document.text
    for member in members:
        source = SourceMap(text)
        if member.value is not ABSENT:
            splice = member_splice(source, member.pointer, member.key, member.value, member.order)
        else:
            splice = removal_splice(source, member.pointer, member.key)
        text = applied(text, [splice])
    mark = "" if document.data.startswith(document.text[:1].encode()) else "\ufeff"
    return PlanDocument.parse(mark + text, document.file)
