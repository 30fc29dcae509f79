"""Which rewarder to use: gain against cost over stored runs, and who can be distinguished.

A task is a policy of a run; all tasks count alike, and only rewarders that chose in all of them
count. Gains and differences are means over tasks. Standard errors of tasks that share questions, as
those of one run do, are added up; others are independent. Differences are corrected over all pairs
(Holm), so the ranks hold for all rewarders at once.

The pick is the best of those that are shown to beat what is free, in a comparison of all rewarders
with one control (Dunnett 1955, by Bonferroni's bound). The highest of several measured accuracies
is too high, so its own is cross-fitted: what is best on a random half of the questions is measured
on the other half. The lower bound is that of the comparison, which holds for whichever is picked
(projection; Andrews, Kitagawa and McCloskey 2024); the upper one is its own, as what is picked is
rarely measured too low. Over several tasks both come from the folds, where shared questions fall
alike.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np
from scipy import special

from bon.analysis.decision.shared_content import Task, blocks
from bon.analysis.estimators.comparisons import rank_bands
from bon.analysis.estimators.resampling import around, estimate, holm, nothing
from bon.analysis.results import (
    BestOfN,
    Comparison,
    CostUnit,
    Estimate,
    Free,
    Recommendation,
    Recommended,
    Results,
)
from bon.analysis.results.phrasing import duration, gained, gains_over, names, short
from bon.choosing.opinion import Floats
from bon.core.errors import BonError

Runs = Sequence[tuple[str, Results]]
Pair = frozenset[str]

ALL = "all tasks"
HALVES = 400
STILL = 1e-6  # accuracies that differ by less are equal: sums by fold are rounded


def recommend(
    runs: Runs, budget: float | None = None, unit: CostUnit | None = None
) -> Recommendation:
    """Rank the rewarders of several runs by gain and cost, and pick one.

    Args:
        runs: a name and the results of each run.
        budget: the most that judging one question may cost, in the unit.
        unit: of costs; None: dollars, or else seconds, if every run recorded them, or else calls.

    Raises:
        BonError: no rewarder chose in every task, two tasks have the same candidates, or costs in
            this unit were not recorded.
    """
    block = blocks(runs)
    level = runs[0][1].options.level
    tasks = _tasks(runs)
    everyone = {
        b.rewarder for task in tasks.values() for b in task.values() if b.rule != "baseline"
    }
    ensembles = {r.rewarder for _, x in runs for r in x.rewarders if r.kind == "ensemble"}
    shared = [n for n in sorted(everyone - ensembles) if all(n in task for task in tasks.values())]
    if not shared:
        raise BonError(
            f"no rewarder chose in all {len(tasks)} tasks of these runs",
            "name runs that share rewarders",
        )
    unit = unit or _unit(runs, shared)
    known = {name: _cost(runs, name, unit) for name in shared}
    if budget is not None and (imported := [name for name in shared if known[name] is None]):
        raise BonError(
            f"the scores of {names(imported)} were imported: what they cost is not known",
            "leave --budget out",
        )
    costs = {name: np.inf if cost is None else cost for name, cost in known.items()}
    z = float(special.ndtri((1 + level) / 2))

    def gain_of(name: str) -> Estimate:
        return _mean([(block[key], task[name].gain) for key, task in tasks.items()], z)

    gains = {name: gain_of(name) for name in shared}
    comparisons = _comparisons(runs, block, shared, level)
    bands = {b.rewarder: (b.first, b.last) for b in rank_bands(comparisons)}
    majority = gain_of("majority")
    free, free_accuracy = free_rule(runs)
    base = "majority" if free == "majority vote" else "random"
    ordered = sorted(shared, key=lambda n: (-_value(gains[n]), costs[n], n))
    rewarders = []
    for name in ordered:
        first, last = bands.get(name, (1, len(shared)))
        rewarders.append(
            Recommended(
                rewarder=name,
                gain=gains[name],
                cost=known[name],
                first=first,
                last=last,
                affordable=budget is None or costs[name] <= budget,
            )
        )
    affordable = [r for r in rewarders if r.affordable]
    sizes, count = _sizes(runs), len(affordable)

    def above(name: str) -> Estimate:
        """Return the gain over the free rule."""
        own = [
            t[name].gain if base == "random" else t[name].versus_majority for t in tasks.values()
        ]
        return over_folds(own, _right(tasks, name) - _right(tasks, base), sizes, level)

    few = _folds(sizes) - 1 if len(tasks) > 1 else None
    gaps = [(r, above(r.rewarder)) for r in affordable]
    shown = [(r, gap) for r, gap in gaps if (lower(gap, count, level, few) or 0.0) > 0]
    pick, picked, over_free = None, nothing(), nothing()
    if affordable:
        best, gap = (shown or gaps)[0]
        among = np.stack([_right(tasks, r.rewarder) for r, _ in shown or gaps], axis=1)
        right = cross_fitted(among, sizes)
        own = [task[best.rewarder].accuracy for task in tasks.values()]
        accuracy = over_folds(own, _right(tasks, best.rewarder), sizes, level)
        picked = corrected(accuracy, right, count, level, few, 0.0)
        over_free = corrected(gap, right - _value(free_accuracy), count, level, few)
        pick = best if (over_free.low or 0.0) > 0 else None
    return Recommendation(
        unit=unit,
        budget=budget,
        level=level,
        tasks=tuple(f"{run}: {policy}" for run, policy in tasks),
        rewarders=tuple(rewarders),
        majority=majority,
        free=free,
        free_accuracy=free_accuracy,
        picked=picked,
        over_free=over_free,
        pick=pick.rewarder if pick else None,
        sentence=_sentence(pick, affordable, unit, budget, free, over_free),
        warnings=tuple(_warnings(runs, everyone - set(shared), unit, known)),
    )


def _value(number: Estimate) -> float:
    return number.value if number.value is not None else -np.inf


def _mean(parts: list[tuple[int, Estimate]], z: float) -> Estimate:
    """Average over tasks: errors within a block add up, blocks are independent."""
    if len(parts) == 1:
        return parts[0][1]
    values = [e.value for _, e in parts if e.value is not None]
    if len(values) < len(parts):
        return nothing()
    by_block: dict[int, float] = {}
    for block, e in parts:
        half = (e.high - e.low) / 2 if e.low is not None and e.high is not None else float("nan")
        by_block[block] = by_block.get(block, 0.0) + half / z
    error = float(np.sqrt(sum(s * s for s in by_block.values()))) / len(parts)
    return around(float(np.mean(values)), z * error, len(parts), "tasks")


# ------------------------------------------------------------------ what is free, what was picked


def free_rule(runs: Runs) -> tuple[Free, Estimate]:
    """Return the better of majority vote and a single response, and its accuracy over all tasks."""
    tasks, sizes, level = _tasks(runs), _sizes(runs), runs[0][1].options.level
    vote, single = (
        over_folds([t[name].accuracy for t in tasks.values()], _right(tasks, name), sizes, level)
        for name in ("majority", "random")
    )
    if _value(vote) > _value(single):
        return "majority vote", vote
    return "a single response", single


def over_majority(results: Results) -> dict[str, Estimate]:
    """Return the mean gain over majority vote of all that chose for every policy of a run.

    This is the quantity of the report's first page: its headline, its figure and its leaderboard.
    """
    runs = [(results.run.name, results)]
    tasks, sizes = _tasks(runs), _sizes(runs)
    own = list(tasks.values())
    if not own or not all("majority" in task for task in own):
        return {}
    vote = _right(tasks, "majority")
    return {
        name: over_folds(
            [task[name].versus_majority for task in own],
            _right(tasks, name) - vote,
            sizes,
            results.options.level,
        )
        for name in own[0]
        if all(name in task for task in own)
    }


def _tasks(runs: Runs) -> dict[Task, dict[str, BestOfN]]:
    """Return the rewarders and baselines of each task at the headline rule."""
    return {
        (run, p.policy): {
            b.rewarder: b for b in results.best_of_n if b.policy == p.policy and b.headline
        }
        for run, results in runs
        for p in results.policies
    }


def _right(tasks: dict[Task, dict[str, BestOfN]], name: str) -> Floats:
    """(tasks, folds): sums of accuracy."""
    return np.array([task[name].right_by_fold for task in tasks.values()])


def _sizes(runs: Runs) -> Floats:
    """(tasks, folds): numbers of questions."""
    return np.array([p.questions_by_fold for _, x in runs for p in x.policies], dtype=float)


def _folds(sizes: Floats) -> int:
    return int((sizes.sum(axis=0) > 0).sum())


def over_folds(own: list[Estimate], sums: Floats, sizes: Floats, level: float) -> Estimate:
    """Average over tasks: the estimate of one, of several Student's interval over the folds."""
    if len(own) == 1:
        return own[0]
    count, total = _folds(sizes), sizes.sum(axis=1, keepdims=True)
    means = sums.sum(axis=1, keepdims=True) / total
    if count < 2:
        return nothing()
    parts = ((sums - means * sizes) / total).mean(axis=0)
    error = np.sqrt(count / (count - 1) * (parts @ parts))
    half = special.stdtrit(count - 1, (1 + level) / 2) * error
    return around(float(means.mean()), half, sum(e.n for e in own), "folds of questions")


