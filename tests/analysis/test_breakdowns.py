"""Breakdowns of accuracy on pairs: what pandas counts, on made-up votes and on real pairs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from synthetic import analyse, synthetic_tables

from bon.analysis.results import Results

REAL = Path(__file__).parents[2] / ".." / "shared" / "data"
PAIRS = REAL / "vl_rewardbench" / "pairs.jsonl"
LLMBAR = REAL / "real" / "llmbar"
BLANK = {"vote": 0, "score": np.nan, "num_tokens": 1, "seconds": 0.0, "cost": 0.0}


def table(found: Results, by: str) -> pd.DataFrame:
    """The accuracies of a table, rows and columns in its order."""
    cells = {(c.row, c.column): c.accuracy.value for c in found.breakdowns if c.by == by}
    return pd.Series(cells).unstack()[list(dict.fromkeys(c for _, c in cells))]


def by_quartile(values: pd.Series, among: pd.Series) -> pd.Series:
    ends = among.quantile([0.25, 0.5, 0.75], interpolation="lower")
    return pd.cut(values, [-np.inf, *ends, np.inf])


VOTES, SIZES = (1, 3, 5, 5), (1e9, 8e9, 8e9, 70e9)


@pytest.fixture(scope="module")
def voted():
    """Four rewarders of 1 to 5 votes on 160 pairs, two of them of one checkpoint."""
    rng = np.random.default_rng(3)
    tables = synthetic_tables(4, 12, 2, 160)
    names = tables.rewarders["rewarder"]
    pairs = tables.pairs.assign(
        words_0=rng.integers(1, 300, 160),
        words_1=rng.integers(1, 300, 160),
        preferred=rng.integers(0, 2, 160),
    )
    rows = []
    for r, (name, votes) in enumerate(zip(names, VOTES, strict=True)):
        for pair in pairs.itertuples():
            right = rng.random(votes) < 0.55 + 0.05 * r
            says = np.where(right == (pair.preferred == 0), "first", "second")
            shown = {"item": pair.pair, "first": pair.response_0, "second": pair.response_1}
            rows += [
                {**BLANK, **shown, "rewarder": name, "item_kind": "pair", "vote": v, "outcome": o}
                for v, o in enumerate(says)
            ]
    asked = tables.judgements[tables.judgements["item_kind"] == "question"]
    return replace(
        tables,
        pairs=pairs,
        judgements=pd.concat([asked, pd.DataFrame(rows)], ignore_index=True),
        rewarders=tables.rewarders.assign(size=SIZES, model=["", "one", "one", "other"]),
    )


def credit(tables, votes: int = 9) -> pd.DataFrame:
    """1, ½ or 0 of every rewarder (columns) on every pair, by the majority of its first votes."""
    judged = tables.judgements.merge(
        tables.pairs[["pair", "preferred"]], "inner", None, "item", "pair"
    )
    right = (judged["outcome"] == "first") == (judged["preferred"] == 0)
    judged["plus"] = np.where(right, 1, -1)
    sums = judged[judged["vote"] < votes].groupby(["item", "rewarder"])["plus"].sum().unstack()
    return ((np.sign(sums) + 1) / 2).loc[tables.pairs["pair"]].reset_index(drop=True)


def test_every_table_is_what_pandas_counts(voted):
    found, pairs, worth = analyse(voted, draws=2000), voted.pairs, credit(voted)
    words = pairs[["words_0", "words_1"]].astype(float)
    longer = (words["words_0"] - words["words_1"]) * (1 - 2 * pairs["preferred"])
    for by, labels in (
        ("tag", pairs["tag"].replace("", None)),
        ("words of a response", by_quartile(words.mean(axis=1), words.stack())),
        ("words of the better response minus the other", by_quartile(longer, longer)),
    ):
        expected = worth.groupby(labels, observed=True).mean().T
        shown = table(found, by)
        assert shown.to_numpy() == pytest.approx(expected.to_numpy()), by
        sizes = {c.column: c.num_pairs for c in found.breakdowns if c.by == by}
        assert list(sizes.values()) == labels.value_counts(sort=False).sort_index().tolist()

    tasks = pd.concat([worth.assign(task=""), worth.assign(task=pairs["group"])])
    _, b, c, d = worth.columns
    of = tasks.groupby("task").mean().T
    by_size = table(found, "size")
    assert list(by_size) == ["all pairs", "general", "hallucination", "reasoning"]
    assert by_size.loc["8 B (2 rewarders)"].tolist() == pytest.approx(
        of.loc[[b, c]].mean().tolist()
    )
    slopes = np.polyfit(np.log10(SIZES), of.to_numpy(), 1)[0]
    assert by_size.loc["gain per tenfold size"].tolist() == pytest.approx(slopes.tolist())

    protocol = table(found, "protocol of one")
    assert list(protocol.index) == [b, c, f"{c} − {b}"]
    assert protocol.iloc[2].tolist() == pytest.approx((of.loc[c] - of.loc[b]).tolist())
    (cell,) = (x for x in found.breakdowns if x.row == f"{c} − {b}" and x.column == "all pairs")
    half = 1.96 * (worth[c] - worth[b]).std() / np.sqrt(len(worth))
    assert cell.difference
    assert [cell.accuracy.low, cell.accuracy.high] == pytest.approx(
        [cell.accuracy.value - half, cell.accuracy.value + half], abs=0.02
    ), "paired by pair"

    votes = table(found, "number of votes K")
    assert list(votes) == list(by_size)
    names = {f"{b} (8 B)": b, f"{c} (8 B)": c, f"{d} (70 B)": d}
    shown = dict.fromkeys(cell.row for cell in found.breakdowns if cell.by == "number of votes K")
    assert list(shown) == [
        f"{name}, {k}"
        for name, last in zip(names, (3, 5, 5), strict=True)
        for k in (*(f"K = {k}" for k in (1, 3, 5) if k <= last), f"gain of K = {last} over 1")
    ], "by capacity"
    for name, r in names.items():
        one, three = (credit(voted, k)[r].mean() for k in (1, 3))
        assert votes.loc[f"{name}, K = 1", "all pairs"] == pytest.approx(one)
        assert votes.loc[f"{name}, K = 3", "all pairs"] == pytest.approx(three)
        (gain,) = votes.loc[votes.index.str.startswith(f"{name}, gain"), "all pairs"]
        assert gain == pytest.approx(worth[r].mean() - one)


def test_what_the_data_do_not_allow_is_absent(voted):
    bare = replace(
        voted,
        pairs=voted.pairs.drop(columns=["words_0", "words_1"]).assign(tag=""),
        judgements=voted.judgements[voted.judgements["vote"] == 0],
        rewarders=voted.rewarders.assign(size=None, model=["a", "b", "c", ""]),
    )
    assert analyse(bare, draws=100).breakdowns == ()
    alike = replace(bare, pairs=bare.pairs.assign(words_0=7, words_1=7))
    assert analyse(alike, draws=100).breakdowns == (), "quartiles that are one"


@pytest.mark.skipif(not LLMBAR.exists(), reason="needs ../shared/data/real/llmbar")
def test_the_prompt_alone_moves_a_real_judge_from_76_to_87():
    """LLMBar: five models with six prompts each, on 419 pairs in both orders."""
    lines = {
        name: pd.read_json(LLMBAR / f"{name}.jsonl", lines=True) for name in ("pairs", "verdicts")
    }
    said, tables = lines["verdicts"], synthetic_tables(3, 12, 2, 3)
    pairs = lines["pairs"].assign(
        pair=lines["pairs"]["id"], benchmark="LLMBar", tag="", preferred=0, leaked=False,
        response_0="chosen", response_1="rejected", length_0=None, length_1=None,
    )  # fmt: skip
    rewarders = said[["rewarder", "family"]].drop_duplicates().assign(kind="pairwise", size=None)
    judged = said.rename(columns={"pair": "item"}).assign(item_kind="pair", **BLANK)
    found = analyse(
        replace(
            tables,
            pairs=pairs,
            judgements=judged,
            rewarders=rewarders.assign(model=rewarders["family"]),
            candidates=tables.candidates.iloc[:0],
            questions=tables.questions.iloc[:0],
        )
    )
    chosen = said["first"].where(said["outcome"] == "first", said["second"])
    assert said["outcome"].isin(["first", "second"]).mean() > 0.99
    half = np.where(said["outcome"].isin(["first", "second"]), chosen == "chosen", 0.5)
    right = pd.Series(half, said.index).groupby([said["family"], said["rewarder"]]).mean()
    shown = table(found, "protocol of GPT-4")
    cards = [name for name in shown.index if "−" not in name]
    assert len(cards) == 6
    assert shown.loc[cards, "all pairs"].tolist() == pytest.approx(
        right["GPT-4"][cards].tolist(), abs=0.004
    )
    assert (shown.loc[cards, "all pairs"].min(), shown.loc[cards, "all pairs"].max()) == (
        pytest.approx((0.765, 0.872), abs=0.001)
    )
    differences = [c for c in found.breakdowns if c.difference and c.column == "all pairs"]
    assert len(differences) == 25
    assert any(c.accuracy.low > 0 for c in differences), "more than chance"


@pytest.mark.ray
@pytest.mark.skipif(not PAIRS.exists(), reason="needs ../shared/data/vl_rewardbench")
def test_a_run_on_the_real_pairs_shows_the_published_quartiles(tmp_path, one_ray):
    """VL-RewardBench's table 1: 48, 99 and 136 words of a response."""
    from bon.api import run
    from tests.conftest import echo_experiment

    rows = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    texts = pd.DataFrame(rows).drop(columns="image")
    texts.to_json(tmp_path / "pairs.jsonl", orient="records", lines=True)
    head = {**echo_experiment()["rewarders"][2], "model": "maker/judge", "revision": "a1"}
    study = {
        "name": "real", "questions": [], "policies": [],
        "pairs": [{"benchmark": "vl_rewardbench", "path": str(tmp_path / "pairs.jsonl")}],
        "rewarders": [{**head, "name": f"head-{b}b", "size": b * 1e9} for b in (1, 7)],
    }  # fmt: skip
    results = run(study, tmp_path / "run").results
    of_columns = {
        c.column: c.num_pairs for c in results.breakdowns if c.by == "words of a response"
    }
    assert list(of_columns) == ["up to 48", "over 48 to 99", "over 99 to 136", "over 136"]
    words = texts[["chosen", "rejected"]].apply(lambda side: side.str.split().str.len())
    counts = by_quartile(words.mean(axis=1), words.stack()).value_counts(sort=False)
    assert list(of_columns.values()) == counts.tolist()
    assert list(table(results, "size").index) == [
        "1 B (1 rewarder)", "7 B (1 rewarder)", "gain per tenfold size",
    ]  # fmt: skip
    assert list(table(results, "protocol of judge").index)[2:] == ["head-7b − head-1b"]
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Accuracy by words of a response on vl_rewardbench" in page
    assert f"over 48 to 99 ({of_columns['over 48 to 99']})" in page
