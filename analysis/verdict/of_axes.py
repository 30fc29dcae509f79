"""The verdict on each benchmark of a study, from the measured axes of its policies."""

from collections.abc import Sequence

from bon.analysis.correlation.paired_accuracies import (
    Label,
    Measured,
    covariance_of,
    mean_of,
    points_of,
)
from bon.analysis.results import PolicyVerdict, Verdict
from bon.analysis.verdict.verdict import GAP, Axes, judge, p_yes


def verdicts_of(
    measured: Sequence[tuple[Label, Measured]], level: float, gap: float | None = GAP
) -> tuple[tuple[str, Verdict | None], ...]:
    """Return the verdict by benchmark, of the mean over policies; None where there is none.

    Only primary axes count, and the order of the policies does not.
    """
    found: dict[str, list[tuple[Label, Measured]]] = {}
    for label, m in measured:
        if label.primary:
            found.setdefault(label.benchmark, []).append((label, m.complete()))
    return tuple((name, _verdict(rows, level, gap)) for name, rows in found.items())


def _verdict(rows: list[tuple[Label, Measured]], level: float, gap: float | None) -> Verdict | None:
    rows = sorted(rows, key=lambda row: row[0].policy)
    parts = [m for _, m in rows]
    if any(label.too_leaked for label, _ in rows):
        return None
    mean = mean_of(parts, [1 / len(parts)] * len(parts), level)
    verdict = judge(axes_of(mean), level, gap) if mean is not None else None
    if mean is None or verdict is None:
        return None
    alone = [(label.policy, p_yes(axes_of(m))) for label, m in rows] if len(rows) > 1 else []
    label = rows[0][0]
    return verdict.model_copy(
        update={
            "benchmark": label.benchmark,
            "axis": label.axis,
            "leaks": label.leaks,
            "policies": tuple(
                PolicyVerdict(policy=policy, p_yes=p) for policy, p in alone if p is not None
            ),
            "points": points_of(mean),
        }
    )


def axes_of(m: Measured) -> Axes:
    """Return both axes, their errors from the draws, in which clusters are drawn whole."""
    return Axes(
        m.names,
        m.x,
        m.y,
        None if m.x_draws is None else covariance_of(m.x_draws),
        None if m.y_draws is None else covariance_of(m.y_draws),
        m.families,
        m.makers,
        m.covariates,
        m.covariate_names,
    )
