"""Estimate calls, reuse and cost of an experiment before running it; loads no model.

Every estimate rests on a stated assumption, which what a run directory already holds replaces.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bon.benchmarks import BENCHMARKS, BadRow, load_pairs
from bon.core.errors import BonError
from bon.core.images import ImageStore
from bon.core.records import BY_MODEL
from bon.engines.free_gpu_memory import USABLE
from bon.experiment.cards import Loaded
from bon.experiment.config import Card, PolicyCard, RewarderCard
from bon.planning.dataset_sizes import (
    ASSUMED_TOKENS,
    CANDIDATE_TOKENS,
    CHARACTERS,
    IN_RUN,
    N_MEASURED,
    QUESTION_TOKENS,
    TYPICAL,
    DatasetSizes,
    Rows,
)
from bon.planning.model_sizes import (
    PER_SEQUENCE,
    RESERVE,
    RESERVE_UNBOUND,
    GpuFit,
    Weights,
    active_parameters,
    checkpoint_weights,
    fit_of,
    hub_cache,
)
from bon.rewarders.item_judging import max_calls
from bon.storage.database import DATABASE
from bon.storage.store import Store
from bon.work.grading import grader_note
from bon.work.judging_scope import drawn
from bon.work.preflight import check_axis, mistakes, unread_images
from bon.work.reading import ASKED
from bon.work.setup import Setup, located
from bon.work.stored_models import unpinned, with_commits
from bon.work.units import (
    grading_unit,
    judgements_on,
    known_judgements,
    question_unit,
    reading_unit,
    samplings,
)

PROMPT_TOKENS = 200
STEPS = 5
REPLY_TOKENS = {"pairwise": 450, "pointwise": 250, "listwise": 700, "stepwise": 1, "python": 300}
PROMPT_FLOPS = 100e12
REPLY_FLOPS = 20e12
MIN_ROWS = 20
SPREAD = 2.0
"""Published throughputs lie within this factor of those two (docs/measurements/planning.md)."""

THINKING = 8192
"""A card that allows as many tokens for one reply lets its model think, up to that limit."""

_REPLIES = ", ".join(
    f"{count} tokens ({kind})" for kind, count in REPLY_TOKENS.items() if count > 1
)
ASSUMPTIONS = (
    f"images: tokens by the cards' `image_tokens`, within 20%; sizes from the "
    f"first {N_MEASURED} rows of a local dataset, else from {len(TYPICAL)} images of MMMU-Pro, one "
    f"per question or pair (MMRB2: 4.2, prompts excluded); {ASSUMED_TOKENS:,} tokens where a card "
    "does not tell",
    f"text: as in the first {N_MEASURED} rows of a local dataset, {CHARACTERS} characters a token, "
    f"else {QUESTION_TOKENS} tokens per question and {CANDIDATE_TOKENS} per response of a pair; "
    f"{PROMPT_TOKENS} of judge instructions, {CANDIDATE_TOKENS} per candidate",
    f"replies of judges: {_REPLIES}, at most max_tokens; models that think (max_thinking_tokens, "
    f"or max_tokens from {THINKING:,}) take all that they may",
    "calls: all candidates of a question differ, so judge calls are an upper bound; equal texts "
    "are judged once, questions whose candidates are all right or all wrong are not judged",
    f"speed: a model of P parameters reads a token in 2P / {PROMPT_FLOPS:.0e} GPU seconds and "
    f"writes one in 2P / {REPLY_FLOPS:.0e} (80 GB data-centre GPU, full batches) within a factor "
    f"of {SPREAD:g}; a 24 GB card takes three to six times as long, the transformers engine up to "
    "three times",
    "prompts: read once for all candidates of a question and all votes on one showing; endpoints "
    "with one sample per request (Claude, Gemini) read and bill each",
    "GPU hours are an upper bound with vLLM's prefix caching; loading a model is not counted",
    "measured seconds per call replace these where a run on this machine in the same folder has "
    "used a model under the same settings",
    f"GPU memory: weights in 16 bits unless the card says otherwise, a KV "
    f"cache of max_model_len tokens (default {PER_SEQUENCE:,}) where the card's `kv_bytes` or "
    f"config.json tells its size, and {RESERVE:g} GiB for the vision "
    f"encoder, activations and CUDA ({RESERVE_UNBOUND:g} without max_pixels), in {USABLE:.0%} of "
    "the card",
)


@dataclass
class Work:
    """Calls of one model.

    `reused`: calls already in the run. `lengths`,
    `speed`: "assumed", or "measured" by the run itself, which also gives `worker_hours`.
    """

    name: str
    kind: str
    on_questions: int = 0
    on_pairs: int = 0
    reused: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0
    gpu_hours: float | None = None
    dollars: float | None = None
    lengths: str = "assumed"
    speed: str = "assumed"
    worker_hours: float | None = None

    @property
    def spread(self) -> float:
        """Return the factor, either way, within which the GPU hours are known."""
        return SPREAD if self.speed == "assumed" else 1.0

    @property
    def to_do(self) -> int:
        """Return the calls still to be made."""
        return max(0, self.on_questions + self.on_pairs - self.reused)


@dataclass
class Plan:
    """What an experiment needs, and what remains to be done."""

    name: str
    design: str
    questions: Rows
    tasks: tuple[Rows, ...]
    pairs: tuple[Rows, ...]
    policies: list[Work] = field(default_factory=list)
    rewarders: list[Work] = field(default_factory=list)
    grading: list[Work] = field(default_factory=list)
    memory: list[GpuFit] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    weights: Weights | None = None

    @property
    def work(self) -> list[Work]:
        """Return the work of all models."""
        return [*self.policies, *self.rewarders, *self.grading]

    @property
    def is_large(self) -> bool:
        """Return whether it needs a GPU hour, a dollar or a gigabyte of downloads."""
        totals = self.totals()
        download = self.weights.total - self.weights.here if self.weights else 0
        return totals["gpu_hours"] >= 1 or totals["dollars"] >= 1 or download >= 1e9

    def as_dict(self) -> dict[str, Any]:
        """Return the plan for `--json`."""
        data = asdict(self)
        rows = (*data["policies"], *data["rewarders"], *data["grading"])
        for row, work in zip(rows, self.work, strict=True):
            row["to_do"] = work.to_do
        return {**data, "totals": self.totals(), "assumptions": list(ASSUMPTIONS)}

    def totals(self) -> dict[str, float]:
        """Return sums over all models of what remains to be done."""
        work = self.work
        return {
            "calls": sum(w.to_do for w in work),
            "tokens": sum(w.prompt_tokens + w.reply_tokens for w in work),
            "gpu_hours": sum(w.gpu_hours or 0 for w in work),
            "gpu_hours_low": sum((w.gpu_hours or 0) / w.spread for w in work),
            "gpu_hours_high": sum((w.gpu_hours or 0) * w.spread for w in work),
            "worker_hours": sum(w.worker_hours or 0 for w in work),
            "dollars": sum(w.dollars or 0 for w in work),
        }


def make_plan(setup: Setup, out: Path | None = None, *, here: bool = False) -> Plan:
    """Plan an experiment that would run or continue in `out`; `here`: on this machine."""
    if out is not None and out.exists() and not out.is_dir():
        raise BonError(f"cannot use {out}: it is a file", "name a folder, or a new one")
    with ExitStack() as stack:
        store = None
        if out is not None and (out / DATABASE).is_file():
            store = stack.enter_context(Store(out, readonly=True))
            setup = with_commits(setup, store)
        planner = _Planner(setup, store)
        plan = planner.plan()
        if store is not None:
            for work, model in zip(plan.work, setup.models, strict=True):
                _measure_speed(work, model, store)
    unread = unread_images(setup, planner.sizes.with_images)
    plan.warnings = [*_warnings(setup, plan, here), *map(str, unread)]
    return plan


def _measure_speed(work: Work, model: Loaded[Any], store: Store) -> None:
    """Replace the assumed speed by that which the run has measured."""
    ((rows, seconds),) = store.query(
        f"SELECT COUNT(*), TOTAL(seconds) FROM {model.table} WHERE spec = ? AND outcome != 'error'",
        (model.spec,),
    )
    if rows >= MIN_ROWS and seconds:
        work.speed = "measured"
        work.worker_hours = work.to_do * seconds / rows / 3600
        if gpus := model.card.placement.gpus:
            work.gpu_hours = work.worker_hours * gpus


def _groups(setup: Setup) -> Iterator[tuple[str, str]]:
    """Yield the benchmark and group of every pair in local files."""
    with TemporaryDirectory() as folder:
        for spec in setup.experiment.pairs:
            here = located(spec, setup.base)
            for pair in load_pairs(here, ImageStore(folder)) if here.path is not None else ():
                if not isinstance(pair, BadRow):
                    yield spec.title, pair.group


class _Planner:
    def __init__(self, setup: Setup, store: Store | None) -> None:
        self._setup = setup
        self._store = store
        self.sizes = DatasetSizes(setup, store)
        experiment = setup.experiment
        self._design = experiment.judging.design
        self._questions, self._pairs = self.sizes.questions, self.sizes.pairs
        # None where the run has no questions yet.
        self._in_run = store if self._questions.known_from == IN_RUN else None
        check_axis(experiment.analysis.axis, _groups(setup))

    def plan(self) -> Plan:
        setup = self._setup
        return Plan(
            setup.experiment.name,
            self._design,
            self._questions,
            self.sizes.tasks,
            self._pairs,
            policies=[self._policy(policy) for policy in setup.policies],
            rewarders=[self._rewarder(rewarder) for rewarder in setup.rewarders],
            grading=[self._on_answers(model) for model in setup.assistants],
            memory=[fit for fit in map(fit_of, setup.models) if fit is not None],
            weights=checkpoint_weights(setup.models),
        )

    def _policy(self, policy: Loaded[PolicyCard]) -> Work:
        card = policy.card
        if card.imported:
            return Work(card.name, "policy")
        if self._in_run is not None:
            work, reads = Work(card.name, "policy"), 0
            for _, n, missing in samplings(self._setup, self._in_run, policy):
                work.on_questions += n
                work.reused += n - len(missing)
                reads += bool(missing)
        else:
            deep, n = self._deep(policy)
            reads = self._questions.count
            work = Work(card.name, "policy", on_questions=reads * card.n + deep * (n - card.n))
        assumed = (self.sizes.question_tokens(policy), CANDIDATE_TOKENS)
        prompt, reply = self._lengths("candidates", policy.spec, work, *assumed)
        # A prompt is read once for all its candidates.
        _price(work, policy, reads * prompt, work.to_do * _limited(reply, card, work))
        return work

    def _rewarder(self, rewarder: Loaded[RewarderCard]) -> Work:
        card = rewarder.card
        work = Work(card.name, card.kind)
        if card.imported:
            return work
        counts = [self._on_questions(policy, rewarder) for policy in self._setup.policies]
        work.on_questions, work.reused = map(sum, zip(*counts, strict=True)) if counts else (0, 0)
        votes = self._setup.pair_votes(rewarder)
        calls_on = {"questions": work.on_questions}
        reads = work.on_questions / card.votes  # a prompt is read once for all votes on a showing
        for rows in self._pairs:
            single = rows.benchmark in BENCHMARKS and BENCHMARKS[rows.benchmark].steps
            n = 1 if single else 2
            reads += rows.count * max_calls(card, self._design, n, 1)
            calls_on[rows.name] = rows.count * max_calls(card, self._design, n, votes[rows.name])
        n_calls = sum(calls_on.values())
        work.on_pairs = n_calls - work.on_questions
        if self._store is not None:
            where = "spec = ? AND item_kind = 'pair'"
            stored = self._store.count("judgements", where, (rewarder.spec,))
            work.reused += min(work.on_pairs, stored)
        question = response = 0.0  # mean tokens over all calls
        for name, count in calls_on.items():
            share = count / max(1, n_calls)
            question += share * self.sizes.question_tokens(rewarder, name)
            response += share * self.sizes.response_tokens(name)
        assumed = _assumed_lengths(card, question, response)
        prompt, reply = self._lengths("judgements", rewarder.spec, work, *assumed)
        steps = STEPS if work.lengths == "assumed" and card.kind == "stepwise" else 1
        prompts = reads * prompt * steps * work.to_do / max(1, n_calls)
        _price(work, rewarder, prompts, work.to_do * _limited(reply, card, work) * steps)
        return work

    def _on_answers(self, model: Loaded[RewarderCard]) -> Work:
        """Return the calls of the model that grades or reads: once per answer and vote, at most."""
        card, setup, grades = model.card, self._setup, model is self._setup.grader
        work = Work(card.name, "grader" if grades else "reader")
        specs = zip(self.sizes.tasks, setup.experiment.questions, strict=True)
        count = sum(rows.count for rows, spec in specs if grades == (spec.grader == BY_MODEL))
        share = count / max(1, self._questions.count)
        policies = [p for p in setup.policies if grades or p.card.extractor == BY_MODEL]
        answers = count * sum(policy.card.n for policy in policies)
        for policy in policies:
            deep, n = self._deep(policy)
            answers += round(share * deep) * (n - policy.card.n)
        if self._in_run is not None:
            known, answers = set(self._in_run.query(ASKED, (model.spec,))), 0
            for question in self._in_run.questions():
                for policy in policies if grades == (question.grader == BY_MODEL) else ():
                    n = setup.depth(policy, question.key)
                    pool = self._in_run.candidates(policy.spec, question.key, n)
                    unit, _ = (grading_unit if grades else reading_unit)(question, pool)
                    keys = {(unit.key, key) for key in unit.texts}
                    work.reused += len(keys & known) * card.votes
                    answers += len(keys) + n - len(pool)
        work.on_questions = answers * card.votes
        shown = self.sizes.question_tokens(model)
        assumed = _assumed_lengths(card, shown, CANDIDATE_TOKENS)
        prompt, reply = self._lengths("judgements", model.spec, work, *assumed)
        calls = work.to_do
        _price(work, model, calls / card.votes * prompt, calls * _limited(reply, card, work))
        return work

    def _deep(self, policy: Loaded[PolicyCard]) -> tuple[int, int]:
        """Return how many questions get more candidates, and how many they have."""
        deep = self._setup.experiment.judging.deep
        if deep is None or policy.card.imported or deep.n <= policy.card.n:
            return 0, policy.card.n
        share = min(deep.share, self._setup.experiment.subset)
        return round(self._questions.count * share), deep.n

    def _on_questions(
        self, policy: Loaded[PolicyCard], rewarder: Loaded[RewarderCard]
    ) -> tuple[int, int]:
        """Return the calls on a policy's candidates, and how many of them are stored."""
        card, votes, setup = rewarder.card, rewarder.card.votes, self._setup
        subset = setup.experiment.subset
        if self._in_run is None:
            most = max_calls(card, self._design, policy.card.n, votes)
            deep, n = self._deep(policy) if setup.is_deep(rewarder) else (0, 1)
            more = deep * (max_calls(card, self._design, n, votes) - most)
            return round(self._questions.count * subset) * most + more, 0
        calls = reused = 0
        for question in self._in_run.questions():
            n = setup.depth(policy, question.key, rewarder)
            pool = self._in_run.candidates(policy.spec, question.key, n)
            if len(pool) < n and not policy.card.imported:
                most = max_calls(card, self._design, n, votes)
                calls += most * drawn(question.key, subset)
                continue
            unit, usable = question_unit(setup, question, pool)
            if unit.texts:
                known = self._in_run.judgements(rewarder.spec, question.key)
                stored = len(judgements_on(setup, known, rewarder, question, usable))
                # A finished race needs no more.
                done = known_judgements(setup, self._in_run, rewarder, unit) is None
                total = stored if done else max_calls(card, self._design, len(unit.texts), votes)
                calls += total
                reused += min(total, stored)
        return calls, reused

    def _lengths(
        self, table: str, spec: str, work: Work, prompt: float, reply: float
    ) -> tuple[float, float]:
        """Return mean tokens per call, measured if the run has rows."""
        if self._store is not None:
            ((measured, prompt_mean, reply_mean),) = self._store.query(
                f"SELECT COUNT(*), AVG(num_prompt_tokens), AVG(num_tokens) FROM {table} "
                "WHERE spec = ? AND outcome != 'error'",
                (spec,),
            )
            if measured:
                work.lengths = f"measured on {measured:,}"
                return prompt_mean, reply_mean
        return prompt, reply


