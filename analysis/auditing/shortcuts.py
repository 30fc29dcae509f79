"""Shortcuts: whether the form of a response reveals the right one.

The unit is a pair of a right and a wrong response to one question. A pair counts in both orders, so
that position has no effect.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import special

from bon.analysis.estimators.resampling import Draws, estimate, nothing
from bon.analysis.results import Estimate
from bon.choosing.opinion import Floats, Ints

WARN, BLOCK = 0.55, 0.60
"""The AUC from which on form is warned of, and from which on it blocks a freeze."""

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
    """Return `FEATURES` of a response: counts on a logarithmic scale, flags as 0 or 1."""
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
"""Rule -> its feature, and whether more or less of it wins."""


@dataclass(frozen=True)
class Formed:
    """Pairs: features (P, F) of the right minus the wrong response, and the question (P)."""

    difference: Floats
    question: Ints


def form_auc(pairs: Formed, draws: Draws, seed: int, level: float) -> Estimate:
    """Cross-validated AUC of a logistic model of form.

    The mean over `SPLITS` splits of the questions into `FOLDS` folds. The interval is normal on the
    logit scale, with the spread over draws of questions, each fitted anew, which includes the
    uncertainty of the fit.

    Args:
        pairs: of at least `MIN_QUESTIONS` questions, else there is no estimate.
        draws: of the pairs, clustered by question.
        seed: of the splits.
        level: of the interval.
    """
    names, question = np.unique(pairs.question, return_inverse=True)
    if len(names) < MIN_QUESTIONS:
        return nothing(len(pairs.question))
    rng = np.random.default_rng([seed, 47])
    folds = [(rng.permutation(len(names)) % FOLDS)[question] for _ in range(SPLITS)]
    every = np.ones((1, len(question)))
    value = float(np.mean([_areas(pairs.difference, every, fold)[0] for fold in folds]))
    spread = _areas(pairs.difference, draws.counts.T[:DRAWS].astype(float), folds[0])
    inside = min(max(value, 1e-6), 1 - 1e-6)
    half = float(special.ndtri((1 + level) / 2)) * spread.std(ddof=1) / (inside * (1 - inside))
    low, high = special.expit(special.logit(inside) + np.array([-half, half]))
    return estimate(value, low, high, len(names), "questions")


def _areas(difference: Floats, counts: Floats, fold: Ints) -> Floats:
    """(B): AUC of out-of-fold scores in each draw (B, P) of the pairs."""
    scores = np.empty(counts.shape)
    for k in range(FOLDS):
        test = fold == k
        scores[:, test] = weights(difference[~test], counts[:, ~test]) @ difference[test].T
    return np.array([area(score, count) for score, count in zip(scores, counts, strict=True)])


def weights(difference: Floats, counts: Floats) -> Floats:
    """(B, F): weights of a penalised logistic regression in each draw.

    Minimises Σ count · log(1 + exp(−z·w)) + PENALTY/2 |w|² by Newton's method without a constant, z
    the differences over their root mean square; the weights are per unit of the feature.
    """
    unit = np.sqrt((difference**2).mean(axis=0))
    unit = np.where(unit > FLAT, unit, np.inf)
    z = difference / unit
    features = z.shape[1]
    products = (z[:, :, None] * z[:, None, :]).reshape(len(z), -1)
    w = np.zeros((len(counts), features))
    for _ in range(STEPS):
        miss = special.expit(-(w @ z.T))
        gradient = (counts * miss) @ z - PENALTY * w
        hessian = ((counts * miss * (1 - miss)) @ products).reshape(-1, features, features)
        step = np.linalg.solve(hessian + PENALTY * np.eye(features), gradient[..., None])[..., 0]
        w += step * np.minimum(1, 2 / np.maximum(np.abs(step).max(axis=1, keepdims=True), FLAT))
        if np.abs(step).max() < 1e-8:
            break
    return np.asarray(w / unit)


def area(scores: Floats, counts: Floats) -> float:
    """Return the AUC of scores (P), every pair in both orders: the chance of s > −s'."""
    order = np.argsort(-scores)
    turned = -scores[order]  # ascending
    sums = np.concatenate([[0.0], np.cumsum(counts[order])])
    won = (
        sums[np.searchsorted(turned, scores, "left")]
        + sums[np.searchsorted(turned, scores, "right")]
    )
    return float(counts @ won / (2 * sums[-1] ** 2))
