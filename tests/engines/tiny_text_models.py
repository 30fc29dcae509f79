"""Tiny random checkpoints of text alone: language models and classes of reward models."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tiny_architectures import ROPE, TEXT_CONFIG
from tiny_checkpoint import make_tokenizer

HIDDEN = TEXT_CONFIG["hidden_size"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (  # a content of parts is refused, as by Qwen's
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
GPT2 = {"n_embd": HIDDEN, "n_layer": 2, "n_head": 4, "n_positions": 1024, "initializer_range": 0.12}
FAMILIES: dict[str, dict[str, Any]] = {
    "Qwen2": {**TEXT_CONFIG, "rope_parameters": ROPE},
    "Qwen3": {**TEXT_CONFIG, "rope_parameters": ROPE},
    "Llama": {**TEXT_CONFIG, "rope_parameters": ROPE},
    "Gemma2": {**TEXT_CONFIG, "query_pre_attn_scalar": 16, "sliding_window": 64},
    "GptOss": {
        **{**TEXT_CONFIG, "sliding_window": 16, "rope_parameters": ROPE},
        **{"num_local_experts": 4, "num_experts_per_tok": 2},
    },
    "GPT2": GPT2,
}
WRITERS = {
    "GPT2": "GPT2LMHeadModel",
    **{name: f"{name}ForCausalLM" for name in FAMILIES if name != "GPT2"},
}


def make_text_model(
    folder: Path,
    architecture: str = "Qwen2ForCausalLM",
    *,
    template: str | None = TEMPLATE,
    pad: bool = True,
    **config: Any,
) -> Path:
    """Write a checkpoint of any class of FAMILIES; without `pad`, no file names a pad token."""
    torch.manual_seed(0)
    tokenizer = make_tokenizer(SPECIAL, pad_token="<|endoftext|>" if pad else None)
    tokenizer.chat_template = template
    family = next(name for name in FAMILIES if architecture.startswith(name))
    made = getattr(transformers, f"{family}Config")(
        **FAMILIES[family]
        | {"vocab_size": len(tokenizer), "bos_token_id": 0, "eos_token_id": 2}
        | {"pad_token_id": 0 if pad else None}
        | config
    )
    model = getattr(transformers, architecture)(made).eval()
    if (head := getattr(model, "score", None)) is not None:
        torch.nn.init.normal_(head.weight, std=0.5)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    assert (json.loads((folder / "config.json").read_text()).get("pad_token_id") is None) is not pad
    return folder
