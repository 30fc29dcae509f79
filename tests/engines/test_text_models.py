"""Models of text alone on the transformers engine, compared with transformers itself."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import huggingface_hub  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from tiny_checkpoint import add_tensors, begin_with_bos, image  # noqa: E402
from tiny_text_models import HIDDEN, WRITERS, make_text_model  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

from bon.core.errors import BonError, Unsupported  # noqa: E402
from bon.core.sampling import Sampling  # noqa: E402
from bon.engines import build  # noqa: E402
from bon.engines.base import GenerateRequest, Message, ScoreRequest  # noqa: E402
from bon.engines.checkpoints import checkpoint  # noqa: E402
from bon.engines.hf.fine_tuning import fine_tune  # noqa: E402
from bon.engines.hf.train_trl import load_model  # noqa: E402
from bon.engines.settings import TransformersSettings  # noqa: E402
from bon.engines.tuning import Example, Tuning  # noqa: E402

pytestmark = pytest.mark.model

QUESTIONS = ["Which is red?", "What is the answer to the question? " * 3, "A. or B.?"]
ANSWERS = ["A.", "The answer is B. blue square, not a circle.", "Yes, it is green."]
REQUESTS = [
    ScoreRequest((Message("user", (question,)), Message("assistant", (answer,))))
    for question in QUESTIONS
    for answer in ANSWERS
]


def load(folder: Path, **settings: Any) -> Any:
    return build("transformers", {"model": str(folder), "threads": 1, **settings})


def together(engine: Any, call: Any, requests: list[Any]) -> list[Any]:
    async def all_at_once() -> list[Any]:
        results = await asyncio.gather(*map(call, requests))
        await engine.close()
        return list(results)

    return asyncio.run(all_at_once())


def rewards(folder: Path, **settings: Any) -> list[float]:
    engine = load(folder, **settings)
    return [reward.score for reward in together(engine, engine.reward, REQUESTS)]


def bare(folder: Path, architecture: str) -> tuple[Any, Any]:
    model = getattr(transformers, architecture).from_pretrained(folder, dtype=torch.float32)
    return model.eval(), AutoTokenizer.from_pretrained(folder)


def conversation(tokenizer: Any, request: ScoreRequest, turns: int = 2) -> Any:
    messages = [{"role": m.role, "content": m.parts[0]} for m in request.messages[:turns]]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=turns == 1)
    return tokenizer(text, return_tensors="pt", add_special_tokens=False)["input_ids"]


def logits(folder: Path, architecture: str) -> list[Any]:
    """What transformers' own class gives for every conversation by itself."""
    model, tokenizer = bare(folder, architecture)
    with torch.inference_mode():
        return [model(conversation(tokenizer, request)).logits[0] for request in REQUESTS]


@pytest.mark.parametrize("pad", [True, False], ids=["pad", "no pad"])
@pytest.mark.parametrize("family", WRITERS)
def test_scores_of_a_sequence_classifier_are_transformers_own(
    tmp_path: Path, family: str, pad: bool
) -> None:
    name = f"{family}ForSequenceClassification"
    make_text_model(tmp_path / "rm", name, pad=pad, num_labels=1)
    expected = [float(row[0]) for row in logits(tmp_path / "rm", name)]
    assert rewards(tmp_path / "rm", head="auto") == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("family", WRITERS)
def test_a_language_model_writes_and_reads_what_transformers_does(
    tmp_path: Path, family: str
) -> None:
    folder = make_text_model(tmp_path / "lm", WRITERS[family])
    model, tokenizer = bare(folder, WRITERS[family])
    engine = load(folder)
    greedy = Sampling(temperature=0, max_tokens=8)
    asked = [GenerateRequest((Message("user", (q,)),), greedy, (1,)) for q in QUESTIONS]
    replies = together(engine, engine.generate, asked)
    engine = load(folder)
    likelihoods = together(engine, engine.likelihood, REQUESTS)
    for request, reply in zip(REQUESTS[::3], replies, strict=True):
        prompt = conversation(tokenizer, request, turns=1)
        output = model.generate(prompt, max_new_tokens=8, do_sample=False)[0, prompt.shape[1] :]
        expected = tokenizer.decode(output, skip_special_tokens=True)
        assert reply.samples[0].text == expected
    for request, likelihood in zip(REQUESTS, likelihoods, strict=True):
        start = conversation(tokenizer, request, turns=1).shape[1]
        ids = conversation(tokenizer, request)[:, : start + likelihood.num_tokens]
        with torch.inference_mode():
            logprobs = model(ids).logits[0, start - 1 : -1].log_softmax(-1)
        expected = float(logprobs.gather(-1, ids[0, start:, None]).sum())
        assert likelihood.logprob == pytest.approx(expected, abs=1e-3)
        assert int(ids[0, -1]) == tokenizer.eos_token_id


