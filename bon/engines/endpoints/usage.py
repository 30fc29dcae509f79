"""How many tokens requests hold and replies report."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

IMAGE_TOKENS = 1500
"""Tokens that an image is taken for."""

_LIMITS = ("max_tokens", "max_completion_tokens")
_MESSAGE_TOKENS = 16
_BYTES_PER_TOKEN = 3
_BEYOND = 1_000_000
"""No endpoint bills so many tokens more than a request can hold."""


class Usage(NamedTuple):
    """Tokens of a reply; `estimated` is what was amiss where they are not the endpoint's count."""

    prompt: float
    completion: float
    estimated: str = ""


def read_usage(body: Mapping[str, Any], usage: Any, completion: int) -> Usage:
    """Return the tokens that the `usage` of a reply to `body` reports.

    What is absent, negative or no number is replaced by our own count (`completion` of the reply),
    and what no request can use by the most that was asked for. Reasoning beside the completion
    counts: some endpoints name it alone, or in the total.
    """
    usage = usage if isinstance(usage, dict) else {}
    named = "prompt_tokens", "completion_tokens", "total_tokens"
    sent, received, total = (read_amount(usage.get(name)) for name in named)
    details = usage.get("completion_tokens_details")
    thought = read_amount(details.get("reasoning_tokens")) if isinstance(details, dict) else None
    amiss = ""
    if sent is None or (received is None and completion):
        amiss = "reports no usable usage: tokens are counted here"
    prompt = count_prompt_tokens(body) if sent is None else sent
    reply = completion if received is None else received
    if received is not None and thought is not None and thought > received:
        reply += thought
    if received is not None and total is not None:
        reply = max(reply, total - prompt)
    if max(prompt, reply) <= _BEYOND:
        return Usage(prompt, reply, amiss)
    most_sent, most_received = most_tokens(body)
    if prompt > most_sent + _BEYOND or reply > most_received + _BEYOND:
        prompt, reply = min(prompt, most_sent), min(reply, most_received)
        amiss = "reports more tokens than a request can hold: what was asked for is counted"
    return Usage(prompt, reply, amiss)


def read_amount(value: Any) -> float | None:
    """Return a number of tokens; None where the value cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value < math.inf else None


def most_tokens(body: Mapping[str, Any]) -> tuple[int, int]:
    """Return the most tokens of a prompt, one per byte, and of its replies, all at their limit."""
    limit = max((int(body[name]) for name in _LIMITS if body.get(name)), default=0)
    return count_prompt_tokens(body, 1), int(body.get("n") or 1) * limit


def count_tokens(text: str, bytes_per_token: int = _BYTES_PER_TOKEN) -> int:
    """Return about how many tokens a text holds."""
    return math.ceil(len(text.encode("utf-8", "replace")) / bytes_per_token)


def count_prompt_tokens(body: Mapping[str, Any], bytes_per_token: int = _BYTES_PER_TOKEN) -> int:
    """Return about how many tokens a request's prompt holds."""
    total = 0
    # Of a request to a reranker, the query and the document.
    for message in body.get("messages") or [body["queries"], body["documents"]]:
        content = message["content"]
        total += _MESSAGE_TOKENS
        for part in [{"text": content}] if isinstance(content, str) else content:
            text = part.get("text")
            total += IMAGE_TOKENS if text is None else count_tokens(text, bytes_per_token)
    return total
