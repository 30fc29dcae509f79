"""Best-of-N online: sample, judge and choose with the code that validated the selector."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bon.choosing.designs import Design
from bon.choosing.opinion import KIND_OF, Candidates, Kind, item_opinion, panel, shown_of
from bon.choosing.rules import RULES, Ranking, rank, rule_of, rules_for
from bon.core.errors import BonError
from bon.core.keys import content_key, text_key
from bon.core.ledger import Ledger
from bon.core.records import Candidate, Judgement
from bon.dispatch.worker import JudgeTask, ModelSpec, Reply
from bon.engines.base import ImagePart, Message
from bon.experiment.cards import CardT, Loaded, load_policy, load_rewarder
from bon.experiment.config import PolicyCard, RewarderCard
from bon.policies.generate import Ask
from bon.rewarders.base import Item
from bon.rewarders.item_judging import Protocol, protocol_rows
from bon.rewarders.registry import code_hash, rewarder_class
from bon.running.reporting import read_results
from bon.service.errors import ApiError
from bon.service.online.backend import InProcess, RayActors
from bon.service.settings import Online
from bon.storage.database import SharedDatabase
from bon.storage.store import judgement_values, parse_judgement
from bon.work.preflight import unpulled

_NO_OPTIONS = ("",) * 4  # the extractor needs some; what it reads is not used then
FILE = "judgements.sqlite"
_COLUMNS = ", ".join(f'"{name}"' for name in Judgement._fields)
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS judgements ({_COLUMNS}, PRIMARY KEY (key));
CREATE INDEX IF NOT EXISTS judgements_of_responses ON judgements (item, spec, first);
"""
_INSERT = f"INSERT OR IGNORE INTO judgements VALUES ({', '.join('?' * len(Judgement._fields))})"
SHOWN_CHARS = 100_000_000
"""Of candidates, as often as the comparisons of a group show them: minutes of a small judge."""


@dataclass(frozen=True)
class Conversation:
    """A request as the engine takes it and as a rewarder is shown it.

    Judgements are found again by its `owner` alone: that a reply comes at once would tell others
    what was asked before.
    """

    messages: tuple[Message, ...]
    options: tuple[str, ...] = ()
    shown: str = ""
    owner: str = ""

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """Every image in order."""
        return tuple(p for m in self.messages for p in m.parts if isinstance(p, ImagePart))

    @property
    def text(self) -> str:
        """The text for a rewarder: the only turn, else every turn under its role."""
        if self.shown:
            return self.shown
        turns = [(m.role, "".join(p for p in m.parts if isinstance(p, str))) for m in self.messages]
        if len(turns) == 1:
            return turns[0][1]
        return "\n\n".join(f"{role}: {text}" for role, text in turns)

    @cached_property
    def key(self) -> str:
        """The content key."""
        turns = [
            [m.role, [p.sha256 if isinstance(p, ImagePart) else p for p in m.parts]]
            for m in self.messages
        ]
        return content_key("online", turns, self.text, self.owner)


@dataclass(slots=True)
class Usage:
    """Tokens and cost of all calls; a prompt that was sampled n times is counted once."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    cached_judgements: int = 0

    def add(self, rows: Sequence[Candidate | Judgement]) -> None:
        """Count these calls."""
        self.completion_tokens += sum(row.num_tokens for row in rows)
        self.cost += sum(row.cost for row in rows)
        sampled = [row.num_prompt_tokens for row in rows if isinstance(row, Candidate)]
        judged = [row.num_prompt_tokens for row in rows if isinstance(row, Judgement)]
        self.prompt_tokens += max(sampled, default=0) + sum(judged)

    def tokens(self) -> dict[str, int]:
        """Return the counts under OpenAI's names."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }

    def as_dict(self) -> dict[str, Any]:
        """Return OpenAI's `usage` with cost and cached judgements added."""
        return {**self.tokens(), "cost": self.cost, "cached_judgements": self.cached_judgements}


