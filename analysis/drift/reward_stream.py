"""A training run's rewards over time: means of consecutive groups, first fifth against last.

The unit is a question within a stretch of the training: responses of a group and groups of a
question depend on one another. Intervals are Student's over those units. Where early and late share
most of their questions, the change is paired by question. A run on fewer than four questions has
the group as its unit.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from bon.analysis.estimators.resampling import around, estimate, nothing
from bon.analysis.results.phrasing import percent
from bon.analysis.results.record import Estimate
from bon.analysis.results.reward_log import (
    SHARES,
    Drift,
    Quantity,
    RewardVerdict,
    Stretch,
    TrainingReport,
)

QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
SPANS = 20
LEAST = 4
"""Minimal number of groups in a span, and in early and late each."""

BOUNDS: dict[Quantity, tuple[float, float]] = {
    "length_pull": (-1.0, 1.0), "spread": (0.0, np.inf), "characters": (0.0, np.inf),
    **dict.fromkeys(SHARES, (0.0, 1.0)),
}  # fmt: skip
"""Bounds of intervals."""

Floats = NDArray[np.floating]


def analyse_rewards(frame: pd.DataFrame, level: float = 0.95) -> TrainingReport:
    """Report one training run from its rewards in order (storage.reward_tables.reward_frame)."""
    groups = group_table(frame)
    count, questions = len(groups), int(frame["question"].nunique())
    if few := questions < LEAST:
        groups["question"] = groups.index
    edges = np.linspace(0, count, max(1, min(SPANS, count // LEAST)) + 1).round().astype(int)
    fifth = count // 5
    early, late = _by_question(groups[:fifth]), _by_question(groups[count - fifth :])
    drifts = [_drift(name, early, late, level) for name in QUANTITIES if fifth >= LEAST]
    drifts = [drift for drift in drifts if drift.change.value is not None]
    means = groups["score"].dropna()  # all one where scores compare within a group
    fixed = len(means) > 1 and float((means - means.median()).abs().quantile(0.9)) < 1e-9
    verdict, sentence, signals = describe({d.quantity: d for d in drifts}, fixed, count)
    unknown = bool(groups["correct"].isna().all())
    rewarders, rules, scales = (
        tuple(sorted({str(value) for value in frame[name]}))
        for name in ("rewarder", "rule", "scale")
    )
    return TrainingReport(
        run=str(frame["run"].iloc[0]),
        rewarders=rewarders,
        rules=rules,
        scales=scales,
        num_rewards=len(frame),
        num_groups=count,
        num_questions=questions,
        missing=int(frame["reward"].isna().sum()),
        seconds=float(frame["time"].iloc[-1] - frame["time"].iloc[0]),
        cost=float(groups["cost"].sum()),
        fixed=fixed,
        verdict=verdict,
        sentence=sentence,
        signals=signals,
        cautions=(*[FIXED] * fixed, *[FEW] * few, *[NO_ANSWERS] * unknown),
        spans=tuple(_stretch(groups, int(a), int(b), level) for a, b in pairwise(edges)),
        drifts=tuple(drifts),
    )


def group_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row per group in the order of judging: question, cost and every quantity."""
    numbers = {
        name: pd.to_numeric(frame[name], errors="coerce").to_numpy(float)
        for name in ("score", "reward", "correct", "parsed", "consistency", "cost")
    }
    numbers["characters"] = frame["text"].str.len().to_numpy(float)
    responses = pd.factorize(frame["response"])[0]
    questions = frame["question"].to_numpy()
    indices = frame.groupby("team", sort=False).indices.values()
    return pd.DataFrame(
        [
            {
                "question": questions[rows[0]],
                **_group({name: values[rows] for name, values in numbers.items()}, responses[rows]),
            }
            for rows in sorted(indices, key=lambda rows: int(rows[0]))
        ]
    )


