"""Label audit: consensus of annotators, their agreement, and how often they contradict labels."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

import numpy as np

from bon.analysis.auditing import agreement
from bon.analysis.auditing.agreement import MISSING
from bon.analysis.auditing.label_error import (
    annotator_error,
    ceiling,
    corrected_error,
    label_error,
    predicted_error,
    weighted_error,
)
from bon.analysis.estimators.resampling import Draws, draw_clusters, wilson
from bon.analysis.results import Estimate, Options
from bon.analysis.results.audit import (
    Agreement,
    AnnotatorAudit,
    Kappa,
    LabelAudit,
    TagError,
)
from bon.curating.items import CuratedItem
from bon.curating.labelling.annotation_queue import gold_checks
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

    drafts: label of each drafted item. usual: annotators per item; further ones answer because
    the others disagree. checks: items on which annotators are checked.
    """

    items: Sequence[CuratedItem]
    annotations: Sequence[Annotation]
    drafts: Mapping[str, str]
    usual: int
    checks: frozenset[str] = frozenset()

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
    def rows(self) -> list[Annotation]:
        """All answers, item by item."""
        return [row for rows in self.answers.values() for row in rows]

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
    def tags(self) -> dict[str, frozenset[str]]:
        """All tags of each item."""
        return {
            key: frozenset(tag for row in rows for tag in row.tags)
            for key, rows in self.answers.items()
        }

    @cached_property
    def annotators(self) -> list[str]:
        """All annotators, sorted."""
        return sorted({row.annotator for row in self.rows})

    def first(self, key: str) -> list[Annotation]:
        """Return the answers that did not depend on earlier ones."""
        return self.answers.get(key, [])[: self.usual]


