"""Labels beside points without overlap: a deterministic greedy search, improved in place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from bon.analysis.plots.style import MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

Box = tuple[float, float, float, float]
"""left, bottom, right, top in pixels."""

# directions by preference (right first: it reads best), and distances in points
_ANGLES = (0, 35, -35, 180, 145, -145, 90, -90, 18, -18, 162, -162, 60, -60, 120, -120)
_DISTANCES = (5.0, 9.0, 15.0, 23.0, 33.0, 45.0)
_PASSES = 4
LABEL_SIZE = 6.8
_LINE = 10.0
"""Labels farther than this many points from their point have a line to it."""
_WIDEST = 0.42
"""Longer labels, as a share of the frame, are shortened so that they fit on one side."""


def box_of(text: Text) -> Box:
    """Return the extent of a text in pixels."""
    extent = text.get_window_extent()
    return (extent.x0, extent.y0, extent.x1, extent.y1)


def overlap(a: Box, b: Box) -> float:
    """Return the area that two boxes share."""
    return float(overlaps(np.array(a), np.array([b]))[0])


def overlaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(..., O): the area that each box (..., 4) shares with each of the others (O, 4)."""
    a = boxes[..., None, :]
    low, high = np.maximum(a[..., :2], others[:, :2]), np.minimum(a[..., 2:], others[:, 2:])
    shared: np.ndarray = np.maximum(high - low, 0).prod(-1)
    return shared


def place_labels(
    ax: Axes,
    points: Sequence[tuple[float, float]],
    labels: Sequence[str],
    *,
    avoid: Sequence[tuple[Sequence[tuple[float, float]], float]] = (),
    taken: Sequence[Box] = (),
) -> list[str]:
    """Write each label near its point once the layout is fixed; return labels without room.

    `avoid`: polylines in data coordinates that labels should not cross, and the cost of crossing;
    `taken`: boxes in pixels that they must not cover.
    """
    if not labels:
        return []
    scale = ax.figure.dpi / 72
    anchors = ax.transData.transform(np.asarray(points, dtype=float))
    frame = ax.get_window_extent()
    labels, sizes = _shorten(ax, labels, _WIDEST * frame.width)
    boxes, distance = _positions(anchors, sizes, scale)
    corners = np.array([frame.x0, frame.y0]), np.array([frame.x1, frame.y1])
    shift = np.maximum(corners[0] - boxes[..., :2], 0) + np.minimum(corners[1] - boxes[..., 2:], 0)
    boxes += np.concatenate([shift, shift], axis=-1)  # into the frame
    cost = distance + _covered(ax, boxes, anchors, 3.6 * scale, avoid)
    cost += 60 * overlaps(boxes, np.reshape(taken, (-1, 4))).sum(-1)
    cost += 20 * scale * (_nearer_to_another(boxes, anchors) & (distance <= _LINE * scale))
    # the most crowded points choose first
    gaps = np.hypot(*(anchors[:, None] - anchors[None]).transpose(2, 0, 1))
    crowd = (1 / (gaps + 8 * scale)).sum(1)
    order = sorted(range(len(labels)), key=lambda i: (-round(float(crowd[i]), 6), i))
    chosen = np.full(len(labels), -1)
    for _ in range(_PASSES):
        before = chosen.copy()
        for i in order:
            others = np.flatnonzero((chosen >= 0) & (np.arange(len(labels)) != i))
            crossed = overlaps(boxes[i], boxes[others, chosen[others]]).sum(-1)
            chosen[i] = int(np.argmin(cost[i] + 60 * crossed))
        if (chosen == before).all():
            break
    placed, dropped = [list(box) for box in taken], []
    inverse = ax.transData.inverted()
    for text, anchor, box, far in zip(
        labels, anchors, boxes[np.arange(len(labels)), chosen], distance[chosen], strict=True
    ):
        if placed and (overlaps(box, np.array(placed)) > 0).any():
            dropped.append(text)
            continue
        placed.append(box.tolist())
        # anchored at the side of the point: pages set the text in a font of other widths
        side = "left" if box[0] >= anchor[0] else "right" if box[2] <= anchor[0] else "center"
        x = {"left": box[0], "right": box[2], "center": (box[0] + box[2]) / 2}[side]
        tx, ty = inverse.transform((x, (box[1] + box[3]) / 2))
        ax.text(tx, ty, text, ha=side, va="center", fontsize=LABEL_SIZE, zorder=6)
        if far > _LINE * scale:  # a thin line to the nearest edge
            line = inverse.transform([anchor, np.clip(anchor, box[:2], box[2:])])
            ax.plot(*line.T, color=MUTED, linewidth=0.45, alpha=0.7, zorder=2.5)
    return dropped


