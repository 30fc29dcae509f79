"""Size a study from the results of a run or pilot: `bon plan --budget`."""

from dataclasses import asdict, dataclass
from typing import Any

from bon.analysis.correlation.allocation import (
    Outlook,
    Prices,
    cheapest,
    narrowest,
    studies,
    with_yes,
)
from bon.analysis.results import Components, Results
from bon.core.errors import BonError
from bon.planning.plan import Plan


@dataclass(frozen=True)
class Sizing:
    """The best study for each number of rewarders, and the best for fewer candidates.

    `found` are the run's variance components, `goal` is the request in words.
    """

    found: Components
    goal: str
    studies: tuple[Outlook, ...]
    fewer_candidates: tuple[Outlook, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the form for `--json`."""
        return {**asdict(self), "found": self.found.model_dump()}


def sizing(
    results: Results, plan: Plan, *, width: float | None = None, budget: int | None = None
) -> list[Sizing]:
    """Size a study for every primary correlation of a run, within the plan's questions and pairs.

    Minimizes calls for an interval of r of this width, or the width for these calls.
    """
    if not results.components:
        raise BonError(
            "these results cannot say how large a study must be: that needs several rewarders that "
            "were judged on both axes and differ by more than noise",
            "judge more questions or more rewarders, and `bon report` it",
        )
    return [_sizing(results, components, plan, width, budget) for components in results.components]


def _sizing(
    results: Results, components: Components, plan: Plan, width: float | None, budget: int | None
) -> Sizing:
    prices, headline = Prices.of(results, components), components.y[-1].n
    questions = max(plan.questions.count, components.questions)
    counts = [row.count for row in plan.pairs if row.name == components.benchmark]
    pairs = max([*counts, components.pairs])

    def best(n: int) -> list[Outlook]:
        options = studies(components, prices, n, questions=questions, pairs=pairs, budget=budget)
        chosen = narrowest(options) if width is None else cheapest(options, width)
        return [with_yes(components, study) for study in chosen]

    def criterion(study: Outlook) -> float:
        return study.width if width is None else study.calls

    fewer = [best(s.n) for s in components.y if s.n < headline and s.n.bit_count() == 1]
    goal = f"{budget:,} judge calls" if width is None else f"an interval of r of width {width:g}"
    fewer_candidates = tuple(min(options, key=criterion) for options in fewer if options)
    return Sizing(components, goal, tuple(best(headline)), fewer_candidates)
