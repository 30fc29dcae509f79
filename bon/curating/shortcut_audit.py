"""Whether the items can be answered without reading them: rules of form, and blind rewarders."""

from collections.abc import Sequence

import numpy as np

from bon.analysis.auditing import shortcuts
from bon.analysis.auditing.shortcuts import FEATURES, RULES, Formed, form_of, rule_credit
from bon.analysis.estimators.resampling import from_draws
from bon.analysis.results import Options
from bon.analysis.results.audited import ShortcutAudit, ShortcutRule
from bon.curating.evidence import Evidence
from bon.curating.item_audit import question_draws
from bon.curating.items import CuratedItem


def shortcut_audit(
    items: Sequence[CuratedItem], found: Evidence, options: Options
) -> ShortcutAudit:
    """Of the items with one right response."""
    items = [item for item in items if item.better is not None]
    forms = [np.array([form_of(text) for text in item.responses]) for item in items]
    rules = [_by_form(rule, items, forms, options) for rule in RULES]
    rules.append(_rule("first", items, [_first(item) for item in items], options))
    rules.append(_likelier(items, found, options))
    rules += [_blind(name, items, found, options) for name in sorted(found.blind)]
    differences, owners = [], []
    for item, form in zip(items, forms, strict=True):
        assert item.better is not None
        wrong = [place for place in range(len(form)) if place != item.better]
        differences += [form[item.better] - form[place] for place in wrong]
        owners += [item] * len(wrong)
    difference = np.array(differences).reshape(-1, len(FEATURES))
    _, question = np.unique([item.question for item in owners], return_inverse=True)
    pairs = Formed(difference, question)
    every = np.ones((1, len(difference)))
    return ShortcutAudit(
        pairs=len(owners),
        questions=len(set(question.tolist())),
        auc=shortcuts.form_auc(pairs, question_draws(owners, options), options.seed, options.level),
        features=dict(zip(FEATURES, shortcuts.weights(difference, every)[0].tolist(), strict=True))
        if len(difference)
        else {},
        rules=tuple(rule for rule in rules if rule is not None),
    )


Scores = Sequence[float] | None


def _by_form(
    rule: str, items: Sequence[CuratedItem], forms: Sequence[np.ndarray], options: Options
) -> ShortcutRule | None:
    feature, sign = RULES[rule]
    column = FEATURES.index(feature)
    return _rule(rule, items, [(sign * form[:, column]).tolist() for form in forms], options)


def _first(item: CuratedItem) -> list[float]:
    """The response that comes first in the canonical order, which is nobody's to choose."""
    return [float(-place) for place in range(len(item.responses))]


def _likelier(
    items: Sequence[CuratedItem], found: Evidence, options: Options
) -> ShortcutRule | None:
    """What its own policy was surest of, where that is known of every response of one policy."""
    scores: list[Scores] = []
    for item in items:
        known = [found.likelihood.get((item.question, key)) for key in item.text_keys]
        numbers = [value for value in known if value is not None]
        one_policy = len(set(item.policies)) == 1
        scores.append(numbers if one_policy and len(numbers) == len(known) else None)
    return _rule("more likely", items, scores, options)


def _blind(
    name: str, items: Sequence[CuratedItem], found: Evidence, options: Options
) -> ShortcutRule | None:
    """A rewarder of the runs that was asked without the images."""
    credit = found.credits[name].reindex([item.key for item in items]).to_numpy(dtype=float)
    decided = np.where(np.isfinite(credit), np.where(credit == 0.5, 0.0, 1.0), np.nan)
    return _made(f"{name} (sees no image)", items, credit, decided, options)


def _rule(
    rule: str, items: Sequence[CuratedItem], scores: Sequence[Scores], options: Options
) -> ShortcutRule | None:
    credit, says = np.full((2, len(items)), np.nan)
    for at, (item, score) in enumerate(zip(items, scores, strict=True)):
        assert item.better is not None
        if score is not None:
            credit[at], says[at] = rule_credit(score, item.better)
    return _made(rule, items, credit, says, options)


def _made(
    rule: str, items: Sequence[CuratedItem], credit: np.ndarray, says: np.ndarray, options: Options
) -> ShortcutRule | None:
    known = np.flatnonzero(np.isfinite(credit)).tolist()
    if len(known) == 0 or not says[known].any():
        return None  # a rule that never decides says nothing
    some = [items[at] for at in known]
    value = np.array([credit[known].mean()])
    spread = question_draws(some, options).means(credit[known, None])
    return ShortcutRule(
        rule=rule,
        accuracy=from_draws(value, spread, len(known), "questions", options.level)[0],
        chance=float(np.mean([1 / len(item.responses) for item in some])),
        says=float(says[known].mean()),
    )
