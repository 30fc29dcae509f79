"""The whole analysis on a made-up run: everything is there, agrees with plain sums, and repeats."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from synthetic import analyse, synthetic_tables

from bon.analysis.data.arrays import read
from bon.analysis.data.tables import Tables
from bon.analysis.estimators.picks import as_picks, choices
from bon.analysis.results import Options, Results
from bon.analysis.run import analyse as analyse_tables
from bon.choosing import tournaments
from bon.choosing.tallies import tied_best
from bon.core.errors import BonError

FAST = {"draws": 300, "subsets": 16}


@pytest.fixture(scope="module")
def tables() -> Tables:
    return synthetic_tables(num_rewarders=6, num_questions=60, num_candidates=5, num_pairs=120)


@pytest.fixture(scope="module")
def results(tables) -> Results:
    return analyse(tables, **FAST)


def best(results: Results, rewarder: str, rule: str):
    return next(b for b in results.best_of_n if (b.rewarder, b.rule) == (rewarder, rule))


def test_it_survives_json_without_nan(results):
    text = results.model_dump_json()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert Results.model_validate_json(text) == results
    assert json.loads(text)["schema_version"] == "1"


def test_the_same_tables_and_options_give_the_same_results(tables, results):
    assert analyse(tables, **FAST) == results


def test_order_of_rows_does_not_matter(tables, results):
    shuffled = replace(
        tables,
        candidates=tables.candidates.sample(frac=1, random_state=1),
        judgements=tables.judgements.sample(frac=1, random_state=1),
    )
    assert analyse(shuffled, **FAST).best_of_n == results.best_of_n


def test_every_estimate_has_its_interval(results):
    for b in results.best_of_n:
        for point in b.curve:
            assert point.accuracy.low <= point.accuracy.value <= point.accuracy.high
        assert b.gain.low <= b.gain.value <= b.gain.high
        assert b.n == 5
    for c in results.correlations:
        assert c.num_bases == 2
        assert c.pearson.estimate.low is None
        assert all(p.x.low is not None and p.y.low is not None for p in c.points)


def test_best_score_and_baselines_are_plain_sums(tables, results):
    scores = tables.judgements.query("rewarder == 'rewarder-01' and item_kind == 'question'")
    score = scores.set_index(["item", "first"])["score"].to_dict()
    for n in (1, 3, 5):
        found = next(p for p in best(results, "rewarder-01", "best_score").curve if p.n == n)
        total, longest, oracle = [], [], []
        for question, rows in tables.candidates.groupby("question"):
            cells = list(
                zip(
                    [score.get((question, key), np.nan) for key in rows["text_key"]],
                    rows["correct"],
                    rows["length"],
                    strict=True,
                )
            )
            for subset in combinations(cells, n):
                values = np.array([s for s, _, _ in subset], dtype=float)
                right = np.array([c for _, c, _ in subset], dtype=float)
                total.append(tied_best(values) @ right)
                longest.append(tied_best(np.array([k for *_, k in subset], float)) @ right)
                oracle.append(right.max())
        assert found.accuracy.value == pytest.approx(np.mean(total), abs=1e-9)
        for name, values in (("longest", longest), ("oracle", oracle)):
            curve = best(results, name, "baseline").curve
            assert curve[n - 1].accuracy.value == pytest.approx(np.mean(values), abs=1e-9)


def test_gain_and_majority_fit_together(results):
    random, vote = (best(results, name, "baseline") for name in ("random", "majority"))
    assert random.gain.value == 0
    assert vote.verdict_versus_majority == "is"
    for b in results.best_of_n:
        assert b.gain.value == pytest.approx(b.accuracy.value - random.accuracy.value)
        assert b.versus_majority.value == pytest.approx(b.accuracy.value - vote.accuracy.value)
        assert b.curve[0].accuracy.value == pytest.approx(results.policies[0].pass_at_1.value) or (
            b.rewarder == "first"
        )


def test_slices_add_up(results, tables):
    b = best(results, "rewarder-01", "best_score")
    total = sum(s.accuracy.value * s.accuracy.n for s in b.slices if s.by == "subject")
    assert total / len(tables.questions) == pytest.approx(b.accuracy.value)
    assert [s.name for s in b.slices if s.by == "difficulty"] == ["Easy", "Medium", "Hard"]


def test_without_leaks_is_the_analysis_of_what_is_left(tables, results):
    kept = ~tables.questions["leaked"]
    left = replace(
        tables,
        questions=tables.questions[kept],
        candidates=tables.candidates[
            tables.candidates["question"].isin(tables.questions["question"][kept])
        ],
    )
    alone = analyse(left, **FAST)
    for point in next(c for c in results.correlations if c.leaks == "out").points:
        other = best(alone, point.rewarder, point.rule)
        if other.exact:
            assert point.y.value == pytest.approx(other.accuracy.value, abs=1e-9)
    leaks = {c.leaks for c in results.correlations}
    assert leaks == {"in", "out"}
    assert results.leaks.num_questions == int((~kept).sum())


def test_the_correlation_is_of_the_headline_numbers(results):
    c = next(c for c in results.correlations if c.primary)
    assert c.leaks == "out"
    r = np.corrcoef([p.x.value for p in c.points], [p.y.value for p in c.points])[0, 1]
    assert c.pearson.estimate.value == pytest.approx(r)
    last = results.correlation_by_n[0].points[-1]
    assert (last.n, last.pearson.value) == (5, pytest.approx(r))
    assert last.pearson == c.pearson.estimate


def test_protocol(results):
    assert results.protocol.rewarders[0].orders_pairs == "both"
    assert results.protocol.rewarders[1].orders_pairs == "none"
    assert results.protocol.differences == ()
    info = {r.rewarder: r for r in results.rewarders}
    assert info["rewarder-00"].handicap == "sees no image"
    assert info["oracle"].baseline


def test_votes_that_differ_between_the_axes_are_on_the_first_screen(tables):
    again = tables.judgements.query("item_kind == 'pair' and rewarder == 'rewarder-00'")
    more = pd.concat([tables.judgements, again.assign(vote=1)], ignore_index=True)
    found = analyse(replace(tables, judgements=more), **FAST)
    assert (
        "2 votes on the reward benchmark and 1 vote on the candidates"
        in (found.protocol.differences[0])
    )
    assert found.protocol.differences[0] in found.finding.caveats


# ------------------------------------------------------------------ what was not judged


def test_a_rule_is_unsupported_where_comparisons_are_missing(tables):
    judged = tables.judgements
    some = judged.query("rewarder == 'rewarder-00' and item_kind == 'question'").index[:2]
    found = analyse(replace(tables, judgements=judged.drop(some)), **FAST)
    rules = {(r.rewarder, r.rule): r for r in found.rules}
    assert rules["rewarder-00", "round_robin"].supported  # the other order is still there
    rows = judged.loc[some[:1]].iloc[0]
    both = judged[(judged["rewarder"] == "rewarder-00") & (judged["item"] == rows["item"])].index
    pair = {rows["first"], rows["second"]}
    gone = [i for i in both if {judged.at[i, "first"], judged.at[i, "second"]} == pair]
    found = analyse(replace(tables, judgements=judged.drop(gone)), **FAST)
    rules = {r.rule: r for r in found.rules if r.rewarder == "rewarder-00"}
    assert rules["round_robin"].supported  # who wins among all is certain without it
    assert replayed_ns(found, "round_robin") == [1, 5]
    assert not rules["copeland"].supported
    assert "1 of 60 questions" in rules["copeland"].reason


def replayed_ns(found: Results, rule: str) -> list[int]:
    """The n at which a rule of rewarder-00 was replayed."""
    (row,) = (b for b in found.best_of_n if (b.rewarder, b.rule) == ("rewarder-00", rule))
    return [p.n for p in row.curve]


def only_the_bracket(tables: Tables) -> tuple[Tables, dict[str, str]]:
    """Of what rewarder-00 judged, the matches of a knockout alone, and who won each question."""
    judged = tables.judgements.query("rewarder == 'rewarder-00'")
    rows, winners = [], {}
    for question, group in judged.query("item_kind == 'question'").groupby("item"):
        verdict = {(r.first, r.second): r.outcome for r in group.itertuples()}
        alive = tournaments.bracket(set(group["first"]), question)
        while len(alive) > 1:
            through = []
            for a, b in zip(alive[0::2], alive[1::2], strict=False):
                said = (verdict[a, b], verdict[b, a])
                rows += group.index[
                    group["first"].isin((a, b)) & group["second"].isin((a, b))
                ].tolist()
                worth = {"first": 1.0, "second": 0.0, "tie": 0.5}
                votes = [worth[said[0]]] if said[0] in worth else []
                votes += [1 - worth[said[1]]] if said[1] in worth else []
                share = np.mean(votes) if votes else 0.5
                if share == 0.5:
                    through.append(tournaments.coin(a, b, question))
                else:
                    through.append(a if share > 0.5 else b)
            alive = through + ([alive[-1]] if len(alive) % 2 else [])
        winners[question] = alive[0]
    keep = [*rows, *judged.query("item_kind == 'pair'").index]
    return replace(tables, judgements=tables.judgements.loc[keep]), winners


def test_a_knockout_that_was_judged_is_replayed_as_it_was_played(tables):
    """Only the matches of the bracket exist: knockout at n = N, and no other rule."""
    truth = tables.candidates.set_index("text_key")["correct"]
    less, winners = only_the_bracket(tables)
    found = analyse(less, **FAST)
    rules = {r.rule: r for r in found.rules if r.rewarder == "rewarder-00"}
    assert replayed_ns(found, "knockout") == [1, 5]
    assert not rules["round_robin"].supported
    constant = tables.candidates.groupby("question")["correct"].mean()
    total = [
        float(truth[winners[q]]) if q in winners else constant[q]
        for q in tables.questions["question"]
    ]
    assert best(found, "rewarder-00", "knockout").accuracy.value == pytest.approx(np.mean(total))
    assert (
        next(b for b in found.best_of_n if b.headline and b.rewarder == "rewarder-00").rule
        == "knockout"
    )
    keys = tables.candidates.set_index(["question", "index"])["text_key"]
    made = as_picks(choices(read(less), found))
    for question, winner in winners.items():
        (index,) = made["policy-a", question, "rewarder-00"]
        assert keys[question, index] == winner


@pytest.mark.parametrize("rule", ["", "copeland"])
def test_picks_are_worth_the_headline_accuracy(tables, rule):
    """The mean over questions of what was picked, ties shared, is the accuracy that is shown."""
    found = analyse(tables, **FAST, rules=(rule,) if rule else ())
    made = choices(read(tables), found)
    picks = as_picks(made)
    correct = tables.candidates.set_index(["question", "index"])["correct"].astype(float)
    constant = tables.candidates.groupby("question")["correct"].mean()
    heads = [b for b in found.best_of_n if b.headline and b.rule != "baseline"]
    assert heads
    for b in heads:
        worth = [
            np.mean([correct[q, i] for i in picks["policy-a", q, b.rewarder]])
            if ("policy-a", q, b.rewarder) in picks
            else constant[q]
            for q in tables.questions["question"]
        ]
        assert b.accuracy.value == pytest.approx(np.mean(worth), abs=1e-9), b.rewarder
        own = made[made["rewarder"] == b.rewarder].set_index("question")["correct"]
        assert own[tables.questions["question"]].tolist() == pytest.approx(worth)


def test_identical_texts_are_one_response(tables):
    frame = tables.candidates.copy()
    twins = frame.groupby("question").head(2).groupby("question")
    for _, rows in twins:
        frame.loc[rows.index[1], ["text_key", "answer", "correct", "outcome"]] = frame.loc[
            rows.index[0], ["text_key", "answer", "correct", "outcome"]
        ].to_numpy()
    found = analyse(replace(tables, candidates=frame), **FAST)
    assert best(found, "rewarder-00", "round_robin").exact


def test_listwise_choices_are_replayed_at_full_size(tables):
    rows = []
    for question, group in tables.candidates.groupby("question"):
        chosen = group["text_key"].iloc[2]
        rows.append({"item": question, "first": chosen, "outcome": "chosen", "score": 2.0})
    frame = pd.DataFrame(rows).assign(
        rewarder="rewarder-05", item_kind="question", second=None, vote=0, num_tokens=1,
        seconds=0.1, cost=0.0,
    )  # fmt: skip
    others = tables.judgements.query("rewarder != 'rewarder-05'")
    kinds = tables.rewarders.assign(
        kind=tables.rewarders["kind"].where(
            tables.rewarders["rewarder"] != "rewarder-05", "listwise"
        )
    )
    found = analyse(replace(tables, judgements=pd.concat([others, frame]), rewarders=kinds), **FAST)
    third = tables.candidates.groupby("question").nth(2)["correct"].mean()
    b = best(found, "rewarder-05", "listwise")
    assert b.accuracy.value == pytest.approx(third)
    assert [p.n for p in b.curve] == [1, 5]


def test_ensembles_choose_together(tables):
    members = ("rewarder-00", "rewarder-01", "rewarder-03")
    found = analyse(tables, **FAST, ensembles={"three": members})
    together = best(found, "three", "best_score")
    assert together.accuracy.low > 0
    assert "three" not in {p.rewarder for c in found.correlations for p in c.points}
    assert any(b.rewarder == "three" for b in found.benchmarks)
    with pytest.raises(BonError, match="names 'nobody'"):
        analyse(tables, **FAST, ensembles={"x": ("nobody",)})


# ------------------------------------------------------------------ edges


def test_a_run_without_benchmark_or_rewarders_still_has_its_policies(tables):
    bare = replace(
        tables,
        pairs=tables.pairs.head(0),
        judgements=tables.judgements.head(0),
        rewarders=tables.rewarders.head(0),
    )
    found = analyse(bare, **FAST)
    assert found.finding.verdict == "cannot tell"
    assert found.policies[0].pass_at_1.value == pytest.approx(tables.candidates["correct"].mean())
    assert found.correlations == ()


def test_two_rewarders_cannot_tell(tables):
    two = tables.rewarders.head(2)
    judged = tables.judgements[tables.judgements["rewarder"].isin(two["rewarder"])]
    found = analyse(replace(tables, rewarders=two, judgements=judged), **FAST)
    assert found.finding.verdict == "cannot tell"
    assert found.correlations[0].pearson.estimate.value is None


def test_pools_of_unequal_size_leave_the_short_ones_out(tables):
    short = tables.candidates.drop(tables.candidates.index[[0, 7]])
    found = analyse(replace(tables, candidates=short), **FAST)
    assert found.policies[0].num_questions == 58
    assert any("2 questions with fewer than 5 candidates" in w for w in found.warnings)


def test_several_policies_share_their_draws():
    t = synthetic_tables(3, 40, 3, 60, policies=("a", "b"))
    found = analyse_tables(t, Options(draws=200))
    assert [p.policy for p in found.policies] == ["a", "b"]
    assert {c.policy for c in found.correlations} == {"a", "b"}


def test_a_headline_n_below_the_pool(tables):
    found = analyse(tables, **FAST, n=3)
    b = best(found, "rewarder-01", "best_score")
    assert b.accuracy.value == b.curve[2].accuracy.value
    with pytest.raises(BonError, match="n = 9 was requested"):
        analyse(tables, **FAST, n=9)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda t: replace(t, candidates=t.candidates.drop(columns="length")),
            "lacks column 'length'",
        ),
        (lambda t: replace(t, rewarders=pd.concat([t.rewarders, t.rewarders])), "twice"),
        (lambda t: replace(t, questions=t.questions.head(3)), "which table 'questions' lacks"),
        (
            lambda t: replace(t, judgements=t.judgements.assign(outcome="maybe")),
            "unknown outcome 'maybe'",
        ),
    ],
)
def test_bad_tables_give_one_clear_line(tables, change, says):
    with pytest.raises(BonError, match=says):
        analyse(change(tables), **FAST)


def test_one_candidate_a_question(tables):
    first = tables.candidates[tables.candidates["index"] == 0]
    found = analyse(replace(tables, candidates=first), **FAST)
    assert found.policies[0].oracle.value == pytest.approx(first["correct"].mean())
    assert found.finding.verdict == "cannot tell"


def test_a_greedy_first_candidate_stays_out_of_the_pool(tables):
    pooled = tables.candidates.assign(pooled=tables.candidates["index"] > 0)
    found = analyse(replace(tables, candidates=pooled), **FAST)
    policy = found.policies[0]
    rest = tables.candidates[tables.candidates["index"] > 0]
    assert policy.num_candidates == 4
    assert policy.pass_at_1.value == pytest.approx(rest["correct"].mean())
    first = tables.candidates[tables.candidates["index"] == 0]
    (chosen,) = (b for b in found.best_of_n if b.rewarder == "first" and b.policy == policy.policy)
    assert chosen.accuracy.value == pytest.approx(first["correct"].mean())


def test_unknown_rules_are_refused(tables):
    with pytest.raises(BonError, match=r"no selection rule 'best'.*best_score, listwise"):
        analyse(tables, **FAST, rules=("best",))
    found = analyse(tables, **FAST, rules=("knockout", "best_score"))
    assert {b.rule for b in found.best_of_n} == {"knockout", "best_score", "baseline"}


def test_an_unknown_axis_lists_the_known_ones(tables):
    with pytest.raises(BonError, match=r"no axis 'micro'.*macro, overall, group:general"):
        analyse(tables, **FAST, axis="micro")


@pytest.mark.parametrize("axis", ["macro", "overall"])
def test_axes_that_are_one_are_one_row(axis):
    tables = synthetic_tables(5, 40, 4, 60)
    tables.pairs["group"] = "all"
    found = analyse(tables, axis=axis, draws=100)
    assert {c.axis for c in found.correlations} == {axis}


def test_an_unknown_option_is_refused():
    with pytest.raises(ValidationError):
        Options(drawz=100)
