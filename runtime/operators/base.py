"""What runs for a node: transforms of its rows, or a kernel with state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import TypeAlias

import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.execnodes.nodes.base import ExecNode, not_supported
from stateplan.runtime.kernel import Kernel, Transform

Rows: TypeAlias = Sequence[LogicalType]
"""The ROW type of every input of a node."""

Options: TypeAlias = Mapping[str, str]
"""The options of a session."""


@dataclass(frozen=True)
class Stateless:
    """A node that is translated to transforms of the rows of every input, in order; none where it changes no row."""

    transforms: tuple[Transform, ...] = ()


@dataclass(frozen=True)
class Stateful:
    """A node that is translated to a kernel.

    Attributes:
        kernel: what it computes.
        keys: per input, the fields that decide the key group of a row.
        before: transforms of the rows of every input, in order.
        schemas: the columns of the inputs where they are not those of the plan.
    """

    kernel: Kernel
    keys: tuple[tuple[int, ...], ...]
    before: tuple[Transform, ...] = ()
    schemas: tuple[dict[str, pl.DataType], ...] | None = None


@singledispatch
def operator_of(node: ExecNode, inputs: Rows, session: Options) -> Stateless | Stateful:
    """The operator of a node. Modules of this folder register one function per class of nodes; a class without one has
    that of its base.

    Args:
        node: the node of a plan.
        inputs: the ROW types of its inputs.
        session: options of the session.

    Raises:
        PlanError: PLAN035, when this version of stateplan cannot run the node.
    """
    raise not_supported(node, node.title)
