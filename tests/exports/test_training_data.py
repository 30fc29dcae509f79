"""What trainers read: pairs with images that load."""

import shutil
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.errors import BonError
from bon.exports import export_run
from bon.exports.preferences import Preferences, _pairs
from bon.miniature import data
from bon.storage.store import Store

CHECKPOINT = data.checkpoint("policy-a")


def loaded(path: Path, cache: Path):
    """A file as `datasets` gives it to a trainer."""
    datasets = pytest.importorskip("datasets")
    kind = "parquet" if path.suffix == ".parquet" else "json"
    return datasets.load_dataset(kind, data_files=str(path), split="train", cache_dir=str(cache))


def test_parquet_loads_with_images_and_the_prompt_that_the_policy_saw(run, tmp_path):
    (path,) = export_run(run, tmp_path, "trl")
    rows = loaded(path, tmp_path / "cache")
    with Store(run, readonly=True) as store:
        asked = {question.id: question for question in store.questions()}
    assert len(rows) > 2
    for row in rows:
        question = asked[row["question"]]
        (turn,) = row["prompt"]
        *places, text = turn["content"]
        assert all(place["type"] == "image" for place in places)
        assert len(places) == len(row["images"]) == len(question.images) > 0
        for found, known in zip(row["images"], question.images, strict=True):
            assert found.tobytes() == Image.open(known.path).tobytes()
        assert text["text"].startswith(question.text)
        assert text["text"].endswith("Say Answer: LETTER.")
        (better,), (worse,) = row["chosen"], row["rejected"]
        assert better["role"] == "assistant"
        assert better["content"][0]["text"].endswith(question.answer)
        assert not worse["content"][0]["text"].endswith(question.answer)
        assert row["margin"] == row["chosen_score"] - row["rejected_score"] == 1


def test_the_miniatures_own_files_load_with_images(tmp_path):
    questions, pairs = data.write(tmp_path, num_questions=2, num_pairs=2)
    assert loaded(questions, tmp_path / "cache")[0]["image_1"].size == (112, 112)
    assert loaded(pairs, tmp_path / "cache")[0]["image"].size == (112, 112)


@pytest.mark.parametrize(
    ("form", "wanted", "said"),
    [
        ("tlr", {}, "did you mean 'trl'"),
        ("pool", {}, "pool holds no training rows"),
        ("trl", {"by": "nobody"}, "no rewarder 'nobody'"),
    ],
)
def test_what_cannot_be_trained_on_is_one_line(run, tmp_path, form, wanted, said):
    with pytest.raises(BonError, match=said) as refused:
        export_run(run, tmp_path / "new" / "out", form, Preferences(**wanted))
    assert "\n" not in str(refused.value)
    assert [*tmp_path.iterdir()] == []


def test_formats_do_not_overwrite_each_other(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    written = [
        CliRunner().invoke(app, ["export", str(tmp_path / "run"), "--format", form]).stdout.split()
        for form in ("trl", "pool", "parquet")
    ]
    every = [path for paths in written for path in paths]
    assert len(set(every)) == len(every) > 10
    assert all(Path(path).exists() for path in every)
    assert str(tmp_path / "run" / "export" / "trl" / "train.parquet") in every


def test_a_file_of_other_contents_is_not_overwritten_without_a_word(run, tmp_path):
    out = tmp_path / "out"
    (path,) = export_run(run, out, "trl")
    before = path.read_bytes()
    assert export_run(run, out, "trl") == [path]  # the same again
    path.write_bytes(b"mine")
    with pytest.raises(BonError, match=r"train\.parquet exists with other contents.*--replace"):
        export_run(run, out, "trl")
    assert path.read_bytes() == b"mine"
    export_run(run, out, "trl", replace=True)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.glob(".*")] == []


scores = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=2), st.integers(0, 4).map(lambda i: i / 10)
)


@given(scores)
def test_pairs_are_those_that_differ(scores):
    every = _pairs(scores, Preferences(pairs="all"))
    differ = [(a, b) for a, b in combinations(scores, 2) if scores[a] != scores[b]]
    assert {frozenset(pair) for pair in every} == {frozenset(pair) for pair in differ}
    assert len(every) == len(differ)
    assert all(scores[better] > scores[worse] for better, worse in every)
    best = _pairs(scores, Preferences())
    assert best == [] if not every else len(best) == 1
    for better, worse in best:
        assert scores[better] == max(scores.values())
        assert scores[worse] == min(scores.values())


@pytest.mark.model
@pytest.mark.slow
def test_trl_trains_on_the_file_as_it_is(run, tmp_path):
    """Two steps of DPO of the miniature's policy; its tokens and pictures are those of the file."""
    trl = pytest.importorskip("trl", reason="pip install trl accelerate")
    torch = pytest.importorskip("torch")
    from transformers import AutoModelForImageTextToText, AutoProcessor

    (path,) = export_run(run, tmp_path, "trl", Preferences("critic"))
    trainer = trl.DPOTrainer(
        model=AutoModelForImageTextToText.from_pretrained(CHECKPOINT, dtype=torch.float32),
        processing_class=AutoProcessor.from_pretrained(CHECKPOINT),
        train_dataset=loaded(path, tmp_path / "cache"),
        args=trl.DPOConfig(
            output_dir=str(tmp_path / "out"),
            per_device_train_batch_size=2,
            max_steps=2,
            logging_steps=1,
            use_cpu=True,
            bf16=False,
            report_to=[],
            save_strategy="no",
            max_length=None,
            gradient_checkpointing=False,
        ),
    )
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert len(losses) == 2
    assert losses[1] != pytest.approx(losses[0], abs=1e-6)  # it learnt
