"""Any OpenAI-compatible endpoint: a server of one's own, or a paid model.

Endpoints differ in what they can do. `endpoint` names what is known of one (taken from the host
when left out), `capabilities` corrects it. What one cannot do is done another way (n samples as n
requests) or refused; nothing asked for is silently dropped. Where an endpoint takes no seed or
promises nothing by it, `info()` says that samples cannot be drawn again.
"""

import asyncio
import base64
import io
import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, ClassVar, NoReturn, cast

import httpx

from bon.core.errors import BonError, Unsupported
from bon.core.images import open_image
from bon.core.keys import content_key
from bon.core.sampling import Sampling
from bon.core.text import read_choice
from bon.engines.base import (
    Engine,
    Finish,
    GenerateRequest,
    Generation,
    ImagePart,
    Likelihood,
    Message,
    PartialGeneration,
    RankRequest,
    Reward,
    Sample,
    ScoreRequest,
    TokenLogprob,
    runs_of,
)
from bon.engines.endpoints.budget import Charge, budget, stop
from bon.engines.endpoints.endpoint import (
    AdaptiveLimit,
    Endpoint,
    EndpointError,
    Unreadable,
    is_same_model,
)
from bon.engines.endpoints.usage import count_tokens, most_tokens, read_amount, read_usage
from bon.engines.metering import note_cached
from bon.engines.settings import OpenAISettings

_IMAGE_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}