def load_labelling(bench: Workbench) -> Labelling:
    """Return the items with the annotations that count and the parsed drafts."""
    recipe, drafts = bench.recipe, read_drafts(bench.drafts_path)
    return Labelling(
        bench.items,
        current(bench.annotations_path),
        {key: draft.label for key, draft in drafts.items() if draft.label != UNREAD},
        recipe.annotating.annotators_per_item,
        gold_checks(bench.items, recipe.annotating, recipe.seed),
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
    level, items = options.level, labelling.by_key
    decided = [key for key in items if key in labelling.against]
    wrong = np.array([labelling.against[key] for key in decided], dtype=float)
    error = label_error(wrong, level)
    probability = np.array([items[key].probability for key in decided])
    pairs = _two_answers(labelling)
    own = annotator_error(np.array([differ for differ, _ in pairs.values()]), level)
    agreed = [key for key, (differ, _) in pairs.items() if not differ]
    corrected = corrected_error(
        np.array([pairs[key][1] != items[key].better for key in agreed], dtype=float), own, level
    )
    outcomes = labelling.outcomes
    count = Counter(outcomes.values())
    agreed_on, kappas = _agreement(labelling, options)
    return LabelAudit(
        items=len(items),
        answered=len(labelling.answers),
        decided=len(decided),
        ties=count[TIE],
        cannot=count[CANNOT],
        unresolved=tuple(key for key, outcome in outcomes.items() if outcome == UNRESOLVED),
        error=error,
        error_on_pool=weighted_error(wrong, probability, level),
        error_corrected=corrected,
        error_predicted=_predicted(labelling, level),
        ceiling=ceiling(corrected if corrected.value is not None else error),
        annotator_error=own,
        draft_agrees=_draft_agreement(labelling, decided, level),
        agreement=agreed_on,
        kappas=kappas,
        annotators=tuple(_annotator(labelling, name, level) for name in labelling.annotators),
        tags=_tags(labelling, decided, level),
        changed_after_draft=_switched(labelling, level),
        contradicted=tuple(key for key in decided if labelling.against[key]),
    )


def _two_answers(labelling: Labelling) -> dict[str, tuple[float, int]]:
    """Return (differ, first choice) of pairs whose first two answers both name a response."""
    result = {}
    for item in labelling.items:
        choices = [row.choice for row in labelling.first(item.key)[:2]]
        if len(choices) == 2 and all(choice.isdigit() for choice in choices):
            result[item.key] = float(choices[0] != choices[1]), int(choices[0])
    return result


def _predicted(labelling: Labelling, level: float) -> Estimate | None:
    """Prediction-powered label error, if items are drafted and people saw only some of them."""
    items = labelling.items
    drafts = [contradicts(item, labelling.drafts.get(item.key, "")) for item in items]
    people = np.array([float(labelling.against.get(item.key, np.nan)) for item in items])
    if not items or all(value is None for value in drafts) or np.isfinite(people).all():
        return None
    return predicted_error(
        np.array([value is True for value in drafts], dtype=float), people, level
    )


def _draft_agreement(labelling: Labelling, keys: Iterable[str], level: float) -> Estimate | None:
    drafts = labelling.drafts
    same = [drafts[key] == labelling.outcomes[key] for key in keys if key in drafts]
    return wilson(sum(same), len(same), level) if same else None


def _agreement(
    labelling: Labelling, options: Options
) -> tuple[Agreement | None, tuple[Kappa, ...]]:
    """Agreement of all annotators, and of every two, on items with independent answers."""
    keys = [key for key in labelling.answers if len(labelling.first(key)) > 1]
    if not keys:
        return None, ()
    names = labelling.annotators
    codes: dict[str, int] = {}
    table = np.full((len(keys), len(names)), MISSING)
    for index, key in enumerate(keys):
        for row in labelling.first(key):
            if row.choice != CANNOT:
                code = codes.setdefault(row.choice, len(codes))
                table[index, names.index(row.annotator)] = code
    draws = question_draws([labelling.by_key[key] for key in keys], options, "annotated items")
    level = options.level
    every = Agreement(
        items=len(keys),
        percent=agreement.percent(table, draws, level),
        alpha=agreement.alpha(table, draws, level),
    )
    kappas = (
        Kappa(
            a=names[a],
            b=names[b],
            percent=agreement.percent(table[:, [a, b]], draws, level),
            kappa=agreement.kappa(table[:, a], table[:, b], draws, level),
        )
        for a, b in agreement.pairs_of(table)
    )
    return every, tuple(kappas)


def _tags(labelling: Labelling, decided: Sequence[str], level: float) -> tuple[TagError, ...]:
    keys: defaultdict[str, list[str]] = defaultdict(list)
    for key in decided:
        for tag in labelling.tags[key]:
            keys[tag].append(key)
    return tuple(
        TagError(
            tag=tag,
            error=label_error(np.array([labelling.against[key] for key in own], float), level),
            draft_agrees=_draft_agreement(labelling, own, level),
        )
        for tag, own in sorted(keys.items(), key=lambda pair: -len(pair[1]))
    )


def _annotator(labelling: Labelling, name: str, level: float) -> AnnotatorAudit:
    rows = [row for row in labelling.rows if row.annotator == name]
    seconds = [row.seconds for row in rows if row.seconds is not None]
    count = Counter(row.choice for row in rows)
    on_checks = [row for row in rows if row.item in labelling.checks]
    return AnnotatorAudit(
        annotator=name,
        answers=len(rows),
        ties=count[TIE],
        cannot=count[CANNOT],
        seconds=median(seconds) if seconds else None,
        against_gold=_mistakes(labelling, rows, level),
        on_checks=_mistakes(labelling, on_checks, level),
    )


def _mistakes(labelling: Labelling, rows: Iterable[Annotation], level: float) -> Estimate:
    """Share of the chosen responses that contradict the label."""
    wrong = [contradicts(labelling.by_key[row.item], row.choice) for row in rows]
    counted = [value for value in wrong if value is not None]
    return wilson(sum(counted), len(counted), level)


def _switched(labelling: Labelling, level: float) -> Estimate | None:
    """Share of the answers that switched to a draft that differed from the first choice."""
    drafts = labelling.drafts
    switched = [
        row.choice == drafts[row.item]
        for row in labelling.rows
        if row.item in drafts
        and row.source == "page"
        and (row.first or row.choice) != drafts[row.item]
    ]
    return wilson(sum(switched), len(switched), level) if switched else None
