"""Which spec the rows of a run are filed under, where that is not what their card gives today.

A run remembers in its meta `specs`: spec of the card without its code -> {spec: filed under}, the
latest last. It differs from the spec itself in runs of version 0.1, whose specs depended on
settings that shape nothing (a spending cap) and not on the code of python rewarders: their rows
are gone on with, not asked for again.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bon.core.errors import BonError
from bon.experiment.cards import Loaded
from bon.running.commits import at_commits
from bon.running.progress import say
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


def say_changed_code(setup: Setup, store: Store, *, quiet: bool) -> None:
    """Tell the user which rewarders judge again because their code is another."""
    known: Known = store.meta("specs", {})
    for rewarder in setup.rewarders:
        before = list(known.get(rewarder.specs.card, {}).values())[-1:]
        if before and before != [rewarder.spec]:
            old, new = (
                store.count(
                    "judgements",
                    "spec = ? AND item IN (SELECT key FROM questions WHERE active > 0"
                    " UNION SELECT key FROM pairs WHERE active > 0)",
                    (spec,),
                )
                for spec in (*before, rewarder.spec)
            )
            if old > new:
                again = f"{old - new} judgements are made again"
                say(f"{rewarder.card.name}: its code changed: {again}", quiet=quiet)


def _known(setup: Setup, store: Store) -> Known:
    """What the run remembers, completed for models that it has no memory of."""
    remembered: Mapping[str, dict[str, str]] | None = store.meta("specs")
    known = {card: dict(mine) for card, mine in (remembered or {}).items()}
    # What 0.1 filed the rows under follows from the cards as they were then.
    models = [*(_models_before(store) if remembered is None else ()), *setup.models]
    for loaded in models:
        if loaded.specs.card not in known:
            possible = (loaded.own_spec, loaded.specs.legacy, loaded.specs.card)
            held = (spec for spec in possible if store.has(loaded.table, "spec = ?", (spec,)))
            known[loaded.specs.card] = {loaded.own_spec: next(held, loaded.own_spec)}
    return known


def _models_before(store: Store) -> list[Model]:
    raw, base = store.meta("experiment"), store.meta("base")
    if raw is None or base is None:
        return []
    try:
        return list(prepare(raw, Path(base)).models)
    except BonError:  # a card that is gone; what goes on is found by today's cards
        return []
