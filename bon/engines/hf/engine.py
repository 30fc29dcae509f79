"""Any Hugging Face model that reads images and text, or text alone, on CPU or GPU.

A text model with a `head` is loaded as its backbone, whatever class of reward model it is saved as.

One background thread gathers requests in flight into batches of similar length. Every sample is
drawn with its own seed, so results do not depend on the batch, up to rounding of floating-point
sums (padding changes their order).
"""

import asyncio
import gc
import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
import transformers
from PIL.Image import Image
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    GenerationConfig,
)
from transformers.utils import logging as transformers_logging

from bon.core.errors import BonError, Unsupported
from bon.core.images import downscale, open_image
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
from bon.engines.checkpoints import checkpoint
from bon.engines.hf import cpu_attention
from bon.engines.hf.decoding import (
    Decoded,
    Plan,
    decode,
    last_states,
    likelihoods,
    tail_likelihoods,
)
from bon.engines.hf.heads import Head, load_head
from bon.engines.hf.shared_prefix import (
    Tails,
    can_share,
    image_prefix,
    indices_by_value,
    share,
    truncate_inputs,
)
from bon.engines.processors import TRUST_REMOTE_CODE, counts_pixels, load_processor, loading_errors
from bon.engines.rendering import Renderer
from bon.engines.settings import TransformersSettings

MAX_GPU_TOKENS = 131_072
"""Of a batch on a GPU."""
_DEVICE_LOCKS: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
"""Engines that share a process take turns on a device."""


