"""Changes of values made in the text of a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

from stateplan.plans.document import PlanDocument
from stateplan.plans.jsontext import SourceMap
from stateplan.plans.rebase.edits import ABSENT
from stateplan.plans.splices import Splice, applied, member_splice, removal_splice


class Member(NamedTuple):
    """A key of the object at ``pointer`` and its new value; ABSENT takes it out.

    ``order`` are the keys of such an object as Flink writes them: a key that is not there yet is put among them.
    """

    pointer: str
    key: str
    value: Any
    order: tuple[str, ...] = ()


def _splice(source: SourceMap, member: Member) -> Splice:
    if member.value is ABSENT:
        return removal_splice(source, member.pointer, member.key)
    return member_splice(source, member.pointer, member.key, member.value, member.order)


def _batches(members: Iterable[Member]) -> Iterator[list[Member]]:
    """The members in as few passes as it takes, in each pass one of a node: those of different nodes never overlap."""
    waiting: dict[str, list[Member]] = defaultdict(list)
    for member in members:
        waiting["/".join(member.pointer.split("/", 3)[:3])].append(member)
    for batch in zip_longest(*waiting.values()):
        yield [member for member in batch if member is not None]


def with_members(document: PlanDocument, members: Iterable[Member]) -> PlanDocument:
    """The plan with other values of some keys, one after the other; every other byte stays.

    Raises:
        PlanError: when what comes out is not a valid plan.
    """
    text = document.text
    for batch in _batches(members):
        source = SourceMap(text)
        text = applied(text, [_splice(source, member) for member in batch])
    mark = "" if document.data.startswith(document.text[:1].encode()) else "\ufeff"
    return PlanDocument.parse(mark + text, document.file)
