"""Any Hugging Face image-text-to-text model, on the CPU or on GPUs.

Requests in flight are gathered by one background thread into batches of similar length. Every
sample is drawn with its own seed, so results do not depend on what shared the batch, up to the
last bits of floating-point sums (padding changes their order).
"""

import asyncio
import gc
import os
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import torch
import transformers
from PIL.Image import Image
from transformers import AutoModelForImageTextToText, GenerationConfig
from transformers.utils import logging as transformers_logging

from bon.core.errors import BonError, Unsupported
from bon.core.images import downscale, open_image
from bon.engines import cpu_attention, cpu_memory
from bon.engines.base import (
    Engine,
    GenerateRequest,
    Generation,
    ImagePart,
    Likelihood,
    Reward,
    Sample,
    ScoreRequest,
    TokenLogprob,
)
from bon.engines.batching import Batcher, Job
from bon.engines.decoding import Decoded, Decoding, decode
from bon.engines.heads import Head, load_head
from bon.engines.processors import counts_pixels, load_processor
from bon.engines.reading import last_states, likelihoods, likelihoods_of_prompts
from bon.engines.rendering import Renderer
from bon.engines.settings import TransformersSettings
from bon.engines.shared_prefix import Tails, beginnings, can_share, groups_of, head_of, share

_DEVICE_LOCKS: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
"""Several small engines may share a process: their models take turns on a device."""


