"""Scores and verdicts without texts, through the command line to the report."""

import csv
import json
import random
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from typer.testing import CliRunner

import bon
from bon.analysis.calibration.calibrate import calibrate
from bon.analysis.results import Options, Results
from bon.analysis.run import analyse
from bon.commands.main import app
from bon.core.base_models import guessed_base
from bon.core.errors import BonError
from bon.formats.score_tables import JudgementRecord
from bon.importing.import_files import import_files
from bon.rewarders.stepwise import AGGREGATES, aggregate_steps
from bon.running.labelled_votes import votes_of
from bon.running.reporting import open_run, report_run
from bon.storage.store import Store
from bon.work.imported_cards import rewarder_cards
from bon.work.run_tables import run_tables
from bon.work.setup import options

REAL = Path(__file__).parents[2] / "shared" / "data" / "rewardmath"
QUICK = ["analysis.bootstrap=100"]

QUESTIONS = [
    {
        "id": f"q{i}",
        "question": f"How much is {i} + {i}?",
        "candidates": [{"correct": j == i % 3} for j in range(3)],
    }
    for i in range(6)
]
PAIRS = [{"id": f"p{i}", "question": f"How much is {i + 3} + {i + 3}?"} for i in range(6)]


def score(rewarder: str, i: int, right: bool) -> float | list[float]:
    """`good` is right three times out of four, `bad` half the time, `steps` by its product."""
    if rewarder == "steps":
        return [0.9, 0.5] if right else [0.8, 0.6, 0.9]
    period = {"good": 4, "bad": 2}[rewarder]
    return float(right) if i % period else float(not right)


SCORES = [
    {
        "rewarder": name,
        "question": q["id"],
        "scores": [score(name, i, one["correct"]) for one in q["candidates"]],
    }
    for name in ("good", "bad", "steps")
    for i, q in enumerate(QUESTIONS)
]
PAIR_SCORES = [
    {
        "rewarder": name,
        "pair": pair["id"],
        "chosen": score(name, i, True),
        "rejected": score(name, i, False),
    }
    for name in ("good", "bad", "steps")
    for i, pair in enumerate(PAIRS)
]
TABLES = {
    "questions": QUESTIONS,
    "scores": SCORES,
    "pairs": PAIRS,
    "pair_scores": PAIR_SCORES,
}


def write(folder: Path, name: str, rows: list[dict]) -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def files(folder: Path, **changed: list[dict]) -> list[Path]:
    return [write(folder, name, rows) for name, rows in {**TABLES, **changed}.items() if rows]


def numbers(directory: Path, *settings: str) -> dict[str, tuple[float, float]]:
    """Rewarder -> accuracy on the pairs, accuracy of what it chooses among all candidates."""
    results = analysed(directory, *settings)
    y = {b.rewarder: b.accuracy.value for b in results.best_of_n if b.headline}
    return {b.rewarder: (b.overall.value, y[b.rewarder]) for b in results.benchmarks}


def analysed(directory: Path, *settings: str) -> Results:
    """The results of a run as a report has them, without drawing it."""
    with Store(directory, readonly=True) as store:
        setup = open_run(store, [*QUICK, *settings])
        return analyse(run_tables(setup, store), options(setup))


def same(one: dict[str, tuple[float, float]], other: dict[str, tuple[float, float]]) -> bool:
    """Whether all rewarders have the same numbers, in whatever order."""
    return one.keys() == other.keys() and all(one[k] == pytest.approx(other[k]) for k in one)


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    import_files(files(folder), "p", folder / "run", quiet=True)
    return folder / "run"


def test_scores_are_enough_for_both_axes(small):
    found = numbers(small)
    assert found["good"] == pytest.approx((4 / 6, 4 / 6))
    assert found["bad"] == pytest.approx((3 / 6, 3 / 6))
    assert found["steps"] == pytest.approx((1.0, 1.0))  # .45 against .432, as a product


