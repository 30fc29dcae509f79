"""Does the benchmark order rewarders as Best-of-N does? One policy, one axis, all rewarders."""

from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bon.analysis.correlation.apart import apart, far_below
from bon.analysis.correlation.families import (
    bases,
    clustered,
    families,
    untested,
    without_bounds,
)
from bon.analysis.correlation.influence import (
    MANY,
    carried,
    clusters,
    influence_sentence,
    leave_family_out,
    leave_one_out,
)
from bon.analysis.correlation.leave_out import better_half, leave_two_out, smallest_set
from bon.analysis.correlation.measured import MIN_REWARDERS, Label, Measured, rewarder_draws
from bon.analysis.correlation.noise import agreement, partials, reliability
from bon.analysis.estimators import resampling
from bon.analysis.estimators.resampling import COEFFICIENTS, estimate, nothing
from bon.analysis.results import (
    ENOUGH_BASES,
    BandPoint,
    Coefficient,
    Correlation,
    Estimate,
    Families,
    Fit,
    Options,
    PermutationMethod,
    Point,
    Record,
)
from bon.analysis.results.phrasing import evidence

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]
T = TypeVar("T", bound=Record)

SMALL = 8
"""Below this many rewarders Fisher's interval is read; see docs/validity.md."""

WORK = 8_000_000  # rewarders times draws, at most
KENDALL_WORK = 5_000_000  # pairs of rewarders times draws, at most


def correlate(measured: Measured, label: Label, options: Options) -> Correlation:
    """Everything about one correlation. `p_adjusted` is filled in by `correct`.

    Where rewarders share bases, only Pearson's r has bounds and a p (bon.analysis.correlation
    .families); what else would take rewarders for independent is without them.
    """
    usable = np.flatnonzero(np.isfinite(measured.x) & np.isfinite(measured.y))
    m = measured.keep(usable)
    r = len(usable)
    draws = drawn(m, options)
    found = {name: coefficient(m, name, draws, options) for name in COEFFICIENTS}
    pearson = found["pearson"]
    known = pearson.estimate.value is not None
    shared = families(m, pearson.estimate, options.level)
    loo = leave_one_out(m) if known else ()
    without_family = leave_family_out(m) if known else ()
    carrier = carried(pearson, loo)
    family = carried(pearson, without_family)
    two = leave_two_out(m)
    line = fit(m.x, m.y, options.level)

    def said(record: T) -> T:
        return record if shared is None else untested(record)

    def said_if(record: T | None) -> T | None:
        return None if record is None else said(record)

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
                before=m.before[i] if m.before else "",
                rule=m.rules[i] if m.rules else "",
            )
            for i, name in enumerate(m.names)
        ),
        pearson=pearson,
        spearman=found["spearman"],
        kendall=found["kendall"],
        fit=line if line is None or shared is None or shared.enough else _without_bands(line),
        leave_one_out=tuple(map(said, loo)),
        leave_family_out=tuple(map(said, without_family)),
        carried_by=carrier.left_out if carrier else None,
        carried_by_family=family.left_out if family else None,
        clusters=said_if(clusters(m, pearson)),
        apart=said_if(apart(m, options.level) if known else None),
        leave_two_out=two,
        smallest_set=said_if(smallest_set(m, pearson)),
        better_half=said_if(better_half(m, pearson, options.level)),
        families=shared,
        reliability=reliability(m, pearson.estimate, options) if m.x_halves is not None else None,
        agreement=said_if(agreement(m, options) if MIN_REWARDERS <= r <= MANY else None),
        partial=tuple(map(said, partials(m, options))),
        sentence=sentence(pearson, label, r, shared),
        influence_sentence=influence_sentence(said_if(carrier), loo, two),
    )


# ------------------------------------------------------------------ coefficients


