"""`bon curate audit`: the audit of the items at any stage, and what is missing for more."""

from collections import Counter
from collections.abc import Iterator

import pandas as pd

import bon
from bon.analysis.auditing.shortcuts import BLOCK, WARN
from bon.analysis.report.audit_page import Suspected, audit_page
from bon.analysis.results import Estimate, Options
from bon.analysis.results.audit import (
    MIN_DECIDED,
    CurationAudit,
    ItemsAudit,
    LabelAudit,
    ShortcutAudit,
)
from bon.analysis.results.phrasing import bounded, coefficient, names, percent, plural, share
from bon.core.errors import BonError
from bon.core.files import write_atomic
from bon.curating.item_audit import Evidence, items_audit, shortcut_audit
from bon.curating.item_judgements import credits, verdicts
from bon.curating.judged_runs import judged_runs
from bon.curating.label_audit import Labelling, label_audit, load_labelling
from bon.curating.labelling.annotation_queue import required_answers
from bon.curating.workbench import Workbench

MIN_ALPHA = 0.667
"""Krippendorff (2004): below this alpha not even tentative conclusions should be drawn."""
MAX_ERROR = 0.05
MIN_RELIABILITY = 0.7
LEAD = 0.05
"""A shortcut rule is worth a warning this far above chance."""
MAX_SUSPECTS = 30
"""Number of suspicious items that the page shows."""


def audit(bench: Workbench) -> CurationAudit:
    """Audit a benchmark from its files and its runs."""
    recipe = bench.recipe
    options = Options(seed=recipe.seed)
    labelling = load_labelling(bench)
    evidence = load_evidence(bench)
    labels = label_audit(labelling, options)
    items = items_audit(labelling, evidence, options)
    shortcuts = shortcut_audit(bench.items, evidence, options)
    return CurationAudit(
        benchmark=bench.name,
        bon=bon.__version__,
        items=len(bench.items),
        questions=len({item.question for item in bench.items}),
        held_out=sum(item.split == "held-out" for item in bench.items),
        strategies=dict(Counter(item.strategy for item in bench.items)),
        labels=labels,
        by_rewarders=items,
        shortcuts=shortcuts,
        findings=tuple(findings(labels, items, shortcuts)),
        warnings=tuple(warnings(labels, items, shortcuts)),
        blocks=tuple(blocks(shortcuts)),
        missing=(
            *_missing_labels(bench, labelling, labels),
            *_missing_verdicts(bench, items, evidence),
        ),
    )


def load_evidence(bench: Workbench) -> Evidence:
    """Read verdicts and likelihoods from the runs of the recipe, if they can be opened."""
    try:
        with judged_runs(bench) as runs:
            blind = {
                loaded.card.name
                for run in runs
                for loaded in run.setup.rewarders
                if loaded.card.image_filter == "drop"
            }
            likelihood = {
                (question, text): value
                for run in runs
                for question, text, value in run.store.query(
                    "SELECT question, text_key, MAX(logprob / num_tokens) FROM candidates "
                    "WHERE logprob IS NOT NULL AND num_tokens > 0 GROUP BY question, text_key"
                )
            }
        return Evidence(credits(bench), verdicts(bench), frozenset(blind), likelihood)
    except BonError as error:
        return Evidence(missing=str(error))


def write_audit(bench: Workbench) -> CurationAudit:
    """Write audit.json and audit.html."""
    result = audit(bench)
    page = audit_page(result, suspects(bench, result))
    write_atomic(bench.audit_path, result.model_dump_json(indent=1))
    write_atomic(bench.audit_page, page)
    return result


def suspects(bench: Workbench, result: CurationAudit) -> list[Suspected]:
    """Return items to inspect: contradicted by people first, then the most negative item-rest r."""
    contradicted = result.labels.contradicted if result.labels else ()
    by_rewarders = result.by_rewarders
    negative = by_rewarders.suspects if by_rewarders else ()
    numbers = {row.key: row for row in by_rewarders.items} if by_rewarders else {}
    labelling = load_labelling(bench)
    both = [key for key in negative if key in contradicted]
    order = dict.fromkeys([*both, *contradicted, *negative])
    return [
        Suspected(
            id=item.id,
            prompt=item.prompt,
            responses=item.responses,
            better=item.better,
            images=tuple(bench.directory / name for name in item.images),
            consensus=labelling.outcomes.get(item.key, ""),
            contradicted=item.key in contradicted,
            numbers=numbers.get(item.key),
        )
        for item in (labelling.by_key[key] for key in list(order)[:MAX_SUSPECTS])
    ]


