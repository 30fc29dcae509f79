"""Every selection rule that what was judged allows, replayed at every n it allows.

A question whose candidates are all right or all wrong needs no judgement: whatever is chosen,
its accuracy is the same. Everywhere else a missing judgement makes a rule unsupported, unless
the questions that were judged are a random sample of all: then it is estimated from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bon.analysis.data.arrays import Pool, Run
from bon.analysis.estimators.sampled import FEWEST, Drawn, worth
from bon.analysis.estimators.stopped_early import Early, early_of
from bon.analysis.results import Audit, Basis, Options, RuleSupport
from bon.choosing import subsets
from bon.choosing.opinion import Opinion, silence, together
from bon.choosing.replaying import Replayed, Trial
from bon.choosing.rules import RULES, Rule, rules_for

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

RACED = "a race asks only for what round robin's choice among all candidates depends on"


@dataclass(frozen=True)
class Replay:
    """What a rewarder chose under a rule: expected accuracy (Q, len(ns)) of each question.

    `unparsed` (Q): the chance that the chosen candidate has no answer, at the headline n.
    `error`: standard error from drawing subsets where it is not exact. `undecided`: share of
    what was asked (`asked`) that no vote decided. `scale`: the unit of scores that were weights.
    `estimated`: the n at which only a sample of the questions is known; there the value of a
    question means nothing by itself, and the mean of all is an estimate (see `sampled`). `audit`:
    of races that were stopped early; then that holds for the headline n (see `stopped_early`).
    """

    policy: str
    rewarder: str
    rule: str
    ns: tuple[int, ...]
    values: Floats
    unparsed: Floats
    error: float | None = None
    undecided: float = 0.0
    asked: int = 0
    scale: float | None = None
    estimated: dict[int, Basis] = field(default_factory=dict)
    audit: Audit | None = None

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
        """The n whose values rest on the same questions as those at this one, or on all."""
        basis = {self._basis(n), 0}
        return tuple(k for k in self.ns if self._basis(k) in basis)

    def _basis(self, n: int) -> int:
        return self.estimated[n].questions if n in self.estimated else 0


@dataclass(frozen=True)
class Setting:
    """Where rules are replayed: a pool, and what its candidates are looked at for.

    That is whether the chosen one is right, and whether its answer cannot be read. `samples`:
    questions (Q) that were drawn at random to be judged, the larger sample first.
    """

    pool: Pool
    trial: Trial
    samples: tuple[Bools, ...] = ()
    early: Early | None = None
    covariates: bool = True

    @classmethod
    def of(cls, pool: Pool, n: int, options: Options, run: Run | None = None) -> "Setting":
        """The headline n and the draws of an analysis, and how the run sampled what it judged."""
        golds = [pool.correct, pool.unparsed.astype(float)]
        trial = Trial(pool.candidates, golds, n, options.subsets, options.seed)
        drawn = () if run is None else tuple(sample[pool.rows] for sample in run.samples)
        early = None if run is None else early_of(run, pool)
        return cls(pool, trial, drawn, early, options.covariates)

    def sample(self, drawn: Bools, gold: int = 0, exact: Replayed | None = None) -> Drawn:
        """Some of the questions as a sample of all, for one respect of the choice.

        `exact`: what the rule is known to be worth on every question at some n.
        """
        worths = self.trial.golds[gold]
        known = [worths.mean(axis=1), self.vote[gold], self.oracle] if self.covariates else []
        if exact is not None and exact.ns[-1] > 1:
            known.append(exact.values[gold][:, -1])
        columns = np.stack(known, axis=1) if known else np.zeros((len(worths), 0))
        sure = np.asarray(worths.min(axis=1) == worths.max(axis=1))
        return Drawn(drawn, sure, columns)

    @cached_property
    def parts(self) -> list[tuple[Ints, Trial]]:
        """Of each sample the questions in which a choice changes anything, and the trial there."""
        rows = [np.flatnonzero(drawn & ~self.trial.indifferent) for drawn in self.samples]
        return [(each, self.trial.on(each)) for each in rows]

    @cached_property
    def vote(self) -> list[Floats]:
        """What majority vote among all candidates is worth (Q), in each respect."""
        chosen = RULES["majority"].choose(silence(self.pool.candidates))
        return [(chosen * gold).sum(axis=1) for gold in self.trial.golds]

    @cached_property
    def oracle(self) -> Floats:
        """Whether one of n candidates is right (Q)."""
        return np.asarray(subsets.pass_at_n(self.pool.correct)[:, self.trial.n - 1])

    def replay(self, rewarder: str, rule: str, made: Replayed) -> Replay:
        """A replayed rule under the name of who chose."""
        right, unparsed = made.values
        blank = unparsed[:, made.ns.index(self.trial.n)]
        return Replay(self.pool.policy, rewarder, rule, made.ns, right, blank, made.error)


def replay_opinion(
    said: Opinion,
    setting: Setting,
    rewarder: str,
    only: Sequence[str] = (),
    design: str = "all_pairs",
) -> tuple[list[Replay], list[RuleSupport]]:
    """All rules (or `only` some) that an opinion supports, and why others cannot be replayed."""
    n = setting.trial.n
    found, support = [], []
    for rule in rules_for(said.kind):
        if not rule.judged or (only and rule.name not in only):
            continue
        made, estimated, audit = _replayed(rule, said, setting, design)
        if made is not None and n in made.ns:
            replay = setting.replay(rewarder, rule.name, made)
            scale = said.scale if rule.scaled else None
            found.append(
                replace(
                    replay,
                    undecided=said.undecided,
                    asked=said.asked,
                    scale=scale,
                    estimated=estimated,
                    audit=audit,
                )
            )
            reason = _basis_of(estimated, audit, setting)
            support.append(_support(setting, rewarder, rule, made.ns, reason))
        else:
            reason = _why_not(rule, said, setting, design)
            support.append(_support(setting, rewarder, rule, (), reason))
    return found, support


def _replayed(
    rule: Rule, said: Opinion, setting: Setting, design: str
) -> tuple[Replayed | None, dict[int, Basis], Audit | None]:
    """What is known of every question, and estimates at those n where only samples are."""
    trial, audit = setting.trial, None
    exact = made = judged(rule, said, trial, design)
    if made is None and setting.early is not None and "race" in rule.designs:
        ended = setting.early.replayed(said, rule.certain(said, trial.golds), trial)
        made, audit = ended if ended is not None and trial.n in ended[0].ns else (None, None)
    estimated: dict[int, Basis] = {}
    for place in range(len(setting.samples)) if _lacking(said, setting) else ():
        more = _estimated(rule, said, setting, place, design, exact)
        if more is None:
            continue
        new = [n for n in more[0].ns if made is None or n not in made.ns]
        estimated.update({n: more[1][n] for n in new if n in more[1]})
        made = _joined(made, more[0], new)
    return made, estimated, audit


def judged(rule: Rule, said: Opinion, trial: Trial, design: str) -> Replayed | None:
    """A rule replayed, unless what was judged depends on what was found.

    What a race left out was chosen by what it found: rules that it is not for would be biased.
    """
    if design == "race" and "race" not in rule.designs and _lacks(said, trial).any():
        return None
    return rule.replayed(said, trial)


def _estimated(
    rule: Rule,
    said: Opinion,
    setting: Setting,
    place: int,
    design: str,
    exact: Replayed | None,
) -> tuple[Replayed, dict[int, Basis]] | None:
    trial, drawn, (rows, there) = setting.trial, setting.samples[place], setting.parts[place]
    samples = [setting.sample(drawn, gold, exact) for gold in range(len(trial.golds))]
    if not samples[0].enough:
        return None
    part = judged(rule, said.on(rows), there, design)
    if part is None:
        return None
    values, estimated = [], {}
    for gold, found, sample in zip(trial.golds, part.values, samples, strict=True):
        known = np.repeat(gold.mean(axis=1)[:, None], len(part.ns), axis=1)
        known[rows] = found
        values.append(sample.spread(known) if len(sample.rows) else known)
        if gold is trial.golds[0]:
            gains = [worth(*pair, drawn) for pair in zip(values[0].T, known.T, strict=True)]
            estimated = {
                n: Basis(questions=len(sample.rows), worth=gain)
                for n, gain in zip(part.ns, gains, strict=True)
                if n > 1  # one candidate needs no judge
            }
    for gold, found in zip(trial.golds, values, strict=True):
        found[:, np.array(part.ns) == 1] = gold.mean(axis=1)[:, None]
    return Replayed(part.ns, values, part.error), estimated


def _joined(one: Replayed | None, other: Replayed, ns: list[int]) -> Replayed:
    """Both, `ns` from the other, in the order of n."""
    if one is None:
        return other
    columns = [(n, 0, one.ns.index(n)) for n in one.ns]
    columns += [(n, 1, other.ns.index(n)) for n in ns]
    columns.sort()
    values = [
        np.stack([pair[which][:, at] for _, which, at in columns], axis=1)
        for pair in zip(one.values, other.values, strict=True)
    ]
    return Replayed(tuple(n for n, *_ in columns), values, one.error)


# ------------------------------------------------------------------ what is said of it


def _lacks(said: Opinion, trial: Trial) -> Bools:
    return np.asarray(~said.complete & ~trial.constant)


def _lacking(said: Opinion, setting: Setting) -> int:
    return int(_lacks(said, setting.trial).sum())


def _basis_of(estimated: dict[int, Basis], audit: Audit | None, setting: Setting) -> str:
    if audit is not None:
        return (
            f"{audit.stopped} races stopped early, {audit.audited} of them audited "
            f"({audit.changed} came to another outcome)"
        )
    if not estimated:
        return ""
    by_count: dict[int, list[int]] = {}
    for n, basis in sorted(estimated.items()):
        by_count.setdefault(basis.questions, []).append(n)
    parts = []
    for count, ns in by_count.items():
        at = f"n = {ns[0]}" if len(ns) == 1 else f"n = {ns[0]} to {ns[-1]}"
        parts.append(f"at {at} from {count}")
    total = int((~setting.trial.constant).sum())
    said = " and ".join(parts)
    return f"estimated {said} of {total} questions, which were drawn at random"


def _why_not(rule: Rule, said: Opinion, setting: Setting, design: str) -> str:
    lacking = _lacking(said, setting)
    if not lacking:
        return f"cannot be replayed at n = {setting.trial.n}"
    total = len(setting.pool.correct)
    reason = f"needs judgements that were not made on {lacking} of {total} questions"
    if design == "race" and "race" not in rule.designs:
        reason += f": {RACED}"
    if setting.samples:
        count = len(setting.sample(setting.samples[-1]).rows)
        if count < FEWEST:
            reason += f" ({count} questions judged in full are too few to estimate it from)"
    return reason


def _support(
    setting: Setting, rewarder: str, rule: Rule, ns: tuple[int, ...], reason: str
) -> RuleSupport:
    return RuleSupport(
        policy=setting.pool.policy,
        rewarder=rewarder,
        rule=rule.name,
        supported=bool(ns),
        ns=ns,
        reason=reason,
    )


def ensemble_opinion(members: list[Opinion], pool: Pool) -> Opinion | None:
    """Several rewarders as one, or None where one of them makes listwise choices."""
    if any(member.kind == "choices" for member in members):
        return None
    return together([member.settled(pool.constant) for member in members])
