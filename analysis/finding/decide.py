"""The answer in words: a verdict by fixed rules, what supports it, what would change it.

- `predicts`: the lower bound of r is above .5, p ≤ .05, and nothing speaks against it: no small
  set of rewarders, no family and no distance between two clusters carries it, it holds within the
  better half, and the rewarders are of enough bases for an interval
  (bon/analysis/finding/objections.py).
- `weak`: p ≤ .05 and the interval is above zero, but one of the other two fails; with too few
  bases for an interval, r and the interval of r within bases are above zero; with rewarders far
  below all others, r and the interval of r among the others are.
- `does not predict`: the upper bound of r is below .5, and its interval holds.
- `cannot tell`: anything else; above all, too few rewarders.

Over several policies the least favourable verdict holds.
"""

from bon.analysis.correlation.leave_out import ALPHA, STRONG
from bon.analysis.estimators.resampling import nothing
from bon.analysis.finding.objections import enough_bases, objections, within_better_half
from bon.analysis.results import (
    ENOUGH_BASES,
    BestOfN,
    Correlation,
    Decided,
    Estimate,
    Finding,
    Needed,
    Pooled,
    StudyProtocol,
    Verdict,
)
from bon.analysis.results.phrasing import bounded, coefficient, evidence, interval, names, percent

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


def verdict(c: Correlation) -> Verdict:
    """The verdict about one correlation, by the rules above."""
    r = c.pearson.estimate
    if r.value is None or c.num_rewarders < FEW:
        return "cannot tell"
    if r.low is None or r.high is None:
        inside = c.families.within if c.families else c.apart.others if c.apart else nothing()
        return "weak" if r.value > 0 and (inside.low or 0) > 0 else "cannot tell"
    p = c.pearson.p_value
    if r.low > 0 and p is not None and p <= ALPHA:
        return "predicts" if r.low > STRONG and not objections(c) else "weak"
    if r.high < STRONG:
        return "does not predict"
    return "cannot tell"


def find(
    correlations: list[Correlation],
    pooled: list[Pooled],
    best: list[BestOfN],
    needed: list[Needed],
    protocol: StudyProtocol | None,
    *,
    overlap: str = "",
) -> Finding:
    """The finding of a run (or, without `best`, of a published table).

    overlap: what it means that most of one axis is also on the other; empty where it is not so.
    """
    primary = [c for c in correlations if c.primary]
    if not primary:
        return Finding(
            verdict="cannot tell",
            sentence="No correlation: it takes rewarders that were asked about both a reward "
            "benchmark and the candidates of a policy.",
            would_change=(
                "Three or more rewarders that are asked about both, better ten, would give one.",
            ),
        )
    verdicts = [verdict(c) for c in primary]
    worst = max(verdicts, key=ORDER.index)
    c = primary[verdicts.index(worst)]
    policies = [p.policy for p, v in zip(primary, verdicts, strict=True) if v == worst]
    lead = LEADS[worst].format(benchmark=c.benchmark or "the benchmark", policy=names(policies))
    numbers = c.pearson.read
    if c.pearson.estimate.value is not None:
        numbers = evidence(c.pearson, c.num_rewarders, c.families)
    others = [
        f"{p.policy}: {v}, r = {bounded(p.pearson.estimate)}."
        for p, v in zip(primary, verdicts, strict=True)
        if p is not c
    ]
    return Finding(
        verdict=worst,
        sentence=f"{lead} ({numbers.rstrip('.')}).",
        support=tuple(others + _support(c, pooled)),
        caveats=(*filter(None, [overlap]), *_caveats(c, correlations, best, protocol)),
        would_change=tuple(_would_change(c, worst, needed)),
        policy=c.policy,
        benchmark=c.benchmark,
        axis=c.axis,
    )


def settled_instead(decided: tuple[Decided, ...]) -> Finding:
    """Where looks settled rewarders: what they settled, and why nothing is said of r."""
    return Finding(
        verdict="cannot tell",
        sentence=" ".join(one.sentence for one in decided),
        caveats=(decided[0].caveat,),
        would_change=("A run without judging.decide judges every rewarder on every question.",),
    )


