"""What all relations of the algebra share: their fields and inputs."""

from __future__ import annotations

from dataclasses import dataclass

from stateplan.planner.abilities import Field


@dataclass(frozen=True)
class Rel:
    """A relational expression."""

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return ()

    @property
    def fields(self) -> tuple[Field, ...]:
        """Name and type of every field of its rows."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        return len(self.fields)


@dataclass(frozen=True)
class Pair(Rel):
    """A relational expression over two."""

    left: Rel
    right: Rel

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Single(Rel):
    input: Rel

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.input,)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields
