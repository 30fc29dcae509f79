"""What an audit found, in sentences; what to beware of; what stops a freeze."""

from collections.abc import Iterator

from bon.analysis.auditing.shortcuts import BLOCK, WARN
from bon.analysis.report.format import coefficient, number, percent, share
from bon.analysis.results import Estimate
from bon.analysis.results.audited import (
    CurationAudit,
    ItemsAudit,
    LabelAudit,
    ShortcutAudit,
    ShortcutRule,
)

AGREED = 0.667
"""Krippendorff's (2004) alpha below which not even tentative conclusions should be drawn."""

MAX_ERROR = 0.05
MIN_RELIABILITY = 0.7
LEAD = 0.05
"""So much above chance a blind rule is worth a warning."""


def audit_text(found: CurationAudit) -> str:
    """The audit as lines for a terminal."""
    parts = (
        (f"{found.benchmark}: {found.items} items of {found.questions} questions", found.findings),
        ("Read it with care:", found.warnings),
        ("Stops the freeze:", found.blocks),
        ("Missing:", found.missing),
    )
    lines = [[title, *(f"  - {one}" for one in said)] for title, said in parts if said]
    return "\n".join(line for part in lines for line in part)


def findings(
    labels: LabelAudit | None, items: ItemsAudit | None, shortcuts: ShortcutAudit
) -> Iterator[str]:
    """The main numbers."""
    if labels is not None:
        yield from _of_labels(labels)
    if items is not None:
        yield from _of_items(items)
    if shortcuts.auc.value is not None:
        yield (
            "Form alone (length, markdown, answer lines) tells the right response with an AUC of "
            f"{coefficient(shortcuts.auc)}; .50 is chance."
        )


def _of_labels(labels: LabelAudit) -> Iterator[str]:
    if labels.error.value is not None:
        text = (
            f"People agree on one response of {labels.decided} of {labels.items} items: label "
            f"error {share(labels.error)}"
        )
        if labels.error_corrected.value is not None:
            text += f", net of annotators' own mistakes {share(labels.error_corrected)}"
        yield f"{text}; a perfect rewarder would show {percent(labels.ceiling.value)}."
    if labels.annotator_error.value is not None:
        yield (
            f"From how often two differ, an annotator errs on {share(labels.annotator_error)} of "
            "the items."
        )
    if labels.agreement:
        every = labels.agreement[0]
        yield (
            f"Annotators agree on {share(every.percent)} of {every.items} items; Krippendorff's "
            f"alpha is {coefficient(every.alpha)}."
        )


def _of_items(items: ItemsAudit) -> Iterator[str]:
    known = items.discrimination
    if known is not None:
        yield (
            f"{known.negative} of {known.items} items are easier for weaker rewarders (a negative "
            f"item–rest correlation){_by_chance(items)}."
        )
    if items.distinguished is not None and items.smallest is not None:
        yield (
            f"The items distinguish {percent(items.distinguished, 0)} of {items.num_pairs} pairs "
            f"of rewarders, 100 of them {percent(items.distinguished_per_100, 0)}; two must differ "
            f"by {100 * items.smallest:.1f} points to be distinguished four times in five."
        )
    if items.reliability.value is not None:
        yield f"Reliability over these rewarders is {coefficient(items.reliability)}."


def _by_chance(items: ItemsAudit) -> str:
    known = items.discrimination
    if known is None or not known.below:
        return ""
    return f"; were every label right, {_range(known.below[0].by_chance)} would be by chance"


def _range(one: Estimate) -> str:
    return f"{one.low:.0f} to {one.high:.0f}"


def warnings(
    labels: LabelAudit | None, items: ItemsAudit | None, shortcuts: ShortcutAudit
) -> Iterator[str]:
    """What to beware of."""
    if labels is not None:
        alpha = labels.agreement[0].alpha.value if labels.agreement else None
        if alpha is not None and alpha < AGREED:
            yield (
                f"Annotators agree little (alpha {number(alpha)}, below {number(AGREED, 3)}): the "
                "task or the guidelines are not clear."
            )
        error = _best(labels)
        if error.value is not None and error.value > MAX_ERROR:
            yield (
                f"Label error is above {percent(MAX_ERROR, 0)}: drop or mend the "
                f"{len(labels.contradicted)} items that people contradict."
            )
        if labels.unresolved:
            yield f"{len(labels.unresolved)} items have no consensus: they are ambiguous."
    if items is not None:
        yield from _beware_of_items(items)
    auc = shortcuts.auc.value
    if auc is not None and auc > WARN and not _stops(shortcuts):
        yield f"Form alone tells the right response with an AUC of {number(auc)}."
    for rule in shortcuts.rules:
        if _leads(rule):
            yield (
                f"“{rule.rule}” is right on {share(rule.accuracy)} of the items; chance is "
                f"{percent(rule.chance, 0)}."
            )


def _beware_of_items(items: ItemsAudit) -> Iterator[str]:
    for one in items.discrimination.below if items.discrimination else ():
        if one.r < 0 and one.by_chance.high is not None and one.items > one.by_chance.high:
            yield (
                f"{one.items} items have an item–rest correlation below {number(one.r)}, where "
                f"chance would leave {_range(one.by_chance)}: wrong labels, or questions that "
                "mislead the better rewarders. Look at them first."
            )
            break
    if items.flipping:
        yield (
            f"The verdict on {len(items.flipping)} items turns with the order for more than half "
            "of the rewarders that were asked in both: they are ambiguous."
        )
    reliability = items.reliability.value
    if reliability is not None and reliability < MIN_RELIABILITY:
        yield (
            f"Reliability is {number(reliability)}: other items like these would put the rewarders "
            "in another order."
        )
    filters = [one.rewarder for one in items.rewarders if one.filter_model]
    if filters:
        yield (
            f"{', '.join(filters)} chose the items by failing on them: do not rank them, nor "
            "models of their families, on these items."
        )


def _best(labels: LabelAudit) -> Estimate:
    corrected = labels.error_corrected
    return labels.error if corrected.value is None else corrected


def _leads(rule: ShortcutRule) -> bool:
    low, value = rule.accuracy.low, rule.accuracy.value
    return (
        low is not None and value is not None and low > rule.chance and value > (rule.chance + LEAD)
    )


def _stops(shortcuts: ShortcutAudit) -> bool:
    """Above the line, and by more than chance: a small set strays that far by itself."""
    value, low = shortcuts.auc.value, shortcuts.auc.low
    return value is not None and low is not None and value > BLOCK and low > 0.5


def blocks(shortcuts: ShortcutAudit) -> Iterator[str]:
    """What stops a freeze unless it is overridden."""
    if _stops(shortcuts):
        heaviest = max(shortcuts.features.items(), key=lambda pair: abs(pair[1]))[0]
        yield (
            f"form alone tells the right response with an AUC of {coefficient(shortcuts.auc)}, "
            f"above {number(BLOCK)} (mostly {heaviest}): a rewarder could score without reading"
        )
