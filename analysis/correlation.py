"""Does the benchmark order rewarders as Best-of-N does? One policy, one axis, all rewarders.

`Measured` is all that is needed: accuracies of R rewarders on both axes, and, where raw tables
exist, draws of both (the same draws for all rewarders) and halves of both. Published numbers
have neither, and get everything that can be done without.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from bon.analysis import resampling
from bon.analysis.resampling import COEFFICIENTS, estimate, nothing, number
from bon.analysis.results import (
    BandPoint,
    Clusters,
    Coefficient,
    Correlation,
    Estimate,
    Fit,
    Given,
    Leaks,
    LeaveOneOut,
    Options,
    PairAgreement,
    Partial,
    PermutationMethod,
    Point,
    Reliability,
)
from bon.analysis.wording import coefficient as written
from bon.analysis.wording import interval, probability

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]

MIN_REWARDERS = 3
SMALL = 20
"""Below this many rewarders the bootstrap over rewarders is too narrow; see docs/validity.md."""

KENDALL_WORK = 5_000_000  # pairs of rewarders times draws, at most
LOW_CEILING = 0.2  # below this there is too little signal to correct for
WIDE_GAP = 0.4  # of the range of x: two clusters rather than a spread
CARRIES = 0.15  # a fall of r by this much without one rewarder is worth a sentence


@dataclass(frozen=True)
class Measured:
    """R rewarders on both axes.

    `x`, `y` (R); `x_draws`, `y_draws` (R, B) share their draws across rewarders; `x_halves`,
    `y_halves` (2, R, S): accuracies on S random halves and on their complements.
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
    families: tuple[str, ...] = ()
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
            families=pick(self.families),
            rules=pick(self.rules),
            sizes=cut(self.sizes),
            length_bias=cut(self.length_bias),
        )


@dataclass(frozen=True)
class Label:
    """Which correlation this is."""

    policy: str
    benchmark: str
    axis: str
    leaks: Leaks = "in"
    n: int | None = None
    primary: bool = False


def correlate(measured: Measured, label: Label, options: Options) -> Correlation:
    """Everything about one correlation. `p_adjusted` is filled in by `correct`."""
    usable = np.flatnonzero(np.isfinite(measured.x) & np.isfinite(measured.y))
    m = measured.keep(usable)
    r = len(usable)
    found = {name: coefficient(m, name, options) for name in COEFFICIENTS}
    pearson = found["pearson"]
    loo = leave_one_out(m) if pearson.estimate.value is not None else ()
    families = leave_family_out(m) if pearson.estimate.value is not None else ()
    carrier = carried(pearson, loo, r)
    family = carried(pearson, families, r)
    return Correlation(
        policy=label.policy,
        benchmark=label.benchmark,
        axis=label.axis,
        leaks=label.leaks,
        n=label.n,
        primary=label.primary,
        num_rewarders=r,
        points=tuple(
            Point(
                rewarder=name,
                x=m.x_estimates[i],
                y=m.y_estimates[i],
                family=m.families[i] if m.families else "",
                rule=m.rules[i] if m.rules else "",
            )
            for i, name in enumerate(m.names)
        ),
        pearson=pearson,
        spearman=found["spearman"],
        kendall=found["kendall"],
        fit=fit(m.x, m.y, options.level),
        leave_one_out=loo,
        leave_family_out=families,
        carried_by=carrier.left_out if carrier else None,
        carried_by_family=family.left_out if family else None,
        clusters=clusters(m, pearson),
        reliability=reliability(m, options) if m.x_halves is not None else None,
        agreement=agreement(m, options) if r >= MIN_REWARDERS else None,
        partial=partials(m, options),
        sentence=sentence(pearson, label, r),
        influence_sentence=influence_sentence(pearson, carrier, loo),
    )


# ------------------------------------------------------------------ coefficients


def rewarder_draws(r: int, count: int, seed: int) -> Ints:
    """(B, R): which rewarders a draw holds."""
    return np.random.default_rng([seed, r, 7]).integers(0, r, (count, r))


def drawn(m: Measured, options: Options) -> tuple[Floats, Floats]:
    """(B, R) each: both axes with rewarders, questions and pairs resampled together."""
    r = len(m.names)
    which = rewarder_draws(r, options.draws, options.seed)
    rows = np.arange(options.draws)[:, None]
    x = m.x[which] if m.x_draws is None else m.x_draws[which, rows].astype(float)
    y = m.y[which] if m.y_draws is None else m.y_draws[which, rows].astype(float)
    return x, y


