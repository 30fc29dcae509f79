"""Replay of every selection rule that the judgements allow, at the n of `Trial.ns` they allow.

A question whose candidates are all correct or all wrong needs no judgement: no choice changes its
accuracy. Any other missing judgement makes a rule unsupported, unless the judged questions are a
random sample of all; then it is estimated from them. What is known of every question without judge
(how many candidates are correct, whether the vote is, ...) predicts the value of a judge's choice;
the m sampled questions of N correct the prediction:

    z = f + (N / m) · (y − f) if the question was sampled, else f

with f the prediction and y the value. The mean of z estimates the mean of y, and its spread is that
of the estimate (Cassel, Särndal and Wretman 1976). So bootstrap, halves, gains and differences work
on z as they do on values, and everything stays paired.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from bon.analysis.data.arrays import Pool, Run
from bon.analysis.results import Options, RuleSupport
from bon.choosing import subsets
from bon.choosing.opinion import Bools, Floats, Ints, Opinion, no_opinion, panel
from bon.choosing.replaying import Replayed, Trial
from bon.choosing.rules import RULES, Rule, rules_for

FEWEST = 10
"""Minimum number of sampled questions to estimate from."""
PER_COVARIATE = 10
"""Sampled questions per coefficient of the prediction; with fewer, f is a mean."""


@dataclass(frozen=True)
class Drawn:
    """A random sample of questions to judge (`asked`, Q).

    `sure` (Q): questions whose value needs no judge. `covariates` (Q, K): known of every question.
    """

    asked: Bools
    sure: Bools
    covariates: Floats

    @property
    def rows(self) -> Ints:
        """Sampled questions that need a judge."""
        return np.flatnonzero(self.asked & ~self.sure)

    @property
    def enough(self) -> bool:
        """Whether the sample is large enough."""
        return len(self.rows) >= FEWEST

    def spread(self, values: Floats) -> Floats:
        """Return z (Q, C) of values (Q, C) that are known in `sure` and in `rows`."""
        z = values.copy()
        unsure = np.flatnonzero(~self.sure)
        sampled = np.searchsorted(unsure, self.rows)
        m = len(sampled)
        design = np.ones((len(unsure), 1))
        varying = self.covariates[unsure]
        varying = varying[:, np.ptp(varying, axis=0) > 1e-12]
        if m >= PER_COVARIATE * (1 + varying.shape[1]):
            design = np.concatenate([design, varying], axis=1)
        weights, _, rank, _ = np.linalg.lstsq(design[sampled], values[self.rows])
        guess = design @ weights
        # Residuals of the fitted sample are too small: correct for the lost degrees of freedom.
        residual = (values[self.rows] - guess[sampled]) * np.sqrt(m / max(m - int(rank), 1))
        guess[sampled] += len(unsure) / m * residual
        z[unsure] = guess
        return z


@dataclass(frozen=True)
class Replay:
    """Expected accuracy (Q, len(ns)) of a rewarder's choice under a rule.

    `error`: standard error from drawing subsets, None where exact. `undecided`: share of the
    `num_judged` items without a decided vote. `scale`: unit of scores that were weights; `unit`: of
    scores in a panel. `estimated`: the n at which only so many questions are judged; there
    single questions are meaningless and only the mean is an estimate.
    """

    policy: str
    rewarder: str
    rule: str
    ns: tuple[int, ...]
    values: Floats
    error: float | None = None
    undecided: float = 0.0
    num_judged: int = 0
    scale: float | None = None
    unit: float | None = None
    estimated: dict[int, int] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether the values are expectations over every subset."""
        return self.error is None

    def at(self, n: int) -> Floats:
        """Accuracy of each question (Q) when choosing among n."""
        return np.asarray(self.values[:, self.ns.index(n)])

    @cached_property
    def means(self) -> Floats:
        """Accuracy over all questions at each n (len(ns))."""
        return np.asarray(self.values.mean(axis=0))

    def mean(self, n: int) -> float:
        """Accuracy over all questions when choosing among n."""
        return float(self.means[self.ns.index(n)])

    def comparable(self, n: int) -> tuple[int, ...]:
        """Return the n estimated from the same questions as this one, or from all."""
        sizes = {self._sample_size(n), 0}
        return tuple(k for k in self.ns if self._sample_size(k) in sizes)

    def at_ends(self, n: int) -> "Replay":
        """Keep n = 1 and n."""
        kept = [self.ns.index(k) for k in sorted({1, n})]
        ns = tuple(self.ns[k] for k in kept)
        return replace(self, ns=ns, values=self.values[:, kept])

    def _sample_size(self, n: int) -> int:
        return self.estimated.get(n, 0)


