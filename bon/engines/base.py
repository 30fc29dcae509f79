"""What an engine is asked and what it gives back.

An engine is one loaded model (or one model of an endpoint). Its methods are coroutines for one
request each; the engine itself batches whatever is in flight. It never hides a failure: it raises,
and the worker records the item as an error. Only an endpoint's passing refusals (429, 5xx) are
tried again inside it, because they say when.
"""

from abc import ABC
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from bon.core.errors import Unsupported
from bon.core.records import travels
from bon.core.sampling import Sampling
from bon.engines.fields import EngineSettings


@travels
@dataclass(frozen=True, slots=True)
class ImagePart:
    """An encoded image (PNG, JPEG, ...) named by the SHA-256 of its bytes."""

    sha256: str
    data: bytes = field(repr=False)


Part = str | ImagePart


@travels
@dataclass(frozen=True, slots=True)
class Message:
    """One turn; parts in the order in which the model sees them."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """Sample `len(seeds)` completions, the i-th drawn with `seeds[i]` alone.

    Consecutive seeds let vLLM and its server take all samples as one request.
    `logprobs` > 0 asks for that many alternatives at every generated position. `choices`
    (the verdicts the reader knows, such as ("1", "2")) and `expected` (the right one) are
    for the model-free echo engine; every other engine ignores `expected`.
    """

    messages: tuple[Message, ...]
    sampling: Sampling
    seeds: tuple[int, ...]
    logprobs: int = 0
    choices: tuple[str, ...] = ()
    expected: str | None = None


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One generated token, its natural log-probability before temperature, and alternatives."""

    token: str
    logprob: float
    top: dict[str, float] = field(default_factory=dict)


class Sample(NamedTuple):
    """One completion.

    `logprob` sums over its tokens and `num_tokens` counts them, the end-of-turn token included;
    `tokens` are those of the text, without it.
    """

    text: str
    num_tokens: int
    logprob: float | None = None
    tokens: tuple[TokenLogprob, ...] = ()
    finish: Literal["stop", "length", "error"] = "stop"


@dataclass(frozen=True, slots=True)
class Generation:
    """The completions of one request, in the order of its seeds."""

    samples: tuple[Sample, ...]
    num_prompt_tokens: int
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """A whole conversation whose last message is the assistant's response to be scored."""

    messages: tuple[Message, ...]
    expected: bool | None = None


@dataclass(frozen=True, slots=True)
class RankRequest:
    """A query and one document, for a model that says how well the document meets the query.

    `template` writes both as the model reads them: jinja over `instruction`, `query` and
    `document`. Empty where the model's class in vLLM knows how; a server has its own.
    """

    query: tuple[Part, ...]
    document: tuple[Part, ...]
    instruction: str = ""
    template: str = ""
    expected: bool | None = None


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Summed natural log-probability of the response's tokens and how many they are.

    The end-of-turn token included, as in `Sample`.
    """

    logprob: float
    num_tokens: int
    num_prompt_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reward:
    """A raw scalar reward (no activation applied) and the length of what was read."""

    score: float
    num_prompt_tokens: int = 0


class Engine(ABC):
    """One loaded model. Subclasses implement what they can; the rest raises Unsupported."""

    name: ClassVar[str]
    settings: ClassVar[type[EngineSettings]] = EngineSettings
    """What it is built with: `cls(settings)`. An engine of another package says so here."""

    async def generate(self, request: GenerateRequest) -> Generation:
        """Sample completions."""
        raise Unsupported(f"engine {self.name!r} cannot generate")

    async def likelihood(self, request: ScoreRequest) -> Likelihood:
        """Log-probability of the last assistant message."""
        raise Unsupported(f"engine {self.name!r} gives no likelihood of a given text")

    async def reward(self, request: ScoreRequest) -> Reward:
        """Scalar reward of the last assistant message."""
        raise Unsupported(f"engine {self.name!r} has no reward head")

    async def rank(self, request: RankRequest) -> Reward:
        """Raw score of a document for a query."""
        raise Unsupported(f"engine {self.name!r} runs no rerankers", "use engine: vllm or openai")

    def info(self) -> dict[str, Any]:
        """Versions, device and flags: what a reader needs to repeat the run."""
        return {"engine": self.name}

    async def close(self) -> None:
        """Free the model."""
        return None
