"""Every kind of rewarder through transformers, vLLM and a vLLM server: the same judgements.

A random model writes no verdicts, so the rules look for what it does write.
"""

from dataclasses import replace
from importlib.util import find_spec
from string import ascii_letters
from typing import Any

import pytest

found = find_spec("vllm")
if found is None or found.origin is None:  # a folder of that name is not the package
    pytest.skip("vllm is not installed: see tests/vllm/run.sh", allow_module_level=True)

from tiny_checkpoint import image  # noqa: E402

from bon.experiment.config import RewarderCard  # noqa: E402
from bon.experiment.prompts import Prompt  # noqa: E402
from bon.rewarders.base import Item, Verdict  # noqa: E402
from bon.rewarders.registry import rewarder_class  # noqa: E402

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(1200)]

ITEM = Item(
    "question", "i", "What is it? A. red B. blue", (image(0),),
    {"a": "A circle.\n\nAnswer: A", "b": "Blue.\n\nAnswer: B"},
)  # fmt: skip
SHOWN = {"one": ("a",), "two": ("a", "b"), "many": ("b", "a")}
PROMPTS = {
    "pairwise": "{{ prompt }} 1. {{ first }} 2. {{ second }}",
    "pointwise": "{{ prompt }} {{ response }}",
    "listwise": "{{ prompt }} {{ responses | join(' ') }}",
    "stepwise": "{{ prompt }} {{ step }}",
}
KINDS_WITH_WORDS = [("pointwise", False), ("stepwise", False), ("stepwise", True)]


def judge(session: Any, engine: Any, kind: str, item: Item = ITEM, **changes: Any) -> list[Verdict]:
    card = RewarderCard(name="r", kind=kind, **changes)  # type: ignore[arg-type]
    cls = rewarder_class(card)
    rewarder = cls(card, Prompt("p", PROMPTS[kind]), engine)
    verdicts: list[Verdict] = session.run(rewarder.judge(item, SHOWN[cls.arity], (1, 2)))
    assert len(verdicts) == 2
    return verdicts


@pytest.mark.parametrize("kind", ["pairwise", "pointwise", "listwise", "stepwise"])
def test_replies_are_read_alike(session: Any, hf: Any, engine: Any, client: Any, kind: str) -> None:
    rule: dict[str, Any] = {"pattern": r"(\w)"}
    key = "verdict" if kind == "pairwise" else "score"
    settings = {key: rule, "sampling": {"temperature": 0.0, "max_tokens": 8}}
    one, two, three = (judge(session, e, kind, **settings) for e in (hf, engine, client))
    for theirs, ours, served in zip(one, two, three, strict=True):
        assert theirs.outcome == ours.outcome == served.outcome
        assert theirs.num_tokens == ours.num_tokens == served.num_tokens
        assert theirs.num_prompt_tokens == ours.num_prompt_tokens == served.num_prompt_tokens


@pytest.mark.parametrize(("kind", "turns"), KINDS_WITH_WORDS)
def test_probabilities_of_words_are_equal(
    session: Any, hf: Any, engine: Any, client: Any, kind: str, turns: bool
) -> None:
    settings = {
        "score": {"yes": list(ascii_letters[::2]), "no": list(ascii_letters[1::2])},
        "sampling": {"temperature": 0.0, "max_tokens": 1},
        "options": {"turns": turns} if kind == "stepwise" else {},
    }
    for place in range(300):  # until the model begins its replies with letters
        item = replace(ITEM, prompt=f"{place} {ITEM.prompt}")
        theirs = judge(session, hf, kind, item, **settings)[0]
        if theirs.outcome == "scored":
            break
    assert theirs.score is not None
    for other in (engine, client):
        ours = judge(session, other, kind, item, **settings)[0]
        # Letters at the edge of the twenty likeliest may differ.
        assert ours.score == pytest.approx(theirs.score, abs=0.02)
        assert ours.num_prompt_tokens == theirs.num_prompt_tokens
