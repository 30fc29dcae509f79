"""`bon calibrate`: numbers against hand counts, brute force, scikit-learn, and simulated truth."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from bon.analysis.calibration.calibrate import agreement_of, calibrate, metrics, requirements
from bon.analysis.calibration.labelled import COLUMNS, Labelled, by_rewarder, youden
from bon.analysis.calibration.roc import auc
from bon.analysis.calibration.verdict_accuracy import (
    lean,
    length_bias,
    self_consistency,
    verdict_accuracy,
)
from bon.analysis.decision.gate import against
from bon.analysis.estimators.resampling import clopper_pearson
from bon.analysis.results import Estimate, Options
from bon.commands.main import main
from bon.core.errors import BonError
from tools.validity.calibration_coverage import rare, rare_truth

OPTIONS = Options(draws=400)


def frame(**columns: object) -> pd.DataFrame:
    """Votes with defaults for what is not given."""
    size = len(next(iter(columns.values())))  # type: ignore[arg-type]
    items = [f"i{k:05}" for k in range(size)]
    defaults = {
        "rewarder": "judge",
        "kind": "answers",
        "item": items,
        "cluster": columns.get("item", items),
        "category": "",
        "vote": 0,
    }
    table = pd.DataFrame({**defaults, **columns})
    return table.reindex(columns=list(COLUMNS))


def votes(**columns: object) -> Labelled:
    return next(by_rewarder(frame(**columns)))


def simulated(seed: int, items: int, labelled: int, size: int = 1) -> tuple[pd.DataFrame, float]:
    """Items in clusters with a P(yes) that is off by a shift, and the true share of right ones."""
    rng = np.random.default_rng(seed)
    clusters = items // size
    ability = np.repeat(rng.normal(size=clusters), size)
    truth = special.expit(1.2 * ability + rng.normal(scale=0.5, size=items) - 0.3)
    label = (rng.random(items) < truth).astype(float)
    score = special.expit(special.logit(truth) * 0.8 + rng.normal(scale=1.0, size=items) + 0.7)
    known = np.zeros(items, dtype=bool)
    known[rng.choice(items, labelled, replace=False)] = True
    cluster = np.repeat(np.arange(clusters), size).astype(str)
    table = frame(label=np.where(known, label, np.nan), score=score, cluster=cluster)
    return table, float(label.mean())


def test_rates_are_those_counted_by_hand():
    label = [1] * 40 + [0] * 60
    verdict = [1] * 30 + [0] * 10 + [1] * 15 + [0] * 45
    (row,) = calibrate(frame(label=label, verdict=verdict), OPTIONS, labels="x").rewarders
    overall = row.overall
    assert overall.tpr.value == pytest.approx(30 / 40)
    assert overall.tnr.value == pytest.approx(45 / 60)
    assert overall.precision.value == pytest.approx(30 / 45)
    assert overall.npv.value == pytest.approx(45 / 55)
    assert overall.accuracy.value == pytest.approx(0.75)
    chance = 0.4 * 0.45 + 0.6 * 0.55
    assert overall.kappa.value == pytest.approx((0.75 - chance) / (1 - chance))
    assert row.lean.value == pytest.approx(0.45 - 0.40)
    assert overall.kappa.low is not None
    assert overall.kappa.low < 0.49 < overall.kappa.high


def test_an_item_counts_once_whatever_its_votes():
    one = frame(label=[1, 0, 0], verdict=[1, 0, 1])
    many = frame(item=["a"] * 4 + ["b", "c"], label=[1, 1, 1, 1, 0, 0], verdict=[1, 1, 1, 1, 0, 1])
    first, second = (calibrate(t, OPTIONS, labels="x").rewarders[0].overall for t in (one, many))
    assert first.accuracy.value == second.accuracy.value == pytest.approx(2 / 3)
    assert second.num_items == 3


def test_unparsed_verdicts_are_wrong_and_counted():
    (row,) = calibrate(
        frame(label=[1, 1, 0, 0], verdict=[1, np.nan, 0, np.nan]), OPTIONS, labels="x"
    ).rewarders
    assert row.overall.accuracy.value == 0.5


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=4, max_size=40))
def test_area_equals_its_definition(rows: list[tuple[int, bool]]):
    score = np.array([float(s) for s, _ in rows])
    label = np.array([float(y) for _, y in rows])
    area = auc(votes(label=label, score=score), 0.95)
    if 0 < label.sum() < len(label):
        gap = np.sign(score[label == 1][:, None] - score[label == 0][None, :])
        assert area.value == pytest.approx((1 + gap).mean() / 2)
    else:
        assert area.value is None


def test_intervals_cover_the_truth_in_500_draws():
    """Items in clusters of four whose verdicts err together; the truth is that of 200,000 items."""

    def drawn(seed: int, clusters: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        ability = np.repeat(rng.normal(size=clusters), 4)
        label = (rng.random(4 * clusters) < special.expit(ability)).astype(float)
        right = rng.random(4 * clusters) < special.expit(1.2 + 0.8 * ability)
        verdict = np.where(right, label, 1 - label)
        cluster = np.repeat(np.arange(clusters), 4).astype(str)
        return frame(label=label, verdict=verdict, cluster=cluster)

    def measured(table: pd.DataFrame, draws: int) -> dict[str, Estimate]:
        v = next(by_rewarder(table))
        resampled = v.draws(0, draws)
        found = verdict_accuracy(v, v.known, resampled, 0.95)
        names = ("accuracy", "tpr", "tnr", "precision", "npv", "kappa")
        return {name: getattr(found, name) for name in names} | {"lean": lean(v, resampled, 0.95)}

    truth = {name: e.value for name, e in measured(drawn(10**6, 50_000), 2).items()}
    covered = dict.fromkeys(truth, 0)
    for seed in range(500):
        for name, e in measured(drawn(seed, 60), 200).items():
            covered[name] += e.low <= truth[name] <= e.high
    # 500 draws of .95 have a standard error of .01; bootstraps of 60 clusters fall a little short.
    assert all(0.915 <= count / 500 <= 0.985 for count in covered.values()), covered


def of_counts(right: int, tp: int, wrong: int, tn: int) -> pd.DataFrame:
    """Items that a judge calls right: tp of the right ones, all but tn of the wrong ones."""
    verdict = [1] * tp + [0] * (right - tp) + [0] * tn + [1] * (wrong - tn)
    return frame(label=[1] * right + [0] * wrong, verdict=verdict)


def test_each_rate_has_the_items_of_its_own_label_or_verdict():
    """All 5 wrong items of 100 were caught: TNR had the interval of 100 items."""
    result = calibrate(of_counts(95, 92, 5, 5), OPTIONS, labels="x")
    overall = result.rewarders[0].overall
    assert [e.n for e in (overall.tpr, overall.tnr, overall.precision, overall.npv)] == [
        95,
        5,
        92,
        8,
    ]
    assert overall.tnr.low == pytest.approx(0.025 ** (1 / 5))  # Clopper and Pearson's for 5 of 5
    assert requirements(result, metrics(["tnr=.9"]))[0].answer == "inconclusive"


def tnr_of(wrong: int) -> list[Estimate]:
    """TNR where a judge catches 0, 1, … of so many wrong items."""
    counts = (next(by_rewarder(of_counts(5, 5, wrong, k))) for k in range(wrong + 1))
    return [verdict_accuracy(v, v.known, v.draws(0, 2), 0.95).tnr for v in counts]


@pytest.mark.parametrize("wrong", [3, 6, 10, 20, 40])
def test_the_interval_of_a_rate_covers_it_and_rarely_says_go_below_it(wrong: int):
    """By enumeration: the chance of each number of wrong items that are caught."""
    found = tnr_of(wrong)
    for rate in (0.5, 0.8, 0.9, 0.95, 0.99):
        chances = stats.binom.pmf(np.arange(wrong + 1), wrong, rate)
        assert chances @ [e.low <= rate <= e.high for e in found] >= 0.95
        assert chances @ [against(e, rate + 1e-9) == "go" for e in found] <= 0.025


def test_clusters_that_err_together_widen_a_rate():
    verdict = np.repeat(np.array([1, 1, 1, 0] * 5), 6)
    names = np.repeat(np.arange(20), 6).astype(str)
    alone, together = (
        calibrate(frame(label=np.ones(120), verdict=verdict, **extra), OPTIONS, labels="x")
        .rewarders[0]
        .overall.tpr
        for extra in ({}, {"cluster": names})
    )
    assert alone.n == together.n == 120
    exact = clopper_pearson(15, 20, 0.95)
    assert together.low <= exact[0] < alone.low
    assert together.high >= exact[1] > alone.high


def test_intervals_cover_where_one_label_is_rare():
    """Kappa, AUC and the prediction-powered share; tools/validity prints the whole table."""
    truth = rare_truth(0.95)
    hits: dict[str, list[bool]] = {}
    for seed in range(200):
        for name, e in rare(seed, 100, 0.95, 200).items():
            if e.low is not None:
                hits.setdefault(name, []).append(e.low <= truth[name] <= e.high)
    covered = {name: np.mean(each) for name, each in hits.items()}
    assert min(covered.values()) >= 0.91, covered  # 200 draws of .95 have a standard error of .015


def test_a_threshold_without_a_scale_uses_other_items():
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 400)
    noise = votes(label=label, score=rng.normal(size=400) * 100)
    row = calibrate(noise.frame, OPTIONS, labels="x").rewarders[0]
    assert row.cross_fitted
    assert row.overall.kappa.low < 0 < row.overall.kappa.high  # in-sample it would be above 0
    assert youden(np.array([0.0, 1.0]), np.array([3.0, 5.0]), np.ones(2)) == 5.0


def test_biases_that_were_planted_are_found():
    rng = np.random.default_rng(2)
    n = 2000
    label, length = rng.integers(0, 2, n).astype(float), rng.uniform(1, 100, n)
    says = np.where(rng.random(n) < 0.3, (length > 50).astype(float), label)
    planted = votes(label=label, verdict=says, length=length)
    draws = planted.draws(0, 400)
    assert length_bias(planted, draws, 0.95).low > 0.2
    assert abs(lean(planted, draws, 0.95).value) < 0.05
    eager = votes(label=label, verdict=np.maximum(label, rng.random(n) < 0.4), length=length)
    assert lean(eager, draws, 0.95).low > 0.1
    assert length_bias(eager, draws, 0.95).low < 0.05


def test_self_consistency_is_the_share_of_equal_pairs_of_votes():
    v = votes(item=["a"] * 3 + ["b"] * 2 + ["c"], label=[1] * 6, verdict=[1, 1, 0, 0, 0, 1])
    assert self_consistency(v, 0.95).value == pytest.approx((1 + 1) / (3 + 1))


def test_labels_drawn_with_unequal_probabilities_give_an_unbiased_estimate():
    off = []
    for seed in range(100):
        full, truth = simulated(seed, 500, 500)
        chance = np.where(full["score"] > 0.6, 0.4, 0.1)
        drawn = np.random.default_rng(seed).random(500) < chance
        table = full.assign(label=full["label"].where(drawn), probability=chance)
        (row,) = calibrate(table, Options(draws=100), labels="x").rewarders
        off.append(row.overall.base_rate.value - truth)
    assert abs(np.mean(off)) < 3 * np.std(off) / 10


def test_labels_of_several_people_become_a_consensus():
    rows = [
        (i, a, y) for i, ys in enumerate([(1, 1, 0), (0, 0, 0), (1, 0)]) for a, y in enumerate(ys)
    ]
    table = pd.DataFrame(rows, columns=["item", "annotator", "label"])
    consensus, people = agreement_of(table, OPTIONS)
    assert consensus.to_list()[:2] == [1, 0]
    assert np.isnan(consensus.to_list()[2])
    assert people is not None
    assert people.num_annotators == 3
    assert people.agreement.value == pytest.approx((1 + 3 + 0) / (3 + 3 + 1))


def test_requirements_are_decided_by_the_interval():
    good = frame(label=[1] * 200 + [0] * 200, verdict=[1] * 190 + [0] * 10 + [0] * 190 + [1] * 10)
    result = calibrate(good, OPTIONS, labels="x")
    answers = [
        requirements(result, metrics([text]))[0].answer for text in ("tpr=.9", "tpr=.95", "tpr=.99")
    ]
    assert answers == ["go", "inconclusive", "no-go"]
    with pytest.raises(BonError, match="no minimum"):
        metrics(["sensitivity=.9"])


# ------------------------------------------------------------------ the command


def run(*arguments: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.argv", ["bon", "calibrate", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0, capsys.readouterr()


def written(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_labels_weigh_by_the_probability_that_they_were_drawn_with(tmp_path, capsys, monkeypatch):
    judge = written(tmp_path / "j.jsonl", [{"item": f"q{k}", "verdict": k % 2} for k in range(20)])
    rows = [{"item": f"q{k}", "label": int(k < 6), "probability": 0.1 + k / 50} for k in range(12)]
    labels = written(tmp_path / "labels.jsonl", rows)
    code, shown = run(judge, "--labels", labels, "--json", capsys=capsys, monkeypatch=monkeypatch)
    (found,) = json.loads(shown.out)["rewarders"]
    weight = np.array([1 / row["probability"] for row in rows])
    hits = [k % 2 == (k < 6) for k in range(12)]
    assert (code, found["overall"]["num_items"]) == (0, 12)
    assert found["overall"]["accuracy"]["value"] == pytest.approx(np.average(hits, weights=weight))


def test_a_table_is_measured_and_gated(tmp_path, capsys, monkeypatch):
    rows = [
        {"id": f"q{i}", "judge_says": "pass" if i % 10 else "fail", "score": i / 100}
        for i in range(100)
    ]
    labels = [{"item": f"q{i}", "label": "right", "annotator": "ann"} for i in range(0, 100, 2)]
    labels += [{"item": f"q{i}", "label": "wrong", "annotator": "ann"} for i in range(1, 40, 2)]
    source, file = written(tmp_path / "judge.jsonl", rows), written(tmp_path / "l.jsonl", labels)
    arguments = (
        source,
        "--labels",
        file,
        "--columns",
        "item=id",
        "--columns",
        "verdict=judge_says",
    )
    code, out = run(*arguments, "--out", tmp_path / "out", capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0
    assert "judge" in out.out
    assert (tmp_path / "out" / "calibration.json").is_file()
    code, out = run(*arguments, "--min", "tnr=.9", capsys=capsys, monkeypatch=monkeypatch)
    assert (code, "no-go: judge tnr" in out.out) == (4, True)


@pytest.mark.parametrize(
    ("labels", "line"),
    [
        ([{"item": "q0", "label": 1, "annotator": "Judge"}], "labelled the items that it judges"),
        ([{"item": "other", "label": 1}], "no labelled item was judged"),
        ([{"item": "q0", "label": "maybe"}], "neither right nor wrong"),
        ([{"id": "q0", "label": 1}], "no column 'item'"),
    ],
)
def test_labels_that_measure_nothing_are_one_line(tmp_path, capsys, monkeypatch, labels, line):
    rows = [{"item": f"q{i}", "verdict": i % 2} for i in range(4)]
    source, file = written(tmp_path / "judge.jsonl", rows), written(tmp_path / "l.jsonl", labels)
    code, out = run(source, "--labels", file, capsys=capsys, monkeypatch=monkeypatch)
    assert code == 2
    assert line in out.err
    assert out.err.count("\n") <= 2


def test_an_item_whose_rows_are_labelled_both_ways_is_left_out(tmp_path, capsys, monkeypatch):
    rows = [{"item": f"q{i}", "verdict": i % 2, "label": i % 2} for i in range(12)]
    source = written(tmp_path / "judge.jsonl", [*rows, {"item": "q0", "verdict": 1, "label": 1}])
    _, out = run(source, "--json", capsys=capsys, monkeypatch=monkeypatch)
    assert [row["overall"]["num_items"] for row in json.loads(out.out)["rewarders"]] == [11]
    written(tmp_path / "judge.jsonl", [{**row, "label": 2} for row in rows])
    _, out = run(source, capsys=capsys, monkeypatch=monkeypatch)
    assert "label 2 is neither right nor wrong" in out.err
