"""Batched decoding in which every sample has a seed of its own, and scoring of given texts.

Runs as the decoding loop of transformers' `generate`, which keeps everything model-specific
(positions, masks, caches). It differs from theirs in three ways: a prompt's images and prefill run
once however many samples it has, finished samples leave the batch, and a token is drawn by
inverting the cumulative distribution at a number that depends on seed and position alone, so a
sample does not depend on its batch (up to rounding of floating-point sums).
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from transformers import Cache, GenerationConfig

from bon.core.sampling import Sampling
from bon.engines.hf.shared_prefix import Tails, extend_inputs, token_types
from bon.engines.rendering import OPENING_TOKENS, Answer

_SHRINK_AT = 0.85  # drop finished rows from the cache once at most this share is unfinished

Loop = Callable[[Any, torch.Tensor, dict[str, Any]], None]


@dataclass
class Decoded:
    """Token ids of one sample, its end token included, and their log-probabilities."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top_ids: list[list[int]] = field(default_factory=list)
    top_logprobs: list[list[float]] = field(default_factory=list)
    finish: Literal["stop", "length"] = "length"
    answer: int | None = None  # where it begins, once that is known
    forced: list[int] = field(default_factory=list)  # tokens that end its reasoning
    done: bool = False


@dataclass(frozen=True)
class Plan:
    """What to decode: row i continues prompt `prompts[i]` with `seeds[i]`.

    `answers[i]` finds the answer of row i after its reasoning, which `closing` tokens end once it
    reaches `sampling.max_thinking_tokens`.
    """

    prompts: Sequence[int]
    seeds: Sequence[int]
    sampling: Sampling
    top: int
    end_ids: frozenset[int]
    stopped: Callable[[list[int]], bool]
    answers: Sequence[Callable[[list[int]], Answer]] = ()
    closing: Sequence[int] = ()

    @property
    def steps(self) -> int:
        """The most tokens that a row may have."""
        thinks = self.closing and self.sampling.max_thinking_tokens
        return (
            self.sampling.max_new_tokens + len(self.closing) if thinks else self.sampling.max_tokens
        )

    def ended(self, row: Decoded, index: int) -> bool:
        """Whether a row has all its tokens; ends reasoning that has reached its limit."""
        limit = self.sampling.max_thinking_tokens
        if row.finish == "stop" or not self.closing or limit is None:
            return row.finish == "stop" or len(row.ids) >= self.sampling.max_tokens
        length = len(row.ids)
        if row.answer is None and length == limit + len(self.closing):
            row.answer = length
        elif row.answer is None and not row.forced:
            begun = length == min(OPENING_TOKENS, limit, self.sampling.max_tokens)
            if begun or length == limit or row.ids[-1] in self.closing:
                row.answer = self.answers[index](row.ids).start
            if row.answer is None and length == limit:
                row.forced = list(self.closing)
        return row.answer is not None and length - row.answer >= self.sampling.max_tokens


def decode(
    model: Any, inputs: dict[str, Any], plan: Plan, pad_id: int, tails: Tails | None = None
) -> list[Decoded]:
    """Decode every row of the plan; with `tails`, `inputs` are prefixes of the prompts."""
    rows = [Decoded() for _ in plan.seeds]

    def loop(model: Any, ids: torch.Tensor, kwargs: dict[str, Any]) -> None:
        _decode(model, *_prefill(model, ids, kwargs, tails, pad_id), plan, rows)

    _within_generate(model, inputs, loop, plan.steps, pad_id, sorted(plan.end_ids))
    return rows