def _missing_labels(
    bench: Workbench, labelling: Labelling, labels: LabelAudit | None
) -> Iterator[str]:
    if labels is None:
        yield (
            f"Labels: nobody has labelled an item -> bon serve --annotate {bench.directory}, then "
            f"/annotate/{bench.name}"
        )
        return
    annotating = bench.recipe.annotating
    choices = [[row.choice for row in rows] for rows in labelling.answers.values()]
    if short := sum(len(row) < required_answers(annotating, row) for row in choices):
        yield f"Labels: {short} of {labels.answered} labelled items need another answer."
    if labels.unresolved:
        yield f"Labels: {len(labels.unresolved)} items have no consensus."
    if not any(len(row) > 1 for row in choices):
        yield "Agreement: no item has two answers -> a second annotator"


def _missing_verdicts(
    bench: Workbench, items: ItemsAudit | None, evidence: Evidence
) -> Iterator[str]:
    judge = f"bon run EXPERIMENT --out {bench.judged}, its pairs: {bench.pairs_path}"
    if evidence.missing:
        yield f"Rewarders: {evidence.missing}"
    elif items is None:
        yield f"Rewarders: none has judged an item -> {judge}"
    else:
        decided = evidence.credits.stack().dropna().index
        judged = evidence.verdicts[["item", "rewarder"]].drop_duplicates()
        silent = judged[~pd.MultiIndex.from_frame(judged).isin(decided)]["rewarder"].value_counts()
        lacking = {
            row.rewarder: len(items.items) - row.items - int(silent.get(row.rewarder, 0))
            for row in items.rewarders
        }
        if short := [name for name, count in lacking.items() if count]:
            yield (
                f"Rewarders: not every item was judged by {names(short, 4)} (up to "
                f"{max(lacking.values())} missing) -> {judge}"
            )
        for name, count in silent.items():
            yield (
                f"Verdicts: {name} judged {plural(int(count), 'item')} without a verdict: unparsed "
                "replies or errors, which count for nothing and are not asked again."
            )


def audit_text(audit: CurationAudit) -> str:
    """Return the audit as lines for the terminal."""
    title = f"{audit.benchmark}: {audit.items} items of {audit.questions} questions"
    parts = (
        (title, audit.findings),
        ("Caveats:", audit.warnings),
        ("Stops the freeze:", audit.blocks),
        ("Missing:", audit.missing),
    )
    return "\n".join(
        line for title, rows in parts if rows for line in (title, *(f"  - {row}" for row in rows))
    )


def findings(
    labels: LabelAudit | None, items: ItemsAudit | None, shortcuts: ShortcutAudit
) -> Iterator[str]:
    """Yield the main results."""
    yield from _label_findings(labels) if labels else ()
    yield from _item_findings(items) if items else ()
    if shortcuts.auc.value is not None:
        yield (
            "Form alone (length, markdown, answer lines) predicts the right response with an AUC "
            f"of {bounded(shortcuts.auc)}; .50 is chance."
        )


def _label_findings(labels: LabelAudit) -> Iterator[str]:
    one = len(labels.annotators) == 1
    who = "One annotator has chosen a response for" if one else "Annotators have a consensus on"
    text = f"{who} {labels.decided} of {labels.items} items"
    if not labels.enough:
        yield f"{text}: too few for a label error, which needs {MIN_DECIDED}."
    else:
        text += f": label error {share(labels.error)}"
        if labels.error_corrected.value is not None:
            text += f", corrected for annotators' own errors {share(labels.error_corrected)}"
        yield f"{text}; a perfect rewarder would score {percent(labels.ceiling.value)}."
    if labels.annotator_error.value is not None:
        yield (
            "Estimated from disagreements, an annotator errs on "
            f"{share(labels.annotator_error)} of the items."
        )
    if every := labels.agreement:
        yield (
            f"Annotators agree on {share(every.percent)} of {every.items} items; Krippendorff's "
            f"alpha is {bounded(every.alpha)}."
        )


