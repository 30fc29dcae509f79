"""The shipped reproductions, run as they are shipped but on stand-ins: pilot, whole run, release.

In the larger one tiny trained models stand in for both policies and for rewarders of the kinds that
the miniature has, echoes for the rest; in the smaller one echoes for all. Datasets are replicas in
their published layout.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from bon.commands.main import app
from bon.experiment.cards import load_rewarder
from bon.experiment.prompts import NAMES
from bon.miniature.data import write
from bon.planning.plan import make_plan
from bon.running.reporting import read_results
from bon.storage.store import Store
from bon.work.setup import read_experiment, shipped_experiments

REPRODUCTIONS = ["reproduce", "reproduce-24gb"]
MINIATURE = {
    "qwen2.5-vl-7b-judge": "mini-pair-a",
    "unified-reward-7b-point": "mini-critic-b",
    "skywork-vl-reward-7b": "mini-scalar-a",
    "qwen2.5-vl-7b-likelihood": "mini-likelihood-a",
}
SAID = {
    "r1-reward": "<think>x</think><answer>{choice}</answer>",
    "llava-critic-r1-7b-judge": r"<think>x</think> \boxed{{choice}}",
    "unified-reward-think-7b": "<answer>Answer {choice} is better</answer>",
    "unified-reward-think-qwen3vl-8b": "<answer>Answer {choice} is better</answer>",
    "qwen2.5-vl-7b-listwise": "Judgement: {choice}",
}
QUESTIONS = 21  # a pilot judges twenty or more
PAIRWISE = "Overall Judgment: Answer {choice} is better."


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_it_is_the_reproduction_that_it_says(name: str) -> None:
    setup = read_experiment(Path(name))
    assert [policy.card.n for policy in setup.policies] == [8, 8]
    assert len({policy.card.family for policy in setup.policies}) == 2
    assert len(setup.rewarders) >= 12
    kinds = {loaded.card.kind for loaded in setup.rewarders}
    assert kinds == {
        "pairwise", "pointwise", "scalar", "likelihood", "listwise", "stepwise", "rerank",
    }  # fmt: skip
    assert len(setup.ensembles) == 1
    assert [spec.benchmark for spec in setup.experiment.pairs] == [
        "vl_rewardbench", "multimodal_rewardbench", "mmrb2",
    ]  # fmt: skip
    assert setup.experiment.questions[0].benchmark == "mmmu_pro"
    assert not setup.experiment.allow_remote_code
    for loaded in setup.rewarders:  # MMRB2: two dozen images, some text, and the longest reply
        flags = loaded.card.engine_args.get("engine_args", {})
        if loaded.card.verdict and "max_pixels" in loaded.card.engine_args:
            images = 24 * loaded.card.engine_args["max_pixels"] / 28**2
            room = flags["max_model_len"] - images
            assert room >= loaded.card.sampling.max_tokens + 1024, loaded.card.name
    for loaded in (*setup.policies, *setup.rewarders):  # unattended, on one GPU
        assert loaded.card.placement.gpus == 1
        assert loaded.card.engine in ("vllm", "transformers")
    engines: dict[str, set[str]] = {}
    for loaded in (*setup.policies, *setup.rewarders):
        card = loaded.card
        if card.placement.group:  # models of one group share one loaded engine
            engine = json.dumps([card.model, card.revision, card.engine_args], sort_keys=True)
            engines.setdefault(card.placement.group, set()).add(engine)
    assert engines
    assert {len(found) for found in engines.values()} == {1}


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_hours_and_disk_are_known_before_it_starts(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    plan = make_plan(read_experiment(Path(name)), here=True)
    assert plan.is_large
    assert plan.totals()["dollars"] == 0
    assert plan.weights is not None
    assert plan.weights.here == plan.weights.unknown == 0
    assert 8 <= plan.weights.checkpoints <= 13
    assert 90e9 < plan.weights.total < 250e9
    card = "24 GB" if name.endswith("24gb") else "80 GB"
    assert len(plan.memory) >= 12
    assert {fit.gpus[card] for fit in plan.memory} == {"fits"}
    shown = CliRunner().invoke(app, ["plan", name]).output
    assert f"weights: {plan.weights.checkpoints} checkpoints, about " in shown
    assert "0 GB of them here" in shown


def test_a_run_says_what_it_takes_before_it_starts(make_experiment, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    file = tmp_path / "mine.yaml"
    raw = make_experiment(policies=["qwen2.5-vl-7b"])
    file.write_text(yaml.safe_dump(raw))
    refused = CliRunner().invoke(app, ["run", str(file), "--out", str(tmp_path / "run")])
    assert refused.exit_code != 0  # there is no vLLM, or no GPU, and that is said after it
    assert "to do: " in refused.output
    assert "weights: 1 checkpoints, about 17 GB, 0 GB of them here" in refused.output
    made = make_experiment()  # echoes take nothing
    file.write_text(yaml.safe_dump({**made, "questions": {**made["questions"], "path": "gone"}}))
    small = CliRunner().invoke(app, ["run", str(file), "--out", str(tmp_path / "other")])
    assert "to do: " not in small.output


def test_a_disk_that_is_too_small_is_said(tmp_path, monkeypatch) -> None:
    from bon.planning import model_sizes

    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    full = model_sizes.shutil._ntuple_diskusage(10, 10, 10_000_000_000)  # type: ignore[attr-defined]
    monkeypatch.setattr(model_sizes.shutil, "disk_usage", lambda _: full)
    plan = make_plan(read_experiment(Path("reproduce-24gb")), here=True)
    assert any("10 GB free -> set HF_HOME" in warning for warning in plan.warnings)
    (tmp_path / "hf" / "hub" / "models--Qwen--Qwen2.5-VL-7B-Instruct").mkdir(parents=True)
    again = make_plan(read_experiment(Path("reproduce-24gb")), here=True)
    assert again.weights is not None
    assert again.weights.here > 16e9


def stand_in(ref: dict[str, Any], models: bool) -> dict[str, Any]:
    """A rewarder of the experiment, under its name, kind and rule, without its weights."""
    name = ref["card"]
    card = load_rewarder({**ref, "prompt": ""}, Path()).card
    if card.kind == "ensemble":
        return ref
    if models and name in MINIATURE:
        place = {"group": "miniature", "actors": 1}
        return {"card": MINIATURE[name], "name": name, "placement": place}
    reply = SAID.get(name, PAIRWISE if card.kind == "pairwise" else "{choice}")
    text = "|".join(f"{{{{ {each} }}}}" for each in NAMES[card.kind])
    asked: dict[str, Any] = {"prompt": {"text": text} if card.verdict or card.score else ""}
    if card.kind == "pointwise":  # an echo writes words, not numbers
        asked["score"] = {"yes": ["Yes"], "no": ["No"]}
    return {
        "card": name,
        "engine": "echo",
        "engine_args": {"accuracy": 0.55 + 0.02 * len(name) / 2, "reply": reply},
        "placement": {"group": "echo", "gpus": 0},
        **asked,
    }


def small(name: str, home: Path, models: bool) -> Path:
    """The shipped experiment with stand-ins and replicas, as a file of one's own."""
    raw = yaml.safe_load(shipped_experiments()[name].read_text())
    sources = {
        "vl_rewardbench": home / "pairs.parquet",
        "multimodal_rewardbench": home / "mmrb" / "data" / "all_data.json",
        "mmrb2": home / "mmrb2",
    }
    for spec in raw["pairs"]:
        spec.pop("revision", None)
        spec |= {"path": str(sources[spec["benchmark"]]), "limit": 6}
    raw["questions"] = {"benchmark": "mmmu_pro", "path": str(home / "questions.parquet")}
    place = {"group": "miniature", "actors": 1}
    tiny = [{"card": f"mini-policy-{letter}", "n": 8, "placement": place} for letter in "ab"]
    echo = {"engine": "echo", "placement": {"group": "echo", "gpus": 0}, "prompt": "bare"}
    raw["policies"] = tiny if models else [{**echo, "card": p["card"]} for p in raw["policies"]]
    raw["rewarders"] = [stand_in(ref, models) for ref in raw["rewarders"]]
    raw["analysis"] = {"bootstrap": 100}
    raw["cluster"] = {"max_error_share": 0.5}  # so few rows that one kind's errors weigh more
    path = home / f"{name}.yaml"
    path.write_text(yaml.safe_dump(raw))
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MMMU-Pro and VL-RewardBench from the miniature's world, and the other two in their layout."""
    folder = tmp_path_factory.mktemp("reproduce")
    write(folder, num_questions=QUESTIONS, num_pairs=6)
    rows = pq.read_table(folder / "pairs.parquet").to_pylist()
    for place in (folder / "mmrb" / "data" / "images", folder / "mmrb2" / "images"):
        place.mkdir(parents=True)
    categories = ["safety", "reasoning", "vqa", "knowledge"]
    reward_bench, pairs = [], []
    for number, row in enumerate(rows):
        file = f"images/{number}.png"
        for base in (folder / "mmrb" / "data", folder / "mmrb2"):
            (base / file).write_bytes(row["image"]["bytes"])
        best = row["human_ranking"].index(0)
        reward_bench.append(
            {
                "ID": f"pair_{number}", "Text": row["query"], "Image": file,
                "Output1": row["response"][0], "Output2": row["response"][1],
                "Better": f"Output{best + 1}", "Category": categories[number % 4],
            }
        )  # fmt: skip
        first, second = row["response"]
        pairs.append(
            {
                "id": f"blink_{number}", "prompt_source": "blink", "chosen": "AB"[best],
                "prompt_content": [["image", file], ["text", row["query"]]],
                "response_a": {"response_content": [["text", first]]},
                "response_b": {"response_content": [["image", file], ["text", second]]},
            }
        )  # fmt: skip
    (folder / "mmrb" / "data" / "all_data.json").write_text(json.dumps(reward_bench))
    (folder / "mmrb2" / "reasoning.json").write_text(json.dumps({"pairs": pairs}))
    return folder


