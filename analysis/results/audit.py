"""The schema of audit.json: the audit of a reward benchmark under construction."""

from bon.analysis.results.record import Estimate, Record


class Agreement(Record):
    """Agreement of annotators' first answers.

    As many answers per item as the recipe asks for: an adjudicator's would bias agreement.
    """

    items: int
    percent: Estimate
    alpha: Estimate


class AnnotatorAudit(Record):
    """One annotator; `against_label` is the share of choices that contradict the label."""

    annotator: str
    answers: int
    ties: int
    cannot: int
    seconds: float | None
    against_label: Estimate


MIN_DECIDED = 10
"""Items with a consensus below which no label error is stated."""


class LabelAudit(Record):
    """Labels against annotators.

    - `error`: items whose consensus contradicts the label, of those with a consensus.
    - `ceiling`: the accuracy of a perfect rewarder.
    - `changed_after_draft`: answers that switched to a differing draft.
    """

    items: int
    answered: int
    decided: int
    ties: int
    cannot: int
    unresolved: tuple[str, ...]
    error: Estimate
    ceiling: Estimate
    agreement: Agreement | None
    annotators: tuple[AnnotatorAudit, ...]
    changed_after_draft: Estimate | None
    contradicted: tuple[str, ...]

    @property
    def enough(self) -> bool:
        """Whether the items with a consensus suffice to state a label error."""
        return self.decided >= MIN_DECIDED


class ShortcutRule(Record):
    """A rule blind to image and meaning; `says` is the share of items that it decides."""

    rule: str
    accuracy: Estimate
    says: float


class ShortcutAudit(Record):
    """Whether form alone tells the right response; `auc` of a logistic regression on form."""

    pairs: int
    questions: int
    auc: Estimate
    features: dict[str, float]
    rules: tuple[ShortcutRule, ...]


class CurationAudit(Record):
    """The whole of audit.json; `blocks` stop `bon curate freeze`."""

    benchmark: str
    bon: str
    items: int
    questions: int
    held_out: int
    strategies: dict[str, int]
    labels: LabelAudit | None
    shortcuts: ShortcutAudit
    findings: tuple[str, ...]
    warnings: tuple[str, ...]
    blocks: tuple[str, ...]
    missing: tuple[str, ...]
