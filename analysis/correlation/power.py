"""What a study of some size would say.

Studies are simulated and read by the verdict's own model, with true r drawn from what is known of
it: the posterior of a run, or a stated r before one.
"""

from dataclasses import dataclass

import numpy as np

from bon.analysis.results import Needed, NeededRow, Verdict
from bon.analysis.results.phrasing import percent, plural
from bon.analysis.verdict.posterior import CORRELATIONS
from bon.analysis.verdict.verdict import FEWEST, Axes, word_of
from bon.choosing.opinion import Floats

STUDIES = 40
SHARED = 0.4
"""Share of both variances that lies between base models, in simulated studies."""

PLANNED_R = 0.9
PLANNED_SPREAD = 0.08, 0.05
"""Standard deviations of true accuracies on either axis that a plan assumes."""


@dataclass(frozen=True)
class Design:
    """The size of a study; `noise`: variances of both axes' errors, of true variance 1."""

    rewarders: int
    bases: int
    questions: int
    pairs: int
    noise: tuple[float, float]


def outlook(design: Design, true_r: Floats, counted: bool = True) -> NeededRow:
    """Simulate one study for each true r (S) and return how often it says yes, probably or no."""
    n, bases = design.rewarders, min(design.bases, design.rewarders)
    share = SHARED if bases < n else 0.0
    of = np.arange(n) % bases
    labels = tuple(map(str, of.tolist()))
    rng = np.random.default_rng([n, bases])
    error_x, error_y = (np.eye(n) * v if counted else None for v in design.noise)
    words = []
    for r in true_r.tolist():
        axes = np.zeros((2, n))
        for part, count, place in ((share, bases, of), (1 - share, n, np.arange(n))):
            a, b = rng.normal(size=(2, count))
            axes += np.sqrt(part) * np.stack([a, r * a + np.sqrt(1 - r * r) * b])[:, place]
        axes += np.sqrt(np.array(design.noise))[:, None] * rng.normal(size=(2, n))
        words.append(word_of(Axes(labels, axes[0], axes[1], error_x, error_y, labels)))

    def rate(*of: str) -> float:
        return float(np.mean([word in of for word in words]))

    return NeededRow(
        num_rewarders=n,
        num_bases=bases,
        num_questions=design.questions,
        num_pairs=design.pairs,
        yes=rate("yes"),
        probably=rate("yes", "probably"),
        no=rate("no", "weak", "reverse"),
    )


def needed(v: Verdict, num_questions: int, num_pairs: int, factor: float = 1.0) -> Needed | None:
    """Say what a study like this one would say, and what would most often decide it.

    True r is drawn from the posterior, so what is unknown of it stays unknown. factor: of the
    questions of the study that is planned to those of this one.
    """
    if v.num_rewarders < FEWEST:
        return None
    x, y = ((1 / max(rel or 1.0, 0.05)) - 1 for rel in (v.reliability_x, v.reliability_y))
    cumulative = np.cumsum(v.density)
    at = np.searchsorted(cumulative, (np.arange(STUDIES) + 0.5) / STUDIES * cumulative[-1])
    true_r = CORRELATIONS[at]
    n, bases, counted = v.num_rewarders, v.num_bases, v.p_low is not None
    questions = round(num_questions * factor)
    own = Design(n, bases, questions, num_pairs, (x, y / factor))
    others = {
        f"{2 * n} rewarders from {plural(2 * bases, 'base model')}": Design(
            2 * n, 2 * bases, questions, num_pairs, own.noise
        )
    }
    if bases < n:
        others[f"{n} rewarders, each from another base model"] = Design(
            n, n, questions, num_pairs, own.noise
        )
    if counted and num_questions:
        others[f"{4 * questions:,} questions and {4 * num_pairs:,} pairs"] = Design(
            n, bases, 4 * questions, 4 * num_pairs, (x / 4, y / factor / 4)
        )
    row = outlook(own, true_r, counted)
    rows = {name: outlook(design, true_r, counted) for name, design in others.items()}
    found = sorted(rows, key=lambda name: decided(rows[name]), reverse=True)
    best = found[0]
    size = f"{n} rewarders from {plural(bases, 'base model')}"
    if counted and num_questions:
        size += f", {questions:,} questions and {num_pairs:,} pairs"
    gains = decided(rows[best]) > decided(row)
    helps = f"; {best} would say {_rates(rows[best])}"
    return Needed(
        benchmark=v.benchmark,
        rows=(row, *(rows[name] for name in found)),
        best=best if gains else "",
        sentence=f"A new study of {size} would say {_rates(row)}, averaged over what is not known "
        f"of r{helps if gains else ''}.",
    )


def planned(rewarders: int, bases: int, questions: int, pairs: int) -> tuple[str, ...]:
    """Say before a run how likely each answer is, for a benchmark that predicts and one that not.

    Noise is that of independent answers that are right half of the time.
    """
    if rewarders < FEWEST or not questions or not pairs:
        return ()
    noise = tuple(
        0.25 / count / spread**2
        for count, spread in zip((pairs, questions), PLANNED_SPREAD, strict=True)
    )
    design = Design(rewarders, bases, questions, pairs, (noise[0], noise[1]))
    found = [outlook(design, np.full(STUDIES, r)) for r in (PLANNED_R, 0.0)]
    return (
        f"If the benchmark predicts well (true r = .9), this study says {_rates(found[0])}.",
        f"If it does not predict at all (true r = 0), it says {_rates(found[1])}.",
    )


def decided(row: NeededRow) -> float:
    """Return how often a study says at least Probably, or No."""
    return row.probably + row.no


def _rates(row: NeededRow) -> str:
    return (
        f"Yes in {percent(row.yes, 0)}, at least Probably in {percent(row.probably, 0)} and No in "
        f"{percent(row.no, 0)}"
    )
