"""Which spec the rows of a run are filed under, where that is not what their card gives today.

A run remembers in its meta `specs`: spec of the card without its code -> {spec: filed under}, the
latest last. It differs from the spec itself in runs of version 0.1, whose specs depended on
settings that shape nothing (a spending cap) and not on the code of python rewarders: their rows
are gone on with, not asked for again.

A card that is another one since the run was last started (a shipped card of a newer version, an
edited file) has no memory there: a run that goes on asks again, and one that is only read shows
what was asked of the model of this name then.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bon.core.errors import BonError
from bon.experiment.cards import Loaded
from bon.running.commits import at_commits
from bon.running.saying import say
from bon.running.setup import Setup, prepare
from bon.running.store import Store

Model = Loaded[Any]
Known = dict[str, dict[str, str]]


def filed(setup: Setup, store: Store, *, running: bool = False) -> Setup:
    """The experiment with each model under the spec of its rows, at the commit of this run.

    A rewarder whose code has changed since is under its new spec when it is `running`, and under
    the one that it was judged by when the run is only read.
    """
    known = _known(setup, store)

    def under(loaded: Model) -> Model:
        mine = known[loaded.specs.card]
        latest = list(mine.values())[-1]
        return replace(
            loaded, filed=mine.get(loaded.own_spec, loaded.own_spec if running else latest)
        )

    found = replace(
        setup,
        policies=tuple(map(under, setup.policies)),
        rewarders=tuple(map(under, setup.rewarders)),
    )
    return at_commits(found, store)


def remember(setup: Setup, store: Store) -> None:
    """Write down what the models of a run that starts are filed under."""
    known = _known(setup, store)
    for loaded in setup.models:
        mine = known[loaded.specs.card]
        mine.pop(loaded.own_spec, None)
        mine[loaded.own_spec] = loaded.spec
    store.set_meta(specs=known)


def say_changed(setup: Setup, store: Store, *, quiet: bool) -> None:
    """Tell the user which models are asked again because their card or their code is another."""
    for loaded, before in _changed(setup, store):
        item = "question" if loaded.table == "candidates" else "item"
        old, new = (
            store.count(
                loaded.table,
                f"spec = ? AND {item} IN (SELECT key FROM questions WHERE active > 0"
                " UNION SELECT key FROM pairs WHERE active > 0)",
                (spec,),
            )
            for spec in (before, loaded.own_spec)
        )
        if old > new:
            what = "card" if loaded.specs.card not in store.meta("specs", {}) else "code"
            again = f"{old - new} {loaded.table} are made again"
            say(f"{loaded.card.name}: its {what} changed: {again}", quiet=quiet)


def changed(setup: Setup, store: Store) -> list[str]:
    """The models whose rows were asked with another card, or by other code, than today's."""
    return [loaded.card.name for loaded, _ in _changed(setup, store)]


def _changed(setup: Setup, store: Store) -> Iterator[tuple[Model, str]]:
    """Each such model with the spec of its rows."""
    known = _known(setup, store)
    for loaded in setup.models:
        mine = known[loaded.specs.card]
        if loaded.own_spec not in mine:
            yield loaded, list(mine.values())[-1]


def _known(setup: Setup, store: Store) -> Known:
    """What the run remembers, completed for models that it has no memory of."""
    remembered: Mapping[str, dict[str, str]] | None = store.meta("specs")
    known = {card: dict(mine) for card, mine in (remembered or {}).items()}
    # What 0.1 filed the rows under follows from the cards as they were then.
    models = [*(_models_before(store) if remembered is None else ()), *setup.models]
    for loaded in models:
        if loaded.specs.card not in known:
            possible = (loaded.own_spec, loaded.specs.legacy, loaded.specs.card)
            held = [spec for spec in possible if store.has(loaded.table, "spec = ?", (spec,))]
            before = () if held or loaded.card.brought else _by_name(loaded, store)
            known[loaded.specs.card] = {
                **{spec: spec for spec in before},
                **({} if before else {loaded.own_spec: (*held, loaded.own_spec)[0]}),
            }
    return known


def _by_name(loaded: Model, store: Store) -> tuple[str, ...]:
    """What most rows of a model of this name are filed under, if there are any."""
    column = "policy" if loaded.table == "candidates" else "rewarder"
    counts = f"SELECT spec FROM {loaded.table} WHERE {column} = ? GROUP BY spec ORDER BY COUNT(*)"
    rows = store.query(f"{counts} DESC LIMIT 1", (loaded.card.name,))
    return tuple(spec for (spec,) in rows)


def _models_before(store: Store) -> list[Model]:
    raw, base = store.meta("experiment"), store.meta("base")
    if raw is None or base is None:
        return []
    try:
        return list(prepare(raw, Path(base)).models)
    except BonError:  # a card that is gone; what goes on is found by today's cards
        return []
