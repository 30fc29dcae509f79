"""A cache of keys and values that has room for the next tokens.

transformers' own is copied whole for every token that is decoded: on the CPU that is a fifth to a
third of all work of a judge with short answers.
"""

from typing import Any

import torch
from transformers.cache_utils import DynamicLayer

ROOM = 32
"""Tokens for which there is room after the cache was copied."""


class RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer, [rows, heads, tokens, width], as views of longer tensors."""

    is_initialized: bool
    keys: torch.Tensor
    values: torch.Tensor
    _kept: list[torch.Tensor]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append, and return all there is."""
        before = self.get_seq_length()
        if not self.is_initialized:
            self.dtype, self.device = key_states.dtype, key_states.device
            self._kept = [key_states[:, :, :0], value_states[:, :, :0]]
            self.is_initialized = True
        length = before + key_states.shape[-2]
        if length > self._kept[0].shape[-2]:
            old, rows = self._kept, key_states.shape[0]
            self._kept = [_room(tensor, rows, length + ROOM) for tensor in old]
            for tensor, had in zip(self._kept, old, strict=True):
                tensor[:, :, :before] = had[:, :, :before]
        for tensor, states in zip(self._kept, (key_states, value_states), strict=True):
            tensor[:, :, before:length] = states
        self.keys, self.values = (tensor[:, :, :length] for tensor in self._kept)
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep (or repeat) these rows, with room again."""
        if length := self.get_seq_length():
            self._kept = [_room(tensor, len(indices), length + ROOM) for tensor in self._kept]
            views = [tensor[:, :, :length] for tensor in self._kept]
            rows = indices.to(self.keys.device)
            for old, new in zip((self.keys, self.values), views, strict=True):
                torch.index_select(old, 0, rows, out=new)
            self.keys, self.values = views


def with_room(cache: Any) -> None:
    """Give the layers of an empty cache room, those that look back at all of the text."""
    for place, layer in enumerate(getattr(cache, "layers", ())):
        if type(layer) is DynamicLayer:
            cache.layers[place] = RoomyLayer()


def _room(like: torch.Tensor, rows: int, tokens: int) -> torch.Tensor:
    return like.new_empty(rows, like.shape[1], tokens, like.shape[3])
