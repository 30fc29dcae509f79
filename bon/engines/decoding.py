"""Decoding many samples of many prompts at once, every sample with a seed of its own.

Runs inside transformers' `generate` as its decoding loop, so that everything model-specific
(positions, masks, caches) is theirs, and differs from theirs in three ways. A prompt's image
tower and prefill run once however many samples it has: afterwards its cache row is repeated.
Finished samples leave the batch. And a token is drawn by inverting the cumulative distribution
at a number that depends on the sample's seed and the position alone, so that what a sample says
does not depend on what else was in the batch (up to the last bits of floating-point sums).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from bon.core.sampling import Sampling
from bon.engines.kv_cache import with_room
from bon.engines.shared_prefix import Tails, continued

_SHRINK_AT = 0.85  # copy the cache to a smaller one once this share of rows or less is unfinished


@dataclass
class Decoded:
    """Token ids of one sample (its end token last, if it came to one) and their logprobs."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top_ids: list[list[int]] = field(default_factory=list)
    top_logprobs: list[list[float]] = field(default_factory=list)
    finish: Literal["stop", "length"] = "length"


@dataclass(frozen=True)
class Decoding:
    """What to decode: row i continues prompt `prompts[i]` with `seeds[i]`."""

    prompts: Sequence[int]
    seeds: Sequence[int]
    sampling: Sampling
    top: int
    end_ids: frozenset[int]
    stopped: Callable[[list[int]], bool]


def decode(
    model: Any,
    inputs: dict[str, Any],
    plan: Decoding,
    pad_id: int,
    tails: Sequence[Tails] = (),
) -> list[Decoded]:
    """Continue every row of the plan; with `tails`, `inputs` are beginnings of the prompts."""
    rows = [Decoded() for _ in plan.seeds]

    def loop(model: Any, input_ids: torch.Tensor, kwargs: dict[str, Any]) -> None:
        _loop(model, *_prompted(model, input_ids, kwargs, tails, pad_id), plan, rows)

    _within_generate(model, inputs, loop, plan.sampling.max_tokens, pad_id, sorted(plan.end_ids))
    return rows


def read(
    model: Any, inputs: dict[str, Any], tails: Sequence[Tails], pad_id: int, keep: int
) -> torch.Tensor:
    """Logits, [rows, tokens, vocabulary], at the last `keep` or more tokens of prompts."""
    found: list[torch.Tensor] = []

    def loop(model: Any, input_ids: torch.Tensor, kwargs: dict[str, Any]) -> None:
        if "logits_to_keep" in kwargs:
            kwargs["logits_to_keep"] = keep
        found.append(_prompted(model, input_ids, kwargs, tails, pad_id)[2].logits)

    _within_generate(model, inputs, loop, 1, pad_id, [])
    return found[0]


