"""Audit of the items: suspicious labels, quality of measurement, and rules of form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bon.analysis.auditing import item_scores, shortcuts
from bon.analysis.auditing.shortcuts import FEATURES, RULES, Formed, form_of
from bon.analysis.estimators.resampling import (
    Draws,
    first_by_second,
    from_draws,
    number,
    of_sums,
)
from bon.analysis.results import Estimate, Options
from bon.analysis.results.audit import (
    Discrimination,
    ItemAudit,
    ItemsAudit,
    RewarderAudit,
    ShortcutAudit,
    ShortcutRule,
)
from bon.curating.items import CuratedItem
from bon.curating.label_audit import Labelling, question_draws

MAX_FLIPS = 0.5
"""An item whose verdict flips with the order for more than this share of rewarders is ambiguous."""

Floats = NDArray[np.float64]


def _no_verdicts() -> pd.DataFrame:
    return pd.DataFrame(columns=["item", "rewarder", "order", "credit"])


@dataclass(frozen=True)
class Evidence:
    """What the runs know of the items.

    credits: items x rewarders. verdicts: rows by order. blind: rewarders that saw no images.
    likelihood: mean token log-probability by (question, text key). missing: why there is none.
    """

    credits: pd.DataFrame = field(default_factory=pd.DataFrame)
    verdicts: pd.DataFrame = field(default_factory=_no_verdicts)
    blind: frozenset[str] = frozenset()
    likelihood: Mapping[tuple[str, str], float] = field(default_factory=dict)
    missing: str = ""


def items_audit(labelling: Labelling, evidence: Evidence, options: Options) -> ItemsAudit | None:
    """Audit the items by the rewarders' verdicts; None without verdicts.

    Rewarders that judged few items (`item_scores.judged_enough`) are shown but not counted.
    """
    keys = [item.key for item in labelling.items]
    credit = evidence.credits.reindex(keys).dropna(axis=1, how="all")
    if credit.empty:
        return None
    level = options.level
    draws = question_draws([labelling.by_key[key] for key in keys], options)
    weight = np.array([labelling.by_key[key].weight for key in keys])
    flips = item_scores.flips(evidence.verdicts).reindex(index=keys, columns=credit.columns)
    names = [str(name) for name in credit.columns]
    enough = item_scores.judged_enough(credit[names].to_numpy(dtype=float))
    names = [name for name, sufficient in zip(names, enough, strict=True) if sufficient]
    x = credit[names].to_numpy(dtype=float)
    right = np.where(np.isfinite(x), (x > 0.5).astype(float), np.nan)
    r = item_scores.discrimination(x)
    order = np.argsort(np.nan_to_num(r, nan=2.0), kind="stable")
    item_flips = flips[names].mean(axis=1)
    q = item_scores.discordance(x)
    comparable = x.shape[1] > 1 and bool(np.isfinite(x).all(axis=1).any())
    counts = np.isfinite(x).sum(axis=1)
    columns = pd.DataFrame(
        {
            "right": item_scores.share_right(x),
            "discrimination": r,
            "flips": item_flips.to_numpy(),
        }
    )
    return ItemsAudit(
        rewarders=_rewarders(credit, flips, weight, draws, level),
        items=tuple(
            ItemAudit(
                key=key,
                id=labelling.by_key[key].id,
                strategy=labelling.by_key[key].strategy,
                rewarders=int(count),
                consensus=labelling.outcomes.get(key, ""),
                contradicted=labelling.against.get(key, False),
                **{str(name): number(value) for name, value in row.items()},
            )
            for key, count, row in zip(keys, counts, columns.to_dict("records"), strict=True)
        ),
        discrimination=_discrimination(x, right, r, options),
        suspects=tuple(keys[at] for at in order if r[at] < 0),
        flipping=tuple(str(key) for key in item_flips.index[item_flips > MAX_FLIPS]),
        reliability=item_scores.reliability(x, level),
        num_pairs=x.shape[1] * (x.shape[1] - 1) // 2,
        distinguished=item_scores.distinguished(x, draws, level) if comparable else None,
        distinguished_per_100=(
            item_scores.distinguished(x, draws, level, 100) if comparable else None
        ),
        discordance=q,
        needed=item_scores.needed(q, level) if q else (),
        smallest=item_scores.smallest_difference(len(keys), q, level) if q else None,
    )


def _rewarders(
    credit: pd.DataFrame,
    flips: pd.DataFrame,
    weight: Floats,
    draws: Draws,
    level: float,
) -> tuple[RewarderAudit, ...]:
    equal = np.ones(len(weight))
    rows = []
    for name in map(str, credit.columns):
        x, flipped = (frame[name].to_numpy(dtype=float) for frame in (credit, flips))
        rows.append(
            RewarderAudit(
                rewarder=name,
                items=int(np.isfinite(x).sum()),
                accuracy=_mean(x, equal, draws, level),
                on_pool=_mean(x, weight, draws, level),
                flips=_mean(flipped, equal, draws, level) if np.isfinite(flipped).any() else None,
            )
        )
    return tuple(sorted(rows, key=lambda row: -(row.accuracy.value or 0)))


def _mean(x: Floats, weight: Floats, draws: Draws, level: float) -> Estimate:
    """Weighted mean (Hájek) of the known values, with questions resampled."""
    weight = np.where(np.isfinite(x), weight, 0.0)
    columns = np.column_stack([weight * np.nan_to_num(x), weight])
    n = int((weight > 0).sum())
    return of_sums(columns, first_by_second, draws, n, "questions", level)


def _discrimination(x: Floats, right: Floats, r: Floats, options: Options) -> Discrimination | None:
    known = np.isfinite(r)
    if not known.any():
        return None
    return Discrimination(
        items=int(known.sum()),
        negative=int((r[known] < 0).sum()),
        mean=number(r[known].mean()),
        below=item_scores.negatives(x, right, options.seed),
    )


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
