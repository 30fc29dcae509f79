"""vLLM in this process: one engine for the life of a worker, everything in flight batched by it.

Samples: those of a request whose seeds are consecutive numbers are one vLLM request with n (its
i-th child draws with seed + i, so each has exactly its own seed); other seeds are separate requests
that share the prompt through the prefix cache. vLLM is not bit-stable when batches differ, so the
same seed can give another text when other requests are in flight; `info()` says so.
"""

import asyncio
import dataclasses
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

# Set before vLLM is imported: it starts threads and writes to disk for usage statistics otherwise.
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

import vllm
from vllm import PoolingParams, SamplingParams
from vllm.config import PoolerConfig
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.pooling.scoring.io_processor import CrossEncoderIOProcessor
from vllm.model_executor.model_loader.utils import get_model_cls
from vllm.platforms import current_platform
from vllm.renderers.chat_utils import ChatTemplateConfig
from vllm.renderers.inputs.preprocess import parse_model_prompt
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM

from bon.core.errors import BonError, Unsupported
from bon.core.images import downscale, open_image
from bon.engines.base import (
    Engine,
    GenerateRequest,
    Generation,
    ImagePart,
    Likelihood,
    Part,
    RankRequest,
    Reward,
    Sample,
    ScoreRequest,
    TokenLogprob,
)
from bon.engines.metering import SALT, fresh, note_cached
from bon.engines.processors import counts_pixels, load_processor
from bon.engines.rendering import Rendered, Renderer
from bon.engines.settings import VllmSettings

Task = Literal["generate", "reward"]

_ROLES = "".join(
    f"{{% set {role} = messages | selectattr('role', 'eq', '{role}') "
    "| map(attribute='content') | first %}"
    for role in ("query", "document")
)
"""Before a reranker's template: the names that it knows, from the messages that vLLM gives it."""


