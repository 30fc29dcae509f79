"""Label audit: consensus of annotators, their agreement, and how often they contradict labels."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

import numpy as np

from bon.analysis.auditing import agreement
from bon.analysis.estimators.resampling import Draws, draw_clusters, estimate, nothing, wilson
from bon.analysis.results import Estimate, Options
from bon.analysis.results.audit import Agreement, AnnotatorAudit, LabelAudit
from bon.curating.items import CuratedItem
from bon.curating.labelling.annotations import CANNOT, TIE, Annotation, current
from bon.curating.labelling.drafts import UNREAD, read_drafts
from bon.curating.workbench import Workbench

UNRESOLVED = "unresolved"


def consensus(choices: Iterable[str]) -> str:
    """Return the majority choice of those who could judge.

    `unresolved` without a majority, `cannot` if nobody could judge, empty without answers.
    """
    choices = list(choices)
    judged = [choice for choice in choices if choice != CANNOT]
    if not judged:
        return CANNOT if choices else ""
    choice, count = Counter(judged).most_common(1)[0]
    return choice if 2 * count > len(judged) else UNRESOLVED


def contradicts(item: CuratedItem, outcome: str) -> bool | None:
    """Whether an outcome names another response than the label; None if it names none."""
    return int(outcome) != item.better if outcome.isdigit() else None


@dataclass(frozen=True)
class Labelling:
    """The items and their annotations.

    drafts: label of each drafted item. usual: annotators per item; further ones adjudicate.
    """

    items: Sequence[CuratedItem]
    annotations: Sequence[Annotation]
    drafts: Mapping[str, str]
    usual: int

    @cached_property
    def by_key(self) -> dict[str, CuratedItem]:
        """Items by key."""
        return {item.key: item for item in self.items}

    @cached_property
    def answers(self) -> dict[str, list[Annotation]]:
        """Answers by item, in order of arrival."""
        answers = defaultdict(list)
        for row in self.annotations:
            if row.item in self.by_key:
                answers[row.item].append(row)
        return dict(answers)

    @cached_property
    def outcomes(self) -> dict[str, str]:
        """Consensus of each answered item."""
        return {key: consensus(row.choice for row in rows) for key, rows in self.answers.items()}

    @cached_property
    def against(self) -> dict[str, bool]:
        """Whether the consensus contradicts the label, where both name a response."""
        values = {
            item.key: contradicts(item, self.outcomes.get(item.key, "")) for item in self.items
        }
        return {key: value for key, value in values.items() if value is not None}

    @cached_property
    def tags(self) -> dict[str, str]:
        """All tags of each item."""
        return {
            key: ", ".join(sorted({tag for row in rows for tag in row.tags}))
            for key, rows in self.answers.items()
        }


def load_labelling(bench: Workbench) -> Labelling:
    """Return the items with the annotations that count and the parsed drafts."""
    drafts = {key: draft.label for key, draft in read_drafts(bench.drafts_path).items()}
    return Labelling(
        bench.items,
        current(bench.annotations_path),
        {key: label for key, label in drafts.items() if label != UNREAD},
        bench.recipe.annotating.annotators_per_item,
    )


def question_draws(
    items: Sequence[CuratedItem], options: Options, label: str = "curated items"
) -> Draws:
    """Return bootstrap draws of items, clustered by question."""
    _, clusters = np.unique([item.question for item in items], return_inverse=True)
    stratum = np.zeros(len(items), dtype=np.int64)
    return draw_clusters(clusters, stratum, options.draws, options.seed, label)


def label_audit(labelling: Labelling, options: Options) -> LabelAudit | None:
    """Audit the labels against the annotations; None without annotations."""
    if not labelling.answers:
        return None
    level, against = options.level, labelling.against
    error = wilson(sum(against.values()), len(against), level)
    count = Counter(labelling.outcomes.values())
    rows = [row for rows in labelling.answers.values() for row in rows]
    return LabelAudit(
        items=len(labelling.items),
        answered=len(labelling.answers),
        decided=len(against),
        ties=count[TIE],
        cannot=count[CANNOT],
        unresolved=tuple(k for k, outcome in labelling.outcomes.items() if outcome == UNRESOLVED),
        error=error,
        ceiling=_ceiling(error),
        agreement=_agreement(labelling, options),
        annotators=tuple(
            _annotator(labelling, name, [row for row in rows if row.annotator == name], level)
            for name in sorted({row.annotator for row in rows})
        ),
        changed_after_draft=_switched(labelling, rows, level),
        contradicted=tuple(key for key, wrong in against.items() if wrong),
    )


def _ceiling(error: Estimate) -> Estimate:
    """Observed accuracy of a perfect rewarder: a' = a(1 − e) + (1 − a)e with a = 1."""
    if error.value is None or error.low is None or error.high is None:
        return nothing()
    return estimate(1 - error.value, 1 - error.high, 1 - error.low, error.n, error.method)


def _agreement(labelling: Labelling, options: Options) -> Agreement | None:
    """Agreement on items with independent answers: an adjudicator's would bias it."""
    first = {key: rows[: labelling.usual] for key, rows in labelling.answers.items()}
    first = {key: rows for key, rows in first.items() if len(rows) > 1}
    if not first:
        return None
    names = sorted({row.annotator for rows in first.values() for row in rows})
    codes: dict[str, int] = {}
    table = np.full((len(first), len(names)), agreement.MISSING)
    for index, rows in enumerate(first.values()):
        for row in rows:
            if row.choice != CANNOT:
                code = codes.setdefault(row.choice, len(codes))
                table[index, names.index(row.annotator)] = code
    draws = question_draws([labelling.by_key[key] for key in first], options, "annotated items")
    return Agreement(
        items=len(first),
        percent=agreement.percent(table, draws, options.level),
        alpha=agreement.alpha(table, draws, options.level),
    )


def _annotator(
    labelling: Labelling, name: str, rows: Sequence[Annotation], level: float
) -> AnnotatorAudit:
    seconds = [row.seconds for row in rows if row.seconds is not None]
    count = Counter(row.choice for row in rows)
    said = (contradicts(labelling.by_key[row.item], row.choice) for row in rows)
    wrong = [value for value in said if value is not None]
    return AnnotatorAudit(
        annotator=name,
        answers=len(rows),
        ties=count[TIE],
        cannot=count[CANNOT],
        seconds=median(seconds) if seconds else None,
        against_label=wilson(sum(wrong), len(wrong), level),
    )


def _switched(labelling: Labelling, rows: Iterable[Annotation], level: float) -> Estimate | None:
    """Share of the answers that switched to a draft that differed from the first choice."""
    drafts = labelling.drafts
    switched = [
        row.choice == drafts[row.item]
        for row in rows
        if row.item in drafts and (row.first or row.choice) != drafts[row.item]
    ]
    return wilson(sum(switched), len(switched), level) if switched else None
