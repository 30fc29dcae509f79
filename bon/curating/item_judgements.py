"""Verdicts of the runs' rewarders on the items, taken from the runs' judgements.

An item's responses are candidates that the run judged, so its verdicts exist already: of both
orders, implied by scores, and of lists that showed both responses and chose one of them. What a
design left out, and what was drawn from a preference set, is judged by an ordinary run over
pairs.parquet in DIR/judged.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from bon.analysis.data.arrays import read
from bon.analysis.data.tables import COLUMNS, Tables
from bon.analysis.data.verdicts import (
    NOT_ASKED,
    RIGHT,
    TIE,
    UNDECIDED,
    WRONG,
    Verdicts,
    code_of,
)
from bon.analysis.data.verdicts import verdicts as make_verdicts
from bon.core.errors import BonError
from bon.curating.items import CuratedItem
from bon.curating.judged_runs import JudgedRun, judged_runs, open_runs
from bon.curating.workbench import Workbench
from bon.storage.database import DATABASE

CREDIT = {WRONG: 0.0, RIGHT: 1.0, TIE: 0.5, UNDECIDED: np.nan, NOT_ASKED: np.nan}
_SIDES = ["response_0", "response_1"]


def verdicts(bench: Workbench) -> pd.DataFrame:
    """Return one row per judged item, rewarder and order.

    Columns: item, rewarder, `order` ("1-0": response 1 was shown first; empty for scores) and
    `credit` (1 right, 0 wrong, ½ tie, NaN unparsed).
    """
    pairs = item_pairs(bench.items)
    frames: list[pd.DataFrame] = []
    for rewarder, verdict in item_verdicts(bench, pairs).items():
        codes = {"": verdict.code}
        if verdict.counts is not None:
            codes = {f"{s}-{1 - s}": code_of(verdict.counts[:, s]) for s in (0, 1)}
        for order, code in codes.items():
            names = {"item": pairs["pair"], "rewarder": rewarder, "order": order}
            rows = pd.DataFrame(names | {"credit": pd.Series(code).map(CREDIT)})
            frames.append(rows.loc[code != NOT_ASKED])
    return pd.concat(frames, ignore_index=True)


def credits(bench: Workbench) -> pd.DataFrame:
    """Return items x rewarders: 1 right, 0 wrong, ½ tie over all votes and orders, NaN missing."""
    pairs = item_pairs(bench.items)
    columns = {
        rewarder: pd.Series(verdict.code, index=pairs["pair"]).map(CREDIT)
        for rewarder, verdict in item_verdicts(bench, pairs).items()
    }
    return pd.DataFrame(columns).rename_axis("item")


def item_pairs(items: Iterable[CuratedItem]) -> pd.DataFrame:
    """Return the items as the analysis table `pairs`, their keys as `pair`, with the `question`.

    Ids equal those of the frozen benchmark.
    """
    rows = [
        {
            "pair": item.key,
            "id": item.id,
            "benchmark": "curated",
            "group": "",
            "tag": "",
            "preferred": item.better,
            "response_0": item.text_keys[0],
            "response_1": item.text_keys[1],
            "length_0": len(item.responses[0]),
            "length_1": len(item.responses[1]),
            "leaked": False,
            "cluster": item.question,
            "set": "",
            "weight": item.weight,
            "question": item.question,
        }
        for item in items
    ]
    return pd.DataFrame(rows, columns=[*COLUMNS["pairs"], "cluster", "set", "weight", "question"])


def item_verdicts(bench: Workbench, pairs: pd.DataFrame) -> dict[str, Verdicts]:
    """Return every rewarder's verdicts on the pairs."""
    return verdicts_of(item_tables(bench, pairs))


def item_tables(bench: Workbench, pairs: pd.DataFrame) -> Tables:
    """Return the pairs with their judgements of the runs and of the run in `judged`.

    Raises:
        BonError: there is neither.
    """
    extra = [bench.judged] if (bench.judged / DATABASE).is_file() else []
    with judged_runs(bench) as runs, open_runs(extra) as judged:
        if not (runs or judged):
            raise BonError(
                f"no run has judged the items of {bench.name}",
                f"bon run EXPERIMENT --out {bench.judged}, its pairs: {bench.pairs_path}",
            )
        tables = tables_of(runs or judged, pairs)
        return _with_extra(tables, judged[0].tables) if judged else tables


