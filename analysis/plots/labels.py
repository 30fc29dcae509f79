"""Labels beside points without overlap: deterministic, greedy, then improved in place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

Box = tuple[float, float, float, float]
"""left, bottom, right, top in pixels."""

# directions by preference (right first: it reads best), and how far out to go, in points
_ANGLES = (0, 35, -35, 180, 145, -145, 90, -90, 18, -18, 162, -162, 60, -60, 120, -120)
_DISTANCES = (5.0, 9.0, 15.0, 23.0, 33.0, 45.0)
_PASSES = 4
_WIDEST = 0.42
"""Of the frame: a longer label keeps its ends, so that there is room for it on one side."""


def overlap(a: Box, b: Box) -> float:
    """The area that two boxes share."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    return width * height if width > 0 and height > 0 else 0.0


def overlaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(..., O): the area that each box of (..., 4) shares with each of the others (O, 4)."""
    a = boxes[..., None, :]
    low, high = np.maximum(a[..., :2], others[:, :2]), np.minimum(a[..., 2:], others[:, 2:])
    shared: np.ndarray = np.maximum(high - low, 0).prod(-1)
    return shared


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
    frame = ax.get_window_extent()
    labels = _shortened(ax, labels, size, _WIDEST * frame.width)
    sizes = np.array([_measure(ax, text, size) for text in labels])
    radius = 3.6 * scale
    dots = np.concatenate([anchor - radius, anchor + radius], axis=1)
    lines = []
    for path, weight in avoid:
        dense = _along(ax.transData.transform(np.asarray(path, dtype=float)))
        lines.append(np.column_stack([dense, np.full(len(dense), weight)]))
    track = np.concatenate(lines) if lines else np.empty((0, 3))

    boxes, far = _positions(anchor, sizes, scale)
    boxes = _inside(boxes, frame)
    fixed = 0.4 * far + _covering(boxes, dots, track)
    fixed += 60 * overlaps(boxes, np.reshape(taken, (-1, 4))).sum(-1)
    # the most crowded points choose first
    gaps = np.hypot(*(anchor[:, None] - anchor[None]).transpose(2, 0, 1))
    crowd = (1 / (gaps + 8 * scale)).sum(1)
    order = sorted(range(len(labels)), key=lambda i: (-round(float(crowd[i]), 6), i))
    chosen = np.full(len(labels), -1)
    for _ in range(_PASSES):
        before = chosen.copy()
        for i in order:
            others = np.flatnonzero((chosen >= 0) & (np.arange(len(labels)) != i))
            crossed = overlaps(boxes[i], boxes[others, chosen[others]]).sum(-1)
            chosen[i] = int(np.argmin(fixed[i] + 60 * crossed))
        if (chosen == before).all():
            break
    rows = np.arange(len(labels))
    best = [(_tuple(b), float(d)) for b, d in zip(boxes[rows, chosen], far[chosen], strict=True)]
    return _draw(ax, labels, anchor, best, list(taken), size, colour, line_colour)


def _shortened(ax: Axes, labels: Sequence[str], size: float, most: float) -> list[str]:
    """The labels, cut where they are wider than so many pixels, and still different."""
    widths = [_measure(ax, text, size)[0] for text in labels]
    found: list[str] = []
    for head in (0.5, 1.0, 0.0):  # both ends are kept, or the end that tells them apart
        found = [
            text if width <= most else _cut(text, max(int(len(text) * most / width) - 1, 6), head)
            for text, width in zip(labels, widths, strict=True)
        ]
        if len(set(found)) == len(set(labels)):
            break
    return found


def _cut(text: str, keep: int, head: float) -> str:
    first = round(keep * head)
    return f"{text[:first]}…{text[len(text) - keep + first :]}"


def _tuple(box: np.ndarray) -> Box:
    left, bottom, right, top = box.tolist()
    return left, bottom, right, top


def _draw(
    ax: Axes,
    labels: Sequence[str],
    anchor: np.ndarray,
    best: list[tuple[Box, float]],
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
        box, far = best[i]
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
    anchor: np.ndarray, sizes: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Boxes (points, positions, 4) around every point, and how far out each position is."""
    reach = np.repeat(_DISTANCES, len(_ANGLES)) * scale
    angle = np.tile(_ANGLES, len(_DISTANCES))
    dx, dy = reach * np.cos(np.radians(angle)), reach * np.sin(np.radians(angle))
    width, height = sizes[:, :1], sizes[:, 1:]
    upright = np.abs(angle) == 90
    left = anchor[:, :1] + dx - width * np.where(upright, 0.5, dx <= 0)
    bottom = anchor[:, 1:] + dy - height * np.where(upright, 0.5 - 0.3 * np.sign(dy), 0.5)
    return np.stack([left, bottom, left + width, bottom + height], axis=-1), reach


def _inside(boxes: np.ndarray, frame: Bbox) -> np.ndarray:
    """The boxes, moved into the frame where they reach beyond it."""
    low, high = np.array([frame.x0, frame.y0]), np.array([frame.x1, frame.y1])
    shift = np.maximum(low - boxes[..., :2], 0) + np.minimum(high - boxes[..., 2:], 0)
    moved: np.ndarray = boxes + np.concatenate([shift, shift], axis=-1)
    return moved


def _covering(boxes: np.ndarray, dots: np.ndarray, track: np.ndarray) -> np.ndarray:
    """What a position costs for the points and lines that it covers, its own point least."""
    cost = np.empty(boxes.shape[:2])
    weight = np.full(len(dots), 40.0)
    for i, around in enumerate(boxes):
        weight[i] = 8.0
        cost[i] = overlaps(around, dots) @ weight
        weight[i] = 40.0
        low, high = around[:, :2].min(axis=0), around[:, 2:].max(axis=0)
        near = track[(track[:, :2] > low).all(axis=1) & (track[:, :2] < high).all(axis=1)]
        x, y = near[:, 0], near[:, 1]
        inside = (x > around[:, :1]) & (x < around[:, 2:3])
        inside &= (y > around[:, 1:2]) & (y < around[:, 3:])
        cost[i] += inside @ near[:, 2]
    return cost


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
