"""Kind -> class, imported on first use.

A class of a user's own is named as `module:Class`, or by the name it was registered under.
"""

import hashlib
import sys
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from bon.core.errors import BonError
from bon.core.plugins import Added
from bon.experiment.config import RewarderCard
from bon.rewarders.base import Rewarder

KINDS = {
    "pairwise": "bon.rewarders.pairwise:PairwiseJudge",
    "pointwise": "bon.rewarders.pointwise:PointwiseCritic",
    "scalar": "bon.rewarders.scalar:ScalarHead",
    "likelihood": "bon.rewarders.scalar:MeanLikelihood",
    "listwise": "bon.rewarders.listwise:ListwiseJudge",
    "stepwise": "bon.rewarders.stepwise:StepwiseCritic",
    "rerank": "bon.rewarders.rerank:Reranker",
}
ADDED: Added[type[Rewarder]] = Added("bon.rewarders")
"""Classes of users and of other packages, by the name that a card gives as `python`."""


def code_hash(card: RewarderCard) -> str:
    """Hash of the module that a python rewarder's class is written in, or in a notebook of it.

    Empty for bon's own classes: what those ask changes with the version of bon, which the run
    records, and tidying them up must not make anyone judge again.
    """
    if card.kind != "python":
        return ""
    made = rewarder_class(card)
    module = sys.modules[made.__module__]
    file = getattr(module, "__file__", None)
    if module.__name__.partition(".")[0] == "bon":
        return ""
    code = _written(made) if file is None else Path(file).read_bytes()
    return hashlib.sha256(code).hexdigest()


def _written(made: type[Rewarder]) -> bytes:
    """What the methods of a class do: where its text cannot be had, as in a notebook."""
    parts = []
    for name, method in sorted(vars(made).items()):
        code = getattr(method, "__code__", None)
        if code is not None:
            parts.append(f"{name}{code.co_code!r}{code.co_names}{_plain(code.co_consts)}")
    return "\n".join(parts).encode()


def _plain(constants: tuple[Any, ...]) -> list[str]:
    # A code object among them (a comprehension) shows its address; what it does is its code.
    return [repr(getattr(one, "co_code", one)) for one in constants]


def rewarder_class(card: RewarderCard) -> type[Rewarder]:
    """The class that runs a card, or a BonError that says why it cannot be had."""
    target = card.python if card.kind == "python" else KINDS.get(card.kind)
    if target is None:
        raise BonError(
            f"card {card.name!r}: kind {card.kind} has no model of its own",
            "name its members' cards",
        )
    try:
        if card.kind != "python":
            return _shipped(target)
        module, separator, name = target.partition(":")
        found: Any
        found = getattr(import_module(module), name) if separator else ADDED.get(target)
    except (ImportError, AttributeError) as error:
        raise BonError(
            f"card {card.name!r}: cannot import {target!r} ({error})",
            "put its file beside the experiment, or install it (python: module:Class)",
        ) from None
    if not (isinstance(found, type) and issubclass(found, Rewarder)):
        raise BonError(
            f"card {card.name!r}: {target!r} is not a rewarder",
            "name a subclass of bon.Rewarder as module:Class, or register it under that name",
        )
    return found


@lru_cache
def _shipped(target: str) -> type[Rewarder]:
    """Asked for with every item."""
    module, _, name = target.partition(":")
    found: type[Rewarder] = getattr(import_module(module), name)
    return found


def registered(card: RewarderCard) -> type[Rewarder] | None:
    """The class of a card that names a registered one, which no worker could import by name."""
    named = card.kind == "python" and ":" not in card.python
    return rewarder_class(card) if named else None


def card_of(rewarder: type[Rewarder]) -> dict[str, Any]:
    """A card for a class of one's own that needs no engine; registers it under its name."""
    name = rewarder.__name__
    ADDED.add(name, rewarder)
    return {"name": name, "kind": "python", "python": name, "engine": "none"}
