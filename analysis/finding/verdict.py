"""The verdict in sentences, each made from the numbers that it names."""

from collections.abc import Sequence

from bon.analysis.estimators.baselines import ON_PAIRS
from bon.analysis.results import (
    HELD,
    PROBABLY,
    YES,
    BenchmarkResult,
    BestOfN,
    Correlation,
    Finding,
    Needed,
    StudyProtocol,
    Verdict,
    Word,
)
from bon.analysis.results.phrasing import (
    bounded,
    chance,
    names,
    percent,
    plural,
    share,
)
from bon.analysis.verdict.verdict import FEWEST
from bon.core.base_models import GUESSED

WORDS: dict[Word, str] = {
    "yes": "Yes",
    "probably": "Probably",
    "perhaps": "Perhaps",
    "no": "No",
    "weak": "No, weak",
    "reverse": "No, reverse",
    "cannot tell": "Cannot tell",
}
CLAIMS: dict[Word, str] = {
    "yes": "{benchmark} predicts which rewarder picks better answers{policies}",
    "probably": "{benchmark} predicts which rewarder picks better answers{policies}",
    "perhaps": "rewarders that score higher on {benchmark} pick better answers{policies}, but one "
    "line with r > .5 is not established",
    "no": "{benchmark} does not predict which rewarder picks better answers{policies}",
    "weak": "{benchmark} hardly predicts which rewarder picks better answers{policies}: r is above "
    "0 and below .5",
    "reverse": "rewarders that score higher on {benchmark} pick worse answers{policies}",
    "cannot tell": "this study cannot tell whether {benchmark} predicts which rewarder picks "
    "better answers{policies}",
}


def answer(v: Verdict) -> str:
    """Return the word with its probability: Yes (97%), or Perhaps (yes: 56%)."""
    word = WORDS[v.word]
    if v.word in ("yes", "probably"):
        return f"{word} ({chance(v.p_yes)})"
    if v.word == "reverse":
        return f"{word} ({chance(1 - v.p_positive)})"
    if v.word in ("no", "weak"):
        return f"{word} ({chance(v.p_low or 0.0)})"
    low = "" if v.p_low is None else f", no: {chance(v.p_low)}"
    return f"{word} (yes: {chance(v.p_yes)}{low})"


def strength(v: Verdict) -> str:
    """Describe r and what it is good for."""
    noise = "after measurement noise" if v.reliability_x is not None else "with unknown noise"
    size = plural(v.num_rewarders, "rewarder")
    if v.num_bases < v.num_rewarders:
        size += f" from {plural(v.num_bases, 'base model')}"
    gap = "a standard deviation" if v.gap is None else f"{percent(v.gap, 0).rstrip('%')} points"
    return (
        f"r = {bounded(v.r)} {noise} over {size}; of two {gap} apart the higher one picks better "
        f"in {chance(v.beats)}"
    )


def accounts(v: Verdict) -> str:
    """Say what else could explain the points, as the bars of page one show it."""
    return (
        f"one line {chance(v.line)}, separate groups {chance(v.groups)}, "
        f"a ceiling {chance(v.ceiling)}"
    )


def sentence_of(v: Verdict, policies: Sequence[str]) -> str:
    """Return the verdict on a benchmark in one sentence."""
    claim = CLAIMS[v.word].format(
        benchmark=v.benchmark or "the benchmark",
        policies=f" for {names(sorted(policies))}" if any(policies) else "",
    )
    return f"{answer(v)}: {claim} ({strength(v)}; {accounts(v)})."


