"""What keeps models from running and can be known before they are started.

A run refuses it all before Ray starts or anything is paid for; a plan warns of it.
"""

import os
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bon.core.errors import BonError
from bon.engines.settings import OpenAISettings, read_settings
from bon.experiment.cards import Loaded
from bon.experiment.config import Card, PolicyCard, RewarderCard
from bon.experiment.prompts import absent
from bon.experiment.refusals import together
from bon.running.setup import Setup
from bon.running.worker import engine_arguments

NOTICE = timedelta(days=60)
"""How long before a model's retirement it is warned of."""

_PACKAGES = {"transformers": ("torch", "transformers"), "vllm": ("vllm",), "openai": ("httpx",)}
"""Engine -> what must be installed; the extra of the same name installs it."""

_GPUS = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/dri/renderD*", "/dev/dxg", "/dev/accel*")
"""Where Linux shows GPUs of any make."""


def check_models(setup: Setup, models: Iterable[str], *, here: bool) -> None:
    """Raise all that keeps these models from running; `here`: on this machine."""
    found = mistakes(setup, models, here=here)
    if found:
        raise together(found)


def mistakes(setup: Setup, models: Iterable[str], *, here: bool) -> list[BonError]:
    """What keeps these models from running, each with its fix."""
    names = set(models)
    loaded = [model for model in setup.models if model.card.name in names]
    of_models = (found for model in loaded for found in _of_model(setup, model, here))
    return [*unpulled(loaded), *of_models]


def unpulled(models: Iterable[Loaded[Any]]) -> list[BonError]:
    """The one command that pulls every published prompt these models lack, if they lack any."""
    lacking = [model for model in models if model.prompt.unpulled]
    wanted = [name for model in lacking for name in model.prompt.unpulled]
    return [absent(wanted, [model.card.name for model in lacking])] if wanted else []


def _of_model(
    setup: Setup, model: Loaded[PolicyCard] | Loaded[RewarderCard], here: bool
) -> Iterator[BonError]:
    card: Card = model.card
    if card.retires is not None and card.retires <= date.today():
        yield BonError(
            f"card {card.name!r}: {card.model} was retired on {card.retires}; its requests fail "
            "or another model answers them",
            "take a newer card (bon list), or set retires: null if it is served where base_url is",
        )
    try:
        arguments = engine_arguments(
            card, model.model_path, remote_code=setup.experiment.allow_remote_code
        )
    except BonError as error:
        yield error
        return
    if not here or card.placement.runtime_env:
        return  # the workers' machines have what they have
    missing = [name for name in _PACKAGES.get(card.engine, ()) if find_spec(name) is None]
    if missing:
        yield BonError(
            f"card {card.name!r}: engine {card.engine} needs the package {missing[0]}",
            f"pip install 'bon[{card.engine}]'",
        )
    settings = read_settings(card.engine, arguments)
    key = settings.api_key_env if isinstance(settings, OpenAISettings) else None
    if key and not os.environ.get(key, "").strip():
        yield BonError(
            f"card {card.name!r}: the environment variable {key} with the key is not set",
            f"export {key}=... (or engine_args.api_key_env: null where none is needed)",
        )
    if card.placement.gpus and not has_gpu():
        yield BonError(
            f"card {card.name!r} wants {card.placement.gpus:g} GPU per actor "
            "and this machine has none",
            "set placement.gpus: 0, or use a cluster with --ray-address",
        )


def retiring(setup: Setup, models: Iterable[str]) -> list[str]:
    """A line on each of these models whose vendor is about to retire it."""
    names, today = set(models), date.today()
    cards = [model.card for model in setup.models if model.card.name in names]
    return [
        f"{card.name}: {card.model} retires on {card.retires}, in {(card.retires - today).days} "
        "days: finish before, or take a newer card"
        for card in cards
        if card.retires is not None and today < card.retires <= today + NOTICE
    ]


def has_gpu() -> bool:
    """Whether this machine shows a GPU, without asking a driver."""
    return any(any(Path("/").glob(pattern[1:])) for pattern in _GPUS)
