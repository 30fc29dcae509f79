"""Best-of-N online: sample, judge, choose, with the code that validated the selector."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bon.choosing.designs import Design
from bon.choosing.opinion import KIND_OF, Candidates, Kind, item_opinion, shown_of
from bon.choosing.ranking import Ranking, rank
from bon.choosing.rules import RULES, rules_for
from bon.core.keys import content_key
from bon.core.records import Candidate, Judgement
from bon.engines.base import ImagePart, Message
from bon.experiment.cards import Loaded, load_policy, load_rewarder
from bon.experiment.config import PolicyCard, RewarderCard
from bon.policies.ask import Ask, text_key
from bon.rewarders.base import Item
from bon.rewarders.judge import Protocol
from bon.rewarders.registry import code_hash, rewarder_class
from bon.running.preflight import unpulled
from bon.running.worker import JudgeTask, ModelSpec, PolicySpec, Reply, RewarderSpec
from bon.service.backend import Backend
from bon.service.metrics import Metrics
from bon.service.scales import validated_scales
from bon.service.settings import Online

_NO_OPTIONS = ("",) * 4  # the reader wants some; what it reads is then not used


@dataclass(frozen=True)
class Conversation:
    """What was asked, as the engine takes it and as a rewarder is shown it.

    `answer` is the right letter where it is known: for the records, no rewarder sees it.
    """

    messages: tuple[Message, ...]
    options: tuple[str, ...] = ()
    shown: str = ""
    answer: str | None = None

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """Every image in order."""
        return tuple(p for m in self.messages for p in m.parts if isinstance(p, ImagePart))

    @property
    def text(self) -> str:
        """What a rewarder reads: the only turn, else every turn under its role."""
        if self.shown:
            return self.shown
        said = [(m.role, "".join(p for p in m.parts if isinstance(p, str))) for m in self.messages]
        if len(said) == 1:
            return said[0][1]
        return "\n\n".join(f"{role}: {text}" for role, text in said)

    @cached_property
    def key(self) -> str:
        """Identity by content."""
        said = [
            [m.role, [p.sha256 if isinstance(p, ImagePart) else p for p in m.parts]]
            for m in self.messages
        ]
        return content_key("online", said, self.text)


@dataclass(slots=True)
class Usage:
    """Tokens over all calls of a request; a prompt that was sampled n times is read once."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    cached_judgements: int = 0

    def add(self, rows: Sequence[Candidate | Judgement]) -> None:
        """Count these calls."""
        self.completion_tokens += sum(row.num_tokens for row in rows)
        candidates = [row for row in rows if isinstance(row, Candidate)]
        self.prompt_tokens += max((row.num_prompt_tokens for row in candidates), default=0)
        for row in rows:
            self.cost += row.cost
            if isinstance(row, Judgement):
                self.prompt_tokens += row.num_prompt_tokens

    def shown(self) -> dict[str, Any]:
        """As the OpenAI API says it, and what it does not know."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "cost": self.cost,
            "cached_judgements": self.cached_judgements,
        }


@dataclass(slots=True)
class Choice:
    """What came of a request."""

    texts: list[str]
    ranking: Ranking
    judgements: list[Judgement]
    answers: list[str | None] = field(default_factory=list)


class ModelFailed(Exception):  # noqa: N818 - an answer, not a fault
    """A model could not do what it was asked for."""


Kept = Callable[[str, str], Sequence[Judgement]]
"""What is stored of an item, by the spec of its rewarder and its key."""


class Known:
    """Judgements of recent items, so that the same question is not judged twice."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._items: OrderedDict[tuple[str, str], tuple[Judgement, ...]] = OrderedDict()
        self.kept: Kept = lambda spec, key: ()

    def get(self, spec: str, item: Item) -> tuple[Judgement, ...]:
        """What is known of the responses that are there now."""
        rows = self._items.get((spec, item.key))
        if rows is None:
            self.put(spec, item, self.kept(spec, item.key))
            rows = self._items.get((spec, item.key), ())
        else:
            self._items.move_to_end((spec, item.key))
        return tuple(row for row in rows if all(key in item.responses for key in shown_of(row)))

    def put(self, spec: str, item: Item, rows: Sequence[Judgement]) -> None:
        """Remember judgements; errors are asked again next time."""
        if not self._most:
            return
        old = self._items.pop((spec, item.key), ())
        good = tuple(row for row in rows if row.outcome != "error")
        # A long list would make the next lookup slow; then only the newest are kept.
        self._items[spec, item.key] = (*old, *good)[-4096:]
        while len(self._items) > self._most:
            self._items.popitem(last=False)


