"""Prompts that begin alike: their images and common text go through the model once.

A judge is asked about one question many times: the same images, the same question, other answers.
`share` splits such prompts, where they share images, into beginnings, which are read once each, and
tails, which are read together on copies of the beginnings' caches; what some tails of a beginning
have in common, as two answers of which the first is the same, is read once too. A prompt's tokens
stay what they are: it is cut after an image placeholder, which is a token of its own in every
tokenizer, and what comes of the rest is compared with what the processor made of the whole.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

WORTH = 0.8
"""Share only if this share of the tokens, or fewer, would be read."""


@dataclass(frozen=True)
class Tails:
    """What follows what was read before: row i continues its row `of[i]` with tokens `ids[i]`."""

    of: tuple[int, ...]
    ids: tuple[tuple[int, ...], ...]

    def tensors(self, pad_id: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids and mask, padded on the left so that all tails end together."""
        width = max(map(len, self.ids))
        ids = [[pad_id] * (width - len(row)) + list(row) for row in self.ids]
        mask = [[0] * (width - len(row)) + [1] * len(row) for row in self.ids]
        return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


@dataclass(frozen=True)
class Shared:
    """Prompts as beginnings and tails, read one after the other; the last have a row per prompt.

    `lengths`: tokens of the beginnings, `sizes`: of prompts.
    """

    lengths: tuple[int, ...]
    tails: tuple[Tails, ...]
    sizes: tuple[int, ...]


def can_share(model: Any, processor: Any) -> bool:
    """Whether a model's caches can be continued with padding between beginning and tail.

    Not where a layer looks back over a window or across to an image: there, padding counts.
    """
    text = model.config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ["full_attention"])
    slides = getattr(text, "use_sliding_window", True) and getattr(text, "sliding_window", None)
    crosses = getattr(text, "cross_attention_layers", None)
    return kinds == {"full_attention"} and not slides and not crosses and bool(_marks(processor))


def _marks(processor: Any) -> list[str]:
    """What may stand for an image in a rendered text."""
    names = ("image_token", "boi_token", "start_image_token")
    return [mark for name in names if isinstance(mark := getattr(processor, name, None), str)]


def groups_of(heads: Sequence[Hashable]) -> list[list[int]]:
    """The places of equal heads, in order of appearance."""
    found: dict[Hashable, list[int]] = {}
    for place, head in enumerate(heads):
        found.setdefault(head, []).append(place)
    return list(found.values())


def head_of(text: str, processor: Any) -> str:
    """The text up to the end of its last image placeholder."""
    ends = [text.rindex(mark) + len(mark) for mark in _marks(processor) if mark in text]
    return text[: max(ends, default=0)]


def share(
    texts: Sequence[str],
    heads: Sequence[str],
    groups: Sequence[Sequence[int]],
    whole: Sequence[Sequence[int]],
    tokenizer: Any,
) -> Shared | None:
    """Split prompts; None where it does not pay or tokens would differ.

    Args:
        heads: of each prompt, its text up to the last image.
        groups: prompts of one head each.
        whole: of each group, the tokens that the processor makes of its first prompt.
    """
    of, sizes = [0] * len(texts), [0] * len(texts)
    tails: list[tuple[int, ...]] = [()] * len(texts)
    lengths: list[int] = []
    read = 0
    for group, ids in zip(groups, whole, strict=True):
        cut = len(heads[group[0]])
        rest = [texts[place][cut:] for place in group]
        after = [tuple(each) for each in tokenizer(rest, add_special_tokens=False)["input_ids"]]
        start = len(ids) - len(after[0])
        if start <= 0 or tuple(ids[start:]) != after[0]:
            return None
        common = min(_alike(after), min(map(len, after)) - 1)
        if common < 1:  # the last token of a beginning must be text, whose position is known
            return None
        for place, tail in zip(group, after, strict=True):
            of[place], tails[place] = len(lengths), tail[common:]
            sizes[place] = start + len(tail)
        lengths.append(start + common)
        read += start + common
    read += len(texts) * max(map(len, tails))
    if read > WORTH * len(texts) * max(sizes):
        return None
    return Shared(tuple(lengths), shared_tails(Tails(tuple(of), tuple(tails))), tuple(sizes))