def coefficient(m: Measured, name: str, options: Options, p: bool = True) -> Coefficient:
    """One coefficient with both intervals and, unless told not to, its permutation p."""
    r = len(m.names)
    value = float(COEFFICIENTS[name](m.x, m.y)) if r >= MIN_REWARDERS else float("nan")
    if not np.isfinite(value):
        reason = (
            f"{r} rewarders are too few for a correlation."
            if r < MIN_REWARDERS
            else "One axis does not vary, so there is no correlation."
        )
        return Coefficient(
            estimate=nothing(r), bootstrap=None, fisher=None, p_value=None, p_method="none",
            read=reason,
        )  # fmt: skip
    x, y = drawn(m, options)
    count = options.permutations
    if name == "kendall":
        pairs = r * (r - 1) // 2
        x, y = x[: max(500, KENDALL_WORK // pairs)], y[: max(500, KENDALL_WORK // pairs)]
        count = min(count, max(1000, KENDALL_WORK // pairs))
    draws = COEFFICIENTS[name](x, y)
    low, high = resampling.quantiles(draws, options.level)
    both = "rewarders and questions" if m.x_draws is not None else "rewarders"
    bootstrap = estimate(value, low[0], high[0], r, both)
    fisher = _fisher(name, value, r, options.level)
    p_value: float | None = None
    how: PermutationMethod = "none"
    if p:
        p_value, how = resampling.permutation_p(m.x, m.y, name, count, options.seed)
    chosen, why = _to_read(bootstrap, fisher, r)
    return Coefficient(
        estimate=chosen,
        bootstrap=bootstrap,
        fisher=fisher,
        p_value=p_value,
        p_method=how,
        p_parametric=resampling.t_test_p(value, r) if name == "pearson" else None,
        read=why,
    )


def _fisher(name: str, value: float, r: int, level: float) -> Estimate:
    """Fisher's interval; for ranks with the standard errors of Fieller et al. (1957)."""
    if name == "pearson":
        low, high = resampling.fisher_interval(value, r, level)
        return estimate(value, low, high, r, "fisher")
    spread = {"spearman": (1.06, 3), "kendall": (0.437, 4)}[name]
    if r <= spread[1] or r < 5:
        return estimate(value, None, None, r, "fisher")
    z = np.arctanh(np.clip(value, -0.9999999, 0.9999999))
    half = special.ndtri((1 + level) / 2) * np.sqrt(spread[0] / (r - spread[1]))
    return estimate(value, np.tanh(z - half), np.tanh(z + half), r, "fisher")


def _to_read(bootstrap: Estimate, fisher: Estimate, r: int) -> tuple[Estimate, str]:
    """Which of two intervals to read at this number of rewarders; docs/validity.md."""
    if r < SMALL and fisher.low is not None:
        return fisher, (
            f"Fisher's interval: with {r} rewarders, resampling them gives intervals that are "
            "too narrow or too wide to trust."
        )
    if r < SMALL:
        return fisher, f"No interval: {r} rewarders are too few for one."
    if bootstrap.low is None:
        return fisher, "Fisher's interval: too many draws had no correlation."
    return bootstrap, f"The bootstrap over {r} rewarders and over the questions."


def correct(correlations: list[Correlation]) -> list[Correlation]:
    """The same correlations, p corrected over the axes of each policy, benchmark and leaks.

    Macro and overall are two readings of one set of pairs and the groups are parts of it, so
    whoever looks for the best of them looks that many times: Holm's correction.
    """
    keys = [(c.policy, c.benchmark, c.leaks, c.n) for c in correlations]
    result = list(correlations)
    for name in COEFFICIENTS:
        for key in dict.fromkeys(keys):
            rows = [i for i, k in enumerate(keys) if k == key]
            adjusted = resampling.holm([getattr(result[i], name).p_value for i in rows])
            for i, p in zip(rows, adjusted, strict=True):
                old = getattr(result[i], name)
                new = old.model_copy(update={"p_adjusted": p})
                result[i] = result[i].model_copy(update={name: new})
    return result


# ------------------------------------------------------------------ influence


def leave_one_out(m: Measured) -> tuple[LeaveOneOut, ...]:
    """The correlation without each rewarder, with its leverage and Cook's distance."""
    r = len(m.names)
    if r < MIN_REWARDERS + 1:
        return ()
    rest = np.array([[j for j in range(r) if j != i] for i in range(r)])
    pearson = resampling.pearson_rows(m.x[rest], m.y[rest])
    spearman = resampling.spearman_rows(m.x[rest], m.y[rest])
    dx = m.x - m.x.mean()
    leverage = 1 / r + dx * dx / (dx @ dx)
    slope = dx @ m.y / (dx @ dx)
    residual = m.y - m.y.mean() - slope * dx
    variance = residual @ residual / (r - 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        cook = residual**2 / (2 * variance) * leverage / (1 - leverage) ** 2
    return tuple(
        LeaveOneOut(
            left_out=name,
            pearson=number(pearson[i]),
            p_value=resampling.t_test_p(float(pearson[i]), r - 1),
            spearman=number(spearman[i]),
            leverage=number(leverage[i]),
            cooks_distance=number(cook[i]),
        )
        for i, name in enumerate(m.names)
    )


def leave_family_out(m: Measured) -> tuple[LeaveOneOut, ...]:
    """The correlation without each family, where a family has more than one rewarder."""
    if not m.families:
        return ()
    result = []
    for family in dict.fromkeys(f for f in m.families if f):
        rest = np.array([i for i, f in enumerate(m.families) if f != family], dtype=int)
        if len(m.names) - len(rest) < 2 or len(rest) < MIN_REWARDERS:
            continue
        pearson = float(resampling.pearson_rows(m.x[rest], m.y[rest]))
        result.append(
            LeaveOneOut(
                left_out=family,
                pearson=number(pearson),
                p_value=resampling.t_test_p(pearson, len(rest)),
                spearman=number(float(resampling.spearman_rows(m.x[rest], m.y[rest]))),
            )
        )
    return tuple(result)


def carried(pearson: Coefficient, loo: tuple[LeaveOneOut, ...], r: int) -> LeaveOneOut | None:
    """The one without which the result falls, if there is one.

    It falls if |r| drops by 0.15 or more, or if p (Student's t) rises above .05 from below.
    """
    value = pearson.estimate.value
    if value is None:
        return None
    known = [one for one in loo if one.pearson is not None]
    if not known:
        return None
    sign = np.sign(value) or 1.0
    worst = min(known, key=lambda one: sign * (one.pearson or 0.0))
    fall = abs(value) - sign * (worst.pearson or 0.0)
    significant = pearson.p_parametric is not None and pearson.p_parametric <= 0.05
    loses = significant and (worst.p_value is None or worst.p_value > 0.05)
    return worst if fall >= CARRIES or (loses and fall > 0.02) else None


def clusters(m: Measured, pearson: Coefficient) -> Clusters | None:
    """Two clusters that make r between them, if that is what makes it.

    The split is the widest gap in x that leaves two rewarders or more on either side. It counts
    if the gap is at least two fifths of the range, and r within the clusters is lower by .15.
    """
    r, value = len(m.names), pearson.estimate.value
    if r < 5 or value is None:
        return None
    order = np.argsort(m.x, kind="stable")
    gaps = np.diff(m.x[order])[1:-1]
    at = int(np.argmax(gaps)) + 2
    if gaps[at - 2] < WIDE_GAP * np.ptp(m.x):
        return None
    x, y = m.x[order].copy(), m.y[order].copy()
    for part in (slice(0, at), slice(at, r)):
        x[part] -= x[part].mean()
        y[part] -= y[part].mean()
    within = float(resampling.pearson_rows(x, y))
    if np.isfinite(within) and abs(value) - np.sign(value) * within < CARRIES:
        return None
    named = [m.names[i] for i in order]
    return Clusters(
        lower=tuple(named[:at]),
        upper=tuple(named[at:]),
        within=number(within),
        p_value=resampling.t_test_p(within, r, given=1),
    )


def influence_sentence(
    pearson: Coefficient, carrier: LeaveOneOut | None, loo: tuple[LeaveOneOut, ...]
) -> str:
    """What leaving out one rewarder does, in words."""
    if carrier is not None:
        return (
            f"Without {carrier.left_out} r falls to {written(carrier.pearson)} "
            f"({probability(carrier.p_value)})."
        )
    known = [one.pearson for one in loo if one.pearson is not None]
    if not known:
        return ""
    return (
        f"Leaving out any one rewarder leaves r between {written(min(known))} "
        f"and {written(max(known))}."
    )


# ------------------------------------------------------------------ fit


def fit(x: Floats, y: Floats, level: float, points: int = 25) -> Fit | None:
    """Least squares with Student's t intervals; needs three rewarders that differ in x."""
    r = len(x)
    dx = x - x.mean() if r else x
    if r < MIN_REWARDERS or dx @ dx < 1e-18:
        return None
    sxx = float(dx @ dx)
    slope = float(dx @ y) / sxx
    intercept = float(y.mean() - slope * x.mean())
    residual = y - intercept - slope * x
    s = float(np.sqrt(residual @ residual / (r - 2)))
    t = float(stats.t.ppf((1 + level) / 2, r - 2))
    half = t * s / float(np.sqrt(sxx))
    at_zero = t * s * float(np.sqrt(1 / r + x.mean() ** 2 / sxx))
    at = np.linspace(x.min(), x.max(), points)
    mean = intercept + slope * at
    band = t * s * np.sqrt(1 / r + (at - x.mean()) ** 2 / sxx)
    new = t * s * np.sqrt(1 + 1 / r + (at - x.mean()) ** 2 / sxx)
    rows = np.stack([at, mean, mean - band, mean + band, mean - new, mean + new], axis=1)
    return Fit(
        slope=estimate(slope, slope - half, slope + half, r, "t"),
        intercept=estimate(intercept, intercept - at_zero, intercept + at_zero, r, "t"),
        residual_sd=s,
        band=tuple(
            BandPoint(x=a, y=b, low=c, high=d, predict_low=e, predict_high=f)
            for a, b, c, d, e, f in rows.tolist()
        ),
    )


# ------------------------------------------------------------------ noise


def reliability(m: Measured, options: Options) -> Reliability:
    """Reliability of both axes by split halves, and what it does to r.

    The halves' correlation is stepped up (Spearman and Brown) to the full length; intervals
    resample rewarders, but for the corrected r, whose interval takes the ceiling as known.
    """
    assert m.x_halves is not None
    assert m.y_halves is not None
    r = len(m.names)
    if r < MIN_REWARDERS:
        return Reliability(x=nothing(r), y=nothing(r), ceiling=nothing(r), disattenuated=nothing(r))
    value_x, value_y = float(_stepped_up(m.x_halves)), float(_stepped_up(m.y_halves))
    which = rewarder_draws(r, min(options.draws, 1000), options.seed)
    few = slice(0, 10)
    draws_x = _stepped_up(m.x_halves[:, :, few], which)
    draws_y = _stepped_up(m.y_halves[:, :, few], which)

    def made(value: float, draws: Floats) -> Estimate:
        low, high = resampling.quantiles(draws, options.level)
        return estimate(value, low[0], high[0], r, "rewarders")

    ceiling = float(np.sqrt(np.clip(value_x, 0, 1) * np.clip(value_y, 0, 1)))
    ceilings = np.sqrt(np.clip(draws_x, 0, 1) * np.clip(draws_y, 0, 1))
    return Reliability(
        x=made(value_x, draws_x),
        y=made(value_y, draws_y),
        ceiling=made(ceiling, ceilings),
        disattenuated=_corrected(m, ceiling, options.level),
    )


def _corrected(m: Measured, ceiling: float, level: float) -> Estimate:
    """r over its ceiling, with Fisher's interval over the ceiling; cut at ±1."""
    r = len(m.names)
    observed = float(resampling.pearson_rows(m.x, m.y))
    if not ceiling > LOW_CEILING:  # also where it is NaN
        return nothing(r)
    low, high = resampling.fisher_interval(observed, r, level)
    value, low, high = np.clip(np.array([observed, low, high]) / ceiling, -1, 1)
    return estimate(value, low, high, r, "fisher")


def _stepped_up(halves: Floats, which: Ints | None = None) -> Floats:
    """Mean over splits of the halves' correlation, stepped up: a number, or one a draw (B)."""
    a, b = (half.T for half in halves)  # (S, R) each
    if which is not None:
        a, b = a[:, which], b[:, which]  # (S, B, R)
    r = resampling.pearson_rows(a, b)
    known = np.isfinite(r)
    mean = np.where(known, r, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    mean = np.where(known.any(axis=0), mean, np.nan)
    return np.asarray(2 * mean / (1 + np.maximum(mean, -0.5)), dtype=float)


def agreement(m: Measured, options: Options) -> PairAgreement:
    """Agreement on pairs of rewarders; intervals resample rewarders.

    Two rewarders are told apart on an axis if their difference is more than z standard errors
    of that (paired) difference; without draws nothing is known about that.
    """
    r = len(m.names)
    dx, dy = m.x[:, None] - m.x[None, :], m.y[:, None] - m.y[None, :]
    upper = np.triu(np.ones((r, r), dtype=bool), 1)
    agree = (1 + np.sign(dx) * np.sign(dy)) / 2
    counted = upper | upper.T
    weights = np.zeros((options.draws, r))
    which = rewarder_draws(r, options.draws, options.seed)
    np.add.at(weights, (np.arange(options.draws)[:, None], which), 1.0)

    def mean(values: Floats, over: NDArray[np.bool_], name: str = "rewarders") -> Estimate:
        if not over.any():
            return nothing()
        top = ((weights @ (values * over)) * weights).sum(axis=1)
        size = ((weights @ over.astype(float)) * weights).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            low, high = resampling.quantiles(top / size, options.level)
        return estimate(values[over].mean(), low[0], high[0], int(over.sum()) // 2, name)

    none = nothing(r)
    if m.x_draws is None or m.y_draws is None:
        return PairAgreement(
            num_pairs=r * (r - 1) // 2, agreement=mean(agree, counted), num_separable=0,
            agreement_separable=none, brier=none, separability_x=none, separability_y=none,
        )  # fmt: skip
    z = float(special.ndtri((1 + options.level) / 2))
    sx, sy = difference_errors(m.x_draws), difference_errors(m.y_draws)
    apart_x, apart_y = (np.abs(dx) > z * sx) & counted, (np.abs(dy) > z * sy) & counted
    with np.errstate(invalid="ignore", divide="ignore"):
        score = np.where(sx > 0, dx / sx, np.sign(dx) * 40)
    believed = special.ndtr(score)
    brier = (believed - (1 + np.sign(dy)) / 2) ** 2
    both = apart_x & apart_y
    return PairAgreement(
        num_pairs=r * (r - 1) // 2,
        agreement=mean(agree, counted),
        num_separable=int(both.sum()) // 2,
        agreement_separable=mean(agree, both),
        brier=mean(brier, counted),
        separability_x=mean(apart_x.astype(float), counted),
        separability_y=mean(apart_y.astype(float), counted),
    )


def difference_errors(draws: NDArray[np.floating]) -> Floats:
    """(R, R): standard errors of the paired differences between rows of draws (R, B)."""
    usable = np.isfinite(draws).all(axis=0)
    if usable.sum() < 2:
        return np.full((len(draws), len(draws)), np.nan)
    covariance = np.atleast_2d(np.cov(np.asarray(draws[:, usable], dtype=float)))
    own = np.diag(covariance)
    variance: Floats = own[:, None] + own[None, :] - 2 * covariance
    return np.sqrt(np.maximum(variance, 0))


def partials(m: Measured, options: Options) -> tuple[Partial, ...]:
    """Pearson's r given log size, and given length bias, where known for four or more."""
    result = []
    known_of: tuple[tuple[Given, Floats | None], ...] = (
        ("size", m.sizes),
        ("length_bias", m.length_bias),
    )
    for name, given in known_of:
        if given is None:
            continue
        known = np.flatnonzero(np.isfinite(given) & ((given > 0) | (name != "size")))
        if len(known) < 5:
            continue
        z = np.log(given[known]) if name == "size" else given[known]
        if np.ptp(z) < 1e-12:
            continue
        design = np.stack([np.ones(len(z)), z - z.mean()], axis=1)
        left = [
            v[known] - design @ np.linalg.lstsq(design, v[known], rcond=None)[0] for v in (m.x, m.y)
        ]
        value = float(resampling.pearson_rows(*left))
        if not np.isfinite(value):
            continue
        low, high = resampling.fisher_interval(value, len(known) - 1, options.level)
        result.append(
            Partial(
                given=name,
                estimate=estimate(value, low, high, len(known), "fisher"),
                p_value=resampling.t_test_p(value, len(known), given=1),
            )
        )
    return tuple(result)


# ------------------------------------------------------------------ words


def axis_name(axis: str) -> str:
    """How an axis is called in a sentence."""
    if axis.startswith("group:"):
        return f"accuracy on its {axis[6:]} pairs"
    return {"macro": "macro accuracy", "overall": "overall accuracy"}.get(axis, axis)


def sentence(pearson: Coefficient, label: Label, r: int) -> str:
    """The plain sentence about one correlation."""
    where = axis_name(label.axis)
    if label.benchmark:
        where = f"{label.benchmark}'s {where}"
    value = pearson.estimate.value
    if value is None:
        return f"{where} against Best-of-N on {label.policy}: {pearson.read}"
    without = " without leaked questions" if label.leaks == "out" else ""
    return (
        f"{where} against Best-of-N on {label.policy}{without}: r = {written(value)}"
        f"{interval(pearson.estimate)} over {r} rewarders, {probability(pearson.p_value)}."
    )