def _assumed_lengths(card: RewarderCard, question: float, response: float) -> tuple[float, float]:
    if card.kind in ("scalar", "likelihood", "rerank"):
        return question + response, 0
    n_shown = {"pairwise": 2, "listwise": card.window}.get(card.kind, 1)
    yes_no = card.score and card.score.yes and card.sampling.max_tokens < 16
    prompt = PROMPT_TOKENS + question + n_shown * response
    return prompt, 1 if yes_no else REPLY_TOKENS.get(card.kind, 0)


def _limited(reply: float, card: PolicyCard | RewarderCard, work: Work) -> float:
    """Return tokens of a reply with its reasoning, within the limits of its card."""
    sampling = card.sampling
    thinks = sampling.max_thinking_tokens or sampling.max_tokens >= THINKING
    if reply and thinks and work.lengths == "assumed":
        reply += sampling.max_new_tokens
    return min(reply, sampling.max_new_tokens)


def gpu_seconds(parameters: float, prompt_tokens: float, reply_tokens: float) -> float:
    """Return the time that one GPU takes for so many tokens, if each uses so many parameters."""
    return 2 * parameters * (prompt_tokens / PROMPT_FLOPS + reply_tokens / REPLY_FLOPS)


def _price(work: Work, model: Loaded[Any], prompt_tokens: float, reply_tokens: float) -> None:
    card: Card = model.card
    work.prompt_tokens, work.reply_tokens = round(prompt_tokens), round(reply_tokens)
    if price := card.price:
        paid = prompt_tokens * price.input_per_million
        work.dollars = (paid + reply_tokens * price.output_per_million) / 1e6
    elif (parameters := active_parameters(model)) is not None and card.placement.gpus:
        work.gpu_hours = gpu_seconds(parameters, prompt_tokens, reply_tokens) / 3600


