"""An endpoint's model whose requests go into files and whose answers come from files.

Every request has a key of its content and of the seeds that it is drawn with, so an answer is
found whatever the order, and asking twice asks once.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from bon.core.keys import content_key
from bon.engines.endpoints.endpoint import Book, EndpointError
from bon.engines.endpoints.openai import OpenAIEngine
from bon.engines.settings import OpenAISettings, TokenPrice

Body = dict[str, Any]


class UnansweredError(RuntimeError):
    """The answer to this request is not there yet."""


class Answer(NamedTuple):
    """A completion as the endpoint gave it, or why there is none."""

    body: Body | None
    error: str = ""


class DeferredEngine(OpenAIEngine):
    """One model of one endpoint, whose requests are files.

    `unanswered` collects, by key, the requests that have no answer yet. `share` of the price is
    paid: endpoints take less for what they may answer a day later.
    """

    def __init__(
        self, settings: OpenAISettings, answers: Mapping[str, Answer], share: float
    ) -> None:
        price = (settings.price or TokenPrice()).model_dump()
        paid = TokenPrice(**{name: dollars * share for name, dollars in price.items()})
        changed = {"api_key_env": None, "price": paid, "spending_cap": None}
        super().__init__(settings.model_copy(update=changed))
        # A batch holds completions: everything else is refused.
        self.can = self.can.model_copy(update={"prompt_logprobs": False, "classify": False})
        self._answers = answers
        self.price = paid
        self.unanswered: dict[str, Body] = {}

    async def _send(self, body: Body, seeds: tuple[int, ...], book: Book) -> Body:
        key = content_key("request", self._endpoint.url, body, list(seeds))
        answer = self._answers.get(key)
        if answer is None:
            self.unanswered[key] = body
            raise UnansweredError(key)
        if answer.body is None:
            raise EndpointError(answer.error)
        book(answer.body)
        return answer.body
