"""Step labels: F1 equals the published definitions, counted from the stored step scores."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bon
from bon.benchmarks import load_pairs
from bon.benchmarks.base import BadRow
from bon.core.errors import BonError
from bon.core.images import ImageStore
from bon.core.records import PreferencePair
from bon.experiment.config import DatasetSpec
from bon.planning.plan import make_plan
from bon.storage.store import Store
from bon.work.setup import prepare
from bon.work.step_verdicts import agreements, rows_of
from tests.conftest import echo_experiment
from tests.running.conftest import go_in

PRM = {
    **echo_experiment(accuracy=0.75)["rewarders"][1],
    "name": "prm", "kind": "stepwise", "prompt": {"text": "{{ prompt }}|{{ steps | join(' ') }}"},
    "engine_args": {"accuracy": 0.25, "reply": "{choice}"},
}  # fmt: skip
RNG = np.random.default_rng(7)


def solutions(count: int) -> list[list[str]]:
    return [[f"{i}.{at}" for at in range(RNG.integers(1, 5))] for i in range(count)]


def processbench() -> list[dict[str, Any]]:
    return [
        {"id": f"{'math' if i % 3 else 'gsm8k'}-{i}", "problem": f"{i}?", "steps": steps,
         "label": int(RNG.integers(-1, len(steps)))}
        for i, steps in enumerate(solutions(60))
    ]  # fmt: skip


def visualprocessbench() -> list[dict[str, Any]]:
    return [
        {"question": f"{i}?", "data_source": "MMMU", "response": {
            "steps": steps, "process_correctness": RNG.integers(-1, 2, len(steps)).tolist()}}
        for i, steps in enumerate(solutions(40))
    ]  # fmt: skip


def prmbench() -> list[dict[str, Any]]:
    return [
        {"idx": f"circular_{i}", "modified_question": f"{i}?", "modified_process": steps,
         "error_steps": [1 + at for at in range(len(steps)) if RNG.random() < 0.4],
         "classification": "circular"}
        for i, steps in enumerate(solutions(40))
    ]  # fmt: skip


def judged(base: Path, name: str, rows: list[dict[str, Any]]) -> tuple[Any, list[list[bool]]]:
    """The result of a run, and whether each step of every row is held to be right."""
    (base / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pairs = {"benchmark": name, "path": "rows.jsonl"}
    raw = {"name": "steps", "policies": [], "pairs": [pairs], "rewarders": [PRM]}
    directory = go_in(base)(raw)
    with Store(directory, readonly=True) as store:
        texts = dict(store.query("SELECT item, text FROM judgements"))
        assert store.count("judgements") == len(rows)  # one response, judged once
        held = [[float(x) >= 0.5 for x in texts[pair.key].split()] for _, pair in store.pairs()]
    (result,) = [
        b for b in bon.load(directory).analyse(draws=100).benchmarks if b.rewarder == "prm"
    ]
    return result, held


def f1(right: int, missed: int, taken: int) -> float:
    precision, recall = right / (right + taken), right / (right + missed)
    return 2 * precision * recall / (precision + recall)


def test_processbench_is_the_mean_of_harmonic_means(tmp_path):
    rows = processbench()
    result, held = judged(tmp_path, "processbench", rows)
    hit = [
        (h.index(False) if False in h else -1) == r["label"]
        for h, r in zip(held, rows, strict=True)
    ]
    scores = []
    for subset in ("gsm8k", "math"):
        own = [
            (r["label"], ok) for r, ok in zip(rows, hit, strict=True) if r["id"].startswith(subset)
        ]
        wrong = np.mean([ok for label, ok in own if label >= 0])
        right = np.mean([ok for label, ok in own if label < 0])
        scores.append(2 * wrong * right / (wrong + right))
        named = {g.name: g.accuracy.value for g in result.groups}
        assert named[f"{subset}: wrong solutions"] == pytest.approx(wrong)
        assert named[f"{subset}: right solutions"] == pytest.approx(right)
    assert 0 < np.mean(scores) < 1
    assert result.macro.value == pytest.approx(np.mean(scores))
    assert result.macro.low < result.macro.value < result.macro.high
    assert result.overall.value == pytest.approx(np.mean(hit))


@pytest.mark.parametrize("make", [visualprocessbench, prmbench])
def test_all_steps_count_by_the_mean_of_both_f1(tmp_path, make):
    rows = make()
    result, held = judged(tmp_path, make.__name__, rows)
    if make is prmbench:
        gold = [[-1 if at + 1 in r["error_steps"] else 1 for at in range(len(h))]
                for r, h in zip(rows, held, strict=True)]  # fmt: skip
    else:
        gold = [row["response"]["process_correctness"] for row in rows]
    steps = [
        (g > 0, own)
        for gs, h in zip(gold, held, strict=True)
        for g, own in zip(gs, h, strict=True)
        if g
    ]
    tp, tn = steps.count((True, True)), steps.count((False, False))
    fn, fp = steps.count((True, False)), steps.count((False, True))
    assert min(tp, tn, fn, fp) > 0
    assert result.macro.value == pytest.approx((f1(tp, fn, fp) + f1(tn, fp, fn)) / 2)
    assert result.overall.value == pytest.approx((tp + tn) / len(steps))
    assert result.num_pairs == len(steps)
    assert sum(o.count for o in result.outcomes) == len(steps)


def test_rows_that_cannot_be_used_say_why(tmp_path):
    row = {"id": "math-1", "problem": "Q", "steps": ["a", "b"], "label": 1}
    wrong = [{**row, "label": 2}, {**row, "steps": "a"}, {**row, "steps": ["a", " "]}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, [row, *wrong])))
    spec = DatasetSpec(benchmark="processbench", path=str(tmp_path / "rows.jsonl"))
    found = list(load_pairs(spec, ImageStore(tmp_path / "images")))
    reasons = [bad.reason for bad in found if isinstance(bad, BadRow)]
    assert reasons == [
        "its label 2 is neither -1 nor one of its 2 steps",
        "its steps are not a list",
        "step 2 is empty",
    ]


def test_steps_without_a_score_each_are_unparsed(tmp_path):
    """A reply that cannot be read, or neighbours joined by `max_steps`."""
    row = {"id": "math-1", "problem": "Q", "steps": ["a", "b", "c"], "label": 1}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    spec = DatasetSpec(benchmark="processbench", path=str(tmp_path / "rows.jsonl"))
    (pair,) = load_pairs(spec, ImageStore(tmp_path / "images"))
    assert isinstance(pair, PreferencePair)
    judged = ["pair", pair.key, "t", None, 0, "scored", 0.5, 10, 1.0, 0.1]
    unread = ["pair", pair.key, "t", None, 0, "unparsed", None, 10, 1.0, 0.1]
    for text in ("0.9 ? 0.1", "0.9 0.1", ""):
        assert list(rows_of(pair, judged, text)) == [unread]
    judged[5] = "error"
    assert [found[5:7] for found in rows_of(pair, judged, "")] == [["error", None]]


@pytest.mark.parametrize(
    ("scores", "first_error", "agrees"),
    [("0.5 0.5", -1, True), ("0.5 0.49", 1, True), ("0.49 0.5", 0, True), ("0.5 0.5", 1, False)],
)
def test_a_score_at_the_threshold_is_of_a_right_step(scores, first_error, agrees):
    text = "One.\n\nTwo."
    item = PreferencePair("k", "i", "d", "?", (text, text), 0, meta={"first_error": first_error})
    assert agreements(item, scores) == [agrees]


def test_a_solution_is_planned_as_one_call(tmp_path):
    rows = processbench()
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    raw = {"name": "steps", "policies": [], "rewarders": [PRM],
           "pairs": {"benchmark": "processbench", "path": "rows.jsonl"}}  # fmt: skip
    (work,) = make_plan(prepare(raw, tmp_path)).rewarders
    assert work.on_pairs == len(rows)


@pytest.mark.parametrize(
    "card", [echo_experiment()["rewarders"][0], {**PRM, "step_separator": "."}]
)
def test_rewarders_of_other_steps_are_refused(tmp_path, card):
    raw = {"name": "steps", "policies": [], "rewarders": [card],
           "pairs": {"benchmark": "processbench", "path": "x.jsonl"}}  # fmt: skip
    with pytest.raises(BonError, match="scores no steps as processbench labels them"):
        prepare(raw, tmp_path)