def test_a_template_without_bos_is_said_where_the_tokenizer_begins_with_it(tmp_path: Path) -> None:
    """transformers' own way from a conversation to tokens begins with none."""
    folder = make_text_model(tmp_path / "lm")
    warnings = []
    for _ in range(2):
        engine = load(folder)

        async def ask(request: ScoreRequest, engine: Any = engine) -> Any:
            return await engine.likelihood(request), engine.info()["warning"]

        ((reply, warning),) = together(engine, ask, REQUESTS[:1])
        warnings.append(warning)
        begin_with_bos(folder)
    assert warnings[0] == ""
    assert "begin without <|endoftext|>" in warnings[1]
    assert "{{ bos_token }}" in warnings[1]
    turns = [{"role": "user", "content": QUESTIONS[0]}]
    prompt = AutoTokenizer.from_pretrained(folder).apply_chat_template(
        turns, add_generation_prompt=True, return_dict=True
    )["input_ids"]
    assert reply.num_prompt_tokens == len(prompt)


@pytest.mark.parametrize("kind", ["Sequence", "Token"])
def test_of_several_outputs_one_must_be_named(tmp_path: Path, kind: str) -> None:
    name = f"Qwen2For{kind}Classification"
    folder = make_text_model(tmp_path / "rm", name, num_labels=2)
    with pytest.raises(BonError, match=r"gives 2 numbers, not one -> .*output: 0"):
        load(folder, head="auto")
    with pytest.raises(BonError, match="no output 2, 'score' gives 2 -> choose from 0 to 1"):
        load(folder, head={"layers": ["auto"], "output": 2})
    expected = [float(row.reshape(-1, 2)[-1, 1]) for row in logits(folder, name)]
    scores = rewards(folder, head={"layers": ["auto"], "output": 1})
    assert scores == pytest.approx(expected, abs=1e-5)


def test_a_value_head_of_a_language_model_is_read(tmp_path: Path) -> None:
    folder = make_text_model(tmp_path / "ppo")
    head = {"v_head.summary.weight": torch.randn(1, HIDDEN), "v_head.summary.bias": torch.ones(1)}
    add_tensors(folder, head)
    model, tokenizer = bare(folder, "Qwen2Model")
    expected = []
    for request in REQUESTS:
        with torch.inference_mode():
            state = model(conversation(tokenizer, request)).last_hidden_state[0, -1]
        expected.append(float(head["v_head.summary.weight"][0] @ state) + 1)
    assert rewards(folder, head="auto") == pytest.approx(expected, abs=1e-5)


REMOTE = """
import torch
from transformers import Qwen2Config, Qwen2Model, Qwen2PreTrainedModel

class TinyForRewardModel(Qwen2PreTrainedModel):
    config_class = Qwen2Config
    def __init__(self, config):
        super().__init__(config)
        self.model = Qwen2Model(config)
        self.v_head = torch.nn.Linear(config.hidden_size, 1, bias=False)
        self.post_init()
    def forward(self, input_ids, attention_mask=None):
        states = self.model(input_ids, attention_mask=attention_mask).last_hidden_state
        return self.v_head(states)[:, -1]
"""


