"""The cache with room holds what transformers' own holds, wherever it lies."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from transformers.cache_utils import DynamicCache, DynamicLayer  # noqa: E402

from bon.engines.kv_cache import ROOM, RoomyLayer, with_room  # noqa: E402

STEPS = st.lists(
    st.one_of(
        st.integers(1, ROOM + 8),  # so many tokens come
        st.lists(st.integers(0, 10), min_size=1, max_size=6),  # these rows stay, or are repeated
        st.just("crop"),
    ),
    min_size=1,
    max_size=12,
)


@given(st.integers(1, 4), STEPS)
def test_it_holds_what_the_dynamic_layer_holds(rows, steps):
    ours, theirs = RoomyLayer(), DynamicLayer()
    ours.update(*[torch.ones(rows, 2, 3, 4)] * 2), theirs.update(*[torch.ones(rows, 2, 3, 4)] * 2)
    for step in steps:
        if isinstance(step, int):
            states = torch.randn(rows, 2, step, 4), torch.randn(rows, 2, step, 4)
            found = [layer.update(*states) for layer in (ours, theirs)]
            assert all(map(torch.equal, *found))
        elif isinstance(step, list):
            kept = torch.tensor(step) % rows
            ours.batch_select_indices(kept), theirs.batch_select_indices(kept)
            rows = len(step)
        elif theirs.get_seq_length() > 1:
            ours.crop(-1), theirs.crop(-1)
        assert torch.equal(ours.keys, theirs.keys)
        assert torch.equal(ours.values, theirs.values)
        assert ours.get_seq_length() == theirs.get_seq_length()


def test_rows_are_chosen_by_numbers_that_lie_elsewhere(monkeypatch):
    """The layers of a model on several GPUs are told the same rows, from the CPU."""
    layer, seen = RoomyLayer(), []
    layer.update(*[torch.ones(3, 2, 5, 4, device="meta")] * 2)
    select = torch.index_select

    def selected(tensor, dim, index, *, out):
        seen.append((tensor.device, index.device))  # which a GPU insists are the same
        return select(tensor, dim, index, out=out)

    monkeypatch.setattr(torch, "index_select", selected)
    layer.batch_select_indices(torch.tensor([2, 0]))
    assert layer.keys.shape == layer.values.shape == (2, 2, 5, 4)
    assert len(seen) == 2
    assert all(ours == theirs for ours, theirs in seen)


def test_only_layers_that_look_back_at_all_of_the_text_get_room():
    from transformers import Gemma3TextConfig

    config = Gemma3TextConfig(
        num_hidden_layers=2, sliding_window=8, layer_types=["sliding_attention", "full_attention"]
    )
    cache = DynamicCache(config=config)
    with_room(cache)
    assert [type(layer) is RoomyLayer for layer in cache.layers] == [False, True]
