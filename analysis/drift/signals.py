"""The change of a training run's rewards in words."""

from collections.abc import Mapping

from bon.analysis.results.phrasing import percent
from bon.analysis.results.record import Estimate
from bon.analysis.results.reward_log import Drift, Quantity, RewardVerdict

Description = tuple[RewardVerdict, str, tuple[str, ...], tuple[str, ...]]
PULL = 0.2
"""Correlation of length with score within groups that is reported."""

FIXED = (
    "The rewarder compares the responses of a group with one another: the mean of its scores is "
    "the same for every group, whether the policy gets better or worse."
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
    """Return verdict, sentence, signals and cautions.

    `drifts`: what could be compared; `fixed`: scores compare within a group, so their mean never
    changes; `groups`: how many were judged.
    """
    cautions = (*[FIXED] * fixed, *[NO_ANSWERS] * ("correct" not in drifts))
    if not drifts:
        few = f"{groups} groups are too few to compare the beginning of the training with its end."
        return "cannot tell", few, (), cautions
    verdict, sentence = _verdict(drifts, fixed)
    return verdict, sentence, tuple(_signals(drifts)), cautions


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