def cross_fitted(right: Floats, sizes: Floats) -> float:
    """Return the accuracy on one half of the folds of what is best on the other, over many halves.

    right (T, R, K): sums over the questions of a fold, by task and rewarder; sizes (T, K). NaN
    where the folds of a task cannot be halved.
    """
    rng = np.random.default_rng(0)
    inside = np.argsort(rng.random((HALVES, right.shape[2])), axis=1) < right.shape[2] // 2
    halves = np.stack([inside, ~inside]).astype(float)  # (2, S, K)
    counts = np.einsum("tk,hsk->hst", sizes, halves)
    usable = (counts > 0).all(axis=(0, 2))
    accuracy = np.einsum("trk,hsk->hstr", right, halves) / np.maximum(counts, 1)[..., None]
    on, off = accuracy.mean(axis=2)[:, usable], accuracy.mean(axis=2)[::-1, usable]
    best = on >= on.max(axis=2, keepdims=True) - STILL
    return float((off * (best / best.sum(axis=2, keepdims=True))).sum(axis=2).mean())


def lower(plain: Estimate, count: int, level: float, few: int | None) -> float | None:
    """Return a lower bound that holds for all of `count`.

    `few`: degrees of freedom of the interval; None: those of a normal one.
    """
    if plain.value is None or plain.low is None:
        return None
    tail = np.array([(1 - level) / 2 / count, (1 - level) / 2])
    far, near = special.ndtri(tail) if few is None else special.stdtrit(few, tail)
    return float(plain.value - far / near * (plain.value - plain.low))