def _warnings(setup: Setup, plan: Plan, here: bool) -> list[str]:
    warnings = []
    datasets = (*plan.tasks, *plan.pairs)
    if unread := [rows.name for rows in datasets if rows.known_from.startswith("not read")]:
        warnings.append(f"counted as published or limited, not read: {', '.join(unread)}")
    cap, dollars = setup.experiment.cluster.spending_cap, plan.totals()["dollars"]
    if cap is not None and dollars > cap:
        warnings.append(
            f"about ${dollars:,.0f} is more than cluster.spending_cap ${cap:,.0f}: "
            "the run would stop there and can go on with a higher one"
        )
    if here and plan.weights is not None and plan.weights.short:
        missing = plan.weights.total - plan.weights.here
        warnings.append(
            f"{missing / 1e9:,.0f} GB of weights are to be downloaded and {hub_cache()} has "
            f"{plan.weights.free / 1e9:,.0f} GB free -> set HF_HOME to a folder of a larger disk"
        )
    if setup.grader is not None:
        warnings.append(grader_note(setup.grader, setup.models))
    busy = [work.name for work in plan.work if work.to_do]
    warnings += [str(error) for error in mistakes(setup, busy, here=here)]
    names = [model.card.name for model in unpinned(setup.models) if model.card.name in busy]
    if names:
        warnings.append(
            f"no revision on the card, so the run keeps to the commit that the hub has when it "
            f"starts: {', '.join(names)}"
        )
    if unpriced := [
        w.name for w in plan.work if w.to_do and w.gpu_hours is None and w.dollars is None
    ]:
        warnings.append(f"no size, GPU or price on the card, so no estimate: {', '.join(unpriced)}")
    return warnings
