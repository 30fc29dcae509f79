"""Adapters of models that bring their own code, with that code replaced by a recording."""

import asyncio
import contextlib

import pytest

from bon.core.errors import BonError
from bon.engines import build
from bon.engines.base import ImagePart
from bon.experiment.cards import load_rewarder
from bon.experiment.prompts import Prompt
from bon.rewarders import ixc, mm_rlhf
from bon.rewarders.base import Item
from bon.rewarders.registry import rewarder_class

ITEM = Item("question", "i", "Why?", (ImagePart("0" * 64, b"png"),), {"k": "Because."})
ENGINE = {"model": "some/model", "revision": "r1", "trust_remote_code": True}


def judge(name, tmp_path, seeds=(1, 2), prompt=None, **changes):
    loaded = load_rewarder({"card": name, **changes}, tmp_path)
    found = rewarder_class(loaded.card)
    rewarder = found(loaded.card, prompt or loaded.prompt, build("none", ENGINE))
    return asyncio.run(rewarder.judge(ITEM, ("k",), seeds))


def test_ixc_is_given_the_conversation_and_files(monkeypatch, tmp_path):
    calls = []

    def call(model, chat, paths, hd_num):
        with open(paths[0], "rb") as file:
            calls.append((model, chat, file.read(), hd_num))
        return -2.5

    monkeypatch.setattr(ixc, "load", lambda model, revision: (model, revision))
    monkeypatch.setattr(ixc, "_call", call)
    verdicts = judge("ixc-2.5-reward", tmp_path)
    assert [verdict.score for verdict in verdicts] == [-2.5, -2.5]
    chat = [
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "Because."},
    ]
    assert calls == [(("some/model", "r1"), chat, b"png", 9)]


class Critic:
    def __init__(self):
        self.seeds = []

    def images(self, parts):
        return ["tensor"] * len(parts), [(1, 1)] * len(parts)

    def critique(self, text, images, sizes, sampling, seed):
        self.seeds.append(seed)
        assert text == "<image>\nWhy?|Because."
        return f"fine {seed}"

    def score(self, text, critique, images, sizes):
        return float(critique.split()[1])


@pytest.mark.parametrize(("temperature", "scores"), [(0.0, [1.0, 1.0]), (1.0, [1.0, 2.0])])
def test_mm_rlhf_scores_after_its_critique(monkeypatch, tmp_path, temperature, scores):
    critic = Critic()
    monkeypatch.setattr(mm_rlhf, "load", lambda model, revision: critic)
    monkeypatch.setattr(mm_rlhf, "_no_grad", contextlib.nullcontext)
    prompt = Prompt("p", "{{ prompt }}<image>|{{ response }}")  # as published: one mark per image
    changes = {"sampling": {"temperature": temperature}}
    verdicts = judge("mm-rlhf-reward", tmp_path, prompt=prompt, **changes)
    assert [verdict.score for verdict in verdicts] == scores
    assert critic.seeds == ([1] if temperature == 0 else [1, 2])


def test_a_missing_environment_is_one_line(tmp_path):
    with pytest.raises(BonError, match="MM-RLHF-Reward needs"):
        mm_rlhf.load.__wrapped__("m", None)
    with pytest.raises(BonError, match=r"IXC-2.5-Reward"):
        ixc.load.__wrapped__("m", None)


def test_ixc_without_flash_attn_is_one_line(monkeypatch):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(transformers, "__version__", "4.46.0")
    with pytest.raises(BonError, match=r"flash-attn -> on the workers: pip install flash-attn"):
        ixc.load.__wrapped__("m", None)
