import asyncio
import math
from pathlib import Path

import pytest

from bon.core.errors import BonError
from bon.engines import build
from bon.engines.base import Engine, Generation, Sample, TokenLogprob
from bon.experiment.cards import load_prompt
from bon.experiment.config import RewarderCard
from bon.experiment.prompts import Prompt
from bon.rewarders.base import Item, OnEcho
from bon.rewarders.registry import rewarder_class

ROOT = Path(__file__).parents[2]


SCORE = {"yes": ["+"], "no": ["-"]}
TEXT = "one\n\ntwo\n\n\n\nthree"


class Scripted(Engine):
    """P('+') of each step, by how many turns or numbered steps the request has."""

    name = "scripted"

    def __init__(self, chances):
        self.chances = chances
        self.asked = []

    async def generate(self, request):
        self.asked.append(request.messages)
        place = len(self.asked) - 1
        chance = self.chances[place]
        if chance is None:
            return Generation(tuple(Sample("hm", 1) for _ in request.seeds), 10, 0.5)
        top = {"+": math.log(chance), "-": math.log(1 - chance)}
        token = TokenLogprob("+", math.log(chance), top)
        return Generation(tuple(Sample("+", 1, tokens=(token,)) for _ in request.seeds), 10, 0.5)


def critic(engine, prompt="{{ prompt }}|{{ steps | length }}|{{ step }}", **changes):
    card = RewarderCard(name="prm", kind="stepwise", **{"score": SCORE, **changes})
    return rewarder_class(card)(card, Prompt("p", prompt), engine)


def judge(rewarder, text=TEXT, seeds=(1,), correct=None):
    item = Item("question", "i", "Why?", (), {"k": text})
    asked = rewarder if correct is None else OnEcho(rewarder, {"k": correct})
    return asyncio.run(asked.judge(item, ("k",), seeds))


@pytest.mark.parametrize(
    ("aggregate", "score"), [("mean", 0.6), ("min", 0.4), ("product", 0.192), ("last", 0.6)]
)
def test_steps_are_scored_and_put_together(aggregate, score):
    engine = Scripted([0.8, 0.4, 0.6])
    (verdict,) = judge(critic(engine, aggregate=aggregate))
    assert verdict.outcome == "scored"
    assert verdict.score == pytest.approx(score)
    assert verdict.text == "0.8000 0.4000 0.6000"
    assert (verdict.num_tokens, verdict.num_prompt_tokens, verdict.cost) == (3, 30, 1.5)
    assert [messages[-1].parts[-1] for messages in engine.asked] == [
        "Why?|1|one", "Why?|2|two", "Why?|3|three",
    ]  # fmt: skip


def test_turns_are_answered_by_the_first_yes_word():
    engine = Scripted([0.5] * 4)
    judge(critic(engine, options={"turns": True}))
    last = engine.asked[-1]
    assert [message.role for message in last] == ["user", "assistant"] * 3 + ["user"]
    texts = [message.parts[-1] for message in last]
    assert texts == ["Why?|1|one", "+", "two", "+", "", "+", "three"]  # as written


def test_a_step_that_cannot_be_read_leaves_no_score():
    (verdict,) = judge(critic(Scripted([0.8, None, 0.6])))
    assert (verdict.outcome, verdict.score) == ("unparsed", None)
    assert verdict.text == "0.8000 ? 0.6000"


def test_many_steps_are_joined_and_an_empty_response_is_one_step():
    engine = Scripted([0.5] * 9)
    judge(critic(engine, options={"max_steps": 2}), "\n\n".join("abcde"))
    assert [messages[-1].parts[-1] for messages in engine.asked] == ["Why?|1|a\n\nb\n\nc",
                                                                     "Why?|2|d\n\ne"]  # fmt: skip
    assert judge(critic(Scripted([0.5])), "")[0].score == pytest.approx(0.5)
    with pytest.raises(ValueError, match="max_steps: found 0, expected a whole number from 1 to"):
        critic(Scripted([0.5]), options={"max_steps": 0})


def test_on_echo_right_responses_score_higher():
    prompt = load_prompt("stepwise", ROOT).text
    rewarder = critic(build("echo", {"accuracy": 1.0, "reply": "{choice}"}), prompt)
    good = judge(rewarder, correct=True, seeds=(1, 2))
    bad = judge(rewarder, correct=False)
    assert good[0].score > 0.5 > bad[0].score
    assert good[0].score != good[1].score


def test_numbers_a_step_and_turns_without_words():
    numbers = {"pattern": r"(\d)", "values": {}}
    engine = build("echo", {"reply": "I see {choice}.\n\n7"})
    (verdict,) = judge(critic(engine, score=numbers))
    assert verdict.score == 7
    with pytest.raises(BonError, match="needs the reply that marks"):
        judge(critic(engine, score=numbers, options={"turns": True}))
