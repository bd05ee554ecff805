"""What is placed together in a drawing: an operator with state, a source or a sink, with the chips of its inputs.

Operators without state recede to chips. A chain of them that one operator alone reads is placed at that operator; any
other chain is a block of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from stateplan.common.lazy_dataclass import dataclass
from stateplan.plans.render.picture import Box, Picture


@dataclass(frozen=True)
class Block:
    """Boxes that are placed together.

    Attributes:
        id: the id of its last operator.
        main: the operator with state, the source or the sink; None for chips alone.
        chains: the chips in front of ``main`` by the position of its input, each in the order of the rows.
        stack: the chips of a block without ``main``, in the order of the rows.
    """

    id: int
    main: Box | None
    chains: Mapping[int, tuple[Box, ...]] = field(default_factory=dict)
    stack: tuple[Box, ...] = ()


@dataclass(frozen=True)
class Wire:
    """A line between two blocks.

    Attributes:
        source, target: the blocks.
        tail, head: the operators that it joins.
        position: which input of the target's ``main`` it leads to; 0 for chips alone.
    """

    source: int
    target: int
    tail: int
    head: int
    position: int


def is_chip(box: Box) -> bool:
    """Whether an operator is drawn as a chip."""
    return box.kind == "operator" and not box.stateful


def blocks(plan_picture: Picture) -> tuple[tuple[Block, ...], tuple[Wire, ...]]:
    """The blocks of a picture, inputs before those that read them, and the lines between them."""
    boxes = {box.id: box for box in plan_picture.boxes}
    inputs: dict[int, list[int]] = {box.id: [] for box in plan_picture.boxes}
    readers: dict[int, list[int]] = {box.id: [] for box in plan_picture.boxes}
    for line in plan_picture.lines:
        inputs[line.target].append(line.source)
        readers[line.source].append(line.target)

    def in_chain(operator: int) -> bool:
        return is_chip(boxes[operator]) and len(readers[operator]) == 1 and len(inputs[operator]) == 1

    blocks_so_far: list[Block] = []
    wires: list[tuple[int, int, int, int]] = []
    home: dict[int, int] = {}
    for box in plan_picture.boxes:
        if is_chip(box):
            continue
        chains = {}
        for position, source in enumerate(inputs[box.id]):
            chain: list[Box] = []
            while in_chain(source):
                chain.insert(0, boxes[source])
                source = inputs[source][0]
            if chain:
                chains[position] = tuple(chain)
            wires.append((source, box.id, chain[0].id if chain else box.id, position))
        blocks_so_far.append(Block(box.id, box, chains))
        home |= {chip.id: box.id for chain in chains.values() for chip in chain} | {box.id: box.id}
    for stack in _stacks([box for box in plan_picture.boxes if box.id not in home], inputs, readers):
        last = stack[-1].id
        blocks_so_far.append(Block(last, None, stack=stack))
        home |= {chip.id: last for chip in stack}
        wires += [(source, last, stack[0].id, position) for position, source in enumerate(inputs[stack[0].id])]
    order = {box.id: position for position, box in enumerate(plan_picture.boxes)}
    blocks_so_far.sort(key=lambda block: order[block.id])
    return tuple(blocks_so_far), tuple(
        Wire(home[tail], target, tail, head, position) for tail, target, head, position in wires
    )


def _stacks(
    chips: Sequence[Box], inputs: Mapping[int, Sequence[int]], readers: Mapping[int, Sequence[int]]
) -> list[tuple[Box, ...]]:
    """Chips that are left, as chains: each continues with its only reader, where that reads nothing else."""
    left = {chip.id: chip for chip in chips}
    stacks: list[list[Box]] = []
    ends: dict[int, list[Box]] = {}
    for chip in chips:
        above = inputs[chip.id]
        goes_on = len(above) == 1 and above[0] in left and len(readers[above[0]]) == 1
        stack = ends.pop(above[0]) if goes_on else []
        if not stack:
            stacks.append(stack)
        stack.append(chip)
        ends[chip.id] = stack
    return [tuple(stack) for stack in stacks]
