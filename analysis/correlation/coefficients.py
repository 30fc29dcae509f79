"""Correlation of benchmark accuracy with Best-of-N accuracy over the rewarders of one policy."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np
from scipy import special

from bon.analysis.correlation.families import (
    clustered,
    family_codes,
    num_bases,
    without_bounds,
)
from bon.analysis.correlation.line import fit
from bon.analysis.correlation.paired_accuracies import (
    MIN_REWARDERS,
    Label,
    Measured,
    rewarder_draws,
)
from bon.analysis.estimators import resampling
from bon.analysis.estimators.replay import Replay
from bon.analysis.estimators.resampling import COEFFICIENTS, Floats32, estimate, nothing, number
from bon.analysis.results import (
    ENOUGH_BASES,
    Coefficient,
    Correlation,
    CorrelationAtN,
    CorrelationByN,
    Estimate,
    LeaveOneOut,
    Options,
    PermutationMethod,
    Point,
)
from bon.analysis.results.phrasing import coefficient as written
from bon.analysis.results.phrasing import evidence
from bon.choosing.opinion import Bools, Floats, Ints

SMALL = 8
"""Below this many rewarders Fisher's interval is read; see docs/validity.md."""

MANY = 500  # rewarders above which computations over all pairs of them are skipped
WORK = 8_000_000  # at most this many rewarders times draws
RANKS: dict[str, tuple[float, int, int]] = {"spearman": (1.06, 3, 5), "kendall": (0.437, 4, 5)}
"""Variance, lost and fewest rewarders of Fisher's interval of ranks (Fieller et al. 1957)."""
KENDALL_WORK = 5_000_000  # at most this many pairs of rewarders times draws


def correlate(measured: Measured, label: Label, options: Options) -> Correlation:
    """Compute the coefficients of one axis; `correct` fills in `p_adjusted`.

    With shared base models, only Pearson's r keeps bounds and p (bon.analysis.correlation
    .families); everything else would take rewarders as independent.
    """
    m = measured.complete()
    r, bases = len(m.names), num_bases(m)
    draws = drawn(m, options)
    pearson, spearman, kendall = (coefficient(m, name, draws, options) for name in COEFFICIENTS)
    return Correlation(
        **asdict(label),
        num_rewarders=r,
        num_bases=bases,
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
        spearman=spearman,
        kendall=kendall,
        fit=fit(m, options.level, bounded=bases is None or bases >= ENOUGH_BASES),
        leave_one_out=leave_one_out(m) if pearson.estimate.value is not None else (),
        sentence=_sentence(pearson, label, r, bases),
    )


def leave_one_out(m: Measured) -> tuple[LeaveOneOut, ...]:
    """Correlate without each rewarder."""
    r = len(m.names)
    if not MIN_REWARDERS < r <= MANY:
        return ()
    pearson = resampling.pearson_among(m.x, m.y, ~np.eye(r, dtype=bool))
    rest = np.array([[j for j in range(r) if j != i] for i in range(r)])
    spearman = resampling.spearman_rows(m.x[rest], m.y[rest])
    return tuple(
        LeaveOneOut(left_out=name, pearson=number(pearson[i]), spearman=number(spearman[i]))
        for i, name in enumerate(m.names)
    )


# ------------------------------------------------------------------ coefficients


