"""The specs and hub commits of models that a run stores, for when they are others today.

A branch moves: a run that continues a month later would mix two models under one name, so the
commit at which a model without a `revision` is first loaded is stored, and is part of no key. A
card or a class whose code has changed has another spec: a run that continues asks again, and one
that is only read shows what was asked.
"""

import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from bon.core.console import say
from bon.engines import ENGINES
from bon.experiment.cards import Loaded
from bon.storage.store import Store
from bon.work.setup import Setup

TIMEOUT = 5.0
_MODEL_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


def on_hub(model: Loaded[Any]) -> bool:
    """Return whether a model's checkpoint is loaded from the hub."""
    card = model.card
    return bool(
        not card.imported
        and "revision" in ENGINES[card.engine].settings.model_fields
        and _MODEL_ID.fullmatch(card.model)
        and model.model_path == card.model  # not a folder
    )


def unpinned(models: Iterable[Loaded[Any]]) -> list[Loaded[Any]]:
    """Return the models on the hub whose card has no revision."""
    return [model for model in models if on_hub(model) and not model.card.revision]


def commit_on_hub(model: str) -> str | None:
    """Return the commit of a model's main branch on the hub, or offline in the cache."""
    try:
        from huggingface_hub import HfApi, constants
        from huggingface_hub.file_download import repo_folder_name

        try:
            api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
            commit: str | None = api.model_info(model, timeout=TIMEOUT).sha
            return commit
        except Exception:  # no network, no such model, no access: loading reports which
            folder: str = repo_folder_name(repo_id=model, repo_type="model")
            return (Path(constants.HF_HUB_CACHE) / folder / "refs" / "main").read_text().strip()
    except (ImportError, OSError):
        return None


def pin_commits(setup: Setup, store: Store, *, quiet: bool = False) -> None:
    """Store the commits of unpinned models; models with rows keep the commit of their rows."""
    stored: dict[str, str] = store.meta("commits", {})
    engines = store.meta("engines", {})
    new = [model for model in unpinned(setup.models) if model.card.model not in stored]
    commits = {
        model.card.model: engines.get(model.card.name, {}).get("commit")
        for model in new
        if store.has(model.table, "spec = ?", (model.spec,))
    }
    names = sorted({model.card.model for model in new} - commits.keys())
    with ThreadPoolExecutor(8) as pool:
        commits |= zip(names, pool.map(commit_on_hub, names), strict=True)
    if resolved := {model: commit for model, commit in commits.items() if commit}:
        store.set_meta(commits={**stored, **resolved})
        text = ", ".join(f"{model} {commit[:12]}" for model, commit in resolved.items())
        say(f"no revision on the card, so this run keeps to {text}", quiet=quiet)


def with_commits(setup: Setup, store: Store) -> Setup:
    """Return the experiment with every model at the commit stored in the run."""
    commits: dict[str, str] = store.meta("commits", {})
    if not commits:
        return setup
    names = {model.card.name for model in unpinned(setup.models)}

    def pin(model: Loaded[Any]) -> Loaded[Any]:
        commit = commits.get(model.card.model) if model.card.name in names else None
        if commit is None:
            return model
        return replace(model, card=model.card.model_copy(update={"revision": commit}))

    return setup.map_models(pin)


def with_stored_specs(setup: Setup, store: Store) -> Setup:
    """Return the experiment of a run that is read: at its stored specs and commits."""
    stored: dict[str, str] = store.meta("specs", {})

    def resolve(model: Loaded[Any]) -> Loaded[Any]:
        return replace(model, stored=stored.get(model.card.name, ""))

    return with_commits(setup.map_models(resolve), store)


def print_changed(setup: Setup, store: Store, *, quiet: bool) -> None:
    """Print which models are asked again because their card or code changed."""
    for model, spec in _changed(setup, store):
        item = "question" if model.table == "candidates" else "item"
        where = (
            f"spec = ? AND {item} IN (SELECT key FROM questions WHERE active > 0"
            " UNION SELECT key FROM pairs WHERE active > 0)"
        )
        old, new = (store.count(model.table, where, (key,)) for key in (spec, model.own_spec))
        if old > new:
            again = f"{old - new} {model.table} are made again"
            say(f"{model.card.name}: its card or code changed: {again}", quiet=quiet)


def changed_models(setup: Setup, store: Store) -> list[str]:
    """Return the models whose rows are from another card or other code than the current one."""
    return [model.card.name for model, _ in _changed(setup, store)]


def _changed(setup: Setup, store: Store) -> Iterator[tuple[Loaded[Any], str]]:
    """Yield each changed model with the spec of its rows."""
    stored: dict[str, str] = store.meta("specs", {})
    for model in setup.models:
        spec = stored.get(model.card.name, model.own_spec)
        if spec != model.own_spec:
            yield model, spec