def drawn(m: Measured, options: Options) -> tuple[Floats, Floats] | None:
    """(B, R) each: both axes with rewarders, questions and pairs resampled together.

    None for too few rewarders.
    """
    r = len(m.names)
    if r < MIN_REWARDERS:
        return None
    which = rewarder_draws(r, min(options.draws, max(500, WORK // r)), options.seed)
    return _taken(m.x, m.x_draws, which), _taken(m.y, m.y_draws, which)


def _taken(values: Floats, draws: Floats32 | None, which: Ints) -> Floats:
    """(B, R): of values (R), or of their draws (R, B'), what each draw of rewarders holds."""
    if draws is None:
        return values[which]
    by_draw = np.ascontiguousarray(draws[:, : len(which)].T)
    return np.take_along_axis(by_draw, which, axis=1).astype(float)


def coefficient(
    m: Measured, name: str, draws: tuple[Floats, Floats] | None, options: Options, p: bool = True
) -> Coefficient:
    """One coefficient with its intervals and, unless told not to, its p."""
    found = _for_bases(_of_independent(m, name, draws, options, p), m, name, options.level)
    if found.estimate.low is None or not len(far_below(m.x, m.y)):
        return found
    read = "No interval: some rewarders stand far below all others, and r says how many do."
    return found.model_copy(update={"estimate": without_bounds(found.estimate), "read": read})


def _kendall(x: Floats, y: Floats) -> tuple[float, float]:
    """tau-b and its p of very many rewarders."""
    from scipy import stats  # takes half a second to import, and hardly anybody needs it

    found = stats.kendalltau(x, y)
    return float(found.statistic), float(found.pvalue)


def _of_independent(
    m: Measured, name: str, draws: tuple[Floats, Floats] | None, options: Options, p: bool
) -> Coefficient:
    """The same, every rewarder taken for independent of the others."""
    r = len(m.names)
    quick = name == "kendall" and r > MANY
    of = (lambda a, b: _kendall(a, b)[0]) if quick else COEFFICIENTS[name]
    value = float(of(m.x, m.y)) if r >= MIN_REWARDERS else float("nan")
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
    if quick:
        _, p_normal = _kendall(m.x, m.y)
        fisher = _fisher(name, value, r, options.level)
        return Coefficient(
            estimate=fisher, bootstrap=None, fisher=fisher, p_value=p_normal,
            p_method="normal", read="Fisher's interval for ranks.",
        )  # fmt: skip
    assert draws is not None
    (x, y), count = draws, min(options.permutations, max(1000, WORK // r))
    if name == "kendall":
        pairs = r * (r - 1) // 2
        x, y = x[: max(500, KENDALL_WORK // pairs)], y[: max(500, KENDALL_WORK // pairs)]
        count = min(count, max(1000, KENDALL_WORK // pairs))
    low, high = resampling.quantiles(COEFFICIENTS[name](x, y), options.level)
    both = "rewarders and questions" if m.x_draws is not None else "rewarders"
    bootstrap = estimate(value, low[0], high[0], r, both)
    fisher = _fisher(name, value, r, options.level)
    p_value: float | None = None
    how: PermutationMethod = "none"
    if p:
        p_value, how = resampling.permutation_p(m.x, m.y, name, count, options.seed)
    jackknife = None
    if name == "pearson":
        jackknife = _jackknife(m, value, options.level)
    chosen, why = _to_read(fisher, jackknife, r)
    return Coefficient(
        estimate=chosen,
        bootstrap=bootstrap,
        fisher=fisher,
        jackknife=jackknife,
        p_value=p_value,
        p_method=how,
        p_parametric=resampling.t_test_p(value, r) if name == "pearson" else None,
        read=why,
    )


def interval_to_read(
    m: Measured, level: float, name: Literal["pearson", "spearman"] = "pearson"
) -> Estimate:
    """A coefficient with the interval that `coefficient` says to read, without the others."""
    r = len(m.names)
    value = float(COEFFICIENTS[name](m.x, m.y)) if r >= MIN_REWARDERS else float("nan")
    if not np.isfinite(value):
        return nothing(r)
    jackknife = _jackknife(m, value, level) if name == "pearson" else None
    chosen, _ = _to_read(_fisher(name, value, r, level), jackknife, r)
    base = bases(m)
    if base is not None:
        held = clustered(m, base, chosen, level)[0] if name == "pearson" else None
        chosen = held or without_bounds(chosen)
    return without_bounds(chosen) if len(far_below(m.x, m.y)) else chosen


def _jackknife(m: Measured, value: float, level: float) -> Estimate:
    bounds = resampling.jackknife_interval(m.x, m.y, level)
    return estimate(value, *bounds, len(m.names), "jackknife")


def _for_bases(c: Coefficient, m: Measured, name: str, level: float) -> Coefficient:
    """A coefficient whose `estimate` and p allow for shared bases, or are without bounds and p."""
    base = bases(m)
    if base is None or c.estimate.value is None:
        return c
    held, p = without_bounds(c.estimate), None
    why = "No interval and no p of ranks: rewarders share bases, and none allows for that."
    if name == "pearson":
        held, p = clustered(m, base, c.estimate, level)
        count = int(base.max()) + 1
        why = (
            f"The jackknife over {count} bases, or the interval for independent rewarders where "
            "that is wider: rewarders of one base err alike."
            if held.low is not None
            else "No interval and no p: rewarders of one base err alike, and fewer than "
            f"{ENOUGH_BASES} bases cannot say what others would do."
        )
    update: dict[str, object] = {"estimate": held, "read": why}
    if p is None:
        update |= {"p_value": None, "p_method": "none"}
    elif c.p_value is not None and p > c.p_value:
        update |= {"p_value": p, "p_method": "jackknife over bases"}
    return c.model_copy(update=update)


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


def _to_read(fisher: Estimate, jackknife: Estimate | None, r: int) -> tuple[Estimate, str]:
    """Which interval to read at this number of rewarders; docs/validity.md shows why."""
    if fisher.low is None:
        return fisher, f"No interval: {r} rewarders are too few for one."
    if jackknife is None:
        return fisher, "Fisher's interval for ranks."
    if r < SMALL or jackknife.low is None:
        return fisher, (
            f"Fisher's interval: over only {r} rewarders, the bootstrap and the jackknife do not "
            "cover the truth as often as they should."
        )
    return jackknife, (
        f"The jackknife over {r} rewarders: unlike Fisher's interval it allows for a few "
        "rewarders that are far from the others."
    )


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
    t = float(special.stdtrit(r - 2, (1 + level) / 2))
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


def _without_bands(line: Fit) -> Fit:
    """A line whose bounds would take rewarders of few bases for independent."""
    bare = tuple(BandPoint(x=point.x, y=point.y) for point in line.band)
    return untested(line).model_copy(update={"band": bare})


# ------------------------------------------------------------------ words


def axis_name(axis: str) -> str:
    """How an axis is called in a sentence."""
    if axis.startswith("group:"):
        return f"accuracy on its {axis[6:]} pairs"
    names = {"natural": "accuracy on the natural distribution"}
    return names.get(axis, f"{axis} accuracy")


def sentence(pearson: Coefficient, label: Label, r: int, shared: Families | None) -> str:
    """The plain sentence about one correlation."""
    where = axis_name(label.axis)
    if label.benchmark:
        where = f"{label.benchmark}'s {where}"
    if pearson.estimate.value is None:
        return f"{where} against Best-of-N on {label.policy}: {pearson.read}"
    without = " without leaked questions" if label.leaks == "out" else ""
    return f"{where} against Best-of-N on {label.policy}{without}: {evidence(pearson, r, shared)}."
