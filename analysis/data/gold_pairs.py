"""Comparisons that the gold chose, read as accuracy on pairs.

Published pairwise verdicts often set one right answer against each wrong one. A rule would know the
right candidate from the schedule: under Bradley-Terry a coin flip is right in 0% of questions.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from bon.analysis.data.tables import PAIR_EXTRAS, Tables
from bon.analysis.results.phrasing import names
from bon.choosing.opinion import Bools, Ints
from bon.core.records import RIGHT_FROM

NAME = "right against wrong candidates"
LEAST, EXPECTED = 0.25, 5.0
"""The gold chose if, of EXPECTED or more comparisons within a class, less than this share was made.

All pairs have 1, tournaments with a perfect judge over a half.
"""


def chosen_by_gold(first: Ints, second: Ints, right: Bools, question: Ints) -> bool:
    """Whether comparisons of responses avoid those of two right or of two wrong ones.

    Blind to the gold, these have the share that they have among all pairs of responses of a
    question. `right` and `question`: of each response.
    """
    first, second = first[second >= 0], second[second >= 0]
    if not len(first):
        return False
    size, correct = np.bincount(question), np.bincount(question, weights=right)
    within = 1 - correct * (size - correct) / np.maximum(size * (size - 1) / 2, 1)
    expected = within[question[first]].sum()
    return bool(expected >= EXPECTED and (right[first] == right[second]).sum() < LEAST * expected)


def warning(rewarders: Sequence[str]) -> str:
    """Explain how the comparisons of these rewarders are read."""
    return (
        f"{names(list(rewarders))} compared almost only right with wrong candidates. The gold "
        "chose these comparisons, so they are read as accuracy on pairs, not as Best-of-N."
    )


def as_pairs(tables: Tables, rewarders: Sequence[str]) -> Tables:
    """Turn comparisons of right with wrong candidates by these rewarders into preference pairs.

    Their other judgements of candidates are dropped; the pairs of a question are a cluster.
    """
    text = ["question", "text_key"]
    candidates = tables.candidates.astype(dict.fromkeys(text, str)).drop_duplicates(text)
    candidates = candidates.set_index(text)
    judged = tables.judgements.astype({"item_kind": object, "item": object})
    own = (judged["item_kind"] == "question") & judged["rewarder"].isin(rewarders)
    compared = judged[own & judged["second"].notna()]
    sides = compared[["first", "second"]].astype(str).to_numpy()
    pairs = pd.DataFrame(np.sort(sides, axis=1), compared.index, ["response_0", "response_1"])
    pairs["cluster"] = compared["item"].astype(str)
    for i in (0, 1):
        rows = candidates.reindex(pd.MultiIndex.from_frame(pairs[["cluster", f"response_{i}"]]))
        pairs[f"length_{i}"] = rows["length"].to_numpy()
        pairs[f"right_{i}"] = (rows["correct"] >= RIGHT_FROM).to_numpy(dtype=float)
    pairs = pairs[pairs["right_0"] + pairs["right_1"] == 1]
    pairs["pair"] = pairs["cluster"] + ":" + pairs["response_0"] + ":" + pairs["response_1"]
    moved = judged.loc[pairs.index].assign(item_kind="pair", item=pairs["pair"])
    questions = tables.questions.set_index("question")[["id", "leaked"]]
    new = pairs.drop_duplicates("pair").join(questions, on="cluster")
    new["preferred"] = (new["right_1"] == 1).astype(int)
    new = new.drop(columns=["right_0", "right_1"]).assign(benchmark=NAME, group="", tag="")
    together = pd.concat([tables.pairs, new], ignore_index=True)
    return replace(
        tables,
        judgements=pd.concat([judged[~own], moved]),
        pairs=together.fillna({k: v for k, v in PAIR_EXTRAS.items() if k in together}),
        meta={**tables.meta, "read_as_pairs": tuple(rewarders)},
    )
