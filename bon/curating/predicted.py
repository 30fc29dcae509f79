"""prediction.json: how well the benchmark predicts Best-of-N, where its items do not reach."""

from typing import Literal

from bon.analysis.results import Point
from bon.analysis.results.phrasing import bounded, coefficient, interval, lost, percent
from bon.analysis.results.record import Estimate, Record

Fresh = Literal["held-out", "other run", "same questions"]
"""Which questions: held out of the run the items are from, of another run, or the items' own."""


class Predicted(Record):
    """One reward benchmark against the Best-of-n accuracy of one policy, over the rewarders.

    `loss`: what choosing the rewarder by the benchmark loses in accuracy; `agreement`: share of
    pairs of rewarders in the same order on both; `evidence` says r with what its interval, or the
    lack of one, rests on. `points` are the rewarders: accuracy on the benchmark, and Best-of-n.
    """

    run: str
    policy: str
    fresh: Fresh
    questions: int
    n: int
    benchmark: str
    axis: str
    rewarders: int
    pearson: Estimate
    spearman: Estimate
    agreement: Estimate | None
    loss: Estimate | None
    picks: tuple[str, ...]
    evidence: str
    points: tuple[Point, ...]


class Difference(Record):
    """One r minus another, of these rewarders: questions and items were resampled."""

    run: str
    policy: str
    fresh: Fresh
    benchmark: str
    axis: str
    minus: str
    difference: Estimate


class BenchmarkPrediction(Record):
    """The benchmark beside the standing one.

    `drops`: r on the questions of its own items minus r on held-out ones. `beside`: r of the new
    benchmark minus r of the standing one on the same questions. `left_out`: rewarders that
    filtered the items, and their families. `unjudged`: items that rewarders lack.
    """

    bon: str
    benchmark: str
    seed: int
    items: int
    pairs: int
    left_out: tuple[str, ...]
    unjudged: tuple[tuple[str, int], ...]
    predicted: tuple[Predicted, ...]
    drops: tuple[Difference, ...]
    beside: tuple[Difference, ...]
    sentences: tuple[str, ...] = ()


def sentences_of(found: BenchmarkPrediction) -> tuple[str, ...]:
    """What came out, for every policy and set of questions that the items are not about."""
    said = []
    for one in found.predicted:
        new = one.benchmark == found.benchmark and one.axis == "overall"
        if not new or one.fresh == "same questions":
            continue
        kind = "held-out questions" if one.fresh == "held-out" else "questions"
        text = f"{one.policy}, {one.questions} {kind} of {one.run}: {found.benchmark} has "
        text += one.evidence
        if one.loss is not None:
            text += f"; choosing by it loses {lost(one.loss)}"
        for other in found.beside:
            if (other.run, other.policy, other.fresh) == (one.run, one.policy, one.fresh):
                text += _against(other, found)
        said.append(f"{text}.")
        for drop in found.drops:
            here = (one.run, one.policy, one.benchmark, one.axis)
            if one.fresh == "held-out" and here == _about(drop):
                by = drop.difference
                said.append(
                    f"On the questions of its own items its r is {_higher(by)}{interval(by)}."
                )
    return tuple(said)


def _about(one: Difference) -> tuple[str, str, str, str]:
    return one.run, one.policy, one.benchmark, one.axis


def _against(one: Difference, found: BenchmarkPrediction) -> str:
    where = (one.run, one.policy, one.fresh, one.minus)
    standing = next(p for p in found.predicted if (p.run, p.policy, p.fresh, p.benchmark) == where)
    text = f". {one.minus} has r = {bounded(standing.pearson)} there"
    if standing.loss is not None:
        text += f" and loses {lost(standing.loss)}"
    by = one.difference
    if by.low is None or by.high is None:
        return text
    text += f": the new one's r is {_higher(by)}{interval(by)}"
    return text + (", which is no clear difference" if by.low <= 0 <= by.high else "")


def _higher(by: Estimate) -> str:
    value = by.value or 0.0
    return f"{coefficient(abs(value))} {'higher' if value >= 0 else 'lower'}"


def prediction_text(found: BenchmarkPrediction) -> str:
    """A table for a person, and the sentences."""
    head = f"{'run':<16}{'policy':<18}{'questions':<20}{'benchmark':<32}{'r':<20}{'rho':<20}"
    lines = [f"{head}{'agreement':<11}loss"]
    for one in found.predicted:
        questions = f"{one.questions} {one.fresh}"
        name = f"{one.benchmark} ({one.axis})"
        row = f"{one.run:<16}{one.policy:<18}{questions:<20}{name:<32}"
        row += f"{bounded(one.pearson):<20}{bounded(one.spearman):<20}"
        agreed = percent(one.agreement.value, 0) if one.agreement else "unknown"
        lines.append(f"{row}{agreed:<11}{lost(one.loss) if one.loss else 'unknown'}")
    lines += ["", *found.sentences]
    if found.left_out:
        lines.append(
            f"Not ranked, for they filtered the items or share a base: {', '.join(found.left_out)}."
        )
    if found.unjudged:
        lacking = ", ".join(f"{name} {count}" for name, count in found.unjudged)
        lines.append(f"Items without a verdict are left out of a rewarder's score: {lacking}.")
    lines.append("Differences of r are of these rewarders: questions and items were resampled.")
    return "\n".join(lines)
