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
    occupied: Sequence[Box] = (),
) -> list[str]:
    """Write each label near its point once the layout is fixed; return labels without room.

    `avoid`: polylines in data coordinates that labels should not cross, and the cost of crossing;
    `occupied`: boxes in pixels that they must not cover.
    """
    if not labels:
        return []
    scale = ax.figure.dpi / 72
    anchors = ax.transData.transform(np.asarray(points, dtype=float))
    frame = ax.get_window_extent()
    labels, sizes = _shorten(ax, labels, _WIDEST * frame.width)
    boxes, distance = _positions(anchors, sizes, scale)
    corners = np.array([frame.x0, frame.y0]) + 2 * scale, np.array([frame.x1, frame.y1]) - 2 * scale
    shift = np.maximum(corners[0] - boxes[..., :2], 0) + np.minimum(corners[1] - boxes[..., 2:], 0)
    boxes += np.concatenate([shift, shift], axis=-1)  # into the frame
    far = distance > _LINE * scale
    leaders = _leaders(boxes, anchors, far)
    cost = distance + _covered(ax, boxes, anchors, 3.6 * scale, avoid)
    for around, dots, row in zip(boxes, leaders, cost, strict=True):
        row += 60 * _conflicts(around, dots, np.reshape(occupied, (-1, 4)), scale)
    cost += 60 * scale * _ambiguous(boxes, anchors, far, 6 * scale)
    cost += 60 * scale * _hidden(leaders, anchors, 5 * scale)
    # the most crowded points choose first
    gaps = np.hypot(*(anchors[:, None] - anchors[None]).transpose(2, 0, 1))
    crowd = (1 / (gaps + 8 * scale)).sum(1)
    order = sorted(range(len(labels)), key=lambda i: (-round(float(crowd[i]), 6), i))
    chosen = np.full(len(labels), -1)
    for _ in range(_PASSES):
        before = chosen.copy()
        for i in order:
            others = np.flatnonzero((chosen >= 0) & (np.arange(len(labels)) != i))
            crossed = _conflicts(boxes[i], leaders[i], boxes[others, chosen[others]], scale)
            crossed += scale * _crossings(leaders[others, chosen[others]], boxes[i]).sum(0)
            chosen[i] = int(np.argmin(cost[i] + 60 * crossed))
        if (chosen == before).all():
            break
    written, dropped = [list(box) for box in occupied], []
    inverse = ax.transData.inverted()
    for text, anchor, box, lined in zip(
        labels, anchors, boxes[np.arange(len(labels)), chosen], far[chosen], strict=True
    ):
        if written and (overlaps(box, np.array(written)) > 0).any():
            dropped.append(text)
            continue
        written.append(box.tolist())
        # anchored at the side of the point: pages set the text in a font of other widths
        side = "left" if box[0] >= anchor[0] else "right" if box[2] <= anchor[0] else "center"
        x = {"left": box[0], "right": box[2], "center": (box[0] + box[2]) / 2}[side]
        tx, ty = inverse.transform((x, (box[1] + box[3]) / 2))
        ax.text(tx, ty, text, ha=side, va="center", fontsize=LABEL_SIZE, zorder=6)
        if lined:  # a thin line to the nearest edge
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


def _ambiguous(boxes: np.ndarray, anchors: np.ndarray, far: np.ndarray, room: float) -> np.ndarray:
    """(points, positions): whether a label could be read as that of another point.

    Without a line (not `far`), it stands nearer to it; with one, within `room` pixels of it.
    """
    nearest = np.clip(anchors, boxes[..., None, :2], boxes[..., None, 2:])
    gaps = np.hypot(*np.moveaxis(nearest - anchors, -1, 0))
    own = np.eye(len(anchors), dtype=bool)[:, None]
    least = np.where(far, room, np.where(own, gaps, np.inf).min(-1))
    ambiguous: np.ndarray = np.where(own, np.inf, gaps).min(-1) < least
    return ambiguous


def _leaders(boxes: np.ndarray, anchors: np.ndarray, far: np.ndarray) -> np.ndarray:
    """(points, positions, steps, 2): dots on the line from a point to its label; NaN if near."""
    start = anchors[:, None]
    way = np.clip(start, boxes[..., :2], boxes[..., 2:]) - start
    dots: np.ndarray = start[..., None, :] + way[..., None, :] * np.linspace(0, 1, 16)[:, None]
    dots[:, ~far] = np.nan
    return dots


def _hidden(leaders: np.ndarray, anchors: np.ndarray, radius: float) -> np.ndarray:
    """(points, positions): how many other points a line passes, or whether it lies on a bar."""
    gaps = np.hypot(*np.moveaxis(leaders[..., None, :] - anchors, -1, 0)).min(-2)
    others = ~np.eye(len(anchors), dtype=bool)[:, None]
    on_a_bar = (np.abs(leaders[..., -1, :] - anchors[:, None]) < radius / 3).any(-1)
    passed: np.ndarray = ((gaps < radius) & others).sum(-1) + 0.25 * on_a_bar
    return passed


def _conflicts(
    boxes: np.ndarray, leaders: np.ndarray, others: np.ndarray, scale: float
) -> np.ndarray:
    """(positions): area shared with other boxes, and how many a label or its line touches."""
    shared = overlaps(boxes, others)
    cost: np.ndarray = (shared + scale * ((shared > 0) + _crossings(leaders, others))).sum(-1)
    return cost


def _crossings(lines: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """(L, B): whether lines of dots (L, steps, 2) run through boxes (B, 4)."""
    dots, low, high = lines[:, None], boxes[:, None, :2], boxes[:, None, 2:]
    inside: np.ndarray = (dots > low) & (dots < high)
    return np.asarray(inside.all(-1).any(-1))


def _covered(
    ax: Axes,
    boxes: np.ndarray,
    anchors: np.ndarray,
    radius: float,
    avoid: Sequence[tuple[Sequence[tuple[float, float]], float]],
) -> np.ndarray:
    """Cost of the points and lines that each position covers."""
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
        low, high = around[:, None, :2], around[:, None, 2:]
        inside = ((track[:, :2] > low) & (track[:, :2] < high)).all(axis=-1)
        cost[i] = 40 * overlaps(around, dots).sum(-1) + inside @ track[:, 2]
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