@dataclass(slots=True)
class Choice:
    """The ranked texts of a request, with their judgements."""

    texts: list[str]
    ranking: Ranking
    judgements: list[Judgement]
    answers: list[str | None] = field(default_factory=list)

    def raw(self) -> list[dict[str, Any]]:
        """Return the judgements; `shown` holds the candidates' indices in the order shown."""
        keys = [*map(text_key, self.texts)]
        index = {key: keys.index(key) for key in keys}
        fields = ("rewarder", "vote", "outcome", "score", "text", "error", "num_tokens")
        return [
            {"shown": [index[key] for key in shown_of(row)]}
            | {name: getattr(row, name) for name in fields}
            for row in self.judgements
        ]


class JudgementStore(SharedDatabase):
    """What was judged, by item, in judgements.sqlite: no request pays for a judgement again."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "NORMAL")
        with self.write() as db:
            db.executescript(_SCHEMA)

    async def add(self, judgements: Sequence[Judgement]) -> None:
        """Commit judgements, except errors, which are asked again."""
        rows = [judgement_values(row) for row in judgements if row.outcome != "error"]
        if rows:
            await asyncio.to_thread(self._write, rows)

    def _write(self, rows: list[tuple[object, ...]]) -> None:
        with self.write() as db:
            db.executemany(_INSERT, rows)

    async def judged(self, spec: str, item: Item) -> list[Judgement]:
        """Return the judgements of the item's present responses."""
        marks = ", ".join("?" * len(item.responses))
        where = f"item = ? AND spec = ? AND first IN ({marks})"
        query = f"SELECT {_COLUMNS} FROM judgements WHERE {where}"
        found = await asyncio.to_thread(self.rows, query, item.key, spec, *item.responses)
        rows = map(parse_judgement, found)
        return [row for row in rows if all(shown in item.responses for shown in shown_of(row))]


