"""`bon curate audit`: the audit of labels and shortcuts at any stage, and what is missing."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

import bon
from bon.analysis.auditing.shortcuts import (
    BLOCK,
    FEATURES,
    RULES,
    WARN,
    Formed,
    form_auc,
    form_of,
    weights,
)
from bon.analysis.estimators.resampling import from_draws
from bon.analysis.report.audit_page import Suspected, audit_page
from bon.analysis.results import Options
from bon.analysis.results.audit import (
    MIN_DECIDED,
    CurationAudit,
    LabelAudit,
    ShortcutAudit,
    ShortcutRule,
)
from bon.analysis.results.phrasing import bounded, coefficient, percent, share
from bon.choosing.opinion import Floats
from bon.core.files import write_atomic
from bon.curating.items import CuratedItem
from bon.curating.label_audit import Labelling, label_audit, load_labelling, question_draws
from bon.curating.labelling.annotation_queue import required_answers
from bon.curating.workbench import Workbench

MIN_ALPHA = 0.667
"""Krippendorff (2004): below this alpha not even tentative conclusions should be drawn."""
MAX_ERROR = 0.05
LEAD = 0.05
"""A shortcut rule is worth a warning this far above chance."""
MAX_SUSPECTS = 30
"""Number of contradicted items that the page shows."""


def audit(bench: Workbench) -> CurationAudit:
    """Audit a benchmark from its files."""
    options = Options(seed=bench.recipe.seed)
    labelling = load_labelling(bench)
    labels = label_audit(labelling, options)
    shortcuts = shortcut_audit(bench.items, options)
    return CurationAudit(
        benchmark=bench.name,
        bon=bon.__version__,
        items=len(bench.items),
        questions=len({item.question for item in bench.items}),
        held_out=sum(item.split == "held-out" for item in bench.items),
        strategies=dict(Counter(item.strategy for item in bench.items)),
        labels=labels,
        shortcuts=shortcuts,
        findings=tuple(_findings(labels, shortcuts)),
        warnings=tuple(_warnings(labels, shortcuts)),
        blocks=tuple(_blocks(shortcuts)),
        missing=tuple(_missing(bench, labelling, labels)),
    )


def write_audit(bench: Workbench) -> CurationAudit:
    """Write audit.json and audit.html."""
    result = audit(bench)
    page = audit_page(result, suspects(bench, result))
    write_atomic(bench.audit_path, result.model_dump_json(indent=1))
    write_atomic(bench.audit_page, page)
    return result


def suspects(bench: Workbench, result: CurationAudit) -> list[Suspected]:
    """Return items whose label annotators contradict."""
    labelling = load_labelling(bench)
    contradicted = result.labels.contradicted if result.labels else ()
    return [
        Suspected(
            id=item.id,
            prompt=item.prompt,
            responses=item.responses,
            better=item.better,
            images=tuple(bench.directory / name for name in item.images),
        )
        for item in (labelling.by_key[key] for key in contradicted[:MAX_SUSPECTS])
    ]


def shortcut_audit(items: Sequence[CuratedItem], options: Options) -> ShortcutAudit:
    """Audit whether the form of the responses alone tells the right one."""
    forms = np.array(
        [[form_of(item.responses[at]) for at in (item.better, item.wrong)] for item in items]
    )
    difference = np.subtract(*forms.reshape(-1, 2, len(FEATURES)).swapaxes(0, 1))
    draws = question_draws(items, options)
    gaps = {  # right minus wrong response; 0: the rule does not decide
        rule: sign * difference[:, FEATURES.index(feature)]
        for rule, (feature, sign) in RULES.items()
    }
    gaps["first"] = np.array([1.0 - 2 * item.better for item in items])

    def rule_of(name: str, gap: Floats) -> ShortcutRule:
        credit = (np.sign(gap) + 1) / 2
        spread = draws.means(credit[:, None])
        (accuracy,) = from_draws(
            np.array([credit.mean()]), spread, len(gap), "questions", options.level
        )
        return ShortcutRule(rule=name, accuracy=accuracy, says=float((gap != 0).mean()))

    _, question = np.unique([item.question for item in items], return_inverse=True)
    heaviest = weights(difference, np.ones((1, len(items))))[0] if items else ()
    return ShortcutAudit(
        pairs=len(items),
        questions=len(set(question.tolist())),
        auc=form_auc(Formed(difference, question), draws, options.seed, options.level),
        features={name: float(w) for name, w in zip(FEATURES, heaviest, strict=False)},
        rules=tuple(rule_of(name, gap) for name, gap in gaps.items() if gap.any()),
    )


def _missing(bench: Workbench, labelling: Labelling, labels: LabelAudit | None) -> Iterator[str]:
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


def _findings(labels: LabelAudit | None, shortcuts: ShortcutAudit) -> Iterator[str]:
    if labels is not None:
        one = len(labels.annotators) == 1
        who = "One annotator has chosen a response for" if one else "Annotators have a consensus on"
        text = f"{who} {labels.decided} of {labels.items} items"
        if labels.enough:
            yield (
                f"{text}: label error {share(labels.error)}; a perfect rewarder would score "
                f"{percent(labels.ceiling.value)}."
            )
        else:
            yield f"{text}: too few for a label error, which needs {MIN_DECIDED}."
        if every := labels.agreement:
            yield (
                f"Annotators agree on {share(every.percent)} of {every.items} items; "
                f"Krippendorff's alpha is {bounded(every.alpha)}."
            )
    if shortcuts.auc.value is not None:
        yield (
            "Form alone (length, markdown, answer lines) predicts the right response with an AUC "
            f"of {bounded(shortcuts.auc)}; .50 is chance."
        )


def _warnings(labels: LabelAudit | None, shortcuts: ShortcutAudit) -> Iterator[str]:
    if labels is not None:
        alpha = labels.agreement.alpha.value if labels.agreement else None
        if alpha is not None and alpha < MIN_ALPHA:
            yield (
                f"Annotators agree little (alpha {coefficient(alpha)}, below "
                f"{coefficient(MIN_ALPHA)}): the task or the guidelines are unclear."
            )
        if labels.enough and (labels.error.value or 0) > MAX_ERROR:
            yield (
                f"Label error is above {percent(MAX_ERROR, 0)}: review the contradicted items "
                f"({len(labels.contradicted)})."
            )
    auc = shortcuts.auc.value
    if auc is not None and auc > WARN and not _stops(shortcuts):
        yield f"Form alone predicts the right response with an AUC of {coefficient(auc)}."
    for rule in shortcuts.rules:
        low, value = rule.accuracy.low, rule.accuracy.value
        if low is not None and value is not None and low > 0.5 < value - LEAD:
            yield f"“{rule.rule}” is right on {share(rule.accuracy)} of the items."


def _stops(shortcuts: ShortcutAudit) -> bool:
    """Whether the AUC is above the limit, and above chance: small sets vary that much."""
    value, low = shortcuts.auc.value, shortcuts.auc.low
    return value is not None and low is not None and value > BLOCK and low > 0.5


def _blocks(shortcuts: ShortcutAudit) -> Iterator[str]:
    if _stops(shortcuts):
        heaviest = max(shortcuts.features.items(), key=lambda pair: abs(pair[1]))[0]
        yield (
            f"form alone predicts the right response with an AUC of {bounded(shortcuts.auc)}, "
            f"above {coefficient(BLOCK)} (mostly {heaviest}): a rewarder could score without "
            "reading"
        )
