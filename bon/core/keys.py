"""Content keys. Ids are labels: VL-RewardBench has 1,225 ids for 1,250 rows."""

import json
from collections.abc import Iterable
from hashlib import sha256
from json.encoder import encode_basestring
from typing import Any


def content_key(*parts: Any) -> str:
    """Hash JSON-serialisable parts to 24 hex digits."""
    return _digest(_json(parts))


def content_keys(*parts: Any, last: Iterable[Any]) -> list[str]:
    """Return `content_key(*parts, value)` for every value of `last`."""
    prefix = "[" + "".join([f"{_json(part)}," for part in parts])
    return [_digest(f"{prefix}{_json(value)}]") for value in last]


def item_seed(*parts: Any) -> int:
    """Return the item's seed, independent of batching and sharding.

    It is below 2**31 - 2**16, so that a few thousand consecutive seeds fit 31 bits.
    """
    return _seed(content_key("seed", *parts))


def item_seeds(*parts: Any, last: Iterable[Any]) -> list[int]:
    """Return `item_seed(*parts, value)` for every value of `last`."""
    return [_seed(key) for key in content_keys("seed", *parts, last=last)]


def _seed(key: str) -> int:
    return int(key[:12], 16) % (2**31 - 2**16)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _json(part: Any) -> str:
    """Equal `json.dumps` in a third of the time for strings and lists."""
    kind = type(part)
    if kind is str:
        return encode_basestring(part)
    if kind is tuple or kind is list:
        items = [encode_basestring(x) if type(x) is str else _json(x) for x in part]
        return f"[{','.join(items)}]"
    if kind is int:
        return str(part)
    return json.dumps(part, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
