"""Tiny Qwen2.5-VL models: their shape, their initialisation and a fast forward for training.

Everything here computes what transformers' own forward computes (a test compares them); it is
faster because every image has 8×8 patches and every prompt begins with its images.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageFilter
from transformers import (
    AttentionInterface,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
)
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import rotate_half
from transformers.vision_utils import get_vision_position_ids

from bon.miniature.scene import CELLS, SIDE_PX, Scene, pixels

PATCH = 14
PATCHES = (SIDE_PX // PATCH) ** 2  # 64 an image, four of them merge into one token
MEAN = np.array([0.48145466, 0.4578275, 0.40821073], np.float32)
STD = np.array([0.26862954, 0.26130258, 0.27577711], np.float32)
HEAD = 3  # tokens before the first image: <|im_start|> user \n


@dataclass(frozen=True, slots=True)
class Shape:
    """The text tower's size; vision: the hidden size and depth of the vision tower."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    mlp: int
    vision: tuple[int, int] = (64, 2)


def build(shape: Shape, tokenizer: Any) -> Qwen2_5_VLForConditionalGeneration:
    """A model of the given shape with transformers' own initialisation."""
    token = tokenizer.convert_tokens_to_ids
    half = shape.hidden // shape.heads // 2
    wide = 3 * half // 8
    width, depth = shape.vision
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": shape.hidden,
            "intermediate_size": shape.mlp,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "max_position_embeddings": 2048,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e6,
                "mrope_section": [half - 2 * wide, wide, wide],
            },
            "tie_word_embeddings": True,
            "bos_token_id": token("<|endoftext|>"),
            "eos_token_id": token("<|im_end|>"),
            "pad_token_id": token("<|endoftext|>"),
        },
        vision_config={
            "depth": depth,
            "hidden_size": width,
            "intermediate_size": 2 * width,
            "num_heads": 2,
            "patch_size": PATCH,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "window_size": SIDE_PX,
            "out_hidden_size": shape.hidden,
            "fullatt_block_indexes": [depth - 1],
        },
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=True,
    )
    model = Qwen2_5_VLForConditionalGeneration(config)
    model.generation_config.bos_token_id = token("<|endoftext|>")
    model.generation_config.eos_token_id = token("<|im_end|>")
    model.generation_config.pad_token_id = token("<|endoftext|>")
    return model


@torch.no_grad()  # type: ignore[untyped-decorator]
def initialise(model: Qwen2_5_VLForConditionalGeneration, seed: int) -> None:
    """ "Mimetic" initialisation, with the circuits that lookup needs laid in from the start.

    With the usual std of .02 a model this small stays at chance on value → letter for more than
    1,000 steps; with this it passes .9 within 150. Three things matter: embeddings that are far
    apart, heads of layer 0 that look one and two tokens back, and heads of later layers that
    look for what is like themselves (equal query and key weights).
    """
    torch.manual_seed(seed)
    text = model.model.language_model
    for name, weight in model.model.named_parameters():
        narrow = any(part in name for part in ("o_proj", "down_proj", "attn.proj"))
        if "embed_tokens" in name:
            torch.nn.init.normal_(weight, std=0.3)
        elif "visual" in name and weight.ndim > 2:
            torch.nn.init.normal_(weight, std=0.03)
        elif weight.ndim >= 2:
            torch.nn.init.normal_(weight, std=weight.shape[1] ** -0.5 * (0.25 if narrow else 1.0))
        elif "bias" in name:
            torch.nn.init.zeros_(weight)
    config = model.config.text_config
    size = config.hidden_size // config.num_attention_heads
    group = config.num_attention_heads // config.num_key_value_heads
    frequencies = text.rotary_emb.inv_freq[:5]  # the fast ones tell neighbours apart
    first = text.layers[0].self_attn
    for head, back in enumerate((1, 2)):
        key = head // group
        rows, key_rows = slice(head * size, (head + 1) * size), slice(key * size, (key + 1) * size)
        first.q_proj.weight[rows] *= 0.3
        first.q_proj.bias[rows][:5] = 5.5 * torch.cos(-back * frequencies)
        first.q_proj.bias[rows][size // 2 : size // 2 + 5] = 5.5 * torch.sin(-back * frequencies)
        if head % group == 0:
            first.k_proj.weight[key_rows] *= 0.3
            first.k_proj.bias[key_rows][:5] = 5.5
    for layer in text.layers[1:]:
        attention = layer.self_attn
        for key in range(config.num_key_value_heads):
            rows = slice(key * group * size, (key * group + 1) * size)
            attention.q_proj.weight[rows] = attention.k_proj.weight[key * size : (key + 1) * size]


def load(folder: Path) -> Qwen2_5_VLForConditionalGeneration:
    """A checkpoint in float32, the precision of training."""
    return Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)


def filtered(images: npt.NDArray[np.uint8], image_filter: str) -> npt.NDArray[np.uint8]:
    """The handicaps, as they are applied again when judging. images: [n, 112, 112, 3]."""
    if image_filter in ("", "drop"):
        return images
    return np.stack([np.asarray(_filter_one(Image.fromarray(i), image_filter)) for i in images])


def _filter_one(image: Image.Image, image_filter: str) -> Image.Image:
    if image_filter == "gray":
        return image.convert("L").convert("RGB")
    kind, _, radius = image_filter.partition(":")
    assert kind == "blur", image_filter
    return image.filter(ImageFilter.GaussianBlur(radius=float(radius)))


