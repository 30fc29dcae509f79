"""Results of decisions as text for a terminal."""

from collections.abc import Iterable, Iterator

from bon.analysis.decision.pooled_tables import pool_rows, study_rows
from bon.analysis.finding.verdict import answer
from bon.analysis.results import (
    CorrelationReport,
    MetaAnalysis,
    Recommendation,
    Recommended,
    Regraded,
    RunDifference,
)
from bon.analysis.results.calibration import (
    Calibration,
    GraderCheck,
    Requirement,
    RewarderCalibration,
)
from bon.analysis.results.phrasing import (
    bounded,
    coefficient,
    gained,
    names,
    percent,
    plural,
    share,
    short,
)
from bon.core.console import show_listing

MAX_LISTED = 20
"""Questions or responses listed; --json lists all."""


def bullets(texts: Iterable[str]) -> list[str]:
    """Indent texts as a list."""
    return [f"  - {text}" for text in texts]


def comparison_text(differences: Iterable[RunDifference]) -> str:
    """Tabulate differences by rewarder, then list changed questions, the worse ones first."""
    rows, lines = [], []
    for row in differences:
        worse = sum(change.after < change.before for change in row.changed)
        rows.append(
            {
                "policy": row.policy,
                "rewarder": row.rewarder,
                "second minus first": gained(row.difference),
                "better": len(row.changed) - worse,
                "worse": worse,
                "questions": f"{row.difference.n:,}",
            }
        )
        if row.changed:
            lines += ["", f"{row.rewarder} on {row.policy}, right before and after:"]
            changed = row.changed[:MAX_LISTED]
            lines += [f"  {c.before:4.2f}  {c.after:4.2f}  {c.id}" for c in changed]
            if more := len(row.changed) - len(changed):
                lines.append(f"  and {more:,} more (--json lists them all)")
    return "\n".join([show_listing(rows), *lines])


def pooled_text(pooled: MetaAnalysis) -> str:
    """Format a meta-analysis: its studies, then its pools."""
    parts = [pooled.sentence, "", show_listing(study_rows(pooled)), ""]
    parts += [show_listing(pool_rows(pooled)), ""]
    said = {"Caveats": pooled.warnings, "What a paper would have to add": pooled.would_change}
    for title, texts in said.items():
        parts += [f"{title}:", *bullets(texts)] if texts else []
    return "\n".join(parts)


def recommendation_text(advice: Recommendation) -> str:
    """Format a recommendation, the rewarders with the largest gain first."""
    from bon.analysis.decision.recommend import amount

    cost = next((row.cost for row in advice.rewarders if row.rewarder == advice.pick), None)

    def note(row: Recommended) -> str:
        if not row.affordable:
            return "beyond the budget"
        cheaper = cost is not None and row.cost is not None and row.cost < cost
        return "may be as good, for less" if cheaper and row.first == 1 else ""

    rows = [
        {
            "rewarder": row.rewarder,
            "rank": row.places,
            "gain": gained(row.gain),
            "per question": "-" if row.cost is None else amount(row.cost, advice.unit),
            "note": note(row),
        }
        for row in advice.rewarders
    ]
    vote = {"rewarder": "(majority vote)", "rank": "", "gain": gained(advice.majority)}
    rows.append({**vote, "per question": "", "note": ""})
    lines = [f"tasks: {names(list(advice.tasks), 8)}", show_listing(rows)]
    return "\n".join([*lines, *bullets(advice.warnings), "", advice.sentence])


def correlation_text(report: CorrelationReport) -> str:
    """Format the correlations of a published table."""
    finding, lines = report.finding, [show_listing(list(_pairs(report)))]
    known = [row for row in report.agreement if row.r.value is not None]
    if known:
        least = min(known, key=lambda row: row.r.value or 0.0)
        lines += [
            "",
            f"Outcomes with each other: r is {coefficient(least.r.value)} between {least.x} and "
            f"{least.method} over {plural(least.num_rewarders, 'rewarder')}"
            + (f", the least of {len(known)} pairs." if len(known) > 1 else "."),
        ]
    for title, texts in (
        ("Support", finding.support),
        ("Caveats", (*finding.caveats, *report.warnings)),
        ("Check these values", [flag.sentence for flag in report.flags]),
        ("What would change this", finding.would_change),
    ):
        if texts:
            lines += ["", f"{title}:", *bullets(texts)]
    return "\n".join([*lines, "", finding.sentence])


