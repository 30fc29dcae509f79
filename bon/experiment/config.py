"""Models of the experiment file and of cards.

Error messages are derived from their types, bounds, descriptions and examples
(bon.core.validation).
"""

from collections.abc import Mapping
from datetime import date
from itertools import combinations
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationInfo,
    field_validator,
    model_validator,
)

from bon.core import patterns
from bon.core.errors import BonError, shown
from bon.core.records import check_rewarder_name
from bon.core.sampling import Sampling
from bon.core.validation import (
    MAX_ITEMS,
    MAX_NAME,
    Location,
    Name,
    Number,
    Strict,
    Text,
    Word,
    validate,
)
from bon.engines import ENGINES
from bon.engines.free_gpu_memory import USABLE

MAX_DATASETS, MAX_MODELS, MAX_STEPS = 16, 128, 1024

Columns = Annotated[dict[Name, Name], Field(max_length=MAX_ITEMS)]
Words = Annotated[tuple[Word, ...], Field(max_length=MAX_ITEMS)]


class UpstreamPrompt(Strict):
    """A published prompt, downloaded by the user and never shipped."""

    upstream: Name


class FilePrompt(Strict):
    """A user's prompt file, relative to the file that names it."""

    file: Location


class InlinePrompt(Strict):
    """A prompt in the card itself."""

    text: Text


PromptRef = Name | UpstreamPrompt | FilePrompt | InlinePrompt


class Placement(Strict):
    """Resources of a model. Models of one `group` share its actors and load on first use."""

    group: Name = ""
    actors: int = Field(1, ge=1, le=10_000)
    gpus: float = Field(0, ge=0, le=1024)
    cpus: float = Field(1, ge=0, le=4096)
    runtime_env: dict[str, Any] = Field(default_factory=dict)

    @field_validator("gpus")
    @classmethod
    def _whole(cls, value: float) -> float:
        if value > 1 and value % 1:
            raise ValueError("above one, GPUs are whole", f"set {int(value)} or {int(value) + 1}")
        return value


class Price(Strict):
    """US dollars per million tokens."""

    input_per_million: float = Field(ge=0, le=1e6)
    output_per_million: float = Field(ge=0, le=1e6)


PRICED = "add cost: {input_per_million: 2.5, output_per_million: 10}, zeros if it is free"