class TransformersEngine(Engine):
    """One loaded checkpoint; with a `head`, a scalar reward model."""

    name: ClassVar[str] = "transformers"

    def __init__(self, settings: TransformersSettings) -> None:
        self._settings = settings
        self.device = torch.device(_device(settings.device))
        self._threads = settings.threads
        self._max_pixels = settings.max_pixels
        self._max_batch = settings.max_batch
        self._max_tokens = settings.max_batch_tokens
        if self._max_tokens is None and self.device.type == "cuda":
            self._max_tokens = 131_072
        self._set_threads()
        if self.device.type == "cpu":
            cpu_memory.keep_freed()
        model, device_map = settings.model, settings.device_map
        folder = str(Path(model).expanduser())
        shared = {
            "revision": settings.revision,
            "trust_remote_code": settings.trust_remote_code,
        }
        with _loading(model):
            self.processor = load_processor(folder, **shared, **settings.processor_args)
            self.model, report = AutoModelForImageTextToText.from_pretrained(
                folder,
                dtype=_dtype(settings.dtype, self.device),
                attn_implementation=settings.attn_implementation,
                device_map=device_map,
                output_loading_info=True,
                **shared,
                **settings.model_args,
            )
            _check_complete(model, report, settings.head is not None)
            self.model.eval()
            if device_map is None:
                self.model.to(self.device)
            if self.device.type == "cpu" and settings.attn_implementation is None:
                cpu_attention.use(self.model)
            self.head: Head | None = (
                load_head(folder, settings.head, settings.revision, self.device)
                if settings.head
                else None
            )
        self.tokenizer = getattr(self.processor, "tokenizer", self.processor)
        self.tokenizer.padding_side = "left"
        if self.tokenizer.pad_token_id is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        self._renderer = Renderer(self.processor, model)
        self._end_ids = _end_ids(self.model, self.tokenizer)
        self._shares = can_share(self.model, self.processor)
        # Sampling is always what the request says, never a checkpoint's own defaults.
        self.model.generation_config = GenerationConfig()
        self._words: dict[int, str] = {}
        self._shrink = _limit_pixels(self.processor, settings.max_pixels)
        self._batcher = Batcher(self, on_start=self._set_threads)

    async def generate(self, request: GenerateRequest) -> Generation:
        """Sample completions, the i-th with `seeds[i]` alone."""
        result: Generation = await self._batcher.submit("generate", request)
        return result

    async def likelihood(self, request: ScoreRequest) -> Likelihood:
        """Log-probability of the last assistant message, its end-of-turn token included."""
        result: Likelihood = await self._batcher.submit("likelihood", request)
        return result

    async def reward(self, request: ScoreRequest) -> Reward:
        """The head's number at the end of the conversation."""
        if self.head is None:
            raise Unsupported(
                f"model {self._settings.model!r} was loaded without a reward head",
                "set head: auto in its engine args",
            )
        result: Reward = await self._batcher.submit("reward", request)
        return result

    def info(self) -> dict[str, Any]:
        """Settings, versions, and what was really loaded."""
        image_processor = getattr(self.processor, "image_processor", None)
        return {
            "engine": self.name,
            **self._settings.model_dump(),
            "device": str(self.device),
            "device_name": _device_name(self.device),
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "attn_implementation": getattr(self.model.config, "_attn_implementation", None),
            "architecture": type(self.model).__name__,
            "commit": getattr(self.model.config, "_commit_hash", None),
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "image_processor": type(image_processor).__name__ if image_processor else None,
            "head": self.head.names if self.head is not None else None,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "batch_stable": "seeds belong to samples; equal up to floating-point sums",
        }

    async def close(self) -> None:
        """Stop the thread and free the model."""
        await asyncio.to_thread(self._batcher.close)
        self.model = self.processor = self.head = None
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    # What the batching thread calls -------------------------------------------------------

    def prepare(self, job: Job) -> None:
        """Render the text and open the images of one request."""
        request, response = job.request, ""
        if job.kind == "generate":
            rendered = self._renderer.prompt(request.messages)
            job.key = ("generate", request.sampling)
            job.rows = len(request.seeds)
        elif job.kind == "likelihood":
            rendered, response = self._renderer.response(request.messages)
            job.key = ("likelihood",)
        else:
            rendered = self._renderer.conversation(request.messages, self._settings.score_at)
            job.key = ("reward",)
        images = [_opened(part) for part in rendered.images]
        if self._shrink and self._max_pixels:
            images = [downscale(image, self._max_pixels) for image in images]
        # An estimate is enough: it sorts, and bounds memory. 784 pixels a token is Qwen's rate.
        pixels = sum(image.width * image.height for image in images)
        job.length = (len(rendered.text) + len(response)) // 3 + pixels // 784
        if job.kind == "generate":
            job.length += request.sampling.max_tokens
        # Some processors refuse a batch in which only some have images, and Mllama answers
        # otherwise where others have more: what shares a batch has as many.
        job.key = (*job.key, len(images))
        job.prepared = (rendered.text, images, response)
        job.group = tuple(part.sha256 for part in rendered.images)

    def fits(self, rows: int, length: int) -> bool:
        """Whether a batch of so many sequences, none longer than `length`, may be run."""
        tokens = self._max_tokens
        return rows <= self._max_batch and (tokens is None or rows * length <= tokens)

    def run(self, jobs: list[Job]) -> list[Any]:
        """One batch; halved for good when the device runs out of memory."""
        try:
            with _DEVICE_LOCKS[str(self.device)], torch.inference_mode():
                if jobs[0].kind == "generate":
                    return list(self._generate(jobs))
                if jobs[0].kind == "likelihood":
                    return list(self._likelihood(jobs))
                return list(self._reward(jobs))
        except torch.OutOfMemoryError:
            rows = min(self._max_batch, sum(job.rows for job in jobs))
        gc.collect()
        torch.cuda.empty_cache()
        if rows == 1:
            raise MemoryError(
                f"{self.device} ran out of memory on a single sequence of "
                f"{jobs[0].length} tokens: set max_pixels, a smaller dtype or device_map: auto"
            )
        self._max_batch = rows // 2
        if len(jobs) == 1:
            return self.run(jobs)
        half = len(jobs) // 2
        return self.run(jobs[:half]) + self.run(jobs[half:])

    def _generate(self, jobs: list[Job]) -> list[Generation]:
        top = max(job.request.logprobs for job in jobs)
        pairs = [(i, seed) for i, job in enumerate(jobs) for seed in job.request.seeds]
        samples: list[list[Sample]] = [[] for _ in jobs]
        lengths = [0] * len(jobs)
        sampling = jobs[0].request.sampling
        for start in range(0, len(pairs), self._max_batch):
            chunk = pairs[start : start + self._max_batch]
            used = sorted({i for i, _ in chunk})
            inputs, tails, sizes = self._prompts([jobs[i] for i in used])
            for i, length in zip(used, sizes, strict=True):
                lengths[i] = length
            plan = Decoding(
                [used.index(i) for i, _ in chunk],
                [seed for _, seed in chunk],
                sampling,
                top,
                self._end_ids,
                lambda ids: self._stop_at(self._text(ids), sampling.stop) is not None,
            )
            rows = decode(self.model, inputs, plan, self.tokenizer.pad_token_id, tails)
            for (i, _), row in zip(chunk, rows, strict=True):
                samples[i].append(self._sample(row, jobs[i].request))
        return [Generation(tuple(s), n) for s, n in zip(samples, lengths, strict=True)]

    def _likelihood(self, jobs: list[Job]) -> list[Likelihood]:
        responses = [
            self.tokenizer(job.prepared[2], add_special_tokens=False)["input_ids"] for job in jobs
        ]
        groups = groups_of([(job.prepared[0], job.group) for job in jobs])
        if not (self._shares and jobs[0].group):
            groups = [[place] for place in range(len(jobs))]
        inputs = self._inputs([jobs[group[0]] for group in groups])
        lengths = inputs["attention_mask"].sum(-1).tolist()
        of = {place: number for number, group in enumerate(groups) for place in group}
        pad_id = self.tokenizer.pad_token_id
        if len(groups) < len(jobs):
            prompts = [of[place] for place in range(len(jobs))]
            sums = likelihoods_of_prompts(self.model, inputs, prompts, responses, pad_id)
        else:
            sums = likelihoods(self.model, inputs, responses, pad_id)
        return [
            Likelihood(total, len(ids), lengths[of[place]])
            for place, (total, ids) in enumerate(zip(sums, responses, strict=True))
        ]

    def _reward(self, jobs: list[Job]) -> list[Reward]:
        assert self.head is not None
        inputs, tails, lengths = self._prompts(jobs)
        hidden = last_states(self.model, inputs, tails, self.tokenizer.pad_token_id)
        scores = self.head(hidden.to(self.device)).tolist()
        return [Reward(score, length) for score, length in zip(scores, lengths, strict=True)]

    def _prompts(self, jobs: list[Job]) -> tuple[dict[str, Any], Sequence[Tails], list[int]]:
        """The batch as tensors, what of it is left to read, and how many tokens prompts have.

        Prompts that share images are read as beginnings and tails where that saves something.
        """
        texts = [job.prepared[0] for job in jobs]
        heads = [head_of(text, self.processor) for text in texts]
        groups = groups_of([(head, job.group) for head, job in zip(heads, jobs, strict=True)])
        if self._shares and jobs[0].group and len(groups) < len(jobs):
            inputs = self._inputs([jobs[group[0]] for group in groups])
            mask = inputs["attention_mask"].bool()
            whole = [
                ids[kept].tolist() for ids, kept in zip(inputs["input_ids"], mask, strict=True)
            ]
            shared = share(texts, heads, groups, whole, self.tokenizer)
            if shared is not None:
                cut = beginnings(inputs, shared.lengths, self.tokenizer.pad_token_id)
                return cut, shared.tails, list(shared.sizes)
        inputs = self._inputs(jobs)
        return inputs, (), inputs["attention_mask"].sum(-1).tolist()

    def _inputs(self, jobs: list[Job]) -> dict[str, Any]:
        """The batch as tensors, padded on the left so that all prompts end together."""
        images = [job.prepared[1] for job in jobs]
        batch = self.processor(
            text=[job.prepared[0] for job in jobs],
            images=[each for each in images if each] or None,
            padding=True,
            padding_side="left",
            return_tensors="pt",
            add_special_tokens=False,
        )
        return dict(batch.to(self.device, self.model.dtype))

    def _sample(self, row: Decoded, request: GenerateRequest) -> Sample:
        ended = bool(row.ids) and row.ids[-1] in self._end_ids
        ids = row.ids[:-1] if ended else row.ids
        text = self._text(ids)
        stop = self._stop_at(text, request.sampling.stop)
        tokens: tuple[TokenLogprob, ...] = ()
        if request.logprobs:
            tokens = tuple(self._token(row, i, request.logprobs) for i in range(len(ids)))
        return Sample(
            text if stop is None else text[:stop],
            len(row.ids),
            sum(row.logprobs),
            tokens,
            row.finish,
        )

    def _token(self, row: Decoded, index: int, count: int) -> TokenLogprob:
        top: dict[str, float] = {}
        for token, value in zip(
            row.top_ids[index][:count], row.top_logprobs[index][:count], strict=True
        ):
            top.setdefault(self._word(token), value)  # of tokens that read the same, the likeliest
        return TokenLogprob(self._word(row.ids[index]), row.logprobs[index], top)

    def _word(self, token: int) -> str:
        if token not in self._words:
            self._words[token] = self.tokenizer.decode([token])
        return self._words[token]

    def _text(self, ids: list[int]) -> str:
        return str(
            self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        )

    @staticmethod
    def _stop_at(text: str, stop: tuple[str, ...]) -> int | None:
        found = [place for place in (text.find(word) for word in stop) if place >= 0]
        return min(found, default=None)

    def _set_threads(self) -> None:
        # Ray sets OMP_NUM_THREADS to 1 in actors, so the count is set on purpose, per thread.
        if self._threads:
            torch.set_num_threads(self._threads)


