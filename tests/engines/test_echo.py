import asyncio
from dataclasses import replace
from math import exp
from typing import Any

import pytest

from bon.core.sampling import Sampling
from bon.engines.base import GenerateRequest, ImagePart, Message, ScoreRequest
from bon.engines.echo import EchoEngine, EchoError, answer_key
from bon.engines.settings import EchoSettings


def echo(**settings: Any) -> EchoEngine:
    return EchoEngine(EchoSettings(**settings))


def ask(text: str, seeds: tuple[int, ...] = (1,), **changes: object) -> GenerateRequest:
    request = GenerateRequest((Message("user", (text,)),), Sampling(), seeds, choices=("1", "2"))
    return replace(request, **changes)  # type: ignore[arg-type]


def score(text: str) -> ScoreRequest:
    return ScoreRequest((Message("user", ("q",)), Message("assistant", (text,))))


def test_same_request_same_reply_and_seeds_differ() -> None:
    engine = echo()
    seeds = tuple(range(50))
    first = asyncio.run(engine.generate(ask("a", seeds)))
    again = asyncio.run(echo().generate(ask("a", seeds)))
    assert first == again
    assert len({sample.text for sample in first.samples}) == 2
    alone = asyncio.run(engine.generate(ask("a", (7,))))
    assert alone.samples[0] == first.samples[7]


def test_images_count() -> None:
    def reply(sha: str) -> object:
        message = Message("user", ("a", ImagePart(sha, b"")))
        return asyncio.run(echo().generate(ask("", tuple(range(30)), messages=(message,))))

    assert reply("00") != reply("01")


def test_accuracy_and_unparsed_rates() -> None:
    engine = echo(accuracy=0.8, unparsed_rate=0.1)
    seeds = tuple(range(5000))
    with answer_key("2"):
        texts = [s.text for s in asyncio.run(engine.generate(ask("a", seeds))).samples]
    assert texts.count("I cannot say.") == pytest.approx(500, abs=70)
    assert texts.count("Answer: 2") == pytest.approx(3600, abs=120)


def test_failures_are_the_same_items_every_time() -> None:
    def failed(engine: EchoEngine) -> list[int]:
        bad = []
        for i in range(300):
            try:
                asyncio.run(engine.generate(ask(str(i))))
            except EchoError:
                bad.append(i)
        return bad

    engine = echo(failure_rate=0.1)
    bad = failed(engine)
    assert 10 < len(bad) < 60
    assert failed(engine) == bad
    flaky = echo(flaky_rate=0.1)
    assert failed(flaky)
    assert failed(flaky) == []


def test_logprobs_spell_the_reply_and_sum_to_one() -> None:
    engine = echo(reply="Verdict: {choice}.")
    sample = asyncio.run(engine.generate(ask("a", logprobs=5))).samples[0]
    assert "".join(token.token for token in sample.tokens) == sample.text
    verdict = sample.tokens[1]
    assert sum(exp(value) for value in verdict.top.values()) == pytest.approx(1.0)
    assert verdict.top[verdict.token] == verdict.logprob == max(verdict.top.values())


def test_rewards_follow_the_answer_key() -> None:
    engine = echo(accuracy=0.9)

    async def signs(right: bool) -> float:
        with answer_key((right,)):
            rewards = [await engine.reward(score(str(i))) for i in range(1000)]
        return sum(reward.score > 0 for reward in rewards) / 1000

    assert asyncio.run(signs(True)) == pytest.approx(0.9, abs=0.04)
    assert asyncio.run(signs(False)) == pytest.approx(0.1, abs=0.04)
    likelihood = asyncio.run(engine.likelihood(score("one two three")))
    assert likelihood.logprob < 0
    assert likelihood.num_tokens == 3