def _one_or_many(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


class Elsewhere(Strict):
    """Files or a run with a model's outputs, which are imported instead of computed.

    `of` is the model's name there; `policy` is the policy whose candidates were scored.
    """

    files: Annotated[tuple[Location, ...], BeforeValidator(_one_or_many)] = Field(
        min_length=1, max_length=MAX_ITEMS, examples=["answers.jsonl"]
    )
    format: Name = ""
    columns: Columns = Field(default_factory=dict)
    of: Name = ""
    policy: Name = ""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        """Accept `from: FILE` and `from: [FILE, FILE]`."""
        return {"files": data} if isinstance(data, str | list) else data


class TokensByArea(Strict):
    """Pixels per token of an image, and the most pixels: larger images are shrunk."""

    pixels: float = Field(gt=0, le=1e9)
    most: int = Field(ge=1, le=10**9)


IMPORTS = frozenset(("from", "pool"))
"""Keys of a card whose outputs are imported."""
IMPORTED = "imported"
"""Benchmark of experiments whose questions come with imported policies; prefix of their models."""


def _versions() -> Any:
    return Field(
        None,
        pattern=r"^(transformers|vllm)(,?(<|<=|==|>=|>)[0-9]+(\.[0-9]+)*)+$",
        max_length=100,
        description="versions of transformers or vllm",
        examples=["transformers<4.49"],
    )


class Needs(Strict):
    """The versions with which each engine can load a checkpoint."""

    transformers: str | None = _versions()
    vllm: str | None = _versions()


class Card(Strict):
    """Settings that policies and rewarders share."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,99}$",
        description="up to 100 letters, digits and . _ + -, the first a letter or a digit",
        examples=["my-judge"],
    )
    title: Name = ""
    model: Location = ""
    revision: Name | None = None
    licence: Name = "not stated"
    citation: Text = Field("", description="BibTeX of what to cite for the model")
    family: Name = Field("", description="base model, which rewarders may share")
    maker: Name = Field("", description="who trained it; one maker alone carries no yes")
    size: float | None = Field(None, gt=0, le=1e15, description="parameters")
    active: float | None = Field(
        None, gt=0, le=1e15, description="of them, those that each token uses"
    )
    kv_bytes: int | None = Field(
        None, ge=1, le=10**9, description="of KV cache per token in 16 bits"
    )
    image_tokens: Annotated[int, Field(ge=1, le=10**9)] | TokensByArea | None = Field(
        None, examples=[1000], description="per image, or by its area"
    )
    engine: Name = "transformers"
    engine_args: dict[str, Any] = Field(default_factory=dict)
    images: Literal["first", "interleaved", "last"] = "first"
    placement: Placement = Placement()
    cost: Price | Name = ""
    retires: date | None = Field(
        None,
        description="the day its vendor stops serving it",
        examples=["2027-01-14"],
    )
    needs: Needs = Field(Needs(), examples=[{"vllm": "transformers<4.49"}])
    tested: Text = ""
    notes: Text = ""
    elsewhere: Elsewhere | None = Field(None, alias="from")

    @property
    def imported(self) -> bool:
        """Whether its outputs were imported, so that it never runs."""
        return self.engine == "none" and self.model.startswith(f"{IMPORTED}:")

    @property
    def gpu_memory_share(self) -> float:
        """The share of each GPU's memory that the model needs; 0 without a GPU."""
        arguments, gpus = self.engine_args.get("engine_args"), self.placement.gpus
        own = arguments.get("gpu_memory_utilization") if isinstance(arguments, Mapping) else None
        return float(own or USABLE * min(1.0, gpus)) if gpus else 0.0

    @property
    def price(self) -> Price | None:
        """What its tokens cost, where `cost` says it in numbers: the one place that knows it."""
        return self.cost if isinstance(self.cost, Price) else None

    @property
    def is_paid(self) -> bool:
        """Whether requests to its model cost money, which a ledger reserves."""
        price = self.price if self.engine == "openai" else None
        return price is not None and price.input_per_million + price.output_per_million > 0

    @model_validator(mode="after")
    def _capped(self) -> Self:
        if self.price is None and self.engine_args.get("spending_cap") is not None:
            raise ValueError("engine_args.spending_cap without a price", PRICED)
        return self

    @field_validator("engine")
    @classmethod
    def _known(cls, value: str) -> str:
        try:
            ENGINES[value]
        except BonError as error:
            raise ValueError(error.message, error.fix) from None
        return value


class PolicyCard(Card):
    """A model that answers questions."""

    role: Literal["policy"] = "policy"
    prompt: PromptRef = "cot"
    extractor: Literal["official", "strict", "llm"] = "official"
    sampling: Sampling = Sampling()
    n: int = Field(8, ge=1, le=4096)


def _checked_pattern(value: str) -> str:
    if value:
        patterns.checked(value)
    return value


Pattern = Annotated[str, Field(max_length=2000), AfterValidator(_checked_pattern)]


def _check_distinct(**words: tuple[str, ...]) -> None:
    for (name, first), (other, second) in combinations(words.items(), 2):
        for word in set(first) & set(second):
            raise ValueError(f"{word!r} is in both `{name}` and `{other}`", "keep it in one")


Reader = Literal["strict", "published"]
"""The form that the prompt requires (bon.experiment.required_form), or the last match."""


class VerdictRule(Strict):
    """How a reply becomes a verdict: an RE2 pattern with one group.

    `first`, `second` and `tie` list the group's values; any other is `unparsed`. The `strict`
    reader takes a reply that ends in a match on a line of its own, the `published` one the last
    match after removing the `delete` characters.
    """

    pattern: Pattern = Field(examples=["Answer ([12]) is better"])
    reader: Reader = "strict"
    first: Words = ("1",)
    second: Words = ("2",)
    tie: Words = ()
    delete: Word = ""

    @model_validator(mode="after")
    def _check_words(self) -> Self:
        for name in ("first", "second"):
            if not getattr(self, name):
                raise ValueError(f"`{name}` is empty", f"list its words: `{name}: [A]`")
        _check_distinct(first=self.first, second=self.second, tie=self.tie)
        return self


class ScoreRule(Strict):
    """How a reply becomes a number.

    Either `pattern` with one group (a number, or a key of `values`), or `yes` and `no`: the score
    is P(yes) / (P(yes) + P(no)) at the last generated token that is one of them.
    """

    pattern: Pattern = Field("", examples=["Score: ([0-9.]+)"])
    reader: Reader = "strict"
    values: dict[Name, Number] = Field(default_factory=dict, max_length=MAX_ITEMS)
    range: tuple[Number, Number] | None = Field(None, examples=[[0, 10]])
    yes: Words = ()
    no: Words = ()
    delete: Word = ""

    @model_validator(mode="after")
    def _check_rule(self) -> Self:
        if bool(self.yes) != bool(self.no):
            given, missing = ("yes", "no") if self.yes else ("no", "yes")
            raise ValueError(
                f"`{given}` without `{missing}`: the score is P(yes) / (P(yes) + P(no))",
                f"add the other word: `{missing}: [{missing.capitalize()}]`",
            )
        if not self.pattern and not self.yes:
            raise ValueError(
                "gives neither a pattern nor words",
                "give `pattern: 'Score: ([0-9.]+)'`, or `yes: [Yes]` and `no: [No]`",
            )
        _check_distinct(yes=self.yes, no=self.no)
        if self.range is not None and not self.range[0] < self.range[1]:
            low, high = self.range
            raise ValueError(
                f"`range: [{low:g}, {high:g}]` is empty", "write the lower end first: `[0, 10]`"
            )
        return self


Kind = Literal[
    "pairwise", "pointwise", "scalar", "likelihood", "listwise", "stepwise", "rerank", "ensemble",
    "python",
]  # fmt: skip
Aggregate = Literal["mean", "min", "product", "last", "geometric"]
"""How the scores of a response's steps are combined."""


class KnownScores(Strict):
    """Known scores of the model, for `bon doctor --rewarder`; images lie beside the card."""

    prompt: Text = Field(min_length=1, examples=["What is shown?"])
    responses: tuple[Text, ...] = Field(max_length=MAX_ITEMS, examples=[["A cat.", "A dog."]])
    scores: tuple[Number, ...] = Field(min_length=1, max_length=MAX_ITEMS, examples=[[1.5, -0.25]])
    images: tuple[Location, ...] = Field((), max_length=MAX_ITEMS)
    tolerance: float = Field(0.02, gt=0, le=1e9)

    @model_validator(mode="after")
    def _as_many(self) -> Self:
        if len(self.scores) != len(self.responses):
            raise ValueError(
                f"{len(self.scores)} scores of {len(self.responses)} responses",
                "give one score per response, in the same order",
            )
        return self


class RewarderOptions(Strict):
    """Options of a kind; most kinds have none."""


class StepwiseOptions(RewarderOptions):
    """Options of kind stepwise: one turn per step, and how many steps at most."""

    turns: bool = False
    max_steps: int | None = Field(None, ge=1, le=MAX_STEPS, strict=True, examples=[20])


class RerankOptions(RewarderOptions):
    """Options of kind rerank."""

    instruction: Text = ""


class ClassOptions(RewarderOptions):
    """Options of kind python: whatever the class takes, as attributes."""

    model_config = ConfigDict(extra="allow")


OPTIONS: Mapping[str, type[RewarderOptions]] = {
    "stepwise": StepwiseOptions,
    "rerank": RerankOptions,
    "python": ClassOptions,
}
"""What the options of a card are, by its kind; other kinds have none."""


class RewarderCard(Card):
    """A rewarder: anything that chooses among responses, such as a judge or a reward model."""

    role: Literal["rewarder"] = "rewarder"
    kind: Kind = Field(examples=["scalar"])
    prompt: PromptRef = ""
    system: PromptRef = Field("", description="the system turn before it")
    verdict: VerdictRule | None = None
    score: ScoreRule | None = None
    image_filter: str = Field(
        "none",
        pattern=r"^(none|drop|gray|blur:(100|\d{1,2}(\.\d{1,4})?))$",
        description="none, drop, gray or blur:PIXELS",
        examples=["blur:8"],
    )
    sampling: Sampling = Sampling(temperature=0.0)
    votes: int = Field(1, ge=1, le=101)
    orders: Literal["both", "random"] = "both"
    aggregate: Aggregate = "mean"
    window: int = Field(8, ge=2, le=64)
    step_separator: Text = "\n\n"
    members: Words = Field((), description="of an ensemble, whose score is their mean score")
    python: Name = Field("", description="module:Class of a user's rewarder")
    options: SerializeAsAny[RewarderOptions] = Field(default_factory=dict, validate_default=True)
    check: tuple[KnownScores, ...] = Field(
        (),
        max_length=MAX_ITEMS,
        examples=[[{"prompt": "Sky?", "responses": ["Blue."], "scores": [1.5]}]],
    )

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str) -> str:
        try:
            check_rewarder_name(value)
        except BonError as error:
            raise ValueError(error.message, error.fix) from None
        return value

    @field_validator("options", mode="before")
    @classmethod
    def _of_kind(cls, value: Any, info: ValidationInfo) -> Any:
        kind = info.data.get("kind", "")
        if isinstance(value, RewarderOptions):
            return value
        if not isinstance(value, Mapping):
            raise ValueError(f"found {shown(value)}, expected a mapping (key: value)")
        if value and kind not in OPTIONS:
            raise ValueError(f"kind {kind} has none", "leave `options` out")
        try:
            return validate(OPTIONS.get(kind, RewarderOptions), value, f"of kind {kind}")
        except BonError as error:
            raise ValueError(error.message, error.fix) from None

    @property
    def stored_rule(self) -> VerdictRule | ScoreRule | None:
        """The rule that parses stored replies; None for P(yes) and for scores of steps."""
        if self.kind == "pairwise":
            return self.verdict
        single = self.kind in ("pointwise", "listwise") and self.score and not self.score.yes
        return self.score if single else None