def test_a_benchmark_needs_no_responses(tmp_path):
    paths = [write(tmp_path, name, TABLES[name]) for name in ("pairs", "pair_scores")]
    ran = CliRunner().invoke(app, ["import", *map(str, paths), "--out", str(tmp_path / "run")])
    assert ran.exit_code == 0, ran.output
    assert "6 pairs, 3 rewarders" in ran.output
    assert "steps scores highest on imported pairs: 100.0%" in ran.output
    results = bon.load(tmp_path / "run").results
    ranks = {r.rewarder: (r.benchmark, r.first, r.last) for r in results.ranks}
    named = "imported pairs"
    assert ranks == {"good": (named, 1, 3), "bad": (named, 2, 3), "steps": (named, 1, 2)}
    assert [c.p_adjusted for c in results.comparisons if c.benchmark == named]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Differences of all pairs of rewarders on imported pairs" in page
    assert "best of 0" not in page


def test_a_model_without_a_single_number_does_not_score_highest(tmp_path):
    rows = [
        {"rewarder": name, "pair": f"p{i}", "chosen": chosen, "rejected": 0.0}
        for name, score in (("broken", "NaN"), ("weak", 0.1))
        for i, chosen in enumerate([score, score, score, "NaN" if name == "broken" else -1.0])
    ]
    path = write(tmp_path, "pair_scores", rows)
    ran = CliRunner().invoke(app, ["import", str(path), "--out", str(tmp_path / "run")])
    assert ran.exit_code == 0, ran.output
    assert "weak scores highest on imported pairs: 75.0%" in ran.output
    assert "broken scores highest" not in ran.output
    bench = {b.rewarder: b.macro.value for b in bon.load(tmp_path / "run").results.benchmarks}
    assert bench["broken"] in (None, 0.0)


def test_pairs_as_mm_rlhf_publishes_them(tmp_path):
    """170 rows about 46 prompts: an id occurs once per pair, and videos are left out."""
    row = {"id": "7", "image": "mcq/a.png", "prompt": "p", "chosen": "yes", "rejected": "no"}
    rows = [
        row,
        row | {"rejected": "nothing"},
        row | {"id": "9", "image": "safety/b.png", "chosen": "certainly"},
        {key: row[key] for key in row if key != "image"} | {"id": "8", "video": "video/a.mp4"},
    ]
    scores = [
        {"rewarder": "a", "pair": pair, "chosen": chosen, "rejected": 0.5}
        for pair, chosen in (("7", 1.0), ("7#2", 0.0), ("9", 1.0))
    ]
    paths = [write(tmp_path, "mm_reward_bench", rows), write(tmp_path, "scores", scores)]
    import_files(paths, "", tmp_path / "run", benchmark="mm_rlhf", quiet=True)
    results = analysed(tmp_path / "run")
    (judge,) = (b for b in results.benchmarks if b.rewarder == "a")
    assert {g.name: g.accuracy.value for g in judge.groups} == {"mcq": 0.5, "safety": 1.0}
    assert judge.acc_plus.value == 0.5


@pytest.mark.parametrize(
    ("name", "right"), [("min", False), ("last", False), ("mean", False), ("product", True)]
)
def test_process_scores_are_read_anew_from_what_is_stored(small, name, right):
    assert numbers(small, f"analysis.aggregate={name}")["steps"] == (float(right), float(right))
    assert analysed(small, f"analysis.aggregate={name}").options.aggregate == name


def test_a_report_changes_only_how_is_counted(small):
    with pytest.raises(BonError, match="can change the analysis only"):
        report_run(small, quiet=True, settings=["seed=3"])
    with pytest.raises(BonError, match="aggregate"):
        report_run(small, quiet=True, settings=["analysis.aggregate=median"])


