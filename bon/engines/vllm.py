"""vLLM in this process, which batches everything in flight.

Samples with consecutive seeds are one vLLM request with n (its i-th child draws with seed + i);
other seeds are separate requests that share the prompt through the prefix cache. vLLM is not
bit-stable across batch compositions, so one seed can give different texts; `info()` says so.
"""

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator, Sequence
from functools import cached_property, partial
from itertools import count
from typing import Any, ClassVar, Literal

# Before vLLM is imported, which else starts threads and writes to disk for usage statistics.
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

import vllm
from vllm import PoolingParams, SamplingParams
from vllm.config import PoolerConfig, ReasoningConfig
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.pooling.scoring.io_processor import CrossEncoderIOProcessor
from vllm.model_executor.model_loader.utils import get_model_cls
from vllm.platforms import current_platform
from vllm.renderers.chat_utils import ChatTemplateConfig
from vllm.renderers.inputs.preprocess import parse_model_prompt
from vllm.sampling_params import RequestOutputKind
from vllm.usage.usage_lib import UsageContext
from vllm.v1.engine.async_llm import AsyncLLM

from bon.core.errors import BonError, EngineDied, Unsupported, suggestion
from bon.core.images import downscale, open_image
from bon.core.sampling import Sampling
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
    runs_of,
)
from bon.engines.checkpoints import checkpoint
from bon.engines.metering import note_cached
from bon.engines.processors import TRUST_REMOTE_CODE, counts_pixels, load_processor, loading_errors
from bon.engines.rendering import Rendered, Renderer
from bon.engines.settings import VllmSettings

Task = Literal["generate", "reward"]

_ROLES = "".join(
    f"{{% set {role} = messages | selectattr('role', 'eq', '{role}') "
    "| map(attribute='content') | first %}"
    for role in ("query", "document")
)
"""Prefix of a reranker's template: its names, from the messages that vLLM passes."""


_FIXES = {
    "memory": (
        "lower max_model_len, max_pixels or limit_mm_per_prompt (images per prompt), raise "
        "gpu_memory_utilization or tensor_parallel_size, or take a smaller or quantized model"
    ),
    **TRUST_REMOTE_CODE,
    "Engine core initialization failed": (
        "the cause is in vLLM's own lines above; a GPU too small is the usual one"
    ),
}


