"""Where boxes and lines of a directed acyclic graph go when it is drawn in layers, from the top to the bottom or from
the left to the right.

Source: Sugiyama, Tagawa, Toda, "Methods for Visual Understanding of Hierarchical System Structures" (1981): layers by
longest path, crossings reduced by sweeps of barycentres, then coordinates. These minimise the squared distance of each
box from the middle of its neighbours, layer by layer, which "pool adjacent violators" solves exactly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import pairwise

from stateplan.common.lazy_dataclass import dataclass

_SWEEPS = 12
_EFFORT = 4_000
"""Boxes and joints up to which all sweeps are made."""

_THIN = 16.0
"""Width that a line takes where it passes a layer."""

_STRAIGHT = 6.0
"""How much more the bends of long lines count than those of short ones."""


@dataclass(frozen=True)
class BoxPlace:
    """A box: its middle and its upper edge, its width and height."""

    x: float
    y: float
    width: float
    height: float
    layer: int


@dataclass(frozen=True)
class Route:
    """A line: its points from the source's last edge to the target's first edge; between two layers it may bend."""

    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Layout:
    """Boxes by name, routes in the order of the edges, and the size of the whole."""

    boxes: Mapping[int, BoxPlace]
    routes: tuple[Route, ...]
    width: float
    height: float


@dataclass
class _Graph:
    """Boxes and the joints of long lines, numbered: those of the boxes first."""

    layers: list[list[int]]
    widths: list[float]
    above: list[list[int]]
    below: list[list[int]]
    chains: list[list[int]] = field(default_factory=list)
    real: int = 0

    def weight(self, a: int, b: int) -> float:
        joints = (a >= self.real) + (b >= self.real)
        return (1.0, _STRAIGHT / 2, _STRAIGHT)[joints]


def arrange(
    sizes: Mapping[int, tuple[float, float]],
    edges: Sequence[tuple[int, int]],
    *,
    gap: float = 32.0,
    rise: float = 56.0,
    margin: float = 16.0,
    across: bool = False,
) -> Layout:
    """Places a graph without cycles.

    Args:
        sizes: width and height of each box; inputs come before what reads them.
        edges: (source, target), the edges into one target in the order of its inputs.
        gap: least distance between boxes of a layer.
        rise: distance between layers.
        margin: around the whole.
        across: from the left to the right; otherwise from the top to the bottom.
    """
    if across:
        turned_sizes = {name: (height, width) for name, (width, height) in sizes.items()}
        return _transposed(arrange(turned_sizes, edges, gap=gap, rise=rise, margin=margin))
    names = list(sizes)
    number = {name: i for i, name in enumerate(names)}
    pairs = [(number[a], number[b]) for a, b in edges]
    graph = _layered(len(names), pairs, [sizes[name][0] for name in names])
    _order(graph)
    xs = _columns(graph, gap)
    heights = [sizes[name][1] for name in names]
    tops, total = [], margin
    for layer in graph.layers:
        tops.append(total)
        total += max((heights[n] for n in layer if n < graph.real), default=0.0) + rise
    left = min((x - w / 2 for x, w in zip(xs, graph.widths, strict=True)), default=0.0)
    xs = [x - left + margin for x in xs]
    level = {n: depth for depth, layer in enumerate(graph.layers) for n in layer}
    tallest = [max((heights[n] for n in layer if n < graph.real), default=0.0) for layer in graph.layers]
    boxes = {name: BoxPlace(xs[n], tops[level[n]], graph.widths[n], heights[n], level[n]) for name, n in number.items()}
    ports = _ports(graph, pairs, xs)
    routes = tuple(
        _route(chain, port, xs, tops, tallest, level, heights) for chain, port in zip(graph.chains, ports, strict=True)
    )
    width = max((x + w / 2 for x, w in zip(xs, graph.widths, strict=True)), default=0.0) + margin
    return Layout(boxes, routes, width, max(total - rise, 0.0) + margin)


def _transposed(down: Layout) -> Layout:
    """A layout with the axes changed for each other."""
    boxes = {
        name: BoxPlace(box.y + box.height / 2, box.x - box.width / 2, box.height, box.width, box.layer)
        for name, box in down.boxes.items()
    }
    routes = tuple(Route(tuple((y, x) for x, y in route.points)) for route in down.routes)
    return Layout(boxes, routes, down.height, down.width)


def _depths(count: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box: the first one without inputs, the last one without readers, and in between as deep as the
    inputs force it, or deeper where that draws lines shorter."""
    readers: list[list[int]] = [[] for _ in range(count)]
    inputs: list[list[int]] = [[] for _ in range(count)]
    for a, b in pairs:
        readers[a].append(b)
        inputs[b].append(a)
    depth = [0] * count
    for n in range(count):
        depth[n] = max((depth[a] + 1 for a in inputs[n]), default=0)
    for n in range(count):
        if inputs[n] and not readers[n]:
            depth[n] = max(depth)
    for n in reversed(range(count)):
        if inputs[n] and readers[n] and len(inputs[n]) <= len(readers[n]):
            depth[n] = min(depth[b] for b in readers[n]) - 1
    return depth