class Selector:
    """The operator's policies and rewarders, and how requests use them."""

    def __init__(
        self,
        online: Online,
        base: Path,
        ray_address: str | None = None,
        ledger: Ledger | None = None,
        store: JudgementStore | None = None,
    ) -> None:
        self.online, self._store = online, store
        policies = [load_policy(ref, base) for ref in online.policies]
        rewarders = [_with_code(load_rewarder(ref, base)) for ref in online.rewarders]
        for error in unpulled((*policies, *rewarders)):
            raise error
        self.policies: dict[str, Loaded[PolicyCard]] = {p.card.name: p for p in policies}
        self.rewarders: dict[str, Loaded[RewarderCard]] = {r.card.name: r for r in rewarders}
        self._kinds: dict[str, Kind] = {
            name: "scores" if loaded.card.members else KIND_OF[rewarder_class(loaded.card).arity]
            for name, loaded in self.rewarders.items()
        }
        self._check_members()
        validated = online.validated
        self._scales, self._units = ({}, {}) if validated is None else _units(base / validated)
        for member in {m for loaded in self.rewarders.values() for m in loaded.card.members}:
            self.unit(member)
        self.backend = (
            InProcess(self.specs(), online.scaling, ledger)
            if online.backend == "process"
            else RayActors(self.specs(), online.scaling, ray_address, ledger)
        )

    def _check_members(self) -> None:
        known = ", ".join(self.rewarders)
        for name, loaded in self.rewarders.items():
            if missing := [m for m in loaded.card.members if m not in self.rewarders]:
                problem = f"online.rewarders: {name} names {missing[0]!r}, which is not online"
                raise BonError(problem, f"add it to online.rewarders: {known}")

    def is_panel(self, rewarder: str) -> bool:
        """Return whether a rewarder combines the scores of its members."""
        return bool(self.rewarder(rewarder).card.members)

    def members(self, rewarder: str) -> tuple[str, ...]:
        """Return the rewarders that judge: the members of a panel, or the rewarder itself."""
        return self.rewarder(rewarder).card.members or (rewarder,)

    def cards(self, rewarder: str) -> list[RewarderCard]:
        """Return the cards of the rewarders that judge."""
        return [self.rewarder(name).card for name in self.members(rewarder)]

    def unit(self, rewarder: str, policy: str = "") -> float:
        """Return the validated spread of a member's scores within questions."""
        of_run = [u for (p, r), u in self._units.items() if r == rewarder and policy in ("", p)]
        unit = self.online.scales.get(rewarder, of_run[0] if of_run else None)
        if unit is None:
            fix = "set online.validated to a run that has it, or online.scales"
            raise BonError(f"online: the unit of {rewarder}'s scores in a panel is not known", fix)
        return unit

    def specs(self) -> dict[str, ModelSpec]:
        """Return every model as a worker needs it."""
        allowed = self.online.allow_remote_code
        specs = {name: ModelSpec(p, allowed, retries=1) for name, p in self.policies.items()}
        for name, loaded in self.rewarders.items():
            if loaded.card.members:
                continue
            # A knockout needs 2 (n - 1) verdicts where all pairs are n (n - 1).
            for design in dict.fromkeys(rule.designs[0] for rule in rules_for(self.kind(name))):
                protocol = Protocol(loaded.spec, loaded.card.votes, design, 1)
                specs[_model_name(name, design)] = ModelSpec(loaded, allowed, protocol)
        return specs

    def names(self) -> dict[str, list[str]]:
        """Return the names of policies and rewarders."""
        return {"policies": sorted(self.policies), "rewarders": sorted(self.rewarders)}

    def policy(self, name: str) -> Loaded[PolicyCard]:
        """Return a policy by name, or raise 404."""
        return _named("policy", name, self.policies)

    def rewarder(self, name: str) -> Loaded[RewarderCard]:
        """Return a rewarder by name, or raise 404."""
        return _named("rewarder", name, self.rewarders)

    def kind(self, rewarder: str) -> Kind:
        """Return what a rewarder's judgements become."""
        return self._kinds[self.rewarder(rewarder).card.name]

    def scale(self, policy: str, rewarder: str, rule: str) -> float | None:
        """Return the validated unit of scores if the rule needs one: a request has no run."""
        if not (RULES[rule].scaled and self.kind(rewarder) == "scores"):
            return None
        scale = self.online.scales.get(rewarder, self._scales.get((policy, rewarder)))
        if scale is None:
            run = f"a run that has {rule} of {rewarder} on {policy}"
            fix = f"set online.validated to {run}, or online.scales"
            raise ApiError(422, f"the rule {rule} needs the unit of {rewarder}'s scores", fix)
        return scale

    def rule(self, rewarder: str, rule: str | None) -> str:
        """Return the rule to choose by; BonError if the rewarder does not support it."""
        return rule_of(self.kind(rewarder), rule, rewarder).name

    def judging_rule(self, rewarder: str, rule: str | None) -> str:
        """Return the rule for given responses, which have no sampled answers to count."""
        name = self.rule(rewarder, rule)
        if RULES[name].answers:
            fix = "use /v1/chat/completions"
            raise ApiError(422, f"the rule {name} counts sampled answers", fix)
        return name

    def check_shown(self, rewarder: str, texts: int, characters: int) -> None:
        """Refuse texts that a judge would read again and again for minutes."""
        shown = 0
        for name in self.members(rewarder):
            times = 2 * (texts - 1) if self.kind(name) == "preferences" else 1
            shown += characters * self.rewarder(name).card.votes * times
        if shown > SHOWN_CHARS:
            fix = f"at most {SHOWN_CHARS:,}: send less"
            raise ApiError(413, f"{rewarder} would be shown {shown:,} characters", fix)

    async def sample(
        self, policy: str, question: Conversation, n: int, seed: int, usage: Usage
    ) -> list[Candidate]:
        """Sample n candidates; equal requests give equal ones where the engine allows it."""
        key = content_key(question.key, seed)
        ask = Ask(key, question.messages, question.options or _NO_OPTIONS, tuple(range(n)))
        reply = await self._run(policy, [ask])
        rows = [row for row in reply.candidates if row.outcome != "error"]
        if not rows:
            reasons = (row.error for row in reply.candidates)
            raise ApiError(502, f"{policy}: {next(reasons, 'no candidate came back')}")
        usage.add(rows)
        return rows

    async def choose(
        self,
        rewarder: str,
        rule: str,
        question: Conversation,
        texts: list[str],
        usage: Usage,
        answers: list[str | None] | None = None,
        scale: float | None = None,
        policy: str = "",
    ) -> Choice:
        """Judge the texts and choose one by the rule, as a replay would."""
        keys = [text_key(text) for text in texts]
        names, is_panel = self.members(rewarder), self.is_panel(rewarder)
        judged: list[list[Judgement]] = [[] for _ in names]
        if RULES[rule].judged:
            rules = [self.rule(name, None) for name in names] if is_panel else [rule]
            pairs = zip(names, rules, strict=True)
            judged = await asyncio.gather(
                *(self.judge(*pair, question, texts, usage) for pair in pairs)
            )
        answers = answers or [None] * len(texts)
        candidates = Candidates.of(question.key, keys, answers)
        opinions = [
            item_opinion(self.kind(name), rows, candidates, scale)
            for name, rows in zip(names, judged, strict=True)
        ]
        opinion = opinions[0]
        if is_panel:
            units = [self.unit(name, policy) for name in names]
            opinion = replace(panel(opinions, units), scale=scale)
        ranking = rank(RULES[rule], opinion)
        if ranking is None:
            raise ApiError(502, f"{rewarder}: not all judgements that {rule} needs came back")
        return Choice(texts, ranking, [row for part in judged for row in part], answers)

    async def judge(
        self, rewarder: str, rule: str, question: Conversation, texts: Sequence[str], usage: Usage
    ) -> list[Judgement]:
        """Return the judgements that a rule needs on these texts, cached ones included."""
        loaded = self.rewarder(rewarder)
        responses = {text_key(text): text for text in texts}
        item = Item("question", question.key, question.text, question.images, responses)
        cached = await self._store.judged(loaded.spec, item) if self._store else []
        task = JudgeTask(item, tuple(cached), loaded.card.votes)
        design = RULES[rule].designs[0]
        reply = await self._run(_model_name(rewarder, design), [task])
        rows = list(reply.judgements)
        usage.add(rows)
        failed = [row for row in rows if row.outcome == "error"]
        if failed and len(failed) == len(rows) and not cached:
            raise ApiError(502, f"{rewarder}: {failed[0].error}")
        if self._store:
            await self._store.add(rows)
        protocol = Protocol(loaded.spec, loaded.card.votes, design)
        own = protocol_rows(loaded.card, responses, item.key, protocol, [*cached, *rows])
        usage.cached_judgements += len({row.key for row in own} - {row.key for row in rows})
        return own

    async def close(self) -> None:
        """Free the models."""
        await self.backend.close()
        if self._store:
            self._store.close()

    async def _run(self, model: str, payloads: list[Any]) -> Reply:
        reply = await self.backend.run(model, payloads)
        if reply.stop_run:
            raise ApiError(402, f"{model}: {reply.failure}")
        if reply.failure:
            raise ApiError(502, f"{model}: {reply.failure}")
        return reply