class VllmEngine(Engine):
    """One AsyncLLM."""

    name: ClassVar[str] = "vllm"

    def __init__(self, settings: VllmSettings) -> None:
        self._settings = settings
        self._max_pixels = settings.max_pixels
        model, revision = settings.model, settings.revision
        self._ids = itertools.count()
        arguments = {
            "model": model,
            "revision": revision,
            "tokenizer_revision": revision,
            "trust_remote_code": settings.trust_remote_code,
            # A checkpoint's own sampling defaults must not leak into requests.
            "generation_config": "vllm",
            "logprobs_mode": "raw_logprobs",
            "enable_prefix_caching": settings.task == "generate",
            "enable_log_requests": False,
            "disable_log_stats": True,
            "limit_mm_per_prompt": {},
            **_runner(settings.task),
            **_platform(),
            **settings.engine_args.model_dump(exclude_unset=True),
        }
        _check_names(arguments)
        with _loading(model):
            self._processor = load_processor(
                model, revision=revision, trust_remote_code=settings.trust_remote_code
            )
            arguments |= self._for_images(arguments)
            with _compiling(arguments):
                self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
        self._keeps_prompts = self._engine.vllm_config.cache_config.enable_prefix_caching
        self._tokenizer = getattr(self._processor, "tokenizer", self._processor)
        self._renderer = Renderer(self._processor, model, self._placeholder)

    async def generate(self, request: GenerateRequest) -> Generation:
        """Sample completions, the i-th with `seeds[i]` (or see `one_request`)."""
        self._needs("generate")
        prompt = await self._prompt(self._renderer.prompt(request.messages))
        outputs = await asyncio.gather(
            *(
                self._complete(prompt, self._sampling(request, seed, count))
                for seed, count in self._runs(request)
            )
        )
        for output in outputs:
            if self._keeps_prompts:
                note_cached(len(output.prompt_token_ids), output.num_cached_tokens)
        samples = [
            _sample(completion, request.logprobs)
            for output in outputs
            for completion in output.outputs
        ]
        if request.sampling.temperature == 0:  # vLLM refuses n > 1; all samples are the same
            samples = samples * len(request.seeds)
        assert len(samples) == len(request.seeds)
        return Generation(tuple(samples), len(outputs[0].prompt_token_ids))

    async def likelihood(self, request: ScoreRequest) -> Likelihood:
        """Log-probability of the last assistant message, its end-of-turn token included."""
        self._needs("generate")
        rendered, response = self._renderer.response(request.messages)
        ids = self._tokenizer(response, add_special_tokens=False)["input_ids"]
        prompt = await self._prompt(rendered, ids)
        params = SamplingParams(
            temperature=0, max_tokens=1, prompt_logprobs=0, output_kind=RequestOutputKind.FINAL_ONLY
        )
        output = await self._complete(prompt, params)
        rows = output.prompt_logprobs[-len(ids) :]
        total = sum(row[token].logprob for row, token in zip(rows, ids, strict=True))
        return Likelihood(float(total), len(ids), len(output.prompt_token_ids) - len(ids))

    async def reward(self, request: ScoreRequest) -> Reward:
        """The head's raw number at the end of the conversation."""
        self._needs("reward")
        rendered = self._renderer.conversation(request.messages, self._settings.score_at)
        prompt = await self._prompt(rendered)
        params = PoolingParams(task="classify", use_activation=False)
        output = await _last(self._engine.encode(prompt, params, self._id()))
        return Reward(float(output.outputs.data[0]), len(output.prompt_token_ids))

    async def rank(self, request: RankRequest) -> Reward:
        """The head's raw number for a pair, written as vLLM's own server writes it."""
        self._needs("reward")
        pair = await asyncio.to_thread(self._pair, request)
        parsed = parse_model_prompt(self._engine.model_config, pair)
        (prompt,) = await self._engine.renderer.render_cmpl_async([parsed])
        params = PoolingParams(task="classify", use_activation=False)
        output = await _last(self._engine.encode(prompt, params, self._id()))
        return Reward(float(output.outputs.data[0]), len(output.prompt_token_ids))

    def info(self) -> dict[str, Any]:
        """Settings, version and what vLLM made of them."""
        config = self._engine.vllm_config
        return {
            "engine": self.name,
            **self._settings.model_dump(exclude_defaults=True),
            "vllm": vllm.__version__,
            "architecture": config.model_config.architecture,
            "dtype": str(config.model_config.dtype).removeprefix("torch."),
            "max_model_len": config.model_config.max_model_len,
            "commit": getattr(config.model_config.hf_config, "_commit_hash", None),
            "device": str(config.device_config.device_type),
            "tensor_parallel_size": config.parallel_config.tensor_parallel_size,
            "batch_stable": "no: texts can differ when other requests share the batch",
        }

    async def close(self) -> None:
        """Stop vLLM's processes and free the model."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.shutdown()

    def _for_images(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """What keeps vLLM from reserving memory for more than requests will bring.

        It plans for the largest image that the processor takes, and for a video, unless it is told.
        """
        wanted: dict[str, Any] = {
            "limit_mm_per_prompt": {"video": 0, "audio": 0, **arguments["limit_mm_per_prompt"]}
        }
        if self._max_pixels and counts_pixels(self._processor):
            limit = {"max_pixels": self._max_pixels}
            wanted["mm_processor_kwargs"] = limit | arguments.get("mm_processor_kwargs", {})
            self._max_pixels = None  # its own processor shrinks, as in the other engines
        return wanted

    def _placeholder(self, number: int) -> str:
        """How vLLM's class of this model writes an image, for templates that take strings.

        Nothing where the class writes none: it puts the images before the prompt itself (Molmo).
        """
        model = get_model_cls(self._engine.model_config)
        return model.get_placeholder_str("image", number) or ""

    def _runs(self, request: GenerateRequest) -> list[tuple[int, int]]:
        """The seeds as (first, how many) runs of consecutive numbers: each is one request."""
        seeds = request.seeds
        if request.sampling.temperature == 0:
            return [(seeds[0], 1)]
        if self._settings.one_request:
            return [(seeds[0], len(seeds))]
        runs: list[tuple[int, int]] = []
        for seed in seeds:
            if runs and seed == sum(runs[-1]):
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((seed, 1))
        return runs

    def _sampling(self, request: GenerateRequest, seed: int, count: int) -> Any:
        sampling = request.sampling
        return SamplingParams(
            n=count,
            seed=seed,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=0.0,
            max_tokens=sampling.max_tokens,
            stop=list(sampling.stop),
            logprobs=request.logprobs,  # 0 gives the chosen token's alone, which is always wanted
            presence_penalty=0.0,
            frequency_penalty=0.0,
            repetition_penalty=sampling.repetition_penalty,
            # Anything else gives the samples piecemeal, and the last piece lacks some of them.
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    async def _complete(self, prompt: Any, params: Any) -> Any:
        return await _last(self._engine.generate(prompt, params, self._id()))

    async def _prompt(self, rendered: Rendered, extra: list[int] | None = None) -> Any:
        """What vLLM reads, images processed; made once however many requests share it."""
        prompt = await asyncio.to_thread(self._tokens, rendered, extra)
        parsed = parse_model_prompt(self._engine.model_config, prompt)
        (rendered_prompt,) = await self._engine.renderer.render_cmpl_async([parsed])
        return rendered_prompt

    def _tokens(self, rendered: Rendered, extra: list[int] | None) -> dict[str, Any]:
        """Token ids (one placeholder an image, as the template has it) and images by hash."""
        ids = self._tokenizer(rendered.text, add_special_tokens=False)["input_ids"]
        prompt: dict[str, Any] = {"prompt_token_ids": [*ids, *(extra or [])]}
        if fresh():
            prompt["cache_salt"] = SALT
        if rendered.images:
            images = [self._image(part) for part in rendered.images]
            prompt["multi_modal_data"] = {"image": images}
            # vLLM caches by this name alone, so it has to be the content's.
            prompt["multi_modal_uuids"] = {"image": [part.sha256 for part in rendered.images]}
        return prompt

    @cached_property
    def _ranking(self) -> CrossEncoderIOProcessor:
        engine = self._engine
        return CrossEncoderIOProcessor(engine.vllm_config, engine.renderer, ChatTemplateConfig())

    def _pair(self, request: RankRequest) -> Any:
        """Token ids and images of a query and a document."""
        _, prompt = self._ranking.get_score_prompt(
            self._contents(request.query),
            self._contents(request.document),
            {"add_special_tokens": True},
            chat_template=_ROLES + request.template if request.template else None,
            chat_template_kwargs={"instruction": request.instruction},
        )
        return prompt

    def _contents(self, parts: tuple[Part, ...]) -> list[dict[str, Any]]:
        return [
            {"type": "text", "text": part}
            if isinstance(part, str)
            else {"type": "image_pil", "image_pil": self._image(part), "uuid": part.sha256}
            for part in parts
        ]

    def _image(self, part: ImagePart) -> Any:
        image = open_image(part.data)
        return downscale(image, self._max_pixels) if self._max_pixels else image

    def _needs(self, task: Task) -> None:
        if task != self._settings.task:
            raise Unsupported(
                f"vllm runs {self._settings.model!r} for {self._settings.task!r}, not for {task!r}",
                f"set task: {task} in its engine args",
            )

    def _id(self) -> str:
        return f"bon-{next(self._ids)}"


async def _last(outputs: AsyncIterator[Any]) -> Any:
    """The one output of a request; asserts that it came."""
    collected = [output async for output in outputs]
    assert len(collected) == 1, f"vllm gave {len(collected)} outputs for a request"
    return collected[0]


def _sample(completion: Any, logprobs: int) -> Sample:
    rows = list(completion.logprobs or [])
    ids = list(completion.token_ids)
    chosen = [row[token] for row, token in zip(rows, ids, strict=True)]
    total = sum(each.logprob for each in chosen)
    if completion.finish_reason == "stop" and completion.stop_reason is None:
        rows, chosen = rows[:-1], chosen[:-1]  # the end-of-turn token: it is no part of the text
    tokens = tuple(map(partial(_token, logprobs), rows, chosen)) if logprobs else ()
    finish: Literal["stop", "length", "error"] = (
        completion.finish_reason if completion.finish_reason in ("stop", "length") else "error"
    )
    return Sample(completion.text, len(ids), total, tokens, finish)


def _token(logprobs: int, row: dict[int, Any], chosen: Any) -> TokenLogprob:
    top: dict[str, float] = {}
    for each in sorted(row.values(), key=lambda each: -each.logprob)[:logprobs]:
        top.setdefault(each.decoded_token or "", each.logprob)
    return TokenLogprob(chosen.decoded_token or "", chosen.logprob, top)


def _runner(task: Task) -> dict[str, Any]:
    if task == "generate":
        return {"runner": "generate"}
    # Without use_activation=False vLLM squashes the score into (0, 1).
    return {
        "runner": "pooling",
        "convert": "classify",
        "pooler_config": PoolerConfig(use_activation=False),
    }


def _platform() -> dict[str, Any]:
    if current_platform.is_cpu():
        # A prompt cut in two makes vLLM rewind the seeded generator, which torch's CPU generator
        # cannot do: the engine would die. Seeds matter more here than chunks.
        return {"enable_chunked_prefill": False}
    return {}


@contextmanager
def _compiling(arguments: dict[str, Any]) -> Iterator[None]:
    """On a CPU without compiling if `enforce_eager` is set: vLLM's processes are started inside.

    Even then vLLM compiles how it ranks log-probabilities, when a first batch asks for them, which
    takes a C++ compiler 15 seconds.
    """
    name = "TORCH_COMPILE_DISABLE"
    if name in os.environ or not (arguments.get("enforce_eager") and current_platform.is_cpu()):
        yield
        return
    os.environ[name] = "1"
    try:
        yield
    finally:
        del os.environ[name]


def _check_names(arguments: dict[str, Any]) -> None:
    known = [each.name for each in dataclasses.fields(AsyncEngineArgs)]
    for key in arguments:
        if key not in known:
            close = get_close_matches(key, known, n=1)
            fix = f"did you mean {close[0]!r}?" if close else "see vLLM's engine arguments"
            raise BonError(f"vllm {vllm.__version__} has no engine argument {key!r}", fix)


@contextmanager
def _loading(model: str) -> Iterator[None]:
    """One line for whatever vLLM raises; what its own processes printed is above it."""
    try:
        yield
    except BonError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        line = (lines[0] if lines else type(error).__name__)[:300]
        raise BonError(f"model {model!r} failed to load in vllm: {line}", _fix(error)) from error


def _fix(error: Exception) -> str:
    text = str(error)
    if "memory" in text.lower():
        return (
            "lower max_model_len, max_pixels or limit_mm_per_prompt (images per prompt), raise "
            "gpu_memory_utilization or tensor_parallel_size, or take a smaller or quantized model"
        )
    if "trust_remote_code" in text:
        return "set trust_remote_code: true if you trust the code of this checkpoint"
    if "Engine core initialization failed" in text:
        return "the cause is in vLLM's own lines above; a GPU too small is the usual one"
    return "check the folder or id and engine_args"
