"""Labels beside points without overlap: deterministic, greedy, then improved in place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Box = tuple[float, float, float, float]
"""left, bottom, right, top in pixels."""

# directions by preference (right first: it reads best), and how far out to go, in points
_ANGLES = (0, 35, -35, 180, 145, -145, 90, -90, 18, -18, 162, -162, 60, -60, 120, -120)
_DISTANCES = (5.0, 9.0, 15.0, 23.0, 33.0, 45.0)
_PASSES = 4


def overlap(a: Box, b: Box) -> float:
    """The area that two boxes share."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    return width * height if width > 0 and height > 0 else 0.0


def place_labels(
    ax: Axes,
    points: Sequence[tuple[float, float]],
    labels: Sequence[str],
    *,
    colour: str,
    line_colour: str,
    size: float,
    avoid: Sequence[tuple[Sequence[tuple[float, float]], float]] = (),
    taken: Sequence[Box] = (),
) -> list[str]:
    """Write each label near its point; return the labels that found no room.

    Call it once the layout is settled. `avoid` holds polylines in data coordinates that a
    label should rather not cross, and how bad it is; `taken` boxes in pixels that it must not.
    """
    if not labels:
        return []
    scale = ax.figure.dpi / 72
    anchor = ax.transData.transform(np.asarray(points, dtype=float))
    sizes = [_measure(ax, text, size) for text in labels]
    frame = ax.get_window_extent()
    bounds: Box = (frame.x0, frame.y0, frame.x1, frame.y1)
    radius = 3.6 * scale
    dots = [(x - radius, y - radius, x + radius, y + radius) for x, y in anchor]
    lines = []
    for path, weight in avoid:
        dense = _along(ax.transData.transform(np.asarray(path, dtype=float)))
        lines.append(np.column_stack([dense, np.full(len(dense), weight)]))
    track = np.concatenate(lines) if lines else np.empty((0, 3))

    options = [_positions(anchor[i], sizes[i], scale) for i in range(len(labels))]
    fixed = [
        [_cost(box, i, far, dots, taken, track, bounds) for box, far in options[i]]
        for i in range(len(labels))
    ]
    # the most crowded points choose first
    gaps = np.hypot(*(anchor[:, None] - anchor[None]).transpose(2, 0, 1))
    crowd = (1 / (gaps + 8 * scale)).sum(1)
    order = sorted(range(len(labels)), key=lambda i: (-round(float(crowd[i]), 6), i))
    chosen: dict[int, int] = {}
    for _ in range(_PASSES):
        before = dict(chosen)
        for i in order:
            others = [options[j][k][0] for j, k in chosen.items() if j != i]
            costs = [
                cost + 60 * sum(overlap(box, o) for o in others)
                for cost, (box, _) in zip(fixed[i], options[i], strict=True)
            ]
            chosen[i] = int(np.argmin(costs))
        if chosen == before:
            break
    return _draw(ax, labels, anchor, options, chosen, list(taken), size, colour, line_colour)


def _draw(
    ax: Axes,
    labels: Sequence[str],
    anchor: np.ndarray,
    options: list[list[tuple[Box, float]]],
    chosen: dict[int, int],
    placed: list[Box],
    size: float,
    colour: str,
    line_colour: str,
) -> list[str]:
    """Write what fits, with a thin line to points that are not next to their label."""
    scale = ax.figure.dpi / 72
    inverse = ax.transData.inverted()
    dropped = []
    for i, text in enumerate(labels):
        box, far = options[i][chosen[i]]
        if any(overlap(box, other) > 0 for other in placed):
            dropped.append(text)
            continue
        placed.append(box)
        right = box[0] >= anchor[i][0]
        left = box[2] <= anchor[i][0]
        x = box[0] if right else box[2] if left else (box[0] + box[2]) / 2
        align = "left" if right else "right" if left else "center"
        y = (box[1] + box[3]) / 2
        tx, ty = inverse.transform((x, y))
        ax.text(tx, ty, text, ha=align, va="center", fontsize=size, color=colour, zorder=6)
        if far > 10 * scale:
            end = _nearest(box, anchor[i])
            line = inverse.transform(np.array([anchor[i], end]))
            ax.plot(
                line[:, 0], line[:, 1], color=line_colour, linewidth=0.45, alpha=0.7, zorder=2.5
            )
    return dropped


