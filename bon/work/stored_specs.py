"""The specs of a run's models when it last started, under which its rows are read.

A card or a class whose code has changed since has another spec: a run that continues asks again,
and one that is only read shows what was asked.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bon.core.console import say
from bon.experiment.cards import Loaded
from bon.storage.store import Store
from bon.work.hub_revisions import with_commits
from bon.work.setup import Setup

META = "specs"
"""Spec by name of the model, in the run's meta."""


def with_stored_specs(setup: Setup, store: Store) -> Setup:
    """Return the experiment of a run that is read: at its stored specs and commits."""
    stored: dict[str, str] = store.meta(META, {})

    def resolve(model: Loaded[Any]) -> Loaded[Any]:
        return replace(model, stored=stored.get(model.card.name, ""))

    return with_commits(setup.map_models(resolve), store)


def save_specs(setup: Setup, store: Store) -> None:
    """Store the specs of the models of a starting run."""
    store.set_meta(**{META: {model.card.name: model.own_spec for model in setup.models}})


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
    stored: dict[str, str] = store.meta(META, {})
    for model in setup.models:
        spec = stored.get(model.card.name, model.own_spec)
        if spec != model.own_spec:
            yield model, spec
