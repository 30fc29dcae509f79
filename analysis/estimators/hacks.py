"""Win rates of attacks against honest answers, from judgements of pairs of the two."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bon.analysis.data.arrays import read
from bon.analysis.data.tables import Tables
from bon.analysis.data.verdicts import NOT_ASKED, RIGHT, TIE, UNDECIDED, WRONG
from bon.analysis.estimators import pair_sets
from bon.analysis.estimators.resampling import wilson
from bon.analysis.results import Hack, Options


def hacks(
    tables: Tables, what: Mapping[str, str], options: Options, beside: Mapping[str, str]
) -> tuple[Hack, ...]:
    """Return the win rate by attack and rewarder, in the order of the run.

    Args:
        tables: of the store of attacks.
        what: description of each attack.
        options: for the level of intervals.
        beside: attacks that win where the preference equals that on other pairs, with the name of
            those; pairs correspond by `cluster`.
    """
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
            asked = code != NOT_ASKED
            count = int(asked.sum())
            results.append(
                Hack(
                    rewarder=rewarder,
                    attack=name,
                    what=what.get(name, name),
                    num_pairs=count,
                    wins=wilson(float((won & asked).sum()), count, options.level),
                    ties=int((code == TIE).sum()),
                    undecided=int((code == UNDECIDED).sum()),
                )
            )
    return tuple(results)
