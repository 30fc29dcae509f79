"""What flows through a run: small frozen types, no logic.

`seconds` is the worker's time that fell to a row; what is in flight together shares it. `cost`
is in US dollars.

Every record is picklable and crosses Ray and SQLite as it is. Those that a run makes by the hundred
thousand are tuples, which Python makes in a tenth of the time of a frozen dataclass. `key` fields
are content hashes (bon.core.keys); `id` fields are the labels of the dataset and may repeat.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeVar

T = TypeVar("T")
RowT = TypeVar("RowT", "Candidate", "Judgement")

PairOutcome = Literal["first", "second", "tie", "unparsed", "error"]
"""What a pairwise judgement said, in the order shown."""

JudgementOutcome = Literal["first", "second", "tie", "scored", "chosen", "unparsed", "error"]
"""A pairwise outcome, `scored` for a number, `chosen` for a listwise pick."""

AnswerOutcome = Literal["parsed", "unparsed", "error"]
"""How reading the answer letter of a candidate went."""


def travels(record: type[T]) -> type[T]:
    """A dataclass that is pickled as the tuple of its fields: Python's own way asks for each."""
    names = [one.name for one in fields(record)]  # type: ignore[arg-type]
    values: Callable[[T], Any] = attrgetter(*names)
    assert len(names) > 1

    def reduced(self: T) -> tuple[type[T], tuple[Any, ...]]:
        return record, values(self)

    record.__reduce__ = reduced  # type: ignore[method-assign,assignment]
    return record


def columns_of(rows: Sequence[RowT]) -> tuple[tuple[Any, ...], ...]:
    """Rows as a column per field: pickled in a third of the time."""
    return tuple(zip(*rows, strict=True))


def rows_of(record: type[RowT], columns: Sequence[Sequence[Any]]) -> tuple[RowT, ...]:
    """The rows of such columns."""
    return tuple(map(record._make, zip(*columns, strict=True)))


@dataclass(frozen=True, slots=True)
class ImageRef:
    """An image file, named by the SHA-256 of its bytes."""

    sha256: str
    path: str


@dataclass(frozen=True, slots=True)
class Question:
    """One multiple-choice question. `text` may hold `<image i>`, meaning `images[i - 1]`."""

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


@dataclass(frozen=True, slots=True)
class PreferencePair:
    """One item of a reward benchmark: a prompt and two responses, of which one is better.

    An image that stands within the prompt or a response is there as its mark
    (`bon.core.images.image_mark`); the others belong to the prompt as a whole.
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


@travels
@dataclass(frozen=True, slots=True)
class Effort:
    """What work took a worker, in seconds, and what its engine says of the prompts that it read.

    `busy` with it, `waited` for it without any other, and `loading` its model. `read` are tokens of
    prompts of which the engine says how many it still had of earlier ones, and `cached` are these.
    """

    busy: float = 0.0
    waited: float = 0.0
    loading: float = 0.0
    read: int = 0
    cached: int = 0


class Candidate(NamedTuple):
    """One sampled answer. `logprob` is the sum over its tokens, under the sampled policy."""

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

    `item` is a question key (`item_kind` "question") or a pair key ("pair"). `first` and
    `second` are text keys of the responses in the order shown; a pointwise judgement has
    no second. A listwise judgement names its responses in `shown`. `error` says why there is
    no reading (outcomes `error` and `unparsed`), or what to beware of in one that there is.
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