def _pairs(report: CorrelationReport) -> Iterator[dict[str, object]]:
    """Tabulate pairs of columns; the verdict, of the mean over policies, at the first of these."""
    verdicts = {(v.axis, v.outcome): v for v in report.verdicts}
    without = {(row.policy, row.x, row.method): row for row in report.without_own}
    several = len({c.policy for c in report.correlations}) > 1
    shown = set()
    for c in report.correlations:
        pair = c.axis, c.outcome
        v = verdicts.get(pair)
        row: dict[str, object] = {"policy": c.policy} if several else {}
        row |= {
            "benchmark": c.axis,
            "outcome": c.outcome,
            "n": c.num_rewarders,
            "r": bounded(c.pearson.estimate),
            "verdict": "" if pair in shown else answer(v) if v else "Cannot tell",
        }
        if own := without.get((c.policy, *pair)):
            row["r without own rows (n)"] = f"{bounded(own.r)} ({own.num_rewarders})"
        yield row | {
            "Spearman": bounded(c.spearman.estimate),
        }
        shown.add(pair)


def calibration_text(result: Calibration, requirements: Iterable[Requirement] = ()) -> str:
    """Tabulate rewarders, then what each needs or warns of, and tests of minima."""
    lines = [f"labels: {result.labels}", ""]
    lines += [show_listing([_calibrated(row) for row in result.rewarders]), ""]
    if people := result.people:
        lines.append(
            f"{people.num_annotators} annotators: equal labels {bounded(people.agreement)}, "
            f"Krippendorff's alpha {bounded(people.alpha)} on {people.num_items} items"
        )
    for row in result.rewarders:
        lines += _details(row)
    lines += [result.left_out] if result.left_out else []
    lines += [
        f"{c.answer}: {c.rewarder} {c.metric} {bounded(c.value)}, required {c.minimum:g}"
        for c in requirements
    ]
    return "\n".join(lines).rstrip()


def _calibrated(row: RewarderCalibration) -> dict[str, str]:
    overall = row.overall
    return {
        "rewarder": row.rewarder,
        "of": row.kind,
        "items": f"{overall.num_items:,}",
        "accuracy": bounded(overall.accuracy),
        "TPR": bounded(overall.tpr),
        "TNR": bounded(overall.tnr),
        "κ": bounded(overall.kappa),
        "AUC": bounded(row.auc),
        "right": bounded(overall.base_rate),
        "lean": bounded(row.lean),
        "votes agree": bounded(row.self_consistency),
        "cost/correct": "-" if row.cost_per_correct is None else f"${short(row.cost_per_correct)}",
    }


def _details(row: RewarderCalibration) -> Iterator[str]:
    for b in row.biases:
        if (b.bias.low or 0) > 0 or (b.bias.high or 0) < 0:
            yield (
                f"  - {row.rewarder}: {b.feature} changes the share of positive verdicts at equal "
                f"label by {bounded(b.bias)} ({b.num_items:,} items have it)"
            )
    for warning in row.warnings:
        yield f"  - {row.rewarder}: {warning}"


def pass_at_1(regraded: Regraded) -> str:
    """Tabulate pass@1, with its interval, by extractor."""
    rows = [
        {
            "extractor": row.reader,
            "pass@1": share(row.accuracy),
            "if it guesses": percent(row.guessing),
            "unread": f"{row.num_unread:,}",
        }
        for row in regraded.readers
    ]
    return show_listing(rows)


def regrade_text(regraded: Regraded) -> str:
    """Tabulate the extractors, then the responses that they read differently."""
    differ = [
        {
            "right": row.answer or "",
            **{name: letter or "–" for name, letter in row.letters.items()},
            "question": row.id,
            "ending": f"…{' '.join(row.ending.split())[-60:]}",
        }
        for row in regraded.differ[:MAX_LISTED]
    ]
    changed = percent(len(regraded.differ) / regraded.num_answers)
    lines = [
        f"{regraded.num_answers:,} answers to {regraded.num_questions:,} questions; "
        f"{regraded.num_declined:,} decline to answer, {regraded.num_errors:,} are errors",
        "",
        pass_at_1(regraded),
        "",
        f"{len(regraded.differ):,} answers ({changed}) are read differently" + ":" * bool(differ),
    ]
    if differ:
        lines.append(show_listing(differ))
    if more := len(regraded.differ) - len(differ):
        lines.append(f"and {more:,} more (--json lists them all)")
    return "\n".join(lines)


def grader_text(check: GraderCheck) -> str:
    """Tabulate accuracies under the grader and corrected, after the errors of the grader."""
    sentence = (
        f"Against {check.num_labelled} labels ({percent(check.share_labelled)} of the answers) the "
        f"grader finds {share(check.right_as_right)} of the right answers right and "
        f"{share(check.wrong_as_wrong)} of the wrong ones wrong."
    )
    rows = [
        {
            "policy": row.policy,
            "choice": row.rewarder,
            "by the grader": share(row.graded),
            "corrected": share(row.corrected),
        }
        for row in check.accuracies
    ]
    return f"{sentence}\n\n{show_listing(rows)}"
