from collections import Counter
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from test_architectures import load  # noqa: E402
from tiny_architectures import make_architecture  # noqa: E402

from bon.core.sampling import Sampling  # noqa: E402
from bon.engines.hf.decoding import Plan, decode, draw, uniforms  # noqa: E402


def frequencies(logits: list[float], sampling: Sampling, count: int = 40_000) -> np.ndarray:
    grid = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    chosen = draw(torch.tensor([logits]).expand(count, -1), grid, sampling)
    return np.bincount(chosen.numpy(), minlength=len(logits)) / count


def softmax(values: list[float], temperature: float = 1.0) -> np.ndarray:
    weights = np.exp(np.array(values) / temperature)
    return weights / weights.sum()


LOGITS = [2.0, 1.0, 0.5, -1.0, -9.0]


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
def test_draws_follow_the_distribution(temperature: float) -> None:
    drawn = frequencies(LOGITS, Sampling(temperature=temperature))
    np.testing.assert_allclose(drawn, softmax(LOGITS, temperature), atol=1e-4)


def test_cuts() -> None:
    weights = softmax(LOGITS)
    two = weights * [1, 1, 0, 0, 0]
    np.testing.assert_allclose(frequencies(LOGITS, Sampling(top_k=2)), two / two.sum(), atol=1e-4)
    # .61 and .22 come to .833: the third is needed for .84 and not for .83.
    three = weights * [1, 1, 1, 0, 0]
    drawn = frequencies(LOGITS, Sampling(top_p=0.84))
    np.testing.assert_allclose(drawn, three / three.sum(), atol=1e-4)
    drawn = frequencies(LOGITS, Sampling(top_p=0.83))
    np.testing.assert_allclose(drawn, two / two.sum(), atol=1e-4)
    assert frequencies(LOGITS, Sampling(top_p=1e-9))[0] == 1
    assert frequencies(LOGITS, Sampling(temperature=0))[0] == 1


def test_a_token_without_weight_is_never_drawn() -> None:
    logits = torch.tensor([[float("-inf"), 0.0, float("-inf"), 0.0, float("-inf")]]).expand(3, -1)
    ends = torch.tensor([0.0, 0.5, np.nextafter(1.0, 0.0)], dtype=torch.float64)
    assert draw(logits, ends, Sampling()).tolist() == [1, 3, 3]


def test_numbers_belong_to_the_seed() -> None:
    short, long = uniforms([7, 8], 3), uniforms([8, 7, 9], 10)
    assert torch.equal(short[0], long[1, :3])
    assert torch.equal(short[1], long[0, :3])
    assert not torch.equal(short[0], short[1])


@pytest.mark.model
def test_samples_end_and_leave_without_disturbing_the_others(tmp_path: Path) -> None:
    """Many samples that end at different steps equal the same samples decoded one by one."""
    model = load(make_architecture("llava_onevision", tmp_path)).model
    ids = torch.randint(5, 70, (2, 6), generator=torch.manual_seed(1))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    ends = frozenset(range(60))
    sampling = Sampling(max_tokens=30)
    prompts, seeds = [0] * 8 + [1] * 8, list(range(16))
    with torch.inference_mode():
        together = decode(
            model, inputs, Plan(prompts, seeds, sampling, 0, ends, lambda _: False), 0
        )
        for prompt, seed, row in zip(prompts, seeds, together, strict=True):
            alone = {key: value[prompt : prompt + 1] for key, value in inputs.items()}
            plan = Plan([0], [seed], sampling, 0, ends, lambda _: False)
            assert decode(model, alone, plan, 0)[0].ids == row.ids
    lengths = Counter(len(row.ids) for row in together)
    assert len(lengths) > 4