def _measure(ax: Axes, text: str, size: float) -> tuple[float, float]:
    """Width and height of a text in pixels."""
    probe = ax.text(0, 0, text, fontsize=size)
    extent = probe.get_window_extent()
    probe.remove()
    return float(extent.width), float(extent.height)


def _positions(
    point: np.ndarray, size: tuple[float, float], scale: float
) -> list[tuple[Box, float]]:
    """Boxes around a point with their distance from it."""
    width, height = size
    boxes = []
    for distance in _DISTANCES:
        for angle in _ANGLES:
            reach = distance * scale
            dx, dy = reach * np.cos(np.radians(angle)), reach * np.sin(np.radians(angle))
            x = point[0] + dx
            left = x - width / 2 if abs(angle) == 90 else x if dx > 0 else x - width
            bottom = point[1] + dy - height / 2
            if abs(angle) == 90:
                bottom += np.sign(dy) * height * 0.3
            boxes.append(((left, bottom, left + width, bottom + height), reach))
    return boxes


def _cost(
    box: Box,
    i: int,
    far: float,
    dots: list[Box],
    taken: Sequence[Box],
    track: np.ndarray,
    bounds: Box,
) -> float:
    """What a position costs by itself: points and lines covered, distance, leaving the frame."""
    cost = 0.4 * far
    cost += 40 * sum(overlap(box, dot) for j, dot in enumerate(dots) if j != i)
    cost += 8 * overlap(box, dots[i])
    cost += 60 * sum(overlap(box, other) for other in taken)
    if len(track):
        inside = (track[:, 0] > box[0]) & (track[:, 0] < box[2])
        inside &= (track[:, 1] > box[1]) & (track[:, 1] < box[3])
        cost += float(track[inside, 2].sum())
    outside = max(bounds[0] - box[0], 0) + max(box[2] - bounds[2], 0)
    outside += max(bounds[1] - box[1], 0) + max(box[3] - bounds[3], 0)
    return float(cost + 60 * outside)


def _along(path: np.ndarray) -> np.ndarray:
    """Points every three pixels along a polyline."""
    pieces = []
    for a, b in pairwise(path):
        steps = max(2, int(np.hypot(*(b - a)) / 3))
        pieces.append(a + (b - a) * np.linspace(0, 1, steps)[:, None])
    return np.concatenate(pieces) if pieces else np.empty((0, 2))


def _nearest(box: Box, point: np.ndarray) -> tuple[float, float]:
    """The point of a box's edge nearest to a point outside it."""
    return (
        float(np.clip(point[0], box[0], box[2])),
        float(np.clip(point[1], box[1], box[3])),
    )


def spread(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move positions on a line apart so that neighbours are `gap` from each other.

    Keeps the order and stays as near as it can to where they were; used for the labels at
    the end of curves. Where there is no room for all, the gap shrinks.
    """
    count = len(positions)
    if count == 0:
        return []
    gap = min(gap, (high - low) / max(count - 1, 1))
    order = sorted(range(count), key=lambda i: (positions[i], i))
    blocks: list[list[float]] = []  # [sum of (wanted − offset), count]
    for rank, i in enumerate(order):
        blocks.append([positions[i] - rank * gap, 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, size = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += size
    placed = [0.0] * count
    top = high - (count - 1) * gap
    rank = 0
    for total, size in blocks:
        base = min(max(total / size, low), top)
        for _ in range(int(size)):
            placed[order[rank]] = base + rank * gap
            rank += 1
    return placed