@dataclass(frozen=True)
class Setting:
    """A pool to replay rules on.

    `samples`: questions (Q) drawn at random to be judged, the larger sample first.
    """

    pool: Pool
    trial: Trial
    samples: tuple[Bools, ...] = ()

    @classmethod
    def of(cls, pool: Pool, n: int, options: Options, run: Run | None = None) -> "Setting":
        """Build the setting for a headline n, with the samples that the run judged."""
        trial = Trial(pool.candidates, pool.correct, n, options.subsets, options.seed)
        samples = () if run is None else tuple(sample[pool.rows] for sample in run.samples)
        return cls(pool, trial, samples)

    def sample(self, drawn: Bools, exact: Replayed | None = None) -> Drawn:
        """Return a sample of the questions.

        `exact`: values of the rule that are known for every question at some n.
        """
        gold = self.trial.gold
        known = [gold.mean(axis=1), self.vote, self._oracle]
        if exact is not None and exact.ns[-1] > 1:
            known.append(exact.values[:, -1])
        return Drawn(drawn, self.trial.constant, np.stack(known, axis=1))

    @cached_property
    def parts(self) -> list[tuple[Ints, Trial]]:
        """Questions of each sample in which a choice changes anything, and the trial there."""
        rows = [np.flatnonzero(drawn & ~self.trial.constant) for drawn in self.samples]
        return [(part, self.trial.select_questions(part)) for part in rows]

    @cached_property
    def vote(self) -> Floats:
        """Value (Q) of the majority vote among all candidates."""
        chosen = RULES["majority"].choose(no_opinion(self.pool.candidates))
        return np.asarray((chosen * self.trial.gold).sum(axis=1))

    @cached_property
    def _oracle(self) -> Floats:
        """Chance that one of n candidates is correct (Q)."""
        return subsets.pass_at_n(self.pool.correct, (self.trial.n,))[:, 0]

    def replay(self, rewarder: str, rule: str, replayed: Replayed, **details: Any) -> Replay:
        """Label a replayed rule with the rewarder."""
        values, error = replayed.values, replayed.error
        return Replay(self.pool.policy, rewarder, rule, replayed.ns, values, error, **details)

    def lacking(self, opinion: Opinion) -> Bools:
        """(Q): judgements are missing that would matter."""
        return np.asarray(~opinion.complete & ~self.trial.constant)


def replay_opinion(
    opinion: Opinion,
    setting: Setting,
    rewarder: str,
    only: Sequence[str] = (),
    design: str = "all_pairs",
) -> tuple[list[Replay], list[RuleSupport]]:
    """Replay all rules (or `only` some) that an opinion supports, with reasons for the others."""
    replays, support = [], []
    unit = opinion.spread
    for rule in rules_for(opinion.kind):
        if not rule.judged or (only and rule.name not in only):
            continue
        replayed, estimated = _replay(rule, opinion, setting, design)
        supported = replayed is not None and setting.trial.n in replayed.ns
        if replayed is not None and supported:
            details = {
                "undecided": opinion.undecided,
                "num_judged": opinion.num_judged,
                "scale": opinion.scale if rule.scaled else None,
                "unit": unit,
                "estimated": estimated,
            }
            replays.append(setting.replay(rewarder, rule.name, replayed, **details))
            reason = _basis_text(estimated, setting)
        else:
            reason = _unsupported_text(rule, opinion, setting, design)
        support.append(
            RuleSupport(
                policy=setting.pool.policy,
                rewarder=rewarder,
                rule=rule.name,
                supported=supported,
                reason=reason,
            )
        )
    return replays, support