class TransformersEngine(Engine):
    """One loaded checkpoint; with a `head`, a scalar reward model."""

    name: ClassVar[str] = "transformers"

    def __init__(self, settings: TransformersSettings) -> None:
        self._settings = settings
        device, gpu = settings.device, torch.cuda.is_available()
        if device.startswith("cuda") and not gpu:
            fix = "device: auto or cpu"
            raise BonError(f"device {device!r}: this machine has no usable GPU", fix)
        self.device = torch.device(("cuda" if gpu else "cpu") if device == "auto" else device)
        self._max_batch = settings.max_batch
        self._set_threads()
        with _loading(settings.model):
            self._load(settings)
        self.tokenizer = getattr(self.processor, "tokenizer", self.processor)
        self.tokenizer.padding_side = "left"
        if self.tokenizer.pad_token_id is None:  # masked, so that any token will do
            filler = self.tokenizer.eos_token or self.tokenizer.convert_ids_to_tokens(0)
            self.tokenizer.pad_token = filler
        self._renderer = Renderer(
            self.processor,
            settings.model,
            kwargs=settings.chat_template_kwargs,
            reads_images=self._reads_images,
        )
        generates = self.model.can_generate()
        configured = self.model.generation_config.eos_token_id if generates else None
        ends = configured if isinstance(configured, list) else [configured]
        self._end_ids = frozenset({*ends, self.tokenizer.eos_token_id} - {None})
        self._shares = can_share(self.model, self.processor)
        # Requests define sampling; a checkpoint's own defaults must not.
        self.model.generation_config = GenerationConfig()
        self._word = cache(lambda token: str(self.tokenizer.decode([token])))
        self._downscale_to = settings.max_pixels
        if settings.max_pixels and counts_pixels(self.processor):  # it limits them itself
            image_processor, self._downscale_to = self.processor.image_processor, None
            smallest = min(image_processor.size["shortest_edge"], settings.max_pixels)
            sizes = {"shortest_edge": smallest, "longest_edge": settings.max_pixels}
            image_processor.size = sizes
        self._batcher = Batcher(self, on_start=self._set_threads)

    def _load(self, settings: TransformersSettings) -> None:
        folder = str(Path(settings.model).expanduser())
        source = {"revision": settings.revision, "trust_remote_code": settings.trust_remote_code}
        self.processor = load_processor(folder, **source)
        auto = torch.float32 if self.device.type == "cpu" else "auto"
        kind = checkpoint(folder, settings.revision, download=True)
        self._reads_images = kind is None or kind.reads_images
        if kind is not None and not settings.head:
            kind.check_writes("kind: scalar with engine_args: {head: auto}")
        text_class = AutoModel if settings.head else AutoModelForCausalLM
        model_class = AutoModelForImageTextToText if self._reads_images else text_class
        self.model, report = model_class.from_pretrained(
            folder,
            dtype=auto if settings.dtype == "auto" else getattr(torch, settings.dtype),
            attn_implementation=settings.attn_implementation,
            device_map=settings.device_map,
            output_loading_info=True,
            **source,
            **settings.model_args,
        )
        # Weights that are missing would be initialised at random.
        missing = sorted(map(str, [*report["missing_keys"], *report["mismatched_keys"]]))
        self._writes = self.model.can_generate()
        if settings.head:  # reward models may be saved without the language-model head
            rest = [name for name in missing if not name.startswith("lm_head")]
            missing, self._writes = rest, self._writes and rest == missing
        if missing:
            problem = f"lacks {len(missing)} of its weights, such as {missing[0]}"
            fix = "the checkpoint is incomplete or of another architecture"
            raise BonError(f"model {settings.model!r} {problem}", fix)
        self.model.eval()
        if settings.device_map is None:
            self.model.to(self.device)
        if self.device.type == "cpu" and settings.attn_implementation is None:
            cpu_attention.install(self.model)
        self.head: Head | None = None
        if settings.head:
            self.head = load_head(folder, settings.head, settings.revision, self.device)

    async def generate(self, request: GenerateRequest) -> Generation:
        """Sample completions, the i-th with `seeds[i]` alone."""
        self._needs_writer()
        return cast(Generation, await self._batcher.submit("generate", request))

    async def likelihood(self, request: ScoreRequest) -> Likelihood:
        """Log-probability of the last assistant message, its end-of-turn token included."""
        self._needs_writer()
        return cast(Likelihood, await self._batcher.submit("likelihood", request))

    async def reward(self, request: ScoreRequest) -> Reward:
        """Raw score of the reward head at the end of the conversation."""
        if self.head is None:
            problem = f"model {self._settings.model!r} was loaded without a reward head"
            raise Unsupported(problem, "set head: auto in its engine args")
        return cast(Reward, await self._batcher.submit("reward", request))

    def _needs_writer(self) -> None:
        if not self._writes:
            problem = f"model {self._settings.model!r} was loaded for its reward head alone"
            raise Unsupported(problem, "leave head out of the engine args of a model that writes")

    def info(self) -> dict[str, Any]:
        """Settings, versions, and what was loaded."""
        image_processor = getattr(self.processor, "image_processor", None)
        name = f"{torch.get_num_threads()} of {os.cpu_count()} CPU threads"
        if self.device.type == "cuda":
            name = str(torch.cuda.get_device_name(self.device))
        return {
            "engine": self.name,
            **self._settings.model_dump(),
            "device": str(self.device),
            "device_name": name,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "attn_implementation": getattr(self.model.config, "_attn_implementation", None),
            "architecture": type(self.model).__name__,
            "commit": getattr(self.model.config, "_commit_hash", None),
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "image_processor": type(image_processor).__name__ if image_processor else None,
            "head": self.head.names if self.head is not None else None,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "warning": self._renderer.warning,
            "batch_stable": "seeds belong to samples; equal up to floating-point sums",
        }

    async def close(self) -> None:
        """Stop the thread and free the model."""
        await asyncio.to_thread(self._batcher.close)
        self.model = self.processor = self.head = None
        if self.device.type == "cuda":
            gc.collect()
            torch.cuda.empty_cache()

    # ------------------------------------------------------------ called by the batching thread

    def prepare(self, job: Job) -> None:
        """Render the text and open the images of one request."""
        request, response, sampling = job.request, "", None
        if job.kind == "generate":
            rendered = self._renderer.prompt(request.messages)
            sampling, job.rows = request.sampling, len(request.seeds)
        elif job.kind == "likelihood":
            rendered, response = self._renderer.response(request.messages)
        else:
            rendered = self._renderer.conversation(request.messages, self._settings.score_at)
        images = [_open(part) for part in rendered.images]
        if self._downscale_to:
            images = [downscale(image, self._downscale_to) for image in images]
        # An estimate suffices to sort and to bound memory; 784 pixels per token is Qwen's rate.
        pixels = sum(image.width * image.height for image in images)
        job.length = (len(rendered.text) + len(response)) // 3 + pixels // 784
        job.length += sampling.max_new_tokens if sampling else 0
        # Some processors refuse a batch in which only some prompts have images, and Mllama's
        # output depends on how many the others have: a batch has one number of images.
        job.key = (job.kind, sampling, len(images))
        job.prepared = (rendered.text, images, response)
        job.group = tuple(part.sha256 for part in rendered.images)

    def fits(self, rows: int, length: int) -> bool:
        """Whether a batch of so many sequences, none longer than `length`, is allowed."""
        few = self.device.type != "cuda" or rows * length <= MAX_GPU_TOKENS
        return rows <= self._max_batch and few

    def run(self, jobs: list[Job]) -> list[Any]:
        """Run one batch; halve the batch size permanently when the device runs out of memory."""
        try:
            with _DEVICE_LOCKS[str(self.device)], torch.inference_mode():
                return cast(list[Any], getattr(self, f"_{jobs[0].kind}")(jobs))
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
        top, sampling = max(job.request.logprobs for job in jobs), jobs[0].request.sampling
        pairs = [(i, seed) for i, job in enumerate(jobs) for seed in job.request.seeds]
        samples: list[list[Sample]] = [[] for _ in jobs]
        lengths: dict[int, int] = {}
        for start in range(0, len(pairs), self._max_batch):
            chunk = pairs[start : start + self._max_batch]
            used = sorted({i for i, _ in chunk})
            inputs, tails, chunk_lengths = self._prompts([jobs[i] for i in used])
            lengths |= zip(used, chunk_lengths, strict=True)
            plan = Plan(
                [used.index(i) for i, _ in chunk],
                [seed for _, seed in chunk],
                sampling,
                top,
                self._end_ids,
                lambda ids: _stop_index(self._text(ids), sampling.stop) is not None,
                [partial(self._renderer.answer, jobs[i].prepared[0]) for i, _ in chunk],
                self._renderer.closing_ids if self._renderer.thinking else [],
            )
            rows = decode(self.model, inputs, plan, self.tokenizer.pad_token_id, tails)
            for (i, _), row in zip(chunk, rows, strict=True):
                samples[i].append(self._sample(row, jobs[i]))
        return [Generation(tuple(rows), lengths[i]) for i, rows in enumerate(samples)]

    def _likelihood(self, jobs: list[Job]) -> list[Likelihood]:
        responses = [
            self.tokenizer(job.prepared[2], add_special_tokens=False)["input_ids"] for job in jobs
        ]
        pad_id = self.tokenizer.pad_token_id
        groups = indices_by_value([(job.prepared[0], job.group) for job in jobs])
        shares = self._shares and bool(jobs[0].group) and len(groups) < len(jobs)
        if shares:  # a prefix must end in text, whose position is known
            firsts = [jobs[group[0]].prepared[0] for group in groups]
            rests = [text[len(image_prefix(text, self.processor)) :] for text in firsts]
            shares = min(map(len, self.tokenizer(rests, add_special_tokens=False)["input_ids"])) > 1
        inputs = self._inputs([jobs[group[0]] for group in groups] if shares else jobs)
        lengths = inputs["attention_mask"].sum(-1).tolist()
        if shares:  # all but the last token of a prompt is read once
            last_ids = inputs["input_ids"][:, -1].tolist()
            prefix_of = {job: at for at, group in enumerate(groups) for job in group}
            prefixes = tuple(prefix_of[job] for job in range(len(jobs)))
            rows = zip(prefixes, responses, strict=True)
            tails = Tails(prefixes, tuple((last_ids[at], *ids) for at, ids in rows))
            inputs = truncate_inputs(inputs, [length - 1 for length in lengths], pad_id)
            sums = tail_likelihoods(self.model, inputs, tails, pad_id)
            lengths = [lengths[at] for at in prefixes]
        else:
            sums = likelihoods(self.model, inputs, responses, pad_id)
        return [
            Likelihood(total, len(ids), length)
            for total, ids, length in zip(sums.tolist(), responses, lengths, strict=True)
        ]

    def _reward(self, jobs: list[Job]) -> list[Reward]:
        assert self.head is not None
        inputs, tails, lengths = self._prompts(jobs)
        hidden = last_states(self.model, inputs, tails, self.tokenizer.pad_token_id)
        scores = self.head(hidden.to(self.device)).tolist()
        return [Reward(score, length) for score, length in zip(scores, lengths, strict=True)]

    def _prompts(self, jobs: list[Job]) -> tuple[dict[str, Any], Tails | None, list[int]]:
        """Return the batch as tensors, the tails still to be read, and tokens per prompt.

        Prompts that share images are read as prefixes and tails where that saves something.
        """
        texts = [job.prepared[0] for job in jobs]
        prefixes = [image_prefix(text, self.processor) for text in texts]
        groups = indices_by_value(
            [(prefix, job.group) for prefix, job in zip(prefixes, jobs, strict=True)]
        )
        if self._shares and jobs[0].group and len(groups) < len(jobs):
            inputs = self._inputs([jobs[group[0]] for group in groups])
            mask = inputs["attention_mask"].bool()
            first_ids = [
                ids[row].tolist() for ids, row in zip(inputs["input_ids"], mask, strict=True)
            ]
            shared = share(texts, prefixes, groups, first_ids, self.tokenizer)
            if shared is not None:
                prefix_lengths, tails, lengths = shared
                inputs = truncate_inputs(inputs, prefix_lengths, self.tokenizer.pad_token_id)
                return inputs, tails, lengths
        inputs = self._inputs(jobs)
        return inputs, None, inputs["attention_mask"].sum(-1).tolist()

    def _inputs(self, jobs: list[Job]) -> dict[str, Any]:
        texts, images, _ = zip(*(job.prepared for job in jobs), strict=True)
        options = {"padding": True, "padding_side": "left", "add_special_tokens": False}
        if not self._reads_images:
            texts_alone = self.tokenizer(list(texts), return_tensors="pt", **options)
            names = ("input_ids", "attention_mask")
            return {name: texts_alone[name].to(self.device) for name in names}
        shown = [row for row in images if row] or None
        batch = self.processor(text=list(texts), images=shown, return_tensors="pt", **options)
        return dict(batch.to(self.device, self.model.dtype))

    def _sample(self, row: Decoded, job: Job) -> Sample:
        request: GenerateRequest = job.request
        ids = row.ids[:-1] if row.ids and row.ids[-1] in self._end_ids else row.ids
        reasoning, start = self._renderer.answer(job.prepared[0], ids)
        start = len(ids) if start is None else start
        text = self._text(ids[start:])
        text = text.lstrip("\n") if start else text
        text = text[: _stop_index(text, request.sampling.stop)]
        listed = range(start, len(ids)) if request.logprobs else ()
        tokens = tuple(self._token(row, i, request.logprobs) for i in listed)
        return Sample(text, len(row.ids), sum(row.logprobs), tokens, row.finish, reasoning)

    def _token(self, row: Decoded, index: int, count: int) -> TokenLogprob:
        top: dict[str, float] = {}
        alternatives = zip(row.top_ids[index], row.top_logprobs[index], strict=True)
        for token, value in islice(alternatives, count):
            top.setdefault(self._word(token), value)  # the likeliest of tokens with one spelling
        return TokenLogprob(self._word(row.ids[index]), row.logprobs[index], top)

    def _text(self, ids: list[int]) -> str:
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        return str(self.tokenizer.decode(ids, **options))

    def _set_threads(self) -> None:
        # Ray sets OMP_NUM_THREADS=1 in actors, and torch's number of threads is per thread.
        if self._settings.threads:
            torch.set_num_threads(self._settings.threads)


