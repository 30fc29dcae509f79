"""What a run will do, before it does it: `bon plan`. Loads no model.

Everything that is estimated rests on a stated assumption; whatever a run directory already knows
(rows of the datasets, candidates, judgements, their lengths) replaces the assumption.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from bon.benchmarks import adapter
from bon.benchmarks.rows import count_rows, local_files
from bon.choosing.opinion import shown_of
from bon.core.errors import BonError
from bon.experiment.cards import Loaded
from bon.experiment.config import IMPORTED, Card, DatasetSpec, PolicyCard, Price, RewarderCard
from bon.rewarders.judge import most_calls
from bon.running.commits import unpinned
from bon.running.database import DATABASE
from bon.running.filed import filed
from bon.running.gpu_fit import PER_SEQUENCE, RESERVE, RESERVE_UNBOUND, USED, GpuFit, fit_of
from bon.running.image_tokens import OTHERWISE, ROWS, TYPICAL, Size, first_sizes, tokens_of
from bon.running.pinning import questions_in
from bon.running.preflight import mistakes, retiring
from bon.running.repeating import FOLDER
from bon.running.setup import Setup
from bon.running.speeds import Speed, measured
from bon.running.stakes import drawn, stakes_of, to_judge
from bon.running.store import Store
from bon.running.weights import Weights, cache, weights
from bon.running.work import CandidatePool, open_calls

# Rows of the published releases, for datasets that are not on this machine.
PUBLISHED = {
    "mmmu_pro": (1730, "each of its three configs has 1,730 questions"),
    "vl_rewardbench": (1250, "1,250 pairs; 1,247 in the later revision"),
    "multimodal_rewardbench": (4711, "4,711 pairs in the open release"),
    "mmrb2": (1000, "1,000 pairs of the reasoning task"),
    "mm_rlhf": (145, "170 pairs, of which 25 are about videos and are left out"),
}

IMAGES = {"mmrb2": 4.2}
"""Images per row of a published release that holds more than one: those within its responses."""

QUESTION_TOKENS = 200
PROMPT_TOKENS = 200
CANDIDATE_TOKENS = 350
STEPS = 5
REPLY_TOKENS = {"pairwise": 450, "pointwise": 250, "listwise": 700, "stepwise": 1, "python": 300}
PROMPT_FLOPS = 100e12
REPLY_FLOPS = 20e12
SPREAD = 2.0
"""Published throughputs lie within this factor of what those two say, either way."""

ASSUMPTIONS = (
    f"images take the tokens that each model's rule gives the first {ROWS} rows' images of a "
    f"dataset on this machine, or {len(TYPICAL)} images of MMMU-Pro, one per question or pair "
    f"(MMRB2: {IMAGES['mmrb2']:g}, without those of its prompts); a model without a rule takes "
    f"{OTHERWISE:,}",
    f"a question has {QUESTION_TOKENS} tokens of text, a judge's instructions {PROMPT_TOKENS}, "
    f"a candidate or response {CANDIDATE_TOKENS}",
    "a judge writes "
    + ", ".join(f"{count} tokens ({kind})" for kind, count in REPLY_TOKENS.items() if count > 1)
    + ", never more than its max_tokens",
    "candidates of a question differ in text and in answer; equal texts are judged once, and "
    "questions whose candidates are all right or all wrong are not judged (which cannot be known "
    "before they are sampled), so judge calls are an upper bound",
    f"a model of P parameters reads a token in 2P / {PROMPT_FLOPS:.0e} GPU seconds and writes one "
    f"in 2P / {REPLY_FLOPS:.0e}: an 80 GB data-centre GPU with full batches, give or take a factor "
    f"of {SPREAD:g}, which the range shows; a 24 GB card takes three to six times as long, the "
    "transformers engine up to three times",
    "a prompt is read once for all candidates of a question and for all votes on one showing; "
    "endpoints that give one sample per request (Claude, Gemini) read and bill it for each",
    "prompts that begin alike are counted in full, though vLLM keeps their common part: GPU hours "
    "are an upper bound there; loading a model (minutes) is not counted",
    "where a run in the same folder and on this machine has asked a model under the same settings, "
    "the seconds that it took there per candidate or judgement are used instead",
    f"GPU memory: weights in 16 bits unless the card or the checkpoint here says otherwise, a KV "
    f"cache of max_model_len tokens ({PER_SEQUENCE:,} where none is set), and {RESERVE:g} GiB for "
    f"the vision encoder, activations and CUDA ({RESERVE_UNBOUND:g} without max_pixels), in "
    f"{USED:.0%} of the card",
)


@dataclass(frozen=True)
class Rows:
    """How many rows a dataset has and how that is known."""

    name: str
    benchmark: str
    count: int
    known_from: str


@dataclass
class Work:
    """One model's calls. `reused` are in the run already; `lengths` says where tokens are from.

    `again`: judgements that `judging.repeat_check` still asks for once more. `worker_hours` are
    known where an earlier run measured its `speed`, which names that run.
    """

    name: str
    kind: str
    on_questions: int = 0
    on_pairs: int = 0
    reused: int = 0
    again: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0
    gpu_hours: float | None = None
    dollars: float | None = None
    lengths: str = "assumed"
    speed: str = "assumed"
    worker_hours: float | None = None

    @property
    def spread(self) -> float:
        """The factor, either way, within which its GPU hours are known."""
        return SPREAD if self.speed == "assumed" else 1.0

    @property
    def to_do(self) -> int:
        """Calls that are still to be made."""
        return max(0, self.on_questions + self.on_pairs - self.reused) + self.again


@dataclass
class Plan:
    """What an experiment needs in all, and what of it is still to be done."""

    name: str
    design: str
    questions: Rows
    pairs: tuple[Rows, ...]
    policies: list[Work] = field(default_factory=list)
    rewarders: list[Work] = field(default_factory=list)
    memory: list[GpuFit] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    weights: Weights | None = None

    @property
    def is_large(self) -> bool:
        """Whether it takes hours of a GPU, money, or a download that one would know of before."""
        totals = self.totals()
        download = self.weights.total - self.weights.here if self.weights else 0
        return totals["gpu_hours"] >= 1 or totals["dollars"] >= 1 or download >= 1e9

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        found = asdict(self)
        for room in ("policies", "rewarders"):
            for row, work in zip(found[room], getattr(self, room), strict=True):
                row["to_do"] = work.to_do
        return {**found, "totals": self.totals(), "assumptions": list(ASSUMPTIONS)}

    def totals(self) -> dict[str, float]:
        """Sums over all models of what is still to be done."""
        every = [*self.policies, *self.rewarders]
        return {
            "calls": sum(work.to_do for work in every),
            "tokens": sum(work.prompt_tokens + work.reply_tokens for work in every),
            "gpu_hours": sum(work.gpu_hours or 0 for work in every),
            "gpu_hours_low": sum((work.gpu_hours or 0) / work.spread for work in every),
            "gpu_hours_high": sum((work.gpu_hours or 0) * work.spread for work in every),
            "worker_hours": sum(work.worker_hours or 0 for work in every),
            "dollars": sum(work.dollars or 0 for work in every),
        }


def make_plan(setup: Setup, out: Path | None = None, *, here: bool = False) -> Plan:
    """Count an experiment's work; `out` is the run directory it would go on in.

    `here`: it would run on this machine, and what that lacks is among the warnings.
    """
    if out is not None and out.exists() and not out.is_dir():
        raise BonError(f"cannot use {out}: it is a file", "name a folder, or a new one")
    with ExitStack() as stack:
        store = None
        if out is not None and (out / "run.sqlite").is_file():
            store = stack.enter_context(Store(out, readonly=True))
            setup = filed(setup, store, running=True)
        plan = _Counter(setup, store, here).plan()
    if out is not None:
        speeds = measured(setup.models, setup.experiment, out)
        _take_speeds(plan, setup, speeds)
    return plan


def _take_speeds(plan: Plan, setup: Setup, speeds: Mapping[str, Speed]) -> None:
    """Put what was measured in the place of what is assumed."""
    gpus = {model.card.name: model.card.placement.gpus for model in setup.models}
    for work in (*plan.policies, *plan.rewarders):
        speed = speeds.get(work.name)
        if speed is not None:
            work.speed = speed.run
            work.worker_hours = work.to_do * speed.seconds / 3600
            if gpus[work.name]:
                work.gpu_hours = work.worker_hours * gpus[work.name]


class _Counter:
    def __init__(self, setup: Setup, store: Store | None, here: bool) -> None:
        self._setup = setup
        self._here = here
        self._store = store
        experiment = setup.experiment
        self._design = experiment.judging.design
        self._questions = self._rows(experiment.questions, "questions")
        self._pairs = tuple(self._rows(spec, "pairs") for spec in experiment.pairs)
        self._sizes = {
            "questions": self._measured(experiment.questions, "questions"),
            **{spec.name or spec.benchmark: self._measured(spec, "pairs")
               for spec in experiment.pairs},
        }  # fmt: skip

    def plan(self) -> Plan:
        experiment = self._setup.experiment
        plan = Plan(experiment.name, self._design, self._questions, self._pairs)
        plan.policies = [self._policy(policy) for policy in self._setup.policies]
        plan.rewarders = [self._rewarder(rewarder) for rewarder in self._setup.rewarders]
        plan.weights = weights(self._setup.models)
        fits = map(fit_of, self._setup.models)
        plan.memory = [fit for fit in fits if fit is not None]
        plan.warnings = _warnings(self._setup, plan, self._here)
        return plan

    def _rows(self, spec: DatasetSpec, table: str) -> Rows:
        name = spec.name or spec.benchmark
        if self._store is not None:
            where = "active > 0" if table == "questions" else "active > 0 AND benchmark = ?"
            count = self._store.count(table, where, () if table == "questions" else (name,))
            if count:
                return Rows(name, spec.benchmark, count, "in the run")
        if spec.benchmark == IMPORTED:
            policies, base = self._setup.policies, self._setup.base
            count = max(questions_in(policy.card, base) for policy in policies)
            known = "counted where the answers are from"
        elif spec.path is not None:
            count, known = _count_file(spec, self._setup.base), "counted in the file"
        elif spec.hub is None and spec.benchmark in PUBLISHED:
            count, note = PUBLISHED[spec.benchmark]
            known = f"not read: the published count ({note})"
        elif spec.limit is not None:
            count, known = spec.limit, "not read: at most `limit`"
        else:
            raise BonError(
                f"{spec.hub or spec.benchmark}: its rows cannot be counted without reading it",
                "set `limit`, or download it and set `path`",
            )
        return Rows(name, spec.benchmark, min(count, spec.limit or count), known)

    def _measured(
        self, spec: DatasetSpec, kind: Literal["questions", "pairs"]
    ) -> tuple[float, Sequence[Size]]:
        """Images per row and their sizes, as far as they can be known here."""
        if spec.columns.get("image") == "":
            return 0.0, TYPICAL
        if spec.path is None or spec.benchmark == IMPORTED:
            return IMAGES.get(spec.benchmark, 1.0) if spec.hub is None else 1.0, TYPICAL
        here = {"path": str(self._setup.base / Path(spec.path).expanduser()), "limit": ROWS}
        try:
            per_row, sizes = first_sizes(spec.model_copy(update=here), kind)
        except BonError:  # the run will say it; a plan counts what it can
            return 1.0, TYPICAL
        return per_row, sizes or TYPICAL

    def _image_tokens(self, card: Card, name: str = "questions") -> float:
        per_row, sizes = self._sizes[name]
        seen = getattr(card, "image_filter", "") != "drop"
        return per_row * tokens_of(card, sizes) if seen else 0.0

    def _policy(self, policy: Loaded[PolicyCard]) -> Work:
        card = policy.card
        if card.brought:
            return Work(card.name, "policy")
        work = Work(card.name, "policy", on_questions=self._questions.count * card.n)
        if self._store is not None:
            where = 'spec = ? AND "index" < ?'
            work.reused = self._store.count("candidates", where, (policy.spec, card.n))
        assumed = (QUESTION_TOKENS + self._image_tokens(card), CANDIDATE_TOKENS)
        prompt, reply = self._lengths("candidates", policy.spec, work, *assumed)
        # A prompt is read once for all its candidates.
        reads = math.ceil(work.to_do / card.n)
        _price(work, card, reads * prompt, work.to_do * min(reply, card.sampling.max_tokens))
        return work

    def _rewarder(self, rewarder: Loaded[RewarderCard]) -> Work:
        card = rewarder.card
        work = Work(card.name, card.kind)
        if card.brought:
            return work
        reused = 0
        for policy in self._setup.policies:
            wanted, known = self._on_questions(policy, rewarder)
            work.on_questions += wanted
            reused += known
        votes = self._setup.pair_votes(rewarder)
        calls = {"questions": work.on_questions}
        for rows in self._pairs:
            calls[rows.name] = rows.count * most_calls(card, self._design, 2, votes[rows.name])
        reads = work.on_questions / card.votes
        for rows in self._pairs:
            reads += rows.count * most_calls(card, self._design, 2, 1)
        work.on_pairs = sum(calls.values()) - work.on_questions
        if self._store is not None:
            judged = "spec = ? AND item_kind = 'pair'"
            reused += min(work.on_pairs, self._store.count("judgements", judged, (rewarder.spec,)))
        work.reused = reused
        work.again = self._again(rewarder)
        images = sum(count * self._image_tokens(card, name) for name, count in calls.items())
        assumed = _assumed_lengths(card, images / max(1, sum(calls.values())))
        prompt, reply = self._lengths("judgements", rewarder.spec, work, *assumed)
        steps = 1 if work.lengths != "assumed" or card.kind != "stepwise" else STEPS
        # A prompt is read once for all votes on one showing.
        share = work.to_do / max(1, work.on_questions + work.on_pairs)
        prompts = reads * share * prompt * steps
        _price(work, card, prompts, work.to_do * min(reply, card.sampling.max_tokens) * steps)
        return work

    def _again(self, rewarder: Loaded[RewarderCard]) -> int:
        """Judgements to be asked for once more: one of each of so many items."""
        items = round(self._questions.count * self._setup.experiment.questions.subset)
        items += sum(rows.count for rows in self._pairs)
        wanted = min(self._setup.experiment.judging.repeat_check, items)
        there = self._store.directory / FOLDER if self._store is not None else None
        if wanted and there is not None and (there / DATABASE).is_file():
            with Store(there, readonly=True) as repeats:
                done = "spec = ? AND outcome != 'error'"
                wanted -= repeats.count("judgements", done, (rewarder.spec,))
        return max(0, wanted)

    def _on_questions(
        self, policy: Loaded[PolicyCard], rewarder: Loaded[RewarderCard]
    ) -> tuple[int, int]:
        """Judgements wanted on a policy's candidates, and how many of them there are."""
        card, n = rewarder.card, policy.card.n
        most = most_calls(card, self._design, n, card.votes)
        subset = self._setup.experiment.questions.subset
        if self._store is None or self._questions.known_from != "in the run":
            return round(self._questions.count * subset) * most, 0
        pool = CandidatePool(self._store, policy)
        judging = self._setup.experiment.judging
        wanted = known = 0
        for question in self._store.questions():
            rows = pool.candidates(question)
            if len(rows) < n and not policy.card.brought:
                wanted += most * drawn(question.key, subset)
                continue
            usable = to_judge(question, rows, judging, subset)
            if not usable:
                continue
            texts = {row.text_key for row in usable}
            race = stakes_of(question, usable, judging)
            judged = self._store.judgements(rewarder.spec, question.key)
            here = sum(row.vote < card.votes and texts.issuperset(shown_of(row)) for row in judged)
            protocol = self._setup.protocol(rewarder)
            key, votes = question.key, card.votes
            if open_calls(self._store, rewarder, protocol, key, texts, votes, race) is None:
                total = here  # a race that is over needs no more than it has
            else:
                total = most_calls(card, self._design, len(texts), votes)
            wanted += total
            known += min(total, here)
        return wanted, known

    def _lengths(
        self, table: str, spec: str, work: Work, prompt: float, reply: float
    ) -> tuple[float, float]:
        """Mean tokens per call, measured in the run where it has some."""
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


