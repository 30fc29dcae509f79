"""What looks settled of a run's rewarders, from what was judged; and how that is said.

Deterministic: the same judgements settle the same, so a run that was killed goes on as if it had
not been, and a report says what the run did.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bon.analysis.data.arrays import Pool, Run, ToDecide, opinion
from bon.analysis.decision.settling import Looked, ends_of, look
from bon.analysis.estimators.replay import Setting, judged
from bon.analysis.estimators.resampling import estimate
from bon.analysis.results import Decided, DecidedRewarder, Options
from bon.analysis.results.phrasing import names
from bon.choosing.rules import RULES, rules_for

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

CAVEAT = (
    "r is not reported: looks stop judging where rewarders differ most, and those are the points "
    "that make r. Accuracies are conditional on what was settled: of rewarders settled early they "
    "are estimated from the questions judged until then, and the ones that stayed look better, the "
    "others worse, than on new questions. Only the differences in the table of what was settled "
    "have intervals that allow for the looks."
)


@dataclass(frozen=True)
class InLooks:
    """Rewarders on one policy's questions in the order of asking, and what looks made of it.

    `rows` (Q) are the pool's questions in that order, `ends` those up to each look. `judged` (R):
    how many of them each rewarder was judged on without a gap, `values` (Q, R) what its choices are
    worth there, `vote` (Q) what majority vote's are.
    """

    asked: ToDecide
    pool: Pool
    rewarders: tuple[str, ...]
    rows: Ints
    ends: tuple[int, ...]
    judged: tuple[int, ...]
    values: Floats
    vote: Floats
    found: Looked

    def sample(self, rewarder: str) -> Bools | None:
        """The pool's questions that a rewarder was judged on; None where that is all of them."""
        count = self.judged[self.rewarders.index(rewarder)]
        if count == len(self.rows):
            return None
        drawn = np.zeros(len(self.rows), dtype=bool)
        drawn[self.rows[:count]] = True
        return drawn


def looked(run: Run, options: Options) -> dict[str, InLooks]:
    """By policy; nothing where the run was not to decide anything."""
    asked = run.asked_to_decide
    if asked is None:
        return {}
    return {policy: _looked(run, pool, asked, options) for policy, pool in run.pools.items()}


def _looked(run: Run, pool: Pool, asked: ToDecide, options: Options) -> InLooks:
    setting = Setting.of(pool, pool.size if options.n is None else options.n, options)
    place = {str(key): row for row, key in enumerate(pool.frame["question"])}
    known = np.array([key in place for key in asked.order], dtype=bool)
    rows = np.array([place[key] for key in asked.order if key in place], dtype=np.int64)
    ends = tuple(int(known[:end].sum()) for end in ends_of(len(asked.order), asked.looks))
    made = [_values(run, setting, name, rows, ends, options) for name in run.rewarders]
    values = np.stack([value for value, _ in made], axis=1)
    vote = setting.vote[0][rows]
    found = look(values, vote, ends, asked.what, 1 - options.level)
    upto = tuple(count for _, count in made)
    return InLooks(asked, pool, run.rewarders, rows, ends, upto, values, vote, found)


def _values(
    run: Run, setting: Setting, rewarder: str, rows: Ints, ends: tuple[int, ...], options: Options
) -> tuple[Floats, int]:
    """(Q) what a rewarder's choices are worth, NaN where it was not judged; and up to where not."""
    blank = np.full(len(rows), np.nan)
    said = opinion(run, setting.pool.located, rewarder)
    if said is None:
        return blank, 0
    rules = [rule for rule in rules_for(said.kind) if rule.judged]
    wanted = [rule for rule in rules if not options.rules or rule.name in options.rules]
    trial = setting.trial
    for end in reversed(ends):
        here = np.zeros(len(trial.about.items), dtype=bool)
        here[rows[:end]] = True
        asked = np.flatnonzero(here & ~trial.indifferent)
        for rule in sorted(wanted, key=lambda rule: RULES[rule.name].rank):
            made = judged(rule, said.on(asked), trial.on(asked), run.design)
            if made is None or trial.n not in made.ns:
                continue
            worth = trial.golds[0].mean(axis=1)
            worth[asked] = made.values[0][:, made.ns.index(trial.n)]
            blank[:end] = worth[rows[:end]]
            return blank, end
    return blank, 0


