"""Every kind with its shipped prompt on a real, tiny, random Qwen2.5-VL: the path works."""

import asyncio
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[1] / "engines"))

from tiny_checkpoint import image, make_checkpoint

from bon.engines import build
from bon.rewarders.base import Item
from bon.rewarders.registry import rewarder_class
from tests.rewarders.wordings import in_our_words

pytestmark = pytest.mark.model

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in (ROOT / "rewarders" / "cards").glob("*.yaml"))
CARDS = {name: in_our_words(name) for name in NAMES}
# One card of each kind and prompt: the others differ in the checkpoint alone.
RUN = {
    (loaded.card.kind, loaded.prompt.id): name
    for name, loaded in CARDS.items()
    if loaded.card.kind not in ("rerank", "ensemble", "python")  # the engine runs no reranker
}
SHOWN = {"one": ("a",), "two": ("a", "b"), "many": ("b", "a")}
OUTCOMES = {"one": "scored", "two": "first second tie", "many": "chosen"}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return make_checkpoint(tmp_path_factory.mktemp("tiny") / "checkpoint", head=True)


@pytest.fixture(scope="module")
def engine(checkpoint):
    return build("transformers", {"model": str(checkpoint), "dtype": "float32"})


@pytest.fixture(scope="module")
def head_engine(checkpoint):
    return build("transformers", {"model": str(checkpoint), "dtype": "float32", "head": "auto"})


@pytest.mark.parametrize("name", RUN.values())
def test_a_card_runs_end_to_end(name, engine, head_engine):
    loaded = CARDS[name]
    # A random model writes no verdict: a few tokens are enough to see that it is asked and read.
    sampling = loaded.card.sampling.model_copy(update={"max_tokens": 4})
    card = loaded.card.model_copy(update={"sampling": sampling})
    found = rewarder_class(card)
    used = head_engine if card.kind == "scalar" else engine
    responses = {"a": "I see a circle.\n\nAnswer: A", "b": "It is blue.\n\nAnswer: B"}
    item = Item("question", "i", "What is it?\nA. red\nB. blue", (image(0),), responses)
    verdicts = asyncio.run(found(card, loaded.prompt, used).judge(item, SHOWN[found.arity], (1, 2)))
    assert len(verdicts) == 2
    for verdict in verdicts:
        assert verdict.outcome in (*OUTCOMES[found.arity].split(), "unparsed")
        assert verdict.num_prompt_tokens > 20
        if card.kind in ("scalar", "likelihood"):
            assert verdict.outcome == "scored"