def _stop_index(text: str, stop: tuple[str, ...]) -> int | None:
    return min((index for word in stop if (index := text.find(word)) >= 0), default=None)


_FIXES = {
    "OutOfMemory": "set dtype: bfloat16, device_map: auto over more GPUs, or take a smaller model",
    **TRUST_REMOTE_CODE,
    "accelerate": "pip install 'bon[transformers]'",
    "torchvision": "pip install 'bon[vision]'",
    "^(Import|ModuleNotFound)Error": "install the named package",
    "gated|401|403": "accept its licence on the hub, then: hf auth login",
    "Unrecognized configuration class|model type": (
        "this engine runs image-text-to-text and causal language models; a newer transformers may "
        "know this one"
    ),
}


@contextmanager
def _loading(model: str) -> Iterator[None]:
    """Load without transformers' messages; errors name the fix."""
    looks_like_path = model.startswith((".", "/", "~")) or model.count("/") > 1
    if looks_like_path and not Path(model).expanduser().is_dir():
        raise BonError(f"model folder {model!r} does not exist", "correct the path")
    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    default = "check the folder or id, the revision, and that the hub can be reached"
    try:
        with loading_errors(model, _FIXES, default):
            yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


@lru_cache(maxsize=128)  # requests about one question come together
def _open(part: ImagePart) -> Image:
    return open_image(part.data)