def _assumed_lengths(card: RewarderCard, image_tokens: float) -> tuple[float, float]:
    question = QUESTION_TOKENS + image_tokens
    if card.kind in ("scalar", "likelihood", "rerank"):
        return question + CANDIDATE_TOKENS, 0
    shown = {"pairwise": 2, "listwise": card.window}.get(card.kind, 1)
    reply = 1 if card.score and card.score.yes and card.sampling.max_tokens < 16 else 0
    read = PROMPT_TOKENS + question + shown * CANDIDATE_TOKENS
    return read, reply or REPLY_TOKENS.get(card.kind, 0)


def _price(work: Work, card: Card, prompt_tokens: float, reply_tokens: float) -> None:
    work.prompt_tokens, work.reply_tokens = round(prompt_tokens), round(reply_tokens)
    if isinstance(card.cost, Price):
        paid = prompt_tokens * card.cost.input_per_million
        work.dollars = (paid + reply_tokens * card.cost.output_per_million) / 1e6
    elif card.size is not None and card.placement.gpus:
        operations = 2 * card.size
        seconds = operations * (prompt_tokens / PROMPT_FLOPS + reply_tokens / REPLY_FLOPS)
        work.gpu_hours = seconds / 3600


def _count_file(spec: DatasetSpec, base: Path) -> int:
    found = adapter(spec.benchmark)
    path = base / Path(str(spec.path)).expanduser()
    files = local_files(path, found.config(spec.config), spec.split or found.split)
    return sum(map(count_rows, files))


