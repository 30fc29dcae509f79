"""`bon doctor --rewarder`: what is wrong with a model shows before it is paid for."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from bon.commands.main import app
from bon.running.rewarder_check import PAIRS, draw

CLASSES = """
from bon.rewarders.base import Rewarder, Verdict

class Base(Rewarder):
    arity = "one"

    def value(self, text):
        return float(len(text))

    async def judge(self, item, shown, seeds):
        return [Verdict("scored", score=self.value(item.responses[shown[0]]))] * len(seeds)

class Constant(Base):
    def value(self, text):
        return 0.125

class Knows(Base):
    def value(self, text):
        right = ("It is red.", "three", "A circle.", "A triangle.", "five", "left", "white")
        return 2.0 * any(each in text for each in right) - len(text) / 1000

class Reversed(Base):
    async def judge(self, item, shown, seeds):
        place = list(item.responses).index(shown[0])  # the right one is the first
        return [Verdict("scored", score=float(place))] * len(seeds)

class Mute(Base):
    async def judge(self, item, shown, seeds):
        return [Verdict("unparsed", reason="says nothing")] * len(seeds)
"""


@pytest.fixture
def tried(tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(CLASSES)
    monkeypatch.chdir(tmp_path)

    def run(name, **changes):
        card = {"name": name.lower(), "role": "rewarder", "kind": "python", "engine": "none"}
        card |= {"python": f"own:{name}", **changes}
        (tmp_path / "card.yaml").write_text(yaml.safe_dump(card))
        return CliRunner().invoke(app, ["doctor", "--rewarder", "card.yaml"])

    return run


def test_a_rewarder_that_knows_is_let_pass(tried):
    done = tried("Knows")
    assert done.exit_code == 0, done.output
    assert "fault" not in done.output
    assert f"of {len(PAIRS)} known pairs right" in done.output


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("Constant", "every response got 0.125: the head was not loaded"),
        ("Mute", "could not be parsed"),
        ("Base", "no better than guessing"),
        ("Reversed", "0 of 8 right, less than by guessing: it is probably reversed"),
    ],
)
def test_what_is_wrong_is_said(tried, name, fault):
    done = tried(name)
    assert done.exit_code == 3
    assert fault in done.output


def test_recorded_scores_are_compared(tried):
    check = {"prompt": "?", "responses": ["abcd", "ab"], "scores": [-0.004, -0.002]}
    assert tried("Knows", check=[{**check, "tolerance": 1e-6}]).exit_code == 0
    done = tried("Knows", check=[{**check, "scores": [1.0, -0.002]}])
    assert done.exit_code == 3
    assert "1 of 2 recorded scores differ by more than 0.02: -0.004 where 1 was recorded" in (
        done.output
    )
    refused = tried("Knows", check=[{**check, "scores": [1.0]}])
    assert "1 scores of 2 responses" in str(refused.exception)


def test_for_programs(tried, tmp_path):
    tried("Knows")
    done = CliRunner().invoke(app, ["doctor", "--rewarder", "card.yaml", "--json"])
    assert json.loads(done.stdout)["faults"] == []


def test_pictures_are_what_their_words_say():
    for picture, *_ in PAIRS:
        assert len({*draw(picture).getdata()}) == 2


@pytest.mark.model
def test_a_head_that_was_not_loaded(tmp_path, monkeypatch):
    """A real model: the same checkpoint with its head and with one of zeros."""
    pytest.importorskip("torch")
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[1] / "engines"))
    import torch
    from tiny_checkpoint import add_tensors, make_checkpoint

    folder = make_checkpoint(tmp_path / "model", head=True)
    monkeypatch.chdir(tmp_path)
    card = {
        "name": "tiny", "role": "rewarder", "kind": "scalar", "model": str(folder),
        "engine": "transformers", "engine_args": {"head": "auto"},
    }  # fmt: skip
    (tmp_path / "card.yaml").write_text(yaml.safe_dump(card))
    first = CliRunner().invoke(app, ["doctor", "--rewarder", "card.yaml"])
    assert "the head was not loaded" not in first.output.replace("a head that was", "")
    assert "known pairs right" in first.output
    add_tensors(folder, {"language_model.score.weight": torch.zeros(1, 128)})
    (tmp_path / "card.yaml").write_text(yaml.safe_dump({**card, "name": "tiny-zero"}))
    second = CliRunner().invoke(app, ["doctor", "--rewarder", "card.yaml"])
    assert second.exit_code == 3
    assert "every response got 0: the head was not loaded" in second.output