def test_a_reward_model_with_code_of_its_own(tmp_path: Path) -> None:
    """As InternLM2's: a class of its own behind AutoModel, its head named v_head."""
    folder = make_text_model(tmp_path / "own", "Qwen2Model")
    add_tensors(folder, {"v_head.weight": torch.randn(1, HIDDEN)})
    weights = load_file(folder / "model.safetensors")
    renamed = {k if k.startswith("v_head") else f"model.{k}": v for k, v in weights.items()}
    save_file(renamed, folder / "model.safetensors", {"format": "pt"})
    (folder / "modeling_tiny.py").write_text(REMOTE)
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "architectures": ["TinyForRewardModel"],
        "auto_map": {"AutoModel": "modeling_tiny.TinyForRewardModel"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    trusted = {"trust_remote_code": True}
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32, **trusted).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        expected = [float(model(conversation(tokenizer, request))) for request in REQUESTS]
    assert rewards(folder, head="auto", **trusted) == pytest.approx(expected, abs=1e-5)
    with pytest.raises(BonError, match="is a reward model"):
        load(folder, **trusted)


def test_what_a_text_model_cannot_do_is_one_line(tmp_path: Path) -> None:
    folder = make_text_model(tmp_path / "rm", "Qwen2ForSequenceClassification", num_labels=1)
    with pytest.raises(BonError, match=r"scores and writes no text -> kind: scalar .*head: auto"):
        load(folder)
    engine = load(folder, head="auto")
    request = GenerateRequest((Message("user", ("Which?",)),), Sampling(max_tokens=4), (1,))
    with pytest.raises(Unsupported, match="for its reward head alone"):
        together(engine, engine.generate, [request])
    shown = ScoreRequest((Message("user", (image(0), "?")), Message("assistant", ("A",))))
    engine = load(folder, head="auto")
    with pytest.raises(BonError, match="reads text alone, and an item has images -> take a"):
        together(engine, engine.reward, [shown])
    base = make_text_model(tmp_path / "base", template=None)
    with pytest.raises(BonError, match=r"has no chat template -> .*chat_template.jinja"):
        load(base)


def test_what_transformers_knows_is_told_apart_by_its_configuration(tmp_path: Path) -> None:
    """Every architecture that reads images, and every one that writes text alone."""
    from transformers.models.auto import modeling_auto

    without_images = {"evolla", "pi0", "mistral4", "vision-encoder-decoder"}  # or not loadable
    with_images = set(modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES) - without_images
    known = {"phi4_multimodal", "musicgen", "musicgen_melody"}  # of several media
    known |= {"gemma4_assistant"}  # whose default configuration transformers 5.24 refuses
    causal = set(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) - with_images - known
    for names, expected in ((with_images, True), (causal, False)):
        for name in sorted(names):
            config = transformers.CONFIG_MAPPING[name]().to_dict()
            (tmp_path / "config.json").write_text(json.dumps(config, default=str))
            known_as = checkpoint(str(tmp_path))
            assert known_as is not None
            assert known_as.reads_images is expected, name


def test_a_text_policy_is_trained(tmp_path: Path) -> None:
    folder = make_text_model(tmp_path / "lm")
    settings = TransformersSettings(model=str(folder), threads=1)
    examples = [Example((Message("user", (q,)),), "A.", "B.") for q in QUESTIONS]
    tuning = Tuning("dpo", steps=4, batch=3, rate=0.01)
    fine_tune(settings, examples, tuning, tmp_path / "trained")
    engine = load(tmp_path / "trained")
    pairs = [
        ScoreRequest((*example.messages, Message("assistant", (text,))))
        for example in examples
        for text in example.responses
    ]
    logprobs = [row.logprob for row in together(engine, engine.likelihood, pairs)]
    assert all(logprobs[at] > logprobs[at + 1] for at in range(0, len(logprobs), 2))
    assert type(load_model(str(tmp_path / "trained"))).__name__ == "Qwen2ForCausalLM"


def test_a_hub_model_is_known_by_what_is_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert checkpoint("owner/rm") is None
    assert checkpoint("no name of a model") is None
    commit = "0" * 40
    folder = tmp_path / "models--owner--rm"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text(commit)
    make_text_model(folder / "snapshots" / commit, "Qwen2ForSequenceClassification", num_labels=1)
    for revision in (None, commit):
        known = checkpoint("owner/rm", revision)
        assert known is not None
        assert (known.reads_images, known.classifier) == (False, True)
    assert checkpoint("owner/rm", "1" * 40) is None