def find(
    verdicts: Sequence[tuple[str, Verdict | None]],
    correlations: Sequence[Correlation],
    best: Sequence[BestOfN],
    needed: Sequence[Needed],
    protocol: StudyProtocol | None,
    *,
    overlap: str = "",
    differing: Sequence[str] = (),
) -> Finding:
    """Write the finding of a run (or, without `best`, of a published table).

    verdicts: by benchmark; the first leads. overlap: a caveat if most of one axis is also on the
    other, else empty. differing: what holds on each of several tasks.
    """
    if not verdicts:
        return Finding(
            verdict="cannot tell",
            sentence="No correlation: this needs several rewarders judged on both a reward "
            "benchmark and the candidates of a policy.",
            would_change=(f"At least {FEWEST} rewarders judged on both would give a verdict.",),
        )
    (benchmark, v), *others = verdicts
    rows = [c for c in correlations if c.primary and c.benchmark == benchmark]
    return Finding(
        verdict=v.word if v else "cannot tell",
        p_yes=v.p_yes if v else None,
        sentence=sentence_of(v, [c.policy for c in rows]) if v else f"Cannot tell: {_reason(rows)}",
        support=(*(_support(v, rows) if v else ()), *_others(others, correlations)),
        caveats=(
            *filter(None, [overlap, *differing]),
            *(_caveats(v) if v else ()),
            *_about_choices(rows, correlations, best, protocol),
        ),
        would_change=tuple(n.sentence for n in needed if n.benchmark == benchmark),
        benchmark=benchmark or None,
        axis=rows[0].axis if rows else None,
    )


def _reason(rows: Sequence[Correlation]) -> str:
    """Say why there is no verdict."""
    if leaked := next((c.too_leaked for c in rows if c.too_leaked), ""):
        return leaked
    fewest = min((c.num_rewarders for c in rows), default=0)
    if fewest < FEWEST:
        return (
            f"{plural(fewest, 'rewarder')} judged on both axes; a verdict takes at least {FEWEST}."
        )
    unknown = next((c.pearson.read for c in rows if c.pearson.estimate.value is None), "")
    return unknown or f"fewer than {FEWEST} rewarders were judged for every policy."


def _others(
    others: Sequence[tuple[str, Verdict | None]], correlations: Sequence[Correlation]
) -> list[str]:
    """Return the verdicts on further benchmarks."""
    sentences = []
    for benchmark, v in others:
        rows = [c for c in correlations if c.primary and c.benchmark == benchmark]
        if v is None:
            sentences.append(f"{benchmark}: cannot tell: {_reason(rows)}")
        else:
            sentences.append(sentence_of(v, [c.policy for c in rows]))
    return sentences


# ------------------------------------------------------------------ support, caveats


def _support(v: Verdict, rows: Sequence[Correlation]) -> list[str]:
    reasons = []
    for c in rows:
        where = f"{c.policy}: " if len(rows) > 1 else ""
        if c.pearson.estimate.value is not None:
            reasons.append(
                f"{where}As measured, r is {bounded(c.pearson.estimate)}, Spearman's "
                f"{bounded(c.spearman.estimate)}."
            )
    if v.reliability_x is not None and v.reliability_y is not None:
        reasons.append(
            f"{chance(v.reliability_x)} of the variance between rewarders on the benchmark and "
            f"{chance(v.reliability_y)} of that of their choices is true, the rest is noise."
        )
    if v.adjusted is not None and not _explained(v):
        reasons.append(_adjusted(v))
    if v.policies:
        low = min(v.policies, key=lambda p: p.p_yes)
        reasons.append(f"The probability of a yes is lowest for {low.policy}: {chance(low.p_yes)}.")
    return reasons


def _explained(v: Verdict) -> bool:
    """Whether a yes does not hold at equal size and other known properties."""
    return v.adjusted is not None and v.p_yes >= PROBABLY > v.adjusted.p_yes


def _adjusted(v: Verdict) -> str:
    assert v.adjusted is not None
    equal = names([name.replace("_", " ") for name in v.adjusted.covariates])
    return f"At equal {equal}, r = {bounded(v.adjusted.r)} (yes: {chance(v.adjusted.p_yes)})."


