"""Pin models without a `revision` to the hub commit at which a run first loads them.

A branch moves: a run that continues a month later would mix two models under one name. The commit
is stored in the run and is part of no key, unlike `revision` on the card.
"""

import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from bon.core.console import say
from bon.engines import ENGINES, serves
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
        and (card.engine != "openai" or serves(card.engine_args))
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
    names = {model.card.name for model in unpinned(setup.models)} if commits else set()

    def pin(model: Loaded[Any]) -> Loaded[Any]:
        commit = commits.get(model.card.model) if model.card.name in names else None
        if commit is None:
            return model
        return replace(model, card=model.card.model_copy(update={"revision": commit}))

    return setup.map_models(pin)
