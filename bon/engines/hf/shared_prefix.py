"""Prefix sharing: images and text that prompts have in common go through the model once.

A judge receives many prompts about one question: the same images and question, other responses.
`share` splits prompts with the same images into prefixes, read once each, and tails, read together
on copies of the prefixes' caches. A prompt is cut after an image placeholder, a token of its own in
every tokenizer, and the tokens of the rest are compared with what the processor makes of the whole
prompt, so tokenization never changes.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

MAX_SHARE = 0.8
"""Share prefixes only if at most this share of the tokens would be read."""


@dataclass(frozen=True)
class Tails:
    """Continuations: row i continues prefix `prefixes[i]` with tokens `ids[i]`."""

    prefixes: tuple[int, ...]
    ids: tuple[tuple[int, ...], ...]

    def tensors(self, pad_id: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ids and mask, padded on the left."""
        width = max(map(len, self.ids))
        ids = [[pad_id] * (width - len(row)) + list(row) for row in self.ids]
        mask = [[0] * (width - len(row)) + [1] * len(row) for row in self.ids]
        return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def can_share(model: Any, processor: Any) -> bool:
    """Whether padding between prefix and tail is harmless.

    It is not where a layer attends to a sliding window or across to an image.
    """
    text = model.config.get_text_config()
    layer_types = set(getattr(text, "layer_types", None) or ["full_attention"])
    sliding = getattr(text, "use_sliding_window", True) and getattr(text, "sliding_window", None)
    crossing = getattr(text, "cross_attention_layers", None)
    full = layer_types == {"full_attention"} and not sliding and not crossing
    return full and bool(_image_tokens(processor))


def _image_tokens(processor: Any) -> list[str]:
    names = ("image_token", "boi_token", "start_image_token")
    return [mark for name in names if isinstance(mark := getattr(processor, name, None), str)]


def indices_by_value(values: Sequence[Hashable]) -> list[list[int]]:
    """Group the indices of equal values, in order of appearance."""
    groups: dict[Hashable, list[int]] = {}
    for index, value in enumerate(values):
        groups.setdefault(value, []).append(index)
    return list(groups.values())


def image_prefix(text: str, processor: Any) -> str:
    """Return the text up to the end of its last image placeholder."""
    ends = [text.rindex(mark) + len(mark) for mark in _image_tokens(processor) if mark in text]
    return text[: max(ends, default=0)]


def share(
    texts: Sequence[str],
    image_prefixes: Sequence[str],
    groups: Sequence[Sequence[int]],
    first_ids: Sequence[Sequence[int]],
    tokenizer: Any,
) -> tuple[list[int], Tails, list[int]] | None:
    """Split prompts: tokens per prefix, tails, tokens per prompt.

    None if it does not pay or would change tokens. `groups` holds the indices of prompts with the
    same image prefix, `first_ids` the processor's tokens of each group's first prompt.
    """
    prefixes, lengths = [0] * len(texts), [0] * len(texts)
    tails: list[tuple[int, ...]] = [()] * len(texts)
    prefix_lengths: list[int] = []
    for group, ids in zip(groups, first_ids, strict=True):
        cut = len(image_prefixes[group[0]])
        rests = [texts[index][cut:] for index in group]
        rest_ids = [tuple(row) for row in tokenizer(rests, add_special_tokens=False)["input_ids"]]
        start = len(ids) - len(rest_ids[0])
        if start <= 0 or tuple(ids[start:]) != rest_ids[0]:
            return None
        first, last = min(rest_ids), max(rest_ids)  # what these share, the rows between them share
        width = min(map(len, rest_ids)) - 1
        common = next((i for i in range(width) if first[i] != last[i]), width)
        if common < 1:  # a prefix must end in text, whose position is known
            return None
        for index, row in zip(group, rest_ids, strict=True):
            prefixes[index], tails[index] = len(prefix_lengths), row[common:]
            lengths[index] = start + len(row)
        prefix_lengths.append(start + common)
    read = sum(prefix_lengths) + len(texts) * max(map(len, tails))
    if read > MAX_SHARE * len(texts) * max(lengths):
        return None
    return prefix_lengths, Tails(tuple(prefixes), tuple(tails)), lengths


def truncate_inputs(inputs: dict[str, Any], lengths: Sequence[int], pad_id: int) -> dict[str, Any]:
    """Cut the processor's inputs to `lengths` tokens per row, padded on the left."""
    mask = inputs["attention_mask"].bool()
    shape, width = mask.shape, max(lengths)
    cut = {}
    for name, value in inputs.items():
        if not isinstance(value, torch.Tensor) or value.shape[:2] != shape:
            cut[name] = value
            continue
        padded = value.new_full((shape[0], width), pad_id if name == "input_ids" else 0)
        for row, length in enumerate(lengths):
            padded[row, width - length :] = value[row][mask[row]][:length]
        cut[name] = padded
    return cut


def extend_inputs(kwargs: dict[str, Any], mask: torch.Tensor, cached: int) -> dict[str, Any]:
    """Extend the inputs of generation by text tails of this mask [rows, tokens].

    `kwargs` has one row per tail already, with a cache of `cached` tokens; it has no attention
    mask if none of these is padding.
    """
    rows, width = mask.shape
    extended = dict(kwargs)
    earlier = kwargs.get("attention_mask")
    earlier = mask.new_ones(rows, cached) if earlier is None else earlier
    extended["attention_mask"] = torch.cat([earlier, mask], -1)
    if isinstance(at := kwargs.get("position_ids"), torch.Tensor):
        extended["position_ids"] = torch.cat([at, at[..., -1:] + mask.cumsum(-1)], -1)
    for name in token_types(kwargs):
        types = kwargs[name]
        extended[name] = torch.cat([types, types.new_zeros(rows, width)], -1)
    return extended


def token_types(inputs: dict[str, Any]) -> list[str]:
    """Return the names of inputs that say of every token whether it stands for an image."""
    named = [name for name in inputs if name.endswith("token_type_ids")]
    return [name for name in named if isinstance(inputs[name], torch.Tensor)]
