"""Every setting of every engine, in one place. Imports nothing that an engine needs."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, ConfigDict, model_validator

from bon.core.errors import BonError
from bon.core.plugins import Added
from bon.engines.base import Engine
from bon.engines.capabilities import ENDPOINTS, HOSTS, Capabilities, EndpointName, TokenPrice
from bon.engines.fields import EngineSettings, setting

ScoreAt = Literal["end", "turn_end"]
"""Which token a reward is read at: the template's last one, or the one that ends the turn."""

Activation = Literal["silu", "tanh", "relu", "gelu"]


class HeadSettings(EngineSettings):
    """A reward head: linear layers with an activation between them."""

    layers: list[str] = setting(
        ..., "names of the linear layers, in order", shapes=True, min_length=1
    )
    activation: Activation = setting("silu", "what is between two layers", shapes=True)
    file: str | None = setting(None, "look only in this file of the checkpoint", shapes=True)


def _head(value: Any) -> Any:
    """The short form, `head: NAME`, written out."""
    return {"layers": [value]} if isinstance(value, str) and value else value


class Checkpoint(EngineSettings):
    """What the engines that load a checkpoint have in common."""

    model: str = setting(..., "folder or hub id; the card's `model`", shapes=True)
    revision: str | None = setting(None, "of the hub; the card's `revision`", shapes=True)
    trust_remote_code: bool = setting(
        False, "run Python code that comes with the checkpoint", shapes=True
    )


class NoSettings(Checkpoint):
    """Settings of `none`: told to the rewarder, which loads what it likes."""

    model: str = setting("", "the card's `model`", shapes=True)


class EchoSettings(EngineSettings):
    """Settings of `echo`."""

    latency: float = setting(
        0.0, "seconds that every request takes", shapes=False, submit=True, ge=0, le=3600
    )
    places: int | None = setting(
        None, "requests that take their time at once; null: all", shapes=False, submit=True, ge=1
    )
    failure_rate: float = setting(
        0.0, "share of requests that fail every time", shapes=True, submit=True, ge=0, le=1
    )
    flaky_rate: float = setting(
        0.0, "share that fail at their first attempt only", shapes=True, submit=True, ge=0, le=1
    )
    unparsed_rate: float = setting(
        0.0, "share of replies without a verdict", shapes=True, submit=True, ge=0, le=1
    )
    accuracy: float = setting(
        0.7, "probability of the expected reply or sign", shapes=True, submit=True, ge=0, le=1
    )
    reply: str = setting(
        "Answer: {choice}", "what it says; must hold {choice}", shapes=True, submit=True
    )

    @model_validator(mode="after")
    def _says_a_choice(self) -> Self:
        if "{choice}" not in self.reply:
            raise BonError(
                f"reply is {self.reply!r}, without {{choice}}", "e.g. 'Answer: {choice}'"
            )
        return self


class TransformersSettings(Checkpoint):
    """Settings of `transformers`."""

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = setting(
        "auto",
        "auto: float32 on a CPU, the checkpoint's own on a GPU",
        shapes=True,
        submit=True,
    )
    device: str = setting("auto", "auto, cpu, cuda or cuda:1", shapes=False, submit=True)
    # Like `device` it only says where, but the keys of 0.1 depend on it.
    device_map: str | None = setting(None, "spread over GPUs (needs accelerate)", shapes=True)
    attn_implementation: str | None = setting(
        None, "attention kernel, by transformers' name", shapes=False, submit=True
    )
    max_batch: int = setting(
        256, "sequences decoded together", shapes=False, submit=True, ge=1, le=65536
    )
    max_batch_tokens: int | None = setting(
        None,
        "their tokens; by default 131,072 on a GPU, unbounded on a CPU",
        shapes=False,
        submit=True,
        ge=1,
    )
    threads: int | None = setting(None, "CPU threads", shapes=False, submit=True, ge=1, le=4096)
    max_pixels: int | None = setting(
        None, "larger images are shrunk", shapes=True, submit=True, ge=1
    )
    head: Annotated[HeadSettings | None, BeforeValidator(_head)] = setting(
        None, "where the reward head is: auto, the name of a layer, or its parts", shapes=True
    )
    score_at: ScoreAt = setting(
        "end", "the token that a reward is read at", shapes=True, submit=True
    )
    model_args: dict[str, Any] = setting({}, "passed to the model's from_pretrained", shapes=True)
    processor_args: dict[str, Any] = setting(
        {}, "passed to the processor's from_pretrained", shapes=True
    )