def _shorten(ax: Axes, labels: Sequence[str], most: float) -> tuple[list[str], np.ndarray]:
    """Cut labels wider than `most` pixels, keeping them distinct; return them and their sizes."""
    probe = ax.text(0, 0, "", fontsize=LABEL_SIZE)

    def measure(text: str) -> tuple[float, float]:
        probe.set_text(text)
        extent = probe.get_window_extent()
        return extent.width, extent.height

    def cut(text: str, head: float) -> str:
        keep = max(int(len(text) * most / measure(text)[0]) - 1, 6)
        first = round(keep * head)
        whole = measure(text)[0] <= most
        return text if whole else f"{text[:first]}…{text[len(text) - keep + first :]}"

    for head in (0.5, 1.0, 0.0):  # keep both ends, or the end that tells them apart
        short = [cut(text, head) for text in labels]
        if len(set(short)) == len(set(labels)):
            break
    sizes = np.array([measure(text) for text in short])
    probe.remove()
    return short, sizes


def _positions(
    anchors: np.ndarray, sizes: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return boxes (points, positions, 4) around every point, and their distances."""
    distance = np.repeat(_DISTANCES, len(_ANGLES)) * scale
    angle = np.tile(_ANGLES, len(_DISTANCES))
    dx, dy = distance * np.cos(np.radians(angle)), distance * np.sin(np.radians(angle))
    width, height = sizes[:, :1], sizes[:, 1:]
    upright = np.abs(angle) == 90
    left = anchors[:, :1] + dx - width * np.where(upright, 0.5, dx <= 0)
    bottom = anchors[:, 1:] + dy - height * np.where(upright, 0.5 - 0.3 * np.sign(dy), 0.5)
    return np.stack([left, bottom, left + width, bottom + height], axis=-1), distance


def _nearer_to_another(boxes: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """(points, positions): whether a label would stand nearer to another point than to its own."""
    nearest = np.clip(anchors, boxes[..., None, :2], boxes[..., None, 2:])
    gaps = np.hypot(*np.moveaxis(nearest - anchors, -1, 0))
    own = np.eye(len(anchors), dtype=bool)[:, None]
    near: np.ndarray = np.where(own, np.inf, gaps).min(-1) < np.where(own, gaps, np.inf).min(-1)
    return near


def _covered(
    ax: Axes,
    boxes: np.ndarray,
    anchors: np.ndarray,
    radius: float,
    avoid: Sequence[tuple[Sequence[tuple[float, float]], float]],
) -> np.ndarray:
    """Cost of the points and lines that each position covers; its own point costs least."""
    dots = np.concatenate([anchors - radius, anchors + radius], axis=1)
    lines = [np.empty((0, 3))]
    for path, weight in avoid:  # a point every three pixels
        for a, b in pairwise(ax.transData.transform(np.asarray(path, dtype=float))):
            steps = max(2, int(np.hypot(*(b - a)) / 3))
            dense = a + (b - a) * np.linspace(0, 1, steps)[:, None]
            lines.append(np.column_stack([dense, np.full(steps, weight)]))
    track = np.concatenate(lines)
    cost = np.empty(boxes.shape[:2])
    for i, around in enumerate(boxes):
        dot_cost = np.where(np.arange(len(dots)) == i, 8.0, 40.0)
        low, high = around[:, None, :2], around[:, None, 2:]
        inside = ((track[:, :2] > low) & (track[:, :2] < high)).all(axis=-1)
        cost[i] = overlaps(around, dots) @ dot_cost + inside @ track[:, 2]
    return cost


def spread(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move positions apart to at least `gap`, in order and as little as possible.

    For labels at the ends of curves. The gap shrinks where there is too little room.
    """
    from scipy.optimize import isotonic_regression  # a slow import

    count = len(positions)
    if count == 0:
        return []
    gap = min(gap, (high - low) / max(count - 1, 1))
    order, offsets = np.argsort(positions, kind="stable"), gap * np.arange(count)
    bases = isotonic_regression(np.asarray(positions, dtype=float)[order] - offsets).x
    placed = np.empty(count)
    placed[order] = np.clip(bases, low, max(low, high - (count - 1) * gap)) + offsets
    return placed.tolist()
