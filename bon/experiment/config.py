"""The experiment file and the cards it names, as models.

An unknown key is an error that names the nearest known one. Cards and experiments are merged
and validated before anything is loaded or computed. What a model expects is said in its types,
bounds, descriptions and examples: bon.experiment.refusals makes its refusals of them.
"""

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from bon.core import patterns
from bon.core.errors import BonError, shown
from bon.core.sampling import Sampling
from bon.engines.settings import settings_of


class Strict(BaseModel):
    """Base of every model here: unknown keys and infinite numbers are refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False
    )


class UpstreamPrompt(Strict):
    """A published prompt that is fetched on the user's machine and never shipped."""

    upstream: str


class FilePrompt(Strict):
    """A prompt of the user's: a path, relative to the file that names it."""

    file: str


class InlinePrompt(Strict):
    """A prompt written in the card itself."""

    text: str


PromptRef = str | UpstreamPrompt | FilePrompt | InlinePrompt


class Placement(Strict):
    """Where a model runs. Models of one `group` share its actors; each loads on first use."""

    group: str = ""
    actors: int = Field(1, ge=1)
    gpus: float = Field(0, ge=0)
    cpus: float = Field(1, ge=0)
    runtime_env: dict[str, Any] = Field(default_factory=dict)


class Price(Strict):
    """Money per million tokens, in US dollars."""

    input_per_million: float = Field(ge=0)
    output_per_million: float = Field(ge=0)