def _join(graph: _Graph, upper: int, lower: int) -> None:
    graph.below[upper].append(lower)
    graph.above[lower].append(upper)


def _layered(count: int, pairs: Sequence[tuple[int, int]], widths: list[float]) -> _Graph:
    """The boxes in layers, and joints where lines pass a layer; long lines from one box share theirs."""
    depth = _depths(count, pairs)
    graph = _Graph([[] for _ in range(max(depth, default=-1) + 1)], list(widths), [], [], [], count)
    graph.above = [[] for _ in range(count)]
    graph.below = [[] for _ in range(count)]
    joints: dict[tuple[int, int], int] = {}
    for a, b in pairs:
        chain = [a]
        for layer in range(depth[a] + 1, depth[b]):
            joint = joints.setdefault((a, layer), len(graph.widths))
            if joint == len(graph.widths):
                graph.widths.append(_THIN)
                graph.above.append([])
                graph.below.append([])
                _join(graph, chain[-1], joint)
            chain.append(joint)
        _join(graph, chain[-1], b)
        graph.chains.append([*chain, b])
    layer_of = dict(enumerate(depth))
    layer_of.update({joint: layer for (_, layer), joint in joints.items()})
    for n in _from_the_ends(graph):
        graph.layers[layer_of[n]].append(n)
    return graph


def _from_the_ends(graph: _Graph) -> Iterable[int]:
    """Boxes and joints as a walk from the last boxes up meets them, inputs from the left: no tree has crossings."""
    visited_ids = set[int]()
    stack = [n for n in reversed(range(graph.real)) if not graph.below[n]]
    while stack:
        n = stack.pop()
        if n not in visited_ids:
            visited_ids.add(n)
            yield n
            stack.extend(reversed(graph.above[n]))


def crossings(upper: Sequence[int], lower: Sequence[int], below: Sequence[Sequence[int]]) -> int:
    """How many pairs of lines between two layers cross."""
    place = {n: i for i, n in enumerate(lower)}
    ends_so_far: list[int] = []
    count = 0
    for n in upper:
        ends = sorted(place[b] for b in below[n])
        for end in ends:
            count += len(ends_so_far) - bisect_right(ends_so_far, end)
        for end in ends:
            ends_so_far.insert(bisect_right(ends_so_far, end), end)
    return count


def _all_crossings(graph: _Graph) -> int:
    return sum(crossings(a, b, graph.below) for a, b in pairwise(graph.layers))


