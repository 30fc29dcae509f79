"""What a plan says of GPU memory and of speed."""

import json
import re
from pathlib import Path

import pytest

from bon.commands.plan_text import show_plan
from bon.engines.checkpoints import checkpoint
from bon.experiment.cards import load_policy, load_rewarder, shipped
from bon.planning.dataset_sizes import CANDIDATE_TOKENS
from bon.planning.model_sizes import GIB, GPUS, active_parameters, fit_of
from bon.planning.plan import SPREAD, gpu_seconds, make_plan
from bon.storage.store import Store
from bon.work.setup import prepare

HERE = Path(".")
CARDS = [("policies", name) for name in shipped("policies")] + [
    ("rewarders", name) for name in shipped("rewarders")
]


def fit(ref, room="policies"):
    return fit_of((load_policy if room == "policies" else load_rewarder)(ref, HERE))


def test_every_local_card_is_told_where_it_fits():
    for room, name in CARDS:
        loaded = (load_policy if room == "policies" else load_rewarder)(name, HERE)
        card, found = loaded.card, fit_of(loaded)
        assert (found is not None) == bool(card.placement.gpus and card.size), name
        if found is None:
            continue
        assert list(found.gpus) == [f"{size} GB" for size in GPUS]
        fits = [said in ("fits", "weights fit") for said in found.gpus.values()]
        assert fits == sorted(fits), name  # what fits a card fits a larger one
        assert fits[-1], f"{name} does not fit what its card asks for: {found}"


def test_an_unknown_cache_is_said_and_takes_no_other_model_s():
    experiment = {"policies": ["gemma-3-12b"], "questions": {"benchmark": "mmmu_pro"}}
    plan = make_plan(prepare(experiment, HERE))
    assert plan.memory[0].kv_cache is None
    assert plan.memory[0].gpus["80 GB"] == "weights fit"
    assert re.search(r"gemma-3-12b +\S+ GiB +unknown", show_plan(plan))
    assert fit({"card": "gemma-3-12b", "kv_bytes": 400_000}).gpus["80 GB"] == "fits"


def test_a_mixture_of_experts_reads_with_the_parameters_that_are_active():
    questions = {"benchmark": "mmmu_pro"}
    sparse, dense = (
        make_plan(prepare({"policies": [card], "questions": questions}, HERE)).policies[0]
        for card in ("qwen3-vl-30b-a3b", {"card": "qwen3-vl-30b-a3b", "active": None})
    )
    assert sparse.gpu_hours == pytest.approx(dense.gpu_hours * 3.3 / 31)


THIRTY = {  # Qwen3-VL-30B-A3B's, whose 31 billion parameters take 62 GB
    **{"num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32, "head_dim": 128},
    **{"num_key_value_heads": 4, "num_experts": 128, "num_experts_per_tok": 8},
    **{"moe_intermediate_size": 768, "intermediate_size": 6144},
}
HYBRID = {  # Qwen3.5-9B's: a cache in every fourth layer
    **{"num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 16, "head_dim": 256},
    **{"num_key_value_heads": 4},
    "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 8,
}
LATENT = {  # Kimi-VL-A3B's, with one vector of 576 numbers a layer
    **{"num_hidden_layers": 27, "hidden_size": 2048, "num_attention_heads": 16},
    **{"kv_lora_rank": 512, "qk_rope_head_dim": 64},
}


@pytest.mark.parametrize(
    ("text", "quantization", "gigabytes", "size", "active", "kv_bytes"),
    [
        (THIRTY, None, 62, 31e9, 3.8e9, 98_304),
        (THIRTY, {"quant_method": "fp8"}, 31, 31e9, 3.8e9, 98_304),
        (THIRTY, {"quant_method": "awq", "bits": 4}, 18.6, 31e9, 3.8e9, 98_304),
        (
            HYBRID,
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8}}},
                "kv_cache_scheme": {"num_bits": 8},
            },
            9, 9e9, 9e9, 16_384,
        ),
        (HYBRID, None, 18, 9e9, 9e9, 32_768),
        (LATENT, None, 32, 16e9, 16e9, 31_104),
    ],
)  # fmt: skip
def test_what_a_checkpoint_needs_is_read_from_its_files(
    text, quantization, gigabytes, size, active, kv_bytes, tmp_path
):
    config = {"architectures": ["AForCausalLM"], "text_config": text, "vision_config": {}}
    config |= {"quantization_config": quantization} if quantization else {}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with (tmp_path / "model.safetensors").open("wb") as weights:
        weights.truncate(int(gigabytes * 1e9))  # takes no space
    found = checkpoint(str(tmp_path))
    assert (found.size, found.active) == pytest.approx((size, active), rel=0.02)
    assert found.kv_bytes == kv_bytes
    card = {"name": "local", "model": str(tmp_path), "engine": "vllm", "placement": {"gpus": 1}}
    needs = fit(card)
    assert needs.weights == pytest.approx(gigabytes * 1e9 / GIB, rel=0.01)
    halved = fit({**card, "engine_args": {"engine_args": {"kv_cache_dtype": "fp8"}}})
    assert halved.kv_cache == needs.kv_cache / 2
    loaded = load_policy(card, HERE)
    assert active_parameters(loaded) == found.active


