"""What is known of the endpoints that speak OpenAI's protocol, and of how they name models."""

import re
from typing import Literal

from bon.engines.fields import EngineSettings, setting

EndpointName = Literal["plain", "openai", "vllm", "anthropic", "gemini"]


class TokenPrice(EngineSettings):
    """US dollars per million tokens."""

    input_per_million: float = setting(0.0, "of the prompt", shapes=False, ge=0)
    output_per_million: float = setting(0.0, "of the reply", shapes=False, ge=0)


class Capabilities(EngineSettings):
    """What an endpoint can do."""

    n: bool = setting(False, "several samples of one request", shapes=True)
    logprobs: bool = setting(False, "log-probabilities", shapes=True)
    top_logprobs: int = setting(20, "alternatives at each token", shapes=True, ge=0)
    seed: Literal["none", "loose", "exact"] = setting(
        "none",
        "loose: taken, guarantees little; exact: the i-th sample draws with seed + i",
        shapes=True,
    )
    structured_output: bool = setting(False, "takes a response_format", shapes=True)
    sampling_extras: bool = setting(False, "takes top_k and explicit penalties", shapes=True)
    both_cuts: bool = setting(True, "takes top_p together with temperature", shapes=True)
    prompt_logprobs: bool = setting(False, "log-probabilities of a given text", shapes=True)
    classify: bool = setting(
        False, "vLLM's /classify and /score, for reward heads and rerankers", shapes=True
    )
    max_temperature: float = setting(2.0, "the highest temperature", shapes=True, ge=0)
    max_tokens_field: str = setting(
        "max_tokens", "its name for the limit on a reply's length", shapes=True
    )
    thinking_field: str = setting(
        "", "its name for the limit on thinking; empty: it has none", shapes=True
    )


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
HOSTS: dict[str, tuple[EndpointName, str]] = {
    "api.openai.com": ("openai", "OPENAI_API_KEY"),
    "api.anthropic.com": ("anthropic", "ANTHROPIC_API_KEY"),
    "generativelanguage.googleapis.com": ("gemini", "GEMINI_API_KEY"),
}
"""Host -> what it is, and the environment variable that its key is usually in."""

_VARIANT = re.compile(r":(?:latest|free|nitro|floor|exacto|online|extended|beta)$")  # OpenRouter
_BEDROCK = re.compile(r"^(?:[a-z-]+\.){1,2}(?=[a-z])|-v\d+:\d+$")  # us.anthropic.NAME-v1:0
_MONTH, _DAY = r"(?:0[1-9]|1[0-2])", r"(?:[0-2]\d|3[01])"
_SNAPSHOT = re.compile(
    rf"[-@](20\d\d-?{_MONTH}-?{_DAY}|{_MONTH}-20\d\d|2\d{_MONTH}(?:{_DAY})?|{_MONTH}{_DAY}"
    r"|0\d\d|latest|default)$"
)


def is_same_model(requested: str, served: str) -> bool:
    """Whether both name one model: equal, or one a dated snapshot of the other.

    Providers' prefixes (openai/, us.anthropic.), case, and dots for hyphens do not count, nor do a
    path before a folder's name, as vLLM serves it, and the routes of OpenRouter (:free). Two dates
    have to agree.
    """
    if requested == served:
        return True
    (name, date), (other_name, other_date) = _parts(requested), _parts(served)
    return name == other_name and (date == other_date or not date or not other_date)


def _parts(name: str) -> tuple[str, str]:
    """Return a model's name without its snapshot, and the snapshot's date or number."""
    name = _VARIANT.sub("", name.lower().rstrip("/").rpartition("/")[2])
    name = re.sub(r"[._]", "-", _BEDROCK.sub("", name))
    snapshot = _SNAPSHOT.search(name)
    if snapshot is None:
        return name, ""
    date = snapshot[1].replace("-", "")
    return name[: snapshot.start()], "" if date in ("latest", "default") else date
