"""What each rewarder chose among all candidates of a question, by the rule that stands for it."""

import numpy as np
from numpy.typing import NDArray

from bon import selection
from bon.analysis.inputs import Pool, read
from bon.analysis.replay import Opinion, as_played, opinion, score_spread
from bon.analysis.results import Results
from bon.analysis.tables import Tables

Floats = NDArray[np.float64]
Picks = dict[tuple[str, str, str], tuple[int, ...]]
"""(policy, question key, rewarder) → indexes of the chosen candidates, several if they tie."""


def picks(tables: Tables, results: Results) -> Picks:
    """The choices behind the headline accuracies, question by question.

    A question whose candidates were not all judged may have none. A tournament is the one
    that was played, not the mean over the orders in which it could have been.
    """
    run = read(tables)
    kinds = dict(zip(run.rewarders, tables.rewarders["kind"].astype(str), strict=True))
    found: Picks = {}
    for b in results.best_of_n:
        pool = run.pools.get(b.policy)
        if not b.headline or b.rewarder not in kinds or pool is None:
            continue
        said = opinion(run, pool, b.rewarder, kinds[b.rewarder])
        if said is None:
            continue
        chosen = _chosen(said, pool, b.rule) > 0  # NaN is not
        keys = pool.frame["question"].astype(str)
        for key, row, indexes in zip(keys, chosen, pool.indexes, strict=True):
            if row.any():
                found[b.policy, key, b.rewarder] = tuple(indexes[row].tolist())
    return found


def _chosen(said: Opinion, pool: Pool, rule: str) -> Floats:
    """Choice probabilities (Q, M) among all candidates; NaN where they are not known."""
    if said.scores is not None:
        if rule == "weighted_vote":
            weights = selection.vote_weights(said.scores, score_spread(said.scores))
            return selection.weighted_vote(pool.answers, weights)
        return selection.tied_best(said.scores)
    assert said.prefer is not None
    assert said.known is not None
    if rule in ("knockout", "swiss"):
        return np.stack([as_played(said, pool, rule, q) for q in range(len(said.prefer))])
    if rule == "weighted_vote":
        return selection.weighted_vote(pool.answers, selection.win_rate(said.known))
    if rule == "copeland":
        return selection.copeland(said.known)
    if rule == "bradley_terry":
        return selection.bradley_terry(said.known, said.games)
    return selection.round_robin(said.known)
