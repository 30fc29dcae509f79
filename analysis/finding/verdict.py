"""The verdict by fixed rules, with its support, caveats and what would change it.

- `predicts`: the lower bound of r is above .5, p ≤ .05, and there is no objection: eight rewarders
  or more, strong evidence for one line against a few groups of unrelated rewarders, no rewarder
  and no family carries r, it holds within the better half, and there are enough base models for an
  interval.
- `weak`: p ≤ .05 and the interval is above zero, but r is lower or there is an objection; without
  an interval because of shared base models, if the interval of r within families is above zero.
- `does not predict`: the upper bound of r is below .5.
- `cannot tell`: anything else; above all, too few rewarders.

Over several policies the least favourable verdict holds.
"""

from collections.abc import Sequence

from bon.analysis.correlation.robustness import ALPHA, STRONG, without
from bon.analysis.estimators.baselines import ON_PAIRS
from bon.analysis.results import (
    ENOUGH_BASES,
    ENOUGH_REWARDERS,
    STRONG_EVIDENCE,
    BenchmarkResult,
    BestOfN,
    BetterHalf,
    Correlation,
    Finding,
    Groups,
    Needed,
    Pooled,
    StudyProtocol,
    Verdict,
)
from bon.analysis.results.phrasing import (
    bounded,
    coefficient,
    evidence,
    names,
    plural,
    share,
)
from bon.core.base_models import GUESSED

FEW = 5
ORDER: tuple[Verdict, ...] = ("predicts", "weak", "cannot tell", "does not predict")

LEADS: dict[Verdict, str] = {
    "predicts": "Yes: {benchmark} predicts which rewarder picks better answers for {policy}",
    "weak": "Perhaps: {benchmark} is associated with better choices for {policy}, but the evidence "
    "is weak",
    "does not predict": "No: {benchmark} does not predict which rewarder picks better answers "
    "for {policy}",
    "cannot tell": "This study cannot tell whether {benchmark} predicts which rewarder picks "
    "better answers for {policy}",
}

REVERSE = (
    "No: rewarders that score higher on {benchmark} pick worse answers for {policy}, which is the "
    "reverse of a prediction"
)
WORDS: dict[Verdict, str] = {
    "predicts": "yes",
    "weak": "perhaps",
    "does not predict": "no",
    "cannot tell": "cannot tell",
}


def verdict(c: Correlation) -> Verdict:
    """Return the verdict on one correlation."""
    r = c.pearson.estimate
    if r.value is None or c.num_rewarders < FEW or c.too_leaked:
        return "cannot tell"
    if r.low is None or r.high is None:
        one_line = c.groups is None or not c.groups.withholds
        inside = c.families.within.low if c.families is not None and one_line else None
        return "weak" if r.value > 0 and (inside or 0) > 0 else "cannot tell"
    p = c.pearson.p_value
    if r.low > 0 and p is not None and p <= ALPHA:
        return "predicts" if r.low > STRONG and not objections(c) else "weak"
    return "does not predict" if r.high < STRONG else "cannot tell"


def find(
    correlations: list[Correlation],
    pooled: list[Pooled],
    best: list[BestOfN],
    needed: list[Needed],
    protocol: StudyProtocol | None,
    *,
    overlap: str = "",
    differing: Sequence[str] = (),
) -> Finding:
    """Write the finding of a run (or, without `best`, of a published table).

    overlap: a caveat if most of one axis is also on the other, else empty. differing: what holds on
    each of several tasks.
    """
    primary = [c for c in correlations if c.primary]
    if not primary:
        return Finding(
            verdict="cannot tell",
            sentence="No correlation: this needs rewarders judged on both a reward benchmark and "
            "the candidates of a policy.",
            would_change=("At least three rewarders judged on both, better ten, would give one.",),
        )
    verdicts = [verdict(c) for c in primary]
    worst = max(verdicts, key=ORDER.index)
    c = primary[verdicts.index(worst)]
    policies = [p.policy for p, v in zip(primary, verdicts, strict=True) if v == worst]
    high = c.pearson.estimate.high
    reverse = worst == "does not predict" and high is not None and high < 0
    lead = (REVERSE if reverse else LEADS[worst]).format(
        benchmark=c.benchmark or "the benchmark", policy=names(policies)
    )
    numbers = c.pearson.read
    if c.pearson.estimate.value is not None:
        numbers = evidence(c.pearson, c.num_rewarders, c.families)
    others = [
        f"{p.policy}: {WORDS[v]}, r = {bounded(p.pearson.estimate)}."
        for p, v in zip(primary, verdicts, strict=True)
        if p is not c
    ]
    return Finding(
        verdict=worst,
        sentence=f"{lead} ({numbers.rstrip('.')}).",
        support=tuple(others + _support(c, worst, pooled)),
        caveats=(
            *filter(None, [overlap, *differing]),
            *([] if _ranks_agree(c, worst) else _ranks(c)),
            *_caveats(c, correlations, best, protocol),
        ),
        would_change=tuple(_would_change(c, worst, needed)),
        policy=c.policy,
        benchmark=c.benchmark,
        axis=c.axis,
    )