class Selector:
    """The operator's policies and rewarders, and what a request does with them."""

    def __init__(self, online: Online, base: Path, metrics: Metrics) -> None:
        self.online = online
        policies = [load_policy(ref, base) for ref in online.policies]
        rewarders = [_filed(load_rewarder(ref, base)) for ref in online.rewarders]
        self.policies: dict[str, Loaded[PolicyCard]] = {p.card.name: p for p in policies}
        self.rewarders: dict[str, Loaded[RewarderCard]] = {r.card.name: r for r in rewarders}
        for found in unpulled((*policies, *rewarders)):
            raise found
        self._kinds: dict[str, Kind] = {
            name: KIND_OF[rewarder_class(loaded.card).arity]
            for name, loaded in self.rewarders.items()
        }
        self._metrics = metrics
        self._known = Known(online.cache_items)
        self._validated = (
            {} if online.validated is None else validated_scales(base / online.validated)
        )
        self._backend: Backend | None = None

    def specs(self) -> dict[str, ModelSpec]:
        """Every model as a worker needs it."""
        allowed = self.online.allow_remote_code
        found: dict[str, ModelSpec] = {
            name: PolicySpec(loaded, 1, allowed) for name, loaded in self.policies.items()
        }
        for name, loaded in self.rewarders.items():
            # A knockout needs 2 (n - 1) verdicts where all pairs are n (n - 1).
            for design in dict.fromkeys(rule.designs[0] for rule in rules_for(self.kind(name))):
                protocol = Protocol(loaded.spec, loaded.card.votes, design, 1)
                found[_asked(name, design)] = RewarderSpec(loaded, protocol, allowed)
        return found

    def use(self, backend: Backend) -> None:
        """Where the models are."""
        self._backend = backend

    def remember(self, kept: Kept) -> None:
        """Where judgements are stored that are not known here."""
        self._known.kept = kept

    async def start(self) -> None:
        """Load or reach what holds the models."""
        assert self._backend is not None
        await self._backend.start()

    async def ready(self) -> bool:
        """Whether requests would be answered."""
        return self._backend is not None and await self._backend.ready()

    def names(self) -> dict[str, list[str]]:
        """What can be asked for."""
        return {"policies": sorted(self.policies), "rewarders": sorted(self.rewarders)}

    def policy(self, name: str) -> Loaded[PolicyCard]:
        """A policy by name; LookupError where there is none."""
        if name not in self.policies:
            known = ", ".join(sorted(self.policies)) or "none"
            raise LookupError(f"no policy {name!r} is online; there are: {known}")
        return self.policies[name]

    def rewarder(self, name: str) -> Loaded[RewarderCard]:
        """A rewarder by name; LookupError where there is none."""
        if name not in self.rewarders:
            known = ", ".join(sorted(self.rewarders)) or "none"
            raise LookupError(f"no rewarder {name!r} is online; there are: {known}")
        return self.rewarders[name]

    def kind(self, rewarder: str) -> Kind:
        """What becomes of a rewarder's judgements."""
        return self._kinds[self.rewarder(rewarder).card.name]

    def scale(self, policy: str, rewarder: str, rule: str) -> float | None:
        """The unit of the scores under a rule that needs one, as it was validated.

        One request has no run to take it from. LookupError where it is needed and not known.
        """
        if not (RULES[rule].scaled and self.kind(rewarder) == "scores"):
            return None
        known = self.online.scales.get(rewarder, self._validated.get((policy, rewarder)))
        if known is None:
            raise LookupError(
                f"the rule {rule} needs the unit of {rewarder}'s scores: set online.validated to "
                f"a run that has {rule} of {rewarder} on {policy}, or online.scales"
            )
        return known

    def rule(self, rewarder: str, rule: str | None) -> str:
        """The rule to choose by; LookupError where the rewarder does not support it."""
        rules = [each.name for each in rules_for(self.kind(rewarder))]
        if rule is None:
            return rules[0]
        if rule not in rules:
            raise LookupError(f"{rewarder} supports the rules {', '.join(rules)}, not {rule!r}")
        return rule

    async def sample(
        self, policy: str, asked: Conversation, n: int, seed: int, usage: Usage
    ) -> list[Candidate]:
        """n candidates; the same request gives the same ones where the engine allows it."""
        key = content_key(asked.key, seed)
        ask = Ask(key, asked.messages, asked.options or _NO_OPTIONS, None, tuple(range(n)))
        reply = await self._run("sample", policy, [ask])
        rows = [row for row in reply.candidates if row.outcome != "error"]
        if not rows:
            reason = reply.candidates[0].error if reply.candidates else "no candidate came back"
            self._metrics.failures.labels("sample", policy).inc()
            raise ModelFailed(f"{policy}: {reason}")
        usage.add(rows)
        self._count(policy, rows)
        return rows

    async def choose(
        self,
        rewarder: str,
        rule: str,
        asked: Conversation,
        texts: list[str],
        usage: Usage,
        answers: list[str | None] | None = None,
        scale: float | None = None,
    ) -> Choice:
        """Judge the texts and choose one by the rule, as a replay would."""
        keys = [text_key(text) for text in texts]
        rows: list[Judgement] = []
        if RULES[rule].judged:
            rows = await self.judge(rewarder, rule, asked, texts, usage)
        given = answers or [None] * len(texts)
        about = Candidates.of(asked.key, keys, given)
        said = item_opinion(self.kind(rewarder), rows, about, scale)
        ranking = rank(RULES[rule], said)
        if ranking is None:
            raise ModelFailed(f"{rewarder}: not all judgements that {rule} needs came back")
        return Choice(texts, ranking, rows, given)

    async def judge(
        self, rewarder: str, rule: str, asked: Conversation, texts: Sequence[str], usage: Usage
    ) -> list[Judgement]:
        """The judgements that a rule needs, those that are known among them."""
        loaded = self.rewarder(rewarder)
        responses = {text_key(text): text for text in texts}
        item = Item("question", asked.key, asked.text, asked.images, responses)
        known = self._known.get(loaded.spec, item)
        task = JudgeTask(item, known, loaded.card.votes)
        model = _asked(rewarder, RULES[rule].designs[0])
        reply = await self._run("judge", model, [task])
        rows = list(reply.judgements)
        usage.add(rows)
        usage.cached_judgements += len(known)
        self._metrics.cache_hits.labels(rewarder).inc(len(known))
        self._count(rewarder, rows)
        failed = [row for row in rows if row.outcome == "error"]
        self._metrics.failures.labels("judge", rewarder).inc(len(failed))
        if failed and len(failed) == len(rows) and not known:
            raise ModelFailed(f"{rewarder}: {failed[0].error}")
        self._known.put(loaded.spec, item, rows)
        return [*known, *rows]

    async def _run(self, stage: str, model: str, payloads: list[Any]) -> Reply:
        assert self._backend is not None
        started = time.perf_counter()
        try:
            reply = await self._backend.run(model, payloads)
        finally:
            self._metrics.stage_seconds.labels(stage).observe(time.perf_counter() - started)
        self._metrics.calls.labels(stage, model).inc()
        if reply.failure:
            self._metrics.failures.labels(stage, model).inc()
            raise ModelFailed(f"{model}: {reply.failure}")
        return reply

    def _count(self, model: str, rows: Sequence[Candidate | Judgement]) -> None:
        counter = self._metrics.tokens
        counter.labels(model, "in").inc(sum(row.num_prompt_tokens for row in rows))
        counter.labels(model, "out").inc(sum(row.num_tokens for row in rows))

    async def close(self) -> None:
        """Let go of the models."""
        if self._backend is not None:
            await self._backend.close()


def _filed(loaded: Loaded[RewarderCard]) -> Loaded[RewarderCard]:
    """Filed under all that shapes a judgement, its code and how its reply is read among it."""
    code = code_hash(loaded.card)
    rule = loaded.specs.with_rule
    return replace(loaded, filed=content_key(rule, code) if code else rule)


def _asked(rewarder: str, design: Design) -> str:
    """The name of a rewarder under a design; both share what is loaded."""
    return rewarder if design == "all_pairs" else f"{rewarder}@{design}"


def image_part(data: bytes) -> ImagePart:
    """An image by content."""
    return ImagePart(hashlib.sha256(data).hexdigest(), data)
