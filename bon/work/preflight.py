"""Problems that prevent models from running, found before they start."""

import os
from collections.abc import Container, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from bon.core.errors import BonError, some
from bon.core.validation import together
from bon.engines import ENGINES
from bon.engines.settings import OpenAISettings
from bon.experiment.cards import Loaded, settings_of
from bon.experiment.config import Card, PolicyCard, RewarderCard
from bon.experiment.prompts import absent
from bon.work.setup import Setup

_GPUS = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/dri/renderD*", "/dev/dxg", "/dev/accel*")
"""GPU devices of all vendors on Linux."""


def check_models(setup: Setup, models: Iterable[str], *, here: bool) -> None:
    """Raise everything that prevents these models from running; `here`: on this machine."""
    if errors := mistakes(setup, models, here=here):
        raise together(errors)


def mistakes(setup: Setup, models: Iterable[str], *, here: bool) -> list[BonError]:
    """Return the errors that prevent these models from running, each once for all its cards."""
    names = set(models)
    loaded = [model for model in setup.models if model.card.name in names]
    cards: dict[tuple[str, str], list[str]] = {}
    for model in loaded:
        for error in _check_model(setup, model, here):
            problem = error.message.removeprefix(f"card {model.card.name!r}: ")
            cards.setdefault((problem, error.fix), []).append(repr(model.card.name))
    errors = (
        BonError(f"card{'s' * (len(named) > 1)} {', '.join(named)}: {problem}", fix)
        for (problem, fix), named in cards.items()
    )
    return [*unpulled(loaded), *errors]


def check_axis(axis: str, pairs: Iterable[tuple[str, str]]) -> None:
    """Refuse an axis whose group a reward benchmark lacks; pairs: the benchmark and group of each.

    They are read only if the axis is a group.
    """
    groups: dict[str, set[str]] = {}
    for benchmark, group in pairs if axis.startswith("group:") else ():
        groups.setdefault(benchmark, set()).add(group)
    for benchmark, names in groups.items():
        if axis.removeprefix("group:") not in names:
            raise BonError(
                f"analysis.axis: {benchmark} has no {axis}",
                f"choose macro, overall or one of {some([f'group:{g}' for g in sorted(names)], 8)}",
            )


def reads_text_alone(model: Loaded[Any], *, download: bool = False) -> bool:
    """Return whether a model is known to read no images; `download`: ask the hub if need be."""
    try:
        known = model.checkpoint(download=download)
    except Exception:  # no network, no such model, no access: loading reports which
        return False
    return known is not None and not known.reads_images


def unread_images(
    setup: Setup, with_images: Container[str], *, download: bool = False
) -> list[BonError]:
    """Return an error for each model of text alone; `with_images`: of questions, pairs.

    `download`: ask the hub, once and at the same time, for those of pinned models not known here.
    """
    questions = "questions" in with_images
    what = "questions" if questions else "pairs"
    shown = [
        model
        for model in setup.models
        if (questions or (isinstance(model.card, RewarderCard) and "pairs" in with_images))
        and getattr(model.card, "image_filter", "") != "drop"
    ]
    with ThreadPoolExecutor(max_workers=16) as threads:
        blind = threads.map(
            lambda model: reads_text_alone(
                model, download=download and model.card.revision is not None
            ),
            shown,
        )
        unread = [model.card for model, alone in zip(shown, blind, strict=True) if alone]
    fix = f"take a vision-language model, or {what} without images"
    drop = ", or set image_filter: drop to judge without them"
    return [
        BonError(
            f"card {card.name!r}: {card.model} reads text alone, and {what} have images",
            fix + drop * isinstance(card, RewarderCard),
        )
        for card in unread
    ]


def unpulled(models: Iterable[Loaded[Any]]) -> list[BonError]:
    """Return one error with the command that pulls all missing published prompts, if any."""
    lacking = [model for model in models if model.prompt.unpulled]
    names = [name for model in lacking for name in model.prompt.unpulled]
    return [absent(names, [model.card.name for model in lacking])] if names else []


def _check_model(
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
        settings = settings_of(model, remote_code=setup.experiment.allow_remote_code)
    except BonError as error:
        yield error
        return
    if not here or card.placement.runtime_env.keys() - {"env_vars"}:
        return  # workers have an environment of their own
    if problem := cannot_load(card):
        yield BonError(
            f"card {card.name!r}: {card.model} {problem}",
            "serve it in an environment of its own (engine: openai), or take another card",
        )
    endpoint = settings if isinstance(settings, OpenAISettings) else None
    fixes = {
        name: f"pip install 'bon[{card.engine}]'" for name, *_ in ENGINES[card.engine].packages
    }
    missing = [name for name in fixes if find_spec(name) is None]
    if missing:
        yield BonError(
            f"card {card.name!r}: engine {card.engine} needs the package {missing[0]}",
            fixes[missing[0]],
        )
    key = endpoint.api_key_env if endpoint else None
    if key and not os.environ.get(key, "").strip():
        yield BonError(
            f"card {card.name!r}: the environment variable {key} with the key is not set",
            f"export {key}=... (or engine_args.api_key_env: null where none is needed)",
        )
    if card.placement.gpus and not has_gpu():
        yield BonError(
            f"card {card.name!r}: {card.placement.gpus:g} GPU per actor is needed and this machine "
            "has none",
            "set placement.gpus: 0, or use a cluster with --ray-address",
        )


def cannot_load(card: Card) -> str:
    """Return what the card's engine needs and has not, by the versions that the card names."""
    if not (line := getattr(card.needs, card.engine, None)):
        return ""
    needed = Requirement(line)
    if needed.specifier.contains(found := _version(needed.name), prereleases=True):
        return ""
    return f"needs {line} ({needed.name} here: {found})"


def _version(package: str) -> str:
    """Return the version of a package that is installed here, or the oldest that bon takes."""
    for name in (package, f"{package}-cpu"):
        with suppress(PackageNotFoundError):
            return version(name)
    bounds = (
        one.specifier for one in map(Requirement, requires("bon") or ()) if one.name == package
    )
    return next(each.version for bound in bounds for each in bound if each.operator == ">=")


def has_gpu() -> bool:
    """Return whether this machine has a GPU device, without querying a driver."""
    return any(any(Path("/").glob(pattern[1:])) for pattern in _GPUS)
