"""What people say of the labels: their consensus, how far it holds, what it contradicts."""

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
from bon.analysis.results.audited import (
    Agreement,
    AnnotatorAudit,
    Kappa,
    LabelAudit,
    TagError,
)
from bon.curating.annotations import CANNOT, TIE, Annotation
from bon.curating.items import CuratedItem

UNRESOLVED = "unresolved"

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def consensus(choices: Iterable[str]) -> str:
    """What more than half of those who could judge say; `unresolved` where nothing is.

    `cannot` where nobody could judge, and empty where nobody was asked.
    """
    said = list(choices)
    judged = [choice for choice in said if choice != CANNOT]
    if not judged:
        return CANNOT if said else ""
    most, count = Counter(judged).most_common(1)[0]
    return most if 2 * count > len(judged) else UNRESOLVED


def contradicts(item: CuratedItem, outcome: str) -> bool | None:
    """Whether a consensus is another response than the label; None where it names none.

    Items whose responses are all right have no label that a choice could contradict.
    """
    if item.better is None or not outcome.isdigit():
        return None
    return int(outcome) != item.better


@dataclass(frozen=True)
class Labelling:
    """The items with what people said of them.

    `drafts` has the label of each item that was drafted. `usual` is how many annotators every item
    gets; who is asked beyond them is asked because they disagree. `checks` are the items on which
    annotators are checked.
    """

    items: Sequence[CuratedItem]
    annotations: Sequence[Annotation]
    drafts: Mapping[str, str]
    usual: int
    checks: frozenset[str] = frozenset()

    @cached_property
    def answers(self) -> dict[str, list[Annotation]]:
        """Item -> its answers, in the order in which they came."""
        known = {item.key for item in self.items}
        found = defaultdict(list)
        for row in self.annotations:
            if row.item in known:
                found[row.item].append(row)
        return dict(found)

    @cached_property
    def outcomes(self) -> dict[str, str]:
        """Item -> consensus, of the items that somebody answered."""
        return {key: consensus(row.choice for row in rows) for key, rows in self.answers.items()}

    @cached_property
    def against(self) -> dict[str, bool]:
        """Item -> whether the consensus contradicts its label, where it names a response."""
        found = {
            item.key: contradicts(item, self.outcomes.get(item.key, "")) for item in self.items
        }
        return {key: value for key, value in found.items() if value is not None}

    @cached_property
    def tags(self) -> dict[str, frozenset[str]]:
        """Item -> every tag that an annotator put on it."""
        return {
            key: frozenset(tag for row in rows for tag in row.tags)
            for key, rows in self.answers.items()
        }

    @cached_property
    def annotators(self) -> list[str]:
        """Everybody who answered, in order."""
        return sorted({row.annotator for rows in self.answers.values() for row in rows})

    def first(self, key: str) -> list[Annotation]:
        """The answers to an item that did not depend on earlier ones."""
        return self.answers.get(key, [])[: self.usual]


def label_audit(labelling: Labelling, options: Options) -> LabelAudit | None:
    """Everything that people's answers say; None where nobody answered."""
    if not labelling.answers:
        return None
    level = options.level
    items = {item.key: item for item in labelling.items}
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
    said = Counter(labelling.outcomes.values())
    drafted = _against_drafts(labelling, decided, level)
    return LabelAudit(
        items=len(items),
        answered=len(labelling.answers),
        decided=len(decided),
        ties=said[TIE],
        cannot=said[CANNOT],
        unresolved=tuple(k for k, outcome in labelling.outcomes.items() if outcome == UNRESOLVED),
        error=error,
        error_on_pool=weighted_error(wrong, probability, level),
        error_corrected=corrected,
        error_predicted=_predicted(labelling, level),
        ceiling=ceiling(corrected if corrected.value is not None else error),
        annotator_error=own,
        draft_agrees=drafted,
        agreement=_agreement(labelling, options),
        kappas=_kappas(labelling, options),
        annotators=tuple(
            _annotator(labelling, items, name, level) for name in labelling.annotators
        ),
        tags=_tags(labelling, decided, level),
        changed_after_draft=_changed(labelling, level),
        contradicted=tuple(key for key in decided if labelling.against[key]),
    )


def _two_answers(labelling: Labelling) -> dict[str, tuple[float, int]]:
    """Of pairs of responses, where the first two to answer chose one: (differ, the first's)."""
    found = {}
    for item in labelling.items:
        said = [row.choice for row in labelling.first(item.key)[:2]]
        pair = len(item.responses) == 2 and item.better is not None
        if pair and len(said) == 2 and all(choice.isdigit() for choice in said):
            found[item.key] = float(said[0] != said[1]), int(said[0])
    return found


def _predicted(labelling: Labelling, level: float) -> Estimate | None:
    """Where every labelled item has a draft and people did not see all of them."""
    items = [item for item in labelling.items if item.better is not None]
    drafts = [contradicts(item, labelling.drafts.get(item.key, "")) for item in items]
    people = np.array([float(labelling.against.get(item.key, np.nan)) for item in items])
    if not items or all(one is None for one in drafts) or np.isfinite(people).all():
        return None
    return predicted_error(np.array([one is True for one in drafts], dtype=float), people, level)


