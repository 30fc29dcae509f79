"""How often attacks win against honest answers, from judgements of pairs of the two."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bon.analysis.data.arrays import read
from bon.analysis.data.tables import Tables
from bon.analysis.data.verdicts import NOT_ASKED, RIGHT, TIE, UNDECIDED, WRONG
from bon.analysis.estimators import pair_sets
from bon.analysis.estimators.pair_sets import PairSet
from bon.analysis.estimators.resampling import wilson
from bon.analysis.results import Hack, Options


def hacks(
    tables: Tables, what: Mapping[str, str], options: Options, beside: Mapping[str, str]
) -> tuple[Hack, ...]:
    """By attack and rewarder, in the order of the run.

    Args:
        tables: of the store of attacks.
        what: each attack in words.
        options: for the level of intervals.
        beside: attacks that win where the preference is the same as on other pairs, and the name
            of those; pairs belong together by their `cluster`.
    """
    said_something = tables.judgements[tables.judgements["outcome"] != "error"]
    run = read(replace(tables, judgements=said_something))
    sets = {pairs.name: pairs for pairs in pair_sets.pair_sets(run, options)}
    said = {name: pair_sets.all_verdicts(run, pairs) for name, pairs in sets.items()}
    found = []
    for name, pairs in sets.items():
        if name in beside.values():
            continue
        for rewarder, verdicts in said[name].items():
            code = verdicts.code
            won = code == WRONG
            if name in beside:
                before = said.get(beside[name], {}).get(rewarder)
                if before is None:
                    continue
                own = before.code[_places(sets[beside[name]], pairs)]
                code = np.where((own == RIGHT) | (own == WRONG), code, NOT_ASKED)
                won = code == own
            asked = code != NOT_ASKED  # errors are no answers
            count = int(asked.sum())
            found.append(
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
    return tuple(found)


def _places(among: PairSet, of: PairSet) -> np.ndarray:
    """Where the pairs of one set have those of the same cluster in another."""
    place = {str(cluster): at for at, cluster in enumerate(among.frame["cluster"])}
    return np.array([place[str(cluster)] for cluster in of.frame["cluster"]], dtype=np.int64)
