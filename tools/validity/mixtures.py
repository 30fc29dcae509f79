"""Verdicts on collections that are groups of unrelated rewarders, and what caution costs.

Within a group r ≤ 0, as among healthy, random and reversed rewarders; the groups lie along a rising
line, so r over all is high, and a yes is an error. Random collections have 2 to 4 groups, 8 to 30
rewarders, positions, sizes, spreads and noise of both axes at random.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bon.analysis.correlation.coefficients import correlate
from bon.analysis.correlation.paired_accuracies import Label, Measured
from bon.analysis.finding.verdict import verdict
from bon.analysis.results import Estimate, Options

Floats = NDArray[np.float64]

OPTIONS = Options(draws=100, permutations=1000)
LABEL = Label("policy", "benchmark", "macro", primary=True)
SPREAD = 0.3  # of one group on the probit scale
RANGE = 2.0  # of all positions on the probit scale, at most
DISTINCT, OVERLAPPING = (3.0, 8.0), (1.5, 3.0)
"""Gaps between neighbouring groups, in standard deviations within a group."""
REPORTED_SEED, COUNT, STUDIES = 71, 20, 200


@dataclass(frozen=True)
class Mixture:
    """Groups of rewarders: `sizes`, positions `x` and `y` and `spreads` in standard deviations.

    `r` within each group; `questions` and `pairs` give the noise of both axes, 0 for none.
    """

    name: str
    sizes: tuple[int, ...]
    x: tuple[float, ...] = (0.0,)
    y: tuple[float, ...] = (0.0,)
    r: float = 0.0
    spreads: tuple[float, ...] = ()
    questions: int = 500
    pairs: int = 600

    def study(self, rng: np.random.Generator) -> Measured:
        """Simulate one study; every rewarder has a base model of its own."""
        group = np.repeat(np.arange(len(self.sizes)), self.sizes)
        size = len(group)
        spread = np.array(self.spreads or (1.0,) * len(self.sizes))[group]
        a = rng.normal(size=size)
        b = self.r * a + np.sqrt(1 - self.r**2) * rng.normal(size=size)
        x = _measured(rng, np.array(self.x)[group] + spread * a, self.x, self.pairs)
        y = _measured(rng, np.array(self.y)[group] + spread * b, self.y, self.questions)
        none = (Estimate(value=0.0),) * size
        names = tuple(map(str, range(size)))
        return Measured(names, x, y, none, none, families=names)


def _measured(
    rng: np.random.Generator, quality: Floats, positions: tuple[float, ...], items: int
) -> Floats:
    """Accuracies on this many items."""
    width = max(positions) - min(positions)
    unit = min(SPREAD, RANGE / width) if width else SPREAD
    accuracy = special.ndtr(0.5 + unit * (quality - (max(positions) + min(positions)) / 2))
    return np.asarray(rng.binomial(items, accuracy) / items if items else accuracy)


MIXED = (-8.0, -4.0, 0.0)
NAMED = (
    Mixture("2 of 5 random or reversed", (1, 1, 3), MIXED, MIXED),
    Mixture(
        "published table of 5, 2 of them far below",
        (1, 1, 3),
        (-9.0, -5.0, 0.0),
        (-6.0, -3.0, 0.0),
        questions=0,
        pairs=0,
    ),
    Mixture("3 of 7 random or reversed", (1, 2, 4), MIXED, MIXED),
    Mixture("4 of 10 random or reversed", (2, 2, 6), MIXED, MIXED),
    Mixture("5 of 14 random or reversed", (2, 3, 9), MIXED, MIXED),
    Mixture("5 of 14 far above", (9, 5), (0.0, 4.0), (0.0, 4.0)),
    Mixture("6 of 24 random or reversed", (3, 3, 18), MIXED, MIXED),
    Mixture("three tiers of 5, r = −.8 within", (5,) * 3, (0.0, 3.0, 6.0), (0.0, 3.0, 6.0), -0.8),
)
POWER = tuple(
    Mixture(f"independent, r = {r}".replace("0.", "."), (n,), r=r)
    for n in (8, 10, 14, 24)
    for r in (0.5, 0.85, 0.9, 0.95)
)


def random_mixture(rng: np.random.Generator, gaps: tuple[float, float]) -> Mixture:
    """Draw a collection whose groups are this far apart."""
    size, groups = int(rng.integers(8, 31)), int(rng.integers(2, 5))
    shares = rng.dirichlet(np.full(groups, rng.choice([0.5, 1.0, 5.0])))
    steps = rng.uniform(*gaps, (2, groups - 1))
    x, y = (tuple(np.concatenate([[0.0], np.cumsum(axis)]).tolist()) for axis in steps)
    noise = rng.choice([300, 1000, 3000], 2)
    return Mixture(
        "random",
        tuple((1 + rng.multinomial(size - groups, shares)).tolist()),
        x,
        y,
        float(rng.choice([0.0, 0.0, -0.4, -0.8])),
        tuple(rng.uniform(0.3, 1.0, groups).tolist()),
        int(noise[0]),
        int(noise[1]),
    )


def verdicts(mixture: Mixture, studies: int, seed: int) -> tuple[Counter[str], float]:
    """Count the verdicts on simulated studies; also the median r."""
    rng = np.random.default_rng([seed, sum(mixture.sizes), 37])
    counts, values = Counter[str](), []
    for _ in range(studies):
        c = correlate(mixture.study(rng), LABEL, OPTIONS)
        counts[verdict(c)] += 1
        values.append(c.pearson.estimate.value or 0.0)
    return counts, float(np.median(values))


def row(mixture: Mixture, studies: int, seed: int = REPORTED_SEED) -> dict[str, str]:
    """Return one row of the table."""
    counts, r = verdicts(mixture, studies, seed)
    return {
        "collection": mixture.name,
        "rewarders": str(sum(mixture.sizes)),
        "median r": f"{r:.2f}",
        "Yes": f"{counts['predicts'] / studies:.3f}",
        "Perhaps": f"{counts['weak'] / studies:.3f}",
        "No": f"{counts['does not predict'] / studies:.3f}",
    }


def random_row(
    name: str, gaps: tuple[float, float], count: int, studies: int, seed: int = REPORTED_SEED
) -> dict[str, str]:
    """Return the verdicts over random collections, and how many of these exceed .02."""
    rng = np.random.default_rng([seed, 41])
    mixtures = [random_mixture(rng, gaps) for _ in range(count)]
    results = [verdicts(m, studies, seed + k) for k, m in enumerate(mixtures)]
    shares = np.array([counts["predicts"] / studies for counts, _ in results])
    total = sum((counts for counts, _ in results), Counter[str]())
    every = count * studies
    return {
        "collection": f"{count} random ones, {name} (Yes above .02 in {(shares > 0.02).sum()}, "
        f"at most {shares.max():.3f})",
        "rewarders": "8–30",
        "median r": f"{np.median([r for _, r in results]):.2f}",
        "Yes": f"{shares.mean():.3f} ± {shares.std() / np.sqrt(count):.3f}",
        "Perhaps": f"{total['weak'] / every:.3f}",
        "No": f"{total['does not predict'] / every:.3f}",
    }


def rows(studies: int, count: int = COUNT) -> Iterator[dict[str, str]]:
    """Simulate the rows of both tables; those of independent rewarders are last."""
    yield from (row(m, studies) for m in NAMED)
    yield random_row("3 to 8 standard deviations apart", DISTINCT, count, studies)
    yield random_row("1.5 to 3 standard deviations apart", OVERLAPPING, count, studies)
    yield from (row(m, studies) for m in POWER)


def page(results: list[dict[str, str]], studies: int) -> list[str]:
    """Return lines for docs/validity.md."""
    lines = []
    for part in (results[: -len(POWER)], results[-len(POWER) :]):
        head = list(part[0])
        lines += ["", "| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
        lines += ["| " + " | ".join(cells.values()) + " |" for cells in part]
    return [
        "## Groups of unrelated rewarders",
        "",
        *(__doc__ or "").strip().split("\n\n", 1)[1].splitlines(),
        "",
        f"{studies} studies per row, and per random collection: one standard error of a share s is "
        f"√(s(1 − s)/{studies}). The other studies cannot tell. The rule was tuned on other random "
        "collections, with other seeds. Groups that overlap in a chain, and five or more that lie "
        "on a line, cannot be told from one line.",
        *lines,
        "",
    ]
