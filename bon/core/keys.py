"""Content keys. Ids are labels: VL-RewardBench has 1,225 ids for 1,250 rows."""

from functools import lru_cache
from hashlib import sha256
from json import JSONEncoder
from typing import Any

# One encoder: `json.dumps` with these settings makes a new one for each call.
_ENCODER = JSONEncoder(
    ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":")
)


def content_key(*parts: Any) -> str:
    """Hash JSON-serialisable parts to 24 hex digits."""
    text = _ENCODER.encode(parts)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


@lru_cache(maxsize=1024)
def text_key(text: str) -> str:
    """Return the key of a response; identical texts are one response."""
    return content_key("text", text)


def item_seed(*parts: Any) -> int:
    """Return the item's seed, independent of batching and sharding.

    It is below 2**31 - 2**16, so that a few thousand consecutive seeds fit 31 bits.
    """
    return int(content_key("seed", *parts)[:12], 16) % (2**31 - 2**16)