class DatasetSpec(Strict):
    """A benchmark and its source; `path` is relative to the file that names it."""

    benchmark: Name = Field(examples=["mmmu_pro"])
    path: Location | None = None
    hub: Name | None = None
    revision: Name | None = None
    config: Name | None = None
    split: Name | None = None
    limit: int | None = Field(None, ge=1, le=10_000_000)
    columns: Columns = Field(default_factory=dict)
    name: Name = ""
    grader: Name = Field("", description="how answers without options are graded")
    tolerance: Name | Annotated[float, Field(ge=0, le=1e9)] = Field(
        "", description="of numbers", examples=["5%"]
    )

    @property
    def title(self) -> str:
        """The name in the results, which questions and pairs carry."""
        return self.name or self.benchmark


class QuestionsSpec(DatasetSpec):
    """A downstream task."""

    subset: float = Field(1.0, gt=0, le=1, description="seeded share of questions that is judged")
    weight: float | None = Field(None, gt=0, le=1e9, description="of the task among several")


class PairsSpec(DatasetSpec):
    """A reward benchmark; `votes` overrides the card's here."""

    votes: int | None = Field(None, ge=1, le=101)


class Deep(Strict):
    """More candidates on a share of the questions, for rewarders that score them one by one."""

    n: int = Field(64, ge=2, le=4096)
    share: float = Field(0.1, gt=0, le=1, description="seeded share of the questions")
    rewarders: Words = Field(
        (), description="rewarders that score them; by default all that score single candidates"
    )


