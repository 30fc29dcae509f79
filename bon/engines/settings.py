"""The settings of every engine that ships with bon. Imports nothing that an engine needs."""

from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from bon.core.errors import BonError
from bon.core.validation import MAX_ITEMS, Location, Name, Values, Word, is_address
from bon.engines.fields import EngineSettings, setting

shaping = partial(setting, shapes=True)
speed = partial(setting, shapes=False)  # or money, or access
# The same, and experiments submitted to the service may set it.
open_shaping = partial(shaping, submit=True)
open_speed = partial(speed, submit=True)

ScoreAt = Literal["end", "turn_end"]
"""The token whose hidden state the reward head reads: the last one, or the end-of-turn token."""

Activation = Literal["silu", "tanh", "relu", "gelu"]


class HeadSettings(EngineSettings):
    """A reward head: linear layers with activations in between."""

    layers: list[str] = shaping(..., "names of the linear layers, in order", min_length=1)
    activation: Activation = shaping("silu", "activation between layers")
    file: str | None = shaping(None, "look only in this file of the checkpoint")
    output: int | None = shaping(None, "which of several outputs is the reward, from 0", ge=0)


def _head(value: Any) -> Any:
    """Expand the short form `head: NAME`."""
    return {"layers": [value]} if isinstance(value, str) and value else value


def _no_template(value: dict[str, Any]) -> dict[str, Any]:
    """Refuse what is no variable of the template, but another template or an argument."""
    known = ("chat_template", "tools", "documents", "conversation", "processor_kwargs")
    for name in value:
        if name in known or name.startswith(("tokenize", "return_", "add_generation", "continue_")):
            fix = "a template of your own is the checkpoint's file chat_template.jinja"
            raise ValueError(f"`{name}` is no variable of a template", fix)
    return value


TemplateValues = Annotated[Values, AfterValidator(_no_template)]


def _template_values() -> Any:
    return open_shaping({}, "passed to the chat template, e.g. {enable_thinking: false}")


class Checkpoint(EngineSettings):
    """Settings shared by engines that load a checkpoint."""

    model: str = shaping(..., "folder or hub id; the card's `model`")
    revision: str | None = shaping(None, "commit or branch on the hub; the card's `revision`")
    trust_remote_code: bool = shaping(False, "run Python code that comes with the checkpoint")


class NoSettings(Checkpoint):
    """Settings of `none`, passed to the rewarder, which loads its own model."""

    model: str = shaping("", "the card's `model`")


class EchoSettings(EngineSettings):
    """Settings of `echo`."""

    latency: float = open_speed(0.0, "seconds per request", ge=0, le=3600)
    places: int | None = open_speed(
        None, "requests that wait concurrently; null: all", ge=1, le=65536
    )
    failure_rate: float = open_shaping(0.0, "share of requests that fail every time", ge=0, le=1)
    flaky_rate: float = open_shaping(
        0.0, "share of requests that fail on the first attempt only", ge=0, le=1
    )
    unparsed_rate: float = open_shaping(0.0, "share of replies without a verdict", ge=0, le=1)
    accuracy: float = open_shaping(0.7, "probability of a correct reply or sign", ge=0, le=1)
    reply: Word = open_shaping("Answer: {choice}", "template of the reply; must contain {choice}")

    @model_validator(mode="after")
    def _has_choice(self) -> Self:
        if "{choice}" not in self.reply:
            fix = "e.g. 'Answer: {choice}'"
            raise BonError(f"reply is {self.reply!r}, without {{choice}}", fix)
        return self


class TransformersSettings(Checkpoint):
    """Settings of `transformers`."""

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = open_shaping(
        "auto", "auto: float32 on a CPU, the checkpoint's own on a GPU"
    )
    device: Name = open_speed("auto", "auto, cpu, cuda or cuda:1")
    device_map: str | None = speed(None, "auto: shard over GPUs")
    attn_implementation: Name | None = open_speed(None, "attention kernel, by transformers' name")
    max_batch: int = open_speed(256, "sequences decoded together", ge=1, le=65536)
    threads: int | None = open_speed(None, "CPU threads", ge=1, le=4096)
    max_pixels: int | None = open_shaping(None, "larger images are downscaled", ge=1, le=10**9)
    head: Annotated[HeadSettings | None, BeforeValidator(_head)] = shaping(
        None, "reward head: auto, the name of a layer, or a mapping"
    )
    score_at: ScoreAt = open_shaping("end", "token at which the reward is read")
    chat_template_kwargs: TemplateValues = _template_values()
    model_args: dict[str, Any] = shaping({}, "passed to the model's from_pretrained")

    @model_validator(mode="after")
    def _kernel_is_local(self) -> Self:
        if "/" in (self.attn_implementation or "") and not self.trust_remote_code:
            fix = "name one of transformers' own (sdpa), or set trust_remote_code: true"
            raise BonError(f"attn_implementation {self.attn_implementation!r} is code", fix)
        return self


