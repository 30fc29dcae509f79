"""The verdict in one word with its probability, from the posterior of r and its rivals.

- yes: P(yes) = P(one line) · P(r > .5) is at least .95, and stays at least .8 without any single
  rewarder and without any single maker;
- probably: P(yes) is at least .8, and stays at least .5 without any of them;
- no: P(r < .5) is at least .95, called weak if also P(r > 0) is, and reverse if P(r < 0) is;
  On either axis at least half of the variance between rewarders must be true: noise shows no "no";
- perhaps: P(r > 0) is at least .95, and separate groups are not the likelier account;
- cannot tell: anything else, above all noise.

An axis without counts has an unknown measurement error: it is taken as none, and there is no "no"
but a reverse one, as noise weakens r and turns no sign.
A yes counts base models that are guessed from names both as stated and as different, and takes the
lower probability.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bon.analysis.correlation.paired_accuracies import keep_rows
from bon.analysis.results import Options
from bon.analysis.results.verdict import (
    HELD,
    PROBABLY,
    STRONG,
    SURE,
    YES,
    Adjusted,
    Verdict,
    Without,
    Word,
)
from bon.analysis.verdict.posterior import Posterior, error_variance, posterior
from bon.analysis.verdict.rivals import Accounts, accounts
from bon.choosing.opinion import Floats, Ints
from bon.core.base_models import GUESSED, without_mark

FEWEST = 5
"""Rewarders from which there is a verdict: fewer are always `cannot tell`."""

GAP = 0.05
RELIABLE = 0.5
LEVEL = Options().level
MOST_LEFT_OUT, FEW_LEFT_OUT = 50, 3
"""Rewarders that are left out one by one, farthest from the middle; the few decide the word in 99
of 100 studies, and are enough where studies are simulated."""


@dataclass(frozen=True)
class Axes:
    """Accuracies of n rewarders on both axes.

    x, y (n): fractions. x_errors, y_errors (n, n): covariances of their measurement errors, None if
    unknown. bases, makers (n): base model and maker of each, "" if unknown. covariates (n, k):
    known properties that may move both axes, by name.
    """

    names: tuple[str, ...]
    x: Floats
    y: Floats
    x_errors: Floats | None = None
    y_errors: Floats | None = None
    bases: tuple[str, ...] = ()
    makers: tuple[str, ...] = ()
    covariates: Floats | None = None
    covariate_names: tuple[str, ...] = ()

    def keep(self, rows: Ints) -> "Axes":
        """Select some of the rewarders."""
        return keep_rows(self, rows)

    def families(self) -> list[object]:
        """Return what rewarders share: their base model, or that they are one under two names."""
        shared: list[object] = []
        first: dict[tuple[float, float], object] = {}
        for at, point in enumerate(zip(self.x.tolist(), self.y.tolist(), strict=True)):
            base = without_mark(self.bases[at]) if self.bases else ""
            shared.append(first.setdefault(point, base or at))
        return shared


@dataclass(frozen=True)
class _Read:
    """What the model says of the axes (n), net of covariates; accounts are slow, and lazy."""

    posterior: Posterior
    x: Floats
    y: Floats

    @cached_property
    def accounts(self) -> Accounts:
        return accounts(self.x, self.y)

    @property
    def p_yes(self) -> float:
        return self.accounts.line * self.posterior.above(STRONG)


def judge(axes: Axes, level: float = LEVEL, gap: float | None = GAP) -> Verdict | None:
    """Return the verdict; None where there are too few rewarders, or an axis does not vary.

    gap: see `Verdict`; None where scores are no proportions.
    """
    if not _usable(axes):
        return None
    read, without_guesses = _read(axes), None
    if any(base.endswith(GUESSED) for base in axes.bases):
        stated = tuple("" if base.endswith(GUESSED) else base for base in axes.bases)
        other = _read(replace(axes, bases=stated))
        axes, read, other = (
            (replace(axes, bases=stated), other, read)
            if other.p_yes < read.p_yes
            else (axes, read, other)
        )
        without_guesses = other.p_yes
    counted = axes.x_errors is not None and axes.y_errors is not None
    rewarder, maker = _weakest(axes, read)
    post = read.posterior
    return Verdict(
        word=_word(axes, read, counted, (rewarder, maker)),
        num_rewarders=len(axes.x),
        num_bases=len(set(axes.families())),
        p_yes=read.p_yes,
        p_low=1 - post.above(STRONG) if counted else None,
        p_positive=post.above(0.0),
        r=post.interval(level),
        line=read.accounts.line,
        groups=read.accounts.groups,
        ceiling=read.accounts.ceiling,
        reliability_x=post.reliability[0] if axes.x_errors is not None else None,
        reliability_y=post.reliability[1] if axes.y_errors is not None else None,
        beats=post.beats(1.0 if gap is None else gap / float(axes.x.std(ddof=1))),
        gap=gap,
        density=tuple(post.probability.tolist()),
        weakest=rewarder,
        weakest_maker=maker,
        guessed=without_guesses,
        adjusted=adjusted_of(axes, level),
    )


def word_of(axes: Axes) -> Word:
    """Return the word of a simulated study, leaving few rewarders out."""
    if not _usable(axes):
        return "cannot tell"
    counted, read = axes.x_errors is not None and axes.y_errors is not None, _read(axes)
    return _word(axes, read, counted, _weakest(axes, read, FEW_LEFT_OUT))


def p_yes(axes: Axes) -> float | None:
    """Return P(yes) alone, without what leaves rewarders out."""
    return _read(axes).p_yes if _usable(axes) else None


def _usable(axes: Axes) -> bool:
    return len(axes.x) >= FEWEST and all(float(np.ptp(v)) > 1e-9 for v in (axes.x, axes.y))


def _read(axes: Axes, covariates: Floats | None = None) -> _Read:
    bases = axes.families()
    errors = [
        0.0 if matrix is None else error_variance(matrix)
        for matrix in (axes.x_errors, axes.y_errors)
    ]
    post = posterior(axes.x, axes.y, (errors[0], errors[1]), bases, covariates)
    x, y = axes.x, axes.y
    if covariates is not None:
        design = np.column_stack([np.ones(len(x)), covariates])
        x, y = (v - design @ np.linalg.lstsq(design, v, rcond=None)[0] for v in (x, y))
    return _Read(post, x, y)


def _word(axes: Axes, read: _Read, counted: bool, left: Sequence[Without | None]) -> Word:
    post = read.posterior
    rises, strong = post.above(0.0), post.above(STRONG)  # P(yes) is at most the second
    held = min((w.p_yes for w in left if w is not None), default=1.0)
    if strong >= YES and read.p_yes >= YES and held >= HELD["yes"]:
        return "yes"
    if counted and 1 - strong >= SURE and min(post.reliability) >= RELIABLE:
        if rises >= SURE:
            return "weak"
        falls = 1 - rises >= SURE and accounts(axes.x, -axes.y).groups <= 0.5
        return "reverse" if falls else "no"
    if strong >= PROBABLY and read.p_yes >= PROBABLY and held >= HELD["probably"]:
        return "probably"
    if not counted and 1 - rises >= SURE and accounts(axes.x, -axes.y).groups <= 0.5:
        return "reverse"
    return "perhaps" if rises >= SURE and read.accounts.groups <= 0.5 else "cannot tell"


def _makers(axes: Axes) -> list[str]:
    """Return the makers of several rewarders, without whom enough remain."""
    counts = {name: axes.makers.count(name) for name in dict.fromkeys(axes.makers) if name}
    return [m for m, count in counts.items() if count > 1 and len(axes.x) - count >= FEWEST]


def _weakest(
    axes: Axes, read: _Read, most: int = MOST_LEFT_OUT
) -> tuple[Without | None, Without | None]:
    """Return the rewarder and the maker that lower P(yes) most when left out, where it matters."""
    if read.posterior.above(STRONG) < PROBABLY or read.p_yes < PROBABLY:
        return None, None
    far = sum(((v - v.mean()) / v.std()) ** 2 for v in (axes.x, axes.y))
    rewarders = [(axes.names[i], np.arange(len(axes.x)) != i) for i in np.argsort(far)[-most:]]
    makers = [(name, np.array(axes.makers) != name) for name in _makers(axes)]
    rewarder, maker = (
        min(
            (
                Without(left_out=name, p_yes=value)
                for name, kept in parts
                if (value := p_yes(axes.keep(np.flatnonzero(kept)))) is not None
            ),
            key=lambda w: w.p_yes,
            default=None,
        )
        for parts in (rewarders, makers)
    )
    return rewarder, maker


def adjusted_of(axes: Axes, level: float = LEVEL) -> Adjusted | None:
    """Return r at equal covariates, where enough rewarders have them."""
    if axes.covariates is None:
        return None
    known = np.flatnonzero(np.isfinite(axes.covariates).all(axis=1))
    part = axes.keep(known)
    assert part.covariates is not None
    varies = np.ptp(part.covariates, axis=0) > 0 if len(known) else np.zeros(0, bool)
    if len(known) < FEWEST + varies.sum() or not varies.any() or not _usable(part):
        return None
    names = tuple(n for n, v in zip(axes.covariate_names, varies, strict=True) if v)
    read = _read(part, part.covariates[:, varies])
    return Adjusted(covariates=names, r=read.posterior.interval(level), p_yes=read.p_yes)
