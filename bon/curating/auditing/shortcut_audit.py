"""Shortcut audit: accuracy of rules of form and of blind rewarders."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bon.analysis.auditing import shortcuts
from bon.analysis.auditing.shortcuts import FEATURES, RULES, Formed, form_of, rule_credit
from bon.analysis.estimators.resampling import from_draws
from bon.analysis.results import Options
from bon.analysis.results.audit import ShortcutAudit, ShortcutRule
from bon.curating.auditing.item_audit import Evidence
from bon.curating.items import CuratedItem
from bon.curating.labelling.consensus import question_draws

Scores = Sequence[float] | None
"""A rule's score of each response; None where it does not apply."""


def shortcut_audit(
    items: Sequence[CuratedItem], evidence: Evidence, options: Options
) -> ShortcutAudit:
    """Audit the items."""
    forms = [np.array([form_of(text) for text in item.responses]) for item in items]
    scores: dict[str, list[Scores]] = {
        rule: [(sign * form[:, FEATURES.index(feature)]).tolist() for form in forms]
        for rule, (feature, sign) in RULES.items()
    }
    scores["first"] = [[0.0, -1.0]] * len(items)
    scores["more likely"] = [_likelihoods(item, evidence) for item in items]
    rules = [_rule(name, items, rows, options) for name, rows in scores.items()]
    rules += [_blind(name, items, evidence, options) for name in sorted(evidence.blind)]
    rows = zip(items, forms, strict=True)
    difference = np.array([form[item.better] - form[item.wrong] for item, form in rows])
    difference = difference.reshape(-1, len(FEATURES))
    _, question = np.unique([item.question for item in items], return_inverse=True)
    formed = Formed(difference, question)
    weights = shortcuts.weights(difference, np.ones((1, len(items))))[0] if items else ()
    draws = question_draws(items, options)
    return ShortcutAudit(
        pairs=len(items),
        questions=len(set(question.tolist())),
        auc=shortcuts.form_auc(formed, draws, options.seed, options.level),
        features={name: float(w) for name, w in zip(FEATURES, weights, strict=False)},
        rules=tuple(rule for rule in rules if rule is not None),
    )


def _likelihoods(item: CuratedItem, evidence: Evidence) -> Scores:
    """Mean log-probabilities, if one policy wrote all responses and all are known."""
    values = [evidence.likelihood.get((item.question, key)) for key in item.text_keys]
    known = [value for value in values if value is not None]
    return known if len(set(item.policies)) == 1 and len(known) == len(values) else None


def _blind(
    name: str, items: Sequence[CuratedItem], evidence: Evidence, options: Options
) -> ShortcutRule | None:
    """A rewarder that was shown no images."""
    credit = evidence.credits[name].reindex([item.key for item in items]).to_numpy(dtype=float)
    decides = np.where(np.isfinite(credit), np.where(credit == 0.5, 0.0, 1.0), np.nan)
    return _summary(f"{name} (sees no image)", items, credit, decides, options)


def _rule(
    name: str, items: Sequence[CuratedItem], scores: Sequence[Scores], options: Options
) -> ShortcutRule | None:
    credit, decides = np.full((2, len(items)), np.nan)
    for at, (item, score) in enumerate(zip(items, scores, strict=True)):
        if score is not None:
            credit[at], decides[at] = rule_credit(score, item.better)
    return _summary(name, items, credit, decides, options)


def _summary(
    name: str,
    items: Sequence[CuratedItem],
    credit: NDArray[np.float64],
    decides: NDArray[np.float64],
    options: Options,
) -> ShortcutRule | None:
    """Summarise a rule; None if it never decides."""
    known = np.flatnonzero(np.isfinite(credit)).tolist()
    if len(known) == 0 or not decides[known].any():
        return None
    rated = [items[at] for at in known]
    value = np.array([credit[known].mean()])
    spread = question_draws(rated, options).means(credit[known, None])
    return ShortcutRule(
        rule=name,
        accuracy=from_draws(value, spread, len(known), "questions", options.level)[0],
        chance=0.5,
        says=float(decides[known].mean()),
    )