class VllmFlags(EngineSettings):
    """vLLM's engine arguments. Unlisted ones are passed on and count as shaping."""

    model_config = ConfigDict(extra="allow")
    near: ClassVar[float] = 0.85  # no two flags of vLLM are this similar

    dtype: Name | None = open_shaping(None, "dtype of weights and activations")
    max_model_len: int | None = open_shaping(
        None, "maximum tokens of prompt and reply", ge=1, le=10**8
    )
    limit_mm_per_prompt: Values = open_shaping({}, "images (and other media) per prompt")
    mm_processor_kwargs: dict[str, Any] = shaping({}, "settings of the image processor")
    quantization: str | None = shaping(None, "quantization method of the weights")
    kv_cache_dtype: str | None = shaping(None, "dtype of the KV cache")
    hf_overrides: dict[str, Any] = shaping({}, "overrides of the checkpoint's config")
    gpu_memory_utilization: float | None = open_speed(
        None, "share of GPU memory to use", gt=0, le=1
    )
    kv_cache_memory_bytes: int | None = speed(None, "memory of the KV cache", ge=1)
    max_num_seqs: int | None = open_speed(None, "sequences decoded together", ge=1, le=65536)
    max_num_batched_tokens: int | None = open_speed(None, "tokens per step", ge=1, le=10**8)
    tensor_parallel_size: int | None = open_speed(
        None, "GPUs for tensor parallelism", ge=1, le=1024
    )
    pipeline_parallel_size: int | None = speed(None, "GPUs for pipeline parallelism", ge=1)
    distributed_executor_backend: str | None = speed(None, "backend of those GPUs' processes")
    enforce_eager: bool | None = open_speed(None, "no CUDA graphs")
    enable_prefix_caching: bool | None = speed(None, "process shared prefixes once")
    enable_chunked_prefill: bool | None = speed(None, "process long prompts in several steps")
    cpu_offload_gb: float | None = speed(None, "GiB of weights kept in CPU memory", ge=0)
    mm_processor_cache_gb: float | None = speed(None, "GiB for processed images", ge=0)
    mm_processor_cache_type: str | None = speed(None, "location of that cache")
    download_dir: str | None = speed(None, "folder of downloaded checkpoints")


class VllmSettings(Checkpoint):
    """Settings of `vllm`."""

    task: Literal["generate", "reward"] = open_shaping(
        "generate", "reward: a checkpoint with a linear reward head"
    )
    output: int | None = open_shaping(
        None, "which of a head's several outputs is the reward, from 0", ge=0, le=10**6
    )
    engine_args: VllmFlags = open_shaping(VllmFlags(), "vLLM's flags by their Python names")
    max_pixels: int | None = open_shaping(None, "larger images are downscaled", ge=1, le=10**9)
    score_at: ScoreAt = open_shaping("end", "token at which the reward is read")
    chat_template_kwargs: TemplateValues = _template_values()


Names = Annotated[list[Name], Field(max_length=MAX_ITEMS)]
EndpointName = Literal["plain", "openai", "vllm", "anthropic", "gemini"]


class Capabilities(EngineSettings):
    """What an endpoint can do."""

    n: bool = shaping(False, "several samples of one request")
    logprobs: bool = shaping(False, "log-probabilities")
    top_logprobs: int = shaping(20, "alternatives at each token", ge=0)
    seed: Literal["none", "loose", "exact"] = shaping(
        "none", "loose: taken, guarantees little; exact: the i-th sample draws with seed + i"
    )
    structured_output: bool = shaping(False, "takes a response_format")
    sampling_extras: bool = shaping(False, "takes top_k and explicit penalties")
    both_cuts: bool = shaping(True, "takes top_p together with temperature")
    prompt_logprobs: bool = shaping(False, "log-probabilities of a given text")
    classify: bool = shaping(False, "vLLM's /classify and /score, for reward heads and rerankers")
    max_temperature: float = shaping(2.0, "the highest temperature", ge=0)
    max_tokens_field: str = shaping("max_tokens", "its name for the limit on a reply's length")
    thinking_field: str = shaping("", "its name for the limit on thinking; empty: it has none")


