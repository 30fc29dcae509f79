"""The folder that publishes a whole run."""

import json
from pathlib import Path

import pytest

from bon.experiment.cards import load_rewarder
from bon.exports import export_run, licences
from bon.exports.contents import model_id
from bon.exports.licences import Licence
from bon.storage.store import Store


@pytest.fixture(scope="module")
def released(run, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("hub-folder")
    export_run(run, out, "hub-folder")
    return out


def test_everything_is_in_one_folder(run, released):
    assert {path.name for path in released.iterdir()} >= {
        "README.md", "data", "experiment.yaml",
        "report.html", "results.json",
    }  # fmt: skip
    assert (released / "results.json").read_bytes() == (run / "results.json").read_bytes()
    json.loads((released / "results.json").read_text())
    assert (released / "data" / "judgements.parquet").is_file()


def test_writing_it_again_changes_nothing(run, released, tmp_path):
    before = {path: path.read_bytes() for path in released.rglob("*.json*")}
    export_run(run, released, "hub-folder")
    assert {path: path.read_bytes() for path in released.rglob("*.json*")} == before


def test_no_text_of_a_pair_goes_out(run, released):
    with Store(run, readonly=True) as store:
        texts = [text.encode() for _, pair in store.pairs() for text in pair.responses]
    files = [path.read_bytes() for path in released.rglob("*") if path.is_file()]
    assert not any(text in data for data in files for text in texts)


def test_the_report_stays_where_its_texts_have_to(run, tmp_path, monkeypatch):
    shut = Licence("CC BY-ND", "no derivatives", shareable=False)
    monkeypatch.setattr(licences, "licence_of", lambda name: shut)
    export_run(run, tmp_path, "hub-folder")
    assert not (tmp_path / "report.html").exists()
    assert not (tmp_path / "report_files").exists()
    assert (
        "images of mmmu_pro, and the report, are left out" in (tmp_path / "README.md").read_text()
    )


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
