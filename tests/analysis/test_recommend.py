"""Which rewarder to use: the Pareto set by enumeration, means over tasks, budgets, no costs."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from synthetic import analyse, synthetic_tables
from typer.testing import CliRunner

from bon.analysis.decision.recommend import _mean, cross_fitted, over_folds, recommend
from bon.analysis.finding.first_page import first_page
from bon.analysis.finding.verdict import reversed_scores
from bon.analysis.report.leaderboard import board
from bon.analysis.results import Estimate
from bon.analysis.results.phrasing import gained
from bon.commands.decide_text import recommendation_text as summary
from bon.commands.main import app
from bon.core.errors import BonError
from bon.running.reporting import leaderboards
from tools.validity.picked import VOTE, study


def made(seed: int, policies=("a",), rewarders: int = 6, costs: bool = True):
    tables = synthetic_tables(
        num_rewarders=rewarders, num_questions=60, num_pairs=40, policies=policies, seed=seed
    )
    rename = {"question": lambda t: seed * "other " + t["question"]}
    tables = replace(
        tables,
        questions=tables.questions.assign(**rename),
        candidates=tables.candidates.assign(**rename),
        judgements=tables.judgements.assign(item=lambda t: seed * "other " + t["item"]),
        pairs=tables.pairs.assign(pair=lambda t: seed * "other " + t["pair"]),
    )
    if not costs:
        tables.judgements[["cost", "seconds"]] = np.nan
    return analyse(tables, draws=100)


@pytest.fixture(scope="module")
def runs():
    return [("first", made(0, ("a", "b"))), ("second", made(1))]


def test_gains_are_means_over_tasks(runs):
    found = recommend(runs)
    assert found.tasks == ("first: a", "first: b", "second: a")
    for r in found.rewarders:
        mine = [
            (run, b.gain)
            for run, results in runs
            for b in results.best_of_n
            if b.rewarder == r.rewarder and b.headline
        ]
        assert r.gain.value == pytest.approx(np.mean([g.value for _, g in mine]))
        halves = {}
        for run, g in mine:
            halves[run] = halves.get(run, 0) + (g.high - g.low) / 2
        half = np.sqrt(sum(h**2 for h in halves.values())) / 3
        assert (r.gain.high - r.gain.low) / 2 == pytest.approx(half)
    gains = [r.gain.value for r in found.rewarders]
    assert gains == sorted(gains, reverse=True)
    assert found.pick == found.rewarders[0].rewarder


def test_one_task_has_the_intervals_of_its_leaderboard(runs):
    results = runs[1][1]
    shown = {b.rewarder: b for b in results.best_of_n if b.headline}
    for row in recommend(runs[1:]).rewarders:
        assert row.gain == shown[row.rewarder].gain


def test_costs_are_of_the_candidates_of_one_question(runs):
    found = recommend(runs[1:])
    assert found.unit == "dollars"
    (results,) = (r for _, r in runs[1:])
    mixed = sum(results.policies[0].correct_per_question[1:-1])
    for r in found.rewarders:
        calls = next(j for j in results.judging if j.rewarder == r.rewarder)
        assert r.cost == pytest.approx(0.0001 * calls.calls_candidates / mixed)
    by_calls = recommend(runs[1:], unit="calls")
    assert by_calls.rewarders[0].cost == pytest.approx(found.rewarders[0].cost / 0.0001)


def test_a_budget_and_what_is_beyond_it(runs):
    free = recommend(runs, unit="calls")
    dearest = max(r.cost for r in free.rewarders)
    cheap = [r for r in free.rewarders if r.cost < dearest]
    found = recommend(runs, budget=max(r.cost for r in cheap), unit="calls")
    assert found.pick == cheap[0].rewarder
    assert {r.rewarder for r in found.rewarders if not r.affordable} == {
        r.rewarder for r in free.rewarders if r.cost == dearest
    }
    none = recommend(runs, budget=0.5, unit="calls")
    assert none.pick is None
    assert "No rewarder judges for at most 0.5 calls per question" in none.sentence


def test_a_cheaper_rewarder_that_may_be_as_good_is_marked(runs, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    found = recommend(runs, unit="calls")
    picked = next(r for r in found.rewarders if r.rewarder == found.pick)
    close, *others = [r for r in found.rewarders if r is not picked]
    cheap = close.model_copy(update={"first": 1, "last": 2, "cost": picked.cost / 2})
    dear = [r.model_copy(update={"first": 1, "cost": 2 * picked.cost}) for r in others]
    text = summary(found.model_copy(update={"rewarders": (picked, cheap, *dear)}))
    (line,) = [line for line in text.splitlines() if "may be as good, for less" in line]
    assert cheap.rewarder in line


def test_without_costs_it_counts_calls_and_says_so():
    run = made(2, costs=False)
    found = recommend([("r", run)])
    assert found.unit == "calls"
    assert any("judge calls per question stand in" in w for w in found.warnings)
    with pytest.raises(BonError, match="no dollars of"):
        recommend([("r", run)], unit="dollars")
    with pytest.raises(BonError, match="no rewarder chose in all"):
        recommend([("r", run.model_copy(update={"best_of_n": tuple(
            b for b in run.best_of_n if b.rule == "baseline")}))])  # fmt: skip


def test_what_was_picked_is_measured_on_the_other_half(runs):
    """By hand: what is best for both policies on one half of the folds, on the other half."""
    results = runs[0][1]
    found = recommend(runs[:1])
    task = {
        (b.policy, b.rewarder): np.array(b.right_by_fold) for b in results.best_of_n if b.headline
    }
    sizes = np.array([p.questions_by_fold for p in results.policies], dtype=float)
    assert sizes.sum(axis=1).tolist() == [60, 60]
    names = [r.rewarder for r in found.rewarders]
    rng, right, folds = np.random.default_rng(9), [], sizes.shape[1]
    for _ in range(3000):
        half = rng.permutation(folds)[: folds // 2]
        rest = np.setdiff1d(np.arange(folds), half)
        score = {
            n: sum(
                task[p, n][rest].sum() / size[rest].sum()
                for p, size in zip("ab", sizes, strict=True)
            )
            for n in names
        }
        best = [n for n in names if score[n] >= max(score.values()) - 1e-5]
        right.append(
            np.mean([task[p, n][half].sum() / sizes[0][half].sum() for p in "ab" for n in best])
        )
    sums = np.array([[task[p, n] for n in names] for p in "ab"])
    assert cross_fitted(sums, sizes) == pytest.approx(np.mean(right), abs=0.005)
    measured = np.mean([task[p, found.pick].sum() / 60 for p in "ab"])
    assert found.picked.value <= measured + 1e-6
    free = np.mean([task[p, "majority"].sum() / 60 for p in "ab"])
    assert found.over_free.value == pytest.approx(found.picked.value - free, abs=1e-5)
    own = _mean([(0, task.versus_majority) for task in results.best_of_n
                 if task.headline and task.rewarder == found.pick], 1.959964)  # fmt: skip
    assert found.over_free.low < own.low
    page = first_page(results)
    (row,) = [r for r in board(results, found).rows if r.name == found.pick]
    first = row.bars[0].estimate
    assert page.choice == f"Take {found.pick}: {gained(first)} over majority vote."
    assert first.value == pytest.approx(measured - free, abs=1e-5)
    assert page.because.startswith("Mean of a and b, ")
    assert f"; {gained(found.over_free)} corrected for picking" in page.because


def test_errors_over_tasks_are_those_of_their_shared_questions():
    """Two tasks alike have the error of one, opposite ones none."""
    rng = np.random.default_rng(0)
    sums, sizes = rng.integers(0, 4, (1, 50)).astype(float), np.full((1, 50), 4.0)
    e = Estimate(value=0.5, low=0.4, high=0.6, n=200)
    one = sums[0] / 4
    half = 2.0096 * one.std(ddof=1) / np.sqrt(50)
    alike = over_folds([e, e], np.concatenate([sums, sums]), np.repeat(sizes, 2, axis=0), 0.95)
    assert alike.high - alike.value == pytest.approx(half, rel=1e-3)
    turned = over_folds([e, e], np.concatenate([sums, 4 - sums]), np.repeat(sizes, 2, axis=0), 0.95)
    assert (turned.value, turned.high) == pytest.approx((0.5, 0.5))
    assert over_folds([e], sums, sizes, 0.95) == e


def guessing(seed: int):
    """A reward model that knows nothing of candidates: their scores are drawn at random."""
    tables = synthetic_tables(3, 80, 6, 60, seed=seed)
    heads = tables.rewarders[tables.rewarders["kind"] == "scalar"]
    judged = tables.judgements[tables.judgements["rewarder"].isin(heads["rewarder"])]
    noise = np.random.default_rng(seed).normal(size=len(judged))
    judged = judged.assign(score=judged["score"].where(judged["item_kind"] == "pair", noise))
    meta = {**tables.meta, "handicaps": {}}
    return replace(tables, rewarders=heads, judgements=judged, meta=meta)


def test_an_untrained_reward_model_is_not_taken():
    """Where it beats majority vote as measured, too."""
    for seed in range(5):
        results = analyse(guessing(seed), draws=100)
        found, page = recommend([("r", results)]), first_page(results)
        assert found.pick is None
        assert page.choice.startswith(f"Nothing beats {found.free} here: ")
        sign = "gains +" if found.over_free.value >= 0 else "differs by −"
        assert page.because.startswith(f"rewarder-02 {sign}")
        assert "best of 1" not in page.because
        assert "all others" not in page.because


def test_the_luckiest_of_many_is_hardly_ever_taken():
    """By its own interval a fifth of the time; tools/validity prints other studies."""
    rng = np.random.default_rng(0)
    rows = [study(rng, 60, np.full(14, VOTE)) for _ in range(400)]
    _, own, taken, _, covers, _ = np.mean(rows, axis=0)
    assert own > 0.12
    assert taken < 0.05  # a standard error is .008
    assert covers > 0.94


def test_five_questions_are_given_with_intervals_or_not_at_all():
    tables = synthetic_tables(3, 5, 4, 30, seed=4)
    results = analyse(tables, draws=100)
    found, page = recommend([("r", results)]), first_page(results)
    for text in (found.sentence, page.choice, page.because, summary(found)):
        for number in re.finditer(r"[+−]\d+\.\d points|\d+\.\d% right", text):
            assert text[number.end() :].startswith(" ["), text


def test_a_reversed_reward_model_is_named():
    tables = guessing(1)
    pairs = tables.judgements["item_kind"] == "pair"
    turned = tables.judgements.assign(
        score=tables.judgements["score"].where(~pairs, -tables.judgements["score"])
    )
    straight, turned = (analyse(t, draws=100) for t in (tables, replace(tables, judgements=turned)))
    assert not reversed_scores(straight.benchmarks)
    (line,) = reversed_scores(turned.benchmarks)
    assert re.fullmatch(
        r"rewarder-02 is right on \d+% \[\d+, \d+\] of the pairs of synthetic-rewardbench, "
        r"less than chance: it is probably reversed\.",
        line,
    )
    assert line in turned.warnings
    assert first_page(turned).caveat == line
    assert leaderboards(turned)[-1] == line


def test_the_command_its_figure_and_its_refusals(runs, tmp_path):
    for name, results in runs:
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(results.model_dump_json())
    names = [str(tmp_path / name) for name, _ in runs]
    said = CliRunner().invoke(app, ["recommend", *names, "--out", str(tmp_path / "out")])
    assert said.exit_code == 0
    found = recommend(runs)
    text, path = said.output.strip().rsplit("\n", 1)
    assert text == summary(found).strip()
    assert text.splitlines()[-1].startswith(f"Take {found.pick}: it gains +")
    assert path == str(tmp_path / "out")
    plain = CliRunner().invoke(app, ["recommend", *names])
    assert plain.output.strip().splitlines()[-1] == str(tmp_path / runs[0][0] / "report.html")
    assert (tmp_path / "out" / "recommendation.json").is_file()
    again = CliRunner().invoke(app, ["recommend", *names, "--json"])
    assert json.loads(again.output)["pick"] == found.pick
    odd = CliRunner().invoke(app, ["recommend", *names, "--cost", "euros"], standalone_mode=False)
    assert "'euros' is not one of 'dollars', 'seconds', 'calls'" in str(odd.exception)


def test_runs_that_share_questions_err_alike_and_copies_are_refused(runs, tmp_path):
    for name in ("run", "copy"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(runs[0][1].model_dump_json())
    result = CliRunner().invoke(app, ["recommend", str(tmp_path / "run"), str(tmp_path / "copy")])
    assert "run (a) and copy (a) have the same candidates on 100%" in str(result.exception)
    # Other candidates of the same questions: no narrower than one run of two tasks.
    tables = synthetic_tables(6, 60, num_pairs=40, policies=("c",), seed=1)
    other = analyse(tables, draws=100)
    one, two = runs[0][1], runs[1][1]
    width = {}
    for label, second in (("same", other), ("new", two)):
        gain = recommend([("one", one), ("two", second)], unit="calls").rewarders[0].gain
        width[label] = gain.high - gain.low
    assert width["same"] > 1.15 * width["new"]
