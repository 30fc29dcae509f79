"""How fast models were in earlier runs on this machine: a plan rests on it where there are any."""

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bon.core.errors import BonError
from bon.experiment.cards import Loaded
from bon.experiment.config import Experiment
from bon.running.database import DATABASE
from bon.running.store import Store

LEAST_ROWS = 20
MOST_RUNS = 30


@dataclass(frozen=True)
class Speed:
    """Seconds of a worker per judgement or candidate, and the run that says so."""

    seconds: float
    run: str


def where(experiment: Experiment) -> str:
    """The machine, or the Ray cluster, that a run of this experiment works on."""
    return experiment.cluster.address or platform.node()


def measured(models: Sequence[Loaded[Any]], experiment: Experiment, out: Path) -> dict[str, Speed]:
    """Of each model that a run beside `out`, or `out` itself, has asked under the same settings.

    The latest run of this machine counts, `out` before all.
    """
    found: dict[str, Speed] = {}
    for directory in _runs(out):
        missing = [one for one in models if one.card.name not in found]
        if not missing:
            break
        try:
            with Store(directory, readonly=True) as store:
                if store.meta("machine") == where(experiment):
                    for loaded in missing:
                        found |= _speed(store, loaded)
        except BonError:  # not a run of this version, or damaged
            continue
    return found


def _speed(store: Store, loaded: Loaded[Any]) -> dict[str, Speed]:
    ((rows, seconds),) = store.query(
        f"SELECT COUNT(*), TOTAL(seconds) FROM {loaded.table} "
        "WHERE spec = ? AND outcome != 'error'",
        (loaded.spec,),
    )
    if rows < LEAST_ROWS or not seconds:
        return {}
    return {loaded.card.name: Speed(seconds / rows, str(store.directory))}


def _runs(out: Path) -> Iterator[Path]:
    if (out / DATABASE).is_file():
        yield out
    others = [file for file in out.parent.glob(f"*/{DATABASE}") if file.parent != out]
    others.sort(key=lambda file: file.stat().st_mtime, reverse=True)
    yield from (file.parent for file in others[:MOST_RUNS])
