"""Coverage of the intervals of `bon calibrate`: `python -m tools.validity.calibration_coverage`.

Items in clusters of four whose labels and verdicts err together, as answers to one question do; a
score P(yes) that is too sharp, two votes on each item, and lengths that it likes. The truth is that
of 200,000 items. Before them, items of their own with a rare label: coverage by base rate and
number, of a judge with TPR .9 and TNR .8, and how often `--min tnr=.9` says go for it.
Prints the tables for docs/measurements/calibration.md.
"""

import argparse
from collections import defaultdict

import numpy as np
import pandas as pd
from scipy import special

from bon.analysis.calibration import verdict_accuracy
from bon.analysis.calibration.labelled import COLUMNS, by_rewarder
from bon.analysis.calibration.roc import auc
from bon.analysis.results import Estimate

LEVEL, SIZE = 0.95, 4


def drawn(seed: int, clusters: int) -> pd.DataFrame:
    """Return the votes of a judge."""
    rng = np.random.default_rng(seed)
    items = SIZE * clusters
    ability = np.repeat(rng.normal(size=clusters), SIZE)
    label = (rng.random(items) < special.expit(ability)).astype(float)
    length = rng.uniform(1, 100, items)
    lean = 0.8 * ability + np.where(label == 1, 1.0, -1.0) + (length - 50) / 80
    score = special.expit(lean + rng.normal(size=(2, items)))
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
    return frame.reindex(columns=list(COLUMNS)).assign(verdict=np.nan)


def intervals(seed: int, clusters: int, draws: int) -> dict[str, Estimate]:
    """Return every interval that `bon calibrate` prints."""
    votes = next(by_rewarder(drawn(seed, clusters)))
    resampled = votes.draws(0, draws)
    overall = verdict_accuracy.verdict_accuracy(votes, votes.known, resampled, LEVEL)
    names = ("base_rate", "accuracy", "tpr", "tnr", "precision", "npv", "kappa")
    found = {name: getattr(overall, name) for name in names}
    found["auc"] = auc(votes, LEVEL)
    found["lean"] = verdict_accuracy.lean(votes, resampled, LEVEL)
    found["length bias"] = verdict_accuracy.length_bias(votes, resampled, LEVEL)
    found["self-consistency"] = verdict_accuracy.self_consistency(votes, LEVEL)
    return found


TPR, TNR, GO = 0.9, 0.8, 0.9


def single(seed: int, items: int, base: float, levels: int = 0) -> pd.DataFrame:
    """Return votes on items that are independent; scores of so many levels, 0: continuous."""
    rng = np.random.default_rng([seed, items, round(100 * base)])
    label = (rng.random(items) < base).astype(float)
    lean = np.where(label == 1, special.ndtri(TPR), special.ndtri(1 - TNR))
    score = special.ndtr(lean + rng.normal(size=items))
    if levels:
        score = np.floor(score * levels) / (levels - 1)
    names = np.arange(items).astype(str)
    frame = pd.DataFrame({"item": names, "cluster": names, "label": label, "score": score})
    frame = frame.assign(rewarder="judge", kind="answers", category="", vote=0)
    return frame.reindex(columns=list(COLUMNS))


def rare_truth(base: float) -> dict[str, float]:
    """Return what `rare` estimates."""
    tp, fn, fp, tn = base * TPR, base * (1 - TPR), (1 - base) * (1 - TNR), (1 - base) * TNR
    chance = base * (tp + fp) + (1 - base) * (fn + tn)
    area = special.ndtr((special.ndtri(TPR) + special.ndtri(TNR)) / np.sqrt(2))
    truth = {"tpr": TPR, "tnr": TNR, "precision": tp / (tp + fp), "npv": tn / (tn + fn)}
    truth |= {"kappa": (tp + tn - chance) / (1 - chance), "auc": float(area)}
    return truth | {"auc of verdicts": (TPR + TNR) / 2}


def rare(seed: int, items: int, base: float, draws: int) -> dict[str, Estimate]:
    """Return the intervals where one label is rare, by the names of `rare_truth`."""
    frame = single(seed, items, base)
    votes = next(by_rewarder(frame))
    overall = verdict_accuracy.verdict_accuracy(votes, votes.known, votes.draws(0, draws), LEVEL)
    found = {name: getattr(overall, name) for name in ("tpr", "tnr", "precision", "npv", "kappa")}
    found["auc"] = auc(votes, LEVEL)
    verdicts = next(by_rewarder(single(seed, items, base, levels=2)))
    found["auc of verdicts"] = auc(verdicts, LEVEL)
    return found


def print_rare(count: int, draws: int) -> None:
    """Print coverage by base rate and number of items, and the share of false goes."""
    names = list(rare_truth(0.5))
    print(f"| right | items | {' | '.join(names)} | false go |")
    print("|---" * (len(names) + 3) + "|")
    for base in (0.5, 0.9, 0.95):
        for items in (60, 100, 400):
            hits, truth = defaultdict(list), rare_truth(base)
            for seed in range(count):
                found = rare(seed, items, base, draws)
                for name, e in found.items():
                    if e.low is not None and e.high is not None:
                        hits[name].append(e.low <= truth[name] <= e.high)
                hits["go"].append((found["tnr"].low or 0) >= GO)
            row = " | ".join(f"{np.mean(hits[name]):.3f}" for name in (*names, "go"))
            print(f"| {base} | {items} | {row} |", flush=True)
    print()


def main() -> None:
    """Print the coverage of each interval."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--clusters", type=int, default=60)
    arguments = parser.parse_args()
    print_rare(arguments.draws, 200)
    truth = {name: e.value for name, e in intervals(10**6, 50_000, 2).items()}
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