def _group(row: dict[str, Floats], responses: NDArray[np.integer]) -> dict[str, float]:
    score, reward, size = row["score"], row["reward"], len(responses)
    known = np.isfinite(score)
    decided = size > 1 and bool(np.isfinite(reward).all())
    return {
        "cost": row["cost"][0],
        "parsed": row["parsed"][0],
        "consistency": row["consistency"][0],
        "score": _average(score),
        "reward": _average(reward),
        "correct": _average(row["correct"]),
        "told_apart": _ordered(score, row["correct"]),
        "characters": _average(row["characters"]),
        "length_pull": _correlation(row["characters"], score),
        "spread": float(score[known].std()) if known.sum() > 1 else np.nan,
        "flat": float(np.ptp(reward) <= 1e-12) if decided else np.nan,
        "distinct": len(np.unique(responses)) / size if size > 1 else np.nan,
    }


def _average(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else np.nan


def _ordered(score: Floats, correct: Floats) -> float:
    """Return the share of (right, wrong) pairs whose right response scores higher; ties ½."""
    gap = score[correct == 1][:, None] - score[correct == 0][None, :]
    gap = gap[np.isfinite(gap)]
    return float(((gap > 0) + (gap == 0) / 2).mean()) if gap.size else np.nan


def _correlation(x: Floats, y: Floats) -> float:
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan
    return float(np.corrcoef(x, y)[0, 1])


def _stretch(groups: pd.DataFrame, start: int, end: int, level: float) -> Stretch:
    means = _by_question(groups[start:end])
    values = {name: _mean(name, means[name].dropna(), level) for name in QUANTITIES}
    return Stretch(first=start, last=end - 1, values=values)


def _by_question(groups: pd.DataFrame) -> pd.DataFrame:
    """Average each quantity over the groups of each question."""
    return groups.groupby("question", sort=False)[list(QUANTITIES)].mean()


def _mean(name: Quantity, values: "pd.Series[float]", level: float) -> Estimate:
    mean = _student(values.to_numpy(float), level, "questions, Student's t")
    least, most = BOUNDS.get(name, (-np.inf, np.inf))
    if mean.low is None or mean.high is None:
        return mean
    return mean.model_copy(update={"low": max(least, mean.low), "high": min(most, mean.high)})


def _student(values: Floats, level: float, method: str) -> Estimate:
    count = len(values)
    if count < 2:
        return estimate(values[0], None, None, 1, method) if count else nothing()
    half = special.stdtrit(count - 1, (1 + level) / 2) * values.std(ddof=1) / np.sqrt(count)
    return around(values.mean(), half, count, method)


def _drift(name: Quantity, early: pd.DataFrame, late: pd.DataFrame, level: float) -> Drift:
    before, after = early[name].dropna(), late[name].dropna()
    first, last = (_mean(name, part, level) for part in (before, after))
    return Drift(quantity=name, early=first, late=last, change=_change(before, after, level))


def _change(before: "pd.Series[float]", after: "pd.Series[float]", level: float) -> Estimate:
    shared = before.index.intersection(after.index)
    if len(shared) >= LEAST and 2 * len(shared) >= max(len(before), len(after)):
        gaps = (after[shared] - before[shared]).to_numpy(float)
        return _student(gaps, level, "the same questions, Student's t")
    if min(len(before), len(after)) < LEAST:
        return nothing(min(len(before), len(after)))
    a, b = before.to_numpy(float), after.to_numpy(float)
    parts = np.array([a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)])
    gap, error = b.mean() - a.mean(), np.sqrt(parts.sum())
    half = 0.0
    if error > 0:
        df = parts.sum() ** 2 / (parts**2 / np.array([len(a) - 1, len(b) - 1])).sum()
        half = special.stdtrit(df, (1 + level) / 2) * error
    return around(gap, half, len(a) + len(b), "Welch's t")


# ------------------------------------------------------------------ words

Description = tuple[RewardVerdict, str, tuple[str, ...]]
PULL = 0.2
"""Correlation of length with score within groups that is reported."""

FIXED = (
    "The rewarder compares the responses of a group with one another: the mean of its scores is "
    "the same for every group, whether the policy gets better or worse."
)
FEW = (
    f"Fewer than {LEAST} questions: intervals treat groups as independent, and hold for these "
    "questions alone."
)
NO_ANSWERS = (
    "Whether the responses are right is unknown: name the questions by id (bon://SET/ID), from a "
    "set with answers, and accuracy is tracked too."
)

