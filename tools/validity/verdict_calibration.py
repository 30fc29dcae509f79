"""Calibration of the verdict's numbers: `python -m tools.validity.verdict_calibration [RUN]`.

Studies whose true r is drawn from its prior, uniform on (−1, 1). Errors of measurement are the
bootstrap draws of a run (`bon demo --out RUN`), or without one those of simulated answers.
"""

import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from bon.analysis.correlation.paired_accuracies import mean_of
from bon.analysis.decision import meta_analysis
from bon.analysis.decision.pooled_studies import Study
from bon.analysis.estimators.resampling import draw
from bon.analysis.results import Options
from bon.analysis.run import measured
from bon.analysis.verdict.posterior import error_variance, posterior
from bon.api import Run
from bon.choosing.opinion import Floats
from tools.validity.populations import SPREAD_X, answers

STUDIES, SIZES, BINS = 400, (8, 14), 10
PARTS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.001)


class Errors(NamedTuple):
    """Accuracies (R) of real rewarders on both axes, and bootstrap draws (R, B) of them."""

    x: Floats
    y: Floats
    x_draws: Floats
    y_draws: Floats

    @classmethod
    def of_run(cls, run: Path) -> "Errors":
        """Read the primary axis of a run, over the mean of its policies."""
        rows = [m for label, m in measured(Run(run).tables, Options(draws=2000)) if label.primary]
        m = mean_of([part.complete() for part in rows], [1 / len(rows)] * len(rows), 0.95)
        assert m is not None
        assert m.x_draws is not None
        assert m.y_draws is not None
        return cls(m.x, m.y, m.x_draws.astype(float), m.y_draws.astype(float))

    @classmethod
    def simulated(cls) -> "Errors":
        """Simulate 14 rewarders on 250 pairs and 200 questions."""
        rng, found = np.random.default_rng(0), []
        for size in (250, 200):
            right = answers(rng, rng.normal(size=14) * SPREAD_X, size)
            found.append(
                (right.mean(axis=0, dtype=float), draw(size, 2000, 0, "items").means(right))
            )
        (x, on_x), (y, on_y) = found
        return cls(x, y, on_x.astype(float), on_y.astype(float))


def study(rng: np.random.Generator, e: Errors, n: int, r: float) -> tuple[Floats, ...]:
    """Return measured x and y (R), variances of the errors of the first n, and true y (R)."""
    rows = rng.permutation(len(e.x))
    a, b = rng.normal(size=(2, len(rows)))
    quality = a, r * a + np.sqrt(1 - r * r) * b
    found, variances, truths = [], [], []
    for q, values, draws in zip(quality, (e.x, e.y), (e.x_draws, e.y_draws), strict=True):
        errors = draws[rows] - draws[rows].mean(axis=1, keepdims=True)
        variances.append(error_variance(np.cov(errors[:n])))
        spread = np.sqrt(max(values.var(ddof=1) - variances[-1], 1e-6))
        truths.append(spread * q)
        found.append(truths[-1] + errors[:, rng.integers(errors.shape[1])])
    return found[0], found[1], np.array(variances), truths[1]


def calibration(e: Errors, n: int, studies: int) -> tuple[Floats, Floats, dict[float, float]]:
    """Return ranks (S) of true r, rows (k, 2) of P(beats) and what happened, and coverages."""
    rng = np.random.default_rng([n, 5])
    ranks, pairs = [], []
    for _ in range(studies):
        r = rng.uniform(-0.99, 0.99)
        x, y, variances, truth = study(rng, e, n, r)
        post = posterior(x[:n], y[:n], (variances[0], variances[1]), range(n))
        ranks.append(1 - post.above(r))
        high, low = n + np.array(np.triu_indices(len(x) - n, 1))
        swap = x[high] < x[low]
        high, low = np.where(swap, low, high), np.where(swap, high, low)
        for i, j in zip(high, low, strict=True):
            p, won = post.beats((x[i] - x[j]) / x[:n].std(ddof=1)), truth[i] > truth[j]
            pairs.append((p, won) if p >= 0.5 else (1 - p, not won))
    at = np.array(ranks)
    covers = {c: float((abs(at - 0.5) < c / 2).mean()) for c in (0.5, 0.8, 0.95)}
    return at, np.array(pairs, float).reshape(-1, 2), covers


def pooled_coverage(n: int, r: float, shared: float, studies: int) -> float:
    """Return how often the 95% interval of two policies' mean r covers their common value.

    They share the rewarders; residuals around both lines have the correlation `shared`.
    """
    rng, held = np.random.default_rng([n, 11]), []
    names = tuple(map(str, range(n)))
    for _ in range(studies):
        x, common = rng.normal(size=(2, n))
        parts = []
        for policy in "ab":
            rest = np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.normal(size=n)
            y = r * x + np.sqrt(1 - r * r) * rest
            parts.append(Study(policy, names, names, x, y))
        found = meta_analysis.mean_of(parts, 0.95).mean
        held.append(cast(float, found.low) <= r <= cast(float, found.high))
    return float(np.mean(held))


def page(errors: Errors, studies: int = STUDIES, source: str = "simulated answers") -> list[str]:
    """Return lines for docs/measurements/validity.md."""
    lines = [
        "## Calibration of the verdict",
        "",
        f"{studies} studies per row; true r is drawn from its prior, and errors of measurement are "
        f"bootstrap draws of {source}.",
        "Simulation-based calibration (Talts et al. 2018): studies by the tenth of the "
        "posterior in which true r lies.",
        "",
        "| rewarders | "
        + " | ".join(f"{k + 1}" for k in range(BINS))
        + " | 50% covers | 80% | 95% |",
        "|" + " --- |" * (BINS + 4),
    ]
    pairs = []
    for n in SIZES:
        ranks, found, covers = calibration(errors, n, studies)
        counts = np.histogram(ranks, BINS, (0, 1))[0]
        cells = [str(n), *map(str, counts), *(f"{c:.3f}" for c in covers.values())]
        lines.append(f"| {' | '.join(cells)} |")
        pairs.append(found)
    every = np.concatenate(pairs)
    lines += [
        "",
        "Of two further rewarders, the likelier one picks better:",
        "",
        "| predicted | pairs | mean | observed |",
        "|" + " --- |" * 4,
    ]
    for low, high in pairwise(PARTS):
        part = every[(every[:, 0] >= low) & (every[:, 0] < high)]
        mean, seen = part.mean(axis=0)
        lines.append(f"| {low:g} to {min(high, 1):g} | {len(part)} | {mean:.3f} | {seen:.3f} |")
    lines += [
        "",
        "Two policies that share rewarders: 95% intervals of the common r.",
        "",
        "| rewarders | r | residuals' correlation | covers |",
        "|" + " --- |" * 4,
    ]
    for n in SIZES:
        for r, shared in ((0.9, 0.0), (0.9, 0.8), (0.5, 0.8), (0.0, 0.8)):
            held = pooled_coverage(n, r, shared, studies // 2)
            lines.append(f"| {n} | {r:g} | {shared:g} | {held:.3f} |")
    return [*lines, ""]


if __name__ == "__main__":
    run = Path(sys.argv[1]) if sys.argv[1:] else None
    found = Errors.simulated() if run is None else Errors.of_run(run)
    print("\n".join(page(found, source="simulated answers" if run is None else "the demo")))
