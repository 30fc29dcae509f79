"""Kind `rerank`: what it asks an engine, and how its scores are stored. No model."""

import asyncio
from typing import Any

import pytest

from bon.core.errors import Unsupported
from bon.engines import build
from bon.engines.base import Engine, ImagePart, RankRequest, Reward
from bon.experiment.config import RewarderCard
from bon.experiment.prompts import Prompt
from bon.rewarders.base import Item, OnEcho
from bon.rewarders.scalar import Reranker

IMAGES = (ImagePart("a" * 64, b"one"), ImagePart("b" * 64, b"two"))
INSIDE = ImagePart("c" * 64, b"three")
TEXTS = {"x": f"See <image {'c' * 16}>: A", "y": "Answer: B"}
ITEM = Item("pair", "i", "Which?", IMAGES, TEXTS, {INSIDE.sha256[:16]: INSIDE})


class Heard(Engine):
    """Keeps what it is asked."""

    name = "heard"

    def __init__(self, score: float = 2.5) -> None:
        self.asked: list[RankRequest] = []
        self.score = score

    async def rank(self, request: RankRequest) -> Reward:
        self.asked.append(request)
        return Reward(self.score, 12)


def judged(engine: Engine, shown: str, right: bool | None = None, **card: Any) -> Any:
    made = RewarderCard.model_validate({"name": "r", "kind": "rerank", **card})
    rewarder = Reranker(made, Prompt("p", "{{ query }}{{ document }}"), engine)
    asked = rewarder if right is None else OnEcho(rewarder, {shown: right})
    return asyncio.run(asked.judge(ITEM, (shown,), (1, 2, 3)))


def test_the_question_is_the_query_and_a_response_the_document() -> None:
    engine = Heard()
    verdicts = judged(engine, "x", options={"instruction": "Find it."})
    assert [(v.outcome, v.score, v.num_prompt_tokens) for v in verdicts] == [
        ("scored", 2.5, 12)
    ] * 3
    assert engine.asked == [
        RankRequest(
            (*IMAGES, "Which?"),
            ("See ", INSIDE, ": A"),
            "Find it.",
            "{{ query }}{{ document }}",
        )
    ]


def test_a_score_that_is_no_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="the model returned the score nan"):
        judged(Heard(float("nan")), "y")


def test_echo_ranks_as_often_right_as_it_is_told() -> None:
    sure = build("echo", {"accuracy": 1.0})
    assert judged(sure, "x", right=True)[0].score > 0 > judged(sure, "y", right=False)[0].score


def test_an_engine_without_rerankers_says_so() -> None:
    class Other(Engine):
        name = "other"

    with pytest.raises(Unsupported, match="'other' runs no rerankers"):
        judged(Other(), "x")
