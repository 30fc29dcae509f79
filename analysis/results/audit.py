"""The schema of audit.json: the audit of a reward benchmark under construction."""

from bon.analysis.results.record import Estimate, Record


class Agreement(Record):
    """Agreement of annotators' first answers.

    As many answers per item as the recipe asks for: a third one, asked to break a tie, would bias
    agreement.
    """

    items: int
    percent: Estimate
    alpha: Estimate


class Kappa(Record):
    """Cohen's kappa of two annotators over the items that both answered."""

    a: str
    b: str
    percent: Estimate
    kappa: Estimate


class AnnotatorAudit(Record):
    """One annotator; `against_gold` is the share of choices that contradict the label.

    `on_checks`: the same on gold checks.
    """

    annotator: str
    answers: int
    ties: int
    cannot: int
    seconds: float | None
    against_gold: Estimate
    on_checks: Estimate


class TagError(Record):
    """Label error of the items with a tag, and agreement of drafts with annotators."""

    tag: str
    error: Estimate
    draft_agrees: Estimate | None


MIN_DECIDED = 10
"""Items with a consensus below which no label error is stated."""


class LabelAudit(Record):
    """Labels against annotators.

    - `error`: items whose consensus contradicts the label, of those with a consensus.
    - `error_on_pool`: the same weighted by inverse inclusion probability.
    - `error_corrected`: net of mistakes that annotators share.
    - `error_predicted`: over all items, from drafts on all and annotators on some.
    - `ceiling`: the accuracy of a perfect rewarder.
    - `annotator_error`: error rate of one annotator, from disagreement.
    """

    items: int
    answered: int
    decided: int
    ties: int
    cannot: int
    unresolved: tuple[str, ...]
    error: Estimate
    error_on_pool: Estimate
    error_corrected: Estimate
    error_predicted: Estimate | None
    ceiling: Estimate
    annotator_error: Estimate
    draft_agrees: Estimate | None
    agreement: Agreement | None
    kappas: tuple[Kappa, ...]
    annotators: tuple[AnnotatorAudit, ...]
    tags: tuple[TagError, ...]
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
    chance: float
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
