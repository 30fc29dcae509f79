"""Which rewarder to use: gain against cost over stored runs, and who can be distinguished.

A task is a policy of a run; all tasks count alike, and only rewarders that chose in all of them
count. Gains and differences are means over tasks. Standard errors of tasks that share questions, as
those of one run do, are added up; others are independent. Differences are corrected over all pairs
(Holm), so the ranks hold for all rewarders at once.

The highest of several measured accuracies is too high. That of the pick is therefore cross-fitted:
in each of twenty folds of the questions, what is best on the other folds is measured. Its lower
bound is that of a comparison of all rewarders with the free rule (Dunnett 1955, by Bonferroni's
bound), which holds for whichever is picked (projection; Andrews, Kitagawa and McCloskey 2024); the
upper one is its own, as what is picked is rarely measured too low.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np
from scipy import special

from bon.analysis.decision.shared_content import Task, blocks
from bon.analysis.estimators.comparisons import rank_bands
from bon.analysis.estimators.resampling import around, estimate, holm, nothing
from bon.analysis.results import (
    BestOfN,
    Cheaper,
    Comparison,
    CostUnit,
    Estimate,
    Free,
    Recommendation,
    Recommended,
    Results,
    Standing,
)
from bon.analysis.results.phrasing import duration, gained, lost, names
from bon.choosing.opinion import Floats
from bon.core.errors import BonError

Runs = Sequence[tuple[str, Results]]
Pair = frozenset[str]

ALL = "all tasks"
STILL = 1e-6  # accuracies that differ by less are equal: sums by fold are rounded
UNITS: dict[CostUnit, str] = {"dollars": "dollars", "seconds": "seconds", "calls": "judge calls"}


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
    tasks = {
        (run, p.policy): {
            b.rewarder: b for b in results.best_of_n if b.policy == p.policy and b.headline
        }
        for run, results in runs
        for p in results.policies
    }
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

    def over(read: Callable[[BestOfN], Estimate], name: str) -> Estimate:
        return _mean([(block[key], read(task[name])) for key, task in tasks.items()], z)

    gains = {name: over(lambda b: b.gain, name) for name in shared}
    comparisons = _comparisons(runs, block, shared, level)
    distinct = {frozenset((c.a, c.b)) for c in comparisons if c.distinguishable}
    bands = {b.rewarder: (b.first, b.last) for b in rank_bands(comparisons)}
    majority = over(lambda b: b.gain, "majority")
    free, free_accuracy = free_rule(runs)
    by_vote = free == "majority vote"
    ordered = sorted(shared, key=lambda n: (-_value(gains[n]), costs[n], n))
    rewarders = []
    for name in ordered:
        first, last = bands.get(name, (1, len(shared)))
        rewarders.append(
            Recommended(
                rewarder=name,
                gain=gains[name],
                versus_majority=over(lambda b: b.versus_majority, name),
                cost=known[name],
                first=first,
                last=last,
                standing=_standing(name, gains, costs, distinct, _value(majority)),
                affordable=budget is None or costs[name] <= budget,
            )
        )
    affordable = [r for r in rewarders if r.affordable]
    picked = over_free = nothing()
    if affordable:
        best, count = affordable[0], len(affordable)
        sizes = np.array([p.questions_by_fold for _, x in runs for p in x.policies], dtype=float)
        folds = [[task[r.rewarder].right_by_fold for r in affordable] for task in tasks.values()]
        right = cross_fitted(np.array(folds), sizes)
        picked = corrected(over(lambda b: b.accuracy, best.rewarder), right, count, level, 0.0)
        own = best.versus_majority if by_vote else best.gain
        over_free = corrected(own, right - _value(free_accuracy), count, level)
    pick = next((r for r in affordable[:1] if (over_free.low or 0) > 0), None)
    cheaper = tuple(
        Cheaper(rewarder=r.rewarder, cost=r.cost, loses=loses)
        for r in affordable[1:]
        if pick is not None
        and r.cost is not None
        and r.standing == "front"
        and (loses := _loss(comparisons, affordable[0].rewarder, r.rewarder)) is not None
        and (loses.low is None or loses.low <= 0)
    )  # fmt: skip
    return Recommendation(
        unit=unit,
        budget=budget,
        level=level,
        tasks=tuple(f"{run}: {policy}" for run, policy in tasks),
        rewarders=tuple(rewarders),
        majority=majority,
        free=free,
        free_accuracy=free_accuracy,
        num_affordable=len(affordable),
        picked=picked,
        over_free=over_free,
        pick=pick.rewarder if pick else None,
        cheaper=cheaper,
        sentence=_sentence(pick, affordable, cheaper, unit, budget, free, over_free),
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
    block = blocks(runs)
    z = float(special.ndtri((1 + runs[0][1].options.level) / 2))
    policies = [(block[run, p.policy], p) for run, results in runs for p in results.policies]
    vote = _mean([(number, p.majority) for number, p in policies], z)
    single = _mean([(number, p.pass_at_1) for number, p in policies], z)
    if _value(vote) > _value(single):
        return "majority vote", vote
    return "a single response", single


def cross_fitted(right: Floats, sizes: Floats) -> float:
    """Return the accuracy on each fold of the rewarder that is best on all others.

    right (T, R, K): sums over the questions of a fold, by task and rewarder; sizes (T, K).
    """
    others = right.sum(axis=2, keepdims=True) - right
    total = sizes.sum(axis=1, keepdims=True)
    rest = (others / np.maximum(total - sizes, 1)[:, None]).mean(axis=0)
    best = rest >= rest.max(axis=0) - STILL
    chosen = (right * (best / best.sum(axis=0))).sum(axis=(1, 2))
    return float((chosen / total[:, 0]).mean())


def corrected(
    plain: Estimate, value: float, count: int, level: float, least: float = -1.0
) -> Estimate:
    """Return the value of what was picked among `count`; `plain`: its own estimate."""
    if plain.value is None or plain.low is None:
        return nothing(plain.n)
    tail = (1 - level) / 2
    wider = float(special.ndtri(tail / count) / special.ndtri(tail))
    low = max(plain.value - wider * (plain.value - plain.low), least)
    return estimate(value, low, plain.high, plain.n, "cross-fitted")


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


def _loss(comparisons: list[Comparison], best: str, cheaper: str) -> Estimate | None:
    for c in comparisons:
        if {c.a, c.b} == {best, cheaper}:
            return c.difference if c.b == cheaper else _turned(c.difference)
    return None


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


def _standing(
    name: str,
    gains: dict[str, Estimate],
    costs: dict[str, float],
    distinct: set[Pair],
    majority: float,
) -> Standing:
    gain, cost = _value(gains[name]), costs[name]
    dominating = [
        other
        for other in gains
        if other != name
        and costs[other] <= cost
        and _value(gains[other]) >= gain
        and (costs[other] < cost or _value(gains[other]) > gain)
    ]
    if any(frozenset((name, other)) in distinct for other in dominating):
        return "worse"
    return "alike" if dominating or majority >= gain else "front"


# ------------------------------------------------------------------ words


def amount(cost: float, unit: CostUnit) -> str:
    """Return $0.0021, 1.3 s, 15 min or 14 calls."""
    if unit == "dollars":
        return f"${cost:.2g}"
    if unit == "seconds":
        return duration(cost)
    return f"{cost:.3g} call{'' if cost == 1 else 's'}"


def _sentence(
    pick: Recommended | None,
    affordable: list[Recommended],
    cheaper: tuple[Cheaper, ...],
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
    text = (
        f"Take {pick.rewarder}{limit}: it gains {gained(over_free)} over {free}{corrected}{cost}."
    )
    return " ".join([text, *(cheaper_text(r, unit) for r in cheaper)])


def best_of(count: int, rewarder: str, over_free: Estimate) -> str:
    """Describe what the best rewarder gains over what is free, which is not shown to be above 0."""
    which = f"the best of {count} rewarders, {rewarder}," if count > 1 else rewarder
    if over_free.low is None:
        return f"{which} gains an amount that so few questions do not tell."
    return f"{which} gains {gained(over_free)} over it."


def cheaper_text(r: Cheaper, unit: CostUnit) -> str:
    """Describe what a cheaper rewarder costs and loses."""
    cost = amount(r.cost, unit)
    return f"{r.rewarder} costs {cost} and may do as well: it loses {lost(r.loses)}."


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