def _rounds(graph: _Graph, rounds: int) -> int:
    """How many sweeps there are, so that a graph with very many joints takes no longer than a few seconds."""
    return max(2, min(rounds, _EFFORT * rounds // (len(graph.widths) or 1)))


def _order(graph: _Graph) -> None:
    """Sorts the layers by the middle of the neighbours, down and up again, and keeps the best of what that gives."""
    best, least = [list(layer) for layer in graph.layers], _all_crossings(graph)
    for sweep in range(_rounds(graph, _SWEEPS)):
        if not least:
            break
        down = sweep % 2 == 0
        neighbours = graph.above if down else graph.below
        steps = range(1, len(graph.layers)) if down else range(len(graph.layers) - 2, -1, -1)
        for i in steps:
            _sort(graph.layers[i], graph.layers[i - 1 if down else i + 1], neighbours)
        count = _all_crossings(graph)
        if count < least:
            best, least = [list(layer) for layer in graph.layers], count
    graph.layers = best


def _sort(layer: list[int], neighbour_layer: Sequence[int], neighbours: Sequence[Sequence[int]]) -> None:
    """Sorts a layer by the middle of the neighbours in the layer beside it; one without any stays about where it is."""
    place = {n: p for p, n in enumerate(neighbour_layer)}
    own = {n: p * len(neighbour_layer) / len(layer) for p, n in enumerate(layer)}
    layer.sort(key=lambda n: sum(place[m] for m in neighbours[n]) / len(neighbours[n]) if neighbours[n] else own[n])


def _columns(graph: _Graph, gap: float) -> list[float]:
    """The middle of each box and joint."""
    xs = [0.0] * len(graph.widths)
    for layer in graph.layers:
        x = 0.0
        for n in layer:
            xs[n] = x + graph.widths[n] / 2
            x += graph.widths[n] + gap
    for sweep in range(_rounds(graph, 5 * _SWEEPS)):
        down = sweep % 2 == 0
        order = graph.layers if down else list(reversed(graph.layers))
        for layer in order:
            _settle(graph, layer, xs, gap, graph.above if down else graph.below)
    for layer in graph.layers:
        _settle(graph, layer, xs, gap, graph.above, graph.below)
    return xs


def _settle(graph: _Graph, layer: Sequence[int], xs: list[float], gap: float, *sides: Sequence[Sequence[int]]) -> None:
    """Moves a layer to the middle of its neighbours, as near as the widths allow."""
    goals, weights, offsets = [], [], []
    offset = 0.0
    for position, n in enumerate(layer):
        if position:
            left_neighbour = layer[position - 1]
            offset += (graph.widths[left_neighbour] + graph.widths[n]) / 2 + gap
        near = [m for side in sides for m in side[n]]
        weight = sum(graph.weight(n, m) for m in near)
        goal = sum(xs[m] * graph.weight(n, m) for m in near) / weight if near else xs[n]
        goals.append(goal - offset)
        weights.append(weight or 0.1)
        offsets.append(offset)
    for n, x, shift in zip(layer, _rising(goals, weights), offsets, strict=True):
        xs[n] = x + shift


def _rising(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The never falling values that are nearest to ``values``, by weighted squares."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        pool = (value, weight, 1)
        while pools and pools[-1][0] > pool[0]:
            mean, weight_sum, count = pools.pop()
            total = weight_sum + pool[1]
            pool = ((mean * weight_sum + pool[0] * pool[1]) / total, total, count + pool[2])
        pools.append(pool)
    return [mean for mean, _, count in pools for _ in range(count)]


def _ports(graph: _Graph, pairs: Sequence[tuple[int, int]], xs: Sequence[float]) -> list[float]:
    """Where each line meets its target, from the target's middle: lines into one box do not meet, nor cross."""
    into: dict[int, list[int]] = {}
    for position, (_, target) in enumerate(pairs):
        into.setdefault(target, []).append(position)
    offsets = [0.0] * len(pairs)
    for target, positions in into.items():
        step = graph.widths[target] / len(positions)
        positions_in_order = sorted(positions, key=lambda p: (xs[graph.chains[p][-2]], p))
        for place, position in enumerate(positions_in_order):
            offsets[position] = (place + 0.5) * step - graph.widths[target] / 2
    return offsets


def _route(
    chain: Sequence[int],
    port: float,
    xs: Sequence[float],
    tops: Sequence[float],
    tallest: Sequence[float],
    level: Mapping[int, int],
    heights: Sequence[float],
) -> Route:
    first, last = chain[0], chain[-1]
    points = [(xs[first], tops[level[first]] + heights[first])]
    if heights[first] < tallest[level[first]]:
        points.append((xs[first], tops[level[first]] + tallest[level[first]]))
    for joint in chain[1:-1]:
        top = tops[level[joint]]
        points += [(xs[joint], top), (xs[joint], top + tallest[level[joint]])]
    return Route((*points, (xs[last] + port, tops[level[last]])))
