"""Lessons → tensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bon.miniature.scene import CELLS, Scene
from tools.miniature.lessons import Lesson
from tools.miniature.model import doubled, grid, patches

IMAGE = "<|vision_start|>" + "<|image_pad|>" * CELLS + "<|vision_end|>"
IGNORED = -100


def user_turn(text: str, images: int) -> str:
    """What the chat template makes of a user's message, image placeholders expanded."""
    turn = f"<|im_start|>user\n{IMAGE * images}{text}<|im_end|>\n"
    return f"{turn}<|im_start|>assistant\n"


class Encoder:
    """Text → token ids, as the chat template and the processor would give them."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.pad: int = tokenizer.convert_tokens_to_ids("<|endoftext|>")
        self.end: int = tokenizer.convert_tokens_to_ids("<|im_end|>")

    def text(self, text: str) -> list[int]:
        """Token ids of a text."""
        return list(self.tokenizer._tokenizer.encode(text, add_special_tokens=False).ids)

    def asked(self, prompt: str, images: int, image_filter: str) -> list[int]:
        """Token ids of a user's turn, up to where the assistant begins."""
        return self.text(user_turn(prompt, 0 if image_filter == "drop" else images))

    def decode(self, ids: Sequence[int]) -> str:
        """The reply up to its end of turn."""
        ids = list(ids)
        for stop in (self.end, self.pad):
            if stop in ids:
                ids = ids[: ids.index(stop)]
        return str(self.tokenizer.decode(ids))


@dataclass(frozen=True, slots=True)
class Batch:
    """ids, labels, weights: [batch, tokens]; patches: [images, 64, 588] or None."""

    ids: torch.Tensor
    labels: torch.Tensor
    weights: torch.Tensor
    patches: torch.Tensor | None


def see(scenes: Sequence[tuple[Scene, ...]], image_filter: str) -> torch.Tensor | None:
    """All images of a batch, row by row."""
    if image_filter == "drop":
        return None
    return patches([scene for row in scenes for scene in row], image_filter)


def right_padded(rows: Sequence[Sequence[float]], value: float) -> torch.Tensor:
    """Rows of numbers → one tensor [rows, longest]."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows])


def batch(
    encoder: Encoder, lessons: Sequence[Lesson], image_filter: str = "", stress: float = 1.0
) -> Batch:
    """Loss on the target and its end of turn; the stressed token weighs `stress`."""
    ids, labels, weights = [], [], []
    for lesson in lessons:
        asked = encoder.asked(lesson.prompt, len(lesson.scenes), image_filter)
        told = [*encoder.text(lesson.target), encoder.end]
        weight = [1.0] * len(told)
        if lesson.stress:
            piece = encoder.text(lesson.stress)
            starts = [i for i in range(len(told)) if told[i : i + len(piece)] == piece]
            weight[starts[-1]] = stress
        ids.append(asked + told)
        labels.append([IGNORED] * len(asked) + told)
        weights.append([0.0] * len(asked) + weight)
    return Batch(
        right_padded(ids, encoder.pad),
        right_padded(labels, IGNORED),
        right_padded(weights, 0.0),
        see([lesson.scenes for lesson in lessons], image_filter),
    )


def generation_inputs(
    encoder: Encoder,
    prompts: Sequence[str],
    scenes: Sequence[tuple[Scene, ...]],
    image_filter: str = "",
) -> dict[str, torch.Tensor]:
    """Left-padded inputs of transformers' own generate."""
    rows = [
        encoder.asked(prompt, len(row), image_filter)
        for prompt, row in zip(prompts, scenes, strict=True)
    ]
    width = max(map(len, rows))
    ids = torch.tensor([[encoder.pad] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    inputs = {"input_ids": ids, "attention_mask": mask}
    seen = see(scenes, image_filter)
    if seen is not None:
        image_token = encoder.tokenizer.convert_tokens_to_ids("<|image_pad|>")
        inputs |= {
            "pixel_values": doubled(seen),
            "image_grid_thw": grid(len(seen)),
            "mm_token_type_ids": (ids == image_token).long(),
        }
    return inputs
