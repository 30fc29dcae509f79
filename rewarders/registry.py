"""Rewarder classes by kind, imported on first use.

A user's own class is named as `module:Class`, or by the name under which it is registered.
"""

import hashlib
import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, cast

from bon.core.errors import BonError
from bon.core.registry import Registry
from bon.experiment.config import RewarderCard
from bon.rewarders.base import Rewarder

REWARDERS: Registry[type[Rewarder]] = Registry(
    "rewarder",
    "bon.rewarders",
    lambda part: isinstance(part, type) and issubclass(part, Rewarder),
    {
        "pairwise": "bon.rewarders.generative:PairwiseJudge",
        "pointwise": "bon.rewarders.generative:PointwiseCritic",
        "scalar": "bon.rewarders.scalar:ScalarHead",
        "likelihood": "bon.rewarders.scalar:MeanLikelihood",
        "listwise": "bon.rewarders.generative:ListwiseJudge",
        "stepwise": "bon.rewarders.stepwise:StepwiseCritic",
        "rerank": "bon.rewarders.scalar:Reranker",
    },
)
"""Rewarder classes by kind, and added ones by the name that a card gives as `python`."""


def rewarder_class(card: RewarderCard) -> type[Rewarder]:
    """Return the class that runs a card, BonError if it cannot be imported."""
    if card.kind in REWARDERS.shipped:
        return REWARDERS[card.kind]
    if card.kind != "python":
        reason = f"card {card.name!r}: kind {card.kind} has no model of its own"
        raise BonError(reason, "name its members' cards")
    target, cls = card.python, cast(Any, None)
    try:
        if ":" in target:
            cls = resolve_name(target)
        elif target in REWARDERS.added:
            cls = REWARDERS[target]
    except (ImportError, AttributeError, ValueError) as error:
        fix = "put its file beside the experiment, or install it (python: module:Class)"
        raise BonError(f"card {card.name!r}: cannot import {target!r} ({error})", fix) from None
    if not REWARDERS.fits(cls):
        fix = "name a subclass of bon.Rewarder as module:Class, or register it under that name"
        raise BonError(f"card {card.name!r}: {target!r} is not a rewarder", fix)
    found: type[Rewarder] = cls
    return found


def registered(card: RewarderCard) -> type[Rewarder] | None:
    """Return the class of a card that names a registered one, which workers cannot import."""
    return rewarder_class(card) if card.kind == "python" and ":" not in card.python else None


def card_of(rewarder: type[Rewarder]) -> dict[str, Any]:
    """Register a user's class that needs no engine, and return a card for it."""
    name = rewarder.__name__
    REWARDERS.add(name, rewarder)
    return {"name": name, "kind": "python", "python": name, "engine": "none"}


def code_hash(card: RewarderCard) -> str:
    """Hash the module of a python rewarder's class, or the class alone if it is in a notebook.

    Empty for bon's own classes: the run records bon's version, and refactoring them must not
    invalidate judgements.
    """
    if card.kind != "python":
        return ""
    cls = rewarder_class(card)
    module = sys.modules[cls.__module__]
    if module.__name__.partition(".")[0] == "bon":
        return ""
    if file := getattr(module, "__file__", None):
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    parts = []  # the byte code of its methods: there is no source text
    for name, method in sorted(vars(cls).items()):
        if (code := getattr(method, "__code__", None)) is not None:
            # Nested code objects (comprehensions) print their address: take their code instead.
            constants = [repr(getattr(const, "co_code", const)) for const in code.co_consts]
            parts.append(f"{name}{code.co_code!r}{code.co_names}{constants}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
