"""Interim analyses of a run's rewarders, from its judgements.

Deterministic, so a killed run continues with the same decisions and a report repeats them.
"""

from dataclasses import dataclass

import numpy as np

from bon.analysis.data.arrays import Pool, Run, ToDecide, opinion
from bon.analysis.decision.sequential_test import InterimTest, interim_ends, interim_test
from bon.analysis.estimators.replay import Setting, judged
from bon.analysis.estimators.resampling import estimate
from bon.analysis.results import Decided, DecidedRewarder, Options
from bon.analysis.results.phrasing import names
from bon.choosing.opinion import Bools, Floats, Ints
from bon.choosing.rules import RULES, rules_for

CAVEAT = (
    "r is not reported: early stopping ends judging where rewarders differ most, and those points "
    "determine r. Accuracies are conditional on the decisions: those of rewarders settled early "
    "are estimated from the questions judged until then; the remaining rewarders look better, and "
    "the others worse, than on new questions. Only the differences in the table of decisions have "
    "intervals that allow for interim analyses."
)


@dataclass(frozen=True)
class Interim:
    """Rewarders on one policy's questions in the order of judging.

    `rows` (Q) are the pool's questions in that order, `ends` those up to each analysis. Each
    rewarder was judged on the first `judged` (R) of them; `values` (Q, R) of its choices, `vote`
    (Q) of majority vote.
    """

    plan: ToDecide
    pool: Pool
    rewarders: tuple[str, ...]
    rows: Ints
    ends: tuple[int, ...]
    judged: tuple[int, ...]
    values: Floats
    vote: Floats
    test: InterimTest

    def sample(self, rewarder: str) -> Bools | None:
        """Return the pool's questions that a rewarder was judged on; None for all of them."""
        count = self.judged[self.rewarders.index(rewarder)]
        if count == len(self.rows):
            return None
        drawn = np.zeros(len(self.rows), dtype=bool)
        drawn[self.rows[:count]] = True
        return drawn


def interim_analyses(run: Run, options: Options) -> dict[str, Interim]:
    """Analyse each policy; empty if the run does not stop early."""
    plan = run.asked_to_decide
    if plan is None:
        return {}
    return {policy: _interim(run, pool, plan, options) for policy, pool in run.pools.items()}


def _interim(run: Run, pool: Pool, plan: ToDecide, options: Options) -> Interim:
    setting = Setting.of(pool, pool.size if options.n is None else options.n, options)
    place = {str(key): row for row, key in enumerate(pool.frame["question"])}
    known = np.array([key in place for key in plan.order], dtype=bool)
    rows = np.array([place[key] for key in plan.order if key in place], dtype=np.int64)
    ends = tuple(int(known[:end].sum()) for end in interim_ends(len(plan.order), plan.looks))
    columns = [_values(run, setting, name, rows, ends, options) for name in run.rewarders]
    values = np.stack([value for value, _ in columns], axis=1)
    vote = setting.vote[0][rows]
    test = interim_test(values, vote, ends, plan.what, 1 - options.level)
    counts = tuple(count for _, count in columns)
    return Interim(plan, pool, run.rewarders, rows, ends, counts, values, vote, test)


def _values(
    run: Run, setting: Setting, rewarder: str, rows: Ints, ends: tuple[int, ...], options: Options
) -> tuple[Floats, int]:
    """Return the values (Q) of a rewarder's choices, NaN from the first unjudged question on."""
    values = np.full(len(rows), np.nan)
    judgements = opinion(run, setting.pool.located, rewarder)
    if judgements is None:
        return values, 0
    rules = [rule for rule in rules_for(judgements.kind) if rule.judged]
    rules = [rule for rule in rules if not options.rules or rule.name in options.rules]
    trial = setting.trial
    for end in reversed(ends):
        inside = np.zeros(len(trial.candidates.items), dtype=bool)
        inside[rows[:end]] = True
        asked = np.flatnonzero(inside & ~trial.indifferent)
        for rule in sorted(rules, key=lambda rule: RULES[rule.name].rank):
            replayed = judged(
                rule, judgements.select_questions(asked), trial.select_questions(asked), run.design
            )
            if replayed is not None and trial.n in replayed.ns:
                by_question = trial.golds[0].mean(axis=1)
                by_question[asked] = replayed.values[0][:, replayed.ns.index(trial.n)]
                values[:end] = by_question[rows[:end]]
                return values, end
    return values, 0