def patches(scenes: Sequence[Scene], image_filter: str = "") -> torch.Tensor:
    """The image processor's pixel values without the doubled frame: [images, 64, 588]."""
    images = filtered(pixels(list(scenes)), image_filter)
    scaled = (images.astype(np.float32) / 255 - MEAN) / STD
    # 112 pixels = 4 cells of 2 patches of 14; patches of one cell lie next to each other.
    split = scaled.reshape(-1, 4, 2, PATCH, 4, 2, PATCH, 3).transpose(0, 1, 4, 2, 5, 7, 3, 6)
    return torch.from_numpy(np.ascontiguousarray(split.reshape(-1, PATCHES, 3 * PATCH**2)))


def plain_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention by two matrix products: on a CPU flash attention's backward takes as
    long as the rest of the step. query: [batch, heads, tokens, size] → [batch, tokens, heads,
    size]."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = (query * scaling) @ key.transpose(-1, -2)
    length = query.shape[2]
    scores = scores + torch.full((length, length), -1e4, dtype=scores.dtype).triu(1)
    return (scores.softmax(-1).to(value.dtype) @ value).transpose(1, 2), None


AttentionInterface.register("miniature_plain", plain_attention)


class Fast:
    """A model's forward for right-padded batches whose images all come first."""

    def __init__(self, model: Qwen2_5_VLForConditionalGeneration) -> None:
        self.model = model
        visual = model.model.visual
        where = get_vision_position_ids(torch.tensor([[1, 8, 8]]), 2)
        cos, sin = visual.rotary_pos_emb(torch.zeros(PATCHES, 1), where)
        self.cos, self.sin = cos.view(1, PATCHES, 1, -1), sin.view(1, PATCHES, 1, -1)

    def see(self, patch_values: torch.Tensor) -> torch.Tensor:
        """[images, 64, 588] → [images, 16 cells, hidden]. One window is the whole image."""
        visual = self.model.model.visual
        weight = visual.patch_embed.proj.weight  # [64, 3, 2 frames, 14, 14]; the frames are equal
        x = patch_values @ weight.sum(2).flatten(1).t()
        count = x.shape[0]
        for block in visual.blocks:
            qkv = block.attn.qkv(block.norm1(x)).view(count, PATCHES, 3, block.attn.num_heads, -1)
            query, key, value = qkv.unbind(2)
            query = (query * self.cos + rotate_half(query) * self.sin).transpose(1, 2)
            key = (key * self.cos + rotate_half(key) * self.sin).transpose(1, 2)
            scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
            mixed = scores.softmax(-1).to(value.dtype) @ value.transpose(1, 2)
            x = x + block.attn.proj(mixed.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        return visual.merger(x.flatten(0, 1)).view(count, CELLS, -1)

    def hidden(
        self, ids: torch.Tensor, patch_values: torch.Tensor | None, layers: bool = False
    ) -> Any:
        """ids: [batch, tokens] → last hidden states [batch, tokens, hidden]; with `layers`, the
        tuple of the hidden states of every layer, the normed last one at the end."""
        text = self.model.model.language_model
        embedded = text.embed_tokens(ids)
        image_token = self.model.config.image_token_id
        if patch_values is not None:
            seen = self.see(patch_values).to(embedded.dtype).flatten(0, 1)
            mask = (ids == image_token)[..., None].expand_as(embedded)
            embedded = embedded.masked_scatter(mask, seen)
        out = text(
            inputs_embeds=embedded,
            position_ids=positions((ids == image_token).sum(1) // CELLS, ids.shape[1]),
            attention_mask=None,
            use_cache=False,
            output_hidden_states=layers,
        )
        return out.hidden_states if layers else out.last_hidden_state


def positions(images: torch.Tensor, length: int) -> torch.Tensor:
    """Multimodal rotary positions. images: [batch] image counts → [3, batch, length]."""
    cells = torch.arange(CELLS)
    grid = torch.stack([torch.zeros(CELLS, dtype=torch.long), cells // 4, cells % 4])
    rows = {}
    for count in set(images.tolist()):
        tables, at = [torch.arange(HEAD).expand(3, -1)], HEAD
        for _ in range(count):
            tables += [torch.full((3, 1), at), at + 1 + grid, torch.full((3, 1), at + 5)]
            at += 6
        tables.append((at + torch.arange(length)).expand(3, -1))
        rows[count] = torch.cat(tables, 1)[:, :length]
    return torch.stack([rows[count] for count in images.tolist()], 1)


def parameters(model: torch.nn.Module) -> int:
    """How many weights a model has, tied ones once."""
    return sum(p.numel() for p in model.parameters())


def grid(count: int) -> torch.Tensor:
    """The image processor's image_grid_thw of `count` images: [count, 3]."""
    return torch.tensor([[1, 8, 8]]).expand(count, 3)


def doubled(patch_values: torch.Tensor) -> torch.Tensor:
    """The image processor's pixel_values, both frames of a still: [images · 64, 1176]."""
    flat = patch_values.reshape(-1, 3, 1, PATCH, PATCH).expand(-1, 3, 2, PATCH, PATCH)
    return flat.reshape(-1, 6 * PATCH**2)