# ------------------------------------------------------------------ objections


def objections(c: Correlation) -> list[str]:
    """List what rules out a yes; each of these alone is enough."""
    reasons = [c.too_leaked] if c.too_leaked else []
    if c.num_rewarders < ENOUGH_REWARDERS:
        reasons.append(
            f"A yes needs at least {ENOUGH_REWARDERS} rewarders: fewer cannot tell one line from "
            "a few groups."
        )
    unknown = [p.rewarder for p in c.points if not p.family]
    if unknown:
        reasons.append(
            f"The base model of {names(unknown)} is unknown: a yes needs every rewarder's, since "
            "rewarders with one base model err alike. Add it as `family` to the table or the card."
        )
    if c.groups is not None and not c.groups.one_line:
        reasons.append(_groups(c.groups))
    if c.carried_by is not None:
        reasons.append(c.influence_sentence)
    if c.better_half is not None and not c.better_half.holds:
        reasons.append(_within_better_half(c.better_half))
    if c.carried_by_family is not None:
        family = next(x for x in c.leave_family_out if x.left_out == c.carried_by_family)
        reasons.append(without(f"the family {family.left_out}", c.pearson.estimate.value, family))
    if c.families is not None and not c.families.enough:
        reasons.append(c.families.sentence)
    return reasons


def _groups(g: Groups) -> str:
    """Name the groups that may produce r, but for the largest."""
    largest = max(g.groups, key=len)
    apart = [names(list(group)) for group in g.groups if group is not largest]
    account = f"{len(g.groups)} separate groups: {'; '.join(apart)}; the other {len(largest)}"
    if g.withholds:
        return (
            f"Instead of one line, the rewarders form {account}. r depends on how many each group "
            f"holds and has no interval."
        )
    difference = f"{g.bic_difference:+.1f}".replace("-", "−")
    return (
        f"One line does not explain the points much better (BIC {difference}; a yes needs "
        f"+{STRONG_EVIDENCE:.0f}) than {account}."
    )


def _within_better_half(half: BetterHalf) -> str:
    text = f"Among the top {half.num_rewarders} rewarders, r is {bounded(half.pearson)}"
    if half.expected is not None:
        text += f"; range restriction alone predicts {coefficient(half.expected)}"
    return f"{text}."


def reversed_scores(benchmarks: Sequence[BenchmarkResult]) -> list[str]:
    """Name the rewarders that prefer the worse response more often than chance.

    By the interval of the accuracy on pairs that they decide, so that no unread reply counts.
    """
    lines = []
    for b in benchmarks:
        decided = (t.overall for t in b.sensitivity if t.treatment == "drop")
        right = next(decided, b.overall)
        if b.rewarder not in ON_PAIRS and right.high is not None and right.high < 0.5:
            lines.append(
                f"{b.rewarder} is right on {share(right, 0)} of the pairs of {b.benchmark}, less "
                "than chance: it is probably reversed."
            )
    return lines


# ------------------------------------------------------------------ support, caveats


def _ranks(c: Correlation) -> list[str]:
    if c.spearman.estimate.value is None:
        return []
    spearman, kendall = bounded(c.spearman.estimate), bounded(c.kendall.estimate)
    return [f"By ranks: Spearman {spearman}, Kendall {kendall}."]


def _ranks_agree(c: Correlation, outcome: Verdict) -> bool:
    """Whether Spearman's coefficient is on the side of the verdict."""
    value = c.spearman.estimate.value or 0.0
    return value > 0 if outcome in ("predicts", "weak") else value < STRONG


