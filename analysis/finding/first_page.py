"""The first page of the report: what to take, whether the benchmark predicts, how sure that is.

It selects from the recommendation, the finding and the plan of a larger study.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bon.analysis.decision.recommend import (
    amount,
    best_of,
    free_rule,
    over_majority,
    recommend,
)
from bon.analysis.finding.verdict import WORDS, answer, reversed_scores, strength
from bon.analysis.results import (
    Estimate,
    RankBand,
    Recommendation,
    Recommended,
    Results,
    Verdict,
)
from bon.analysis.results.phrasing import (
    gained,
    names,
    percent,
    scaled,
    share,
)
from bon.core.errors import BonError

UNDECIDED = ("probably", "perhaps", "cannot tell")
MAX_CAVEAT = 20
"""Words of a caveat that fits on the first page; longer ones stand under “How sure is this?”."""


@dataclass(frozen=True)
class FirstPage:
    """Sentences of the first page; `pick` is what `choice` names, empty sentences are left out."""

    pick: str
    choice: str
    because: str
    answer: str = ""
    strength: str = ""
    to_trust: str = ""
    caveat: str = ""
    advice: Recommendation | None = None


def first_page(results: Results) -> FirstPage:
    """Answer a run's questions in a few words."""
    advice = advise(results)
    caveat = _caveat(results, advice)
    pick, choice, because = _choice(results, advice)
    v = next(iter(results.verdicts), None)
    if v is None or v.benchmark != (results.finding.benchmark or ""):
        if not results.main:
            return FirstPage(pick, choice, because, caveat=caveat or results.finding.sentence)
        reason = results.finding.sentence.partition(": ")[2]
        return FirstPage(pick, choice, because, WORDS["cannot tell"], reason, "", caveat, advice)
    return FirstPage(
        pick, choice, because, answer(v), f"{strength(v)}.", _to_trust(results, v), caveat, advice
    )


def advise(results: Results) -> Recommendation | None:
    """Return what `bon recommend` says of this run alone; None where no rewarder chose."""
    try:
        return recommend([(results.run.name or "run", results)])
    except BonError:
        return None


def _choice(results: Results, advice: Recommendation | None) -> tuple[str, str, str]:
    """Return the pick, the sentence that recommends it, and why."""
    if not results.policies:
        return _highest(results)
    scope = _mean_of(results)
    if advice is None:
        free, accuracy = free_rule([(results.run.name, results)])
        return free, f"Use {free}: {_right(accuracy)}, {scope}at no cost.", ""
    best, free = advice.rewarders[0], advice.free
    if advice.pick is None:
        why = best_of(len(advice.rewarders), best.rewarder, advice.over_free)
        kept = f"Nothing beats {free} here: {_right(advice.free_accuracy)}, {scope}at no cost."
        return free, kept, _sentence(why) if len(advice.rewarders) > 1 else why
    best = next(r for r in advice.rewarders if r.rewarder == advice.pick)
    cost = "" if best.cost is None else f"{amount(best.cost, advice.unit)} per question"
    terms = ", ".join(filter(None, (scope.removesuffix(", "), cost)))
    picked = (
        f"{gained(advice.over_free)}{'' if free == 'majority vote' else f' over {free}'} "
        "corrected for picking it among"
    )
    rivals = _rivals(advice.rewarders, picked)
    choice = (
        f"Take {best.rewarder}: {gained(over_majority(results)[best.rewarder])} over majority vote."
    )
    return best.rewarder, choice, _sentence("; ".join(filter(None, (terms, rivals))))


def _sentence(text: str) -> str:
    """Return the text as a sentence."""
    return text and f"{text[0].upper()}{text[1:].removesuffix('.')}."


def _right(accuracy: Estimate) -> str:
    """Return 72.0% right [66.1, 78.2]."""
    return scaled(accuracy, unit="% right")


def _mean_of(results: Results) -> str:
    """Say over which policies and tasks an accuracy is a mean, where there are several."""
    policies, tasks = [p.policy for p in results.policies], list(results.run.downstream)
    parts = [f"mean of {names(sorted(policies))}"] if len(policies) > 1 else []
    parts += [f"over {names(tasks)}"] if len(tasks) > 1 else []
    return f"{' '.join(parts)}, " if parts else ""


def _rivals(
    rewarders: Sequence[RankBand | Recommended], lead: str = "It is the most accurate of"
) -> str:
    """Compare the first with the others; nothing where it is the only one."""
    if len(rewarders) == 1:
        return ""
    rivals = sum(r.first == 1 for r in rewarders) - 1
    return f"{lead} {len(rewarders)} rewarders; " + (
        f"{rivals} {'is' if rivals == 1 else 'are'} tied with it."
        if rivals > 0
        else "all others are distinguishably worse."
    )


def _highest(results: Results) -> tuple[str, str, str]:
    """Name the most accurate rewarder on the first benchmark of a run without responses."""
    rewarders = {r.rewarder for r in results.rewarders if not r.baseline}
    rows = [b for b in results.benchmarks if b.rewarder in rewarders and b.macro.value is not None]
    if not rows:
        return "", "There are no answers to choose among.", ""
    name = rows[0].benchmark
    best = max((b for b in rows if b.benchmark == name), key=lambda b: b.macro.value or 0.0)
    bands = [r for r in results.ranks if r.benchmark == name]
    return (
        best.rewarder,
        f"{best.rewarder} scores highest on {name}: {share(best.macro)}.",
        _rivals(bands) if bands else "",
    )


def _to_trust(results: Results, v: Verdict) -> str:
    """Return what a larger study would say."""
    if v.word not in UNDECIDED:
        return "Nothing more for models like these."
    plan = next((n for n in results.needed if n.benchmark == v.benchmark), None)
    if plan is None:
        return ""
    if not plan.best:
        return "No larger study of such rewarders would say more."
    now, best = plan.rows[:2]
    rates = [percent(rate, 0) for row in (best, now) for rate in (row.probably, row.no)]
    return (
        f"{plan.best}: {rates[0]} of such studies say Probably or Yes, {rates[1]} No "
        f"(like this one: {rates[2]}, {rates[3]})."
    )


def _caveat(results: Results, advice: Recommendation | None) -> str:
    """Return the caveat that matters most and that the leaderboard does not say."""
    best = advice.rewarders[0] if advice is not None else None
    late = [
        b.rewarder
        for b in results.best_of_n
        if best and b.headline and b.over_optimised and b.rewarder == best.rewarder
    ]
    if late:
        return f"Accuracy of {names(late)} falls as n grows."
    leaked = results.leaks.num_questions / max(results.counts.questions, 1)
    if leaked >= 0.5:
        return f"{percent(leaked, 0)} of the questions are also in the reward benchmark."
    if turned := reversed_scores(results.benchmarks):
        return turned[0]
    fits = [x for x in results.finding.caveats if len(x.split()) <= MAX_CAVEAT]
    return next((x for x in fits if "leaked" not in x and "majority vote" not in x), "")