def test_what_is_in_both_sets_is_said_with_what_it_means(small):
    report_run(small, quiet=True, settings=[*QUICK, "analysis.aggregate=last"])
    results = bon.load(small).results
    assert results.options.aggregate == "last"
    assert results.leaks.num_questions == 3
    assert any("3 of 6 questions are also in" in said for said in results.finding.caveats)
    assert any("majority vote is a random choice" in said for said in results.warnings)


def test_a_vote_over_candidates_of_which_only_the_grade_is_known_is_a_random_choice(tmp_path):
    """Several are right: those that say the same would win every vote."""
    grades = [[True, True, False, False], [True, False, False, False], [False] * 4]
    rows = [
        {"id": f"q{i}", "question": f"{i}?", "candidates": [{"correct": one} for one in grades[i]]}
        for i in range(3)
    ]
    (tmp_path / "right.jsonl").write_text("\n".join(map(json.dumps, rows)))
    import_files([tmp_path / "right.jsonl"], "p", tmp_path / "run", quiet=True)
    (policy,) = bon.load(tmp_path / "run").analyse(draws=100).policies
    assert policy.majority.value == policy.pass_at_1.value == pytest.approx(3 / 12)
    assert policy.oracle.value == pytest.approx(2 / 3)


@pytest.mark.parametrize("place", range(3))
def test_a_tie_is_paid_by_share_wherever_the_right_answer_stands(tmp_path, place):
    """A rewarder that always says the same is right as often as chance is."""
    right = [{"correct": at == place} for at in range(3)]
    paths = files(
        tmp_path,
        questions=[{**q, "candidates": right} for q in QUESTIONS],
        scores=[{**row, "scores": [1.0] * 3} for row in SCORES],
    )
    import_files(paths, "p", tmp_path / "run", quiet=True)
    assert numbers(tmp_path / "run")["good"][1] == pytest.approx(1 / 3)


def long_rows() -> list[dict]:
    return [
        {
            "rewarder": row["rewarder"],
            "question": row["question"],
            "candidate": at,
            "score": value,
            "correct": QUESTIONS[int(row["question"][1:])]["candidates"][at]["correct"],
        }
        for row in SCORES
        for at, value in enumerate(row["scores"])
    ]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_one_row_per_score_in_other_files(tmp_path, small, suffix):
    """Who is right stands beside the scores; pairs are known by their scores alone."""
    rows = [
        {**row, "score": row["score"] if suffix == "csv" else _list(row["score"])}
        for row in long_rows()
    ]
    path = tmp_path / f"all.{suffix}"
    if suffix == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        pd.DataFrame(rows).to_parquet(path)
    pair_scores = write(tmp_path, "pair_scores", PAIR_SCORES)
    import_files([path, pair_scores], "p", tmp_path / "run", quiet=True)
    assert same(numbers(tmp_path / "run"), numbers(small))
    said = " ".join(analysed(tmp_path / "run").warnings)
    assert "whether questions are in both sets is not known" in said


def _list(value: float | list[float]) -> list[float]:
    return value if isinstance(value, list) else [value]


def test_verdicts_in_both_orders_and_several_votes(tmp_path):
    def verdicts(item: str, better: object, worse: object) -> list[dict]:
        row = {"rewarder": "judge", "item": item}
        forth = {**row, "first": better, "second": worse, "outcome": "first"}
        back = {**row, "first": worse, "second": better, "outcome": "tie"}
        return [forth, forth, back]

    rows = [row for pair in PAIRS for row in verdicts(pair["id"], "chosen", "rejected")]
    for i, q in enumerate(QUESTIONS):
        right, *wrong = (i % 3, (i + 1) % 3, (i + 2) % 3)
        for better, worse in ((right, wrong[0]), (right, wrong[1]), wrong):
            rows += verdicts(q["id"], better, worse)
    paths = files(tmp_path, scores=[], pair_scores=[], verdicts=rows)
    import_files(paths, "p", tmp_path / "run", quiet=True)
    assert numbers(tmp_path / "run")["judge"] == pytest.approx((1.0, 1.0))
    judged = bon.load(tmp_path / "run").tables.judgements
    assert set(judged.vote) == {0, 1}
    assert judged.outcome.value_counts()["tie"] == 6 + 18