SIGNALS: tuple[tuple[Quantity, int, str], ...] = (
    ("told_apart", -1, "The rewarder orders right above wrong less often than at first"),
    ("distinct", -1, "The responses of a group are more alike"),
    ("flat", 1, "More groups have equal rewards, and teach nothing"),
    ("spread", -1, "Scores differ less within groups"),
    ("parsed", -1, "Fewer replies of the rewarder could be parsed"),
    ("consistency", -1, "Verdicts depend more on the order of responses"),
)


def describe(drifts: Mapping[Quantity, Drift], fixed: bool, groups: int) -> Description:
    """Return verdict, sentence and signals.

    `drifts`: what could be compared; `fixed`: scores compare within a group, so their mean never
    changes; `groups`: how many were judged.
    """
    if not drifts:
        few = f"{groups} groups are too few to compare the beginning of the training with its end."
        return "cannot tell", few, ()
    verdict, sentence = _verdict(drifts, fixed)
    return verdict, sentence, tuple(_signals(drifts))


def _verdict(drifts: Mapping[Quantity, Drift], fixed: bool) -> tuple[RewardVerdict, str]:
    score, right = drifts.get("score"), drifts.get("correct")
    score = None if fixed else score
    rises = score is not None and _sign(score.change) > 0
    scored = ""
    if score is not None:
        scored = f"The score went from {_number(score.early)} to {_number(score.late)}"
    if right is None:
        if score is None:
            return "cannot tell", "These rewards alone do not say whether the policy got better."
        if rises:
            return "rises", f"{scored}; whether the answers got better is unknown."
        return "steady", f"{scored}: no rise beyond chance."
    accuracy = f"ccuracy from {percent(right.early.value)} to {percent(right.late.value)}"
    text = f"{scored}, a{accuracy}" if scored else f"A{accuracy}"
    text += f" ({_points(right.change)})"
    if _sign(right.change) > 0:
        return "improves", f"{text}: the policy got better."
    if _sign(right.change) < 0:
        return "over-optimised", f"{text}: the reward no longer follows accuracy."
    if rises:
        return "no gain", f"{text}: the reward rises and accuracy does not."
    return "steady", f"{text}: no change beyond chance."


def _signals(drifts: Mapping[Quantity, Drift]) -> list[str]:
    """List signs of a reward that is exploited, or that no longer teaches."""
    signals = []
    for name, direction, text in SIGNALS:
        drift = drifts.get(name)
        if drift is not None and _sign(drift.change) == direction:
            early, late = (
                _number(e) if name == "spread" else percent(e.value)
                for e in (drift.early, drift.late)
            )
            signals.append(f"{text}: {early}, then {late}.")
    length, pull = drifts.get("characters"), drifts.get("length_pull")
    if length is not None and _sign(length.change):
        word = "longer" if _sign(length.change) > 0 else "shorter"
        signals.append(
            f"Responses got {word}: {_number(length.early, 0)} characters, then "
            f"{_number(length.late, 0)}."
        )
    if pull is not None and _sign(pull.late) and abs(pull.late.value or 0) >= PULL:
        word = "Longer" if _sign(pull.late) > 0 else "Shorter"
        signals.append(
            f"{word} responses score higher within a group: correlation {_number(pull.late)} at "
            "the end."
        )
    return signals


def _sign(change: Estimate) -> int:
    """Return 1 or -1 if the interval excludes zero, else 0."""
    if change.low is None or change.high is None:
        return 0
    return 1 if change.low > 0 else -1 if change.high < 0 else 0


def _number(estimate: Estimate, digits: int = 2) -> str:
    return "?" if estimate.value is None else f"{estimate.value:.{digits}f}".replace("-", "−")


def _points(change: Estimate) -> str:
    def signed(value: float) -> str:
        return f"{100 * value:+.1f}".replace("-", "−")

    assert change.value is not None
    if change.low is None or change.high is None:
        return f"{signed(change.value)} points"
    paired = " on the same questions" if change.method.startswith("the same") else ""
    return f"{signed(change.value)} points{paired} [{signed(change.low)}, {signed(change.high)}]"