def _against_drafts(labelling: Labelling, decided: Iterable[str], level: float) -> Estimate | None:
    same = [
        labelling.drafts[key] == labelling.outcomes[key]
        for key in decided
        if key in labelling.drafts
    ]
    return wilson(sum(same), len(same), level) if same else None


# ------------------------------------------------------------------ agreement


def _matrix(labelling: Labelling, keys: Sequence[str], tag: str | None = None) -> Ints:
    """(I, A): choices as codes, or whether the tag was put; −1 missing or could not judge."""
    names = {name: place for place, name in enumerate(labelling.annotators)}
    codes: dict[str, int] = {}
    table = np.full((len(keys), len(names)), MISSING)
    for row, key in enumerate(keys):
        for one in labelling.first(key):
            if one.choice == CANNOT:
                continue
            code = codes.setdefault(one.choice, len(codes)) if tag is None else tag in one.tags
            table[row, names[one.annotator]] = code
    return table


def _draws(labelling: Labelling, keys: Sequence[str], options: Options) -> Draws:
    """Items, those of one question together."""
    question = {item.key: item.question for item in labelling.items}
    _, clusters = np.unique([question[key] for key in keys], return_inverse=True)
    one_stratum = np.zeros(len(keys), dtype=np.int64)
    return draw_clusters(clusters, one_stratum, options.draws, options.seed, "annotated items")


def _agreement(labelling: Labelling, options: Options) -> tuple[Agreement, ...]:
    """Over all items, then of the items with each tag, the most frequent tag first."""
    twice = [key for key in labelling.answers if len(labelling.first(key)) > 1]
    counted = Counter(tag for key in twice for tag in labelling.tags[key])
    found = []
    for tag in ("", *(tag for tag, _ in counted.most_common())):
        keys = [key for key in twice if not tag or tag in labelling.tags[key]]
        if not keys:
            continue
        table, draws = _matrix(labelling, keys), _draws(labelling, keys, options)
        marked = None
        if tag:
            every = _draws(labelling, twice, options)
            marked = agreement.alpha(_matrix(labelling, twice, tag), every, options.level)
        found.append(
            Agreement(
                tag=tag,
                items=len(keys),
                percent=agreement.percent(table, draws, options.level),
                alpha=agreement.alpha(table, draws, options.level),
                on_tag=marked,
            )
        )
    return tuple(found)


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
    counted = Counter(tag for key in decided for tag in labelling.tags[key])
    found = []
    for tag, _ in counted.most_common():
        keys = [key for key in decided if tag in labelling.tags[key]]
        wrong = np.array([labelling.against[key] for key in keys], dtype=float)
        found.append(
            TagError(
                tag=tag,
                error=label_error(wrong, level),
                draft_agrees=_against_drafts(labelling, keys, level),
            )
        )
    return tuple(found)


# ------------------------------------------------------------------ annotators


def _annotator(
    labelling: Labelling, items: Mapping[str, CuratedItem], name: str, level: float
) -> AnnotatorAudit:
    rows = [row for every in labelling.answers.values() for row in every if row.annotator == name]
    seconds = [row.seconds for row in rows if row.seconds is not None]
    said = Counter(row.choice for row in rows)
    shown = _shown(labelling, rows)
    differed = [row for row in shown if (row.first or row.choice) != labelling.drafts[row.item]]
    return AnnotatorAudit(
        annotator=name,
        answers=len(rows),
        ties=said[TIE],
        cannot=said[CANNOT],
        seconds=median(seconds) if seconds else None,
        against_gold=_mistakes(items, rows, level),
        on_checks=_mistakes(items, [row for row in rows if row.item in labelling.checks], level),
        drafts_shown=len(shown),
        kept_first=sum(row.choice == (row.first or row.choice) for row in differed),
        took_draft=sum(row.choice == labelling.drafts[row.item] for row in differed),
    )


def _mistakes(
    items: Mapping[str, CuratedItem], rows: Iterable[Annotation], level: float
) -> Estimate:
    """Share of the choices of a response that contradict the label."""
    wrong = [contradicts(items[row.item], row.choice) for row in rows]
    counted = [one for one in wrong if one is not None]
    return wilson(sum(counted), len(counted), level)


def _shown(labelling: Labelling, rows: Iterable[Annotation]) -> list[Annotation]:
    """The answers after which a draft was shown: on the page, of drafted items."""
    return [row for row in rows if row.item in labelling.drafts and row.source == "page"]


def _changed(labelling: Labelling, level: float) -> Estimate | None:
    """Share of the answers that went over to a draft that differed from the first choice."""
    shown = _shown(labelling, (row for rows in labelling.answers.values() for row in rows))
    differed = [row for row in shown if (row.first or row.choice) != labelling.drafts[row.item]]
    took = sum(row.choice == labelling.drafts[row.item] for row in differed)
    return wilson(took, len(differed), level) if differed else None
