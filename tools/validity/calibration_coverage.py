"""Coverage of the intervals of `bon calibrate`: `python -m tools.validity.calibration_coverage`.

Items in clusters of four whose labels and verdicts err together, as answers to one question do; a
score P(yes) that is too sharp, two votes on each item, a second version of the judge, and lengths
that it likes. The truth is that of 200,000 items.
Prints a table for docs/measurements/calibration.md.
"""

import argparse

import numpy as np
import pandas as pd
from scipy import special

from bon.analysis.calibration import probabilities, verdict_accuracy
from bon.analysis.calibration.labelled import COLUMNS, by_rewarder
from bon.analysis.calibration.prevalence import prevalence
from bon.analysis.calibration.versions import version_drift
from bon.analysis.results import Estimate

LEVEL, SIZE, LABELLED = 0.95, 4, 0.5


def drawn(seed: int, clusters: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the votes of a judge and of its next version."""
    rng = np.random.default_rng(seed)
    items = SIZE * clusters
    ability = np.repeat(rng.normal(size=clusters), SIZE)
    label = (rng.random(items) < special.expit(ability)).astype(float)
    length = rng.uniform(1, 100, items)
    lean = 0.8 * ability + np.where(label == 1, 1.0, -1.0) + (length - 50) / 80
    votes = []
    for version in (0.0, 0.4):
        score = special.expit(lean + version + rng.normal(size=(2, items)))
        frame = pd.DataFrame(
            {
                "rewarder": "judge",
                "kind": "answers",
                "item": np.tile(np.arange(items).astype(str), 2),
                "cluster": np.tile(np.repeat(np.arange(clusters), SIZE).astype(str), 2),
                "category": "",
                "label": np.tile(label, 2),
                "score": score.ravel(),
                "vote": np.repeat([0, 1], items),
                "length": np.tile(length, 2),
            }
        )
        votes.append(frame.reindex(columns=list(COLUMNS)).assign(verdict=np.nan))
    return votes[0], votes[1]


def intervals(seed: int, clusters: int, draws: int) -> dict[str, Estimate]:
    """Return every interval that `bon calibrate` prints."""
    before, after = drawn(seed, clusters)
    votes, later = (next(by_rewarder(frame)) for frame in (before, after))
    resampled = votes.draws(0, draws)
    overall = verdict_accuracy.verdict_accuracy(votes, votes.known, resampled, LEVEL)
    names = ("base_rate", "accuracy", "tpr", "tnr", "precision", "npv", "kappa")
    found = {name: getattr(overall, name) for name in names}
    found["auc"] = probabilities.auc(votes, LEVEL)
    raw = probabilities.reliability_of(votes, votes.score, "raw", resampled, LEVEL)
    found["calibration error"] = raw.rmsce
    found["lean"] = verdict_accuracy.lean(votes, resampled, LEVEL)
    found["length bias"] = verdict_accuracy.length_bias(votes, resampled, LEVEL)
    found["self-consistency"] = verdict_accuracy.self_consistency(votes, resampled, LEVEL)
    drift = version_drift(votes, later, LEVEL, 0, draws)
    assert drift is not None
    found |= {"changed verdicts": drift.changed, "change of accuracy": drift.accuracy}
    found |= {"kappa of versions": drift.kappa, "shift of scores": drift.score_shift}
    rng = np.random.default_rng([seed, 1])
    known = rng.random(clusters)[before["cluster"].astype(int)] < LABELLED
    some = next(by_rewarder(before.assign(label=before["label"].where(known))))
    if (share := prevalence(some, LEVEL)) is not None:
        found["share of right items"] = share.estimate
    return found


def main() -> None:
    """Print the coverage of each interval."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--clusters", type=int, default=60)
    arguments = parser.parse_args()
    truth = {name: e.value for name, e in intervals(10**6, 50_000, 2).items()}
    truth["share of right items"] = truth["base_rate"]
    hits = {name: [] for name in truth}  # type: dict[str, list[bool]]
    for seed in range(arguments.draws):
        for name, e in intervals(seed, arguments.clusters, 200).items():
            low, value, high = e.low, truth[name], e.high
            if low is not None and value is not None and high is not None:
                hits[name].append(low <= value <= high)
    print("| interval | truth | coverage |", "|---|---|---|", sep="\n")
    for name, covered in hits.items():
        print(f"| {name} | {truth[name]:.3f} | {np.mean(covered):.3f} |")


if __name__ == "__main__":
    main()