def test_a_model_that_thinks_is_planned_with_all_that_it_may_think():
    questions = {"benchmark": "mmmu_pro", "limit": 10}
    limited = {"card": "qwen3-vl-8b", "sampling": {"max_thinking_tokens": 3000, "max_tokens": 500}}
    for card, tokens in (
        ("qwen3-vl-8b-thinking", 16_384), (limited, 3_500), ("qwen3-vl-8b", CANDIDATE_TOKENS),
    ):  # fmt: skip
        (work,) = make_plan(prepare({"policies": [card], "questions": questions}, HERE)).policies
        assert work.reply_tokens == tokens * work.on_questions


def test_published_rates_are_within_the_factor_of_what_is_planned():
    text = (Path(__file__).parents[2] / "docs" / "measurements" / "planning.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| Q")]
    assert len(rows) >= 5
    for _, billions, gpus, prompt, reply, published, planned, *_ in rows:
        seconds = gpu_seconds(
            float(billions) * 1e9, *(float(n.replace(",", "")) for n in (prompt, reply))
        )
        assert float(planned) == pytest.approx(float(gpus) / seconds, rel=0.01)
        assert 1 / SPREAD <= float(planned) / float(published) <= SPREAD


def test_weights_and_cache_by_hand():
    seven = fit("qwen2.5-vl-7b")
    assert seven.weights == pytest.approx(8.29e9 * 2 / GIB, rel=0.01)
    assert seven.kv_cache == pytest.approx(2 * 28 * 4 * 128 * 2 * 32768 / GIB)
    large = fit("qwen2.5-vl-72b")
    assert (large.over, large.gpus["24 GB"].split(" or ")[0]) == (4, "tensor_parallel_size: 8")
    assert large.weights == pytest.approx(73.4e9 * 2 / 4 / GIB, rel=0.01)
    quarter = fit({"card": "qwen2.5-vl-72b", "model": "Qwen/Qwen2.5-VL-72B-Instruct-AWQ"})
    assert quarter.weights < large.weights / 3


@pytest.mark.parametrize("size", GPUS)
def test_what_is_advised_makes_it_fit(size):
    for room, name in CARDS:
        found, label = fit(name, room), f"{size} GB"
        for setting, value in re.findall(
            r"(max_model_len|tensor_parallel_size): (\d+)", found.gpus[label] if found else ""
        ):
            changed = {"card": name, "engine_args": {"engine_args": {setting: int(value)}}}
            assert fit(changed, room).gpus[label] in ("fits", "weights fit"), (name, setting)


def test_speeds_that_a_run_has_measured_replace_what_is_assumed(make_experiment, go, tmp_path):
    experiment = make_experiment()
    experiment["rewarders"][2] |= {"size": 1e9, "placement": {"group": "all", "gpus": 1}}
    directory = go(experiment)
    with Store(directory) as store:
        store.db.execute("DELETE FROM judgements WHERE rewarder = 'head' AND rowid % 5 = 0")
        store.db.execute("UPDATE judgements SET seconds = 36 WHERE rewarder = 'head'")
        store.db.execute("UPDATE judgements SET seconds = 0 WHERE rewarder = 'judge'")
    plan = make_plan(prepare(experiment, tmp_path), directory)
    judge, critic, head = plan.rewarders
    assert head.to_do
    assert head.gpu_hours == pytest.approx(head.to_do * 36 / 3600)
    assert head.speed == critic.speed == "measured"
    assert (judge.speed, judge.worker_hours) == ("assumed", None)  # no time was recorded
    text = show_plan(plan)
    assert f"about {head.gpu_hours:.1f} GPU hours" in text  # measured: no range
    plan = make_plan(prepare(experiment, tmp_path), tmp_path / "another")
    assert {work.speed for work in plan.rewarders} == {"assumed"}


def test_the_plan_prints_what_fits(make_experiment, tmp_path):
    experiment = make_experiment()
    experiment["policies"] = ["pixtral-12b"]
    plan = make_plan(prepare(experiment, tmp_path))
    text = show_plan(plan)
    assert plan.memory[0].gpus["24 GB"] == "tensor_parallel_size: 2 or a 4-bit checkpoint"
    assert "24 GB" in text
    assert plan.as_dict()["memory"][0]["gpus"]["80 GB"] == "fits"
