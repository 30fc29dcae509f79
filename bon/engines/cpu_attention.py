"""Attention on the CPU.

With one query a sequence, torch's CPU kernel of scaled_dot_product_attention is far slower than two
matrix products. With more it is used, but on grouped queries as they are: where there is a mask,
transformers copies every key and value once per query of a group. `bench_transformers.py` and
`bench_prefixes.py` in tests/bench measure the difference.
"""

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "sdpa_decode_by_matmul"


def use(model: Any) -> None:
    """Switch a loaded model over, if what it uses now is plain sdpa."""
    if getattr(model.config, "_attn_implementation", None) == "sdpa":
        AttentionInterface.register(NAME, _attention)
        AttentionMaskInterface.register(NAME, sdpa_mask)
        model.set_attn_implementation(NAME)


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Scaled dot-product attention; see transformers' AttentionInterface for the shapes."""
    batch, heads, length, width = query.shape
    groups = key.shape[1]
    plain = attention_mask is None or attention_mask.shape[:3] == (batch, 1, 1)
    biased = kwargs.get("position_bias") is not None
    if length != 1 and attention_mask is not None and groups < heads and not biased:
        masked = scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, scale=scaling, enable_gqa=True
        )
        return masked.transpose(1, 2).contiguous(), None
    if length != 1 or not plain or biased:
        output: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
        return output
    grouped = query.reshape(batch, groups, heads // groups, width)
    scores = grouped @ key.transpose(-1, -2) * (width**-0.5 if scaling is None else scaling)
    if attention_mask is not None:
        if attention_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
        else:
            scores = scores + attention_mask
    weights = scores.softmax(-1)
    return (weights @ value).reshape(batch, 1, heads, -1), None