Units = dict[tuple[str, str], float]
"""(policy, rewarder) -> the spread of scores within questions."""


def _units(run: Path) -> tuple[Units, Units]:
    """Return the units of weighted votes and of panels."""
    try:
        results = read_results(run)
    except BonError as error:
        raise BonError(f"online.validated: {error.message}", error.fix) from None
    rows = results.best_of_n
    return (
        {(b.policy, b.rewarder): b.scale for b in rows if b.scale is not None},
        {(b.policy, b.rewarder): b.unit for b in rows if b.unit is not None},
    )


def _named(kind: str, name: str, cards: dict[str, Loaded[CardT]]) -> Loaded[CardT]:
    if name not in cards:
        names = ", ".join(sorted(cards)) or "none"
        raise ApiError(404, f"no {kind} {name!r} is online; there are: {names}")
    return cards[name]


def _with_code(loaded: Loaded[RewarderCard]) -> Loaded[RewarderCard]:
    """File judgements under all that shapes them, the rewarder's code and parser included."""
    more, rule = loaded.card.members or code_hash(loaded.card), loaded.with_rule
    return replace(loaded, stored=content_key(rule, more) if more else rule)


def _model_name(rewarder: str, design: Design) -> str:
    """The name of a rewarder under a design; all designs share the loaded model."""
    return rewarder if design == "all_pairs" else f"{rewarder}@{design}"
