"""The job's state machine as a drawing: nodes and edges come from the table of transitions, nothing is drawn twice."""

from collections.abc import Iterable
from dataclasses import dataclass

from opilio.crawl.job import TRANSITIONS, State

_WIDTH, _HEIGHT = 110, 40
# Positions: work flows from left to right, final states are on the right.
_PLACES = {
    State.PENDING: (20, 130),
    State.LOCKED: (290, 130),
    State.DONE: (570, 20),
    State.FAILED: (570, 130),
    State.EXPIRED: (570, 240),
}
# How far an edge bows out of the straight line, so that there and back do not lie on each other.
_BOWS = {
    (State.PENDING, State.LOCKED): -26,
    (State.LOCKED, State.PENDING): -26,
    (State.EXPIRED, State.PENDING): -80,
    (State.FAILED, State.PENDING): 78,
}


@dataclass(frozen=True, slots=True)
class Node:
    state: str
    x: int
    y: int
    width: int
    height: int
    now: bool
    been: bool

    @property
    def middle(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2


@dataclass(frozen=True, slots=True)
class Edge:
    path: str
    causes: str
    x: float
    y: float
    taken: bool


@dataclass(frozen=True, slots=True)
class Diagram:
    width: int
    height: int
    nodes: list[Node]
    edges: list[Edge]


def draw(now: str, steps: Iterable[tuple[str | None, str]]) -> Diagram:
    """The whole table, with the current state and the path to it highlighted."""
    ways = set(steps)
    been = {state for way in ways for state in way if state}
    nodes = {
        state: Node(state, x, y, _WIDTH, _HEIGHT, state == now, state in been)
        for state, (x, y) in _PLACES.items()
    }
    return Diagram(
        710,
        310,
        list(nodes.values()),
        [
            _edge(nodes[source], nodes[target], causes, taken=(source, target) in ways)
            for (source, target), causes in _grouped().items()
        ],
    )


def _grouped() -> dict[tuple[State, State], list[str]]:
    """All causes that lead from one state to another share an edge."""
    grouped: dict[tuple[State, State], list[str]] = {}
    for (source, cause), target in TRANSITIONS.items():
        grouped.setdefault((source, target), []).append(str(cause))
    return grouped


def _edge(source: Node, target: Node, causes: list[str], *, taken: bool) -> Edge:
    bow = _BOWS.get((State(source.state), State(target.state)), 0)
    (x1, y1), (x2, y2) = source.middle, target.middle
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    # The control point of the curve, perpendicular to the middle of the straight line.
    cx = (x1 + x2) / 2 - (y2 - y1) / length * bow * 2
    cy = (y1 + y2) / 2 + (x2 - x1) / length * bow * 2
    start, end = _rim(source, cx, cy), _rim(target, cx, cy)
    path = f"M{start[0]:.0f},{start[1]:.0f} Q{cx:.0f},{cy:.0f} {end[0]:.0f},{end[1]:.0f}"
    middle = ((start[0] + 2 * cx + end[0]) / 4, (start[1] + 2 * cy + end[1]) / 4 - 5)
    return Edge(path, ", ".join(causes), *middle, taken)


def _rim(node: Node, towards_x: float, towards_y: float) -> tuple[float, float]:
    """Where a line from the middle of a box leaves it."""
    x, y = node.middle
    dx, dy = towards_x - x, towards_y - y
    if not dx and not dy:
        return x, y
    scale = min(
        (node.width / 2 + 4) / abs(dx) if dx else float("inf"),
        (node.height / 2 + 4) / abs(dy) if dy else float("inf"),
    )
    return x + dx * scale, y + dy * scale
