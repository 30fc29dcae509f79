"""`bon uplift`: arms, training, resumption and statistics."""

import asyncio
import io
import itertools
import json
import math
import os
import signal
import sys
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import bon
import bon.training.uplift as training
from bon.analysis.results import Estimate
from bon.analysis.uplift import Outcomes, analyse_uplift
from bon.commands.main import main
from bon.core.errors import BonError
from bon.engines.base import ImagePart, Message, ScoreRequest
from bon.engines.hf import fine_tuning
from bon.engines.hf.engine import TransformersEngine
from bon.engines.settings import TransformersSettings
from bon.engines.tuning import Example, FineTuned, Tuning
from bon.experiment.config import DatasetSpec
from bon.running.reporting import open_run, report_run
from bon.storage.store import Store
from bon.training.arms import REFERENCES, Arm, Choice, choose
from bon.training.elsewhere import added_arms
from bon.work.run_tables import run_tables
from tests.conftest import write_questions
from tests.engines.tiny_checkpoint import make_checkpoint
from tests.running.conftest import change

# ------------------------------------------------------------------ arms


def test_every_arm_chooses_on_the_same_questions(make_experiment, go):
    directory = go(make_experiment(12))
    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        choices = choose(setup, store, setup.policies[0], ["judge", "head"], seed=0)
        tables = run_tables(setup, store)
    asked = [question.key for question in choices.questions]
    assert asked
    for rows in choices.by_arm.values():
        assert [row.question for row in rows] == asked
        assert all(row.chosen != row.rejected for row in rows)
    answers = tables.candidates.groupby("question")["answer"].nunique()
    differ = set(answers[answers > 1].index)
    assert set(asked) <= differ
    assert len(differ) == len(asked) + choices.unjudged
    correct = tables.candidates.groupby("question")["correct"].max()
    assert choices.by_key == sum(not correct[q] for q in differ - set(asked))


def test_oracle_and_majority_prefer_what_their_names_say(make_experiment, go):
    directory = go(make_experiment(12))
    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        policy = setup.policies[0]
        choices = choose(setup, store, policy, ["head"], seed=0)
        for question, oracle, majority in zip(
            choices.questions, choices.by_arm["oracle"], choices.by_arm["majority"], strict=True
        ):
            rows = store.candidates(policy.spec, question.key)
            answers = {row.text: row.answer for row in rows}
            if question.answer in answers.values():
                assert answers[oracle.chosen] == question.answer
                assert answers[oracle.rejected] != question.answer
            votes = pd.Series([row.answer for row in rows]).value_counts()
            assert votes[answers[majority.chosen]] == votes.max()


def test_a_key_changes_with_what_shapes_the_checkpoint():
    tuning = Tuning("dpo", 3, 2, 1e-3)
    rows = tuple(training_choice(i) for i in range(3))
    arm = Arm("a", tuning, rows, "spec")
    keys = {
        arm.key,
        Arm("a", Tuning("sft", 3, 2, 1e-3), rows, "spec").key,
        Arm("a", Tuning("dpo", 3, 2, 1e-3, seed=1), rows, "spec").key,
        Arm("a", tuning, rows[:2], "spec").key,
        Arm("a", tuning, rows, "other").key,
    }
    assert len(keys) == 5
    assert Arm("renamed", tuning, rows, "spec").key == arm.key


def training_choice(number: int) -> Choice:
    return Choice(f"q{number}", f"yes {number}", f"no {number}")


