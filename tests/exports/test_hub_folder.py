"""The folder that publishes a whole run."""

from pathlib import Path

import pytest

from bon.experiment.cards import load_rewarder
from bon.exports import export_run
from bon.exports.contents import model_id
from bon.storage.store import Store


@pytest.fixture(scope="module")
def released(run, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("hub-folder")
    export_run(run, out, "hub-folder")
    return out


def test_writing_it_again_changes_nothing(run, released, tmp_path):
    before = {path: path.read_bytes() for path in released.rglob("*.json*")}
    export_run(run, released, "hub-folder")
    assert {path: path.read_bytes() for path in released.rglob("*.json*")} == before


def test_no_text_of_a_pair_goes_out(run, released):
    with Store(run, readonly=True) as store:
        texts = [text.encode() for _, pair in store.pairs() for text in pair.responses]
    files = [path.read_bytes() for path in released.rglob("*") if path.is_file()]
    assert not any(text in data for data in files for text in texts)


@pytest.mark.parametrize(
    ("model", "developer"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen"),
        ("/home/me/checkpoints/mine", "unknown"),
        ("../mine", "unknown"),
        ("imported:0123", "unknown"),
    ],
)
def test_no_path_of_this_machine_names_a_model(model, developer):
    raw = {"name": "mine", "kind": "scalar", "engine": "transformers", "model": model}
    card = load_rewarder(raw, Path.cwd()).card
    assert model_id(card)[0] == developer
    assert "/" not in model_id(card)[1]