@contextmanager
def _loading(model: str) -> Iterator[None]:
    """Quiet loading; whatever from_pretrained raises becomes one line that says what to do."""
    looks_like_path = model.startswith((".", "/", "~")) or model.count("/") > 1
    if looks_like_path and not Path(model).expanduser().is_dir():
        raise BonError(f"model folder {model!r} does not exist", "correct the path")
    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    except BonError:
        raise
    except Exception as error:
        raise BonError(f"model {model!r} failed to load: {_line(error)}", _fix(error)) from error
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


@lru_cache(maxsize=128)
def _opened(part: ImagePart) -> Image:
    """An image once decoded serves all requests about its question, which come together."""
    return open_image(part.data)


def _check_complete(model: str, report: dict[str, Any], has_head: bool) -> None:
    """Weights that the checkpoint lacks would be random ones: refuse to run such a model."""
    missing = sorted(map(str, [*report["missing_keys"], *report["mismatched_keys"]]))
    if has_head:  # a reward model may have been saved without the layer that predicts tokens
        missing = [name for name in missing if not name.startswith("lm_head")]
    if missing:
        raise BonError(
            f"model {model!r} lacks {len(missing)} of its weights, such as {missing[0]}",
            "the checkpoint is incomplete or made for another architecture",
        )


def _line(error: BaseException) -> str:
    """The first line that says something; these messages run to pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]


def _fix(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, torch.OutOfMemoryError):
        return "set dtype: bfloat16, device_map: auto over more GPUs, or take a smaller model"
    if "trust_remote_code" in text:
        return "set trust_remote_code: true if you trust the code of this checkpoint"
    if "accelerate" in text.lower():
        return "pip install accelerate"
    if isinstance(error, ImportError):
        return "install the package that is named"
    if "gated" in text or "401" in text or "403" in text:
        return "accept its licence on the hub, then: hf auth login"
    if "Unrecognized configuration class" in text or "model type" in text:
        return "this engine runs image-text-to-text models; a newer transformers may know this one"
    return "check the folder or id, the revision, and that the hub can be reached"


def _device(device: str) -> str:
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise BonError(f"device {device!r}: this machine has no usable GPU", "device: auto or cpu")
    return device


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"{torch.get_num_threads()} of {os.cpu_count()} CPU threads"


def _dtype(dtype: str, device: torch.device) -> Any:
    if dtype == "auto":
        return torch.float32 if device.type == "cpu" else "auto"
    return getattr(torch, dtype)


def _end_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every token that ends a turn, by the model's generation settings and its tokenizer."""
    configured = model.generation_config.eos_token_id
    ids = configured if isinstance(configured, list) else [configured]
    return frozenset(i for i in [*ids, tokenizer.eos_token_id] if i is not None)


def _limit_pixels(processor: Any, max_pixels: int | None) -> bool:
    """Tell the image processor its limit; True where it knows none and we shrink ourselves."""
    if max_pixels is None:
        return False
    if counts_pixels(processor):
        image_processor = processor.image_processor
        smallest = min(image_processor.size["shortest_edge"], max_pixels)
        image_processor.size = {"shortest_edge": smallest, "longest_edge": max_pixels}
        return False
    return True