def bon(*arguments: str) -> str:
    shown = CliRunner().invoke(app, list(arguments))
    assert shown.exit_code == 0, shown.output
    return shown.output


@pytest.mark.long
@pytest.mark.model
@pytest.mark.ray
@pytest.mark.usefixtures("one_ray")
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "models"), [("reproduce", True), ("reproduce-24gb", False)])
def test_it_runs_from_pilot_to_release(name: str, models: bool, home: Path, tmp_path: Path) -> None:
    file, run = small(name, home, models), tmp_path / "run"
    if models:
        piloted = bon("run", str(file), "--out", str(run), "--pilot", "20")
        assert "report: " in piloted
        with Store(run, readonly=True) as store:
            assert store.count("candidates") == 2 * QUESTIONS * 8
            before = store.count("judgements")
    bon("run", str(file), "--out", str(run), "--quiet")
    with Store(run, readonly=True) as store:
        assert store.count("candidates") == 2 * QUESTIONS * 8
        assert not models or store.count("judgements") > before
        failed = store.query("SELECT rewarder, error FROM judgements WHERE outcome = 'error'")
    # A likelihood is of text alone: responses of MMRB2 that hold images are its errors.
    alone = ("qwen2.5-vl-7b-likelihood", "the last message must be the assistant's, of text alone")
    assert [(who, why[-len(alone[1]) :]) for who, why in failed] == [alone] * (6 if models else 0)
    results, setup = read_results(run), read_experiment(file)
    rewarders = {loaded.card.name for loaded in (*setup.rewarders, *setup.ensembles)}
    seen = {(found.benchmark, found.rewarder) for found in results.benchmarks}
    benchmarks = ("vl_rewardbench", "multimodal_rewardbench", "mmrb2")
    assert seen >= {(benchmark, who) for benchmark in benchmarks for who in rewarders}
    pairs = {(found.benchmark, found.policy) for found in results.correlations}
    policies = [loaded.card.name for loaded in setup.policies]
    assert pairs >= {(benchmark, policy) for benchmark in benchmarks for policy in policies}
    out = tmp_path / "pool"
    bon("export", str(run), "--format", "pool", "--out", str(out))
    assert (run / "report.html").stat().st_size > 100_000
    assert (out / "README.md").is_file()
