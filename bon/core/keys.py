"""Identity by content. Ids are labels: VL-RewardBench has 1,225 ids for 1,250 rows."""

import json
from collections.abc import Iterable
from hashlib import sha256
from json.encoder import encode_basestring
from typing import Any


def content_key(*parts: Any) -> str:
    """24 hex digits that depend on every part (anything JSON can hold) and on nothing else."""
    return _digest(_json(parts))


def content_keys(*parts: Any, last: Iterable[Any]) -> list[str]:
    """The keys of the same parts with each of these at their end."""
    shared = "[" + "".join([f"{_json(part)}," for part in parts])
    return [_digest(f"{shared}{_json(one)}]") for one in last]


def item_seed(*parts: Any) -> int:
    """A seed that belongs to the item: batching and sharding cannot change it.

    In [0, 2**31 - 2**16), so that a few thousand consecutive seeds still fit 31 bits.
    """
    return _seed(content_key("seed", *parts))


def item_seeds(*parts: Any, last: Iterable[Any]) -> list[int]:
    """The seeds of the same parts with each of these at their end."""
    return [_seed(key) for key in content_keys("seed", *parts, last=last)]


def _seed(key: str) -> int:
    return int(key[:12], 16) % (2**31 - 2**16)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _json(part: Any) -> str:
    """What `json.dumps` gives, in a third of the time for what keys are mostly made of."""
    kind = type(part)
    if kind is str:
        return encode_basestring(part)
    if kind is tuple or kind is list:
        said = [encode_basestring(one) if type(one) is str else _json(one) for one in part]
        return f"[{','.join(said)}]"
    if kind is int:
        return str(part)
    return json.dumps(part, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