# ------------------------------------------------------------------ what is said of it


def decided(run: Run, made: dict[str, InLooks], level: float) -> tuple[Decided, ...]:
    """One a policy, for the results."""
    return tuple(_decided(run, policy, one, level) for policy, one in made.items())


def _decided(run: Run, policy: str, one: InLooks, level: float) -> Decided:
    rewarders = [_rewarder(run, one, place) for place in range(len(one.rewarders))]
    if one.asked.what == "best" and one.found.over:
        left = [k for k, rewarder in enumerate(rewarders) if rewarder.state == "in"]
        if len(left) == 1 and len(rewarders) > 1:
            rewarders[left[0]] = rewarders[left[0]].model_copy(update={"state": "best"})
    return Decided(
        policy=policy,
        decide=one.asked.what,
        looks=len(one.ends),
        taken=one.found.taken,
        over=one.found.over,
        level=level,
        num_questions=len(one.rows),
        rewarders=tuple(rewarders),
        calls=sum(rewarder.calls for rewarder in rewarders),
        calls_all=sum(rewarder.calls_all for rewarder in rewarders),
        sentence=_sentence(policy, one, rewarders),
        caveat=CAVEAT,
    )


def _rewarder(run: Run, one: InLooks, place: int) -> DecidedRewarder:
    name, settled, count = one.rewarders[place], one.found.each[place], one.judged[place]
    at = one.ends[settled.look - 1] if settled.look else 0
    asked = one.pool.located.places[run.candidates[name].first]
    calls = int((asked >= 0).sum())
    low, high = None, None
    if settled.difference is not None and settled.reach is not None:
        low, high = settled.difference - settled.reach, settled.difference + settled.reach
    against = "majority vote"
    if one.asked.what == "best":
        against = "" if settled.against is None else one.rewarders[settled.against]
    return DecidedRewarder(
        rewarder=name,
        state=settled.state,
        look=settled.look,
        questions=at,
        against=against,
        difference=estimate(settled.difference, low, high, at, "looks"),
        calls=calls,
        calls_all=round(calls * len(one.rows) / count) if count else calls,
    )


def _sentence(policy: str, one: InLooks, rewarders: list[DecidedRewarder]) -> str:
    def those(*states: str) -> list[str]:
        return [rewarder.rewarder for rewarder in rewarders if rewarder.state in states]

    made, full = (sum(getattr(r, name) for r in rewarders) for name in ("calls", "calls_all"))
    cost = f"after {one.found.taken} of {len(one.ends)} looks and {made:,} of about {full:,} calls"
    if not one.found.over:
        return f"On {policy} the looks are not over: {cost}."
    if one.asked.what == "best":
        best, left = those("best"), those("best", "in")
        if best:
            return f"{best[0]} chooses best for {policy}, {cost}: all others are worse."
        dropped = len(those("dropped"))
        verb = "was" if dropped == 1 else "were"
        return (
            f"{names(left)} cannot be distinguished on {policy}, {cost}; {dropped} of "
            f"{len(rewarders)} rewarders {verb} dropped."
        )
    above, below, unclear = those("above"), those("below"), those("in")
    parts = [f"{len(above)} of {len(rewarders)} rewarders beat majority vote on {policy}"]
    parts[0] += f" ({names(above)})" if above else ""
    if below:
        parts.append(f"{names(below)} {'does' if len(below) == 1 else 'do'} worse")
    if unclear:
        verb = "is" if len(unclear) == 1 else "are"
        parts.append(f"{names(unclear)} {verb} not distinguished from it")
    return f"{', '.join(parts)}, {cost}."
