"""Selective answers: from which lead of the favourite on are at most `risk` of the answers wrong?

Fixed-sequence testing (Bauer 1991; Angelopoulos et al. 2025, Annals of Applied Statistics 19,
1641-1662): thresholds are tested from the strictest on, each by the exact binomial bound of Clopper
and Pearson, until one fails. The last that passed has an error above `risk` with probability at
most 1 − confidence, for any rewarder and any number of questions: a seeded fifth of the questions,
without their labels, sets the thresholds, the others test them.
"""

import numpy as np

from bon.analysis.data.arrays import Run, opinion
from bon.analysis.estimators.replay import panel_opinion
from bon.analysis.estimators.resampling import clopper_pearson, wilson
from bon.analysis.results import Answer, Estimate, Results, SelectiveGate
from bon.analysis.results.phrasing import percent
from bon.choosing.opinion import Bools, Floats, Opinion
from bon.choosing.rules import rule_of
from bon.core.errors import BonError

STEPS = 20
"""Thresholds that are tested at most."""
SHARE = 0.2
"""Share of the questions whose leads set the thresholds."""


def selective_gates(
    run: Run, results: Results, risk: float, confidence: float, names: dict[str, str]
) -> tuple[SelectiveGate, ...]:
    """Return the least lead to answer at, by policy, among all its candidates.

    Args:
        run: the run's tables as arrays.
        results: of the run.
        risk: highest share of wrong answers among those given.
        confidence: that it is not higher.
        names: policy -> rewarder (of the run, or an ensemble of scores).

    Raises BonError where questions were not judged because of their gold or their answers.
    """
    gates = []
    for policy, name in names.items():
        pool = run.pools[policy]
        members = run.tables.meta.get("ensembles", {}).get(name, (name,))
        known = [opinion(run, pool.located, member) for member in members]
        opinions = [o for o in known if o is not None]
        if len(opinions) < len(members):
            raise BonError(f"{name} chose among no candidates of {policy}", "choose another")
        together = opinions[0] if members == (name,) else panel_opinion(opinions)
        lead, unjudged = _leads(together)
        if unjudged.any():
            raise BonError(
                f"{name} did not judge {unjudged.sum()} of {len(unjudged)} questions of {policy}, "
                "and which ones depends on their answers",
                "run it again with --set judging.judge_unanimous=true",
            )
        chosen = rule_of(together.kind, None, name).choose(together)
        chosen = np.where(np.isnan(chosen), 1 / pool.size, chosen)  # of equal texts
        right = (chosen * pool.correct).sum(axis=1)
        gates.append(_gate(policy, name, lead, right, risk, confidence, results.options.seed))
    return tuple(gates)


def _leads(o: Opinion) -> tuple[Floats, Bools]:
    """Return the lead (Q) and what lacks judging (Q).

    The lead is infinite among equal texts, and −1, which is never answered, with fewer than two
    scores.
    """
    lead, _ = o.lead()
    single = (o.candidates.text_ids == 0).all(axis=1)
    return np.where(single, np.inf, np.where(np.isnan(lead), -1, lead)), ~o.complete & ~single


def _gate(
    policy: str,
    name: str,
    lead: Floats,
    right: Floats,
    risk: float,
    confidence: float,
    seed: int,
) -> SelectiveGate:
    rng = np.random.default_rng([seed, *b"risk"])
    wrong = rng.random(len(right)) >= right  # a tie, or partial credit, is a seeded draw
    threshold = least_lead(lead, wrong, risk, confidence, rng)
    answered = lead >= (np.inf if threshold is None else threshold)
    q, num_answered = len(lead), int(answered.sum()) if threshold is not None else 0
    error = float(1 - right.mean())
    bound = max(0.0, (error - risk) / (1 - risk))
    share = wilson(num_answered, q, confidence)
    rate = wilson(float(wrong[answered].sum()), num_answered, confidence)
    answer: Answer = "inconclusive" if threshold is None else "go"
    return SelectiveGate(
        policy=policy,
        rewarder=name,
        risk=risk,
        confidence=confidence,
        lead=threshold,
        answered=share,
        error=rate if num_answered else Estimate(value=None, method="none"),
        error_of_all=wilson(q * error, q, confidence),
        least_abstained=bound,
        answer=answer,
        sentence=_sentence(policy, name, threshold, share, rate, risk, confidence, bound),
    )


def least_lead(
    lead: Floats, wrong: Bools, risk: float, confidence: float, rng: np.random.Generator
) -> float | None:
    """Return the least lead (Q) from which at most `risk` of the answers are `wrong` (Q).

    Infinite leads are always answered. None where no threshold passes its test.
    """
    sets = rng.permutation(len(lead)) < SHARE * len(lead)
    values, lead, wrong = np.sort(lead[sets])[::-1], lead[~sets], wrong[~sets]
    fewest = np.log(1 - confidence) / np.log(1 - risk)  # answers, all right, that pass a test
    first = min(2 * fewest / max(len(lead), 1), 1.0)
    at = np.ceil(np.linspace(first, 1.0, STEPS) * len(values)).astype(int) - 1
    passed = None
    for threshold in values[np.maximum(at, 0)] if len(values) else ():
        if threshold < 0:
            break
        answered = lead >= threshold
        if upper_bound(int(wrong[answered].sum()), int(answered.sum()), confidence) > risk:
            break
        passed = float(threshold)
    if passed is not None and np.isinf(passed):
        return float(np.finfo(float).max)
    return passed


def upper_bound(wrong: int, answered: int, confidence: float) -> float:
    """Return Clopper and Pearson's one-sided upper bound of a share."""
    return clopper_pearson(wrong, answered, 2 * confidence - 1)[1]


def _sentence(
    policy: str,
    name: str,
    lead: float | None,
    answered: Estimate,
    error: Estimate,
    risk: float,
    confidence: float,
    bound: float,
) -> str:
    target = f"at most {percent(risk, 0)} wrong (confidence {percent(confidence, 0)})"
    least = f"; with these picks nothing can abstain on less than {percent(bound, 0)}"
    if lead is None:
        return f"inconclusive: no lead of {name} on {policy} shows {target}{least if bound else ''}"
    return (
        f"go: {name} on {policy} answers {percent(answered.value, 0)} of the questions, where its "
        f"pick leads by {lead:.6g} or more, with {target}; measured: {percent(error.value)} wrong"
        f"{least if bound else ''}"
    )
