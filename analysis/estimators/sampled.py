"""Estimates for all questions where only a random sample of them was judged.

What is known of every question without a judge (how many candidates are correct, whether the vote
is, ...) predicts the value of a judge's choice; the sampled questions correct the prediction:

    z = f + (N / m) · (y − f) if the question was sampled, else f

with f the prediction, y the value, m sampled of N. The mean of z estimates the mean of y, and its
spread is that of the estimate (Cassel, Särndal and Wretman 1976). So bootstrap, halves, gains and
differences work on z as they do on values, and everything stays paired.
"""

from dataclasses import dataclass

import numpy as np

from bon.choosing.opinion import Bools, Floats, Ints

FEWEST = 10
"""Minimum number of sampled questions to estimate from."""
PER_COVARIATE = 10
"""Sampled questions per coefficient of the prediction; with fewer, f is a mean."""


@dataclass(frozen=True)
class Drawn:
    """A random sample of questions to judge (`asked`, Q).

    `sure` (Q): questions whose value needs no judge. `covariates` (Q, K): known of every question.
    """

    asked: Bools
    sure: Bools
    covariates: Floats

    @property
    def rows(self) -> Ints:
        """Sampled questions that need a judge."""
        return np.flatnonzero(self.asked & ~self.sure)

    @property
    def enough(self) -> bool:
        """Whether the sample is large enough."""
        return len(self.rows) >= FEWEST

    def spread(self, values: Floats) -> Floats:
        """Return z (Q, C) of values (Q, C) that are known in `sure` and in `rows`."""
        z = values.copy()
        unsure = np.flatnonzero(~self.sure)
        sampled = np.searchsorted(unsure, self.rows)
        m = len(sampled)
        design = np.ones((len(unsure), 1))
        varying = self.covariates[unsure]
        varying = varying[:, np.ptp(varying, axis=0) > 1e-12]
        if m >= PER_COVARIATE * (1 + varying.shape[1]):
            design = np.concatenate([design, varying], axis=1)
        weights, _, rank, _ = np.linalg.lstsq(design[sampled], values[self.rows])
        guess = design @ weights
        # Residuals of the fitted sample are too small: correct for the lost degrees of freedom.
        residual = (values[self.rows] - guess[sampled]) * np.sqrt(m / max(m - int(rank), 1))
        guess[sampled] += len(unsure) / m * residual
        z[unsure] = guess
        return z


def equivalent_questions(z: Floats, values: Floats, drawn: Bools) -> float | None:
    """Return the factor by which the sample alone would need more questions.

    z (Q): as from `spread`; values (Q): of the drawn questions, sure ones included.
    """
    variance = float(np.var(z)) / len(z)
    plain = float(np.var(values[drawn])) / max(int(drawn.sum()), 1)
    return plain / variance if variance > 0 else None
