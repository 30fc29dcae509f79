"""What a model makes of texts that are there already: likelihoods, and states for reward heads."""

from collections.abc import Sequence
from typing import Any

import torch

from bon.engines.decoding import read
from bon.engines.shared_prefix import Tails, beginnings


def likelihoods(
    model: Any, inputs: dict[str, Any], responses: Sequence[Sequence[int]], pad_id: int
) -> list[float]:
    """Sums of log-probabilities: prompts padded on the left, responses on the right, one pass."""
    inputs = dict(inputs)
    width = max(len(ids) for ids in responses)
    device = inputs["input_ids"].device
    target = torch.tensor([[*ids, *[pad_id] * (width - len(ids))] for ids in responses])
    real = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in responses])
    target, real = target.to(device), real.to(device)
    inputs["input_ids"] = torch.cat([inputs["input_ids"], target], -1)
    inputs["attention_mask"] = torch.cat([inputs["attention_mask"], real], -1)
    for key in ("mm_token_type_ids", "token_type_ids"):
        if key in inputs:
            inputs[key] = torch.cat([inputs[key], torch.zeros_like(target)], -1)
    if "cross_attention_mask" in inputs:  # [rows, tokens, images, tiles]; as the last token's
        mask = inputs["cross_attention_mask"]
        inputs["cross_attention_mask"] = torch.cat(
            [mask, mask[:, -1:].expand(-1, width, -1, -1)], 1
        )
    if model._supports_logits_to_keep():
        inputs["logits_to_keep"] = width + 1
    logits = model(**inputs, use_cache=False).logits[:, -width - 1 : -1]
    return [_sum(row[: len(ids)], ids) for row, ids in zip(logits, responses, strict=True)]


def likelihoods_of_prompts(
    model: Any,
    inputs: dict[str, Any],
    prompts: Sequence[int],
    responses: Sequence[Sequence[int]],
    pad_id: int,
) -> list[float]:
    """The same where response i follows prompt `prompts[i]`: each prompt is read once."""
    lasts = inputs["input_ids"][:, -1].tolist()  # their outputs are of use, and read with responses
    lengths = (inputs["attention_mask"].sum(-1) - 1).tolist()
    ids = tuple((lasts[of], *rest) for of, rest in zip(prompts, responses, strict=True))
    width = max(map(len, ids))
    tails = [Tails(tuple(prompts), ids)]
    logits = read(model, beginnings(inputs, lengths, pad_id), tails, pad_id, width)
    return [
        _sum(row[-len(rest) - 1 : -1], rest) for row, rest in zip(logits, responses, strict=True)
    ]


def last_states(
    model: Any, inputs: dict[str, Any], tails: Sequence[Tails], pad_id: int
) -> torch.Tensor:
    """The state at the last token of every text, [rows, width]; with `tails`, of their last."""
    backbone = getattr(model, model.base_model_prefix)
    if not tails:
        whole: torch.Tensor = backbone(**inputs, use_cache=False).last_hidden_state
        return whole[:, -1]
    states: list[torch.Tensor] = []
    hook = backbone.register_forward_hook(
        lambda _, inputs, output: states.append(output.last_hidden_state[:, -1])
    )
    try:
        read(model, inputs, tails, pad_id, keep=1)
    finally:
        hook.remove()
    return states[-1]


def _sum(logits: torch.Tensor, ids: Sequence[int]) -> float:
    """Of one row at a time: the vocabulary is wide."""
    chosen = torch.tensor(ids, device=logits.device)[:, None]
    return float(logits.float().log_softmax(-1).gather(-1, chosen).sum())
