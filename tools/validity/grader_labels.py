"""Coverage of accuracies that labels correct: `python -m tools.validity.grader_labels`.

A grader errs on 10% of the right and 5% of the wrong answers, or on half of the wrong ones that a
rewarder chooses; a share of the answers has a true label. Printed is how often the 95% interval of
the grader's accuracy, and of the corrected one, covers the true accuracy of an endless study.
"""

import argparse
from types import SimpleNamespace
from typing import Any

import numpy as np

from bon.analysis.calibration.grader_labels import check_grader
from bon.analysis.estimators.picks import Picks
from bon.analysis.results import Options
from bon.choosing.opinion import Bools, Floats, Ints

QUESTIONS, CANDIDATES = 200, 4
SHARES = (0.05, 0.15, 0.5)
MISSED, WAVED, BIASED = 0.1, 0.05, 0.5
"""Right answers graded wrong, wrong ones graded right, the latter if the rewarder chose it."""


def draw_study(
    rng: np.random.Generator, questions: int, biased: bool
) -> tuple[Bools, Floats, Ints]:
    """Return the truth (Q, M), the grader's credit (Q, M) and the rewarder's choices (Q)."""
    skill = rng.normal(0, 1.2, (questions, 1))
    truth = rng.random((questions, CANDIDATES)) < 1 / (1 + np.exp(-skill))
    score = truth + rng.normal(0, 1, truth.shape)
    chosen = score.argmax(axis=1)
    waved = np.full(truth.shape, WAVED)
    if biased:  # as where grader and rewarder share a base model
        waved[np.arange(questions), chosen] = BIASED
    errs = rng.random(truth.shape)
    graded = np.where(truth, errs >= MISSED, errs < waved).astype(float)
    return truth, graded, chosen


def covered(share: float, biased: bool, studies: int, seed: int = 0) -> dict[str, float]:
    """Return the share of studies whose intervals cover the true accuracy of the choices."""
    rng = np.random.default_rng([seed, int(1000 * share), biased])
    truth, _, chosen = draw_study(rng, 200_000, biased)
    true = float(truth[np.arange(len(truth)), chosen].mean())
    hits = {"graded": 0, "corrected": 0}
    for study in range(studies):
        truth, graded, chosen = draw_study(rng, QUESTIONS, biased)
        questions = tuple(f"q{i}" for i in range(QUESTIONS))
        keys = np.array([[f"t{j}" for j in range(CANDIDATES)]] * QUESTIONS, dtype=object)
        pool: Any = SimpleNamespace(
            policy="policy", correct=graded, indexes=np.tile(np.arange(CANDIDATES), (QUESTIONS, 1)),
            candidates=SimpleNamespace(items=questions, keys=keys),
        )  # fmt: skip
        asked = rng.random(truth.shape) < share
        labels = {f"q{i}/t{j}": float(truth[i, j]) for i, j in np.argwhere(asked)}
        picks: Picks = {
            ("policy", q, "rewarder"): (int(c),) for q, c in zip(questions, chosen, strict=True)
        }
        chance = dict.fromkeys((f"{q}/t{j}" for q in questions for j in range(CANDIDATES)), share)
        check = check_grader(
            {"policy": pool}, picks, labels, chance, Options(draws=400, seed=study)
        )
        row = next(row for row in check.accuracies if row.rewarder == "rewarder")
        for name in hits:
            estimate = getattr(row, name)
            hits[name] += estimate.low <= true <= estimate.high
    return {name: count / studies for name, count in hits.items()}


def main() -> None:
    """Print a table of coverage."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--studies", type=int, default=1000)
    studies = parser.parse_args().studies
    print("| labelled | errors follow the choice | grader's interval | corrected |")
    print("|---|---|---|---|")
    for biased in (False, True):
        for share in SHARES:
            row = covered(share, biased, studies)
            which = "yes" if biased else "no"
            print(f"| {share:.0%} | {which} | {row['graded']:.3f} | {row['corrected']:.3f} |")


if __name__ == "__main__":
    main()
