from collections import Counter

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

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


TEXT = {
    "vocab_size": 90,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.3,
    "tie_word_embeddings": False,
}


def other_models() -> dict[str, object]:
    """Small random models of other families, to see that nothing is particular to Qwen2.5-VL."""
    import transformers as t

    qwen3 = t.Qwen3VLConfig(
        text_config={**TEXT, "head_dim": 8, "rope_parameters": {"rope_type": "default",
                     "rope_theta": 1e4, "mrope_section": [2, 1, 1]}},
        vision_config={"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2,
                       "out_hidden_size": 32, "deepstack_visual_indexes": [0],
                       "num_position_embeddings": 16},
    )  # fmt: skip
    clip = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2,
            "num_attention_heads": 2, "image_size": 28, "patch_size": 14}  # fmt: skip
    onevision = t.LlavaOnevisionConfig(
        text_config={**TEXT, "model_type": "qwen2"},
        vision_config={**clip, "model_type": "siglip_vision_model", "vision_use_head": False},
        image_token_index=80,
    )
    internvl = t.InternVLConfig(
        text_config={**TEXT, "model_type": "qwen2"},
        vision_config={**clip, "image_size": [28, 28], "patch_size": [14, 14]},
        image_token_id=80,
    )
    gemma = t.Gemma3Config(
        text_config={**TEXT, "head_dim": 8, "sliding_window": 8, "layer_types":
                     ["sliding_attention", "full_attention"]},
        vision_config={**clip, "vision_use_head": False},
        image_token_id=80,
    )  # fmt: skip
    torch.manual_seed(0)
    return {
        "Qwen3-VL": t.Qwen3VLForConditionalGeneration(qwen3),
        "LLaVA-OneVision": t.LlavaOnevisionForConditionalGeneration(onevision),
        "InternVL": t.InternVLForConditionalGeneration(internvl),
        "Gemma 3": t.Gemma3ForConditionalGeneration(gemma),
    }


@pytest.mark.model
def test_greedy_equals_generate_in_other_families() -> None:
    from bon.engines.hf import cpu_attention

    ids = torch.randint(5, 70, (3, 12), generator=torch.manual_seed(1))
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    mask[2, :7] = 0
    for name, model in other_models().items():
        model.eval()  # type: ignore[attr-defined]
        reference = model.generate(  # type: ignore[attr-defined]
            input_ids=ids, attention_mask=mask, max_new_tokens=10, do_sample=False,
            pad_token_id=0, eos_token_id=3,
        )[:, 12:].tolist()  # fmt: skip
        cpu_attention.install(model)
        plan = Plan(
            [0, 0, 1, 2, 2], [0] * 5, Sampling(temperature=0, max_tokens=10), 0, frozenset({3}),
            lambda _: False,
        )  # fmt: skip
        with torch.inference_mode():
            rows = decode(model, {"input_ids": ids, "attention_mask": mask}, plan, 0)
        for row, prompt in zip(rows, plan.prompts, strict=True):
            ours = [*row.ids, *[0] * (10 - len(row.ids))]
            expected = [*reference[prompt], *[0] * (10 - len(reference[prompt]))]
            assert ours == expected, name


@pytest.mark.model
def test_samples_end_and_leave_without_disturbing_the_others() -> None:
    """Many samples that end at different steps equal the same samples decoded one by one."""
    model = other_models()["LLaVA-OneVision"]
    ids = torch.randint(5, 70, (2, 6), generator=torch.manual_seed(1))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    ends = frozenset(range(15))
    sampling = Sampling(max_tokens=30)
    prompts, seeds = [0] * 20 + [1] * 20, list(range(40))
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