class VllmFlags(EngineSettings):
    """vLLM's own flags. Those not listed here are passed on too, and count as shaping."""

    model_config = ConfigDict(extra="allow")
    near: ClassVar[float] = 0.85  # no other flag of vLLM's is so like one of these

    dtype: str | None = setting(None, "type of weights and activations", shapes=True, submit=True)
    max_model_len: int | None = setting(
        None, "longest prompt and reply together, in tokens", shapes=True, submit=True, ge=1
    )
    limit_mm_per_prompt: dict[str, Any] = setting(
        {}, "images (and so on) that a prompt may hold", shapes=True, submit=True
    )
    mm_processor_kwargs: dict[str, Any] = setting(
        {}, "settings of the image processor", shapes=True
    )
    quantization: str | None = setting(None, "how the weights are stored", shapes=True)
    kv_cache_dtype: str | None = setting(None, "type of the cache", shapes=True)
    hf_overrides: dict[str, Any] = setting({}, "laid over the checkpoint's config", shapes=True)
    gpu_memory_utilization: float | None = setting(
        None, "share of a GPU's memory", shapes=False, submit=True, gt=0, le=1
    )
    kv_cache_memory_bytes: int | None = setting(None, "memory of the cache", shapes=False, ge=1)
    max_num_seqs: int | None = setting(
        None, "sequences decoded together", shapes=False, submit=True, ge=1
    )
    max_num_batched_tokens: int | None = setting(
        None, "tokens of one step", shapes=False, submit=True, ge=1
    )
    tensor_parallel_size: int | None = setting(
        None, "GPUs that share each layer", shapes=False, submit=True, ge=1
    )
    pipeline_parallel_size: int | None = setting(
        None, "GPUs that share the layers", shapes=False, ge=1
    )
    distributed_executor_backend: str | None = setting(
        None, "how those GPUs' processes are run", shapes=False
    )
    enforce_eager: bool | None = setting(None, "no CUDA graphs", shapes=False, submit=True)
    enable_prefix_caching: bool | None = setting(
        None, "process shared beginnings once", shapes=False
    )
    enable_chunked_prefill: bool | None = setting(
        None, "long prompts in several steps", shapes=False
    )
    cpu_offload_gb: float | None = setting(
        None, "weights kept in the machine's memory, GiB", shapes=False, ge=0
    )
    mm_processor_cache_gb: float | None = setting(
        None, "memory for processed images, GiB", shapes=False, ge=0
    )
    mm_processor_cache_type: str | None = setting(None, "where that cache is kept", shapes=False)
    download_dir: str | None = setting(None, "where checkpoints are kept", shapes=False)


class VllmSettings(Checkpoint):
    """Settings of `vllm`."""

    task: Literal["generate", "reward"] = setting(
        "generate", "reward: a checkpoint with a linear head", shapes=True, submit=True
    )
    engine_args: VllmFlags = setting(
        VllmFlags(), "vLLM's flags by their Python names", shapes=True, submit=True
    )
    max_pixels: int | None = setting(
        None, "larger images are shrunk", shapes=True, submit=True, ge=1
    )
    score_at: ScoreAt = setting(
        "end", "the token that a reward is read at", shapes=True, submit=True
    )
    one_request: bool = setting(
        False,
        "ask for all samples at once, the i-th drawn with the first seed + i",
        shapes=True,
        submit=True,
    )


