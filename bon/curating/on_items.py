"""What the runs' rewarders said about the items: taken from their judgements, nobody is asked.

A pair of responses is a pair of candidates that a run judged, so its verdicts are there already:
those of both orders, those that scores imply, those of lists in which both were shown and one of
the two was chosen. What a design left out is missing here (`bon curate judge`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

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
from bon.curating.items import CuratedItem
from bon.curating.judged_runs import JudgedRun, judged_runs, opened
from bon.curating.workbench import Workbench
from bon.running.database import DATABASE

Ints = NDArray[np.int64]

CREDIT = {WRONG: 0.0, RIGHT: 1.0, TIE: 0.5, UNDECIDED: np.nan}
OUTCOME = {WRONG: "wrong", RIGHT: "right", TIE: "tie", UNDECIDED: "undecided"}
_SIDES = ["response_0", "response_1"]


def verdicts(bench: Workbench) -> pd.DataFrame:
    """One row per item, rewarder and order in which it was asked.

    Columns: item, rewarder, `order` ("1-0": the response in place 1 was shown first; empty for
    scores, which know no order), `credit` (1 right, 0 wrong, ½ a tie, NaN where nothing that was
    said could be read), `outcome` (right, wrong, tie, undecided) and `against`, the place of the
    wrong response: an item of one right and several wrong ones has rows for each. Items of which
    all responses are right have none, nor have those that a rewarder was never asked about
    (`unjudged`).
    """
    pairs = item_pairs(bench.items)
    rows = []
    for rewarder, said in said_about(bench, pairs).items():
        if said.counts is None:
            rows.append(_rows(pairs, rewarder, said.code, None))
            continue
        for side in (0, 1):
            rows.append(_rows(pairs, rewarder, code_of(said.counts[:, side]), side))
    columns = ["item", "rewarder", "order", "credit", "outcome", "against"]
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=columns)


def credits(bench: Workbench) -> pd.DataFrame:
    """Items by rewarders: 1 right, 0 wrong, ½ a tie; all votes of both orders together.

    NaN where nothing was asked or read. An item with several wrong responses is as right as its
    worst comparison: a tie or a loss with one of them is one.
    """
    pairs = item_pairs(bench.items)
    frame = pd.DataFrame(
        {
            rewarder: pd.Series(said.code).map({**CREDIT, NOT_ASKED: np.nan}).to_numpy()
            for rewarder, said in said_about(bench, pairs).items()
        }
    )
    items = pairs["item"]
    whole = frame.notna().groupby(items, sort=False).all()
    worst = frame.groupby(items, sort=False).min().where(whole)
    return worst.reindex([item.key for item in bench.items if item.better is not None])


def missing_items(bench: Workbench) -> dict[str, set[str]]:
    """The items (keys) that each rewarder of the runs was not asked about, or not about whole."""
    pairs = item_pairs(bench.items)
    return {
        rewarder: set(pairs.loc[said.code == NOT_ASKED, "item"])
        for rewarder, said in said_about(bench, pairs).items()
    }


def unjudged(bench: Workbench) -> dict[str, int]:
    """How many items that are."""
    return {rewarder: len(items) for rewarder, items in missing_items(bench).items()}


def item_pairs(items: Iterable[CuratedItem]) -> pd.DataFrame:
    """Each right response against each wrong one, as the table `pairs` of the analysis.

    Besides its columns: `item` and `question`, the place of the better response (`right`) and of
    the other (`wrong`). Weights are those of pairs: an item of more responses has none. Ids are
    those of the rows of a frozen benchmark.
    """
    rows: list[dict[str, Any]] = []
    for item in items:
        if item.better is None:
            continue
        wrong = [place for place in range(len(item.responses)) if place != item.better]
        for number, place in enumerate(wrong):
            sides = sorted((item.better, place))
            one, two = sides
            rows.append(
                {
                    "pair": item.key if len(wrong) == 1 else f"{item.key}-{place}",
                    "id": item.id if len(wrong) == 1 else f"{item.id}/{number}",
                    "benchmark": "curated",
                    "group": "",
                    "tag": "",
                    "preferred": sides.index(item.better),
                    "response_0": item.text_keys[one],
                    "response_1": item.text_keys[two],
                    "length_0": len(item.responses[one]),
                    "length_1": len(item.responses[two]),
                    "leaked": False,
                    "cluster": item.question,
                    "set": item.key if len(wrong) > 1 else "",
                    "weight": item.weight if len(wrong) == 1 else 0.0,
                    "item": item.key,
                    "question": item.question,
                    "right": item.better,
                    "wrong": place,
                }
            )
    extras = ["cluster", "set", "weight", "item", "question", "right", "wrong"]
    return pd.DataFrame(rows, columns=[*COLUMNS["pairs"], *extras])


def said_about(bench: Workbench, pairs: pd.DataFrame) -> dict[str, Verdicts]:
    """Rewarder -> its verdicts on these pairs."""
    return coded(said_tables(bench, pairs))


def said_tables(bench: Workbench, pairs: pd.DataFrame) -> Tables:
    """These pairs with what was said of them in the runs, and in what was judged since."""
    with judged_runs(bench) as runs:
        tables = tables_of(runs, pairs)
    if (bench.judged / DATABASE).is_file():
        with opened([bench.judged]) as since:
            tables = _with_later(tables, since[0].tables)
    return tables


def coded(tables: Tables) -> dict[str, Verdicts]:
    """The verdicts of every rewarder on the pairs of the tables."""
    run = read(tables)
    preferred = tables.pairs["preferred"].to_numpy(dtype=np.int64)
    return {name: make_verdicts(run.pairs[name], preferred) for name in run.rewarders}


def tables_of(runs: Sequence[JudgedRun], pairs: pd.DataFrame) -> Tables:
    """Pairs of candidates as a reward benchmark, with what the runs' rewarders said of them."""
    said = []
    for run in runs:
        asked = run.tables.judgements[run.tables.judgements["item_kind"] == "question"]
        said += [_compared(asked, pairs), _scored(asked, pairs), _listed(run, pairs)]
    first = runs[0].tables
    nothing = first.questions.iloc[:0], first.candidates.iloc[:0]
    tables = Tables(*nothing, pairs, first.judgements, first.rewarders)
    return _together(tables, said, [run.tables.rewarders for run in runs])