def _support(c: Correlation, outcome: Verdict, pooled: list[Pooled]) -> list[str]:
    reasons = _ranks(c) if _ranks_agree(c, outcome) else []
    a = c.agreement
    if a is not None and a.agreement.value is not None:
        text = (
            f"The benchmark orders two rewarders as Best-of-N does in {share(a.agreement, 0)} of "
            f"{a.num_pairs} pairs"
        )
        if a.num_separable and a.agreement_separable.value is not None:
            text += (
                f", and in {share(a.agreement_separable, 0)} of the {a.num_separable} that both "
                "axes distinguish"
            )
        reasons.append(f"{text}.")
    if c.influence_sentence and c.carried_by is None:
        reasons.append(c.influence_sentence)
    if c.reliability and c.reliability.ceiling.value is not None:
        reasons.append(
            f"Measurement noise caps r at {coefficient(c.reliability.ceiling.value)}; corrected "
            f"for it, r is {bounded(c.reliability.disattenuated)}."
        )
    half = c.better_half
    if half is not None and half.holds and not half.weaker and outcome in ("predicts", "weak"):
        reasons.append(_within_better_half(half))
    if c.families is not None and c.families.enough:
        reasons.append(c.families.sentence)
    return reasons + [p.sentence for p in pooled if p.axis == c.axis and p.leaks == c.leaks]


def _caveats(
    c: Correlation,
    correlations: list[Correlation],
    best: list[BestOfN],
    protocol: StudyProtocol | None,
) -> list[str]:
    reasons = objections(c)
    if c.better_half is not None and c.better_half.holds and c.better_half.weaker:
        reasons.append(_within_better_half(c.better_half))
    guessed = [f"{p.rewarder} ({p.family})" for p in c.points if p.family.endswith(GUESSED)]
    if guessed:
        reasons.append(
            f"Base models are guessed from names: {names(guessed)}. State them as `family`."
        )
    other, word = ("in", "With") if c.leaks == "out" else ("out", "Without")
    key = (c.policy, c.benchmark, c.axis, c.n, other)
    reasons += [
        f"{word} leaked questions and pairs, r is {bounded(x.pearson.estimate)}."
        for x in correlations
        if (x.policy, x.benchmark, x.axis, x.n, x.leaks) == key
        and x.pearson.estimate.value is not None
    ]
    rows = [b for b in best if b.policy == c.policy and b.headline and b.rule != "baseline"]
    if any(b.verdict_versus_majority in ("below", "unclear") for b in rows):
        reasons.append(standings(rows))
    falls = [b.rewarder for b in rows if b.over_optimised]
    if falls:
        reasons.append(f"Accuracy falls as n grows under {names(falls)}.")
    return reasons + list(protocol.differences if protocol is not None else ())


def standings(rows: Sequence[BestOfN]) -> str:
    """Count the rewarders above, near and below majority vote, and name those below."""
    if not rows:
        return ""
    above, unclear, below = (
        [b.rewarder for b in rows if b.verdict_versus_majority == v]
        for v in ("above", "unclear", "below")
    )
    worse = f"{len(below)} {'is' if len(below) == 1 else 'are'} worse ({names(below)})"
    return (
        f"{len(above)} of {plural(len(rows), 'rewarder')} beat majority vote, {len(unclear)} "
        f"cannot be told from it and {worse if below else 'none is worse'}."
    )


def _would_change(c: Correlation, worst: Verdict, needed: list[Needed]) -> list[str]:
    enough = c.families is None or c.families.enough
    of = "" if enough else f" from at least {ENOUGH_BASES} known base models"
    strong = coefficient(STRONG)
    criterion = (
        "strong evidence for one line, which holds without any single rewarder or family and "
        "within the top half"
        if objections(c)
        else f"a lower bound of r above {strong}"
    )
    sentences: dict[Verdict, str] = {
        "predicts": "It would no longer hold if a few groups explained it as well, if one rewarder "
        f"or family carried it, or if the lower bound of r fell to {strong}.",
        "weak": f"A yes needs more rewarders{of}, from weak to strong, and {criterion}.",
        "does not predict": "It would no longer hold if more rewarders gave an interval of r that "
        f"reaches above {strong}.",
        "cannot tell": c.too_leaked
        or f"A study of more than {c.num_rewarders} rewarders could tell: over these, "
        "the interval of r is too wide, or there is none.",
    }
    key = (c.policy, c.benchmark)
    return [sentences[worst], *(x.sentence for x in needed if (x.policy, x.benchmark) == key)]