def corrected(
    plain: Estimate,
    value: float,
    count: int,
    level: float,
    few: int | None = None,
    least: float = -1.0,
) -> Estimate:
    """Return the value of what was picked among `count`; `plain`: its own estimate."""
    low = lower(plain, count, level, few)
    if low is None or np.isnan(value):
        return nothing(plain.n)
    return estimate(value, max(low, least), plain.high, plain.n, "cross-fitted")


# ------------------------------------------------------------------ who can be distinguished


def _comparisons(
    runs: Runs, block: dict[Task, int], shared: list[str], level: float
) -> list[Comparison]:
    """Compare every pair over all tasks (Holm)."""
    z = float(special.ndtri((1 + level) / 2))
    parts: dict[Pair, list[tuple[int, Estimate]]] = {}
    for run, results in runs:
        for c in results.comparisons:
            if c.table == "best_of_n" and c.a in shared and c.b in shared:
                d = c.difference if c.a < c.b else _turned(c.difference)
                parts.setdefault(frozenset((c.a, c.b)), []).append((block[run, c.policy or ""], d))
    pairs = [p for p in combinations(sorted(shared), 2) if frozenset(p) in parts]
    means = [_mean(parts[frozenset(p)], z) for p in pairs]
    p_values = [_p(d, z) for d in means]
    return [
        Comparison(
            table="best_of_n", policy=ALL, benchmark=None, a=a, b=b, difference=d, p_value=p,
            p_adjusted=adjusted, distinguishable=adjusted is not None and adjusted < 1 - level,
        )
        for (a, b), d, p, adjusted in zip(pairs, means, p_values, holm(p_values), strict=True)
    ]  # fmt: skip


def _turned(d: Estimate) -> Estimate:
    value, low, high = (None if v is None else -v for v in (d.value, d.high, d.low))
    return estimate(value, low, high, d.n, d.method)