ENDPOINTS: dict[EndpointName, Capabilities] = {
    "plain": Capabilities(),
    "openai": Capabilities(
        n=True,
        logprobs=True,
        seed="loose",
        structured_output=True,
        max_tokens_field="max_completion_tokens",
    ),
    "vllm": Capabilities(
        n=True,
        logprobs=True,
        seed="exact",
        structured_output=True,
        sampling_extras=True,
        prompt_logprobs=True,
        classify=True,
        thinking_field="thinking_token_budget",
    ),
    # Its compatible layer ignores n, logprobs, response_format and seed, and caps temperature.
    "anthropic": Capabilities(max_temperature=1.0, both_cuts=False),
    "gemini": Capabilities(structured_output=True),
}
HOSTS: dict[str, EndpointName] = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gemini",
}


PROTOCOL_FIELDS = (
    "model", "messages", "n", "stream", "stream_options", "seed", "temperature", "top_p", "stop",
    "max_tokens", "max_completion_tokens", "logprobs", "top_logprobs", "response_format",
    "chat_template_kwargs", "queries", "documents", "prompt_logprobs",
)  # fmt: skip
"""Fields of a request that follow from the card and its design."""


class OpenAISettings(EngineSettings):
    """Settings of `openai`."""

    # Endpoints may serve different models under the same name.
    base_url: Location = open_shaping(..., "the endpoint's address, up to /v1")
    model: str = shaping(..., "the card's `model`")
    api_key_env: str | None = speed(
        "OPENAI_API_KEY", "environment variable with the key; null for none"
    )
    endpoint: EndpointName | None = shaping(
        None, "profile of the endpoint; by default from its host"
    )
    capabilities: Capabilities = shaping(Capabilities(), "corrections of the profile")
    served_as: Name | Names | None = open_speed(
        None, "other names in replies that stand for `model`"
    )
    spending_cap: float | None = speed(
        None, "US dollars for this model after which the run stops; the card needs a `cost`", gt=0
    )
    response_format: dict[str, Any] | None = shaping(
        None, "structured output, in the endpoint's format"
    )
    concurrency: int = open_speed(8, "requests in flight initially", ge=1, le=4096)
    max_concurrency: int = open_speed(64, "maximum requests in flight", ge=1, le=4096)
    timeout: float = open_speed(300.0, "timeout of a request in seconds", gt=0, le=3600)
    retries: int = open_speed(6, "retries after 429, 5xx or a broken connection", ge=0, le=100)
    retry_wait: float = speed(1.0, "seconds before the first retry, doubled each time", ge=0)
    chat_template_kwargs: TemplateValues = _template_values()
    extra_body: dict[str, Any] = shaping({}, "additional fields of every request")

    @property
    def kind(self) -> EndpointName:
        """The profile of the endpoint."""
        return self.endpoint or HOSTS.get(urlsplit(self.base_url).hostname or "", "plain")

    @property
    def can(self) -> Capabilities:
        """The profile's capabilities, corrected."""
        changes = self.capabilities.model_dump(exclude_unset=True)
        return ENDPOINTS[self.kind].model_copy(update=changes)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not is_address(self.base_url):
            fix = "such as http://localhost:8000/v1"
            raise BonError(f"base_url {self.base_url!r} is not a URL", fix)
        parts = urlsplit(self.base_url)
        if parts.username or parts.password or parts.query:
            raise BonError("base_url holds credentials or a query", "put the key in api_key_env")
        owned = {*PROTOCOL_FIELDS, self.can.max_tokens_field, self.can.thinking_field}
        if taken := sorted(owned.intersection(self.extra_body)):
            fix = "leave it out: the card's own settings say it (sampling, n, votes)"
            raise BonError(f"extra_body.{taken[0]} is a field that bon sets", fix)
        unable = f"endpoint {parts.hostname} ({self.kind}) does not support"
        if self.chat_template_kwargs and self.kind not in ("vllm", "plain"):
            fix = "switch thinking by its own field, e.g. extra_body: {reasoning_effort: none}"
            raise BonError(f"{unable} chat_template_kwargs", fix)
        if self.response_format is not None and not self.can.structured_output:
            fix = "drop it, or capabilities: {structured_output: true}"
            raise BonError(f"{unable} response_format", fix)
        return self
