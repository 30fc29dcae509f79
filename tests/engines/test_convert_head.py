"""`bon convert-head`: the scores of before, under a name that vLLM and transformers read."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tiny_architectures import make_architecture
from tiny_checkpoint import add_tensors, image, make_checkpoint
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.errors import BonError
from bon.engines import build
from bon.engines.base import Message, ScoreRequest
from bon.engines.hf.convert_head import HEAD_FILE, convert_head

pytestmark = pytest.mark.model

HIDDEN = 128
REQUESTS = [
    ScoreRequest(
        (Message("user", (*[image(k) for k in range(n)], "Which?")), Message("assistant", ("B.",)))
    )
    for n in (0, 1, 2)
]


def value_head(folder: Path, bias: float = 0.75, hidden: int = HIDDEN) -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    return {
        "v_head.summary.weight": torch.randn(1, hidden) / 8,
        "v_head.summary.bias": torch.tensor([bias]),
    }


def scores(folder: Path) -> list[float]:
    engine: Any = build("transformers", {"model": str(folder), "head": "auto"})

    async def ask() -> list[float]:
        found = await asyncio.gather(*(engine.reward(request) for request in REQUESTS))
        await engine.close()
        return [reward.score for reward in found]

    return asyncio.run(ask())


def beside(folder: Path) -> None:
    save_file(value_head(folder), folder / "value_head.safetensors")


def inside(folder: Path) -> None:
    add_tensors(folder, value_head(folder))


def in_shards(folder: Path) -> None:
    """The head in the second of two shards, among other weights."""
    whole = load_file(folder / "model.safetensors")
    names = sorted(whole)
    parts = {
        "model-00001-of-00002.safetensors": names[:20],
        "model-00002-of-00002.safetensors": names[20:],
    }
    weight_map = {}
    for file, inside_it in parts.items():
        tensors = {name: whole[name] for name in inside_it}
        if file.startswith("model-00002"):
            tensors |= value_head(folder)
        save_file(tensors, folder / file, {"format": "pt"})
        weight_map |= dict.fromkeys(tensors, file)
    (folder / "model.safetensors").unlink()
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize("layout", [beside, inside, in_shards])
def test_scores_are_those_of_before(tmp_path: Path, layout: Any) -> None:
    source = make_checkpoint(tmp_path / "source")
    layout(source)
    before = {file.name: file.read_bytes() for file in source.iterdir()}
    result = CliRunner().invoke(app, ["convert-head", str(source), str(tmp_path / "target")])
    assert result.exit_code == 0, result.output
    assert "v_head.summary of" in result.stdout
    assert "language_model.score of" in result.stdout
    assert scores(tmp_path / "target") == pytest.approx(scores(source), abs=1e-5)
    assert {file.name: file.read_bytes() for file in source.iterdir()} == before
    # Nothing that vLLM would not know, and no weight twice or left out.
    names: list[str] = []
    for file in (tmp_path / "target").glob("*.safetensors"):
        with safe_open(file, "pt") as tensors:
            names += tensors.keys()
    assert not any(name.startswith("v_head") for name in names)
    index = json.loads((tmp_path / "target" / "model.safetensors.index.json").read_text())
    assert sorted(index["weight_map"]) == sorted(names)
    assert json.loads((tmp_path / "target" / "config.json").read_text())["num_labels"] == 1


def test_sequence_classification_of_transformers_reads_it(
    tmp_path: Path,
) -> None:
    from transformers import AutoModelForSequenceClassification, AutoProcessor

    source = make_architecture("gemma3", tmp_path / "source")
    hidden = json.loads((source / "config.json").read_text())["text_config"]["hidden_size"]
    save_file(value_head(source, 0.0, hidden), source / "value_head.safetensors")
    converted = convert_head(source, tmp_path / "target")
    assert converted.name == "score"
    model, report = AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "target", output_loading_info=True
    )
    assert not report["missing_keys"]
    processor = AutoProcessor.from_pretrained(source)
    turns = [{"role": "user", "content": [{"type": "text", "text": "What is two and two?"}]},
             {"role": "assistant", "content": [{"type": "text", "text": "Four."}]}]  # fmt: skip
    text = processor.apply_chat_template(turns, tokenize=False)
    tokenizer = getattr(processor, "tokenizer", processor)
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=False)
    with torch.inference_mode():
        score = float(model.eval()(**ids).logits[0, 0])
    assert score == pytest.approx(converted.before[0], abs=1e-4)


def test_what_cannot_be_converted_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    source = make_checkpoint(tmp_path / "source")
    with pytest.raises(BonError, match="holds no checkpoint -> give the folder"):
        convert_head(tmp_path / "nowhere", tmp_path / "target")
    with pytest.raises(BonError, match="has no reward head under a usual name"):
        convert_head(source, tmp_path / "target")
    add_tensors(source, {"rank.weight": torch.randn(3, HIDDEN)})
    with pytest.raises(BonError, match="gives 3 numbers, not one"):
        convert_head(source, tmp_path / "target", "rank")
    with pytest.raises(BonError, match="exists -> name a new folder"):
        convert_head(source, source)
    assert [one.name for one in tmp_path.iterdir()] == ["source"]
    inside(source)
    assert convert_head(source, tmp_path / "target").source == "v_head.summary"
    assert (tmp_path / "target" / HEAD_FILE).is_file()