def _warnings(setup: Setup, plan: Plan, here: bool) -> list[str]:
    unread = [r.name for r in (plan.questions, *plan.pairs) if r.known_from.startswith("not read")]
    found = []
    if unread:
        found.append(f"not read, only counted as published or limited: {', '.join(unread)}")
    if setup.experiment.judging.decide is not None:
        found.append("judging.decide asks less: calls are what all questions would take")
    cap, dollars = setup.experiment.cluster.spending_cap, plan.totals()["dollars"]
    if cap is not None and dollars > cap:
        found.append(
            f"about ${dollars:,.0f} is more than cluster.spending_cap ${cap:,.0f}: "
            "the run would stop there and can go on with a higher one"
        )
    if here and plan.weights is not None and plan.weights.short:
        missing = plan.weights.total - plan.weights.here
        found.append(
            f"{missing / 1e9:,.0f} GB of weights are to be downloaded and {cache()} has "
            f"{plan.weights.free / 1e9:,.0f} GB free -> set HF_HOME to a folder of a larger disk"
        )
    busy = [work.name for work in (*plan.policies, *plan.rewarders) if work.to_do]
    found += [str(each) for each in mistakes(setup, busy, here=here)]
    found += retiring(setup, busy)
    loose = [one.card.name for one in unpinned(setup.models) if one.card.name in busy]
    if loose:
        found.append(
            f"no revision on the card, so the run keeps to the commit that the hub has when it "
            f"starts (bon doctor --pin NAME prints it): {', '.join(loose)}"
        )
    vague = [w.name for w in (*plan.policies, *plan.rewarders) if _unpriced(w)]
    if vague:
        found.append(f"no size, GPU or price on the card, so no estimate: {', '.join(vague)}")
    return found


def _unpriced(work: Work) -> bool:
    return work.to_do > 0 and work.gpu_hours is None and work.dollars is None
