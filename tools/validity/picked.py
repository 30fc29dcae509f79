"""Coverage of what `bon recommend` says of its pick: `python -m tools.validity.picked`.

Rewarders choose on the same questions, correlated by their difficulty. Prints how often the best is
taken as measured, by its own interval and by the corrected one, and how often the corrected
interval of its gain over majority vote, and a cross-fitted one alone, covers the gain.
"""

import argparse

import numpy as np
from scipy import special

from bon.analysis.decision.recommend import corrected, cross_fitted
from bon.analysis.estimators.resampling import around
from bon.choosing.opinion import Floats

LEVEL, FOLDS, SHARED = 0.95, 20, 0.4
STUDIES = {
    "14, all as good as the vote": np.full(14, 0.6),
    "14, from .45 to .70": np.linspace(0.45, 0.7, 14),
    "14, one at .70": np.r_[np.full(13, 0.6), 0.7],
    "1, as good as the vote": np.full(1, 0.6),
}
VOTE = 0.6


def study(rng: np.random.Generator, questions: int, accuracy: Floats) -> list[bool]:
    """Return: taken by value, by its own interval, by the corrected one; both coverages."""
    shared = np.sqrt(SHARED) * rng.normal(size=questions)
    own = np.sqrt(1 - SHARED) * rng.normal(size=(len(accuracy) + 1, questions))
    right = (shared + own < special.ndtri(np.r_[accuracy, VOTE])[:, None]).astype(float)
    fold = np.eye(FOLDS)[rng.integers(0, FOLDS, questions)]
    right, vote = right[:-1], right[-1]
    best = int(right.mean(axis=1).argmax())
    z = special.ndtri((1 + LEVEL) / 2)
    difference, truth = right[best] - vote, accuracy[best] - VOTE
    half = z * difference.std(ddof=1) / np.sqrt(questions)
    plain = around(difference.mean(), half, questions, "normal")
    value = cross_fitted((right @ fold)[None], fold.sum(axis=0)[None]) - vote.mean()
    found = corrected(plain, value, len(accuracy), LEVEL)
    alone = around(value, half, questions, "normal")
    low, high = found.low or 0.0, found.high or 0.0
    return [
        difference.mean() > 0,
        (plain.low or 0.0) > 0,
        low > 0,
        low <= truth <= high,
        (alone.low or 0.0) <= truth <= (alone.high or 0.0),
    ]


def main() -> None:
    """Print the table for docs/statistics.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    print(
        "| rewarders | questions | best is higher | own > 0 | taken | covers | cross-fitted alone |"
    )
    print("|---" * 7 + "|")
    for name, accuracy in STUDIES.items():
        for questions in (20, 60, 140, 500):
            rows = [study(rng, questions, accuracy) for _ in range(arguments.studies)]
            shares = " | ".join(f"{share:.3f}" for share in np.mean(rows, axis=0))
            print(f"| {name} | {questions} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