class VllmEngine(Engine):
    """One AsyncLLM."""

    name: ClassVar[str] = "vllm"

    def __init__(self, settings: VllmSettings) -> None:
        self._settings, self._max_pixels, self._ids = settings, settings.max_pixels, count()
        model = settings.model
        source = {"revision": settings.revision, "trust_remote_code": settings.trust_remote_code}
        arguments = {
            "model": model,
            "tokenizer_revision": settings.revision,
            **source,
            # Requests define sampling; a checkpoint's own defaults must not.
            "generation_config": "vllm",
            "logprobs_mode": "raw_logprobs",
            "enable_prefix_caching": settings.task == "generate",
            "enable_log_requests": False,
            "disable_log_stats": True,
            "limit_mm_per_prompt": {},
            "runner": "generate" if settings.task == "generate" else "pooling",
            **settings.engine_args.model_dump(exclude_unset=True),
        }
        if settings.task == "reward":  # without use_activation=False it squashes scores into (0, 1)
            pooler = PoolerConfig(use_activation=False)
            arguments = {"convert": "classify", "pooler_config": pooler} | arguments
        if current_platform.is_cpu():
            # A chunked prompt makes it rewind the seeded generator, which torch cannot do on a CPU.
            arguments = {"enable_chunked_prefill": False} | arguments
        known = [field.name for field in dataclasses.fields(AsyncEngineArgs)]
        for name in set(arguments) - set(known):
            fix = suggestion(name, known, "see vLLM's engine arguments", 0.6)
            raise BonError(f"vllm {vllm.__version__} has no engine argument {name!r}", fix)
        with loading_errors(model, _FIXES, "check the folder or id and engine_args"):
            self._processor = load_processor(model, **source)
            kind = checkpoint(model, settings.revision, download=True)
            if kind is not None and settings.task == "generate":
                kind.check_writes("kind: scalar with engine_args: {task: reward}")
            # It reserves memory, by default for the largest possible image and a video.
            limits = {"video": 0, "audio": 0, **arguments["limit_mm_per_prompt"]}
            arguments["limit_mm_per_prompt"] = limits
            if self._max_pixels and counts_pixels(self._processor):
                pixels = {"max_pixels": self._max_pixels}
                arguments["mm_processor_kwargs"] = pixels | arguments.get("mm_processor_kwargs", {})
                self._max_pixels = None  # the model's processor downscales
            self._renderer = Renderer(
                self._processor,
                model,
                self._placeholder,
                settings.chat_template_kwargs,
                reads_images=kind is None or kind.reads_images,
            )
            marks = self._renderer.thinking if settings.task == "generate" else None
            if marks and self._renderer.marks_are_tokens:
                ends = ReasoningConfig(
                    reasoning_start_str=marks.opening, reasoning_end_str=marks.forced.strip()
                )
                arguments = {"reasoning_config": ends} | arguments
            # The context chooses how many sequences and tokens a step has: as many as `LLM` takes.
            self._engine = AsyncLLM.from_engine_args(
                AsyncEngineArgs(**arguments), usage_context=UsageContext.LLM_CLASS
            )
        self._caches_prefixes = self._engine.vllm_config.cache_config.enable_prefix_caching
        self._tokenizer = getattr(self._processor, "tokenizer", self._processor)

    async def generate(self, request: GenerateRequest) -> Generation:
        """Sample completions, the i-th with `seeds[i]`."""
        self._needs("generate")
        rendered = self._renderer.prompt(request.messages)
        prompt = await self._prompt(rendered)
        greedy = request.sampling.temperature == 0  # vLLM refuses n > 1: all samples are the same
        runs = runs_of(request.seeds[:1] if greedy else request.seeds)
        outputs = await asyncio.gather(
            *(
                self._complete(prompt, self._sampling(rendered.text, request, run[0], len(run)))
                for run in runs
            )
        )
        if self._caches_prefixes:
            for output in outputs:
                note_cached(len(output.prompt_token_ids), output.num_cached_tokens)
        samples = [
            self._sample(rendered.text, completion, request)
            for output in outputs
            for completion in output.outputs
        ]
        if greedy:
            samples = samples * len(request.seeds)
        assert len(samples) == len(request.seeds)
        return Generation(tuple(samples), len(outputs[0].prompt_token_ids))

    async def likelihood(self, request: ScoreRequest) -> Likelihood:
        """Log-probability of the last assistant message, its end-of-turn token included."""
        self._needs("generate")
        rendered, response = self._renderer.response(request.messages)
        ids = self._tokenizer(response, add_special_tokens=False)["input_ids"]
        prompt = await self._prompt(rendered, ids)
        final = RequestOutputKind.FINAL_ONLY
        params = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0, output_kind=final)
        output = await self._complete(prompt, params)
        rows = zip(output.prompt_logprobs[-len(ids) :], ids, strict=True)
        total = sum(row[token].logprob for row, token in rows)
        return Likelihood(float(total), len(ids), len(output.prompt_token_ids) - len(ids))

    async def reward(self, request: ScoreRequest) -> Reward:
        """Raw score of the reward head at the end of the conversation."""
        self._needs("reward")
        rendered = self._renderer.conversation(request.messages, self._settings.score_at)
        return await self._score(await self._prompt(rendered))

    async def rank(self, request: RankRequest) -> Reward:
        """Raw score of a pair, rendered as vLLM's own server renders it."""
        self._needs("reward")
        pair = await asyncio.to_thread(self._pair, request)
        return await self._score(await self._processed(pair))

    async def _score(self, prompt: Any) -> Reward:
        # Token classifiers and process reward models score every token: the last one's score.
        tasks = await self._engine.get_supported_tasks()
        task: Any = "classify" if "classify" in tasks else "token_classify"
        params = PoolingParams(task=task, use_activation=False)
        output = await self._only(self._engine.encode(prompt, params, f"bon-{next(self._ids)}"))
        data = output.outputs.data
        scores = (data if task == "classify" else data[-1]).flatten()
        at, model = self._settings.output, self._settings.model
        if len(scores) > 1 and at is None:
            problem = f"the head of {model!r} gives {len(scores)} numbers, not one"
            raise BonError(problem, "say which is the reward, from 0: engine_args: {output: 0}")
        if (at or 0) >= len(scores):
            problem = f"the head of {model!r} has no output {at}"
            raise BonError(problem, f"choose from 0 to {len(scores) - 1}")
        return Reward(float(scores[at or 0]), len(output.prompt_token_ids))

    def info(self) -> dict[str, Any]:
        """Settings, versions, and what was loaded."""
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
            "warning": self._renderer.warning,
            "batch_stable": "no: texts can differ when other requests share the batch",
        }

    async def close(self) -> None:
        """Stop vLLM's processes and free the model."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.shutdown()

    def _placeholder(self, number: int) -> str:
        """Return the placeholder of vLLM's class of this model; "" if it adds its own (Molmo)."""
        model = get_model_cls(self._engine.model_config)
        return model.get_placeholder_str("image", number) or ""

    def _limits(self, prompt: str, sampling: Sampling) -> dict[str, int]:
        """Return the limits on all tokens and, where it has one, on reasoning."""
        marks, limit = self._renderer.thinking, sampling.max_thinking_tokens
        if marks is None or limit is None:
            return {"max_tokens": sampling.max_tokens}
        if not self._renderer.marks_are_tokens:
            problem = f"the thinking of {self._settings.model!r}: its marks are no tokens"
            fix = "let max_tokens limit thinking and answer, or take engine: transformers"
            raise Unsupported(f"vllm cannot limit {problem}", fix)
        opened = prompt.rpartition(marks.opening)
        begun = opened[2] if opened[1] and not opened[2].strip() else ""  # it counts these, too
        more, closing = (
            len(self._tokenizer(text, add_special_tokens=False)["input_ids"])
            for text in (begun, marks.forced.strip())
        )
        most = limit + closing + sampling.max_tokens
        return {"max_tokens": most, "thinking_token_budget": limit + more}

    def _sampling(self, prompt: str, request: GenerateRequest, seed: int, count: int) -> Any:
        sampling = request.sampling
        return SamplingParams(
            n=count,
            seed=seed,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=0.0,
            **self._limits(prompt, sampling),
            stop=list(sampling.stop),
            logprobs=request.logprobs,  # 0: those of the sampled tokens alone
            presence_penalty=0.0,
            frequency_penalty=0.0,
            repetition_penalty=sampling.repetition_penalty,
            # Other kinds stream the samples, and the last piece lacks some of them.
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    async def _complete(self, prompt: Any, params: Any) -> Any:
        return await self._only(self._engine.generate(prompt, params, f"bon-{next(self._ids)}"))

    async def _only(self, outputs: AsyncIterator[Any]) -> Any:
        try:
            collected = [output async for output in outputs]
        except Exception as error:
            if self._engine is None or self._engine.errored:
                raise EngineDied("vLLM's engine process has ended") from error
            raise
        assert len(collected) == 1, f"vllm gave {len(collected)} outputs for a request"
        return collected[0]

    async def _prompt(self, rendered: Rendered, extra: Sequence[int] = ()) -> Any:
        return await self._processed(await asyncio.to_thread(self._tokens, rendered, extra))

    async def _processed(self, prompt: Any) -> Any:
        parsed = parse_model_prompt(self._engine.model_config, prompt)
        (processed,) = await self._engine.renderer.render_cmpl_async([parsed])
        return processed

    def _tokens(self, rendered: Rendered, extra: Sequence[int]) -> dict[str, Any]:
        """Return token ids, with one placeholder per image, and images by hash."""
        ids = self._tokenizer(rendered.text, add_special_tokens=False)["input_ids"]
        prompt: dict[str, Any] = {"prompt_token_ids": [*ids, *extra]}
        if rendered.images:
            prompt["multi_modal_data"] = {"image": [*map(self._image, rendered.images)]}
            # vLLM caches images by this name alone.
            prompt["multi_modal_uuids"] = {"image": [part.sha256 for part in rendered.images]}
        return prompt

    @cached_property
    def _ranking(self) -> CrossEncoderIOProcessor:
        engine = self._engine
        return CrossEncoderIOProcessor(engine.vllm_config, engine.renderer, ChatTemplateConfig())

    def _pair(self, request: RankRequest) -> Any:
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
        if self._engine is None:
            raise EngineDied("vLLM's engine was closed")
        if task != self._settings.task:
            problem = f"{self._settings.model!r} for {self._settings.task!r}, not for {task!r}"
            raise Unsupported(f"vllm runs {problem}", f"set task: {task} in its engine args")

    def _sample(self, prompt: str, completion: Any, request: GenerateRequest) -> Sample:
        sample = _sample(completion, request.logprobs)
        ids = list(completion.token_ids)
        reasoning, start = self._renderer.answer(prompt, ids)
        if start == 0:
            return sample
        start = len(ids) if start is None else start
        text = str(self._tokenizer.decode(ids[start:], skip_special_tokens=True)).lstrip("\n")
        cuts = [text.index(word) for word in request.sampling.stop if word in text]
        return sample._replace(
            text=text[: min(cuts, default=None)], tokens=sample.tokens[start:], reasoning=reasoning
        )


def _sample(completion: Any, logprobs: int) -> Sample:
    rows = list(completion.logprobs or [])
    ids = list(completion.token_ids)
    sampled = [row[token] for row, token in zip(rows, ids, strict=True)]
    total = sum(token.logprob for token in sampled)
    if completion.finish_reason == "stop" and completion.stop_reason is None:
        rows, sampled = rows[:-1], sampled[:-1]  # the end-of-turn token is not part of the text
    tokens = tuple(map(partial(_token, logprobs), rows, sampled)) if logprobs else ()
    finish: Literal["stop", "length", "error"] = (
        completion.finish_reason if completion.finish_reason in ("stop", "length") else "error"
    )
    return Sample(completion.text, len(ids), total, tokens, finish)


def _token(logprobs: int, row: dict[int, Any], sampled: Any) -> TokenLogprob:
    top: dict[str, float] = {}
    for token in sorted(row.values(), key=lambda token: -token.logprob)[:logprobs]:
        top.setdefault(token.decoded_token or "", token.logprob)
    return TokenLogprob(sampled.decoded_token or "", sampled.logprob, top)
