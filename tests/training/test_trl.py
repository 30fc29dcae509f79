"""TRL trains the same loss as the plain loop, from the files of `bon uplift --export`."""

import asyncio
import io
import json
import sys
from hashlib import sha256
from pathlib import Path

import pytest
import torch
import yaml
from PIL import Image

from bon.core.records import Question
from bon.engines.base import ImagePart, Message
from bon.engines.hf import fine_tuning, train_trl
from bon.engines.hf.engine import TransformersEngine
from bon.engines.processors import load_processor
from bon.engines.settings import TransformersSettings
from bon.engines.tuning import Example, Tuning
from bon.exports.layouts import write_trl
from bon.exports.preferences import Contrast
from tests.engines.tiny_checkpoint import make_checkpoint

pytest.importorskip("trl")
pytest.importorskip("peft")
pytest.importorskip("datasets")

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

RESPONSES = [("A red circle", "Answer: B"), ("No", "Yes Yes"), ("blue square", "The answer is B")]


def png(colour: str) -> ImagePart:
    buffer = io.BytesIO()
    Image.new("RGB", (56, 56), colour).save(buffer, "PNG")
    return ImagePart(sha256(buffer.getvalue()).hexdigest(), buffer.getvalue())


EXAMPLES = [
    Example((Message("user", (png(colour), "What is it?")),), chosen, rejected)
    for colour, (chosen, rejected) in zip(("red", "blue", "green"), RESPONSES, strict=True)
]
SETTINGS = {
    "warmup": 0,
    "accumulate": 1,
    "trainer": {"use_cpu": True, "bf16": False},
}
OWN = {"steps": 1, "batch": 3, "rate": 1e-4, "beta": 0.3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint and data; its template has a newline after a turn, as Qwen's."""
    folder = tmp_path_factory.mktemp("trl")
    make_checkpoint(folder / "policy")
    assert "<|im_end|>\n{% endfor" in load_processor(str(folder / "policy")).chat_template
    question = Question(key="q", id="q", dataset="d", text="", options=(), answer="A")
    rows = [
        Contrast(question, "p", "arm", e.messages, e.chosen, e.rejected or "", 1.0, 0.0)
        for e in EXAMPLES
    ]
    write_trl(rows, folder, "arm", images=True)
    return folder


@pytest.fixture(autouse=True)
def no_video(monkeypatch):
    """Processors load without torchvision, as in the engine."""
    monkeypatch.setattr(train_trl, "load_processor", load_processor)
    # TRL takes the folder tests/vllm for the package.
    monkeypatch.setattr(sys, "path", [p for p in sys.path if Path(p).name != "tests"])


@pytest.fixture
def engine(folder):
    engine = TransformersEngine(TransformersSettings(model=str(folder / "policy"), threads=1))
    yield engine
    asyncio.run(engine.close())


def trainer(folder, method, **settings):
    settings = {"model": str(folder / "policy"), **SETTINGS, **settings}
    return train_trl.make_trainer(
        folder / "arm.parquet", folder / "out" / method, method, 0, OWN, settings
    )


def loss_of(trl_trainer) -> float:
    batch = next(iter(trl_trainer.get_train_dataloader()))
    trl_trainer.model.eval()
    with torch.no_grad():
        return trl_trainer.compute_loss(trl_trainer.model, batch).item()


def moved(model) -> None:
    """Change a policy a little, so that it differs from the reference."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "visual" not in name:
                parameter += 0.02 * torch.randn(parameter.shape, generator=generator)


def test_sft_has_the_same_loss(folder, engine):
    plain = [Example(e.messages, e.chosen) for e in EXAMPLES]
    ours = fine_tuning.batch_loss(engine, plain, Tuning("sft", 1, 3, 0.0), [])
    assert loss_of(trainer(folder, "sft")) == pytest.approx(ours.item(), abs=1e-4)


@pytest.mark.parametrize("lora", [None, {"r": 4, "target_modules": ["q_proj", "v_proj"]}])
def test_dpo_has_the_same_loss(folder, engine, lora):
    reference = fine_tuning.references(engine, EXAMPLES)
    theirs = trainer(folder, "dpo", lora=lora)
    if lora is None:
        moved(theirs.model)
        moved(engine.model)
    else:  # the reference is the model without its adapter
        for name, parameter in theirs.model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.1)
    loss = loss_of(theirs)
    if lora is not None:
        engine.model = theirs.model.merge_and_unload()
    ours = fine_tuning.batch_loss(engine, EXAMPLES, Tuning("dpo", 1, 3, 0.0, beta=0.3), reference)
    assert abs(ours.item() - 0.6931) > 0.005  # not where policy and reference agree
    assert loss == pytest.approx(ours.item(), abs=1e-4)


def test_the_script_trains_merges_and_resumes(folder):
    settings = {
        "model": str(folder / "policy"), "seeds": 1, "arms": ["arm"], **SETTINGS,
        "lora": {"r": 4, "target_modules": ["q_proj", "v_proj"]}, "methods": {"dpo": OWN},
    }  # fmt: skip
    (folder / "arms.yaml").write_text(yaml.safe_dump(settings))
    train_trl.main(folder / "arms.yaml", [])
    out = folder / "checkpoints" / "arm.dpo.0"
    assert not (out / "adapter_config.json").exists()
    assert json.loads((out / "training.json").read_text())["global_step"] == 1
    written = (out / "training.json").stat().st_mtime_ns
    train_trl.main(folder / "arms.yaml", [])
    assert (out / "training.json").stat().st_mtime_ns == written
    engine = TransformersEngine(TransformersSettings(model=str(out), threads=1))
    fine_tuning.log_probabilities(engine, EXAMPLES)
    asyncio.run(engine.close())
