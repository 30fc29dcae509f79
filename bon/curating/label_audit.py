"""Label audit: consensus of annotators, their agreement, and how often they contradict labels."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

import numpy as np
from numpy.typing import NDArray

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
Ints = NDArray[np.int64]


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
        agreement=_agreement(labelling, options),
        kappas=_kappas(labelling, options),
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


def _matrix(labelling: Labelling, keys: Sequence[str], tag: str | None = None) -> Ints:
    """Return (items, annotators): choices as codes, or whether they set the tag; MISSING else."""
    columns = {name: index for index, name in enumerate(labelling.annotators)}
    codes: dict[str, int] = {}
    table = np.full((len(keys), len(columns)), MISSING)
    for index, key in enumerate(keys):
        for row in labelling.first(key):
            if row.choice != CANNOT:
                code = codes.setdefault(row.choice, len(codes)) if tag is None else tag in row.tags
                table[index, columns[row.annotator]] = code
    return table


def _draws(labelling: Labelling, keys: Sequence[str], options: Options) -> Draws:
    return question_draws([labelling.by_key[key] for key in keys], options, "annotated items")


def _agreement(labelling: Labelling, options: Options) -> tuple[Agreement, ...]:
    """Agreement on all items, then on the items of each tag, most frequent first."""
    twice = [key for key in labelling.answers if len(labelling.first(key)) > 1]
    count = Counter(tag for key in twice for tag in labelling.tags[key])
    level, result = options.level, []
    for tag in ("", *(tag for tag, _ in count.most_common())):
        keys = [key for key in twice if not tag or tag in labelling.tags[key]]
        if not keys:
            continue
        table, draws = _matrix(labelling, keys), _draws(labelling, keys, options)
        on_tag = None
        if tag:
            every = _draws(labelling, twice, options)
            on_tag = agreement.alpha(_matrix(labelling, twice, tag), every, level)
        result.append(
            Agreement(
                tag=tag,
                items=len(keys),
                percent=agreement.percent(table, draws, level),
                alpha=agreement.alpha(table, draws, level),
                on_tag=on_tag,
            )
        )
    return tuple(result)


def _kappas(labelling: Labelling, options: Options) -> tuple[Kappa, ...]:
    keys = list(labelling.answers)
    table, draws = _matrix(labelling, keys), _draws(labelling, keys, options)
    return tuple(
        Kappa(
            a=labelling.annotators[a],
            b=labelling.annotators[b],
            percent=agreement.percent(table[:, [a, b]], draws, options.level),
            kappa=agreement.kappa(table[:, a], table[:, b], draws, options.level),
        )
        for a, b in agreement.pairs_of(table)
    )


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
    shown, differed = _after_draft(labelling, rows)
    on_checks = [row for row in rows if row.item in labelling.checks]
    return AnnotatorAudit(
        annotator=name,
        answers=len(rows),
        ties=count[TIE],
        cannot=count[CANNOT],
        seconds=median(seconds) if seconds else None,
        against_gold=_mistakes(labelling, rows, level),
        on_checks=_mistakes(labelling, on_checks, level),
        drafts_shown=shown,
        kept_first=sum(row.choice == (row.first or row.choice) for row in differed),
        took_draft=sum(row.choice == labelling.drafts[row.item] for row in differed),
    )


def _mistakes(labelling: Labelling, rows: Iterable[Annotation], level: float) -> Estimate:
    """Share of the chosen responses that contradict the label."""
    wrong = [contradicts(labelling.by_key[row.item], row.choice) for row in rows]
    counted = [value for value in wrong if value is not None]
    return wilson(sum(counted), len(counted), level)


def _after_draft(labelling: Labelling, rows: Iterable[Annotation]) -> tuple[int, list[Annotation]]:
    """Return how many answers were shown a draft, and those whose first choice differed from it."""
    shown = [row for row in rows if row.item in labelling.drafts and row.source == "page"]
    differed = [row for row in shown if (row.first or row.choice) != labelling.drafts[row.item]]
    return len(shown), differed


def _switched(labelling: Labelling, level: float) -> Estimate | None:
    """Share of the answers that switched to a draft that differed from the first choice."""
    _, differed = _after_draft(labelling, labelling.rows)
    switched = sum(row.choice == labelling.drafts[row.item] for row in differed)
    return wilson(switched, len(differed), level) if differed else None
