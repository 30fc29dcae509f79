"""Frozen records that flow through a run.

`seconds` is a row's share of the worker's time, `cost` is in US dollars, `key` is a content hash
(bon.core.keys), `id` a label of the dataset that may repeat. Records made by the hundred thousand
are named tuples, which are created ten times faster than frozen dataclasses.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from bon.core.errors import BonError
from bon.core.keys import content_key

JudgementOutcome = Literal["first", "second", "tie", "scored", "chosen", "unparsed", "error"]
"""A pairwise outcome in the order shown, `scored` for a number, `chosen` for a listwise pick."""

RIGHT_FROM = 0.5
"""Credit from which an answer is right, where only right and wrong are told apart."""

BASELINES = ("random", "first", "majority", "longest", "logprob", "oracle")
"""Names of what needs no rewarder; results list them among the rewarders."""

BY_MODEL = "llm"
GIVEN = "given"
"""Grader of responses whose file says which are right, and no right answer."""
"""The grader that is a model, whose grades are judgements of the run, by text key in `meta`; and
the extractor that asks one for what rules leave unread."""

LMMS_EVAL = "lmms_eval:"
"""Begins the names of lmms-eval's tasks, which are benchmarks and grade whole responses."""


def check_rewarder_name(name: str) -> None:
    """Raise BonError for a rewarder with the name of a baseline."""
    if name in BASELINES:
        raise BonError(
            f"a rewarder is named {name!r}, as is a baseline that is always computed",
            "give it another name, or leave it out if it is that baseline",
        )


AnswerOutcome = Literal["parsed", "unparsed", "error"]
"""Outcome of extracting a candidate's answer."""


@dataclass(frozen=True, slots=True)
class ImageRef:
    """An image file named by the SHA-256 of its bytes."""

    sha256: str
    path: str


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `text` may hold `<image i>`, meaning `images[i - 1]`.

    answer: the letter of the right option, or the right answer of a question without options, whose
    `meta` may have a grader (bon.graders), aliases, tolerance, unit and `rubric`, whether the
    answer is one, for a model that grades.
    """

    key: str
    id: str
    dataset: str
    text: str
    options: tuple[str, ...]
    answer: str | None
    images: tuple[ImageRef, ...] = ()
    subject: str = ""
    difficulty: str = ""
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def grader(self) -> str:
        """The grader of its answers; empty for letters."""
        return str(self.meta.get("grader", ""))

    @property
    def graded_whole(self) -> bool:
        """Whether whole responses are graded, with or without a final answer."""
        return self.grader in (BY_MODEL, GIVEN) or self.grader.startswith(LMMS_EVAL)

    @property
    def grading_key(self) -> str:
        """The item of a model's grades, which depend on the right answers."""
        gold = [self.meta.get(name) for name in ("aliases", "tolerance", "unit")]
        return content_key("grade", self.key, self.answer, *gold)


@dataclass(frozen=True, slots=True)
class PreferencePair:
    """One item of a reward benchmark: a prompt and two responses, one of them preferred.

    Images inside a text are marked there (`bon.core.images.image_mark`).
    """

    key: str
    id: str
    dataset: str
    prompt: str
    responses: tuple[str, str]
    preferred: Literal[0, 1]
    images: tuple[ImageRef, ...] = ()
    group: str = ""
    tag: str = ""
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Effort:
    """A worker's seconds (working, idle, loading the model) and prompt tokens (read, cached)."""

    busy: float = 0.0
    waited: float = 0.0
    loading: float = 0.0
    read: int = 0
    cached: int = 0


class Candidate(NamedTuple):
    """One sampled answer; `logprob` is the sum over its tokens under the policy."""

    key: str
    question: str
    policy: str
    spec: str
    index: int  # type: ignore[assignment]  # hides the method of tuples
    text: str
    text_key: str
    answer: str | None
    outcome: AnswerOutcome
    seed: int
    logprob: float | None = None
    num_tokens: int = 0
    num_prompt_tokens: int = 0
    finish: str = ""
    seconds: float = 0.0
    cost: float = 0.0
    error: str = ""


class Judgement(NamedTuple):
    """One raw verdict or score.

    `item` is the key of a question or pair. `first` and `second` are text keys in the order shown;
    pointwise judgements have no second, listwise ones list all in `shown`. `error` explains the
    outcomes `error` and `unparsed`, or a caveat of a parsed reply.
    """

    key: str
    rewarder: str
    spec: str
    item_kind: Literal["question", "pair"]
    item: str
    first: str
    second: str | None
    vote: int
    outcome: JudgementOutcome
    score: float | None = None
    text: str = ""
    shown: tuple[str, ...] = ()
    prompt_hash: str = ""
    num_tokens: int = 0
    num_prompt_tokens: int = 0
    seconds: float = 0.0
    cost: float = 0.0
    error: str = ""
