"""Where boxes and lines go."""

from __future__ import annotations

import time
from itertools import combinations, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from stateplan.plans.render.layout import Layout, arrange, crossings

GAP = 20.0


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[int, tuple[float, float]], list[tuple[int, int]]]:
    """Boxes of many sizes, and lines from earlier to later ones; a line may be there twice."""
    count = draw(st.integers(1, 14))
    sizes = {i * 3: (float(draw(st.integers(10, 300))), float(draw(st.integers(10, 90)))) for i in range(count)}
    pairs = list(combinations(sizes, 2))
    edges = draw(st.lists(st.sampled_from(pairs), max_size=25)) if pairs else []
    return sizes, edges


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_no_box_lies_on_another_and_every_line_goes_down(
    graph: tuple[dict[int, tuple[float, float]], list[tuple[int, int]]],
) -> None:
    sizes, edges = graph
    layout = arrange(sizes, edges, gap=GAP)
    for a, b in combinations(layout.boxes.values(), 2):
        apart = abs(a.x - b.x) >= (a.width + b.width) / 2 + GAP - 1e-6
        assert apart or a.layer != b.layer
        assert a.layer == b.layer or (a.y + a.height < b.y) == (a.layer < b.layer)
    for box in layout.boxes.values():
        assert box.x - box.width / 2 >= 0 and box.x + box.width / 2 <= layout.width + 1e-6
        assert box.y >= 0 and box.y + box.height <= layout.height
    for (source, target), route in zip(edges, layout.routes, strict=True):
        first, last = layout.boxes[source], layout.boxes[target]
        assert route.points[0] == (first.x, first.y + first.height)
        assert route.points[-1][1] == last.y
        assert abs(route.points[-1][0] - last.x) < last.width / 2
        assert all(a[1] <= b[1] for a, b in pairwise(route.points))


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_lines_pass_no_box(graph: tuple[dict[int, tuple[float, float]], list[tuple[int, int]]]) -> None:
    """Within a layer lines go straight down beside its boxes; they only bend between layers."""
    sizes, edges = graph
    layout = arrange(sizes, edges, gap=GAP)
    for (source, target), route in zip(edges, layout.routes, strict=True):
        for (x, y), (to_x, to_y) in pairwise(route.points):
            for name, box in layout.boxes.items():
                beside = box.y + box.height <= y + 1e-6 or box.y >= to_y - 1e-6
                if name in (source, target) or beside:
                    continue
                assert x == to_x, "a bend inside a layer"
                assert abs(x - box.x) >= box.width / 2


def tops(layout: Layout) -> list[list[int]]:
    by_layer: dict[int, list[int]] = {}
    for name, box in sorted(layout.boxes.items(), key=lambda item: item[1].x):
        by_layer.setdefault(box.layer, []).append(name)
    return [by_layer[layer] for layer in sorted(by_layer)]


def test_the_left_input_is_on_the_left() -> None:
    sizes = dict.fromkeys((1, 2, 3, 4, 5), (100.0, 40.0))
    layout = arrange(sizes, [(2, 3), (1, 3), (4, 5), (3, 5)])
    assert tops(layout) == [[4, 2, 1], [3], [5]]
    assert layout.boxes[2].x < layout.boxes[3].x < layout.boxes[1].x


def test_sources_and_sinks_stand_at_the_ends() -> None:
    sizes = dict.fromkeys(range(8), (100.0, 40.0))
    layout = arrange(sizes, [(0, 1), (1, 2), (2, 3), (4, 5), (3, 5), (0, 6), (6, 7)])
    layers = {name: box.layer for name, box in layout.boxes.items()}
    assert layers == {0: 0, 1: 1, 2: 2, 3: 3, 4: 0, 5: 4, 6: 3, 7: 4}


def test_crossings_are_counted() -> None:
    assert crossings([0, 1], [2, 3], [[3], [2], [], []]) == 1
    assert crossings([0, 1], [2, 3], [[2], [3], [], []]) == 0
    assert crossings([0, 1], [2, 3], [[2, 3], [2, 3], [], []]) == 1


def test_crossings_are_taken_out() -> None:
    """Two pairs whose lines are given crosswise."""
    sizes = dict.fromkeys(range(4), (50.0, 20.0))
    layout = arrange(sizes, [(0, 3), (1, 2)])
    left, right = layout.boxes[2], layout.boxes[3]
    assert (left.x < right.x) == (layout.boxes[1].x < layout.boxes[0].x)


def test_nothing_is_drawn_of_nothing() -> None:
    layout = arrange({}, [])
    assert (layout.boxes, layout.routes) == ({}, ())


def test_one_box_that_everything_reads() -> None:
    """Its lines share their way, so that drawing takes no longer than that of other graphs."""
    count = 300
    sizes = dict.fromkeys(range(count), (200.0, 60.0))
    edges = [pair for i in range(2, count) for pair in ((i - 1, i), (0, i))]
    before = time.process_time()
    layout = arrange(sizes, [(0, 1), *edges])
    assert time.process_time() - before < 5
    long = [route.points for (source, _), route in zip(edges, layout.routes[1:], strict=True) if source == 0]
    assert all(set(a[:-1]) <= set(b) for a, b in pairwise(long))