def _with_later(tables: Tables, later: Tables) -> Tables:
    """The same with what was judged since, in a run that has the pairs under their ids.

    Where the runs have a verdict it stands.
    """
    keys = dict(zip(tables.pairs["id"], tables.pairs["pair"], strict=True))
    names = dict(zip(later.pairs["pair"], later.pairs["id"].map(keys), strict=True))
    since = later.judgements[later.judgements["item_kind"] == "pair"]
    since = since.assign(item=since["item"].map(names)).dropna(subset="item")
    said = pd.MultiIndex.from_frame(tables.judgements[["rewarder", "item"]])
    since = since[~pd.MultiIndex.from_frame(since[["rewarder", "item"]]).isin(said)]
    return _together(tables, [tables.judgements, since], [tables.rewarders, later.rewarders])


def _together(
    tables: Tables, judgements: Sequence[pd.DataFrame], rewarders: Sequence[pd.DataFrame]
) -> Tables:
    """Tables with these judgements, none of them twice."""
    said = pd.concat([frame for frame in judgements if len(frame)] or judgements[:1])
    once = ["rewarder", "item", "first", "second", "vote"]
    return replace(
        tables,
        judgements=said.drop_duplicates(once).reset_index(drop=True),
        rewarders=pd.concat(rewarders).drop_duplicates("rewarder").reset_index(drop=True),
    )


def _compared(asked: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Comparisons of the two responses of a pair, in either order."""
    sides = pairs[["pair", "question", *_SIDES]]
    there = sides.set_axis(["pair", "item", "first", "second"], axis=1)
    back = sides.set_axis(["pair", "item", "second", "first"], axis=1)
    return _about(asked.merge(pd.concat([there, back]), on=["item", "first", "second"]))


def _scored(asked: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Scores of the responses of a pair, where both have some."""
    sides = pd.concat(
        [
            pairs[["pair", "question", side]].set_axis(["pair", "item", "first"], axis=1)
            for side in _SIDES
        ]
    )
    alone = asked[asked["second"].isna() & (asked["outcome"] != "chosen")]
    found = alone.merge(sides, on=["item", "first"])
    whole = found.groupby(["rewarder", "pair"])["first"].transform("nunique") == 2
    return _about(found[whole])


def _about(found: pd.DataFrame) -> pd.DataFrame:
    return found.assign(item=found["pair"], item_kind="pair")[list(COLUMNS["judgements"])]


def _listed(run: JudgedRun, pairs: pd.DataFrame) -> pd.DataFrame:
    """Choices among several responses that were both shown and of which one was chosen."""
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
                    said = "first" if chosen == first else "second"
                    label = (loaded.card.name, "pair", pair.pair, first, second, vote)
                    rows.append((*label, said, None, 0, 0.0, 0.0))
    return pd.DataFrame(rows, columns=list(COLUMNS["judgements"]))


def _rows(pairs: pd.DataFrame, rewarder: str, code: Ints, side: int | None) -> pd.DataFrame:
    """Verdicts on pairs, with one side shown first; None: in no order."""
    asked = code != NOT_ASKED
    frame, said = pairs[asked], pd.Series(code[asked])
    order = pd.Series("", index=frame.index)
    if side is not None:
        places = frame[["right", "wrong"]].to_numpy(dtype=np.int64)
        first = np.where(frame["preferred"] == side, places[:, 0], places[:, 1])
        second = places.sum(axis=1) - first
        order = pd.Series([f"{a}-{b}" for a, b in zip(first, second, strict=True)], dtype=object)
    return pd.DataFrame(
        {
            "item": frame["item"].to_numpy(),
            "rewarder": rewarder,
            "order": order.to_numpy(),
            "credit": said.map(CREDIT).to_numpy(),
            "outcome": said.map(OUTCOME).to_numpy(),
            "against": frame["wrong"].to_numpy(),
        }
    )