def likelihoods(
    model: Any, inputs: dict[str, Any], responses: Sequence[Sequence[int]], pad_id: int
) -> torch.Tensor:
    """Return summed log-probabilities [rows] of responses, in one pass with their prompts.

    Prompts are padded on the left, responses on the right.
    """
    inputs, width, device = dict(inputs), max(map(len, responses)), inputs["input_ids"].device
    target = torch.tensor([[*ids, *[pad_id] * (width - len(ids))] for ids in responses])
    mask = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids in responses])
    more = {"input_ids": target.to(device), "attention_mask": mask.to(device)}
    more |= dict.fromkeys(token_types(inputs), torch.zeros_like(more["input_ids"]))
    inputs |= {key: torch.cat([inputs[key], more[key]], -1) for key in more}
    if "cross_attention_mask" in inputs:  # [rows, tokens, images, tiles]; as the last token's
        crossing = inputs["cross_attention_mask"]
        added = crossing[:, -1:].expand(-1, width, -1, -1)
        inputs["cross_attention_mask"] = torch.cat([crossing, added], 1)
    if model._supports_logits_to_keep():  # those of the responses and of the token before them
        inputs["logits_to_keep"] = width + 1
    logits = model(**_placed(model, inputs), use_cache=False).logits[:, -width - 1 : -1]
    rows = zip(logits, responses, strict=True)  # a whole batch of them would be large
    return torch.stack([_summed(row[: len(ids)], ids) for row, ids in rows])


