"""Votes of rewarders beside labels, from a run or from a table, for `bon calibrate`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bon.analysis.calibration.labelled import COLUMNS
from bon.analysis.data.tables import Tables
from bon.benchmarks.base import named_columns
from bon.core.errors import BonError, some
from bon.core.keys import text_key
from bon.core.records import RIGHT_FROM
from bon.core.text import table_cell
from bon.formats.base import first_row, whole_rows
from bon.importing.import_files import refuse_unused
from bon.running.reporting import open_run
from bon.storage.store import Store
from bon.work.run_tables import run_tables

VERDICTS = {"first": 1.0, "chosen": 1.0, "second": 0.0, "tie": 0.5}
WORDS = {
    **dict.fromkeys(("1", "1.0", "true", "yes", "pass", "right", "correct", "first", "good"), 1.0),
    **dict.fromkeys(
        ("0", "0.0", "false", "no", "fail", "wrong", "incorrect", "second", "bad"), 0.0
    ),
    **dict.fromkeys(("0.5", "tie"), 0.5),
}
"""Labels and verdicts as words."""

NUMBERS = ("score", "length", "cost", "probability")


VOTE_ROLES = frozenset(COLUMNS)
LABEL_ROLES = frozenset(("item", "label", "annotator", "probability"))


def check_columns(
    columns: Mapping[str, str], votes: Sequence[Path], labels: Sequence[Path] = ()
) -> None:
    """Raise BonError for a named column that no table has or reads."""
    roles = [(VOTE_ROLES, votes), (LABEL_ROLES, labels)]
    files = [(path, own) for own, paths in roles for path in paths if path.is_file()]
    if not files:
        refuse_unused("a run has its own", columns=columns)
    named_columns(columns, [(str(path), own, first_row(path)) for path, own in files])


def votes_of(source: Path, columns: dict[str, str], passing: float | None = None) -> pd.DataFrame:
    """Return the votes of a run directory or a table (columns: `labelled.COLUMNS`).

    Labels of a run are its answer key and the preferences of its benchmark. passing: see
    `labels_of`; it holds for verdicts too.
    """
    if (source / "run.sqlite").is_file():
        with Store(source, readonly=True) as store:
            tables = run_tables(open_run(store), store)
            texts = dict(store.query("SELECT text_key, text FROM candidates"))
            texts |= {text_key(text): text for _, p in store.pairs() for text in p.responses}
        answers = _answers(tables, texts)
        votes = pd.concat([answers, _pairs(tables, texts)], ignore_index=True)
        votes.attrs["left_out"] = _left_out(tables, set(answers["cluster"]))
        return votes
    if not source.exists():
        raise BonError(f"no file or run {source}", "check the path")
    frame = _table(source, columns)
    if "item" not in frame or not {"verdict", "score"} & set(frame):
        raise BonError(
            f"{source} has no column 'item', or neither 'verdict' nor 'score'",
            "rename columns: --columns item=id --columns verdict=judge_says",
        )
    return _completed(frame, source, passing)


def labels_of(path: Path, columns: dict[str, str], passing: float | None = None) -> pd.DataFrame:
    """Return labels of a table: columns item, label, annotator and probability.

    passing: grades from it on are right, lower ones wrong.
    """
    frame = _table(path, columns)
    if missing := {"item", "label"} - set(frame):
        raise BonError(f"{path} has no column {min(missing)!r}", "rename it: --columns label=...")
    frame["label"] = label_values(frame["label"], path, "label", passing)
    for column, default in (("annotator", "labels"), ("probability", np.nan)):
        frame[column] = frame.get(column, default)
    frame["annotator"] = frame["annotator"].astype(str)
    # As `csv_text` writes them: a name that begins like a formula is quoted.
    items = [i[1:] if table_cell(i[1:]) == i else i for i in frame["item"].astype(str)]
    frame = frame.assign(item=items)[frame["label"].isin([0.0, 1.0])]
    return frame[["item", "label", "annotator", "probability"]]


def with_labels(
    votes: pd.DataFrame, consensus: "pd.Series[float]", labels: pd.DataFrame
) -> pd.DataFrame:
    """Return the votes with these labels in place of their own."""
    names = {name.casefold() for name in labels["annotator"]}
    if own := names & {rewarder.casefold() for rewarder in votes["rewarder"]}:
        raise BonError(
            f"{min(own)} labelled the items that it judges",
            "leave its rows out: labels must come from people or from another source",
        )
    if not consensus.index.isin(votes["item"]).any():
        raise BonError(
            f"no labelled item was judged (labelled: {some(list(consensus.index))}; "
            f"judged: {some(sorted(set(votes['item'])))})",
            "name items as the verdicts do",
        )
    drawn = labels.dropna(subset=["probability"]).groupby("item")["probability"].first()
    return votes.assign(
        label=votes["item"].map(consensus).astype(float),
        probability=votes["item"].map(drawn).astype(float),
    )


def _answers(tables: Tables, texts: dict[str, str]) -> pd.DataFrame:
    """Single answers with a score of their own; equal texts of a question are one item."""
    rows = tables.judgements
    rows = rows[(rows["item_kind"] == "question") & rows["second"].isna()]
    rows = rows[rows["outcome"] != "error"]
    answers = tables.candidates.drop_duplicates(["question", "text_key"])
    joined = rows.merge(answers, left_on=["item", "first"], right_on=["question", "text_key"])
    subject = joined["question"].map(tables.questions.set_index("question")["subject"])
    return pd.DataFrame(
        {
            "rewarder": joined["rewarder"].astype(str),
            "kind": "answers",
            "item": joined["question"] + "/" + joined["text_key"],
            "cluster": joined["question"],
            "category": subject,
            "label": (joined["correct"] >= RIGHT_FROM).astype(float),
            "verdict": np.nan,
            "score": joined["score"].astype(float),
            "vote": joined["vote"],
            "length": joined["length"].astype(float),
            "cost": joined["cost"].astype(float),
            "probability": np.nan,
            "text": joined["text_key"].map(texts),
            "other": "",
        }
    )


def _left_out(tables: Tables, judged: set[str]) -> str:
    """Say how many questions were not judged as their candidates are all right or all wrong."""
    right = tables.candidates.groupby("question")["correct"].agg(["min", "max"])
    unanimous = right[right["min"] == right["max"]].index
    missing = len(set(unanimous) - judged)
    if not judged or not missing:
        return ""
    return (
        f"{missing:,} questions whose candidates are all right or all wrong were not judged: "
        "rates hold for the others (`judging.skip: nothing` judges them)"
    )


def _pairs(tables: Tables, texts: dict[str, str]) -> pd.DataFrame:
    """Preference pairs as they were shown; scores of both responses as their difference."""
    rows = tables.judgements
    rows = rows[(rows["item_kind"] == "pair") & (rows["outcome"] != "error")]
    joined = rows.merge(tables.pairs, left_on="item", right_on="pair")
    better = np.where(joined["preferred"] == 0, joined["response_0"], joined["response_1"])
    text_0, text_1 = (joined[side].map(texts) for side in ("response_0", "response_1"))
    shown_0 = (joined["first"] == joined["response_0"]).to_numpy()
    gap = (joined["length_0"].astype(float) - joined["length_1"].astype(float)).to_numpy()
    frame = pd.DataFrame(
        {
            "rewarder": joined["rewarder"].astype(str),
            "kind": "pairs",
            "item": joined["pair"] + np.where(shown_0, "/01", "/10"),
            "cluster": joined["cluster"].where(joined["cluster"] != "", joined["pair"])
            if "cluster" in joined
            else joined["pair"],
            "category": joined["group"],
            "label": (joined["first"] == better).astype(float),
            "verdict": joined["outcome"].map(VERDICTS).astype(float),
            "score": joined["score"].astype(float),
            "vote": joined["vote"],
            "length": np.where(shown_0, gap, -gap),
            "cost": joined["cost"].astype(float),
            "probability": np.nan,
            "text": np.where(shown_0, text_0, text_1),
            "other": np.where(shown_0, text_1, text_0),
        }
    )
    single = joined["second"].isna().to_numpy() & (joined["outcome"] != "chosen").to_numpy()
    if single.any():  # one score per response: the other one's is subtracted
        alone = frame[single]
        key = [alone["rewarder"], alone["item"].str[:-3], alone["vote"]]
        total = alone["score"].groupby(key).transform("sum", min_count=2)
        frame.loc[single, "score"] = 2 * alone["score"] - total
    return frame


def _table(path: Path, columns: dict[str, str]) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for _, row in whole_rows(path, "mend the row or leave it out"):
        rows.append({**row, **{role: row[name] for role, name in columns.items() if name in row}})
    if not rows:
        raise BonError(f"{path} holds no rows", "check the file")
    return pd.DataFrame(rows)


def _completed(frame: pd.DataFrame, path: Path, passing: float | None) -> pd.DataFrame:
    """Fill in the optional columns of a table and check its values."""
    frame = frame.assign(item=frame["item"].astype(str))
    defaults: dict[str, Any] = {
        "rewarder": path.stem,
        "kind": "answers",
        "cluster": frame["item"],
        "category": "",
        "label": np.nan,
        "verdict": np.nan,
        "vote": 0,
        "text": "",
        "other": "",
        **dict.fromkeys(NUMBERS, np.nan),
    }
    for column, default in defaults.items():
        if column not in frame:
            frame[column] = default
    for column in ("label", "verdict"):
        frame[column] = label_values(frame[column], path, column, passing)
    for column in NUMBERS:
        numbers = pd.to_numeric(frame[column], errors="coerce")
        if (bad := frame[column].notna() & numbers.isna()).any():
            value = frame.loc[bad, column].tolist()[0]
            raise BonError(f"{path}: {column} {value!r} is not a number", "mend or empty the cell")
        frame[column] = numbers.astype(float)
    label = frame["label"].where(frame["label"] != 0.5)
    share = label.groupby([frame["kind"], frame["item"]]).transform("mean")  # rows may disagree
    frame["label"] = (share > 0.5).astype(float).where(label.notna() & (share != 0.5))
    return frame[list(COLUMNS)].astype({"rewarder": str, "kind": str, "cluster": str})


def label_values(
    column: "pd.Series[Any]", path: Path, name: str, passing: float | None = None
) -> "pd.Series[float]":
    """Return 1, 0, .5 or NaN (an empty cell, or unparsed) for each label or verdict."""
    words = column.astype(str).str.strip().str.lower()
    empty = column.isna() | words.isin(["", "unparsed", "nan", "none", "error"])
    values = words.map(WORDS)
    if passing is not None and (grades := pd.to_numeric(words, errors="coerce")).notna().any():
        values = grades.ge(passing).astype(float).where(grades.notna())
    if (bad := ~empty & values.isna()).any():
        raise BonError(
            f"{path}: {name} {column[bad].tolist()[0]!r} is neither right nor wrong",
            "write 1 or 0, true or false, pass or fail, for pairs first, second or tie, or grades "
            "as numbers with --pass GRADE",
        )
    return values.where(~empty).astype(float)
