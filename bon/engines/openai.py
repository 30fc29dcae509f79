"""Any OpenAI-compatible endpoint: a server of one's own, or a paid model.

Endpoints differ in what they can do. `endpoint` names what is known of one (taken from the host
when left out), `capabilities` corrects it. What one cannot do is done another way (n samples as n
requests) or refused; nothing asked for is silently dropped. Where an endpoint takes no seed or
promises nothing by it, `info()` says that samples cannot be drawn again.
"""

import asyncio
import base64
import io
import warnings
from functools import lru_cache
from typing import Any, ClassVar, Literal, NoReturn

import httpx

from bon.core.errors import BonError, Unsupported
from bon.core.images import open_image
from bon.core.sampling import Sampling
from bon.engines.base import (
    Engine,
    GenerateRequest,
    Generation,
    ImagePart,
    Likelihood,
    Message,
    RankRequest,
    Reward,
    Sample,
    ScoreRequest,
    TokenLogprob,
)
from bon.engines.capabilities import TokenPrice
from bon.engines.connections import DataUrl
from bon.engines.endpoint import AdaptiveLimit, Endpoint, EndpointError, Ledger
from bon.engines.metering import SALT, fresh
from bon.engines.settings import OpenAISettings

_IMAGE_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}


class OpenAIEngine(Engine):
    """One model of one endpoint."""

    name: ClassVar[str] = "openai"

    def __init__(self, settings: OpenAISettings) -> None:
        self._settings = settings
        self._model = settings.model
        self._answered_as: set[str] = set()
        self._kind, self.can = settings.kind, settings.can
        price = settings.price or TokenPrice()
        most = settings.max_concurrency
        self._endpoint = Endpoint(
            settings.base_url,
            settings.api_key_env,
            settings.timeout,
            settings.retries,
            AdaptiveLimit(min(settings.concurrency, most), settings.min_concurrency, most),
            Ledger(
                price.input_per_million,
                price.output_per_million,
                settings.spending_cap,
                settings.spent,
            ),
            wait=settings.retry_wait,
        )

    async def generate(self, request: GenerateRequest) -> Generation:
        """Sample completions, as one request or several, as the endpoint allows."""
        body = self._body(request)
        answers = await asyncio.gather(
            *(self._complete(body, seeds, request) for seeds in self._split(request))
        )
        samples = [sample for answer in answers for sample in answer.samples]
        if len(samples) == 1:
            samples *= len(request.seeds)
        return Generation(
            tuple(samples), answers[0].num_prompt_tokens, sum(answer.cost for answer in answers)
        )

    async def likelihood(self, request: ScoreRequest) -> Likelihood:
        """From the log-probabilities that vLLM gives of a prompt's tokens."""
        if not self.can.prompt_logprobs:
            self._refuse("gives no log-probabilities of a given text", "use a local engine")
        text = "".join(part for part in request.messages[-1].parts if isinstance(part, str))
        tokenized = await self._endpoint.post(
            self._above("/tokenize"),
            {"model": self._model, "prompt": text, "add_special_tokens": False},
        )
        answer = await self._endpoint.post(
            "/chat/completions",
            {
                "model": self._model,
                "messages": _messages(request.messages),
                "add_generation_prompt": False,
                "temperature": 0,
                "max_tokens": 1,
                "prompt_logprobs": 0,
            },
        )
        self._endpoint.ledger.add(answer.get("usage") or {})
        ids, values = _prompt_tokens(answer)
        start = _find(ids, [int(token) for token in tokenized["tokens"]])
        if start is None:
            raise EndpointError(f"{self._endpoint.host}: the response's tokens were not found")
        end = start + len(tokenized["tokens"]) + 1  # and the token that ends the turn
        return Likelihood(sum(values[start:end]), len(values[start:end]), start)

    async def reward(self, request: ScoreRequest) -> Reward:
        """From vLLM's /classify, raw."""
        if not self.can.classify:
            self._refuse("has no reward head", "use vllm serve --runner pooling, or a local engine")
        answer = await self._endpoint.post(
            self._above("/classify"),
            {
                "model": self._model,
                "messages": _messages(request.messages),
                "add_generation_prompt": False,
                "use_activation": False,
            },
        )
        self._endpoint.ledger.add(answer.get("usage") or {})
        scores = answer["data"][0]["probs"]
        if len(scores) != 1:
            raise EndpointError(
                f"{self._endpoint.host}: {len(scores)} scores where one is expected"
            )
        return Reward(float(scores[0]), int((answer.get("usage") or {}).get("prompt_tokens", 0)))

    async def rank(self, request: RankRequest) -> Reward:
        """From vLLM's /score, raw; the server's `--chat-template` writes the pair."""
        if not self.can.classify:
            self._refuse("runs no rerankers", "use vllm serve --runner pooling, or engine: vllm")
        told = {"instruction": request.instruction} if request.instruction else {}
        answer = await self._endpoint.post(
            self._above("/score"),
            {
                "model": self._model,
                "queries": {"content": [_part(part) for part in request.query]},
                "documents": {"content": [_part(part) for part in request.document]},
                "use_activation": False,
                **told,
            },
        )
        usage = answer.get("usage") or {}
        self._endpoint.ledger.add(usage)
        (scored,) = answer["data"]
        return Reward(float(scored["score"]), int(usage.get("prompt_tokens", 0)))

    def info(self) -> dict[str, Any]:
        """The endpoint, what it can do and what was spent; never the key."""
        seeds = {
            "none": "no: the endpoint takes no seed",
            "loose": "hardly: its seed guarantees nothing",
            "exact": "nearly: texts can differ when other requests share the server's batch",
        }
        return {
            "engine": self.name,
            "base_url": self._endpoint.url,
            "model": self._model,
            "endpoint": self._kind,
            "capabilities": self.can.model_dump(),
            "price": self._settings.price.model_dump() if self._settings.price else {},
            "response_format": self._settings.response_format,
            "extra_body": self._settings.extra_body,
            "answered_as": sorted(self._answered_as),
            "repeatable": seeds[self.can.seed],
            "ledger": self._endpoint.ledger.report(),
            "httpx": httpx.__version__,
        }

    async def close(self) -> None:
        """Close connections."""
        await self._endpoint.close()

    def _split(self, request: GenerateRequest) -> list[tuple[int, ...]]:
        """The seeds of each HTTP request."""
        seeds = request.seeds
        if request.sampling.temperature == 0 and self.can.seed == "exact":
            return [seeds[:1]]  # all samples would be the same one
        if not self.can.n:
            return [(seed,) for seed in seeds]
        if self.can.seed != "exact":
            return [seeds]  # the prompt is paid for once; the seed promises nothing anyway
        runs: list[tuple[int, ...]] = []
        for seed in seeds:
            if runs and seed == runs[-1][-1] + 1:
                runs[-1] += (seed,)
            else:
                runs.append((seed,))
        return runs

    def _body(self, request: GenerateRequest) -> dict[str, Any]:
        sampling = request.sampling
        self._check(sampling, request.logprobs)
        body: dict[str, Any] = {
            "model": self._model,
            "messages": _messages(request.messages),
            "temperature": sampling.temperature,
            self.can.max_tokens_field: sampling.max_tokens,
        }
        if self.can.both_cuts or sampling.top_p < 1:
            body["top_p"] = sampling.top_p
        if self.can.sampling_extras:
            # Left out, vLLM's server takes them from the checkpoint's generation_config.
            penalty = sampling.repetition_penalty
            body |= {"top_k": sampling.top_k, "min_p": 0.0, "repetition_penalty": penalty}
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if self.can.logprobs:
            body["logprobs"] = True
            if request.logprobs:
                body["top_logprobs"] = request.logprobs
        if self._settings.response_format is not None:
            body["response_format"] = self._settings.response_format
        return body | self._settings.extra_body

    def _check(self, sampling: Sampling, logprobs: int) -> None:
        can = self.can
        if sampling.temperature > can.max_temperature:
            self._refuse(
                f"takes temperatures up to {can.max_temperature:g}, not {sampling.temperature:g}",
                "lower the temperature",
            )
        if sampling.top_k and not can.sampling_extras:
            self._refuse("takes no top_k", "set top_k: 0, or capabilities.sampling_extras: true")
        if sampling.repetition_penalty != 1 and not can.sampling_extras:
            self._refuse(
                "takes no repetition_penalty",
                "set repetition_penalty: 1, or capabilities.sampling_extras: true",
            )
        if sampling.top_p < 1 and not can.both_cuts and sampling.temperature != 1:
            self._refuse(
                "does not take top_p together with a temperature", "set top_p: 1 or temperature: 1"
            )
        if logprobs and not can.logprobs:
            self._refuse(
                "gives no log-probabilities",
                "read the verdict from the text, or capabilities.logprobs: true if it does",
            )
        if logprobs > can.top_logprobs:
            self._refuse(
                f"gives up to {can.top_logprobs} alternatives, not {logprobs}",
                "ask for fewer, or correct capabilities.top_logprobs",
            )

    def _refuse(self, what: str, fix: str) -> NoReturn:
        raise Unsupported(f"endpoint {self._endpoint.host} ({self._kind}) {what}", fix)

    async def _complete(
        self, body: dict[str, Any], seeds: tuple[int, ...], request: GenerateRequest
    ) -> Generation:
        body = dict(body)
        if fresh() and self._kind == "vllm":  # the others cannot be told
            body["cache_salt"] = SALT
        if len(seeds) > 1:
            body["n"] = len(seeds)
        if self.can.seed != "none":
            body["seed"] = seeds[0]
        elif request.sampling.temperature > 0:
            _warn_unseeded(self._endpoint.host)
        answer = await self._send(body, seeds)
        usage = answer.get("usage") or {}
        cost = self._endpoint.ledger.add(usage)
        self._note_model(answer.get("model"))
        choices = answer.get("choices") or []
        if len(choices) != len(seeds):
            reason = answer.get("error") or f"{len(choices)} of {len(seeds)} samples came back"
            raise EndpointError(f"{self._endpoint.host}: {reason}")
        each = int(usage.get("completion_tokens") or 0) // len(choices)
        choices = sorted(choices, key=lambda choice: choice.get("index", 0))
        samples = tuple(_sample(choice, each, request.logprobs) for choice in choices)
        return Generation(samples, int(usage.get("prompt_tokens") or 0), cost)

    async def _send(self, body: dict[str, Any], seeds: tuple[int, ...]) -> dict[str, Any]:
        """The answer to one request, which is drawn with these seeds."""
        return await self._endpoint.post("/chat/completions", body)

    def _note_model(self, name: Any) -> None:
        """Remember who answered, and stop at another model than the one that was asked.

        Vendors route a retired model's requests to its successor, at another price. A dated name
        for an alias (`gpt-4o-2024-08-06` for `gpt-4o`) is the same model, and so is one with a
        provider's prefix.
        """
        if not isinstance(name, str) or not name or name in self._answered_as:
            return
        self._answered_as.add(name)
        asked, answered = (each.rstrip("/").rpartition("/")[2] for each in (self._model, name))
        served_as = self._settings.served_as
        if name == served_as or asked.startswith(answered) or answered.startswith(asked):
            return
        host = self._endpoint.host
        raise BonError(
            f"endpoint {host} was asked for {self._model!r} and answered as {name!r}",
            f"name that model on the card, or set engine_args.served_as: {name} if it is the same",
        )

    def _above(self, path: str) -> str:
        """A path beside /v1, where vLLM has its own endpoints."""
        return self._endpoint.url.removesuffix("/v1") + path


