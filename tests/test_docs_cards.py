"""What docs/cards.md and docs/rewarders.md show works as it is shown."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from bon.engines import build
from bon.experiment.cards import load_policy, load_rewarder
from bon.experiment.prompts import Prompt
from bon.experiment.upstream import registry
from bon.experiment.yamlfile import load_yaml
from bon.rewarders.base import Item
from bon.rewarders.registry import rewarder_class
from bon.rewarders.reply_parsing import read_verdict
from bon.work.catalogue import listing

DOCS = Path(__file__).parents[1] / "docs"


def blocks(file, language):
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / file).read_text(), flags=re.DOTALL)


def test_the_example_card(tmp_path):
    (tmp_path / "my-judge.yaml").write_text(blocks("cards.md", "yaml")[0])
    (tmp_path / "my-judge.jinja").write_text("{{ prompt }} {{ first }} {{ second }}")
    loaded = load_rewarder("my-judge.yaml", tmp_path)
    assert loaded.prompt.render(prompt="p", first="a", second="b") == "p a b"
    said = {"Winner: A": "first", "Winner: draw": "tie", "winner: B": "second", "A": "unparsed"}
    for text, outcome in said.items():
        assert read_verdict(text, loaded.card.verdict).outcome == outcome


def test_the_changed_card(tmp_path):
    (ref,) = load_yaml(blocks("cards.md", "yaml")[1])["rewarders"]
    card = load_rewarder(ref, tmp_path).card
    assert (card.name, card.votes, card.sampling.temperature) == ("qwen2.5-vl-7b-warm", 5, 1.0)
    assert card.sampling.max_tokens == 2048


def test_the_policy_with_the_published_prompt(tmp_path):
    (ref,) = load_yaml(blocks("cards.md", "yaml")[2])["policies"]
    loaded = load_policy(ref, tmp_path)
    assert (loaded.prompt.id, loaded.card.images) == ("upstream:mmmu-pro-cot", "last")
    sampling = loaded.card.sampling
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens) == (0.8, 0.95, 4096)


def test_the_rewarder_in_python(tmp_path, monkeypatch):
    (tmp_path / "shortest.py").write_text(blocks("cards.md", "python")[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    (ref,) = load_yaml(blocks("cards.md", "yaml")[3])["rewarders"]
    loaded = load_rewarder(ref, tmp_path)
    rewarder = rewarder_class(loaded.card)(loaded.card, Prompt("", ""), build("none", {}))
    item = Item("question", "i", "Why?", (), {"k": "four"})
    verdicts = asyncio.run(rewarder.judge(item, ("k",), (1, 2)))
    assert [verdict.score for verdict in verdicts] == [-4.0, -4.0]
    sys.modules.pop("shortest", None)


def test_the_rule_of_another_prompt(tmp_path):
    (ref,) = load_yaml(blocks("rewarders.md", "yaml")[2])
    rule = load_rewarder({**ref, "prompt": {"text": "-"}}, tmp_path).card.verdict
    assert read_verdict("B errs.\n[[A]]", rule).outcome == "first"
    assert read_verdict("[[B]]", rule).outcome == "second"
    assert read_verdict("[[C]]", rule).outcome == "unparsed"


@pytest.mark.parametrize("file", ["rewarders.md", "cards.md"])
def test_names_of_cards_are_names_of_cards(file):
    shown = set(re.findall(r"`((?:qwen|llava|unified|ensemble-|r1|visual|gpt|gemini|"
                           r"claude|skywork|molmo|pixtral|nvlm|phi|llama|internvl)[\w.-]*)`",
                           (DOCS / file).read_text()))  # fmt: skip
    known = {row["name"] for what in ("policies", "rewarders") for row in listing(what)}
    assert shown <= known | set(registry())
