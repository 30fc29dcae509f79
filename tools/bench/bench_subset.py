"""What judging only some of a run's questions costs in precision, and what covariates give back.

`python tools/bench/bench_subset.py RUN [--subset 0.335 --draws 400]`: of every rewarder's headline
accuracy, the mean squared error over random subsets: the plain mean, with questions that are all
right or all wrong taken as they are, and with covariates; as how many times as many questions.
"""

import argparse
from pathlib import Path

import numpy as np
from measured import Side, note

import bon.api
from bon.analysis.data.arrays import opinion, read
from bon.analysis.estimators.replay import Setting, replay_opinion
from bon.analysis.results import Options


def main() -> None:
    """Print one row per policy and rewarder, and the medians."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--subset", type=float, default=0.335)
    parser.add_argument("--draws", type=int, default=400)
    a = parser.parse_args()
    run = read(bon.api.load(a.run).tables)
    rng = np.random.default_rng(0)
    gains = []
    for pool in run.pools.values():
        setting = Setting.of(pool, pool.size, Options())
        total = len(pool.correct)
        drawn = [rng.random(total).argsort() < a.subset * total for _ in range(a.draws)]
        for name in run.rewarders:
            said = opinion(run, pool.located, name)
            made = replay_opinion(said, setting, name)[0] if said is not None else []
            if not made:
                continue
            y = made[0].at(pool.size)
            errors = np.array([_errors(y, setting, mask) for mask in drawn]) - y.mean()
            square = (errors**2).mean(axis=0)
            gains.append(square[0] / square[1:])
            bias = 100 * np.abs(errors[:, 2].mean())
            print(f"{name:32s} constants {gains[-1][0]:.2f}  covariates {gains[-1][1]:.2f}  "
                  f"bias {bias:.2f} points")  # fmt: skip
    middle = np.median(gains, axis=0)
    note("subset, covariates", "times the questions", Side("bon", middle[1]), Side("mean", 1.0))
    print(f"{'median':32s} constants {middle[0]:.2f}  covariates {middle[1]:.2f}")


def _errors(y: np.ndarray, setting: Setting, mask: np.ndarray) -> tuple[float, float, float]:
    sample = setting.sample(mask)
    plain = type(sample)(sample.asked, sample.sure, sample.covariates[:, :0])
    return (
        float(y[mask].mean()),
        float(plain.spread(y[:, None]).mean()),
        float(sample.spread(y[:, None]).mean()),
    )


if __name__ == "__main__":
    main()