def _messages(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Text alone as a string (some endpoints take system text in no other way), else parts."""
    return [
        {
            "role": message.role,
            "content": "".join(part for part in message.parts if isinstance(part, str))
            if all(isinstance(part, str) for part in message.parts)
            else [_part(part) for part in message.parts],
        }
        for message in messages
    ]


def _part(part: str | ImagePart) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": {"url": _data_url(part)}}


@lru_cache(maxsize=64)
def _data_url(part: ImagePart) -> DataUrl:
    """The image inline, re-encoded only when endpoints do not take its format.

    Kept for a while: the judgements of a question show the same images many times.
    """
    from PIL import Image

    data = part.data
    try:
        mime = _IMAGE_TYPES.get(Image.open(io.BytesIO(data)).format or "")
    except OSError:
        mime = None
    if mime is None:
        encoded = io.BytesIO()
        open_image(data).save(encoded, "PNG")
        data, mime = encoded.getvalue(), "image/png"
    return DataUrl(f"data:{mime};base64,{base64.b64encode(data).decode()}")


def _sample(choice: dict[str, Any], num_tokens: int, logprobs: int) -> Sample:
    text = (choice.get("message") or {}).get("content") or ""
    reason = choice.get("finish_reason")
    finish: Literal["stop", "length", "error"] = reason if reason in ("stop", "length") else "error"
    rows = (choice.get("logprobs") or {}).get("content")
    if not rows:
        return Sample(text, num_tokens, None, (), finish)
    total = sum(float(row["logprob"]) for row in rows)
    tokens = tuple(_token(row, logprobs) for row in rows) if logprobs else ()
    return Sample(text, len(rows), total, tokens, finish)


def _token(row: dict[str, Any], logprobs: int) -> TokenLogprob:
    top: dict[str, float] = {}
    for each in (row.get("top_logprobs") or [])[:logprobs]:
        top.setdefault(each["token"], float(each["logprob"]))
    return TokenLogprob(row["token"], float(row["logprob"]), top)


def _prompt_tokens(answer: dict[str, Any]) -> tuple[list[int], list[float]]:
    """Ids and log-probabilities of the prompt's tokens; the first has none."""
    ids, values = [-1], [0.0]
    for row in (answer.get("prompt_logprobs") or [None])[1:]:
        token, entry = next(iter(row.items()))
        ids.append(int(token))
        values.append(float(entry["logprob"]))
    return ids, values


def _find(ids: list[int], wanted: list[int]) -> int | None:
    """Where the wanted tokens begin, looking from the end."""
    for start in range(len(ids) - len(wanted), -1, -1):
        if ids[start : start + len(wanted)] == wanted:
            return start
    return None


_warned: set[str] = set()


def _warn_unseeded(host: str) -> None:
    if host not in _warned:
        _warned.add(host)
        warnings.warn(f"{host} takes no seed: its samples cannot be drawn again", stacklevel=2)
