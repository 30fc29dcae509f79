"""Every kind of rewarder through transformers, vLLM and a vLLM server: the same judgements.

A random model writes no verdicts, so the rules look for what it does write.
"""

from importlib.util import find_spec
from typing import Any

import pytest

found = find_spec("vllm")
if found is None or found.origin is None:  # a folder of that name is not the package
    pytest.skip("vllm is not installed: see tests/vllm/run.sh", allow_module_level=True)

from tiny_checkpoint import image  # noqa: E402

from bon.config import RewarderCard  # noqa: E402
from bon.engines.base import Generation, Message  # noqa: E402
from bon.prompts import Prompt  # noqa: E402
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
    "scalar": "",
    "likelihood": "",
}


def judge(session: Any, engine: Any, kind: str, **changes: Any) -> list[Verdict]:
    card = RewarderCard(name="r", kind=kind, **changes)  # type: ignore[arg-type]
    cls = rewarder_class(card)
    rewarder = cls(card, Prompt("p", PROMPTS[kind]), engine)
    verdicts: list[Verdict] = session.run(rewarder.judge(ITEM, SHOWN[cls.arity], (1, 2)))
    assert len(verdicts) == 2
    return verdicts


def likely_words(session: Any, engine: Any, text: str) -> tuple[str, str]:
    """The two words that the model would most likely begin its reply with."""
    from bon.engines.base import GenerateRequest, Sampling

    message = Message("user", (image(0), text))
    request = GenerateRequest((message,), Sampling(temperature=0, max_tokens=1), (1,), logprobs=20)
    answer: Generation = session.run(engine.generate(request))
    ranked = list(answer.samples[0].tokens[0].top)
    words = [word for word in ranked if word.strip() and "\ufffd" not in word]
    return words[0].strip(), next(w.strip() for w in words if w.strip() != words[0].strip())


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


@pytest.mark.parametrize("kind", ["pointwise", "stepwise"])
@pytest.mark.parametrize("turns", [False, True])
def test_probabilities_of_words_are_equal(
    session: Any, hf: Any, engine: Any, client: Any, kind: str, turns: bool
) -> None:
    text = Prompt("p", PROMPTS["pointwise"]).render(prompt=ITEM.prompt, response="A circle.")
    yes, no = likely_words(session, hf, text)
    settings = {
        "score": {"yes": [yes], "no": [no]},
        "sampling": {"temperature": 0.0, "max_tokens": 1},
        "options": {"turns": turns},
    }
    one, two, three = (judge(session, e, kind, **settings) for e in (hf, engine, client))
    assert one[0].outcome == two[0].outcome == three[0].outcome
    if one[0].score is not None:
        assert two[0].score == pytest.approx(one[0].score, abs=1e-3)
        assert three[0].score == pytest.approx(one[0].score, abs=1e-3)


def test_likelihoods_and_rewards_are_equal(
    session: Any, hf: Any, engine: Any, client: Any, rewarder: Any, reward_client: Any
) -> None:
    theirs = judge(session, hf, "likelihood")[0].score
    for other in (engine, client):
        assert judge(session, other, "likelihood")[0].score == pytest.approx(theirs, abs=1e-3)
    theirs = judge(session, hf, "scalar")[0].score
    for other in (rewarder, reward_client):
        assert judge(session, other, "scalar")[0].score == pytest.approx(theirs, abs=1e-3)
