"""What public stores, pages and viewers read: the numbers of results.json, in their forms."""

import importlib.util
import json
import os
from pathlib import Path

import pytest

from bon.analysis.results import Results
from bon.core.errors import BonError
from bon.experiment.cards import load_rewarder
from bon.exports import export_run
from bon.exports.contents import model_id
from bon.exports.every_eval_ever import is_remote
from bon.exports.preferences import Preferences


@pytest.fixture(scope="module")
def results(run) -> Results:
    return Results.model_validate_json((run / "results.json").read_text())


@pytest.fixture(scope="module")
def logs(run, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("eee")
    export_run(run, folder, "every-eval-ever", organisation="unknown")
    return folder


def reports(folder: Path) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted(folder.rglob("*.json"))]


def test_every_eval_ever_says_what_the_results_say(logs, results):
    made = {one["model_info"]["additional_details"]["card"]: one for one in reports(logs)}
    assert set(made) == {"judge", "critic", "head"}
    for rewarder, log in made.items():
        scores = {
            one["evaluation_result_id"]: one["score_details"] for one in log["evaluation_results"]
        }
        on_pairs = next(b for b in results.benchmarks if b.rewarder == rewarder)
        headline = next(b for b in results.best_of_n if b.rewarder == rewarder and b.headline)
        for key, estimate in {
            "vl_rewardbench.macro": on_pairs.macro,
            "vl_rewardbench.overall": on_pairs.overall,
            "mmmu_pro.policy.bon4.accuracy": headline.accuracy,
            "mmmu_pro.policy.bon4.gain": headline.gain,
        }.items():
            assert scores[key]["score"] == estimate.value
            interval = scores[key]["uncertainty"]["confidence_interval"]
            assert (interval["lower"], interval["upper"]) == (estimate.low, estimate.high)
        assert log["source_metadata"]["evaluator_relationship"] == "first_party"
        assert all(
            one["source_data"]["source_type"] == "other" for one in log["evaluation_results"]
        )


def test_every_eval_ever_passes_its_schemas(logs):
    """Its package has them (Python 3.12), or a folder that BON_EEE_SCHEMAS names."""
    jsonschema = pytest.importorskip("jsonschema")
    found = importlib.util.find_spec("every_eval_ever")
    folder = Path(os.environ.get("BON_EEE_SCHEMAS", ""))
    if found is not None and found.origin:
        folder = Path(found.origin).parent / "schemas"
    if not (folder / "eval.schema.json").is_file():
        pytest.skip("the schemas are not here: pip install every-eval-ever, or BON_EEE_SCHEMAS")
    whole = json.loads((folder / "eval.schema.json").read_text())
    for log in reports(logs):
        jsonschema.validate(log, whole)


def test_the_same_run_gives_the_same_files(run, logs, tmp_path):
    export_run(run, tmp_path, "every-eval-ever", organisation="unknown")
    for path in tmp_path.rglob("*.json*"):
        assert path.read_bytes() == (logs / path.relative_to(tmp_path)).read_bytes()


def test_what_holds_no_training_rows_says_so(run, tmp_path):
    with pytest.raises(BonError, match="release holds no training rows"):
        export_run(run, tmp_path, "release", Preferences())


@pytest.mark.parametrize(
    ("changes", "developer", "remote"),
    [
        ({"model": "Qwen/Qwen2.5-VL-7B-Instruct"}, "Qwen", False),
        ({"model": "/home/me/checkpoints/mine"}, "unknown", False),
        ({"model": "../mine"}, "unknown", False),
        ({"model": "imported:0123"}, "unknown", False),
    ],
)
def test_no_path_of_this_machine_names_a_model(changes, developer, remote):
    raw = {"name": "mine", "kind": "scalar", "engine": "transformers", **changes}
    card = load_rewarder(raw, Path.cwd()).card
    assert model_id(card)[0] == developer
    assert "/" not in model_id(card)[1]
    assert is_remote(card) == remote