def _placed(model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Add the positions of texts padded on the left; models with images compute their own."""
    text_alone = model.config.get_text_config() is model.config
    if not text_alone or "position_ids" not in inspect.signature(model.forward).parameters:
        return inputs
    positions = (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    return {**inputs, "position_ids": positions}


def _summed(logits: torch.Tensor, ids: Sequence[int]) -> torch.Tensor:
    index = torch.tensor(ids, device=logits.device)[:, None]
    return logits.float().log_softmax(-1).gather(-1, index).sum()


def tail_likelihoods(model: Any, inputs: dict[str, Any], tails: Tails, pad_id: int) -> torch.Tensor:
    """Return summed log-probabilities [rows] of every tail after its first token."""
    sums: list[torch.Tensor] = []

    def loop(model: Any, ids: torch.Tensor, kwargs: dict[str, Any]) -> None:
        if model._supports_logits_to_keep():
            kwargs = {**kwargs, "logits_to_keep": max(map(len, tails.ids))}
        _, _, output = _prefill(model, ids, kwargs, tails, pad_id)
        for row, tail in zip(output.logits, tails.ids, strict=True):
            sums.append(_summed(row[-len(tail) : -1], tail[1:]))

    _within_generate(model, inputs, loop, 1, pad_id, [])
    return torch.stack(sums)


def last_states(
    model: Any, inputs: dict[str, Any], tails: Tails | None, pad_id: int
) -> torch.Tensor:
    """Return the hidden state [rows, width] at the last token of every text."""
    backbone = model.base_model
    if tails is None:
        placed = _placed(backbone, inputs)
        whole: torch.Tensor = backbone(**placed, use_cache=False).last_hidden_state
        return whole[:, -1]
    states: list[torch.Tensor] = []
    hook = backbone.register_forward_hook(
        lambda _, inputs, output: states.append(output.last_hidden_state[:, -1])
    )

    def loop(model: Any, ids: torch.Tensor, kwargs: dict[str, Any]) -> None:
        _prefill(model, ids, kwargs, tails, pad_id)

    try:
        _within_generate(model, inputs, loop, 1, pad_id, [])
    finally:
        hook.remove()
    return states[-1]


def uniforms(seeds: Sequence[int], count: int) -> torch.Tensor:
    """Return one row of numbers in [0, 1) per seed; a longer row extends a shorter one."""
    draws = [np.random.Generator(np.random.PCG64(seed)).random(count) for seed in seeds]
    return torch.from_numpy(np.stack(draws))


def draw(logits: torch.Tensor, uniform: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Draw one token per row, exactly from the distribution after temperature, top_k and top_p."""
    if sampling.temperature == 0:
        return logits.argmax(-1)
    logits = logits / sampling.temperature
    if 0 < sampling.top_k < logits.shape[-1]:
        least = logits.topk(sampling.top_k).values[:, -1:]
        logits = logits.masked_fill(logits < least, float("-inf"))
    weights = logits.softmax(-1)
    if sampling.top_p < 1:
        ranked, order = weights.sort(dim=-1, descending=True, stable=True)
        # A token stays if those before it have not reached top_p; the first always does.
        beyond = ranked.cumsum(-1, dtype=torch.float64) - ranked >= sampling.top_p
        beyond[:, 0] = False
        weights = weights.scatter(-1, order, ranked.masked_fill(beyond, 0.0))
    cumulative = weights.cumsum(-1, dtype=torch.float64)
    target = uniform[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, target, right=True)[:, 0].clamp_(max=logits.shape[-1] - 1)


def _within_generate(
    model: Any,
    inputs: dict[str, Any],
    loop: Loop,
    max_new_tokens: int,
    pad_id: int,
    end_ids: list[int],
) -> None:
    """Call `loop` with the model, the ids and the inputs of the first step."""

    def custom(model: Any, input_ids: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        for extra in ("logits_processor", "stopping_criteria", "generation_config", "synced_gpus"):
            kwargs.pop(extra, None)
        loop(model, input_ids, kwargs)
        return input_ids

    config = GenerationConfig(
        max_new_tokens=max_new_tokens, do_sample=False, use_cache=True, pad_token_id=pad_id,
        eos_token_id=end_ids or None,
    )  # fmt: skip
    model.generate(**inputs, generation_config=config, custom_generate=custom)


def _prefill(
    model: Any, input_ids: torch.Tensor, kwargs: dict[str, Any], tails: Tails | None, pad_id: int
) -> tuple[torch.Tensor, dict[str, Any], Any]:
    """Read the prompts: return their ids, the inputs of the next step and the model's output."""
    inputs = model.prepare_inputs_for_generation(input_ids, is_first_iteration=True, **kwargs)
    output = model(**inputs, return_dict=True)
    if tails is None:
        return input_ids, kwargs, output
    kwargs = _without_pixels(kwargs)
    rows = torch.tensor(tails.prefixes, device=input_ids.device)
    _select(kwargs, rows, input_ids.shape[0])
    ids, mask = tails.tensors(pad_id, input_ids.device)
    kwargs = extend_inputs(kwargs, mask, input_ids.shape[1])
    input_ids = torch.cat([input_ids[rows], ids], -1)
    inputs = model.prepare_inputs_for_generation(
        input_ids, next_sequence_length=ids.shape[1], **kwargs
    )
    return input_ids, kwargs, model(**inputs, return_dict=True)


def _decode(
    model: Any,
    input_ids: torch.Tensor,
    kwargs: dict[str, Any],
    output: Any,
    plan: Plan,
    rows: list[Decoded],
) -> None:
    prompt_mask = kwargs.get("attention_mask")
    flag = {"is_encoder_decoder": model.config.is_encoder_decoder}  # which Mllama requires
    kwargs = model._update_model_kwargs_for_generation(output, kwargs, **flag)
    # Later steps need no pixels, and of per-token inputs the last column.
    kwargs = _without_pixels(kwargs)
    for key in ("position_ids", *token_types(kwargs)):
        if isinstance(kwargs.get(key), torch.Tensor):
            kwargs[key] = kwargs[key][..., -1:]
    keep = torch.tensor(plan.prompts, device=input_ids.device)
    logits = output.logits[:, -1].to(input_ids.device, torch.float32)
    if len(plan.prompts) > input_ids.shape[0] or list(plan.prompts) != list(range(len(keep))):
        logits = logits[keep]
        _select(kwargs, keep, input_ids.shape[0])
    penalty = plan.sampling.repetition_penalty
    occurs = None  # [rows, vocabulary]: tokens that the penalty applies to
    if penalty != 1:
        size = logits.shape[-1]
        occurs = input_ids.new_zeros(input_ids.shape[0], size + 1, dtype=torch.bool)
        shown = input_ids if prompt_mask is None else input_ids.masked_fill(prompt_mask == 0, size)
        # Image placeholders may lie beyond the output's vocabulary: they land in the extra column.
        occurs = occurs.scatter_(-1, shown.clamp(max=size), True)[:, :size][keep]
    draws = uniforms(plan.seeds, plan.steps).to(input_ids.device)
    active = list(range(len(rows)))
    for step in range(plan.steps):
        drawn_from = logits
        if occurs is not None:
            penalised = torch.where(logits > 0, logits / penalty, logits * penalty)
            drawn_from = torch.where(occurs, penalised, logits)
        tokens = draw(drawn_from, draws[:, step], plan.sampling)
        for i, row in enumerate(active):
            if rows[row].forced:
                tokens[i] = rows[row].forced.pop(0)
        _record(logits, tokens, plan, [rows[row] for row in active])
        for row in active:
            rows[row].done = rows[row].done or plan.ended(rows[row], row)
        unfinished = [i for i, row in enumerate(active) if not rows[row].done]
        if not unfinished:
            return
        if len(unfinished) <= _SHRINK_AT * len(active):
            keep = torch.tensor(unfinished, device=input_ids.device)
            _select(kwargs, keep, len(active))
            active = [active[i] for i in unfinished]
            tokens, draws = tokens[keep], draws[keep]
            occurs = occurs[keep] if occurs is not None else None
        if occurs is not None:
            occurs.scatter_(-1, tokens[:, None], True)
        inputs = model.prepare_inputs_for_generation(
            tokens[:, None], next_sequence_length=1, **kwargs
        )
        output = model(**inputs, return_dict=True)
        kwargs = model._update_model_kwargs_for_generation(output, kwargs, **flag)
        logits = output.logits[:, -1].to(input_ids.device, torch.float32)


def _record(logits: torch.Tensor, tokens: torch.Tensor, plan: Plan, rows: list[Decoded]) -> None:
    logprobs = logits.log_softmax(-1)
    values = logprobs.gather(-1, tokens[:, None])[:, 0].tolist()
    if plan.top:
        best = logprobs.topk(min(plan.top, logits.shape[-1]))
        top_values, top_ids = best.values.tolist(), best.indices.tolist()
    for i, (row, token) in enumerate(zip(rows, tokens.tolist(), strict=True)):
        if row.done:
            continue
        row.ids.append(token)
        row.logprobs.append(values[i])
        if plan.top:
            row.top_ids.append(top_ids[i])
            row.top_logprobs.append(top_values[i])
        if token in plan.end_ids or (plan.sampling.stop and plan.stopped(row.ids)):
            row.finish = "stop"


def _without_pixels(kwargs: dict[str, Any]) -> dict[str, Any]:
    pixels = ("pixel", "image", "video", "second_per", "input_features", "aspect_ratio")
    return {key: value for key, value in kwargs.items() if not key.startswith(pixels)}


def _select(kwargs: dict[str, Any], rows: torch.Tensor, size: int) -> None:
    """Keep (or repeat) these of the `size` rows of the cache and of every per-row input."""
    caches = [value for value in kwargs.values() if isinstance(value, Cache)]
    for cache in caches:  # whose name depends on the version of transformers
        cache.reorder_cache(rows)  # which every kind of layer has
    owners = [kwargs, *(cache.__dict__ for cache in caches)]  # Qwen4-Exp's cache has positions
    for inputs in owners:
        for key, value in inputs.items():
            if isinstance(value, torch.Tensor):
                # Positions may be [axes, rows, length]; everything else has its rows first.
                dim = value.dim() - 2 if key == "position_ids" else 0
                if value.dim() > 1 and value.shape[dim] == size:
                    inputs[key] = value.index_select(dim, rows.to(value.device))
