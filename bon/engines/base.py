"""The engine interface: requests, results and the abstract `Engine`.

An engine is one loaded model, or one model of an endpoint. Its methods are coroutines for one
request each; the engine batches whatever is in flight. Failures are raised, and the worker records
them as errors of the item, but EngineDied and lost connections: the model is loaded again, in
another process, and its items are sent again. An endpoint's transient refusals (429, 5xx) are
retried inside it.
"""

from abc import ABC
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from bon.core.errors import BonError, EngineDied, Unsupported, engine_died
from bon.core.sampling import Sampling
from bon.engines.settings import NoSettings

RowT = TypeVar("RowT")


@dataclass(frozen=True)  # no slots: they pickle in twice the time
class ImagePart:
    """An encoded image (PNG, JPEG, ...) and the SHA-256 of its bytes."""

    sha256: str
    data: bytes = field(repr=False)


Part = str | ImagePart


@dataclass(frozen=True)  # no slots: they pickle in twice the time
class Message:
    """One turn of a conversation; parts in the order in which the model reads them."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """Sample `len(seeds)` completions, the i-th drawn with `seeds[i]` alone.

    Consecutive seeds let vLLM and its server take all samples as one request. `logprobs` is the
    number of alternatives per generated position. `choices` are the verdicts that the parser
    knows, such as ("1", "2"), for the model-free echo engine.
    """

    messages: tuple[Message, ...]
    sampling: Sampling
    seeds: tuple[int, ...]
    logprobs: int = 0
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A generated token, its natural log-probability before temperature, and alternatives."""

    token: str
    logprob: float
    top: dict[str, float] = field(default_factory=dict)


Finish = Literal["stop", "length", "error", "content_filter", "refusal"]


class Sample(NamedTuple):
    """One completion.

    `logprob` sums over its tokens and `num_tokens` counts them, the end-of-turn token included;
    `tokens` are those of the text, without it. `reasoning` is what a thinking model wrote before
    its answer, `text`, which is empty if it never came to one.
    """

    text: str
    num_tokens: int
    logprob: float | None = None
    tokens: tuple[TokenLogprob, ...] = ()
    finish: Finish = "stop"
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Generation:
    """The completions of one request, in the order of its seeds; `cost` in US dollars."""

    samples: tuple[Sample, ...]
    num_prompt_tokens: int
    cost: float = 0.0


class PartialGeneration(Exception):  # noqa: N818 - a part of a result, and why there is no more
    """Some of the samples of a request: those of `seeds`; `cause` says why the others are missing.

    Asking again for these seeds alone gives the samples, and they are not bought again.
    """

    def __init__(self, seeds: tuple[int, ...], cause: Exception) -> None:
        super().__init__(f"{len(seeds)} samples came: {cause}")
        self.seeds = seeds
        self.cause = cause


def runs_of(seeds: Sequence[int]) -> list[tuple[int, ...]]:
    """Split seeds into runs of consecutive numbers, which a server can draw as one request."""
    runs: list[tuple[int, ...]] = []
    for seed in seeds:
        follows = bool(runs) and seed == runs[-1][-1] + 1
        runs.append((*runs.pop(), seed) if follows else (seed,))
    return runs


async def call_for_all(
    call: Callable[[tuple[int, ...]], Awaitable[list[RowT]]], seeds: tuple[int, ...], retries: int
) -> tuple[list[RowT], tuple[int, ...], Exception | None]:
    """Call an engine until there are rows for all seeds, at most `retries` times more.

    Returns the rows, the seeds without and why. A BonError is raised, with the rows so far, and an
    EngineDied for what is no item's fault.
    """
    rows: list[RowT] = []
    failure: Exception | None = None
    died: EngineDied | None = None
    for _ in range(retries + 1):
        try:
            return rows + await call(seeds), (), None
        except PartialGeneration as partial:
            failure = partial.cause
            try:  # these samples are paid for: a request for their seeds alone returns them
                rows += await call(tuple(sorted(partial.seeds)))
                seeds = tuple(seed for seed in seeds if seed not in partial.seeds)
            except Exception as error:
                failure = failure if isinstance(failure, BonError) else error
        except Exception as error:
            failure = error
        if isinstance(failure, BonError):
            failure.rows = tuple(rows)
            raise failure
        if getattr(failure, "final", False):  # paid for, and no other try would be free
            break
        died = died or engine_died(failure)
    if died is not None:  # what the attempts after it say is of no interest
        died.rows = tuple(rows)
        raise died
    return rows, seeds, failure


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """A conversation whose last message is the assistant's response to be scored."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class RankRequest:
    """A query and one document for a reranker.

    `template` is the model's own layout: jinja over `instruction`, `query` and `document`. It is
    empty where vLLM's class of the model has one; a server has its own.
    """

    query: tuple[Part, ...]
    document: tuple[Part, ...]
    instruction: str = ""
    template: str = ""


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Summed natural log-probability of a response's tokens, end-of-turn token included."""

    logprob: float
    num_tokens: int
    num_prompt_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reward:
    """A raw scalar reward (no activation applied) and the number of tokens read."""

    score: float
    num_prompt_tokens: int = 0


class Engine(ABC):
    """One loaded model. Subclasses implement what they can; the rest raises Unsupported.

    The only argument of the constructor is the settings, of the type in the engine's entry.
    """

    name: ClassVar[str]

    async def generate(self, request: GenerateRequest) -> Generation:
        """Sample completions."""
        raise Unsupported(f"engine {self.name!r} cannot generate")

    async def likelihood(self, request: ScoreRequest) -> Likelihood:
        """Return the log-probability of the last assistant message."""
        raise Unsupported(f"engine {self.name!r} gives no likelihood of a given text")

    async def reward(self, request: ScoreRequest) -> Reward:
        """Return the scalar reward of the last assistant message."""
        raise Unsupported(f"engine {self.name!r} has no reward head")

    async def rank(self, request: RankRequest) -> Reward:
        """Return the raw relevance score of a document for a query."""
        raise Unsupported(f"engine {self.name!r} runs no rerankers", "use engine: vllm or openai")

    def info(self) -> dict[str, Any]:
        """Return versions, device and flags: what is needed to repeat the run."""
        return {"engine": self.name}

    def waits_for(self) -> str:
        """Return what the engine waits for, if it is long enough to be worth saying."""
        return ""

    async def close(self) -> None:
        """Free the model."""
        return None


class NoEngine(Engine):
    """For rewarders of kind `python` that load a model of their own: passes them the card's."""

    name = "none"

    def __init__(self, settings: NoSettings) -> None:
        self._settings = settings

    def info(self) -> dict[str, Any]:
        """Return the card's model; its rewarder decides what it loads."""
        return {"engine": self.name, **self._settings.model_dump()}