def _item_findings(items: ItemsAudit) -> Iterator[str]:
    known = items.discrimination
    if known is not None:
        chance = ""
        if known.below:
            expected = _range(known.below[0].by_chance)
            chance = f"; if every label were right, chance would give {expected}"
        yield (
            f"{known.negative} of {known.items} items have a negative item–rest correlation "
            f"(easier for weaker rewarders){chance}."
        )
    if items.distinguished is not None and items.smallest is not None:
        yield (
            f"The items distinguish {percent(items.distinguished, 0)} of {items.num_pairs} pairs "
            f"of rewarders, 100 items {percent(items.distinguished_per_100, 0)}; two rewarders "
            f"must differ by {100 * items.smallest:.1f} points to be distinguished with 80% power."
        )
    if items.reliability.value is not None:
        yield f"Reliability over these rewarders is {bounded(items.reliability)}."


def _range(expected: Estimate) -> str:
    return f"{expected.low:.0f} to {expected.high:.0f}"


def warnings(
    labels: LabelAudit | None, items: ItemsAudit | None, shortcuts: ShortcutAudit
) -> Iterator[str]:
    """Yield caveats."""
    yield from _label_warnings(labels) if labels else ()
    yield from _item_warnings(items) if items else ()
    auc = shortcuts.auc.value
    if auc is not None and auc > WARN and not _stops(shortcuts):
        yield f"Form alone predicts the right response with an AUC of {coefficient(auc)}."
    for rule in shortcuts.rules:
        low, value = rule.accuracy.low, rule.accuracy.value
        if low is not None and value is not None and low > rule.chance < value - LEAD:
            yield (
                f"“{rule.rule}” is right on {share(rule.accuracy)} of the items; chance is "
                f"{percent(rule.chance, 0)}."
            )


def _label_warnings(labels: LabelAudit) -> Iterator[str]:
    alpha = labels.agreement.alpha.value if labels.agreement else None
    if alpha is not None and alpha < MIN_ALPHA:
        yield (
            f"Annotators agree little (alpha {coefficient(alpha)}, below "
            f"{coefficient(MIN_ALPHA)}): the task or the guidelines are unclear."
        )
    corrected = labels.error_corrected.value
    error = labels.error.value if corrected is None else corrected
    if labels.enough and error is not None and error > MAX_ERROR:
        yield (
            f"Label error is above {percent(MAX_ERROR, 0)}: drop or fix the contradicted items "
            f"({len(labels.contradicted)})."
        )
    if labels.unresolved:
        yield f"{len(labels.unresolved)} items have no consensus: they are ambiguous."


def _item_warnings(items: ItemsAudit) -> Iterator[str]:
    for row in items.discrimination.below if items.discrimination else ():
        if row.r < 0 and row.by_chance.high is not None and row.items > row.by_chance.high:
            yield (
                f"{row.items} items have an item–rest correlation below {coefficient(row.r)}, "
                f"where chance would give {_range(row.by_chance)}: wrong labels, or questions that "
                "mislead the better rewarders. Inspect them first."
            )
            break
    if items.flipping:
        yield (
            f"The verdict on {len(items.flipping)} items flips with the order for more than half "
            "of the rewarders that judged both: they are ambiguous."
        )
    reliability = items.reliability.value
    if reliability is not None and reliability < MIN_RELIABILITY:
        yield (
            f"Reliability is {coefficient(reliability)}: another sample of such items would rank "
            "the rewarders differently."
        )


def _stops(shortcuts: ShortcutAudit) -> bool:
    """Whether the AUC is above the limit, and above chance: small sets vary that much."""
    value, low = shortcuts.auc.value, shortcuts.auc.low
    return value is not None and low is not None and value > BLOCK and low > 0.5


def blocks(shortcuts: ShortcutAudit) -> Iterator[str]:
    """Yield what stops a freeze unless overridden."""
    if _stops(shortcuts):
        heaviest = max(shortcuts.features.items(), key=lambda pair: abs(pair[1]))[0]
        yield (
            f"form alone predicts the right response with an AUC of {bounded(shortcuts.auc)}, "
            f"above {coefficient(BLOCK)} (mostly {heaviest}): a rewarder could score without "
            "reading"
        )
