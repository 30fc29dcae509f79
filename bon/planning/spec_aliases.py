"""The specs under which a run stores rows, where they differ from those of the current cards.

A run stores in its meta `specs`: spec of the card without code -> {spec: spec of the rows}, the
latest last.

A card that changed since the run last started is absent there: a continued run asks again, and one
that is only read shows the existing rows of the model of that name.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from bon.core.console import say
from bon.experiment.cards import Loaded
from bon.planning.hub_revisions import with_commits
from bon.planning.setup import Setup
from bon.storage.store import Store

Model = Loaded[Any]
Aliases = dict[str, dict[str, str]]


def with_stored_specs(setup: Setup, store: Store, *, running: bool = False) -> Setup:
    """Return the experiment with every model under the spec of its rows and its stored commit.

    A rewarder whose code changed gets its new spec if the run continues, else that of its rows.
    """
    aliases = _aliases(setup, store)

    def resolve(model: Model) -> Model:
        specs = aliases[model.specs.card]
        default = model.own_spec if running else list(specs.values())[-1]
        return replace(model, filed=specs.get(model.own_spec, default))

    return with_commits(setup.map_models(resolve), store)


def save_specs(setup: Setup, store: Store) -> None:
    """Store the specs of the models of a starting run."""
    aliases = _aliases(setup, store)
    for model in setup.models:
        specs = aliases[model.specs.card]
        specs.pop(model.own_spec, None)
        specs[model.own_spec] = model.spec
    store.set_meta(specs=aliases)


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
            what = "card" if model.specs.card not in store.meta("specs", {}) else "code"
            again = f"{old - new} {model.table} are made again"
            say(f"{model.card.name}: its {what} changed: {again}", quiet=quiet)


def changed_models(setup: Setup, store: Store) -> list[str]:
    """Return the models whose rows are from another card or other code than the current one."""
    return [model.card.name for model, _ in _changed(setup, store)]


def _changed(setup: Setup, store: Store) -> Iterator[tuple[Model, str]]:
    """Yield each changed model with the spec of its rows."""
    aliases = _aliases(setup, store)
    for model in setup.models:
        specs = aliases[model.specs.card]
        if model.own_spec not in specs:
            yield model, list(specs.values())[-1]


def _aliases(setup: Setup, store: Store) -> Aliases:
    """Return the stored specs, completed for models without any."""
    stored: Mapping[str, dict[str, str]] = store.meta("specs", {})
    aliases = {card: dict(specs) for card, specs in stored.items()}
    for model in setup.models:
        if model.specs.card in aliases:
            continue
        possible = (model.own_spec, model.specs.card)
        existing = [spec for spec in possible if store.has(model.table, "spec = ?", (spec,))]
        spec = None if existing or model.card.brought else _spec_by_name(model, store)
        aliases[model.specs.card] = (
            {spec: spec} if spec else {model.own_spec: (*existing, model.own_spec)[0]}
        )
    return aliases


def _spec_by_name(model: Model, store: Store) -> str | None:
    """Return the spec of most rows of a model of this name."""
    column = "policy" if model.table == "candidates" else "rewarder"
    rows = store.query(
        f"SELECT spec FROM {model.table} WHERE {column} = ? GROUP BY spec "
        "ORDER BY COUNT(*) DESC LIMIT 1",
        (model.card.name,),
    )
    return rows[0][0] if rows else None
