"""The audit in sentences: findings, warnings, and what stops a freeze."""

from collections.abc import Iterator

from bon.analysis.auditing.shortcuts import BLOCK, WARN
from bon.analysis.report.format import coefficient, number, percent, share
from bon.analysis.results import Estimate
from bon.analysis.results.audit import (
    MIN_DECIDED,
    CurationAudit,
    ItemsAudit,
    LabelAudit,
    ShortcutAudit,
    ShortcutRule,
)

MIN_ALPHA = 0.667
"""Krippendorff (2004): below this alpha not even tentative conclusions should be drawn."""
MAX_ERROR = 0.05
MIN_RELIABILITY = 0.7
LEAD = 0.05
"""A shortcut rule is worth a warning this far above chance."""


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
    if labels is not None:
        yield from _label_findings(labels)
    if items is not None:
        yield from _item_findings(items)
    if shortcuts.auc.value is not None:
        yield (
            "Form alone (length, markdown, answer lines) predicts the right response with an AUC "
            f"of {coefficient(shortcuts.auc)}; .50 is chance."
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
    if labels.agreement:
        every = labels.agreement[0]
        yield (
            f"Annotators agree on {share(every.percent)} of {every.items} items; Krippendorff's "
            f"alpha is {coefficient(every.alpha)}."
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
            f"must differ by {100 * items.smallest:.1f} points to be distinguished with 80 % power."
        )
    if items.reliability.value is not None:
        yield f"Reliability over these rewarders is {coefficient(items.reliability)}."


def _range(expected: Estimate) -> str:
    return f"{expected.low:.0f} to {expected.high:.0f}"


def warnings(
    labels: LabelAudit | None, items: ItemsAudit | None, shortcuts: ShortcutAudit
) -> Iterator[str]:
    """Yield caveats."""
    if labels is not None:
        yield from _label_warnings(labels)
    if items is not None:
        yield from _item_warnings(items)
    auc = shortcuts.auc.value
    if auc is not None and auc > WARN and not _stops(shortcuts):
        yield f"Form alone predicts the right response with an AUC of {number(auc)}."
    for rule in shortcuts.rules:
        if _leads(rule):
            yield (
                f"“{rule.rule}” is right on {share(rule.accuracy)} of the items; chance is "
                f"{percent(rule.chance, 0)}."
            )


def _label_warnings(labels: LabelAudit) -> Iterator[str]:
    alpha = labels.agreement[0].alpha.value if labels.agreement else None
    if alpha is not None and alpha < MIN_ALPHA:
        yield (
            f"Annotators agree little (alpha {number(alpha)}, below {number(MIN_ALPHA)}): the "
            "task or the guidelines are unclear."
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
                f"{row.items} items have an item–rest correlation below {number(row.r)}, where "
                f"chance would give {_range(row.by_chance)}: wrong labels, or questions that "
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
            f"Reliability is {number(reliability)}: another sample of such items would rank the "
            "rewarders differently."
        )


def _leads(rule: ShortcutRule) -> bool:
    low, value = rule.accuracy.low, rule.accuracy.value
    if low is None or value is None:
        return False
    return low > rule.chance and value > rule.chance + LEAD


def _stops(shortcuts: ShortcutAudit) -> bool:
    """Whether the AUC is above the limit, and above chance: small sets vary that much."""
    value, low = shortcuts.auc.value, shortcuts.auc.low
    return value is not None and low is not None and value > BLOCK and low > 0.5


def blocks(shortcuts: ShortcutAudit) -> Iterator[str]:
    """Yield what stops a freeze unless overridden."""
    if _stops(shortcuts):
        heaviest = max(shortcuts.features.items(), key=lambda pair: abs(pair[1]))[0]
        yield (
            f"form alone predicts the right response with an AUC of {coefficient(shortcuts.auc)}, "
            f"above {number(BLOCK)} (mostly {heaviest}): a rewarder could score without reading"
        )