def _one_or_many(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


class Elsewhere(Strict):
    """Files or a run directory that hold what a model said: it is not asked again.

    `of` is its name there, where there are several; `policy` is whose candidates scores are about.
    """

    files: Annotated[tuple[str, ...], BeforeValidator(_one_or_many)] = Field(
        min_length=1, examples=["answers.jsonl"]
    )
    format: str = ""
    columns: dict[str, str] = Field(default_factory=dict)
    of: str = ""
    policy: str = ""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        """`from: FILE` and `from: [FILE, FILE]` say the files alone."""
        if isinstance(data, str | list):
            return {"files": data}
        return data


IMPORTED = "imported"
"""The questions of an experiment that names none: those of what its policies are read from.

Also what the model of a card begins with whose outputs were brought.
"""


class Card(Strict):
    """What policies and rewarders have in common: which model, how it is run and under what."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,99}$",
        description="up to 100 letters, digits and . _ + -, the first a letter or a digit",
        examples=["my-judge"],
    )
    title: str = ""
    model: str = ""
    revision: str | None = None
    licence: str = "not stated"
    citation: str = Field("", description="BibTeX of what to cite for the model")
    family: str = ""
    size: float | None = Field(None, description="parameters")
    engine: str = "transformers"
    engine_args: dict[str, Any] = Field(default_factory=dict)
    images: Literal["first", "interleaved", "last"] = "first"
    placement: Placement = Placement()
    cost: Price | str = ""
    retires: date | None = Field(
        None,
        description="the day from which its vendor no longer serves it",
        examples=["2027-01-14"],
    )
    tested: str = ""
    notes: str = ""
    elsewhere: Elsewhere | None = Field(None, alias="from")

    @property
    def brought(self) -> bool:
        """Whether what it said was brought along: it is never asked."""
        return self.engine == "none" and self.model.startswith(f"{IMPORTED}:")

    @field_validator("engine")
    @classmethod
    def _known(cls, value: str) -> str:
        try:
            settings_of(value)
        except BonError as error:
            raise ValueError(error.message, error.fix) from None
        return value


class PolicyCard(Card):
    """A vision-language model that answers questions."""

    role: Literal["policy"] = "policy"
    prompt: PromptRef = "cot"
    reader: Literal["official", "strict"] = "official"
    sampling: Sampling = Sampling()
    n: int = Field(8, ge=1, le=4096)


Reader = Literal["strict", "published"]
"""How a rule's matches become one reading: guarded (bon.rewarders.strict), or the last one."""


class VerdictRule(Strict):
    """How a generated reply becomes a verdict: a regular expression (RE2) with one group.

    `first`, `second` and `tie` list what the group may say for each; anything else is
    `unparsed`. The `strict` reader asks for one verdict that is meant: not negated, quoted,
    contradicted or cut off. The `published` one takes the last match, whatever is around it,
    after the `delete` characters are removed, as the scripts of publications do.
    """

    pattern: str = Field(examples=["Answer ([12]) is better"])
    reader: Reader = "strict"
    first: tuple[str, ...] = ("1",)
    second: tuple[str, ...] = ("2",)
    tie: tuple[str, ...] = ()
    delete: str = ""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        return _checked_pattern(value)

    @model_validator(mode="after")
    def _can_say_either(self) -> Self:
        for name in ("first", "second"):
            if not getattr(self, name):
                raise ValueError(
                    f"`{name}` lists nothing", f"list the words that say it: `{name}: [A]`"
                )
        _apart(first=self.first, second=self.second, tie=self.tie)
        return self


class ScoreRule(Strict):
    """How a generated reply becomes a number.

    Either `pattern` with one group (a number, or a word in `values`), read by `reader` as a
    verdict is, or `yes`/`no`: the score is P(yes) / (P(yes) + P(no)) from the
    log-probabilities at the verdict token, the last generated token that is one of them.
    """

    pattern: str = Field("", examples=["Score: ([0-9.]+)"])
    reader: Reader = "strict"
    values: dict[str, float] = Field(default_factory=dict)
    range: tuple[float, float] | None = Field(None, examples=[[0, 10]])
    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()
    delete: str = ""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        return _checked_pattern(value) if value else value

    @model_validator(mode="after")
    def _can_score(self) -> Self:
        if bool(self.yes) != bool(self.no):
            there, missing = ("yes", "no") if self.yes else ("no", "yes")
            raise ValueError(
                f"`{there}` without `{missing}`: the score is P(yes) / (P(yes) + P(no))",
                f"add the other word: `{missing}: [{missing.capitalize()}]`",
            )
        if not self.pattern and not self.yes:
            raise ValueError(
                "says neither what to search for nor which words to weigh",
                "give `pattern: 'Score: ([0-9.]+)'`, or `yes: [Yes]` and `no: [No]`",
            )
        _apart(yes=self.yes, no=self.no)
        if self.range is not None and not self.range[0] < self.range[1]:
            low, high = self.range
            raise ValueError(
                f"`range: [{low:g}, {high:g}]` is empty", "write the lower end first: `[0, 10]`"
            )
        return self


Kind = Literal[
    "pairwise",
    "pointwise",
    "scalar",
    "likelihood",
    "listwise",
    "stepwise",
    "rerank",
    "ensemble",
    "python",
]


Aggregate = Literal["mean", "min", "product", "last", "geometric"]
"""How the scores of a response's steps become one."""


class KnownScores(Strict):
    """Scores that the model is known to give, for `bon doctor --rewarder`.

    Images lie beside the card.
    """

    prompt: str = Field(min_length=1, examples=["What is shown?"])
    responses: tuple[str, ...] = Field(min_length=1, examples=[["A cat.", "A dog."]])
    scores: tuple[float, ...] = Field(min_length=1, examples=[[1.5, -0.25]])
    images: tuple[str, ...] = ()
    tolerance: float = Field(0.02, gt=0)

    @model_validator(mode="after")
    def _as_many(self) -> Self:
        if len(self.scores) != len(self.responses):
            raise ValueError(
                f"{len(self.scores)} scores of {len(self.responses)} responses",
                "give one score per response, in the same order",
            )
        return self


class RewarderCard(Card):
    """Anything that can choose among responses."""

    role: Literal["rewarder"] = "rewarder"
    kind: Kind = Field(examples=["scalar"])
    prompt: PromptRef = ""
    system: PromptRef = Field("", description="the system turn before it; none unless named")
    verdict: VerdictRule | None = None
    score: ScoreRule | None = None
    image_filter: str = Field(
        "none",
        pattern=r"^(none|drop|gray|blur:\d{1,4}(\.\d{1,4})?)$",
        description="none, drop, gray or blur:PIXELS",
        examples=["blur:8"],
    )
    sampling: Sampling = Sampling(temperature=0.0)
    votes: int = Field(1, ge=1, le=101)
    orders: Literal["both", "random"] = "both"
    aggregate: Aggregate = "mean"
    window: int = Field(8, ge=2, le=64)
    step_separator: str = "\n\n"
    members: tuple[str, ...] = ()
    before: str = Field("", description="the rewarder that this model was before it was trained")
    python: str = Field("", description="module:Class of a rewarder of the user's own")
    options: dict[str, Any] = Field(default_factory=dict)
    check: tuple[KnownScores, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _without_dead_keys(cls, data: Any) -> Any:
        """`score_range`, a key of 0.1 that nothing read, is passed over: old cards still open."""
        if isinstance(data, Mapping):
            return {key: value for key, value in data.items() if key != "score_range"}
        return data

    @model_validator(mode="after")
    def _earlier(self) -> "RewarderCard":
        if self.before and self.before == self.name:
            raise ValueError(f"before: {self.before!r} is itself: name the untrained rewarder")
        return self

    @field_validator("options")
    @classmethod
    def _max_steps(cls, value: dict[str, Any]) -> dict[str, Any]:
        most = value.get("max_steps", 1)
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise ValueError(
                f"max_steps is {shown(most)}, not 1 or more",
                "for example `options: {max_steps: 20}`",
            )
        return value

    @property
    def stored_rule(self) -> VerdictRule | ScoreRule | None:
        """The rule by which stored replies can be read again, where there is one.

        P(yes) and the steps of a process reward model are read from log-probabilities and from
        several replies, which a run does not keep.
        """
        if self.kind == "pairwise":
            return self.verdict
        whole = self.kind in ("pointwise", "listwise") and self.score and not self.score.yes
        return self.score if whole else None


class DatasetSpec(Strict):
    """Which benchmark, from where. A `path` is relative to the file that names it."""

    benchmark: str = Field(examples=["mmmu_pro"])
    path: str | None = None
    hub: str | None = None
    revision: str | None = None
    config: str | None = None
    split: str | None = None
    limit: int | None = Field(None, ge=1)
    columns: dict[str, str] = Field(default_factory=dict)
    name: str = ""


class QuestionsSpec(DatasetSpec):
    """A downstream task; `subset`: the seeded share of its questions that rewarders judge."""

    subset: float = Field(1.0, gt=0, le=1, description="share of the questions that is judged")


class PairsSpec(DatasetSpec):
    """A reward benchmark. `votes` asks for more votes here than on the candidates."""

    votes: int | None = Field(None, ge=1, le=101)


class Race(Strict):
    """When a race stops, how many comparisons it asks for at once, and what it judges in full."""

    stop: Literal["correct", "answer", "text"] = Field(
        "correct", alias="class", description="a race and a knockout stop when this is certain"
    )
    pairs: int = Field(4, ge=1)
    complete: float = Field(0.1, ge=0, le=1, description="share of questions judged in full")
    lead: float | None = Field(
        None,
        ge=1.5,
        le=10,
        description="stop a race early when the projected winner leads by so many standard errors",
        examples=[2],
    )
    audit: float = Field(
        0.08, gt=0, le=1, description="share of questions that are not stopped early"
    )


class Judging(Strict):
    """Which comparisons are made. Only what was judged can be replayed."""

    design: Literal["all_pairs", "race", "knockout", "swiss", "pivot"] = "all_pairs"
    race: Race = Field(default_factory=lambda: Race.model_validate({}))
    skip_constant: bool = Field(
        True, description="do not judge questions whose candidates are all right or all wrong"
    )
    judge_unanimous: bool = Field(False, description="judge every question, whatever is chosen")
    decide: Literal["best", "beats-majority"] | None = Field(
        None, description="judge each rewarder only until that is settled of it"
    )
    looks: int = Field(10, ge=1, le=50, description="how often `decide` looks on the way")
    repeat_check: int = Field(
        0, ge=0, description="judged items of which each rewarder is asked one judgement again"
    )

    @property
    def skips(self) -> Literal["constant", "unanimous", "nothing"]:
        """Which questions are not judged: whose outcome, or answer, is the same for all."""
        if self.judge_unanimous:
            return "nothing"
        return "constant" if self.skip_constant else "unanimous"

    @model_validator(mode="after")
    def _one_says_it(self) -> Self:
        if self.judge_unanimous and self.skip_constant and "skip_constant" in self.model_fields_set:
            raise ValueError(
                "`judge_unanimous` judges every question and `skip_constant` does not",
                "leave one of them out",
            )
        return self


class AnalysisConfig(Strict):
    """How the tables become numbers."""

    n: int | None = Field(None, ge=1, description="headline n; as many as the pool holds")
    axis: str = Field(
        "macro",
        pattern="^(macro|overall|natural|group:.+)$",
        description="macro, overall, group:NAME, a group of the reward benchmark, or natural, the "
        "pool that its weighted pairs were drawn from",
    )
    rules: tuple[str, ...] = ()
    target_r: float | None = Field(None, gt=0, lt=1)
    ties: Literal["half", "wrong", "drop"] = "half"
    bootstrap: int = Field(2000, ge=100, le=1_000_000)
    confidence: float = Field(0.95, gt=0.5, lt=1)
    unparsed: Literal["wrong", "drop", "chance"] = "wrong"
    aggregate: Aggregate | None = Field(
        None, description="of all process scores, whatever their cards say"
    )
    covariates: bool = Field(
        True, description="let what is known without a judge sharpen what a sample is judged for"
    )


class ClusterConfig(Strict):
    """How work is dispatched. `in_flight` bounds the batches an actor holds at once.

    `batch` is the size of all of them; None lets them grow while items are quick and shrink
    toward the end.
    """

    address: str | None = None
    batch: int | None = Field(None, ge=1)
    in_flight: int = Field(2, ge=1)
    retries: int = Field(2, ge=0)
    timeout_seconds: float = Field(1800, gt=0)
    max_error_share: float = Field(0.2, gt=0, le=1)
    spending_cap: float | None = Field(None, gt=0, description="US dollars")


CardRef = str | dict[str, Any]


class Experiment(Strict):
    """One experiment, as its YAML file says it."""

    name: str = Field(
        "experiment",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._+ -]{0,99}$",
        description="up to 100 letters, digits, spaces and . _ + -, the first a letter or a digit",
    )
    description: str = ""
    seed: int = Field(0, ge=0)
    questions: QuestionsSpec
    pairs: Annotated[tuple[PairsSpec, ...], BeforeValidator(_one_or_many)] = ()
    policies: tuple[CardRef, ...] = Field(min_length=1, examples=[["qwen2.5-vl-7b"]])
    rewarders: tuple[CardRef, ...] = Field((), examples=[["qwen2.5-vl-7b-judge"]])
    judging: Judging = Judging()
    analysis: AnalysisConfig = AnalysisConfig()
    cluster: ClusterConfig = ClusterConfig()
    allow_remote_code: bool = False

    @model_validator(mode="after")
    def _one_sample(self) -> Self:
        if self.questions.subset < 1 and self.judging.race.lead is not None:
            raise ValueError(
                "`questions.subset` and `judging.race.lead` both estimate from a part",
                "leave out `judging.race.lead`",
            )
        return self

    @model_validator(mode="after")
    def _looks_at_plain_values(self) -> Self:
        if self.judging.decide is not None:
            race = self.judging.design == "race" and self.judging.race.lead is not None
            if self.questions.subset < 1 or race:
                what = "judging.race.lead" if race else "questions.subset"
                raise ValueError(
                    f"`judging.decide` looks at what is known, and `{what}` estimates",
                    "leave one of them out",
                )
        return self

    @model_validator(mode="before")
    @classmethod
    def _questions_come_with_policies(cls, data: Any) -> Any:
        """Where every policy is read `from` somewhere, the questions are those it answers."""
        policies = data.get("policies") if isinstance(data, Mapping) else None
        if not (isinstance(policies, list | tuple) and policies):
            return data
        if not all(isinstance(one, Mapping) and "from" in one for one in policies):
            return data
        questions = data.get("questions") or {}
        known = isinstance(questions, Mapping) and "benchmark" not in questions
        return {**data, "questions": {"benchmark": IMPORTED, **questions}} if known else data


def _apart(**words: tuple[str, ...]) -> None:
    """No word may say two things."""
    names = list(words)
    for at, name in enumerate(names):
        for other in names[at + 1 :]:
            for word in set(words[name]) & set(words[other]):
                raise ValueError(f"{word!r} is in both `{name}` and `{other}`", "keep it in one")


def _checked_pattern(value: str) -> str:
    patterns.checked(value)
    return value