class OpenAISettings(EngineSettings):
    """Settings of `openai`."""

    # Two addresses that call a model by one name need not serve one model.
    base_url: str = setting(..., "the endpoint's address, up to /v1", shapes=True, submit=True)
    model: str = setting(..., "the card's `model`", shapes=True)
    api_key_env: str | None = setting(
        "OPENAI_API_KEY", "environment variable with the key; null for none", shapes=False
    )
    endpoint: EndpointName | None = setting(
        None, "what is known about the endpoint; by default from its host", shapes=True
    )
    capabilities: Capabilities = setting(Capabilities(), "corrections of it", shapes=True)
    served_as: str | None = setting(
        None,
        "the name in replies, where it is another than `model`",
        shapes=False,
        submit=True,
    )
    price: TokenPrice | None = setting(
        None, "US dollars per million tokens; the card's `cost`", shapes=False
    )
    spending_cap: float | None = setting(
        None,
        "US dollars of this model that stop the run; needs a price",
        shapes=False,
        gt=0,
    )
    spent: float = setting(0.0, "US dollars spent before", shapes=False, ge=0)
    response_format: dict[str, Any] | None = setting(
        None, "structured output, in the endpoint's own form", shapes=True
    )
    concurrency: int = setting(
        8, "requests in flight initially", shapes=False, submit=True, ge=1, le=4096
    )
    min_concurrency: int = setting(
        1, "the fewest in flight", shapes=False, submit=True, ge=1, le=4096
    )
    max_concurrency: int = setting(
        64, "the most in flight", shapes=False, submit=True, ge=1, le=4096
    )
    timeout: float = setting(
        300.0, "seconds that a request may take", shapes=False, submit=True, gt=0
    )
    retries: int = setting(
        6, "further tries after 429, 5xx or a broken connection", shapes=False, submit=True, ge=0
    )
    retry_wait: float = setting(
        1.0, "seconds before the first of them, doubled each time", shapes=False, ge=0
    )
    extra_body: dict[str, Any] = setting({}, "further fields of every request", shapes=True)

    @property
    def kind(self) -> EndpointName:
        """What the endpoint is taken for."""
        return self.endpoint or HOSTS.get(urlsplit(self.base_url).hostname or "", ("plain", ""))[0]

    @property
    def can(self) -> Capabilities:
        """What the endpoint can do."""
        changes = self.capabilities.model_dump(exclude_unset=True)
        return ENDPOINTS[self.kind].model_copy(update=changes)

    @classmethod
    def shaping(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """As for every engine, with the name of the variable that the host's key is usually in.

        Keys of 0.1 depend on `api_key_env`; with the usual name they are still those of its cards.
        """
        host = urlsplit(str(given.get("base_url", ""))).hostname or ""
        usual = HOSTS[host][1] if host in HOSTS else None
        return {**super().shaping(given), "api_key_env": usual}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BonError(
                f"base_url {self.base_url!r} is not a URL", "such as http://localhost:8000/v1"
            )
        if parts.username or parts.password or parts.query:
            raise BonError("base_url holds credentials or a query", "put the key in api_key_env")
        if self.spending_cap is not None and self.price is None:
            raise BonError(
                "spending_cap without a price",
                "set price: {input_per_million: 2.5, output_per_million: 10}",
            )
        if self.response_format is not None and not self.can.structured_output:
            raise BonError(
                f"endpoint {parts.hostname} ({self.kind}) takes no response_format",
                "drop it, or capabilities: {structured_output: true}",
            )
        return self


SETTINGS: dict[str, type[EngineSettings]] = {
    "echo": EchoSettings,
    "transformers": TransformersSettings,
    "vllm": VllmSettings,
    "openai": OpenAISettings,
    "none": NoSettings,
}


ADDED: Added[type[Engine]] = Added("bon.engines")
"""Engines of other packages, by the name that a card gives as `engine`."""


def engines() -> list[str]:
    """The names of all engines, those of other packages last."""
    return [*SETTINGS, *ADDED.names()]


def settings_of(engine: str) -> type[EngineSettings]:
    """The settings that an engine takes, or a BonError that names the nearest engine."""
    if engine in SETTINGS:
        return SETTINGS[engine]
    added = ADDED.get(engine)
    if added is None:
        known = engines()
        close = get_close_matches(engine, known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
        raise BonError(f"no engine {engine!r}", hint)
    return added.settings


def read_settings(engine: str, given: Mapping[str, Any], where: str = "") -> EngineSettings:
    """The settings of an engine, checked; loads nothing.

    Raises:
        BonError: one line: which setting is wrong and what it takes. `where` is said first.
    """
    where = f"{where}: " if where else ""
    try:
        return settings_of(engine).read(given, f"{where}engine {engine!r}")
    except BonError as error:
        if error.message.startswith(where + "engine"):
            raise
        raise BonError(f"{where}engine {engine!r}: {error.message}", error.fix) from None
