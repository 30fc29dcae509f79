from pathlib import Path

import pytest

from bon.core.errors import BonError
from bon.experiment.cards import load_policy, load_rewarder, settings_of, shipped

CARD = """
name: mine
engine: echo
prompt: bare
sampling: {temperature: 1.0}
engine_args: {accuracy: 0.5}
"""


@pytest.fixture
def card(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(CARD)
    return path


def test_a_path_is_relative_to_the_experiment_and_overrides_are_merged(card):
    found = load_policy({"card": card.name, "sampling": {"top_p": 0.9}}, card.parent)
    assert found.card.sampling.top_p == 0.9
    assert found.card.sampling.temperature == 1.0


@pytest.mark.parametrize("prompt", [{"text": "{{ prompt }}"}, {"file": "mine.jinja"}, "pairwise"])
def test_another_prompt_replaces_one_that_is_a_mapping(prompt, tmp_path):
    (tmp_path / "mine.jinja").write_text("{{ prompt }}")
    found = load_rewarder({"card": "r1-reward", "prompt": prompt}, tmp_path)
    assert found.prompt.id in ("inline", "file:mine.jinja", "pairwise")
    assert found.prompt.here


def test_unknown_card_names_the_nearest():
    with pytest.raises(BonError, match="no rewarder card"):
        load_rewarder("no-such-card", Path())
    name = next(iter(shipped("policies")))
    with pytest.raises(BonError, match=f"did you mean {name!r}"):
        load_policy(name + "x", Path())


def test_the_spec_follows_what_shapes_the_output_and_nothing_else(card):
    def spec(seed=0, **changes):
        return load_policy({"card": card.name, **changes}, card.parent, seed).spec

    assert spec() == spec(notes="something else", placement={"actors": 4}, extractor="strict")
    assert spec() == spec(engine_args={"latency": 0.5})
    vllm = {"engine": "vllm", "model": "m"}
    nested = {"engine_args": {"dtype": "bfloat16"}}
    faster = {"engine_args": {"dtype": "bfloat16", "max_num_seqs": 8}}
    assert spec(engine_args=nested, **vllm) == spec(engine_args=faster, **vllm) != spec(**vllm)
    assert spec() != spec(engine_args={"accuracy": 0.6})
    assert spec() != spec(sampling={"temperature": 0.7})
    assert spec() != spec(prompt={"text": "{{ question }}"})
    assert spec() != spec(seed=1)
    greedy = {"sampling": {"temperature": 0.0}}
    assert spec(**greedy) == spec(seed=1, **greedy)


# Rows of runs are found by these: a change asks everything again.
RECORDED = {
    "policies/gpt-4o": "4580f7fcf669a68ba7404761",
    "policies/qwen2.5-vl-7b": "8c8a9a4d3d591f14d5304d35",
    "policies/mini-policy-a": "c81ad8124d94454030857e43",
    "rewarders/qwen2.5-vl-7b-judge": "567f4f23c84985f927d126df",
    "rewarders/gpt-4o-judge": "cff4a61741e423e0f76a7bf9",
    "rewarders/skywork-vl-reward-7b": "4af2767fdfe935d05a8ebd29",
    "rewarders/qwen2.5-vl-7b-likelihood": "a18b89bd9b7c935cceb26d5f",
    "rewarders/nvlm-d-72b-judge": "787fc94c3a350d0b26362714",
    "rewarders/mini-critic-a": "dcd052ac143da05dab2e8635",
}


@pytest.mark.parametrize("name", RECORDED)
def test_shipped_cards_keep_their_specs(name):
    room, _, card = name.partition("/")
    loaded = (load_policy if room == "policies" else load_rewarder)(card, Path())
    assert loaded.with_rule == RECORDED[name]
    # A rule that reads stored replies is no part of today's spec: it only reads them again.
    rule = getattr(loaded.card, "stored_rule", None)
    assert (loaded.spec == RECORDED[name]) == (rule is None)


def of_endpoint(**settings):
    arguments = {"base_url": "https://api.openai.com/v1", **settings}
    ref = {"name": "x", "model": "m", "engine": "openai", "prompt": "bare"}
    price = {"input_per_million": 1, "output_per_million": 2}
    return load_policy({**ref, "engine_args": arguments, "cost": price}, Path()).spec


@pytest.mark.parametrize(
    "settings",
    [
        {"spending_cap": 5}, {"retries": 9}, {"retry_wait": 2}, {"concurrency": 2},
        {"max_concurrency": 9}, {"api_key_env": "MINE"}, {"timeout": 9},
        {"api_key_env": None},
    ],
)  # fmt: skip
def test_money_and_access_to_an_endpoint_change_no_spec(settings):
    assert of_endpoint(**settings) == of_endpoint()


@pytest.mark.parametrize(
    "settings",
    [
        {"base_url": "https://api.openai.com/v2"}, {"extra_body": {"timeout": 3}},
        {"endpoint": "plain"}, {"capabilities": {"n": False}},
    ],
)  # fmt: skip
def test_what_an_endpoint_is_asked_changes_the_spec(settings):
    assert of_endpoint(**settings) != of_endpoint()


def test_a_wrong_setting_is_refused_when_the_card_is_read(card):
    with pytest.raises(
        BonError, match=r"card 'mine': engine 'echo': unknown key 'acuracy' -> .*'acc"
    ):
        load_policy({"card": card.name, "engine_args": {"acuracy": 1}}, card.parent)


def test_an_endpoint_takes_no_revision(card):
    openai = {"engine": "openai", "model": "m", "engine_args": {"base_url": "http://x/v1"}}
    with pytest.raises(BonError, match="an endpoint takes no revision -> start the server with"):
        load_policy({"card": card.name, **openai, "revision": "main"}, card.parent)


def test_another_engine_does_not_get_the_old_ones_arguments(card):
    found = load_policy({"card": card.name, "engine": "vllm"}, card.parent)
    assert found.card.engine_args == {}


@pytest.mark.parametrize(
    "arguments", [{"trust_remote_code": True}, {"engine_args": {"trust_remote_code": True}}]
)
def test_code_that_comes_with_a_model_must_be_allowed(card, arguments):
    policy = load_policy(
        {"card": card.name, "engine": "vllm"} | {"engine_args": arguments}, card.parent
    )
    with pytest.raises(BonError, match="--allow-remote-code"):
        settings_of(policy, remote_code=False)
    assert settings_of(policy, remote_code=True).model_dump()["model"] == policy.card.model


def test_a_checkpoint_that_changed_has_another_spec(card):
    folder = card.parent / "checkpoint"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"one")
    before = load_policy({"card": card.name, "model": "checkpoint"}, card.parent)
    assert before.model_path == str(folder)
    (folder / "model.safetensors").write_bytes(b"two")
    after = load_policy({"card": card.name, "model": "checkpoint"}, card.parent)
    assert before.spec != after.spec