def shared_tails(tails: Tails) -> tuple[Tails, ...]:
    """The tails in two steps, the first of which some have in common, if that saves enough."""
    runs: list[tuple[int, list[int]]] = []  # tokens in common, and of which tails
    for group in groups_of(tails.of):
        ranked = sorted(group, key=tails.ids.__getitem__)
        runs += [(n, ranked[a:b]) for a, b, n in _runs([tails.ids[place] for place in ranked])]
    rest = max((len(tails.ids[p]) - n for n, run in runs if len(run) > 1 for p in run), default=0)
    of, firsts = [0] * len(tails.ids), []
    for number, (common, run) in enumerate(runs):
        if len(run) == 1:  # cut so that what is left is no longer than the others' rest
            common = max(0, len(tails.ids[run[0]]) - max(rest, 1))
        firsts.append((tails.of[run[0]], tails.ids[run[0]][:common]))
        for place in run:
            of[place] = number
    before = len(of) * max(map(len, tails.ids))
    if len(runs) * max(len(ids) for _, ids in firsts) + len(of) * rest > WORTH * before or not rest:
        return (tails,)
    lasts = tuple(ids[len(firsts[run][1]) :] for run, ids in zip(of, tails.ids, strict=True))
    return Tails(*zip(*firsts, strict=True)), Tails(tuple(of), lasts)


def _runs(rows: Sequence[tuple[int, ...]]) -> list[tuple[int, int, int]]:
    """Sorted rows as runs (start, end, tokens in common) that leave the fewest tokens to read.

    The last token of a row is never in common: its output is what follows.
    """
    found: list[tuple[int, list[tuple[int, int, int]]]] = [(0, [])]  # tokens saved, and how
    for end in range(1, len(rows) + 1):
        common, best = len(rows[end - 1]) - 1, (-1, 0, 0)
        for start in range(end - 1, -1, -1):
            if start < end - 1:
                common = min(common, _alike(rows[start : start + 2]), len(rows[start]) - 1)
            best = max(best, (found[start][0] + (end - start - 1) * common, start, common))
        saved, start, common = best
        found.append((saved, [*found[start][1], (start, end, common)]))
    return found[-1][1]


def _alike(rows: Sequence[Sequence[int]]) -> int:
    """How many tokens all rows begin with."""
    columns = enumerate(zip(*rows, strict=False))
    return next((at for at, column in columns if len(set(column)) > 1), min(map(len, rows)))


def beginnings(inputs: dict[str, Any], lengths: Sequence[int], pad_id: int) -> dict[str, Any]:
    """The processor's inputs cut to so many tokens per row, padded on the left again."""
    mask = inputs["attention_mask"].bool()
    shape, width = mask.shape, max(lengths)
    cut = {}
    for name, value in inputs.items():
        if not isinstance(value, torch.Tensor) or value.shape[:2] != shape:
            cut[name] = value
            continue
        filled = value.new_full((shape[0], width), pad_id if name == "input_ids" else 0)
        for row, length in enumerate(lengths):
            filled[row, width - length :] = value[row][mask[row]][:length]
        cut[name] = filled
    return cut


def continued(kwargs: dict[str, Any], mask: torch.Tensor, before: int) -> dict[str, Any]:
    """The inputs of generation after the beginnings, for tails of this mask: all of it is text.

    `kwargs` has one row per tail already, its cache of `before` tokens among them. It has no mask
    where none of these is padding.
    """
    rows, width = mask.shape
    found = dict(kwargs)
    real = kwargs.get("attention_mask")
    real = mask.new_ones(rows, before) if real is None else real
    found["attention_mask"] = torch.cat([real, mask], -1)
    if isinstance(at := kwargs.get("position_ids"), torch.Tensor):
        found["position_ids"] = torch.cat([at, at[..., -1:] + mask.cumsum(-1)], -1)
    for name in ("token_type_ids", "mm_token_type_ids"):
        if isinstance(kinds := kwargs.get(name), torch.Tensor):
            found[name] = torch.cat([kinds, kinds.new_zeros(rows, width)], -1)
    return found