def test_questions_that_were_trained_on_are_refused(make_experiment, go, tmp_path):
    experiment = make_experiment(6)
    directory = go(experiment)
    own = experiment["questions"]
    spec = DatasetSpec(benchmark=own["benchmark"], path=str(tmp_path / own["path"]))
    with Store(directory, readonly=True) as store:
        questions = list(store.questions())
    with pytest.raises(BonError, match="6 questions to evaluate on are trained on"):
        training.refuse_overlap(questions, spec, tmp_path)
    training.refuse_overlap([], spec, tmp_path)
    path = tmp_path / "clusters.jsonl"
    row = {"question": "A new one?", "options": ["x", "y"], "answer": "A", "cluster": "scene 4"}
    path.write_text(json.dumps(row) + "\n")
    clusters = spec.model_copy(update={"path": str(path)})
    training.refuse_overlap(questions, clusters, tmp_path)
    trained = replace(questions[0], meta={"cluster": "scene 4"})
    with pytest.raises(BonError, match="1 questions to evaluate on"):
        training.refuse_overlap([trained], clusters, tmp_path)
    other = replace(questions[0], key="other", text=f"Question: {questions[0].text.upper()} ")
    if not other.images:
        with pytest.raises(BonError, match="1 questions to evaluate on"):
            training.refuse_overlap([other], spec, tmp_path)


# ------------------------------------------------------------------ checkpoints