# ------------------------------------------------------------------ results


def decided(run: Run, interims: dict[str, Interim], level: float) -> tuple[Decided, ...]:
    """Summarise the interim analyses of each policy."""
    return tuple(_decided(run, policy, interim, level) for policy, interim in interims.items())


def _decided(run: Run, policy: str, interim: Interim, level: float) -> Decided:
    rewarders = [_rewarder(run, interim, place) for place in range(len(interim.rewarders))]
    if interim.plan.what == "best" and interim.test.over:
        left = [k for k, rewarder in enumerate(rewarders) if rewarder.state == "in"]
        if len(left) == 1 and len(rewarders) > 1:
            rewarders[left[0]] = rewarders[left[0]].model_copy(update={"state": "best"})
    calls, calls_all = sum(r.calls for r in rewarders), sum(r.calls_all for r in rewarders)
    return Decided(
        policy=policy,
        decide=interim.plan.what,
        looks=len(interim.ends),
        taken=interim.test.taken,
        over=interim.test.over,
        level=level,
        num_questions=len(interim.rows),
        rewarders=tuple(rewarders),
        calls=calls,
        calls_all=calls_all,
        sentence=_sentence(policy, interim, rewarders, f"{calls:,} of about {calls_all:,} calls"),
        caveat=CAVEAT,
    )


def _rewarder(run: Run, interim: Interim, place: int) -> DecidedRewarder:
    name, count = interim.rewarders[place], interim.judged[place]
    outcome = interim.test.outcomes[place]
    questions = interim.ends[outcome.look - 1] if outcome.look else 0
    calls = int((interim.pool.located.places[run.candidates[name].first] >= 0).sum())
    low, high = None, None
    if outcome.difference is not None and outcome.half_width is not None:
        low = outcome.difference - outcome.half_width
        high = outcome.difference + outcome.half_width
    against = "majority vote"
    if interim.plan.what == "best":
        against = "" if outcome.against is None else interim.rewarders[outcome.against]
    return DecidedRewarder(
        rewarder=name,
        state=outcome.state,
        look=outcome.look,
        questions=questions,
        against=against,
        difference=estimate(outcome.difference, low, high, questions, "looks"),
        calls=calls,
        calls_all=round(calls * len(interim.rows) / count) if count else calls,
    )


def _sentence(policy: str, interim: Interim, rewarders: list[DecidedRewarder], calls: str) -> str:
    def with_state(*states: str) -> list[str]:
        return [rewarder.rewarder for rewarder in rewarders if rewarder.state in states]

    cost = f"after {interim.test.taken} of {len(interim.ends)} interim analyses and {calls}"
    if not interim.test.over:
        return f"On {policy} the interim analyses are not complete: {cost}."
    if interim.plan.what == "best":
        best, dropped = with_state("best"), len(with_state("dropped"))
        if best:
            return f"{best[0]} chooses best for {policy}, {cost}: all others are worse."
        return (
            f"{names(with_state('best', 'in'))} cannot be distinguished on {policy}, {cost}; "
            f"{dropped} of {len(rewarders)} rewarders {'was' if dropped == 1 else 'were'} dropped."
        )
    above, below, unclear = with_state("above"), with_state("below"), with_state("in")
    parts = [f"{len(above)} of {len(rewarders)} rewarders beat majority vote on {policy}"]
    parts[0] += f" ({names(above)})" if above else ""
    if below:
        parts.append(f"{names(below)} {'does' if len(below) == 1 else 'do'} worse")
    if unclear:
        verb = "is" if len(unclear) == 1 else "are"
        parts.append(f"{names(unclear)} {verb} not distinguished from it")
    return f"{', '.join(parts)}, {cost}."
