"""At which commit of the hub a model without a `revision` is loaded: looked up once, then kept.

A branch moves. A run that was begun with one commit and goes on a month later with another would
mix two models under one name, so the commit is written down in the run before a model is first
loaded. It is part of no key: `revision` on the card is, for who wants another commit to be
another model.
"""

import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from bon.core.errors import BonError
from bon.engines.settings import settings_of
from bon.experiment.cards import Loaded
from bon.experiment.yamlfile import read_yaml
from bon.running.catalogue import find_card
from bon.running.saying import say
from bon.running.setup import Setup, read_experiment, shipped_experiments
from bon.running.store import Store

Model = Loaded[Any]
TIMEOUT = 5.0
_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


def unpinned(models: Iterable[Model]) -> list[Model]:
    """Those that the hub holds and whose card names no revision."""
    return [
        one
        for one in models
        if not (one.card.revision or one.card.brought)
        and "revision" in settings_of(one.card.engine).model_fields
        and _ID.fullmatch(one.card.model)
        and one.model_path == one.card.model  # not a folder
    ]


def commit_on_hub(model: str) -> str | None:
    """The commit of a model's main branch: on the hub, or in the cache where that is offline."""
    try:
        from huggingface_hub import HfApi, constants
        from huggingface_hub.file_download import repo_folder_name

        try:
            api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
            commit: str | None = api.model_info(model, timeout=TIMEOUT).sha
            return commit
        except Exception:  # no network, no such model, no access: what loads it says which
            folder: str = repo_folder_name(repo_id=model, repo_type="model")
            return (Path(constants.HF_HUB_CACHE) / folder / "refs" / "main").read_text().strip()
    except (ImportError, OSError):
        return None


def keep_commits(setup: Setup, store: Store, *, quiet: bool = False) -> None:
    """Look up and write down what the run does not know yet; a model that it asked stays at
    what it was loaded at then."""
    known: dict[str, str] = store.meta("commits", {})
    engines = store.meta("engines", {})
    loose = [one for one in unpinned(setup.models) if one.card.model not in known]
    asked = [one for one in loose if store.has(one.table, "spec = ?", (one.spec,))]
    found = {one.card.model: engines.get(one.card.name, {}).get("commit") for one in asked}
    new = sorted({one.card.model for one in loose} - found.keys())
    with ThreadPoolExecutor(8) as pool:
        found |= zip(new, pool.map(commit_on_hub, new), strict=True)
    there = {model: commit for model, commit in found.items() if commit}
    if there:
        store.set_meta(commits={**known, **there})
        shown = ", ".join(f"{model} {commit[:12]}" for model, commit in there.items())
        say(f"no revision on the card, so this run keeps to {shown}", quiet=quiet)


def at_commits(setup: Setup, store: Store) -> Setup:
    """The experiment with each model at the commit that the run keeps it at."""
    known: dict[str, str] = store.meta("commits", {})
    loose = {id(one) for one in unpinned(setup.models)} if known else set()

    def at(one: Model) -> Model:
        commit = known.get(one.card.model) if id(one) in loose else None
        return (
            replace(one, card=one.card.model_copy(update={"revision": commit})) if commit else one
        )

    return replace(
        setup,
        policies=tuple(map(at, setup.policies)),
        rewarders=tuple(map(at, setup.rewarders)),
    )


def pins(name: str) -> list[tuple[str, str]]:
    """(card, its commit today) of a card, or of the cards of an experiment, without a revision.

    Raises:
        BonError: the hub cannot be asked.
    """
    if name in shipped_experiments() or _is_experiment(Path(name)):
        models = read_experiment(Path(name)).models
    else:
        models = [find_card(name, Path())]
    found = []
    for one in unpinned(models):
        commit = commit_on_hub(one.card.model)
        if commit is None:
            raise BonError(
                f"card {one.card.name!r}: the hub did not say at which commit {one.card.model} is",
                "check the network (bon doctor), the model's name, and HF_TOKEN for a private one",
            )
        found.append((one.card.name, commit))
    return found


def _is_experiment(path: Path) -> bool:
    return path.suffix in (".yaml", ".yml") and "policies" in read_yaml(path)
