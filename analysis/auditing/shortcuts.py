"""Whether the right response can be told by its form, without reading it or seeing the image.

Everything is asked of pairs of a right and a wrong response to one question; an item of more
responses is as many pairs as it has wrong ones. A pair counts in both orders, so nothing here
can follow from the place of the right response; that is a rule of its own.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bon.analysis.estimators.resampling import Draws, estimate, nothing
from bon.analysis.results import Estimate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WARN, BLOCK = 0.55, 0.60
"""The AUC from which on form is worth a warning, and from which on it stops a freeze."""

FOLDS = 10
MIN_QUESTIONS = 20
SPLITS = 5
DRAWS = 200
PENALTY = 1.0
STEPS = 50
FLAT = 1e-12

_MARKDOWN = re.compile(
    r"^\s{0,3}#{1,6}\s|^\s*[-*+]\s|^\s*\d+[.)]\s|\*\*|__|`|^\s*\||\\\(|\\\[|\$", re.MULTILINE
)
_ANSWER = re.compile(r"answer\s*(?:is\b|:)", re.IGNORECASE)
_BOXED = re.compile(r"\\boxed")

FEATURES = ("log length", "markdown", "answer line", "boxed", "lines", "digits")


def form_of(text: str) -> list[float]:
    """The form of a response: `FEATURES`, counts on a logarithmic scale, flags as 0 or 1."""
    return [
        float(np.log1p(len(text))),
        float(np.log1p(len(_MARKDOWN.findall(text)))),
        float(bool(_ANSWER.search(text))),
        float(bool(_BOXED.search(text))),
        float(np.log1p(text.count("\n"))),
        float(np.log1p(sum(character.isdigit() for character in text))),
    ]


RULES: Mapping[str, tuple[str, float]] = {
    "longer": ("log length", 1.0),
    "shorter": ("log length", -1.0),
    "more markdown": ("markdown", 1.0),
    "has an answer line": ("answer line", 1.0),
    "has a box": ("boxed", 1.0),
}
"""Rule -> the feature it goes by, and whether more or less of it wins."""


def rule_credit(score: Sequence[float], better: int) -> tuple[float, bool]:
    """What the highest score earns on an item: 1 / k where k tie for it; whether it decides."""
    best = max(score)
    first = [place for place, value in enumerate(score) if value == best]
    return float(better in first) / len(first), len(first) < len(score)


@dataclass(frozen=True)
class Formed:
    """Pairs by form: (P, F) right minus wrong, and the question (P) of each."""

    difference: Floats
    question: Ints


def form_auc(pairs: Formed, draws: Draws, seed: int, level: float) -> Estimate:
    """How well form tells right from wrong on questions that the logistic has not seen.

    Questions are cross-validated in `FOLDS` parts, the mean over `SPLITS` ways to part them. The
    interval is normal on the logit scale, with the spread over draws of questions, each fitted
    anew: the scores of one fit would leave out that the fit itself could have come out otherwise.

    Args:
        pairs: by form; fewer than `MIN_QUESTIONS` questions give no number.
        draws: of the pairs, those of one question together.
        seed: of the parts.
        level: of the interval.
    """
    names, question = np.unique(pairs.question, return_inverse=True)
    if len(names) < MIN_QUESTIONS:
        return nothing(len(pairs.question))
    rng = np.random.default_rng([seed, 47])
    folds = [(rng.permutation(len(names)) % FOLDS)[question] for _ in range(SPLITS)]
    every = np.ones((1, len(question)))
    value = float(np.mean([_areas(pairs.difference, every, fold)[0] for fold in folds]))
    spread = _areas(pairs.difference, draws.counts[:DRAWS].astype(float), folds[0])
    inside = min(max(value, 1e-6), 1 - 1e-6)
    half = float(special.ndtri((1 + level) / 2)) * spread.std(ddof=1) / (inside * (1 - inside))
    low, high = special.expit(special.logit(inside) + np.array([-half, half]))
    return estimate(value, low, high, len(names), "questions")


def _areas(difference: Floats, counts: Floats, fold: Ints) -> Floats:
    """(B): the AUC of scores from the other folds, in each draw (B, P) of the pairs."""
    scores = np.empty(counts.shape)
    for at in range(FOLDS):
        held = fold == at
        scores[:, held] = weights(difference[~held], counts[:, ~held]) @ difference[held].T
    return np.array([area(one, count) for one, count in zip(scores, counts, strict=True)])


def weights(difference: Floats, counts: Floats) -> Floats:
    """(B, F): of the penalised logistic in which the right response should win, for each draw.

    Minimises Σ count · log(1 + exp(−z·w)) + PENALTY/2 |w|² by Newton's method, z the differences
    in units of their root mean square, without a constant; the weights are per unit of the feature.
    """
    unit = np.sqrt((difference**2).mean(axis=0))
    unit = np.where(unit > FLAT, unit, np.inf)
    z = difference / unit
    features = z.shape[1]
    products = (z[:, :, None] * z[:, None, :]).reshape(len(z), -1)
    w = np.zeros((len(counts), features))
    for _ in range(STEPS):
        miss = special.expit(-(w @ z.T))
        slope = (counts * miss) @ z - PENALTY * w
        bend = ((counts * miss * (1 - miss)) @ products).reshape(-1, features, features)
        step = np.linalg.solve(bend + PENALTY * np.eye(features), slope[..., None])[..., 0]
        w += step * np.minimum(1, 2 / np.maximum(np.abs(step).max(axis=1, keepdims=True), FLAT))
        if np.abs(step).max() < 1e-8:
            break
    return np.asarray(w / unit)


def area(scores: Floats, counts: Floats) -> float:
    """The AUC of telling right from wrong by score (P), every pair in both orders.

    The chance that the score of a pair in the right order is above that of a pair in the wrong one,
    s > −s', half where equal.
    """
    order = np.argsort(-scores)
    turned = -scores[order]  # ascending
    sums = np.concatenate([[0.0], np.cumsum(counts[order])])
    won = (
        sums[np.searchsorted(turned, scores, "left")]
        + sums[np.searchsorted(turned, scores, "right")]
    )
    return float(counts @ won / (2 * sums[-1] ** 2))