def _p(d: Estimate, z: float) -> float | None:
    if d.value is None or d.low is None or d.high is None:
        return None
    error = (d.high - d.low) / (2 * z)
    if error < 1e-9:
        return 1.0 if abs(d.value) < 1e-9 else 0.0
    return float(2 * special.ndtr(-abs(d.value) / error))


# ------------------------------------------------------------------ cost


def _unit(runs: Runs, shared: list[str]) -> CostUnit:
    infos = [
        r
        for _, results in runs
        for r in results.rewarders
        if r.rewarder in shared and not r.imported
    ]
    units: tuple[tuple[CostUnit, list[float | None]], ...] = (
        ("dollars", [r.cost for r in infos]),
        ("seconds", [r.seconds for r in infos]),
    )
    for unit, values in units:
        if all(v is not None for v in values) and any(values):
            return unit
    return "calls"


def _cost(runs: Runs, name: str, unit: CostUnit) -> float | None:
    """Return the cost of judging the candidates of one question, averaged over the runs.

    None for imported scores.
    """
    costs = []
    for run, results in runs:
        info = next(r for r in results.rewarders if r.rewarder == name)
        if info.imported:
            return None
        calls = next((j for j in results.judging if j.rewarder == name), None)
        if calls is None:
            raise BonError(f"{run} does not record the calls of {name}", f"bon report {run}")
        totals = {"dollars": info.cost, "seconds": info.seconds, "calls": 1.0 * info.num_judgements}
        total = totals[unit]
        if total is None:
            raise BonError(
                f"{run} has no {unit} of {name}",
                "leave --cost out, or choose calls, which every run has",
            )
        share = calls.calls_candidates / max(info.num_judgements, 1)
        mixed = sum(sum(p.correct_per_question[1:-1]) for p in results.policies)
        questions = max(calls.rated_questions, mixed, 1)  # all right or all wrong: not judged
        costs.append(total * share / questions)
    return float(np.mean(costs))


# ------------------------------------------------------------------ words


def amount(cost: float, unit: CostUnit) -> str:
    """Return $0.0021, 1.3 s, 15 min or 14 calls."""
    if unit == "dollars":
        return f"${short(cost)}"
    if unit == "seconds":
        return duration(cost)
    return f"{short(cost)} call{'' if cost == 1 else 's'}"


def _sentence(
    pick: Recommended | None,
    affordable: list[Recommended],
    unit: CostUnit,
    budget: float | None,
    free: Free,
    over_free: Estimate,
) -> str:
    limit = "" if budget is None else f" for at most {amount(budget, unit)} per question"
    if not affordable:
        return f"No rewarder judges{limit}; {free} costs nothing."
    count = len(affordable)
    if pick is None:
        return (
            f"Nothing{limit} is shown to beat {free}, which costs nothing: "
            f"{best_of(count, affordable[0].rewarder, over_free)}"
        )
    corrected = f", corrected for picking the best of {count}" if count > 1 else ""
    cost = "" if pick.cost is None else f", at {amount(pick.cost, unit)} per question"
    return (
        f"Take {pick.rewarder}{limit}: it gains {gained(over_free)} over {free}{corrected}{cost}."
    )


def best_of(count: int, rewarder: str, over_free: Estimate) -> str:
    """Describe what the best rewarder gains over what is free, which is not shown to be above 0."""
    which = f"the best of {count} rewarders, {rewarder}," if count > 1 else rewarder
    if over_free.low is None:
        return f"{which} gains an amount that so few questions do not tell."
    return f"{which} {gains_over(over_free, 'it')}."


def _warnings(
    runs: Runs, missing: Iterable[str], unit: CostUnit, costs: Mapping[str, float | None]
) -> list[str]:
    warnings: list[str] = []
    absent = sorted(missing)
    if absent:
        warnings.append(
            f"{names(absent)} did not choose in every task, or are ensembles, and are left out."
        )
    if imported := [name for name, cost in costs.items() if cost is None]:
        warnings.append(f"Imported scores of {names(imported)}: what they cost is not known.")
    if unit == "calls" and len(imported) < len(costs):
        warnings.append(
            "The runs did not record the cost of all judging: judge calls per question stand in."
        )
    for run, results in runs:
        if results.completeness is not None and not results.completeness.complete:
            warnings.append(f"{run} is not complete.")
    return warnings