def test_a_kill_loses_no_finished_arm(tmp_path, monkeypatch):
    log = tmp_path / "log"

    def slow(_settings, _examples, tuning, part):
        with log.open("a") as file:
            file.write(f"{tuning.seed}\n")
        for number in range(4):
            (part / f"weights{number}").write_text("whole")
            time.sleep(0.01)
        return FineTuned(1.0, 0.5, 0.0)

    trainer = SimpleNamespace(fine_tune=slow)
    monkeypatch.setitem(sys.modules, "bon.engines.hf.fine_tuning", trainer)
    settings = TransformersSettings(model="none")
    arms = [Arm("a", Tuning("dpo", 1, 1, 1e-3, seed=seed), (), "p") for seed in range(6)]

    def work():
        for arm in arms:
            if not training.is_trained(tmp_path, arm):
                training.train_arm(
                    settings, [], arm.tuning, str(training.checkpoint(tmp_path, arm))
                )

    finished: dict[int, int] = {}  # seed: how often it was started when it was first seen finished
    for place in itertools.count():
        if place >= 10 and finished:  # on a busy machine the first arms take longer than ten kills
            break
        child = os.fork()
        if child == 0:
            work()
            os._exit(0)
        time.sleep(0.013 * (place + 1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        starts = log.read_text().split() if log.exists() else []
        for arm in arms:
            seed = arm.tuning.seed
            if training.is_trained(tmp_path, arm):
                finished.setdefault(seed, starts.count(str(seed)))
            else:
                assert seed not in finished
    work()
    starts = log.read_text().split()
    assert all(starts.count(str(seed)) == count for seed, count in finished.items())
    for arm in arms:
        assert len(list(training.checkpoint(tmp_path, arm).glob("weights*"))) == 4


def test_checkpoints_brought_in_are_checked(tmp_path):
    arms = [Arm(n, Tuning("dpo", 1, 1, 1e-3), (), "p") for n in ("judge-2.5", "random")]
    whole, adapter = tmp_path / "whole", tmp_path / "adapter"
    for folder, name in ((whole, "config.json"), (adapter, "adapter_config.json")):
        folder.mkdir()
        (folder / name).write_text("{}")
    new = {"judge-2.5": whole, "random.grpo.3": whole}
    own, folders = added_arms(new, arms)
    assert set(folders) == {"judge-2.5.dpo.0", "random.grpo.3"}
    assert [(a.name, a.tuning.method, a.tuning.seed) for a in own] == [
        ("judge-2.5", "dpo", 0), ("random", "grpo", 3),
    ]  # fmt: skip
    for name, folder, message in (
        ("nobody", whole, "no arm 'nobody'"),
        ("random", adapter, "is an adapter"),
        ("random", tmp_path, "holds no config.json"),
    ):
        with pytest.raises(BonError, match=message):
            added_arms({name: folder}, arms)


def test_exports_and_studies_name_what_the_key_left_out(make_experiment, go, capsys, monkeypatch):
    directory = go(make_experiment(12))
    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        count = choose(setup, store, setup.policies[0], ["head"], seed=0).by_key
    assert count
    arguments = ["export", str(directory), "--format", "trl", "--preferences", "head"]
    monkeypatch.setattr("sys.argv", ["bon", *arguments])
    with pytest.raises(SystemExit):
        main()
    error = capsys.readouterr().err
    assert error.startswith(f"{count} questions with different answers were not judged")
    assert "--set judging.skip=unanimous" in error


# ------------------------------------------------------------------ losses


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    folder = make_checkpoint(tmp_path_factory.mktemp("tiny") / "policy")
    engine = TransformersEngine(TransformersSettings(model=str(folder), threads=1))
    yield engine
    asyncio.run(engine.close())


def example(text: str, chosen: str, rejected: str | None = None) -> Example:
    return Example((Message("user", (text,)),), chosen, rejected)


@pytest.mark.model
def test_log_probabilities_are_those_that_the_engine_gives(engine):
    rows = [example("What is it?", "A red circle", "Answer: B"), example("And?", "No", "Yes Yes")]
    sums, lengths = fine_tuning.log_probabilities(engine, rows)

    async def theirs():
        return [
            await engine.likelihood(
                ScoreRequest((*row.messages, Message("assistant", (response,))))
            )
            for row in rows
            for response in row.responses
        ]

    likelihoods = asyncio.run(theirs())
    assert sums.tolist() == pytest.approx([row.logprob for row in likelihoods], abs=1e-4)
    assert lengths.tolist() == [row.num_tokens for row in likelihoods]


@pytest.mark.model
def test_losses_equal_their_formulas(engine):
    rows = [example("What is it?", "A red circle", "Answer: B"), example("And?", "No", "Yes Yes")]
    sums, lengths = fine_tuning.log_probabilities(engine, rows)
    chosen, rejected = sums.view(-1, 2).T.tolist()
    reference = [[-3.0, -4.0], [-2.5, -2.0]]
    loss = fine_tuning.batch_loss(engine, rows, Tuning("dpo", 1, 2, 0.0, beta=0.3), reference)
    margins = [
        0.3 * ((c - a) - (r - b)) for c, r, (a, b) in zip(chosen, rejected, reference, strict=True)
    ]
    assert loss.item() == pytest.approx(np.mean([math.log1p(math.exp(-m)) for m in margins]))
    plain = [example(row.messages[0].parts[0], row.chosen) for row in rows]
    loss = fine_tuning.batch_loss(engine, plain, Tuning("sft", 1, 2, 0.0), [])
    assert loss.item() == pytest.approx(-sum(chosen) / sum(lengths.tolist()[::2]), rel=1e-5)


@pytest.mark.model
def test_training_raises_what_it_prefers_and_leaves_the_vision_tower(engine, tmp_path):
    data = _png()
    parts = (ImagePart(sha256(data).hexdigest(), data), "What is it?")
    rows = [Example((Message("user", parts),), "red circle", "blue square")] * 4
    settings = engine._settings
    tuning = Tuning("dpo", steps=10, batch=4, rate=1e-3, warmup=1)
    result = fine_tuning.fine_tune(settings, rows, tuning, tmp_path / "out")
    assert result.first_loss > result.last_loss
    before = engine.model.state_dict()
    after = TransformersEngine(settings.model_copy(update={"model": str(tmp_path / "out")}))
    changed = {
        name
        for name, value in after.model.state_dict().items()
        if not torch.equal(value, before[name])
    }
    asyncio.run(after.close())
    assert changed
    assert not any("visual" in name for name in changed)


def _png() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (56, 56), "red").save(buffer, "PNG")
    return buffer.getvalue()


def outcomes(arms: dict[str, float], seeds: int = 1, questions: int = 600) -> list[Outcomes]:
    """Checkpoints whose accuracy differs from .5 by a planted gain."""
    rng = np.random.default_rng(0)
    difficulty = rng.random(questions)
    index = [f"q{i}" for i in range(questions)]

    def one(arm: str, gain: float, seed: int) -> Outcomes:
        right = (difficulty + rng.normal(scale=0.05, size=questions) < 0.5 + gain).astype(float)
        series = pd.Series(right, index=index)
        return Outcomes(arm, "dpo", seed, series, series)

    rows = [one(arm, gain, seed) for arm, gain in arms.items() for seed in range(seeds)]
    return [one("untrained", 0.0, 0), *rows]


class Stored:
    """Results of the run: benchmark accuracy and Best-of-N gain by rewarder."""

    def __init__(self, benchmark: dict[str, float], best: dict[str, float]) -> None:
        def exact(value: float) -> Estimate:
            return Estimate(value=value, low=value - 0.02, high=value + 0.02, n=200)

        self.options = SimpleNamespace(axis="macro")
        self.main = None
        self.rewarders = ()
        self.benchmarks = [
            SimpleNamespace(rewarder=name, benchmark="b", macro=exact(v), overall=exact(v))
            for name, v in benchmark.items()
        ]
        self.best_of_n = [
            SimpleNamespace(policy="p", rewarder=name, headline=True, gain=exact(v))
            for name, v in best.items()
        ]


def analysed(arms: dict[str, float], best: dict[str, float], **options):
    benchmark = {name: 0.5 + value for name, value in best.items()}
    return analyse_uplift(
        outcomes(arms, **options),
        Stored(benchmark, best),  # type: ignore[arg-type]
        policy="p",
        num_questions=500,
        num_unjudged_by_key=0,
        seed=0,
    )


def test_a_rewarder_that_helps_choosing_and_hurts_training_is_flagged():
    arms = {"good": 0.06, "harmful": -0.08, "idle": 0.0, "random": -0.02}
    results = analysed(arms, {"good": 0.15, "harmful": 0.11, "idle": -0.05})
    flagged = {arm.arm for arm in results.arms if arm.hurts}
    assert flagged == {"harmful"}
    gains = {arm.arm: arm.greedy for arm in results.arms}
    for arm, gain in arms.items():
        assert gains[arm].low - 0.02 < gain < gains[arm].high + 0.02
    over = {arm.arm: arm.over_random for arm in results.arms}
    assert over["random"] is None
    assert over["good"].low > 0.03
    assert "hurts training: harmful" in results.methods[0].sentence


def test_what_the_recipe_costs_names_no_rewarder():
    """Nine rewarders that choose well and train exactly as random choices do, below zero."""
    innocent = [f"rewarder {i}" for i in range(9)]
    results = analysed(dict.fromkeys([*innocent, "random"], -0.06), dict.fromkeys(innocent, 0.1))
    assert all(arm.greedy.high < 0 for arm in results.arms)
    assert not [arm.arm for arm in results.arms if arm.hurts]
    alone = analysed(dict.fromkeys(innocent, -0.06), dict.fromkeys(innocent, 0.1))
    assert not [arm.arm for arm in alone.arms if arm.hurts]  # without a zero line


def test_r_needs_eight_rewarders_for_an_interval():
    best = {f"r{i}": 0.02 * i for i in range(9)}
    results = analysed({name: value / 2 for name, value in best.items()}, best, seeds=2)
    benchmark, choosing = results.methods[0].correlations
    assert benchmark.r.value > 0.9
    assert benchmark.r.low is not None
    assert choosing.spearman.value > 0.8
    assert results.methods[0].reliability > 0.8
    few = analysed({"a": 0.01, "b": 0.02, "c": 0.05}, {"a": 0.01, "b": 0.02, "c": 0.03})
    assert few.methods[0].correlations[0].r.low is None


def test_seeds_that_differ_widen_the_intervals():
    best = {f"r{i}": 0.01 for i in range(4)}
    plain = analysed(dict.fromkeys(best, 0.01), best, seeds=2)
    rows = outcomes(dict.fromkeys(best, 0.0), seeds=2)
    moved = [Outcomes(o.arm, o.method, o.seed, (o.greedy + 0.1 * o.seed), o.sampled) for o in rows]
    wide = analyse_uplift(
        moved, Stored(best, best), policy="p", num_questions=1,  # type: ignore[arg-type]
        num_unjudged_by_key=3, seed=0,
    )  # fmt: skip
    width = [r.arms[0].greedy.high - r.arms[0].greedy.low for r in (plain, wide)]
    assert width[1] > 2 * width[0]
    assert any("filtered by it" in line for line in wide.warnings)


# ------------------------------------------------------------------ the command


@pytest.mark.long
@pytest.mark.model
@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.usefixtures("one_ray")
def test_a_study_is_trained_once_and_its_failed_arms_again(
    make_experiment, go, tmp_path, capsys, monkeypatch
):
    checkpoint = make_checkpoint(tmp_path / "policy")
    experiment = make_experiment(8)
    directory = go(experiment)
    report_run(directory, quiet=True)
    with Store(directory) as store:  # its candidates become those of a policy that can be trained
        raw = store.meta("experiment")
        card = dict(raw["policies"][0]) | {
            "engine": "transformers", "model": str(checkpoint), "size": 70_000,
            "engine_args": {"threads": 1},
            "sampling": {"max_tokens": 4}, "placement": {"group": "tiny", "cpus": 1},
        }  # fmt: skip
        store.set_meta(experiment=raw | {"policies": [card]})
        spec = open_run(store).policies[0].spec
    change(directory, "UPDATE candidates SET spec = ?", spec)
    other = tmp_path / "other.jsonl"
    write_questions(other, 9)
    other.write_text(other.read_text().replace('"question": "', '"question": "Another one: '))
    calls: list[str] = []
    real = training.run_tasks

    def counted(function, tasks, connection, **options):
        if function is training.train_arm:
            calls.extend(Path(task[3]).name for task in tasks)
        return real(function, tasks, connection, **options)

    monkeypatch.setattr(training, "run_tasks", counted)

    def uplift(*more: object) -> tuple[int, str]:
        arguments = ["uplift", directory, other, "--rewarders", "head", *more]
        monkeypatch.setattr("sys.argv", ["bon", *map(str, arguments), "--steps", "2"])
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        return ended.value.code or 0, output.out + output.err

    code, out = uplift()
    assert code == 0, out
    assert "(oracle)" in out
    assert len(calls) == 1 + len(REFERENCES)
    results = json.loads((directory / "uplift" / "uplift.json").read_text())
    assert {arm["arm"] for arm in results["arms"]} == {"head", *REFERENCES}
    folder = directory / "uplift" / "checkpoints" / calls[0]
    (folder / training.DONE).unlink()  # as if killed before the end
    assert uplift()[0] == 0
    trained = 1 + len(REFERENCES)
    assert calls[trained:][:1] == calls[:1]
    before = len(calls)
    code, out = uplift("--add", f"head.grpo.0={checkpoint}")  # the untrained policy itself
    assert code == 0, out
    assert len([name for name in calls[before:] if name in calls[:trained]]) == 0
    stored = json.loads((directory / "uplift" / "uplift.json").read_text())
    added = next(arm for arm in stored["arms"] if arm["method"] == "grpo")
    assert added["greedy"]["value"] == 0
    assert "trained, GRPO" in (directory / "report.html").read_text()
    (study,) = bon.load(directory).results.trained
    assert "grpo" in {arm.method for arm in study.arms}
    before = len(calls)
    code, out = uplift("--export", tmp_path / "arms")
    assert code == 0, out
    assert {path.name for path in (tmp_path / "arms").iterdir()} == {
        "arms.yaml", "train_trl.py", *(f"{name}.parquet" for name in ("head", *REFERENCES))
    }  # fmt: skip
    assert len(calls) == before
    for _ in range(2):  # trained once
        code, out = uplift("--batch", "4")
        assert code == 0, out
    assert len(calls) - before == trained
