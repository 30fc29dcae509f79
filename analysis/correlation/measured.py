"""What a correlation is computed from: R rewarders on both axes.

Accuracies are all that is needed; where raw tables exist there are also draws of both axes (the
same draws for all rewarders) and halves of both. Published numbers have neither, and get
everything that can be done without.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bon.analysis.results import Estimate, Leaks

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]

MIN_REWARDERS = 3


@dataclass(frozen=True)
class Measured:
    """R rewarders on both axes.

    `x`, `y` (R); `x_draws`, `y_draws` (R, B) share their draws across rewarders; `y_errors` (R, R):
    standard errors of differences in y, where known without draws; `x_halves`,
    `y_halves` (2, R, S): accuracies on S random halves and on their complements. `before` names the
    rewarder that each was before training.
    """

    names: tuple[str, ...]
    x: Floats
    y: Floats
    x_estimates: tuple[Estimate, ...]
    y_estimates: tuple[Estimate, ...]
    x_draws: Floats32 | None = None
    y_draws: Floats32 | None = None
    x_halves: Floats | None = None
    y_halves: Floats | None = None
    y_errors: Floats | None = None
    families: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    sizes: Floats | None = None
    length_bias: Floats | None = None

    def keep(self, rows: Ints) -> "Measured":
        """Some of the rewarders."""

        def cut(values: Floats | None) -> Floats | None:
            return None if values is None else values[rows]

        def draws(values: Floats32 | None) -> Floats32 | None:
            return None if values is None else values[rows]

        def halves(values: Floats | None) -> Floats | None:
            return None if values is None else values[:, rows]

        def pick(values: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(values[i] for i in rows) if values else ()

        return replace(
            self,
            names=pick(self.names),
            x=self.x[rows],
            y=self.y[rows],
            x_estimates=tuple(self.x_estimates[i] for i in rows),
            y_estimates=tuple(self.y_estimates[i] for i in rows),
            x_draws=draws(self.x_draws),
            y_draws=draws(self.y_draws),
            x_halves=halves(self.x_halves),
            y_halves=halves(self.y_halves),
            y_errors=None if self.y_errors is None else self.y_errors[np.ix_(rows, rows)],
            families=pick(self.families),
            before=pick(self.before),
            rules=pick(self.rules),
            sizes=cut(self.sizes),
            length_bias=cut(self.length_bias),
        )

    def at(self, x: Floats) -> "Measured":
        """The same rewarders with other scores (R), of which nothing else is known."""
        return replace(self, x=x, x_draws=None, x_halves=None)


@dataclass(frozen=True)
class Label:
    """Which correlation this is."""

    policy: str
    benchmark: str
    axis: str
    leaks: Leaks = "in"
    n: int | None = None
    primary: bool = False


def rewarder_draws(r: int, count: int, seed: int) -> Ints:
    """(B, R): which rewarders a draw holds."""
    return np.random.default_rng([seed, r, 7]).integers(0, r, (count, r))


def difference_errors(draws: NDArray[np.floating]) -> Floats:
    """(R, R): standard errors of the paired differences between rows of draws (R, B)."""
    usable = np.isfinite(draws).all(axis=0)
    if usable.sum() < 2:
        return np.full((len(draws), len(draws)), np.nan)
    return _of_differences(np.cov(np.asarray(draws[:, usable], dtype=float)))


def errors_of_means(values: Floats) -> Floats:
    """(R, R): standard errors of the paired differences between the means of columns (Q, R).

    What resampling the rows comes to with very many draws, but for the factor √(1 − 1/Q).
    """
    if len(values) < 2:
        return np.full((values.shape[1], values.shape[1]), np.nan)
    return _of_differences(np.cov(values.T) / len(values))


def _of_differences(covariance: Floats) -> Floats:
    covariance = np.atleast_2d(covariance)
    own = np.diag(covariance)
    variance: Floats = own[:, None] + own[None, :] - 2 * covariance
    return np.sqrt(np.maximum(variance, 0))
