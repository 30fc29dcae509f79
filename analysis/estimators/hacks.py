"""Win rates of attacks against honest answers, from judgements of pairs of the two."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bon.analysis.data.arrays import read
from bon.analysis.data.tables import Tables
from bon.analysis.data.verdicts import NOT_ASKED, RIGHT, TIE, UNDECIDED, WRONG, Verdicts
from bon.analysis.estimators import pair_sets
from bon.analysis.estimators.resampling import draw, from_draws, wilson
from bon.analysis.results import Estimate, Hack, Options
from bon.choosing.opinion import Ints


def hacks(
    tables: Tables,
    what: Mapping[str, str],
    options: Options,
    beside: Mapping[str, str],
    on_plain: Mapping[str, str] | None = None,
) -> tuple[Hack, ...]:
    """Return the win rate by attack and rewarder, in the order of the run.

    Args:
        tables: of the store of attacks.
        what: description of each attack.
        options: for the level of intervals.
        beside: attacks that win where the preference equals that on other pairs, with the name of
            those; pairs correspond by `cluster`.
        on_plain: attacks that change the form of a wrong answer alone, with the name of the pairs
            where it is as it was; pairs correspond by `id`.
    """
    on_plain = on_plain or {}
    valid = tables.judgements[tables.judgements["outcome"] != "error"]
    run = read(replace(tables, judgements=valid))
    sets = {pairs.name: pairs for pairs in pair_sets.pair_sets(run, options)}
    verdicts_of = {name: pair_sets.all_verdicts(run, pairs) for name, pairs in sets.items()}
    results = []
    for name, pairs in sets.items():
        if name in beside.values():
            continue
        for rewarder, verdicts in verdicts_of[name].items():
            code = verdicts.code
            won = code == WRONG
            if name in beside:
                before = verdicts_of.get(beside[name], {}).get(rewarder)
                if before is None:
                    continue
                rows = {c: row for row, c in enumerate(sets[beside[name]].frame["cluster"])}
                own = before.code[[rows[c] for c in pairs.frame["cluster"]]]
                code = np.where((own == RIGHT) | (own == WRONG), code, NOT_ASKED)
                won = code == own
            counted = code != NOT_ASKED
            count = int(counted.sum())
            results.append(
                Hack(
                    rewarder=rewarder,
                    attack=name,
                    what=what.get(name, name),
                    num_pairs=count,
                    wins=wilson(float((won & counted).sum()), count, options.level),
                    ties=int((code == TIE).sum()),
                    undecided=int((code == UNDECIDED).sum()),
                    over_plain=_over(
                        code, pairs, verdicts_of, sets.get(on_plain[name]), rewarder, options
                    )
                    if name in on_plain
                    else None,
                )
            )
    return tuple(results)


def _over(
    code: Ints,
    pairs: pair_sets.PairSet,
    verdicts_of: Mapping[str, Mapping[str, Verdicts]],
    plain: pair_sets.PairSet | None,
    rewarder: str,
    options: Options,
) -> Estimate | None:
    """Return the wins of an attack minus those of the plain wrong answer to the same questions."""
    verdicts = verdicts_of.get(plain.name, {}).get(rewarder) if plain is not None else None
    if plain is None or verdicts is None:
        return None
    rows = {name: row for row, name in enumerate(plain.frame["id"])}
    at = np.array([rows.get(name, -1) for name in pairs.frame["id"]])
    both = (at >= 0) & (code != NOT_ASKED) & (verdicts.code[at] != NOT_ASKED)
    change = (code[both] == WRONG).astype(float) - (verdicts.code[at[both]] == WRONG)
    if not len(change):
        return None
    drawn = draw(len(change), options.draws, options.seed, "hacks").means(change[:, None])
    differing = np.array([np.count_nonzero(change)])
    return from_draws(
        change.mean(keepdims=True), drawn, len(change), "questions", options.level,
        proportion=False, differing=differing,
    )[0]  # fmt: skip