def _caveats(v: Verdict) -> list[str]:
    reasons = []
    for left in (v.weakest, v.weakest_maker):
        if left is not None and left.p_yes < PROBABLY:
            fall = f"Without {left.left_out}, the probability of a yes falls from "
            fall += f"{chance(v.p_yes)} to {chance(left.p_yes)}"
            would_be: Word = "yes" if v.p_yes >= YES else "probably"
            if left.p_yes < HELD[would_be]:
                kind = "rewarder" if left is v.weakest else "maker"
                fall += f": no single {kind} carries a {WORDS[would_be]}"
            reasons.append(f"{fall}.")
    if _explained(v):
        reasons.append(_adjusted(v))
    if v.p_low is None:
        reasons.append(
            "The counts behind these accuracies are not known, so noise could hide any "
            "correlation: they never give a no, unless r is below 0."
        )
    unknown = [p.rewarder for p in v.points if not p.family]
    if unknown:
        reasons.append(
            f"Unknown base models are taken as different from all others ({names(unknown)}): add "
            "them as `family` to the table or the card."
        )
    guessed = [f"{p.rewarder} ({p.family})" for p in v.points if p.family.endswith(GUESSED)]
    if guessed and v.guessed is not None:
        text = f"Base models are guessed from names: {names(guessed)}; state them as `family`."
        if chance(v.guessed) != chance(v.p_yes):
            text += f" Taken the other way, the probability of a yes is {chance(v.guessed)}."
        reasons.append(text)
    return reasons


def _about_choices(
    rows: Sequence[Correlation],
    correlations: Sequence[Correlation],
    best: Sequence[BestOfN],
    protocol: StudyProtocol | None,
) -> list[str]:
    reasons = []
    for c in rows:
        other, word = ("in", "With") if c.leaks == "out" else ("out", "Without")
        key = (c.policy, c.benchmark, c.axis, c.n, other)
        reasons += [
            f"{f'{c.policy}: ' if len(rows) > 1 else ''}{word} leaked questions and pairs, r is "
            f"{bounded(x.pearson.estimate)}."
            for x in correlations
            if (x.policy, x.benchmark, x.axis, x.n, x.leaks) == key
            and x.pearson.estimate.value is not None
        ]
    for policy in dict.fromkeys(c.policy for c in rows):
        choices = [b for b in best if b.policy == policy and b.headline and b.rule != "baseline"]
        where = f"{policy}: " if len(rows) > 1 else ""
        if any(b.verdict_versus_majority in ("below", "unclear") for b in choices):
            reasons.append(where + standings(choices))
        if falls := [b.rewarder for b in choices if b.over_optimised]:
            reasons.append(f"{where}Accuracy falls as n grows under {names(falls)}.")
    return reasons + list(protocol.differences if protocol is not None else ())


def reversed_scores(benchmarks: Sequence[BenchmarkResult]) -> list[str]:
    """Name the rewarders that prefer the worse response more often than chance.

    By the interval of the accuracy on pairs that they decide, so that no unread reply counts.
    """
    lines = []
    for b in benchmarks:
        right = b.decided
        if b.rewarder not in ON_PAIRS and right.high is not None and right.high < 0.5:
            lines.append(
                f"{b.rewarder} is right on {share(right, 0)} of the pairs of {b.benchmark}, less "
                "than chance: it is probably reversed."
            )
    return lines


def standings(rows: Sequence[BestOfN]) -> str:
    """Count the rewarders above, near and below majority vote, and name those below."""
    if not rows:
        return ""
    if len(rows) == 1:
        is_what = {"above": "beats", "below": "is worse than"}.get(
            rows[0].verdict_versus_majority or "", "does not differ detectably from"
        )
        return f"{rows[0].rewarder} {is_what} majority vote."
    above, unclear, below = (
        [b.rewarder for b in rows if b.verdict_versus_majority == v]
        for v in ("above", "unclear", "below")
    )
    worse = f"{len(below)} {'is' if len(below) == 1 else 'are'} worse ({names(below)})"
    return (
        f"{len(above)} of {plural(len(rows), 'rewarder')} beat majority vote, "
        f"{len(unclear)} {'is' if len(unclear) == 1 else 'are'} indistinguishable from it "
        f"and {worse if below else 'none is worse'}."
    )
