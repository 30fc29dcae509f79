"""Accuracies of R rewarders on both axes, the input of a correlation.

Runs add draws of both axes; published numbers have none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from bon.analysis.estimators.resampling import Floats32, from_draws
from bon.analysis.results import Estimate, Leaks, Point
from bon.choosing.opinion import Floats, Ints

MIN_REWARDERS = 3
RecordT = TypeVar("RecordT")


def keep_rows(record: RecordT, rows: Ints) -> RecordT:
    """Select some of the rewarders of a record; errors are matrices of them."""
    kept: dict[str, Any] = {}
    for name, values in vars(record).items():
        if isinstance(values, tuple) and values and name != "covariate_names":
            kept[name] = tuple(values[i] for i in rows)
        elif isinstance(values, np.ndarray):
            kept[name] = values[np.ix_(rows, rows)] if name.endswith("_errors") else values[rows]
    return replace(cast(Any, record), **kept)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Measured:
    """R rewarders on both axes.

    `x`, `y` (R); `x_draws`, `y_draws` (R, B) share their draws across rewarders. `families`,
    `makers`: base models and makers, empty where unknown; `covariates` (R, k): what else is known
    of them, NaN where unknown.
    """

    names: tuple[str, ...]
    x: Floats
    y: Floats
    x_estimates: tuple[Estimate, ...]
    y_estimates: tuple[Estimate, ...]
    x_draws: Floats32 | None = None
    y_draws: Floats32 | None = None
    families: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    makers: tuple[str, ...] = ()
    covariates: Floats | None = None
    covariate_names: tuple[str, ...] = ()

    def keep(self, rows: Ints) -> "Measured":
        """Select some of the rewarders."""
        return keep_rows(self, rows)

    def complete(self) -> "Measured":
        """Select the rewarders with a number on both axes."""
        return self.keep(np.flatnonzero(np.isfinite(self.x) & np.isfinite(self.y)))


def points_of(m: Measured) -> tuple[Point, ...]:
    """Return the rewarders with both estimates."""
    return tuple(
        Point(
            rewarder=name,
            x=m.x_estimates[i],
            y=m.y_estimates[i],
            family=m.families[i] if m.families else "",
            rule=m.rules[i] if m.rules else "",
        )
        for i, name in enumerate(m.names)
    )


def mean_of(parts: Sequence[Measured], weights: Sequence[float], level: float) -> Measured | None:
    """Return the weighted mean of y over policies or tasks, for the rewarders of all of them.

    None where these are fewer than two. x is that of the first, as it is the same in all.
    """
    shared = [name for name in parts[0].names if all(name in m.names for m in parts)]
    if len(shared) < 2:
        return None
    rows = [m.keep(np.array([m.names.index(name) for name in shared])) for m in parts]
    if len(rows) == 1:
        return rows[0]
    y = sum((w * m.y for w, m in zip(weights, rows, strict=True)), np.zeros(len(shared)))
    drawn = [m.y_draws for m in rows if m.y_draws is not None]
    if len(drawn) < len(rows):
        estimates = tuple(Estimate(value=v, method="none") for v in y.tolist())
        return replace(rows[0], y=y, y_draws=None, y_estimates=estimates)
    total = sum((w * d.astype(float) for w, d in zip(weights, drawn, strict=True)), np.zeros(1))
    draws = np.asarray(total, dtype=np.float32)
    n = sum(m.y_estimates[0].n for m in rows)
    estimates = tuple(from_draws(y, draws, n, "questions", level))
    return replace(rows[0], y=y, y_draws=draws, y_estimates=estimates)


@dataclass(frozen=True)
class Label:
    """Identity of a correlation."""

    policy: str
    benchmark: str
    axis: str
    leaks: Leaks = "in"
    n: int | None = None
    primary: bool = False
    too_leaked: str = ""
    outcome: str = ""

    @property
    def scope(self) -> dict[str, Any]:
        """Return the fields that results of this correlation repeat."""
        scope = ("policy", "benchmark", "axis", "leaks")
        return {name: getattr(self, name) for name in scope}


def difference_errors(draws: NDArray[np.floating]) -> Floats:
    """Return standard errors (R, R) of the paired differences between rows of draws (R, B)."""
    covariance = covariance_of(draws)
    if covariance is None:
        return np.full((len(draws), len(draws)), np.nan)
    return _of_differences(covariance)


def covariance_of(draws: NDArray[np.floating]) -> Floats | None:
    """Return the covariance (R, R) of draws (R, B), without those that lack a rewarder."""
    usable = np.isfinite(draws).all(axis=0)
    if usable.sum() < 2:
        return None
    return np.atleast_2d(np.cov(np.asarray(draws[:, usable], dtype=float)))


def errors_of_means(values: Floats) -> Floats:
    """Return standard errors (R, R) of differences between the column means of values (Q, R).

    The limit of resampling rows, but for the factor √(1 − 1/Q).
    """
    if len(values) < 2:
        return np.full((values.shape[1], values.shape[1]), np.nan)
    return _of_differences(np.atleast_2d(np.cov(values.T)) / len(values))


def _of_differences(covariance: Floats) -> Floats:
    own = np.diag(covariance)
    return np.sqrt(np.maximum(own[:, None] + own[None, :] - 2 * covariance, 0))