def drawn(m: Measured, options: Options) -> tuple[Floats, Floats] | None:
    """Resample rewarders, questions and pairs together: both axes, (B, R) each."""
    r = len(m.names)
    if r < MIN_REWARDERS:
        return None
    rows = rewarder_draws(r, min(options.draws, max(500, WORK // r)), options.seed)
    return _resampled(m.x, m.x_draws, rows), _resampled(m.y, m.y_draws, rows)


def _resampled(values: Floats, draws: Floats32 | None, rows: Ints) -> Floats:
    if draws is None:
        return values[rows]
    by_draw = np.ascontiguousarray(draws[:, : len(rows)].T)
    return np.take_along_axis(by_draw, rows, axis=1).astype(float)


def coefficient(
    m: Measured, name: str, draws: tuple[Floats, Floats] | None, options: Options, p: bool = True
) -> Coefficient:
    """Compute one coefficient with its intervals and, unless switched off, its p."""
    r = len(m.names)
    read = read_interval(m, name, options.level)
    if read.fisher is None or draws is None:
        return read
    value = read.fisher.value or 0.0
    bootstrap, p_value = None, None
    p_method: PermutationMethod = "none"
    if name == "kendall" and r > MANY:
        from scipy import stats  # takes half a second to import

        p_value, p_method = float(stats.kendalltau(m.x, m.y).pvalue), "normal"
    else:
        (x, y), count = draws, min(options.permutations, max(1000, WORK // r))
        if name == "kendall":
            work = KENDALL_WORK // (r * (r - 1) // 2)
            x, y, count = x[: max(500, work)], y[: max(500, work)], min(count, max(1000, work))
        low, high = resampling.quantiles(COEFFICIENTS[name](x, y), options.level)
        units = "rewarders" if m.x_draws is None else "rewarders and questions"
        bootstrap = estimate(value, low[0], high[0], r, units)
        if p:
            p_value, p_method = resampling.permutation_p(m.x, m.y, name, count, options.seed)
    if read.estimate.low is None and read.fisher.low is not None:
        p_value, p_method = None, "none"
    elif p_value is not None and read.p_value is not None and read.p_value > p_value:
        p_value, p_method = read.p_value, read.p_method
    parametric = resampling.t_test_p(value, r) if name == "pearson" else None
    tests = {"p_value": p_value, "p_method": p_method, "p_parametric": parametric}
    return read.model_copy(update={"bootstrap": bootstrap, **tests})


def read_interval(m: Measured, name: str, level: float) -> Coefficient:
    """Choose the interval to read of a coefficient; docs/validity.md shows why.

    The p allows for shared base models; None if nothing does, or without them.
    """
    r = len(m.names)
    value = float(COEFFICIENTS[name](m.x, m.y)) if r >= MIN_REWARDERS else float("nan")
    if not np.isfinite(value):
        few = f"{r} rewarders are too few for a correlation."
        flat = "One axis does not vary, so there is no correlation."
        reason = few if r < MIN_REWARDERS else flat
        return Coefficient(
            estimate=nothing(r), bootstrap=None, fisher=None, p_value=None, p_method="none",
            read=reason,
        )  # fmt: skip
    fisher, jackknife = resampling.fisher(value, r, level, *RANKS.get(name, ())), None
    if name == "pearson":
        z, error = resampling.jackknife(m.x, m.y, np.arange(r))
        half = special.stdtrit(r - 1, (1 + level) / 2) * error if r > 4 else np.nan
        jackknife = estimate(value, np.tanh(z - half), np.tanh(z + half), r, "jackknife")
    chosen, reason = _for_independent(fisher, jackknife, r)
    codes, p = family_codes(m), None
    if codes is not None and name == "pearson":
        count = int(codes.max()) + 1
        chosen, p = clustered(m, codes, chosen, level)
        reason = (
            f"The jackknife over {count} base models, or the interval for independent rewarders "
            "if that is wider: rewarders with one base model share its errors."
            if chosen.low is not None
            else "No interval and no p: rewarders with one base model share its errors, and "
            f"fewer than {ENOUGH_BASES} base models are too few to estimate by how much."
        )
    elif codes is not None:
        chosen = without_bounds(chosen)
        reason = "No interval and no p of ranks: none allows for shared base models."
    return Coefficient(
        estimate=chosen, bootstrap=None, fisher=fisher, jackknife=jackknife, p_value=p,
        p_method="none" if p is None else "jackknife over families", read=reason,
    )  # fmt: skip


def _for_independent(fisher: Estimate, jackknife: Estimate | None, r: int) -> tuple[Estimate, str]:
    if fisher.low is None:
        return fisher, f"No interval: {r} rewarders are too few."
    if jackknife is None:
        return fisher, "Fisher's interval for ranks."
    if r < SMALL or jackknife.low is None:
        return fisher, (
            f"Fisher's interval: with only {r} rewarders, the bootstrap and the jackknife cover "
            "too rarely."
        )
    return jackknife, (
        f"The jackknife over {r} rewarders: unlike Fisher's interval it allows for rewarders far "
        "from the others."
    )


def correct(correlations: list[Correlation]) -> list[Correlation]:
    """Adjust p over the axes of each policy, benchmark and leaks (Holm).

    Macro, overall and the groups read the same pairs, so the best of them is a selection.
    """
    keys = [(c.policy, c.benchmark, c.leaks, c.n) for c in correlations]
    updates: list[dict[str, Any]] = [{} for _ in correlations]
    for name in COEFFICIENTS:
        for key in dict.fromkeys(keys):
            rows = [i for i, k in enumerate(keys) if k == key]
            own = [getattr(correlations[i], name) for i in rows]
            adjusted = resampling.holm([c.p_value for c in own])
            for i, c, p in zip(rows, own, adjusted, strict=True):
                updates[i][name] = c.model_copy(update={"p_adjusted": p})
    return [c.model_copy(update=u) for c, u in zip(correlations, updates, strict=True)]


# ------------------------------------------------------------------ r against n


def by_n(
    label: Label, measured: Measured, replays: list[Replay], kept: Bools, level: float
) -> CorrelationByN | None:
    """Correlate at every n ≥ 2 that all rewarders have (at n = 1 all have pass@1).

    `kept` (Q): the questions of the label, without leaked ones if it leaves them out.
    """
    # An estimate from fewer questions is noisier, and noise alone would lower r.
    assert label.n is not None
    shared = set.intersection(*(set(replay.comparable(label.n)) for replay in replays))

    def at(n: int) -> CorrelationAtN:
        m = replace(measured, y=np.array([replay.at(n)[kept].mean() for replay in replays]))
        pearson, spearman = (read_interval(m, c, level).estimate for c in ("pearson", "spearman"))
        return CorrelationAtN(n=n, pearson=pearson, spearman=spearman)

    points = [at(n) for n in sorted(shared) if n >= 2]
    known = [(p.n, p.pearson.value) for p in points if p.pearson.value is not None]
    if not known:
        return None
    (n, first), (last_n, last) = known[0], known[-1]
    text = f"r is {written(first)} at n = {n}."
    if len(known) > 1:
        text = f"r is {written(first)} at n = {n} and {written(last)} at n = {last_n}."
    return CorrelationByN(**label.scope, points=tuple(points), sentence=text)


# ------------------------------------------------------------------ words


def axis_name(axis: str) -> str:
    """Return the name of an axis in a sentence."""
    if axis.startswith("group:"):
        return f"accuracy on its {axis[6:]} pairs"
    names = {"natural": "accuracy on the natural distribution"}
    return names.get(axis, f"{axis} accuracy")


def _sentence(pearson: Coefficient, label: Label, r: int, bases: int | None) -> str:
    where = label.axis if label.outcome else axis_name(label.axis)
    target = label.outcome or "Best-of-N"
    if label.benchmark:
        where = f"{label.benchmark}'s {where}"
    if pearson.estimate.value is None:
        return f"{where} against {target} on {label.policy}: {pearson.read}"
    without = " without leaked questions" if label.leaks == "out" else ""
    return f"{where} against {target} on {label.policy}{without}: {evidence(pearson, r, bases)}."
