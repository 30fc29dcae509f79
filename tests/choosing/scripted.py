"""Rewarders that say what their seeds tell them, and the same questions run and served."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from bon.analysis.data.tables import COLUMNS, Tables
from bon.choosing.designs import Design
from bon.core.keys import text_key
from bon.core.records import Judgement
from bon.engines.base import Message
from bon.rewarders.base import Arity, Item, Rewarder, Verdict
from bon.rewarders.item_judging import Protocol, judge_item
from bon.rewarders.registry import rewarder_class
from bon.service.online.selector import Choice, Conversation, Selector, Usage
from bon.service.settings import Online

N = 5


class Scripted(Rewarder):
    """Verdicts from seeds alone, ties and unreadable ones among them; some calls fail."""

    async def judge(
        self, item: Item, shown: tuple[str, ...], seeds: tuple[int, ...]
    ) -> list[Verdict]:
        """One verdict per seed."""
        if seeds[0] % 17 == 0 and len(item.responses) > 3 and self.arity != "many":
            raise RuntimeError("no answer")
        return [self.say(np.random.default_rng(seed), len(shown)) for seed in seeds]

    def say(self, rng: np.random.Generator, count: int) -> Verdict:
        """What a seed says about so many responses."""
        raise NotImplementedError


class Scorer(Scripted):
    """Scores of a card's spread, some of them equal."""

    arity: ClassVar[Arity] = "one"

    def say(self, rng: np.random.Generator, count: int) -> Verdict:
        """A score."""
        if rng.random() < 0.1:
            return Verdict("unparsed")
        value = float(rng.normal()) if rng.random() < 0.7 else 0.0
        return Verdict("scored", float(getattr(self.card.options, "spread", 0.0)) * value)


class Comparer(Scripted):
    """Verdicts on pairs."""

    arity: ClassVar[Arity] = "two"

    def say(self, rng: np.random.Generator, count: int) -> Verdict:
        """A verdict."""
        return Verdict(rng.choice(["first", "second", "tie", "unparsed"], p=[0.4, 0.3, 0.2, 0.1]))


class Chooser(Scripted):
    """Choices among several."""

    arity: ClassVar[Arity] = "many"

    def say(self, rng: np.random.Generator, count: int) -> Verdict:
        """A place among those shown."""
        if rng.random() < 0.1:
            return Verdict("unparsed")
        return Verdict("chosen", float(rng.integers(count)))


def card(kind: str, votes: int = 1, spread: float = 1.0) -> dict[str, Any]:
    """The card of a scripted rewarder of a kind of opinion."""
    name = {"scores": "Scorer", "preferences": "Comparer", "choices": "Chooser"}[kind]
    return {
        "name": "r", "kind": "python", "engine": "echo", "votes": votes, "window": 3,
        "python": f"tests.choosing.scripted:{name}", "options": {"spread": spread},
    }  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A question as it is served: texts, some of them equal, and the answers read from them."""

    conversation: Conversation
    texts: list[str]
    answers: list[str | None]


def questions(count: int, seed: int, size: int = N) -> list[Asked]:
    """Questions with `size` candidates of two or three answers, some of them unreadable."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        letters, copies = rng.choice(list("AABBC?"), size), rng.integers(2, size=size)
        texts = [f"{letter}{copy}" for letter, copy in zip(letters, copies, strict=True)]
        answers = [None if text[0] == "?" else text[0] for text in texts]
        conversation = Conversation((Message("user", (f"{seed}-{number}",)),), ("x", "y", "z"))
        made.append(Asked(conversation, texts, answers))
    return made


def selector_of(setting: dict[str, Any], **online: Any) -> Selector:
    """A selector over a scripted rewarder in this process."""
    settings = Online.model_validate({"rewarders": [setting], "backend": "process", **online})
    return Selector(settings, Path())


def judged(selector: Selector, asked: list[Asked], design: Design) -> list[Judgement]:
    """What a run of that design files, by the code of the runner."""
    loaded = selector.rewarder("r")
    rewarder = rewarder_class(loaded.card)(loaded.card, loaded.prompt, None)  # type: ignore[arg-type]
    protocol = Protocol(loaded.spec, loaded.card.votes, design, 1)

    async def work() -> list[Judgement]:
        rows: list[Judgement] = []
        for each in asked:
            texts = {text_key(text): text for text in each.texts}
            item = Item("question", each.conversation.key, each.conversation.text, (), texts)
            rows += await judge_item(rewarder, item, protocol, [])
        return rows

    return asyncio.run(work())


def tables(asked: list[Asked], rows: list[Judgement], kind: str) -> Tables:
    """The same as the store writes it for the analysis; A is always right."""
    keys = [each.conversation.key for each in asked]
    frame = pd.DataFrame(
        {"question": keys, "id": keys, "dataset": "d", "subject": "", "difficulty": "",
         "num_options": 3, "answer": "A", "leaked": False}
    )  # fmt: skip
    candidates = pd.DataFrame(
        [
            (each.conversation.key, "p", at, text_key(text), answer,
             "parsed" if answer else "unparsed", answer == "A", len(text), 1, None)
            for each in asked
            for at, (text, answer) in enumerate(zip(each.texts, each.answers, strict=True))
        ],
        columns=list(COLUMNS["candidates"]),
    )  # fmt: skip
    judgements = pd.DataFrame(
        [
            ("r", "question", row.item, row.first, row.second, row.vote, row.outcome, row.score,
             1, 0.0, 0.0)
            for row in rows
        ],
        columns=list(COLUMNS["judgements"]),
    )  # fmt: skip
    sort = {"choices": "listwise"}.get(kind, "python")
    rewarders = pd.DataFrame({"rewarder": ["r"], "kind": [sort], "family": [""], "size": [None]})
    pairs = pd.DataFrame(columns=list(COLUMNS["pairs"]))
    return Tables(frame, candidates, pairs, judgements, rewarders)


def served(selector: Selector, asked: list[Asked], rule: str) -> list[Choice]:
    """What the service chooses."""
    scale = selector.scale("p", "r", rule)

    async def choose(each: Asked) -> Choice:
        texts, answers = each.texts, each.answers
        return await selector.choose("r", rule, each.conversation, texts, Usage(), answers, scale)

    async def work() -> list[Choice]:
        return [await choose(each) for each in asked]

    return asyncio.run(work())