class Judging(Strict):
    """Which comparisons are made; only judged ones can be replayed."""

    design: Literal["all_pairs", "race", "knockout"] = "all_pairs"
    complete: float = Field(
        0.1, ge=0, le=1, description="share of the questions that a race judges in full"
    )
    skip: Literal["constant", "unanimous", "nothing"] = Field(
        "constant",
        description="questions that are not judged: candidates all right or all wrong, or all with "
        "one answer",
    )
    deep: Deep | None = Field(None, description="how far n may go", examples=[{"n": 64}])


class AnalysisConfig(Strict):
    """Settings of the analysis."""

    n: int | None = Field(None, ge=1, le=4096, description="headline n; by default the pool size")
    axis: str = Field(
        "macro",
        pattern="^(macro|overall|natural|group:.+)$",
        max_length=MAX_NAME,
        description="macro, overall, group:NAME, a group of the reward benchmark, or natural, the "
        "pool that its weighted pairs were drawn from",
    )
    rules: Words = ()
    ties: Literal["half", "wrong", "drop"] = "half"
    bootstrap: int = Field(2000, ge=100, le=20_000)
    confidence: float = Field(0.95, gt=0.5, lt=1)
    unparsed: Literal["wrong", "drop", "chance"] = "wrong"
    aggregate: Aggregate | None = Field(
        None, description="overrides the cards of process rewarders"
    )