def test_a_tournament_around_the_right_answer_is_accuracy_on_pairs(tmp_path):
    """A coin flip on one right against four wrong answers is right in half of the pairs."""
    rng = random.Random(0)
    questions = [
        {
            "id": f"q{i}",
            "question": f"{i}?",
            "candidates": [{"correct": j == i % 5} for j in range(5)],
        }
        for i in range(30)
    ]
    rows = []
    for i, q in enumerate(questions):
        for at in set(range(5)) - {i % 5}:
            first, second = rng.sample([i % 5, at], 2)
            for name, outcome in (
                ("coin", rng.choice(["first", "second"])),
                ("judge", "first" if first == i % 5 else "second"),
            ):
                row = {"rewarder": name, "question": q["id"], "first": first, "second": second}
                rows.append({**row, "outcome": outcome})
    paths = [write(tmp_path, "questions", questions), write(tmp_path, "verdicts", rows)]
    run = str(tmp_path / "run")
    result = CliRunner().invoke(app, ["import", *map(str, paths), "--policy", "p", "--out", run])
    assert "coin and judge compared almost only right with wrong candidates." in result.output
    results = Results.model_validate_json((tmp_path / "run" / "results.json").read_text())
    assert any("read as accuracy on pairs, not as Best-of-N" in w for w in results.warnings)
    assert not [b for b in results.best_of_n if b.rule != "baseline"]
    pairs = {b.rewarder: b for b in results.benchmarks}
    won = sum((r["outcome"] == "first") == (r["first"] == int(r["question"][1:]) % 5)
              for r in rows if r["rewarder"] == "coin")  # fmt: skip
    assert pairs["coin"].overall.value == pytest.approx(won / 120)
    assert pairs["judge"].overall.value == 1
    # All pairs of a question are still choices.
    every = [
        {"rewarder": "all", "question": q["id"], "first": a, "second": b, "outcome": "first"}
        for q in questions
        for a in range(5)
        for b in range(a)
    ]
    paths = [paths[0], write(tmp_path, "every", every)]
    import_files(paths, "p", tmp_path / "blind", quiet=True)
    assert {b.rewarder for b in analysed(tmp_path / "blind").best_of_n} > {"all"}


def test_a_file_that_was_cut_off_loses_one_row_and_says_so(tmp_path):
    paths = files(tmp_path)
    whole = paths[1].read_text()
    paths[1].write_text(whole[:-20])
    import_files(paths, "p", tmp_path / "run", quiet=True)
    said = " ".join(analysed(tmp_path / "run").warnings)
    assert "steps has scores of 5 of 6 questions" in said
    assert "1 rows of scores were left out" in said