def _within_generate(
    model: Any,
    inputs: dict[str, Any],
    loop: Callable[[Any, torch.Tensor, dict[str, Any]], None],
    most: int,
    pad_id: int,
    end_ids: list[int],
) -> None:
    """Call `loop` with the model, ids and inputs of the first step, an empty cache among them."""
    from transformers import GenerationConfig

    def custom(model: Any, input_ids: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        for extra in ("logits_processor", "stopping_criteria", "generation_config", "synced_gpus"):
            kwargs.pop(extra, None)
        with_room(kwargs.get("past_key_values"))
        loop(model, input_ids, kwargs)
        return input_ids

    config = GenerationConfig(
        max_new_tokens=most, do_sample=False, use_cache=True, pad_token_id=pad_id,
        eos_token_id=end_ids or None,
    )  # fmt: skip
    model.generate(**inputs, generation_config=config, custom_generate=custom)


def uniforms(seeds: Sequence[int], count: int) -> torch.Tensor:
    """One row of numbers in [0, 1) a seed; a longer row begins as a shorter one does."""
    drawn = [np.random.Generator(np.random.PCG64(seed)).random(count) for seed in seeds]
    return torch.from_numpy(np.stack(drawn))


def draw(logits: torch.Tensor, uniform: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """One token per row, exactly from the distribution after temperature, top_k and top_p."""
    if sampling.temperature == 0:
        return logits.argmax(-1)
    logits = logits / sampling.temperature
    if 0 < sampling.top_k < logits.shape[-1]:
        least = logits.topk(sampling.top_k).values[:, -1:]
        logits = logits.masked_fill(logits < least, float("-inf"))
    weights = logits.softmax(-1)
    if sampling.top_p < 1:
        ranked, order = weights.sort(dim=-1, descending=True, stable=True)
        # A token stays when those before it have not yet reached top_p; the first always does.
        beyond = ranked.cumsum(-1, dtype=torch.float64) - ranked >= sampling.top_p
        beyond[:, 0] = False
        weights = weights.scatter(-1, order, ranked.masked_fill(beyond, 0.0))
    cumulative = weights.cumsum(-1, dtype=torch.float64)
    target = uniform[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, target, right=True)[:, 0].clamp_(max=logits.shape[-1] - 1)


def _prompted(
    model: Any, input_ids: torch.Tensor, kwargs: dict[str, Any], tails: Sequence[Tails], pad_id: int
) -> tuple[torch.Tensor, dict[str, Any], Any]:
    """Read the prompts: their ids, the inputs of generation so far, and the model's output."""
    inputs = model.prepare_inputs_for_generation(input_ids, is_first_iteration=True, **kwargs)
    output = model(**inputs, return_dict=True)
    for step in tails:
        kwargs["past_key_values"] = output.past_key_values
        rows = torch.tensor(step.of, device=input_ids.device)
        kwargs = _without_pixels(kwargs)
        _select(kwargs, rows, input_ids.shape[0])
        ids, mask = step.tensors(pad_id, input_ids.device)
        kwargs = continued(kwargs, mask, input_ids.shape[1])
        input_ids = torch.cat([input_ids[rows], ids], -1)
        inputs = model.prepare_inputs_for_generation(
            input_ids, next_sequence_length=ids.shape[1], **kwargs
        )
        output = model(**inputs, return_dict=True)
    return input_ids, kwargs, output


def _loop(
    model: Any,
    input_ids: torch.Tensor,
    kwargs: dict[str, Any],
    output: Any,
    plan: Decoding,
    rows: list[Decoded],
) -> None:
    prompt_mask = kwargs.get("attention_mask")
    kwargs = _text_only(_updated(model, output, kwargs))
    keep = torch.tensor(plan.prompts, device=input_ids.device)
    logits = output.logits[:, -1].to(input_ids.device, torch.float32)
    if len(plan.prompts) > input_ids.shape[0] or list(plan.prompts) != list(range(len(keep))):
        logits = logits[keep]
        _select(kwargs, keep, input_ids.shape[0])
    penalty = plan.sampling.repetition_penalty
    seen = None  # [rows, vocabulary]: what a penalty holds against each row
    if penalty != 1:
        seen = _said(input_ids, prompt_mask, logits.shape[-1])[keep]
    draws = uniforms(plan.seeds, plan.sampling.max_tokens).to(input_ids.device)
    active = list(range(len(rows)))
    for step in range(plan.sampling.max_tokens):
        chosen = draw(_penalised(logits, seen, penalty), draws[:, step], plan.sampling)
        _record(logits, chosen, plan, rows, active)
        going = [place for place, row in enumerate(active) if rows[row].finish == "length"]
        if not going or step + 1 == plan.sampling.max_tokens:
            return
        if len(going) <= _SHRINK_AT * len(active):
            keep = torch.tensor(going, device=input_ids.device)
            _select(kwargs, keep, len(active))
            active = [active[place] for place in going]
            chosen, draws = chosen[keep], draws[keep]
            seen = seen[keep] if seen is not None else None
        if seen is not None:
            seen.scatter_(-1, chosen[:, None], True)
        inputs = model.prepare_inputs_for_generation(
            chosen[:, None], next_sequence_length=1, **kwargs
        )
        output = model(**inputs, return_dict=True)
        kwargs = _updated(model, output, kwargs)
        logits = output.logits[:, -1].to(input_ids.device, torch.float32)


def _said(ids: torch.Tensor, real: torch.Tensor | None, size: int) -> torch.Tensor:
    """Which tokens each prompt holds, padding aside, as [rows, vocabulary]."""
    if real is None:
        real = torch.ones_like(ids)
    held = ids.new_zeros(ids.shape[0], size + 1, dtype=torch.bool)
    # Image placeholders may lie beyond the vocabulary of the output; nothing is said there.
    held.scatter_(-1, ids.masked_fill(real == 0, size).clamp_(max=size), True)
    return held[:, :size]


def _penalised(logits: torch.Tensor, seen: torch.Tensor | None, penalty: float) -> torch.Tensor:
    if seen is None:
        return logits
    held = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(seen, held, logits)


def _updated(model: Any, output: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The inputs of the next step; Mllama's own method insists on the third argument."""
    updated: dict[str, Any] = model._update_model_kwargs_for_generation(
        output, kwargs, is_encoder_decoder=model.config.is_encoder_decoder
    )
    return updated


def _record(
    logits: torch.Tensor,
    chosen: torch.Tensor,
    plan: Decoding,
    rows: list[Decoded],
    active: list[int],
) -> None:
    """Write the step down; finished rows that are still in the batch are passed over."""
    logprobs = logits.log_softmax(-1)
    values = logprobs.gather(-1, chosen[:, None])[:, 0].tolist()
    top_values: list[list[float]] = []
    top_ids: list[list[int]] = []
    if plan.top:
        best = logprobs.topk(min(plan.top, logits.shape[-1]))
        top_values, top_ids = best.values.tolist(), best.indices.tolist()
    for place, token in enumerate(chosen.tolist()):
        row = rows[active[place]]
        if row.finish == "stop":
            continue
        row.ids.append(token)
        row.logprobs.append(values[place])
        if plan.top:
            row.top_ids.append(top_ids[place])
            row.top_logprobs.append(top_values[place])
        if token in plan.end_ids or (plan.sampling.stop and plan.stopped(row.ids)):
            row.finish = "stop"


def _text_only(kwargs: dict[str, Any]) -> dict[str, Any]:
    """What later steps need: no pixels, and of per-token inputs the last column."""
    kept = _without_pixels(kwargs)
    for key in ("position_ids", "token_type_ids", "mm_token_type_ids"):
        if isinstance(kept.get(key), torch.Tensor):
            kept[key] = kept[key][..., -1:]
    return kept


def _without_pixels(kwargs: dict[str, Any]) -> dict[str, Any]:
    pixels = ("pixel", "image", "video", "second_per", "input_features", "aspect_ratio")
    return {key: value for key, value in kwargs.items() if not key.startswith(pixels)}


def _select(kwargs: dict[str, Any], rows: torch.Tensor, size: int) -> None:
    """Keep (or repeat) these of the `size` rows of the cache and of every per-row input."""
    # The layers of a model that is spread over GPUs keep their cache each on their own.
    kwargs["past_key_values"].batch_select_indices(rows.cpu())
    for key, value in kwargs.items():
        if isinstance(value, torch.Tensor):
            # Positions may be [axes, rows, length]; everything else has its rows first.
            dim = value.dim() - 2 if key == "position_ids" else 0
            if value.dim() > 1 and value.shape[dim] == size:
                kwargs[key] = value.index_select(dim, rows.to(value.device))
