"""Studies that share questions or candidates, recognised by their content.

Results hold a sample of each policy's questions: those with the lowest content keys (a bottom-k
sketch, Broder 1997). Two samples are compared where both are complete, so shares are unbiased.
"""

from collections.abc import Iterable
from itertools import combinations

import numpy as np

from bon.analysis.data.arrays import SAMPLED
from bon.analysis.results import Results
from bon.analysis.results.phrasing import percent
from bon.core.errors import BonError

COPY = 0.5
"""Share of questions with the same candidates from which two studies are one."""

Content = tuple[str, ...]
Task = tuple[str, str]
"""A run and a policy."""


def overlap(a: Content, b: Content) -> tuple[float, float]:
    """Return the shares of the smaller study's questions that the other has too.

    The first counts shared questions, the second those with the same candidates.
    """
    samples = [dict(entry.split(":") for entry in x) for x in (a, b)]
    end = min((max(s) for s in samples if len(s) == SAMPLED), default="~")
    one, two = ({q: c for q, c in s.items() if q <= end} for s in samples)
    shared = one.keys() & two.keys()
    size = max(min(len(one), len(two)), 1)
    return len(shared) / size, sum(one[q] == two[q] for q in shared) / size


def blocks(runs: Iterable[tuple[str, Results]]) -> dict[Task, int]:
    """Number the policies of the runs, those that share questions alike.

    Policies of one run count as sharing.

    Raises:
        BonError: policies of two runs have the same candidates.
    """
    contents = {(run, p.policy): p.content for run, results in runs for p in results.policies}
    tasks = list(contents)
    linked = np.eye(len(tasks), dtype=bool)
    for i, j in combinations(range(len(tasks)), 2):
        (first, one), (second, two) = tasks[i], tasks[j]
        questions, candidates = overlap(contents[tasks[i]], contents[tasks[j]])
        if candidates >= COPY and first != second:
            raise BonError(
                f"{first} ({one}) and {second} ({two}) have the same candidates on "
                f"{percent(candidates, 0)} of their questions: they are one study, not two",
                "name one of them; rewarders of both belong in one run "
                "(`from:` in the experiment file)",
            )
        linked[i, j] = first == second or questions > 0
    from scipy.sparse import csgraph  # slow to import, and few compare studies

    numbers = csgraph.connected_components(linked, directed=False)[1]
    return dict(zip(tasks, numbers.tolist(), strict=True))