CONTRARY = [*SCORES, {**SCORES[0], "scores": [5.0, 5.0, 5.0]}]
BAD = {
    "contrary": ({"scores": CONTRARY}, "good has two different scores of response 0"),
    "others": (
        {"questions": [{**q, "id": "x" + q["id"]} for q in QUESTIONS]},
        r"is about question 'q5', but no table holds it, .* all 54 rows about questions",
    ),
    "nobody": ({"questions": []}, "also give the table of right candidates"),
    "words": (
        {"scores": [{"rewarder": "r", "question": "q0", "scores": ["high"] * 3}]},
        "its score 'high' is not a number",
    ),
    "truth": (
        {"questions": [{"id": "q0", "candidates": [{"correct": "perhaps"}]}]},
        "'perhaps' is neither true nor false",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_used_is_one_line(tmp_path, name):
    changed, said = BAD[name]
    paths = files(tmp_path, **changed)
    result = CliRunner().invoke(
        app, ["import", *map(str, paths), "--policy", "p", "--out", str(tmp_path / "run")]
    )
    assert result.exit_code != 0
    with pytest.raises(BonError, match=said) as error:
        import_files(paths, "p", tmp_path / "other", quiet=True)
    assert "\n" not in str(error.value)


def test_a_number_that_is_none_is_unread_and_not_a_loss(tmp_path):
    blank = [{**SCORES[0], "scores": [None, 1.0, 2.0]}, *SCORES[1:]]
    import_files(files(tmp_path, scores=blank), "p", tmp_path / "run", quiet=True)
    judged = bon.load(tmp_path / "run").tables.judgements
    assert (judged.outcome == "unparsed").sum() == 1


def test_scores_of_answers_whose_texts_are_there(tmp_path):
    answers = [
        {
            "id": q["id"],
            "question": q["question"],
            "options": ["x", "y", "z"],
            "answer": "ABC"[i % 3],
            "response": [f"Answer: {letter}" for letter in "ABC"],
        }
        for i, q in enumerate(QUESTIONS)
    ]
    paths = [*files(tmp_path, questions=[]), write(tmp_path, "answers", answers)]
    import_files(paths, "p", tmp_path / "run", quiet=True)
    assert numbers(tmp_path / "run")["good"] == pytest.approx((4 / 6, 4 / 6))
    assert bon.load(tmp_path / "run").tables.candidates.length.notna().all()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_every_aggregate_of_probabilities_is_one(steps):
    for name in AGGREGATES:
        found = aggregate_steps(name, steps)
        assert found is not None
        assert -1e-12 <= found <= 1 + 1e-12
        if name != "product":
            assert min(steps) - 1e-9 <= found <= max(steps) + 1e-9 or name == "geometric"


def test_a_geometric_mean_of_negative_scores_is_none():
    assert aggregate_steps("geometric", [0.5, -0.1]) is None


def test_the_formats_are_listed_with_what_they_need():
    result = CliRunner().invoke(app, ["list", "formats", "--json"])
    rows = {row["name"]: row["needs"] for row in json.loads(result.stdout)}
    assert {"answers", "scores", "pair_scores", "verdicts", "candidates", "pairs"} <= set(rows)
    assert "rewarder" in rows["scores"]


@pytest.mark.slow
def test_the_real_scores_of_thirteen_reward_models(tmp_path):
    if not REAL.is_dir():
        pytest.skip("no real data beside this checkout")
    paths = [REAL / f"{name}.jsonl" for name in TABLES]
    import_files(paths, "mixed", tmp_path, quiet=True)
    found = numbers(tmp_path)
    published = {
        "ArmoRM": (0.930, 0.210),
        "Eurus-RM": (0.609, 0.170),
        "GRM-Llama3-8B": (0.915, 0.246),
        "GRM_Gemma_2B": (0.931, 0.050),
        "Skywork-Llama-3.1-8B": (0.969, 0.222),
        "beaver": (0.515, 0.072),
        "internlm2-20b": (0.951, 0.340),
        "internlm2": (0.928, 0.373),
        "oasst-rm": (0.604, 0.070),
    }
    for name, values in published.items():
        assert found[name] == pytest.approx(values, abs=0.001), name
    calibrated = calibrate(votes_of(tmp_path, {}), Options(draws=100), labels="the answer key")
    rows = {(row.rewarder, row.kind): row for row in calibrated.rewarders}
    assert len(rows) == 26
    for name, (on_pairs, _) in published.items():
        accuracy = rows[name, "pairs"].overall.accuracy
        assert accuracy.value == pytest.approx(on_pairs, abs=0.001)
        assert accuracy.low < accuracy.value < accuracy.high
    scored = [json.loads(row) for row in (REAL / "scores.jsonl").read_text().splitlines()]
    own = [row["scores"] for row in scored if row["rewarder"] == "internlm2"]
    right, wrong = np.array([s[0] for s in own]), np.array([s[1:] for s in own]).ravel()
    area = stats.mannwhitneyu(right, wrong).statistic / len(right) / len(wrong)
    assert rows["internlm2", "answers"].auc.value == pytest.approx(area, abs=1e-9)
    assert rows["internlm2", "answers"].overall.num_items == 4830
    # Its scores lie in [0, 1] and are no probabilities.
    assert any("--threshold" in text for text in rows["ArmoRM", "answers"].warnings)
    results = analysed(tmp_path)
    assert _r(results) == (13, pytest.approx(0.545, abs=0.0005))
    assert results.finding.verdict not in ("yes", "probably")
    assert not results.finding.sentence.startswith("Yes")
    # 425 are the same word for word; one more writes the same fraction in another way.
    assert results.leaks.num_questions == 426
    assert any("426 of 483 questions" in said for said in results.finding.caveats)
    assert _r(analysed(tmp_path, "analysis.aggregate=geometric")) == (
        13,
        pytest.approx(0.298, abs=0.0005),
    )


def _r(results: Results) -> tuple[int, float | None]:
    (primary,) = (c for c in results.correlations if c.primary)
    return primary.num_rewarders, primary.pearson.estimate.value


def test_columns_of_score_tables_may_be_named(tmp_path):
    rows = [{"judge": "J", "item": f"q{i}", "points": [i, 1]} for i in range(3)]
    about = [{"id": f"q{i}", "question": "?", "candidates": [True, False]} for i in range(3)]
    for name, lines in (("scores", rows), ("right", about)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"{name}.jsonl").write_text(text)
    columns = {"rewarder": "judge", "question": "item", "scores": "points"}
    files = [tmp_path / "scores.jsonl", tmp_path / "right.jsonl"]
    import_files(files, "p", tmp_path / "run", columns=columns, quiet=True)
    with Store(tmp_path / "run", readonly=True) as store:
        assert store.count("judgements", "rewarder = 'J'") == 6


def test_verdicts_name_their_question_or_pair(tmp_path):
    """The layout of RewardMATH's tables, for judges that compare."""
    about = [{"id": "q1", "question": "?", "candidates": [True, False]}]
    rows = [
        {"rewarder": "J", "kind": "pairwise", "question": "q1", "first": 1, "second": 0,
         "outcome": "second"},
        {"rewarder": "J", "kind": "pairwise", "pair": "p1", "first": "chosen",
         "second": "rejected", "outcome": "first"},
    ]  # fmt: skip
    files = []
    for name, line in (("right", about[0]), ("verdicts", rows[0]), ("pair_verdicts", rows[1])):
        files.append(tmp_path / f"{name}.jsonl")
        files[-1].write_text(json.dumps(line) + "\n")
    import_files(files, "p", tmp_path / "run", quiet=True)
    with Store(tmp_path / "run", readonly=True) as store:
        kinds = {row.item_kind: row.outcome for row in store.stored_judgements()}
    assert kinds == {"question": "second", "pair": "first"}


def test_base_models_are_read_or_guessed_and_change_no_key():
    def card(name: str, family: str) -> dict:
        record = JudgementRecord(name, "question", "q", 0, None, (1.0,), family=family)
        return rewarder_cards({name: [("q", record)]})[0]

    stated, guessed = card("Qwen2.5-VL-7B judge", "base-a"), card("Qwen2.5-VL-7B judge", "")
    assert (stated["family"], guessed["family"]) == ("base-a", "qwen2.5-vl?")
    assert stated["model"] == guessed["model"]
    assert card("my-judge", "")["family"] == ""


@pytest.mark.parametrize(("name", "base"), [
    ("GPT-4o mini (2024)", "gpt-4o?"), ("qwen2-vl-72b-judge", "qwen2-vl?"),
    ("R1-Reward", "qwen2.5-vl?"),
    ("UnifiedReward-2.0-qwen3vl-8b", "qwen3-vl?"), ("Skywork-PRM-Qwen-2.5-7B", "qwen2.5?"),
    ("Llama-3.2-90B", "llama-3.2?"), ("InternVL2-8B", "internvl2?"), ("longest", ""),
])  # fmt: skip
def test_names_suggest_base_models(name, base):
    assert guessed_base(name) == base


WIDE = [
    {"question": f"q{i}", "candidate": j, "correct": j == i % 3, "good": j == i % 3, "bad": -j}
    for i in range(6)
    for j in range(3)
]


def accuracies(directory: Path) -> dict[str, float]:
    results = bon.load(directory).results
    return {
        b.rewarder: b.accuracy.value
        for b in results.best_of_n
        if b.headline and b.rule != "baseline"
    }


@pytest.mark.parametrize("layout", ["candidates", "lists", "csv"])
def test_a_column_of_scores_for_each_rewarder(tmp_path, layout):
    rows = [{**row, "good": float(row["good"])} for row in WIDE]
    path = tmp_path / "wide.jsonl"
    if layout == "csv":
        path = tmp_path / "wide.csv"
        pd.DataFrame(rows).to_csv(path, index=False)
    elif layout == "lists":
        of = {q["id"]: [row for row in rows if row["question"] == q["id"]] for q in QUESTIONS}
        lists = {id: {n: [r[n] for r in own] for n in ("good", "bad")} for id, own in of.items()}
        write(tmp_path, "wide", [q | lists[q["id"]] for q in QUESTIONS])
    else:
        write(tmp_path, "wide", rows)
    ran = CliRunner().invoke(
        app, ["import", str(path), "--policy", "p", "--out", str(tmp_path / "run")]
    )
    assert ran.exit_code == 0, ran.output
    assert "6 questions x 3 candidates" in ran.output
    assert accuracies(tmp_path / "run") == {"good": 1.0, "bad": pytest.approx(1 / 3)}
    one = ["--columns", "score=good"] if layout != "lists" else ["--columns", "score=good,bad"]
    import_files(
        [path], "p", tmp_path / "one", columns={"score": one[1].partition("=")[2]}, quiet=True
    )
    found = {"good"} if layout != "lists" else {"good", "bad"}
    with Store(tmp_path / "one", readonly=True) as store:
        assert {name for (name,) in store.query("SELECT rewarder FROM judgements")} == found


def test_two_columns_of_pair_scores_for_each_rewarder(tmp_path):
    rows = [
        {"pair": pair["id"], "prompt": pair["question"], "a_chosen": 1, "a_rejected": 0}
        | {"b chosen": i % 2, "b rejected": 0.5}
        for i, pair in enumerate(PAIRS)
    ]
    write(tmp_path, "wide", rows)
    ran = CliRunner().invoke(
        app, ["import", str(tmp_path / "wide.jsonl"), "--out", str(tmp_path / "run")]
    )
    assert "6 pairs, 2 rewarders" in ran.output
    assert "a scores highest on wide: 100.0%" in ran.output


def test_imported_scores_have_no_cost(tmp_path):
    """They had one call per candidate, on page one, in the report and in `bon recommend`."""
    path = tmp_path / "wide.csv"
    pd.DataFrame(WIDE).astype({"good": float}).to_csv(path, index=False)
    run = tmp_path / "run"
    ran = CliRunner().invoke(app, ["import", str(path), "--policy", "p", "--out", str(run)])
    advice = CliRunner().invoke(app, ["recommend", str(run), "--out", str(tmp_path / "out")])
    assert advice.exit_code == 0, advice.output
    assert "Imported scores of bad and good: what they cost is not known." in advice.output
    page = (run / "report.html").read_text()
    assert "No model was asked." in page
    assert "Judge calls" not in page
    for text in (ran.output, advice.output, bon.load(run).results.model_dump_json()):
        assert not re.search(r"\d calls?\b|per question\.", text), text
    refused = CliRunner().invoke(app, ["recommend", str(run), "--budget", "3"])
    assert "what they cost is not known -> leave --budget out" in str(refused.exception)