def verdicts_of(tables: Tables) -> dict[str, Verdicts]:
    """Return every rewarder's verdicts on the pairs of the tables."""
    run = read(tables)
    preferred = tables.pairs["preferred"].to_numpy(dtype=np.int64)
    return {name: make_verdicts(run.pairs[name], preferred) for name in run.rewarders}


def tables_of(runs: Sequence[JudgedRun], pairs: pd.DataFrame) -> Tables:
    """Return pairs of candidates as a reward benchmark, with the runs' judgements of them."""
    judgements = []
    for run in runs:
        rows = run.tables.judgements[run.tables.judgements["item_kind"] == "question"]
        judgements += [_compared(rows, pairs), _scored(rows, pairs), _chosen(run, pairs)]
    first = runs[0].tables
    empty = first.questions.iloc[:0], first.candidates.iloc[:0]
    tables = Tables(*empty, pairs, first.judgements, first.rewarders)
    return _combined(tables, judgements, [run.tables.rewarders for run in runs])


def _with_extra(tables: Tables, extra: Tables) -> Tables:
    """Add judgements of a run whose pairs carry the ids of these, where there are none yet."""
    keys = dict(zip(tables.pairs["id"], tables.pairs["pair"], strict=True))
    names = dict(zip(extra.pairs["pair"], extra.pairs["id"].map(keys), strict=True))
    rows = extra.judgements[extra.judgements["item_kind"] == "pair"]
    rows = rows.assign(item=rows["item"].map(names)).dropna(subset="item")
    judged = pd.MultiIndex.from_frame(tables.judgements[["rewarder", "item"]])
    rows = rows[~pd.MultiIndex.from_frame(rows[["rewarder", "item"]]).isin(judged)]
    return _combined(tables, [tables.judgements, rows], [tables.rewarders, extra.rewarders])


def _combined(
    tables: Tables, judgements: Sequence[pd.DataFrame], rewarders: Sequence[pd.DataFrame]
) -> Tables:
    rows = pd.concat([frame for frame in judgements if len(frame)] or judgements[:1])
    unique = ["rewarder", "item", "first", "second", "vote"]
    return replace(
        tables,
        judgements=rows.drop_duplicates(unique).reset_index(drop=True),
        rewarders=pd.concat(rewarders).drop_duplicates("rewarder").reset_index(drop=True),
    )


def _compared(judgements: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Comparisons of the two responses of a pair, in either order."""
    sides = pairs[["pair", "question", *_SIDES]]
    orders = [
        sides.set_axis(["pair", "item", *names], axis=1)
        for names in (("first", "second"), ("second", "first"))
    ]
    return _about_pairs(judgements.merge(pd.concat(orders), on=["item", "first", "second"]))


def _scored(judgements: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Scores of the responses of a pair, if both have one."""
    sides = [
        pairs[["pair", "question", side]].set_axis(["pair", "item", "first"], axis=1)
        for side in _SIDES
    ]
    scores = judgements[judgements["second"].isna() & (judgements["outcome"] != "chosen")]
    rows = scores.merge(pd.concat(sides), on=["item", "first"])
    both = rows.groupby(["rewarder", "pair"])["first"].transform("nunique") == 2
    return _about_pairs(rows[both])


def _about_pairs(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(item=rows["pair"], item_kind="pair")[list(COLUMNS["judgements"])]


def _chosen(run: JudgedRun, pairs: pd.DataFrame) -> pd.DataFrame:
    """Listwise choices that showed both responses of a pair and chose one of them."""
    rows = []
    by_question = {str(key): frame for key, frame in pairs.groupby("question")}
    for loaded in run.setup.rewarders:
        if loaded.card.kind != "listwise":
            continue
        for item, chosen, shown, vote in run.store.query(
            "SELECT item, first, shown, vote FROM judgements WHERE spec = ? AND shown != '' "
            "AND outcome = 'chosen' AND item_kind = 'question' ORDER BY key",
            (loaded.spec,),
        ):
            order = shown.split(",")
            for pair in by_question.get(item, pairs.iloc[:0]).itertuples():
                sides = {str(pair.response_0), str(pair.response_1)}
                if chosen in sides and sides.issubset(order):
                    first, second = sorted(sides, key=order.index)
                    outcome = "first" if chosen == first else "second"
                    key = (loaded.card.name, "pair", pair.pair, first, second, vote)
                    rows.append((*key, outcome, None, 0, 0.0, 0.0))
    return pd.DataFrame(rows, columns=list(COLUMNS["judgements"]))
