"""The schema of audit.json: what the audit of a reward benchmark in the making found."""

from bon.analysis.results.record import Estimate, Record


class Agreement(Record):
    """How far annotators agree on the items with a tag; `tag` is empty for all items.

    Of the first answers to each item, as many as the recipe wants: a third who is asked because
    two disagree would make agreement look worse than it is. `on_tag` is alpha of the tag itself:
    whether annotators put it on the same items.
    """

    tag: str = ""
    items: int
    percent: Estimate
    alpha: Estimate
    on_tag: Estimate | None = None


class Kappa(Record):
    """Cohen's kappa of two annotators over the items that both answered."""

    a: str
    b: str
    percent: Estimate
    kappa: Estimate


class AnnotatorAudit(Record):
    """One annotator. `against_gold`: share of the choices that contradict the label; `on_checks`:
    of those on gold checks, items that everybody is given to see how often people err.

    `kept_first` and `took_draft`: of the items whose draft differed from what was chosen before it
    was shown, how many choices stayed and how many went over to the draft.
    """

    annotator: str
    answers: int
    ties: int
    cannot: int
    seconds: float | None
    against_gold: Estimate
    on_checks: Estimate
    drafts_shown: int
    kept_first: int
    took_draft: int


class TagError(Record):
    """Label error of the items with a tag; how often the draft agrees with people on them."""

    tag: str
    error: Estimate
    draft_agrees: Estimate | None


class LabelAudit(Record):
    """What people say of the labels.

    `error`: items on which the consensus contradicts the label, of those with a consensus on one
    response. `error_on_pool`: the same weighed back by inclusion probability. `error_corrected`:
    net of the mistakes that annotators make together, from items whose first two agree.
    `error_predicted`: of all items, from drafts on all and people on some. `ceiling`: the accuracy
    that a perfect rewarder shows. `annotator_error`: how often one annotator errs, from
    disagreement. `draft_agrees`: how often the draft names the response that people chose.
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
    agreement: tuple[Agreement, ...]
    kappas: tuple[Kappa, ...]
    annotators: tuple[AnnotatorAudit, ...]
    tags: tuple[TagError, ...]
    changed_after_draft: Estimate | None
    contradicted: tuple[str, ...]


class ItemAudit(Record):
    """One item. `right`: share of the rewarders that are right; `discrimination`: item–rest r.

    `flips`: share of the rewarders, asked in both orders, whose verdict turns with the order.
    `difficulty` is that of the Rasch model in logits, with its standard error. `consensus` is what
    people say: the place of a response, tie, cannot, unresolved, or nothing.
    """

    key: str
    id: str
    strategy: str
    rewarders: int
    right: float | None
    discrimination: float | None
    discrimination_p: float | None
    flips: float | None
    difficulty: float | None
    difficulty_error: float | None
    consensus: str
    contradicted: bool


class RewarderAudit(Record):
    """One rewarder on the items. `on_pool`: accuracy weighed back by inclusion probability.

    `ability` is in logits of the Rasch model (mean 0), `score_error` the standard error that the
    items' information gives it.
    """

    rewarder: str
    filter_model: bool
    items: int
    accuracy: Estimate
    on_pool: Estimate
    flips: Estimate | None
    ability: Estimate | None = None
    information: float | None = None


class InformationPoint(Record):
    """How much the items tell of a rewarder of this ability; `error` is 1 / √information."""

    ability: float
    information: float
    error: float


class RaschAudit(Record):
    """A Rasch model by conditional maximum likelihood: items that all or none got right are out."""

    items: int
    rewarders: int
    curve: tuple[InformationPoint, ...]
    within_range: float
    sentence: str


class Below(Record):
    """How many items correlate with the rest below `r`; `by_chance`: were all labels right."""

    r: float
    items: int
    by_chance: Estimate


class Discrimination(Record):
    """Item–rest correlations over the rewarders; `below` needs the Rasch model."""

    items: int
    negative: int
    mean: float | None
    below: tuple[Below, ...] = ()


class PairsNeeded(Record):
    """How many items it takes to distinguish two rewarders that differ by `difference`."""

    difference: float
    items: int


class ItemsAudit(Record):
    """What rewarders say of the items; filter models are left out of all but `rewarders`."""

    rewarders: tuple[RewarderAudit, ...]
    items: tuple[ItemAudit, ...]
    discrimination: Discrimination | None
    suspects: tuple[str, ...]
    flipping: tuple[str, ...]
    reliability: Estimate
    split_half: Estimate
    score_error: float | None
    num_pairs: int
    distinguished: float | None
    distinguished_per_100: float | None
    discordance: float | None
    needed: tuple[PairsNeeded, ...]
    smallest: float | None
    rasch: RaschAudit | None
    rasch_missing: str
    two_parameters: str


class ShortcutRule(Record):
    """A rule that never sees the image or the meaning. `says`: share of the items it decides."""

    rule: str
    accuracy: Estimate
    chance: float
    says: float


class ShortcutAudit(Record):
    """Whether the right response can be told by its form. `auc`: of a logistic on form alone."""

    pairs: int
    questions: int
    auc: Estimate
    features: dict[str, float]
    rules: tuple[ShortcutRule, ...]


class CurationAudit(Record):
    """The whole of audit.json. `blocks` stops `bon curate freeze`; `missing` says what to do."""

    benchmark: str
    bon: str
    items: int
    questions: int
    held_out: int
    strategies: dict[str, int]
    labels: LabelAudit | None
    by_rewarders: ItemsAudit | None
    shortcuts: ShortcutAudit
    findings: tuple[str, ...]
    warnings: tuple[str, ...]
    blocks: tuple[str, ...]
    missing: tuple[str, ...]
