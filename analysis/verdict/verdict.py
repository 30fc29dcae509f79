"""The verdict in one word with its probability, from the posterior of r and its rivals.

- yes: P(yes) = P(one line) · P(r > .5) is at least .95, and stays at least .8 without any single
  rewarder and without any single maker;
- probably: P(yes) is at least .8;
- no: P(r < .5) is at least .95, called weak if also P(r > 0) is, and reverse if P(r < 0) is;
  On either axis at least half of the variance between rewarders must be true: noise shows no "no";
- perhaps: P(r > 0) is at least .95, and separate groups are not the likelier account;
- cannot tell: anything else, above all noise.

An axis without counts has an unknown measurement error. A yes then assumes none, and a no assumes
`ASSUMED_ITEMS` items: no assumption helps either claim.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bon.analysis.results import Estimate
from bon.analysis.results.verdict import (
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

FEWEST = 5
"""Rewarders from which there is a verdict: fewer are always `cannot tell`."""

ASSUMED_ITEMS = 300
GAP = 0.05
RELIABLE = 0.5
LEVEL = 0.95


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
        square = np.ix_(rows, rows)
        return replace(
            self,
            names=tuple(self.names[i] for i in rows),
            x=self.x[rows],
            y=self.y[rows],
            x_errors=None if self.x_errors is None else self.x_errors[square],
            y_errors=None if self.y_errors is None else self.y_errors[square],
            bases=tuple(self.bases[i] for i in rows) if self.bases else (),
            makers=tuple(self.makers[i] for i in rows) if self.makers else (),
            covariates=None if self.covariates is None else self.covariates[rows],
        )

    def families(self) -> list[object]:
        """Return what rewarders share: their base model, or that they are one under two names."""
        shared: list[object] = []
        first: dict[tuple[float, float], object] = {}
        for at, point in enumerate(zip(self.x.tolist(), self.y.tolist(), strict=True)):
            base = self.bases[at] if self.bases else ""
            shared.append(first.setdefault(point, base or at))
        return shared


@dataclass(frozen=True)
class _Read:
    """What the model says: with the errors least favourable to a yes, and to a no."""

    optimist: Posterior
    sceptic: Posterior
    accounts: Accounts

    @property
    def p_yes(self) -> float:
        return self.accounts.line * self.optimist.above(STRONG)

    @property
    def p_low(self) -> float:
        return min(1 - p.above(STRONG) for p in (self.optimist, self.sceptic))


def judge(axes: Axes, gap: float = GAP) -> Verdict | None:
    """Return the verdict; None where there are too few rewarders, or an axis does not vary."""
    if not _usable(axes):
        return None
    read = _read(axes)
    word, rewarder, maker = _word(axes, read), None, None
    if read.p_yes >= PROBABLY:
        rewarder = _weakest(
            axes, [(name, np.arange(len(axes.x)) != i) for i, name in enumerate(axes.names)]
        )
        maker = _weakest(axes, [(name, np.array(axes.makers) != name) for name in _makers(axes)])
        if word == "yes" and any(w is not None and w.p_yes < PROBABLY for w in (rewarder, maker)):
            word = "probably"
    post = read.optimist
    return Verdict(
        word=word,
        num_rewarders=len(axes.x),
        p_yes=read.p_yes,
        p_low=read.p_low,
        p_positive=post.above(0.0),
        r=_interval(post, read.sceptic),
        line=read.accounts.line,
        groups=read.accounts.groups,
        ceiling=read.accounts.ceiling,
        reliability_x=post.reliability[0],
        reliability_y=post.reliability[1],
        beats=post.beats(gap / float(axes.x.std(ddof=1))),
        gap=gap,
        density=tuple(post.probability.tolist()),
        weakest=rewarder,
        weakest_maker=maker,
        adjusted=_adjusted(axes),
    )


def p_yes(axes: Axes) -> float | None:
    """Return P(yes) alone, without what leaves rewarders out."""
    return _read(axes).p_yes if _usable(axes) else None


def _usable(axes: Axes) -> bool:
    return len(axes.x) >= FEWEST and all(float(np.ptp(v)) > 1e-9 for v in (axes.x, axes.y))


def _read(axes: Axes, covariates: Floats | None = None) -> _Read:
    bases = axes.families()
    known = [
        None if errors is None else error_variance(errors)
        for errors in (axes.x_errors, axes.y_errors)
    ]
    assumed = [float(np.mean(v * (1 - v))) / ASSUMED_ITEMS for v in (axes.x, axes.y)]

    def under(unknown: Sequence[float]) -> Posterior:
        x, y = (u if k is None else k for k, u in zip(known, unknown, strict=True))
        return posterior(axes.x, axes.y, (x, y), bases, covariates)

    optimist = under((0.0, 0.0))
    sceptic = optimist if None not in known else under(assumed)
    x, y = axes.x, axes.y
    if covariates is not None:
        design = np.column_stack([np.ones(len(x)), covariates])
        x, y = (v - design @ np.linalg.lstsq(design, v, rcond=None)[0] for v in (x, y))
    return _Read(optimist, sceptic, accounts(x, y))


def _word(axes: Axes, read: _Read) -> Word:
    rises = read.optimist.above(0.0)
    if read.p_yes >= YES:
        return "yes"
    if read.p_low >= SURE and min(read.sceptic.reliability) >= RELIABLE:
        if rises >= SURE:
            return "weak"
        falls = 1 - rises >= SURE and accounts(axes.x, -axes.y).groups <= 0.5
        return "reverse" if falls else "no"
    if read.p_yes >= PROBABLY:
        return "probably"
    return "perhaps" if rises >= SURE and read.accounts.groups <= 0.5 else "cannot tell"


def _interval(post: Posterior, sceptic: Posterior) -> Estimate:
    tail = (1 - LEVEL) / 2
    return Estimate(
        value=post.quantile(0.5),
        low=post.quantile(tail),
        high=sceptic.quantile(1 - tail),
        method="posterior",
    )


def _makers(axes: Axes) -> list[str]:
    """Return the makers of several rewarders, without whom enough remain."""
    counts = {name: axes.makers.count(name) for name in dict.fromkeys(axes.makers) if name}
    return [m for m, count in counts.items() if count > 1 and len(axes.x) - count >= FEWEST]


def _weakest(axes: Axes, parts: Sequence[tuple[str, Floats]]) -> Without | None:
    """Return what lowers P(yes) most when left out."""
    values = [
        Without(left_out=name, p_yes=value)
        for name, kept in parts
        if (value := p_yes(axes.keep(np.flatnonzero(kept)))) is not None
    ]
    return min(values, key=lambda w: w.p_yes, default=None)


def _adjusted(axes: Axes) -> Adjusted | None:
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
    interval = _interval(read.optimist, read.sceptic)
    return Adjusted(covariates=names, r=interval, p_yes=read.p_yes)
