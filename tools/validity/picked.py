"""Coverage of what `bon recommend` says of its pick: `python -m tools.validity.picked`.

Rewarders choose on the same questions, correlated by their difficulty. Prints how often one is
taken as measured, by its own interval and by the corrected one; how often one that is no better
than majority vote is; and how often the corrected interval of the pick's gain over it, and one of
the same width around the cross-fitted value, covers the gain.
"""

import argparse

import numpy as np
from scipy import special

from bon.analysis.decision.recommend import corrected, cross_fitted, lower
from bon.analysis.estimators.choices import FOLDS
from bon.analysis.estimators.resampling import around
from bon.choosing.opinion import Floats

LEVEL, SHARED = 0.95, 0.4
STUDIES = {
    "14, all as good as the vote": np.full(14, 0.6),
    "14, from .45 to .70": np.linspace(0.45, 0.7, 14),
    "14, one at .70": np.r_[np.full(13, 0.6), 0.7],
    "1, as good as the vote": np.full(1, 0.6),
}
VOTE = 0.6


def study(rng: np.random.Generator, questions: int, accuracy: Floats) -> list[bool]:
    """Return: taken by value, by own intervals, by corrected ones, wrongly; both coverages."""
    shared = np.sqrt(SHARED) * rng.normal(size=questions)
    own = np.sqrt(1 - SHARED) * rng.normal(size=(len(accuracy) + 1, questions))
    right = (shared + own < special.ndtri(np.r_[accuracy, VOTE])[:, None]).astype(float)
    fold = np.eye(FOLDS)[rng.integers(0, FOLDS, questions)]
    right, vote = right[:-1], right[-1]
    z = special.ndtri((1 + LEVEL) / 2)
    gaps = right - vote
    halves = z * gaps.std(axis=1, ddof=1) / np.sqrt(questions)
    plain = [
        around(gap.mean(), half, questions, "normal")
        for gap, half in zip(gaps, halves, strict=True)
    ]
    count = len(accuracy)
    shown = [i for i, e in enumerate(plain) if (lower(e, count, LEVEL, None) or 0.0) > 0]
    among = shown or list(range(count))
    best = max(among, key=lambda i: right[i].mean())
    sums = (right[among] @ fold)[None]
    value = cross_fitted(sums, fold.sum(axis=0)[None]) - vote.mean()
    found, truth = corrected(plain[best], value, count, LEVEL), accuracy[best] - VOTE
    alone = around(value, halves[best], questions, "normal")
    low, high = found.low or 0.0, found.high or 0.0
    return [
        max(gap.mean() for gap in gaps) > 0,
        any((e.low or 0.0) > 0 for e in plain),
        low > 0,
        low > 0 and truth <= 1e-9,
        low <= truth <= high,
        (alone.low or 0.0) <= truth <= (alone.high or 0.0),
    ]


def main() -> None:
    """Print the table for docs/statistics.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    columns = ("rewarders", "questions", "higher", "own > 0", "taken", "wrongly", "covers", "alone")
    print(f"| {' | '.join(columns)} |")
    print("|---" * len(columns) + "|")
    for name, accuracy in STUDIES.items():
        for questions in (20, 60, 140, 500):
            rows = [study(rng, questions, accuracy) for _ in range(arguments.studies)]
            shares = " | ".join(f"{share:.3f}" for share in np.mean(rows, axis=0))
            print(f"| {name} | {questions} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
