"""Audit of the items: whether rules of form, or rewarders without the image, tell what is right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bon.analysis.auditing import shortcuts
from bon.analysis.auditing.shortcuts import FEATURES, RULES, Formed, form_of
from bon.analysis.estimators.resampling import from_draws
from bon.analysis.results import Options
from bon.analysis.results.audit import ShortcutAudit, ShortcutRule
from bon.curating.items import CuratedItem
from bon.curating.label_audit import question_draws

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """What the runs know of the items.

    credits: items x rewarders. blind: rewarders that saw no images.
    likelihood: mean token log-probability by (question, text key). missing: why there is none.
    """

    credits: pd.DataFrame = field(default_factory=pd.DataFrame)
    blind: frozenset[str] = frozenset()
    likelihood: Mapping[tuple[str, str], float] = field(default_factory=dict)
    missing: str = ""


def shortcut_audit(
    items: Sequence[CuratedItem], evidence: Evidence, options: Options
) -> ShortcutAudit:
    """Audit the items."""
    sides = [(item.responses[item.better], item.responses[item.wrong]) for item in items]
    forms = np.array([[form_of(text) for text in texts] for texts in sides])
    difference = np.subtract(*forms.reshape(-1, 2, len(FEATURES)).swapaxes(0, 1))
    gaps = {  # right minus wrong response; 0: the rule does not decide, NaN: it does not apply
        rule: sign * difference[:, FEATURES.index(feature)]
        for rule, (feature, sign) in RULES.items()
    }
    gaps["first"] = np.array([1.0 - 2 * item.better for item in items])
    gaps["more likely"] = np.array([_likelihood_gap(item, evidence) for item in items])
    for name in sorted(evidence.blind):
        credit = evidence.credits[name].reindex([item.key for item in items])
        gaps[f"{name} (sees no image)"] = credit.to_numpy(dtype=float) - 0.5
    rules = (_rule(name, items, gap, options) for name, gap in gaps.items())
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


def _likelihood_gap(item: CuratedItem, evidence: Evidence) -> float:
    """Difference of mean log-probabilities, if one policy wrote both responses."""
    if len(set(item.policies)) > 1:
        return np.nan
    right, wrong = (
        evidence.likelihood.get((item.question, item.text_keys[index]), np.nan)
        for index in (item.better, item.wrong)
    )
    return right - wrong


def _rule(
    name: str, items: Sequence[CuratedItem], gap: Floats, options: Options
) -> ShortcutRule | None:
    """Summarise a rule, which is right where the gap is positive; None if it never decides."""
    known = np.flatnonzero(np.isfinite(gap))
    if not gap[known].any():
        return None
    credit = (np.sign(gap[known]) + 1) / 2
    spread = question_draws([items[at] for at in known.tolist()], options).means(credit[:, None])
    value = np.array([credit.mean()])
    return ShortcutRule(
        rule=name,
        accuracy=from_draws(value, spread, len(known), "questions", options.level)[0],
        chance=0.5,
        says=float((gap[known] != 0).mean()),
    )