class ClusterConfig(Strict):
    """Settings of dispatch: `in_flight` batches per actor, of adaptive size unless `batch`."""

    address: Location | None = None
    listen_beyond_loopback: bool = Field(
        False, description="let the run's processes listen where other machines can reach them"
    )
    batch: int | None = Field(None, ge=1, le=1024)
    in_flight: int = Field(2, ge=1, le=64)
    retries: int = Field(2, ge=0, le=10)
    timeout_seconds: float = Field(1800, gt=0, le=86_400)
    max_error_share: float = Field(0, ge=0, le=1)
    spending_cap: float | None = Field(None, gt=0, le=1e6, description="US dollars")


CardRef = Location | dict[str, Any]
"""A card's name or file, or a card, which `PolicyCard` or `RewarderCard` bounds."""


class Experiment(Strict):
    """An experiment file."""

    name: str = Field(
        "experiment",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._+ -]{0,99}$",
        description="up to 100 letters, digits, spaces and . _ + -, the first a letter or a digit",
    )
    description: Text = ""
    seed: int = Field(0, ge=0, le=2**63 - 1)
    questions: Annotated[tuple[QuestionsSpec, ...], BeforeValidator(_one_or_many)] = Field(
        max_length=MAX_DATASETS, examples=[[{"benchmark": "mmmu_pro"}]]
    )
    pairs: Annotated[tuple[PairsSpec, ...], BeforeValidator(_one_or_many)] = Field(
        (), max_length=MAX_DATASETS
    )
    policies: tuple[CardRef, ...] = Field(
        max_length=MAX_MODELS,
        examples=[["qwen2.5-vl-7b"]],
        description="[]: a reward benchmark alone",
    )
    rewarders: tuple[CardRef, ...] = Field(
        (), max_length=MAX_MODELS, examples=[["qwen2.5-vl-7b-judge"]]
    )
    grading: CardRef | None = Field(
        None, description="the model that grades where `grader: llm`", examples=["gpt-4o-judge"]
    )
    reading: CardRef | None = Field(
        None, description="the model that reads where `extractor: llm`", examples=["gpt-4o-judge"]
    )
    judging: Judging = Judging()
    analysis: AnalysisConfig = AnalysisConfig()
    cluster: ClusterConfig = ClusterConfig()
    allow_remote_code: bool = False

    @property
    def subset(self) -> float:
        """The share of the questions that is judged, the same in every task."""
        return self.questions[0].subset

    @property
    def imported(self) -> bool:
        """Whether the questions come with the policies."""
        return self.questions[0].benchmark == IMPORTED

    @model_validator(mode="after")
    def _check_tasks(self) -> Self:
        tasks = self.questions
        if not tasks:
            raise ValueError("`questions` is empty", "name a benchmark")
        if len(tasks) > 1 and any(task.benchmark == IMPORTED for task in tasks):
            raise ValueError("imported questions are one task", "name the benchmarks alone")
        if len({task.subset for task in tasks}) > 1:
            raise ValueError("`subset` differs between tasks", "give all of them the same")
        if len({task.weight is None for task in tasks}) > 1:
            raise ValueError("some tasks have a `weight`", "give one to every task, or to none")
        return self

    @model_validator(mode="after")
    def _check_asked(self) -> Self:
        if not (self.policies or self.pairs):
            raise ValueError(
                "`policies` is empty and there are no `pairs`",
                "name a policy, or the pairs of a reward benchmark",
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _questions_of_policies(cls, data: Any) -> Any:
        """Take the questions from the policies if all are imported, or if there are none."""
        policies = data.get("policies") if isinstance(data, Mapping) else None
        if not isinstance(policies, list | tuple):
            return data
        if not all(isinstance(card, Mapping) and card.keys() & IMPORTS for card in policies):
            return data
        questions = data.get("questions") or {}
        if not isinstance(questions, Mapping) or "benchmark" in questions:
            return data
        return {**data, "questions": {"benchmark": IMPORTED, **questions}}