class OpenAIEngine(Engine):
    """One model of one endpoint."""

    name: ClassVar[str] = "openai"

    def __init__(self, settings: OpenAISettings) -> None:
        self._settings, self._model, self._unreadable = settings, settings.model, ""
        self._answered_as, self._warned = set[str](), set[str]()
        self._kind, self.can = settings.kind, settings.can
        kwargs = settings.chat_template_kwargs
        self._template = {"chat_template_kwargs": kwargs} if kwargs else {}
        most = settings.max_concurrency
        self._endpoint = Endpoint(
            settings.base_url,
            settings.api_key_env,
            settings.timeout,
            settings.retries,
            AdaptiveLimit(min(settings.concurrency, most), most),
            settings.spending_cap,
            wait=settings.retry_wait,
        )

    def waits_for(self) -> str:
        """Return what the endpoint said where it asks for a long wait."""
        return self._endpoint.wait_reason

    async def generate(self, request: GenerateRequest) -> Generation:
        """Sample completions, as one request or several, as the endpoint allows."""
        body = self._body(request)
        seeds = tuple(dict.fromkeys(request.seeds))
        if request.sampling.temperature == 0 and self.can.seed == "exact":
            seeds = seeds[:1]  # all samples would be the same one
        base = self._key(request, body) if budget().is_priced else ""
        keys = {seed: f"{base}:{seed}" for seed in seeds}
        replies = await budget().bought(keys.values())
        known = {seed: replies[key] for seed, key in keys.items() if key in replies}
        bought = {seed: _PaidSample(**json.loads(reply)) for seed, reply in known.items()}
        missing = tuple(seed for seed in seeds if seed not in bought)
        results = await asyncio.gather(
            *(self._complete(body, part, keys, bought) for part in self._split(missing)),
            return_exceptions=True,
        )
        failures = [result for result in results if isinstance(result, BaseException)]
        if failures:
            failure = min(failures, key=lambda failure: not isinstance(failure, BonError))
            if bought and isinstance(failure, Exception):
                raise PartialGeneration(tuple(bought), failure)
            raise failure
        await budget().deliver(keys.values())
        first = bought[seeds[0]]
        samples = [bought.get(seed, first).sample(request.logprobs) for seed in request.seeds]
        cost = sum(sample.cost for sample in bought.values())
        return Generation(tuple(samples), first.num_prompt_tokens, cost)

    async def likelihood(self, request: ScoreRequest) -> Likelihood:
        """From the log-probabilities that vLLM gives of a prompt's tokens."""
        if not self.can.prompt_logprobs:
            self._refuse("gives no log-probabilities of a given text", "use a local engine")
        text = "".join(part for part in request.messages[-1].parts if isinstance(part, str))
        plain = {"model": self._model, "prompt": text, "add_special_tokens": False}
        tokenized = await self._endpoint.post(self._above("/tokenize"), plain)
        raw = {"add_generation_prompt": False, "temperature": 0, "max_tokens": 1}
        body = {"model": self._model, "messages": _messages(request.messages), **raw}
        body |= {"prompt_logprobs": 0, **self._template}
        answer, _ = await self._post("/chat/completions", body)
        rows = [next(iter(row.items())) for row in (answer.get("prompt_logprobs") or [None])[1:]]
        ids = [-1, *(int(token) for token, _ in rows)]  # the first has no log-probability
        wanted = [int(token) for token in tokenized["tokens"]]
        for start in range(len(ids) - len(wanted), -1, -1):
            if ids[start : start + len(wanted)] == wanted:
                end = start + len(wanted) + 1  # and the token that ends the turn
                values = [0.0, *(float(entry["logprob"]) for _, entry in rows)][start:end]
                return Likelihood(sum(values), len(values), start)
        raise EndpointError(f"{self._endpoint.host}: the response's tokens were not found")

    async def reward(self, request: ScoreRequest) -> Reward:
        """From vLLM's /classify, raw."""
        if not self.can.classify:
            self._refuse("has no reward head", "use vllm serve --runner pooling, or a local engine")
        raw = {"add_generation_prompt": False, "use_activation": False, **self._template}
        body = {"model": self._model, "messages": _messages(request.messages), **raw}
        answer, num_prompt_tokens = await self._post(self._above("/classify"), body)
        scores = answer["data"][0]["probs"]
        if len(scores) != 1:
            host = self._endpoint.host
            raise EndpointError(f"{host}: {len(scores)} scores where one is expected")
        return Reward(float(scores[0]), num_prompt_tokens)

    async def rank(self, request: RankRequest) -> Reward:
        """From vLLM's /score, raw; the server's `--chat-template` writes the pair."""
        if not self.can.classify:
            self._refuse("runs no rerankers", "use vllm serve --runner pooling, or engine: vllm")
        pair = {"queries": request.query, "documents": request.document}
        contents = {name: {"content": [*map(_part, parts)]} for name, parts in pair.items()}
        body = {"model": self._model, **contents, "use_activation": False}
        body |= {"instruction": request.instruction} if request.instruction else {}
        answer, num_prompt_tokens = await self._post(self._above("/score"), body)
        (scored,) = answer["data"]
        return Reward(float(scored["score"]), num_prompt_tokens)

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
            "response_format": self._settings.response_format,
            "extra_body": self._settings.extra_body,
            "answered_as": sorted(self._answered_as),
            "repeatable": seeds[self.can.seed],
            "ledger": self._endpoint.totals.report(),
            "httpx": httpx.__version__,
        }

    async def close(self) -> None:
        """Close connections."""
        await self._endpoint.close()

    def _split(self, seeds: tuple[int, ...]) -> list[tuple[int, ...]]:
        if not seeds or not self.can.n:
            return [(seed,) for seed in seeds]
        if self.can.seed != "exact":
            return [seeds]  # the prompt is paid for once; the seed promises nothing anyway
        return runs_of(seeds)

    def _body(self, request: GenerateRequest) -> dict[str, Any]:
        sampling = request.sampling
        self._check(sampling, request.logprobs)
        body: dict[str, Any] = {
            "model": self._model,
            "messages": _messages(request.messages),
            "temperature": sampling.temperature,
            self.can.max_tokens_field: sampling.max_new_tokens,
        }
        if sampling.max_thinking_tokens is not None:
            body[self.can.thinking_field] = sampling.max_thinking_tokens
        if self.can.both_cuts or sampling.top_p < 1:
            body["top_p"] = sampling.top_p
        if self.can.sampling_extras:
            # Left out, vLLM's server takes them from the checkpoint's generation_config.
            penalty = sampling.repetition_penalty
            body |= {"top_k": sampling.top_k, "min_p": 0.0, "repetition_penalty": penalty}
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if self.can.logprobs:
            body |= {"logprobs": True}
            body |= {"top_logprobs": request.logprobs} if request.logprobs else {}
        if self._settings.response_format is not None:
            body["response_format"] = self._settings.response_format
        return body | self._template | self._settings.extra_body

    def _check(self, sampling: Sampling, logprobs: int) -> None:
        can = self.can
        if sampling.temperature > can.max_temperature:
            limits = f"up to {can.max_temperature:g}, not {sampling.temperature:g}"
            self._refuse(f"takes temperatures {limits}", "lower the temperature")
        if sampling.top_k and not can.sampling_extras:
            self._refuse("takes no top_k", "set top_k: 0, or capabilities.sampling_extras: true")
        if sampling.repetition_penalty != 1 and not can.sampling_extras:
            fix = "set repetition_penalty: 1, or capabilities.sampling_extras: true"
            self._refuse("takes no repetition_penalty", fix)
        if sampling.top_p < 1 and not can.both_cuts and sampling.temperature != 1:
            fix = "set top_p: 1 or temperature: 1"
            self._refuse("does not take top_p together with a temperature", fix)
        if sampling.max_thinking_tokens is not None and not can.thinking_field:
            fix = "name its field in capabilities.thinking_field, or set max_tokens for both alone"
            self._refuse("has no limit on thinking alone", fix)
        if logprobs and not can.logprobs:
            fix = "read the verdict from the text, or capabilities.logprobs: true if it does"
            self._refuse("gives no log-probabilities", fix)
        if logprobs > can.top_logprobs:
            fix = "ask for fewer, or correct capabilities.top_logprobs"
            self._refuse(f"gives up to {can.top_logprobs} alternatives, not {logprobs}", fix)

    def _refuse(self, what: str, fix: str) -> NoReturn:
        raise Unsupported(f"endpoint {self._endpoint.host} ({self._kind}) {what}", fix)

    async def _complete(
        self,
        body: dict[str, Any],
        seeds: tuple[int, ...],
        keys: Mapping[int, str],
        bought: dict[int, "_PaidSample"],
    ) -> None:
        """Add the samples of these seeds to `bought`; what a reply lacks is asked for again."""
        while seeds:
            request = dict(body)
            if len(seeds) > 1:
                request["n"] = len(seeds)
            if self.can.seed != "none":
                request["seed"] = seeds[0]
            elif body["temperature"] > 0:
                self._warn("seed", "takes no seed: its samples cannot be drawn again")
            samples: dict[int, _PaidSample] = {}

            def book(
                reply: dict[str, Any],
                request: dict[str, Any] = request,
                seeds: tuple[int, ...] = seeds,
                samples: dict[int, _PaidSample] = samples,
            ) -> Charge:
                received, dollars = self._read(request, reply, seeds)
                samples.update(received)
                paid = received.items() if budget().is_priced else ()
                return Charge(dollars, {keys[seed]: json.dumps(asdict(s)) for seed, s in paid})

            most = self._most(request)
            reply = await self._endpoint.post("/chat/completions", request, most, book)
            self._note_model(reply.get("model"))
            bought.update(samples)
            if not samples:
                reason = reply.get("error") or f"0 of {len(seeds)} samples came back"
                if isinstance(choices := reply.get("choices"), list) and choices:
                    reason = f"the reply holds {self._unreadable}"
                raise Unreadable(f"{self._endpoint.host}: {reason}")
            if len(samples) < len(seeds):
                came = f"{len(samples)} of {len(seeds)} samples"
                self._warn("n", f"gave {came}; the rest is requested again")
            seeds = tuple(seed for seed in seeds if seed not in samples)

    async def _post(self, path: str, body: dict[str, Any]) -> tuple[dict[str, Any], int]:
        """Return the reply to a request for scores, and the tokens of its prompt."""
        num_prompt_tokens = 0

        def book(reply: dict[str, Any]) -> Charge:
            nonlocal num_prompt_tokens
            num_prompt_tokens, _, dollars = self._usage(body, reply, 0)
            return Charge(dollars)

        reply = await self._endpoint.post(path, body, self._most(body), book)
        self._note_model(reply.get("model"))
        return reply, num_prompt_tokens

    def _most(self, body: Mapping[str, Any]) -> float:
        """Return the most dollars that a request can cost."""
        return budget().dollars(*most_tokens(body)) if budget().is_priced else 0.0

    def _usage(
        self, body: Mapping[str, Any], reply: Mapping[str, Any], completion: int
    ) -> tuple[int, int, float]:
        """Count a reply; returns its prompt and completion tokens and what it cost.

        completion: our own count of the tokens that it brought.
        """
        usage, totals, payer = reply.get("usage"), self._endpoint.totals, budget()
        sent, received, amiss = read_usage(body, usage, completion)
        totals.estimated += bool(amiss)
        if amiss and payer.is_priced:
            self._warn("usage", amiss)
        details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
        cached = read_amount(details.get("cached_tokens")) if isinstance(details, dict) else None
        num_cached = None if cached is None else round(min(cached, sent))
        note_cached(round(sent), num_cached)
        totals.requests += 1
        totals.input_tokens += round(sent)
        totals.output_tokens += round(received)
        totals.cached_tokens += num_cached or 0
        return round(sent), round(received), payer.dollars(sent, received)

    def _read(
        self, body: Mapping[str, Any], reply: Mapping[str, Any], seeds: tuple[int, ...]
    ) -> tuple[dict[int, "_PaidSample"], float]:
        """Return the samples of a reply by seed, and what the reply cost."""
        choices = reply.get("choices")
        choices = [c for c in choices if isinstance(c, dict)] if isinstance(choices, list) else []
        sent, received, dollars = self._usage(body, reply, sum(map(_count_tokens, choices)))
        count, indices = len(choices), [choice.get("index") for choice in choices]
        if sorted(i for i in indices if type(i) is int) != list(range(count)):
            indices = list(range(count))
        samples = {}
        for index, choice in zip(indices, choices, strict=True):
            if index < len(seeds):
                sample = _PaidSample(choice, sent, received // count, dollars / count)
                try:
                    sample.sample(0)
                    samples[seeds[index]] = sample
                except ValueError as error:
                    self._unreadable = str(error)
        return samples, dollars

    def _key(self, request: GenerateRequest, body: Mapping[str, Any]) -> str:
        """Return the identity of a request but for its seeds."""
        messages = [
            [m.role, [p if isinstance(p, str) else {"image": p.sha256} for p in m.parts]]
            for m in request.messages
        ]
        settings = {key: value for key, value in body.items() if key != "messages"}
        return content_key("bought", self._endpoint.url, messages, settings)

    def _warn(self, topic: str, text: str) -> None:
        if topic not in self._warned:
            self._warned.add(topic)
            warnings.warn(f"{self._endpoint.host} {text}", stacklevel=2)

    def _note_model(self, name: Any) -> None:
        """Record the model that replied, and stop if it is not the requested one.

        Vendors route a retired model's requests to its successor, at another price.
        """
        if not isinstance(name, str) or not name:
            return
        self._answered_as.add(name)
        served_as = self._settings.served_as or ()
        aliases = (served_as,) if isinstance(served_as, str) else served_as
        if name in aliases or is_same_model(self._model, name):
            return
        host = self._endpoint.host
        error = BonError(
            f"endpoint {host} was asked for {self._model!r}, but {name!r} answered",
            f"name that model on the card, or set engine_args.served_as: {name} if it is the same",
        )
        stop(error)
        raise error

    def _above(self, path: str) -> str:
        """A path beside /v1, where vLLM has its own endpoints."""
        return self._endpoint.url.removesuffix("/v1") + path


def _messages(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Text alone as a string (some endpoints take system text in no other way), else parts."""
    contents: list[Any] = []
    for message in messages:
        texts = [part for part in message.parts if isinstance(part, str)]
        alone = len(texts) == len(message.parts)
        contents.append("".join(texts) if alone else [*map(_part, message.parts)])
    return [{"role": m.role, "content": c} for m, c in zip(messages, contents, strict=True)]


def _part(part: str | ImagePart) -> dict[str, Any]:
    return {"type": "text", "text": part} if isinstance(part, str) else _image(part)


@lru_cache(maxsize=64)  # the judgements of a question show the same images many times
def _image(part: ImagePart) -> dict[str, Any]:
    """Return the image inline, re-encoded only where endpoints do not take its format."""
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
    url = f"data:{mime};base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


@dataclass(frozen=True, slots=True)
class _PaidSample:
    """A choice of a reply, its prompt's tokens and its share of the reply's tokens and cost."""

    choice: dict[str, Any]
    num_prompt_tokens: int
    num_tokens: int
    cost: float

    def sample(self, logprobs: int) -> Sample:
        """Return the choice as a sample; ValueError where its content is not text."""
        text, reasoning, reason = read_choice(self.choice)
        finish = cast(Finish, reason)
        try:
            rows = self.choice["logprobs"]["content"]
            total = sum(_logprob(row) for row in rows)
            tokens = tuple(_token(row, logprobs) for row in rows) if logprobs else ()
        except (TypeError, KeyError, ValueError):  # none, or none that can be used
            rows = ()
        if not rows:
            return Sample(text, self.num_tokens, None, (), finish, reasoning)
        return Sample(text, len(rows), total, tokens, finish, reasoning)


def _count_tokens(choice: Mapping[str, Any]) -> int:
    """Return about how many tokens a choice holds; exactly where it names them."""
    rows = choice.get("logprobs")
    rows = rows.get("content") if isinstance(rows, dict) else None
    if isinstance(rows, list) and rows:
        return len(rows)
    message = choice.get("message")
    texts = {**message, "role": ""}.values() if isinstance(message, dict) else ()
    return 1 + sum(count_tokens(text) for text in texts if isinstance(text, str))


def _logprob(row: dict[str, Any]) -> float:
    if math.isnan(value := float(row["logprob"])):
        raise ValueError("a log-probability that is not a number")
    return value


def _token(row: dict[str, Any], logprobs: int) -> TokenLogprob:
    top: dict[str, float] = {}
    for each in (row.get("top_logprobs") or [])[:logprobs]:
        top.setdefault(each["token"], _logprob(each))
    return TokenLogprob(row["token"], _logprob(row), top)
