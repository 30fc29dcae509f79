"""Makes a random Qwen2.5-VL of about a million parameters, with its own tokenizer.

Real architecture, real files, loads like any Hugging Face model. `python tiny_checkpoint.py DIR`
writes one, for trying engines by hand.
"""

import io
import json
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoTokenizer,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
)

from bon.engines.base import ImagePart

SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{% if p.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXT = (
    "Question: what is in the picture? Options: A. red circle B. blue square C. green star. "
    "Answer: A. The answer is B. Overall Judgment: Answer 1 is better. Yes No user assistant "
) * 4


def make_checkpoint(
    folder: Path, seed: int = 0, head: bool = False, added: Sequence[str] = ()
) -> Path:
    """Write a checkpoint; `head` adds a linear reward head as vLLM reads it, `added` tokens."""
    torch.manual_seed(seed)
    media = {"image_token": "<|image_pad|>", "video_token": "<|video_pad|>"}
    tokenizer = make_tokenizer(SPECIAL, pad_token="<|endoftext|>", extra_special_tokens=media)
    tokenizer.chat_template = TEMPLATE
    tokenizer.add_tokens(list(added))
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in SPECIAL}
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 128,
            "intermediate_size": 384,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 2048,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e6,
                "mrope_section": [4, 6, 6],
            },
            "bos_token_id": ids["<|endoftext|>"],
            "eos_token_id": ids["<|im_end|>"],
            "pad_token_id": ids["<|endoftext|>"],
            # Larger than usual, so that a random model has opinions and greedy has no near ties.
            "initializer_range": 0.12,
        },
        vision_config={
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_heads": 2,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "window_size": 112,
            "out_hidden_size": 128,
            "fullatt_block_indexes": [1],
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=False,
    )
    model = Qwen2_5_VLForConditionalGeneration(config).eval()
    model.generation_config.eos_token_id = ids["<|im_end|>"]
    model.generation_config.pad_token_id = ids["<|endoftext|>"]
    # A model's own sampling defaults must never leak into an engine: these would make it greedy.
    model.generation_config.do_sample = True
    model.generation_config.top_k = 1
    model.generation_config.repetition_penalty = 5.0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(
        json.dumps(
            {
                "image_processor_type": "Qwen2VLImageProcessor",
                "processor_class": "Qwen2_5_VLProcessor",
                "patch_size": 14,
                "merge_size": 2,
                "temporal_patch_size": 2,
                "size": {"shortest_edge": 3136, "longest_edge": 1003520},
                "image_mean": [0.5, 0.5, 0.5],
                "image_std": [0.25, 0.25, 0.25],
            }
        )
    )
    if head:
        add_tensors(folder, {"language_model.score.weight": torch.randn(1, 128)})
        settings = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**settings, "num_labels": 1}))
    return folder


def add_tensors(folder: Path, tensors: dict[str, torch.Tensor]) -> None:
    """Put further tensors into a checkpoint, as a reward head is stored."""
    weights = folder / "model.safetensors"
    save_file({**load_file(weights), **tensors}, weights, {"format": "pt"})


def begin_with_bos(folder: Path) -> None:
    """Let the tokenizer begin every text with a token that the chat template does not write."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.bos_token = token = "<|endoftext|>"
    start = (token, tokenizer.bos_token_id)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(f"{token} $A", None, [start])
    tokenizer.save_pretrained(folder)
    assert AutoTokenizer.from_pretrained(folder)("Yes")["input_ids"][0] == start[1]


def image(seed: int, size: tuple[int, int] = (112, 112)) -> ImagePart:
    """A small picture of four coloured quarters."""
    picture = Image.new("RGB", size)
    for corner in range(4):
        colour = tuple(sha256(f"{seed} {corner}".encode()).digest()[:3])
        x, y = (corner % 2) * size[0] // 2, (corner // 2) * size[1] // 2
        picture.paste(colour, (x, y, x + size[0] // 2, y + size[1] // 2))
    encoded = io.BytesIO()
    picture.save(encoded, "PNG")
    return ImagePart(sha256(encoded.getvalue()).hexdigest(), encoded.getvalue())


def make_tokenizer(
    first: Sequence[str], last: Sequence[str] = (), **options: Any
) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer of TEXT, with special tokens before and after what it learns."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=first,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.add_special_tokens([*last])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        additional_special_tokens=[*first, *last],
        **options,
    )


if __name__ == "__main__":
    print(make_checkpoint(Path(sys.argv[1]), head="--head" in sys.argv))