def _replay(
    rule: Rule, opinion: Opinion, setting: Setting, design: str
) -> tuple[Replayed | None, dict[int, int]]:
    """Replay what is known of every question, and estimate other n from samples."""
    exact = replayed = judged(rule, opinion, setting.trial, design)
    estimated: dict[int, int] = {}
    if setting.lacking(opinion).any():
        for sample in range(len(setting.samples)):
            part = _estimate(rule, opinion, setting, sample, design, exact)
            if part is not None:
                new = [n for n in part[0].ns if replayed is None or n not in replayed.ns]
                estimated.update({n: part[1][n] for n in new if n in part[1]})
                replayed = _join(replayed, part[0], new)
    return replayed, estimated


def judged(rule: Rule, opinion: Opinion, trial: Trial, design: str) -> Replayed | None:
    """Replay a rule, unless a race makes that biased.

    What a race left out depends on its verdicts, so only rules made for races may use it.
    """
    lacking = ~opinion.complete & ~trial.constant
    if design == "race" and "race" not in rule.designs and lacking.any():
        return None
    return rule.replayed(opinion, trial)


def _estimate(
    rule: Rule, opinion: Opinion, setting: Setting, sample: int, design: str, exact: Replayed | None
) -> tuple[Replayed, dict[int, int]] | None:
    trial, drawn, (rows, part) = setting.trial, setting.samples[sample], setting.parts[sample]
    sampled = setting.sample(drawn, exact)
    if not sampled.enough:
        return None
    replayed = judged(rule, opinion.select_questions(rows), part, design)
    if replayed is None:
        return None
    single = trial.gold.mean(axis=1)[:, None]
    known = np.repeat(single, len(replayed.ns), axis=1)
    known[rows] = replayed.values
    values = sampled.spread(known)
    estimated = {n: len(sampled.rows) for n in replayed.ns if n > 1}  # one needs no judge
    values[:, np.array(replayed.ns) == 1] = single
    return Replayed(replayed.ns, values, replayed.error), estimated


def _join(first: Replayed | None, second: Replayed, ns: list[int]) -> Replayed:
    """Merge both in the order of n, `ns` from the second."""
    if first is None:
        return second
    order = np.argsort([*first.ns, *ns])
    columns = [second.ns.index(n) for n in ns]
    values = np.concatenate([first.values, second.values[:, columns]], axis=1)[:, order]
    return Replayed(tuple(sorted([*first.ns, *ns])), values, first.error)


def _basis_text(estimated: dict[int, int], setting: Setting) -> str:
    if not estimated:
        return ""
    by_count: dict[int, list[int]] = {}
    for n, count in sorted(estimated.items()):
        by_count.setdefault(count, []).append(n)
    parts = [
        f"at n = {ns[0]}{f' to {ns[-1]}' if len(ns) > 1 else ''} from {count}"
        for count, ns in by_count.items()
    ]
    total = int((~setting.trial.constant).sum())
    return f"estimated {' and '.join(parts)} of {total} questions, which were drawn at random"


def _unsupported_text(rule: Rule, opinion: Opinion, setting: Setting, design: str) -> str:
    lacking = int(setting.lacking(opinion).sum())
    if not lacking:
        return f"cannot be replayed at n = {setting.trial.n}"
    total = len(setting.pool.correct)
    reason = f"needs judgements that were not made on {lacking} of {total} questions"
    if design == "race" and "race" not in rule.designs:
        reason += ": a race skips comparisons that cannot change round robin's choice"
    if setting.samples:
        count = len(setting.sample(setting.samples[-1]).rows)
        if count < FEWEST:
            reason += f" ({count} questions judged in full are too few to estimate it from)"
    return reason


def panel_opinion(members: list[Opinion]) -> Opinion:
    """Average the scores of several opinions in units of their spreads."""
    return panel(members, [member.spread for member in members]).with_scale()
