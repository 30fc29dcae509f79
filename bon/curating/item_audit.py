"""What the runs' rewarders say of the items: which labels look wrong, what the items can tell."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from bon.analysis.auditing import item_scores, rasch
from bon.analysis.estimators.resampling import Draws, draw_clusters, estimate, from_draws, number
from bon.analysis.results import Estimate, Options
from bon.analysis.results.audited import (
    Discrimination,
    InformationPoint,
    ItemAudit,
    ItemsAudit,
    RaschAudit,
    RewarderAudit,
)
from bon.curating.consensus import Labelling
from bon.curating.evidence import Evidence
from bon.curating.items import CuratedItem

MOST_FLIP = 0.5
"""An item whose verdict turns for more than this share of the rewarders is ambiguous."""

Floats = NDArray[np.float64]


def items_audit(
    labelling: Labelling, found: Evidence, filters: Collection[str], options: Options
) -> ItemsAudit | None:
    """None where no rewarder judged an item.

    Shown, but not counted, are `filters`, models that chose the items, and rewarders that were
    asked of few of them (`item_scores.asked_enough`).
    """
    keys = [item.key for item in labelling.items if item.better is not None]
    credit = found.credits.reindex(keys).dropna(axis=1, how="all")
    if credit.empty:
        return None
    items = {item.key: item for item in labelling.items}
    draws = question_draws([items[key] for key in keys], options)
    turned = item_scores.flips(found.verdicts).reindex(index=keys, columns=credit.columns)
    names = [str(name) for name in credit.columns if name not in filters]
    enough = item_scores.asked_enough(credit[names].to_numpy(dtype=float))
    names = [name for name, one in zip(names, enough, strict=True) if one]
    x = credit[names].to_numpy(dtype=float)
    right = np.where(np.isfinite(x), (x > 0.5).astype(float), np.nan)
    model, why_not = _model(right)
    fitted = _Fit(right, model)
    r = item_scores.discrimination(x)
    order = [keys[at] for at in np.argsort(np.nan_to_num(r, nan=2.0), kind="stable") if r[at] < 0]
    by_item = turned[names].mean(axis=1)
    q = item_scores.discordance(x)
    several = x.shape[1] > 1 and bool(np.isfinite(x).all(axis=1).any())
    return ItemsAudit(
        rewarders=_rewarders(credit, turned, items, filters, draws, fitted, names, options),
        items=_items(labelling, keys, x, r, by_item, fitted),
        discrimination=_discrimination(x, right, r, model, options),
        suspects=tuple(order),
        flipping=tuple(str(key) for key in by_item.index[by_item > MOST_FLIP]),
        reliability=item_scores.reliability(x, options.level),
        split_half=item_scores.split_half(x, options.seed),
        score_error=item_scores.score_error(x),
        num_pairs=x.shape[1] * (x.shape[1] - 1) // 2,
        distinguished=item_scores.distinguished(x, draws, options.level) if several else None,
        distinguished_per_100=item_scores.distinguished(x, draws, options.level, 100)
        if several
        else None,
        discordance=q,
        needed=item_scores.needed(q, options.level) if q else (),
        smallest=item_scores.smallest_difference(len(keys), q, options.level) if q else None,
        rasch=fitted.audit(),
        rasch_missing=why_not,
        two_parameters=_two_parameters(x.shape[1]),
    )


def question_draws(items: Sequence[CuratedItem], options: Options) -> Draws:
    """Bootstrap draws of items, those of one question together."""
    _, clusters = np.unique([item.question for item in items], return_inverse=True)
    one_stratum = np.zeros(len(items), dtype=np.int64)
    return draw_clusters(clusters, one_stratum, options.draws, options.seed, "curated items")


# ------------------------------------------------------------------ the Rasch model


def _model(right: Floats) -> tuple[rasch.Abilities | None, str]:
    rewarders = right.shape[1]
    if rewarders < rasch.MIN_REWARDERS:
        return None, (
            f"A Rasch model needs {rasch.MIN_REWARDERS} rewarders and there are {rewarders}: judge "
            "the items with more."
        )
    model = rasch.abilities(right)
    if model is None:
        return None, (
            "A Rasch model has no estimate here: some rewarder is right wherever the others are, "
            "or wrong wherever they are."
        )
    return model, ""


def _two_parameters(rewarders: int) -> str:
    if rewarders < rasch.MIN_TWO_PARAMETERS:
        return (
            f"A discrimination per item in the model (2PL) is not fitted: {rewarders} rewarders "
            f"cannot tell it from difficulty; it takes {rasch.MIN_TWO_PARAMETERS} at least. The "
            "item–rest correlation says as much as they can."
        )
    return (
        f"A discrimination per item in the model (2PL) is not offered, though {rewarders} "
        "rewarders may be enough for one."
    )


class _Fit:
    """The Rasch model of the items, or nothing where there is none."""

    def __init__(self, right: Floats, model: rasch.Abilities | None) -> None:
        self.model = model
        self.difficulty = self.error = np.full(len(right), np.nan)
        if model is not None:
            self.difficulty, self.error = rasch.difficulties(right, model.ability)

    def audit(self) -> RaschAudit | None:
        """The curve of information, and how much of it lies where the rewarders are."""
        if self.model is None:
            return None
        ability = self.model.ability
        low, high = float(ability.min()), float(ability.max())
        at = np.linspace(min(low, -3.0), max(high, 3.0), 61)
        known = rasch.information(at, self.difficulty)
        within = float(np.mean((self.difficulty >= low) & (self.difficulty <= high)))
        middle, shift = float(np.median(self.difficulty)), float(np.median(ability))
        side = "harder" if middle > shift else "easier"
        gap = abs(middle - shift)
        sentence = (
            f"Abilities span {high - low:.1f} logits; {100 * within:.0f} % of the items lie among "
            "them"
        )
        if gap > 1:
            sentence += f", and the middle item is {gap:.1f} logits {side} than the middle rewarder"
        return RaschAudit(
            items=self.model.items,
            rewarders=len(ability),
            curve=tuple(
                InformationPoint(ability=float(a), information=float(i), error=float(i**-0.5))
                for a, i in zip(at, known, strict=True)
            ),
            within_range=within,
            sentence=sentence + ".",
        )

    def ability(self, place: int, level: float) -> tuple[Estimate, float] | None:
        """Of one rewarder: its ability, and the information that the items have there."""
        if self.model is None:
            return None
        value = float(self.model.ability[place])
        half = float(special.ndtri((1 + level) / 2) * self.model.error[place])
        known = rasch.information(np.array([value]), self.difficulty)[0]
        made = estimate(value, value - half, value + half, self.model.items, "conditional ML")
        return made, float(known)


# ------------------------------------------------------------------ rows


def _rewarders(
    credit: pd.DataFrame,
    turned: pd.DataFrame,
    items: Mapping[str, CuratedItem],
    filters: Collection[str],
    draws: Draws,
    fitted: _Fit,
    counted: Sequence[str],
    options: Options,
) -> tuple[RewarderAudit, ...]:
    pairs = [items[key] for key in credit.index]
    weight = np.array([one.weight if len(one.responses) == 2 else 0.0 for one in pairs])
    equal = np.ones(len(weight))
    made = []
    for name in credit.columns:
        x = credit[name].to_numpy(dtype=float)
        flipped = turned[name].to_numpy(dtype=float)
        ability = fitted.ability(counted.index(name), options.level) if name in counted else None
        made.append(
            RewarderAudit(
                rewarder=str(name),
                filter_model=name in filters,
                items=int(np.isfinite(x).sum()),
                accuracy=_mean(x, equal, draws, options.level),
                on_pool=_mean(x, weight, draws, options.level),
                flips=_mean(flipped, equal, draws, options.level)
                if np.isfinite(flipped).any()
                else None,
                ability=ability[0] if ability else None,
                information=ability[1] if ability else None,
            )
        )
    return tuple(sorted(made, key=lambda one: -(one.accuracy.value or 0)))


def _mean(x: Floats, weight: Floats, draws: Draws, level: float) -> Estimate:
    """A weighted mean (Hájek) over what is known, with questions resampled."""
    weight = np.where(np.isfinite(x), weight, 0.0)
    n = int((weight > 0).sum())
    if n == 0:
        return Estimate(value=None, method="none")
    columns = np.column_stack([weight * np.nan_to_num(x), weight])
    drawn = draws.sums(columns).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = drawn[[0]] / drawn[[1]]
    value = np.array([columns[:, 0].sum() / columns[:, 1].sum()])
    return from_draws(value, spread, n, "questions", level)[0]


def _items(
    labelling: Labelling,
    keys: Sequence[str],
    x: Floats,
    r: Floats,
    by_item: pd.Series,
    fitted: _Fit,
) -> tuple[ItemAudit, ...]:
    items = {item.key: item for item in labelling.items}
    asked = np.isfinite(x).sum(axis=1)
    p = item_scores.negative_p(r, asked)
    share = item_scores.share_right(x)
    return tuple(
        ItemAudit(
            key=key,
            id=items[key].id,
            strategy=items[key].strategy,
            rewarders=int(asked[at]),
            right=number(share[at]),
            discrimination=number(r[at]),
            discrimination_p=number(p[at]),
            flips=number(by_item[key]),
            difficulty=number(fitted.difficulty[at]),
            difficulty_error=number(fitted.error[at]),
            consensus=labelling.outcomes.get(key, ""),
            contradicted=labelling.against.get(key, False),
        )
        for at, key in enumerate(keys)
    )


def _discrimination(
    x: Floats, right: Floats, r: Floats, model: rasch.Abilities | None, options: Options
) -> Discrimination | None:
    known = np.isfinite(r)
    if not known.any():
        return None
    return Discrimination(
        items=int(known.sum()),
        negative=int((r[known] < 0).sum()),
        mean=number(r[known].mean()),
        below=item_scores.negatives(x, right, model, options.seed) if model else (),
    )
