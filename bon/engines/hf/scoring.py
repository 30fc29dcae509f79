"""Scoring given texts: likelihoods, and hidden states for reward heads."""

from collections.abc import Sequence
from typing import Any

import torch

from bon.engines.hf.decoding import prompt_logits
from bon.engines.hf.shared_prefix import Tails, truncate_inputs


def likelihoods(
    model: Any, inputs: dict[str, Any], responses: Sequence[Sequence[int]], pad_id: int
) -> list[float]:
    """Return summed log-probabilities of responses, in one pass of prompt and response each."""
    width = max(map(len, responses))
    inputs = append_responses(model, inputs, responses, pad_id)
    logits = model(**inputs, use_cache=False).logits[:, -width - 1 : -1]
    return [_logprob(row[: len(ids)], ids) for row, ids in zip(logits, responses, strict=True)]


def append_responses(
    model: Any, inputs: dict[str, Any], responses: Sequence[Sequence[int]], pad_id: int
) -> dict[str, Any]:
    """Return the inputs of prompts (padded left) followed by responses (padded right).

    The model keeps the logits of the responses and of the token before them, where it can.
    """
    inputs = dict(inputs)
    width = max(map(len, responses))
    device = inputs["input_ids"].device
    target = torch.tensor([[*ids, *[pad_id] * (width - len(ids))] for ids in responses])
    mask = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in responses])
    target, mask = target.to(device), mask.to(device)
    inputs["input_ids"] = torch.cat([inputs["input_ids"], target], -1)
    inputs["attention_mask"] = torch.cat([inputs["attention_mask"], mask], -1)
    for key in ("mm_token_type_ids", "token_type_ids"):
        if key in inputs:
            inputs[key] = torch.cat([inputs[key], torch.zeros_like(target)], -1)
    if "cross_attention_mask" in inputs:  # [rows, tokens, images, tiles]; as the last token's
        crossing = inputs["cross_attention_mask"]
        inputs["cross_attention_mask"] = torch.cat(
            [crossing, crossing[:, -1:].expand(-1, width, -1, -1)], 1
        )
    if model._supports_logits_to_keep():
        inputs["logits_to_keep"] = width + 1
    return inputs


def likelihoods_of_prompts(
    model: Any,
    inputs: dict[str, Any],
    prompts: Sequence[int],
    responses: Sequence[Sequence[int]],
    pad_id: int,
) -> list[float]:
    """The same where response i follows prompt `prompts[i]`: each prompt is read once."""
    last_ids = inputs["input_ids"][:, -1].tolist()  # their logits are needed: read with responses
    lengths = (inputs["attention_mask"].sum(-1) - 1).tolist()
    ids = tuple((last_ids[of], *rest) for of, rest in zip(prompts, responses, strict=True))
    tails = Tails(tuple(prompts), ids)
    prefixes = truncate_inputs(inputs, lengths, pad_id)
    logits = prompt_logits(model, prefixes, tails, pad_id, max(map(len, ids)))
    return [
        _logprob(row[-len(rest) - 1 : -1], rest)
        for row, rest in zip(logits, responses, strict=True)
    ]


def last_states(
    model: Any, inputs: dict[str, Any], tails: Tails | None, pad_id: int
) -> torch.Tensor:
    """Return the hidden state [rows, width] at the last token of every text."""
    backbone = getattr(model, model.base_model_prefix)
    if tails is None:
        whole: torch.Tensor = backbone(**inputs, use_cache=False).last_hidden_state
        return whole[:, -1]
    states: list[torch.Tensor] = []
    hook = backbone.register_forward_hook(
        lambda _, inputs, output: states.append(output.last_hidden_state[:, -1])
    )
    try:
        prompt_logits(model, inputs, tails, pad_id, keep=1)
    finally:
        hook.remove()
    return states[-1]


def _logprob(logits: torch.Tensor, ids: Sequence[int]) -> float:
    """Sum the log-probabilities of one row; a whole batch of the vocabulary would be large."""
    index = torch.tensor(ids, device=logits.device)[:, None]
    return float(logits.float().log_softmax(-1).gather(-1, index).sum())
