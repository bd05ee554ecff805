"""What an exec node is translated to: nothing but transforms, or a kernel with the keys of its inputs."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from stateplan.execnodes.runtime.jobgraph import Transform
from stateplan.execnodes.runtime.kernel import Kernel


@dataclass(frozen=True)
class Stateless:
    """Transforms applied to the rows of every input, in order; none for a node that changes no row."""

    transforms: tuple[Transform, ...] = ()


@dataclass(frozen=True)
class Stateful:
    """A kernel; ``keys`` are, per input, the fields that decide the key group of a row. ``before`` are transforms of
    the rows of every input, in order. ``schemas`` are the columns of the inputs where they are not those of the
    plan."""

    kernel: Kernel
    keys: tuple[tuple[int, ...], ...]
    before: tuple[Transform, ...] = ()
    schemas: tuple[dict[str, pl.DataType], ...] | None = None
