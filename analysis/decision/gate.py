"""Go or no-go: does a rewarder gain enough, by the interval of its paired gain?"""

from bon.analysis.results import Answer, Base, BestOfN, Estimate, Gate, Results
from bon.analysis.results.phrasing import gains_over, points
from bon.core.errors import BonError

STILL = 1e-9  # scores that differ by less tie
WORDS: dict[Base, str] = {"pass@1": "pass@1", "majority": "majority vote"}


def gate(
    results: Results, minimum: float, rewarder: str | None = None, over: Base = "pass@1"
) -> tuple[Gate, ...]:
    """Return one answer per policy, by the headline rule of the rewarder.

    The default is the rewarder that the benchmark puts first: it was chosen on other data than its
    gain is measured on, so the interval holds.
    """
    gates = []
    for policy in (p.policy for p in results.policies):
        rows = [b for b in results.best_of_n if b.policy == policy and b.headline]
        name = rewarder or default_rewarder(results, policy)
        gates += [_gate(row, minimum, over) for row in rows if row.rewarder == name]
    if not gates:
        known = [r.rewarder for r in results.rewarders if not r.baseline]
        raise BonError(
            f"{rewarder!r} chose among no candidates of this run",
            f"choose among {', '.join(known[:8]) or 'runs with a rewarder'}",
        )
    return tuple(gates)


def default_rewarder(results: Results, policy: str) -> str:
    """Return the rewarder that the benchmark puts first; BonError without a single one."""
    rows = (b for b in results.best_of_n if b.policy == policy and b.headline)
    rewarders = [b.rewarder for b in rows if b.rule != "baseline"]
    if len(rewarders) == 1:
        return rewarders[0]
    for c in results.correlations:
        if c.primary and c.policy == policy:
            scores = {p.rewarder: p.x.value or 0.0 for p in c.points}
            first = [n for n, score in scores.items() if score >= max(scores.values()) - STILL]
            if len(first) == 1:
                return first[0]
    raise BonError(
        f"no single rewarder is first on a benchmark for {policy}",
        f"name one: --rewarder {rewarders[0] if rewarders else 'NAME'}",
    )


def against(value: Estimate, minimum: float) -> Answer:
    """Return whether the interval of a value lies above a minimum, below it, or contains it."""
    if value.low is not None and value.low >= minimum:
        return "go"
    return "no-go" if value.high is not None and value.high < minimum else "inconclusive"


def _gate(row: BestOfN, minimum: float, over: Base) -> Gate:
    gain = row.gain if over == "pass@1" else row.versus_majority
    answer = against(gain, minimum)
    return Gate(
        policy=row.policy,
        rewarder=row.rewarder,
        over=over,
        minimum=minimum,
        gain=gain,
        answer=answer,
        sentence=(
            f"{answer}: {row.rewarder} {gains_over(gain, WORDS[over])} on {row.policy}; "
            f"required: at least {points(minimum)}"
        ),
    )