def _support(c: Correlation, pooled: list[Pooled]) -> list[str]:
    said = []
    if c.spearman.estimate.value is not None:
        said.append(
            f"By ranks: Spearman {bounded(c.spearman.estimate)}, "
            f"Kendall {bounded(c.kendall.estimate)}."
        )
    a = c.agreement
    if a is not None and a.agreement.value is not None:
        text = (
            f"The benchmark orders two rewarders as Best-of-N does in "
            f"{_share(a.agreement)} of {a.num_pairs} pairs"
        )
        if a.num_separable and a.agreement_separable.value is not None:
            text += (
                f", and in {_share(a.agreement_separable)} of the {a.num_separable} "
                "that both axes can distinguish"
            )
        said.append(text + ".")
    if c.influence_sentence and c.carried_by is None:
        said.append(c.influence_sentence)
    if c.reliability and c.reliability.ceiling.value is not None:
        said.append(
            f"With this much data, an r above {coefficient(c.reliability.ceiling.value)} is not to "
            f"be expected; corrected for that noise, r is "
            f"{bounded(c.reliability.disattenuated)}."
        )
    if c.better_half is not None and c.better_half.holds:
        said.append(within_better_half(c.better_half))
    if c.families is not None and c.families.enough:
        said.append(c.families.sentence)
    said += [p.sentence for p in pooled if p.axis == c.axis and p.leaks == c.leaks]
    return said


def _share(found: Estimate) -> str:
    """86 % (71 to 95 %)."""

    def written(value: float) -> str:
        return percent(value, 0)

    return written(found.value or 0) + interval(found, written).replace(" % to", " to")


def _caveats(
    c: Correlation,
    correlations: list[Correlation],
    best: list[BestOfN],
    protocol: StudyProtocol | None,
) -> list[str]:
    said = objections(c)
    out = next(
        (
            x
            for x in correlations
            if (x.policy, x.benchmark, x.axis, x.n) == (c.policy, c.benchmark, c.axis, c.n)
            and x.leaks == "out"
        ),
        None,
    )
    if out is not None and out.pearson.estimate.value is not None:
        said.append(f"Without leaked questions, r is {bounded(out.pearson.estimate)}.")
    mine = [b for b in best if b.policy == c.policy and b.headline and b.rule != "baseline"]
    below = [b.rewarder for b in mine if b.verdict_versus_majority == "below"]
    unclear = [b.rewarder for b in mine if b.verdict_versus_majority == "unclear"]
    if below:
        verb = "is" if len(below) == 1 else "are"
        said.append(
            f"{len(below)} of {len(mine)} rewarders {verb} worse than majority vote, which needs "
            f"no rewarder: {names(below)}."
        )
    if unclear:
        said.append(f"{len(unclear)} of {len(mine)} cannot be distinguished from majority vote.")
    falls = [b.rewarder for b in mine if b.over_optimised]
    if falls:
        said.append(f"Accuracy falls as n grows under {names(falls)}.")
    if protocol is not None:
        said += list(protocol.differences)
    return said


def _of_more_bases(c: Correlation) -> str:
    return "" if enough_bases(c) else f" of {ENOUGH_BASES} bases or more"


def _would_change(c: Correlation, worst: Verdict, needed: list[Needed]) -> list[str]:
    said = []
    if worst == "predicts":
        said.append(
            "It would no longer hold if a few rewarders or one base carried it, or if the lower "
            f"bound of r fell to {coefficient(STRONG)}."
        )
    elif worst == "weak":
        reason = (
            "kept r high whichever few of them, or whichever base, is left out, and also among "
            "the better half"
            if objections(c)
            else f"raised the lower bound of r above {coefficient(STRONG)}"
        )
        said.append(
            f"It would become a yes if more rewarders{_of_more_bases(c)}, spread between the "
            f"weakest and the strongest, {reason}."
        )
    elif worst == "does not predict":
        said.append(
            "It would no longer hold if more rewarders gave an interval of r that reaches above "
            f"{coefficient(STRONG)}."
        )
    else:
        said.append(
            f"A study of more than {c.num_rewarders} rewarders could tell: over these, the "
            "interval of r is too wide, or there is none."
        )
    said += [x.sentence for x in needed if (x.policy, x.benchmark) == (c.policy, c.benchmark)]
    return said
